"""Arrays: numpy or torch, whichever the caller brought; the same kind is given back.

The arithmetic of this library uses only what numpy and torch spell alike, so one formula serves both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

Array: TypeAlias = Any
"""A numpy array or a torch tensor of floating-point numbers."""

ArrayLike: TypeAlias = Any
"""An `Array`, or anything `numpy.asarray` turns into one (lists, pandas columns, JAX arrays)."""


_FLOATS = frozenset((np.dtype(np.float64), np.dtype(np.float32)))
_CONVERT = "Turn text and dates into numbers, and complex numbers into two columns."


def namespace(a: Array) -> ModuleType:
    """The module, `torch` or `numpy`, whose functions act on `a`."""
    return torch if isinstance(a, torch.Tensor) else np


class Limits(NamedTuple):
    """What numbers of a dtype can be: the step above 1, the smallest that has all digits, the largest."""

    eps: float
    tiny: float
    max: float


@cache
def _limits(module: ModuleType, dtype: Any) -> Limits:
    found = module.finfo(dtype)
    return Limits(float(found.eps), float(found.tiny), float(found.max))


def limits_of(a: Array) -> Limits:
    """The limits of the numbers of an array, known at once after the first of its dtype."""
    return _limits(namespace(a), a.dtype)


def floats(a: ArrayLike, name: str) -> Array:
    """`a` as floating-point numbers: a tensor stays one (detached), all else becomes numpy."""
    if type(a) is np.ndarray and a.dtype in _FLOATS and a.dtype.isnative:
        return a  # as most arrays are; the rest takes its time
    if isinstance(a, torch.Tensor):
        a = a.detach()
        if a.is_complex():
            raise TypeError(f"`{name}` should hold real numbers, got {a.dtype}. {_CONVERT}")
        return a if a.is_floating_point() else a.double()
    if np.ma.is_masked(a):
        row = int(np.argwhere(np.ma.getmaskarray(a))[0][0])
        raise ValueError(f"`{name}` should be complete, but row {row} is masked. Leave such rows out.")
    a = np.asarray(a)
    if a.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` should hold real numbers, got dtype {a.dtype}. {_CONVERT}")
    if a.dtype.kind != "f" or a.dtype.itemsize > 8:
        return a.astype(np.float64)
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))


def rows(a: ArrayLike, name: str) -> Array:
    """`a` as one row per point: (n,) is made (n, 1), here and nowhere else."""
    a = floats(a, name)
    if a.ndim > 1:
        return a
    if a.ndim == 0:
        raise ValueError(
            f"`{name}` should have one row per point, got the single number {a}. Put it into a list."
        )
    return a[:, None]


def finite(a: Array, name: str, advice: str = "Repair or leave out that row.") -> Array:
    """`a` itself, or an error that names the first row that is NaN or infinite."""
    if type(a) is np.ndarray and np.logical_and.reduce(np.isfinite(a), axis=None):
        return a
    good = namespace(a).isfinite(a)
    if not bool(good.all()):
        row = int(np.argwhere(~to_numpy(good))[0][0])
        value = "NaN" if bool(namespace(a).isnan(a[row]).any()) else "infinite"
        raise ValueError(f"`{name}` should be finite, but row {row} is {value}. {advice}")
    return a


def at_least(a: Array, smallest: float) -> Array:
    """`a`, which is overwritten, with nothing below a number; NaN stays NaN."""
    return np.maximum(a, smallest, out=a) if type(a) is np.ndarray else a.clip(min=smallest)


def flat(a: Array) -> Array:
    """All that belongs to a row, side by side: (n, everything)."""
    return a.reshape(len(a), math.prod(a.shape[1:]))


def kind_of(reference: Array, a: Array) -> Array:
    """`a` as the kind of array (and on the device) that `reference` is, its own dtype kept."""
    if type(a) is np.ndarray and type(reference) is np.ndarray:
        return a
    if isinstance(reference, torch.Tensor):
        return to_torch(a).to(reference.device)
    return to_numpy(a)


def like(reference: Array, a: Array) -> Array:
    """`a` as the kind, device and dtype of `reference`."""
    if type(a) is np.ndarray and type(reference) is np.ndarray and a.dtype == reference.dtype:
        return a
    if isinstance(reference, torch.Tensor):
        return to_torch(a).to(reference)
    return to_numpy(a).astype(reference.dtype, copy=False)


def root(a: Array | float) -> Array:
    """The square root of a number, or of each number of a tensor, such as a column of coefficients.

    >>> root(4.0), root(torch.tensor([[4.0], [9.0]])).tolist()
    (2.0, [[2.0], [3.0]])
    """
    return a.sqrt() if isinstance(a, torch.Tensor) else math.sqrt(a)


def copy(a: Array) -> Array:
    """A copy that nobody else writes to."""
    return a.clone() if isinstance(a, torch.Tensor) else a.copy()


def to_numpy(a: Array) -> np.ndarray:
    """`a` in numpy, without a copy where there is none to make."""
    if not isinstance(a, torch.Tensor):
        return np.asarray(a)
    a = a.detach().cpu()
    return (a.float() if a.dtype == torch.bfloat16 else a).numpy()


def fingerprint(parts: Iterable[Any]) -> str:
    """The SHA-256 of arrays with their dtypes and shapes; of objects, by what they print as."""
    whole = hashlib.sha256()
    for part in parts:
        values = np.ascontiguousarray(to_numpy(part))
        content = repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
        whole.update(f"{values.dtype} {values.shape}".encode() + content)
    return whole.hexdigest()


def to_torch(a: Array) -> torch.Tensor:
    """`a` in torch, without a copy where memory can be shared."""
    if isinstance(a, torch.Tensor):
        return a
    shareable = a.flags.writeable and all(stride >= 0 for stride in a.strides)
    return torch.from_numpy(a if shareable else a.copy())
