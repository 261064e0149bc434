"""NumPy arrays and torch tensors: functions return the kind of array that they receive.

The library uses operations that have the same name in numpy and torch, so one formula serves both.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from guardband.base import extras

Array: TypeAlias = Any
"""A numpy array or a torch tensor of floating-point numbers."""

ArrayLike: TypeAlias = Any
"""An `Array`, or anything that `numpy.asarray` converts to one (lists, pandas columns, JAX arrays)."""

Index: TypeAlias = Any
"""Rows of an array: a slice, integer indices or booleans."""

Model: TypeAlias = Any
"""A predictor, a torch module, an object with a method `predict`, or a function of x."""


_FLOATS = frozenset((np.dtype(np.float64), np.dtype(np.float32)))
_CONVERT = "Convert text to numbers, and complex numbers to two columns."

DATES = 'Convert dates to numbers in one unit: (t - t[0]) / np.timedelta64(1, "s").'
"""The remedy for dates, whose raw counts would depend on their resolution."""

LARGEST = 2**53
"""The largest integer up to which float64 represents every integer."""


def is_tensor(a: object) -> bool:
    """Whether `a` is a torch tensor. Torch is not imported: if it is not loaded, no object is a tensor."""
    return type(a) is not np.ndarray and isinstance(a, getattr(sys.modules.get("torch"), "Tensor", ()))


def namespace(a: Array) -> ModuleType:
    """The module, `torch` or `numpy`, whose functions act on `a`."""
    return sys.modules["torch"] if is_tensor(a) else np


class Limits(NamedTuple):
    """The limits of a floating-point dtype: machine epsilon, the smallest normal number, and the largest."""

    eps: float
    tiny: float
    max: float


@cache
def _limits(module: ModuleType, dtype: object) -> Limits:
    found = module.finfo(dtype)
    return Limits(float(found.eps), float(found.tiny), float(found.max))


def limits_of(a: Array) -> Limits:
    """The limits of the dtype of an array, cached."""
    return _limits(namespace(a), a.dtype)


def floats(a: ArrayLike, name: str) -> Array:
    """`a` as floating-point numbers: tensors stay tensors (detached), other objects are converted to numpy.

    Data that would lose their meaning as plain numbers are refused: dates, units, names of several columns or
    axes, masked and missing cells, sparse tensors, and integers that float64 cannot represent.
    """
    if type(a) is np.ndarray and a.dtype in _FLOATS and a.dtype.isnative:
        return a  # fast path for the most frequent case
    if is_tensor(a):
        return _floats_of_tensor(a, name)
    _refuse_meaning(a, name)
    given = type(a)
    try:
        a = np.asarray(a)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"`{name}` should be a full array with rows of equal length: {error}") from error
    if holds_dates(a):
        raise TypeError(f"`{name}` should hold real numbers, got dates or durations. {DATES}")
    if getattr(given, "unit", None) is not None or getattr(given, "units", None) is not None:
        raise TypeError(
            f"`{name}` should hold plain numbers, got a {given.__name__} with units. Pass its numbers in one "
            "unit, the same at calibration and prediction."
        )
    if a.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` should hold real numbers, got dtype {a.dtype}. {_CONVERT}")
    refuse_large(a, name)
    if a.dtype.kind != "f" or a.dtype.itemsize > 8:
        return a.astype(np.float64)
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))


def _floats_of_tensor(a: Array, name: str) -> Array:
    if a.is_meta:
        raise TypeError(f"`{name}` should hold numbers, got a tensor on the meta device, which has no data.")
    if a.layout != namespace(a).strided or a.is_nested or a.is_quantized:
        raise TypeError(f"`{name}` should be an ordinary dense tensor. Use .to_dense() or .dequantize().")
    if any(getattr(a, "names", ())):  # in older versions of torch
        raise TypeError(
            f"`{name}` should have unnamed axes, got a tensor with named axes. Use .rename(None)."
        )
    if a.is_complex():
        raise TypeError(f"`{name}` should hold real numbers, got {a.dtype}. {_CONVERT}")
    a = a.detach()
    if a.is_floating_point():
        return a
    refuse_large(to_numpy(a), name)
    return a.double()


def _refuse_meaning(a: ArrayLike, name: str) -> None:
    """Refuse objects whose masks, dates or names `numpy.asarray` would drop."""
    refuse_masked(a, name)
    if isinstance(a, Mapping):
        raise TypeError(
            f"`{name}` should be an array or a frame, got a {type(a).__name__}, whose columns have no "
            "defined order. Pass pandas.DataFrame(columns), or one variable of a dataset."
        )
    if hasattr(a, "tocsr"):
        raise TypeError(f"`{name}` should be a dense array, got a sparse matrix. Use .toarray().")
    if hasattr(a, "dtype") and holds_dates(a):
        raise TypeError(f"`{name}` should hold real numbers, got dates or durations. {DATES}")
    if len(axis_names(a)) > 1 or len(column_names(a)) > 1:
        raise TypeError(
            f"`{name}` is read by position here, so the names in a {type(a).__name__} would be ignored. Put "
            "its columns or axes in the expected order and pass an array: .to_numpy()."
        )


def column_names(a: ArrayLike) -> tuple[str, ...]:
    """The column names of a table (pandas, polars, pyarrow or structured numpy); () for other inputs."""
    if isinstance(a, np.ndarray):
        return a.dtype.names or ()
    known = getattr(a, "column_names", None)
    if known is None and hasattr(a, "dtypes"):
        known = getattr(a, "columns", None)
    return () if known is None or callable(known) else tuple(known)


def axis_names(a: ArrayLike) -> tuple[str, ...]:
    """The names of the axes of an xarray `DataArray` or of `gb.Fields`; () for other inputs."""
    named = hasattr(a, "dims") and (hasattr(a, "coords") or hasattr(a, "coordinates"))
    if not named or isinstance(a, Mapping):
        return ()
    names = tuple(str(name) for name in a.dims)
    return names if len(names) == a.ndim else ("row", *names, "output")


def refuse_masked(a: ArrayLike, name: str) -> None:
    """Refuse an array with masked cells, or a list that contains such an array."""
    if isinstance(a, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(a)
        hits = mask.reshape(len(mask), -1).any(axis=1) if mask.size and mask.ndim else mask.reshape(-1)
    elif isinstance(a, list | tuple) and any(isinstance(part, np.ma.MaskedArray) for part in a):
        hits = np.array([np.ma.getmaskarray(part).any() for part in a])
    else:
        return
    if hits.any():
        row = int(hits.argmax())
        raise ValueError(f"`{name}` should be complete, but row {row} is masked. Omit such rows.")


def refuse_large(a: ArrayLike, name: str) -> None:
    """Refuse integers beyond 2^53, which float64 rounds to their neighbors."""
    if hasattr(a.dtype, "is_integer"):  # polars
        a = a.to_numpy()
    if a.dtype.kind not in ("i", "u") or a.dtype.itemsize < 8 or not len(np.ravel(a)):
        return
    if int(a.max()) > LARGEST or int(a.min()) < -LARGEST:
        raise ValueError(
            f"`{name}` holds integers above 2^53, which float64 cannot represent. Subtract an offset, "
            "such as the first value."
        )


def holds_dates(a: ArrayLike) -> bool:
    """Whether an array or a column holds dates, times or durations, including missing ones (NaT)."""
    dtype = a.dtype
    if hasattr(dtype, "is_temporal"):  # polars
        return bool(dtype.is_temporal())
    if dtype.kind == "O":  # single objects, or an extension type of pandas
        named = str(dtype) != "object" and str(dtype).startswith(("period", "date", "timestamp", "duration"))
        return named or any(map(_is_date, np.ravel(a)))
    return dtype.kind in "mM"


def _is_date(value: object) -> bool:
    dates = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return isinstance(value, dates) or hasattr(value, "year")  # dates of cftime and pandas


def refuse_other_length(a_name: str, a: Array, b_name: str, b: Array) -> None:
    """Refuse arrays of different lengths."""
    if len(a) != len(b):
        raise ValueError(
            f"`{a_name}` and `{b_name}` should have the same number of rows, got {len(a)} and {len(b)}."
        )


def refuse_other_shape(a_name: str, a: Array, b_name: str, b: Array) -> None:
    """Refuse arrays of different shapes."""
    refuse_other_length(a_name, a, b_name, b)
    if a.shape != b.shape:
        raise ValueError(
            f"`{a_name}` should have as many outputs as `{b_name}`, "
            f"got shapes {tuple(a.shape)} and {tuple(b.shape)}."
        )


def rows(a: ArrayLike, name: str) -> Array:
    """`a` with one row per point; only this function converts (n,) to (n, 1)."""
    a = floats(a, name)
    if a.ndim > 1:
        return a
    if a.ndim == 0:
        raise ValueError(
            f"`{name}` should have one row per point, got the single number {a}. Wrap it in a list."
        )
    return a[:, None]


def finite(a: Array, name: str, advice: str = "Correct or omit that row.") -> Array:
    """Return `a`, or raise an error that names its first row with NaN or infinity."""
    if type(a) is np.ndarray and np.logical_and.reduce(np.isfinite(a), axis=None):
        return a
    good = namespace(a).isfinite(a)
    if not bool(good.all()):
        row = int(np.argwhere(~to_numpy(good))[0][0])
        value = "NaN" if bool(namespace(a).isnan(a[row]).any()) else "infinite"
        raise ValueError(f"`{name}` should be finite, but row {row} is {value}. {advice}")
    return a


def at_least(a: Array, smallest: float) -> Array:
    """`a` with smaller values raised to `smallest`, in place if possible; NaN stays NaN."""
    return np.maximum(a, smallest, out=a) if type(a) is np.ndarray else a.clip(min=smallest)


def flat(a: Array) -> Array:
    """`a` with all axes but the first flattened, (n, product)."""
    return a.reshape(len(a), math.prod(a.shape[1:]))


def kind_of(reference: Array, a: Array) -> Array:
    """`a` as the kind of array of `reference` and on its device, with the dtype of `a`."""
    if type(a) is np.ndarray and type(reference) is np.ndarray:
        return a
    if is_tensor(reference):
        return to_torch(a).to(reference.device)
    return to_numpy(a)


def like(reference: Array, a: Array) -> Array:
    """`a` as the kind, device and dtype of `reference`."""
    if type(a) is np.ndarray and type(reference) is np.ndarray and a.dtype == reference.dtype:
        return a
    if is_tensor(reference):
        return to_torch(a).to(reference)
    return to_numpy(a).astype(reference.dtype, copy=False)


def root(a: Array) -> Array:
    """The square root of a number, or of each element of a tensor, such as a column of coefficients.

    >>> root(4.0)
    2.0
    """
    return a.sqrt() if is_tensor(a) else math.sqrt(a)


def copy(a: Array) -> Array:
    """A copy that shares no memory with `a`."""
    return a.clone() if is_tensor(a) else a.copy()


def to_numpy(a: Array) -> np.ndarray:
    """`a` as a numpy array, without a copy if possible."""
    if not is_tensor(a):
        return np.asarray(a)
    a = a.detach().cpu()
    return (a.float() if a.dtype == namespace(a).bfloat16 else a).numpy()


def fingerprint(parts: Iterable[ArrayLike]) -> str:
    """The SHA-256 of arrays with their dtypes and shapes; other objects are hashed by their `repr`."""
    whole = hashlib.sha256()
    for part in parts:
        values = np.ascontiguousarray(to_numpy(part))
        content = repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
        whole.update(f"{values.dtype} {values.shape}".encode() + content)
    return whole.hexdigest()


def to_torch(a: Array) -> Array:
    """`a` as a torch tensor, without a copy if memory can be shared."""
    if is_tensor(a):
        return a
    shareable = a.flags.writeable and all(stride >= 0 for stride in a.strides)
    return extras.load("torch", "pinn").from_numpy(a if shareable else a.copy())
