"""Labeled inputs: read and match the names of rows, columns and axes for every public call.

DataFrames, Series, xarray `DataArray`s and `gb.Fields` have names. If the names at calibration are known, new
inputs are reordered to match them, and inputs with different names are refused. Plain arrays are matched by
position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from guardband.base.arrays import Array, axis_names, finite, floats, rows, to_torch
from guardband.base.kept import kept
from guardband.values.frames import Columns, Frame, Name, is_frame, on_axes, only_numbers, same_order, select
from guardband.values.grids import REGULAR, FieldGrid, Fields, output_axis, row_or_first

if TYPE_CHECKING:
    from pandas import Index as Labels
    from xarray import DataArray

ROW, COLUMN, OUTPUT = "row", "column", "output"
"""Default names of axes."""

Labeled: TypeAlias = Any
"""An input that may have names: any array, a DataFrame or Series, a `DataArray`, or `gb.Fields`."""

Along: TypeAlias = tuple[Name, ...] | np.ndarray
"""The names, or the coordinates, along an axis."""


@kept
@dataclass(frozen=True, eq=False)
class Axes:
    """The axes of an input, rows first.

    Parameters
    ----------
    dims
        Names of the axes.
    shape
        Sizes of the axes after the rows.
    along
        Names (a tuple) or coordinates (an array) along each axis, by the name of the axis, if known.
    units
        Units of the values.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband.values.labeled import opened
    >>> values, axes = opened(gb.Fields([[[1.0, 2.0]]], dims=("t", "x")), "x")
    >>> axes.dims, axes.shape
    (('row', 't', 'x', 'output'), (1, 2, 1))
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    along: Mapping[str, Along] = field(default_factory=dict)
    units: str | None = None

    @classmethod
    def of_columns(cls, names: Sequence[Name]) -> Axes:
        """The axes of a table with named columns."""
        return cls((ROW, COLUMN), (len(names),), {COLUMN: tuple(names)})

    @classmethod
    def of_grid(cls, grid: FieldGrid, m: int) -> Axes:
        """The axes of fields with m outputs."""
        return cls((ROW, *grid.dims, OUTPUT), (*grid.shape, m), dict(grid.coordinates))

    @property
    def words(self) -> tuple[Any, ...] | None:
        """The names of columns or outputs, along the last axis, or None."""
        found = self.along.get(self.dims[-1])
        return found if isinstance(found, tuple) else None


def opened(given: Labeled, name: str, row: str | None = None) -> tuple[Labeled, Axes | None]:
    """The values of an input, rows first, and its axes, or None if they have no names."""
    if type(given) is np.ndarray:  # the most frequent case
        return given, None
    if isinstance(given, Fields):
        return given.values, Axes.of_grid(given.grid, given.shape[-1])
    if axis_names(given):
        return _opened_array(given, row)
    if is_frame(given):
        return only_numbers(given, f"`{name}`"), Axes.of_columns(tuple(given.columns))
    label = getattr(given, "name", None)
    if type(given).__name__ == "Series" and isinstance(label, str) and label:
        return given, Axes.of_columns((label,))
    return given, None


def opened_targets(given: Labeled, name: str) -> tuple[Labeled, Axes | None, FieldGrid | None]:
    """The values of targets, outputs last, their axes, and the grid of whole fields."""
    if len(axis_names(given)) > 2 and not isinstance(given, Fields):
        output = output_axis(axis_names(given))
        names = None if output is None else _along(given, output)
        fields = Fields.of(given)
        axes = Axes.of_grid(fields.grid, fields.shape[-1])
        along = {**axes.along, **({} if names is None else {OUTPUT: names})}
        return fields.values, Axes(axes.dims, axes.shape, along, _units(given)), fields.grid
    values, axes = opened(given, name)
    return values, axes, given.grid if isinstance(given, Fields) else None


def arranged(given: Labeled, known: Axes | None, name: str) -> Labeled:
    """The values of an input in the order of known axes; plain arrays are returned unchanged."""
    if type(given) is np.ndarray:
        return given
    if known is not None and known.words and is_frame(given) and len(known.dims) == 2:
        given = select(given, known.words, name)
    left = [] if known is None else [dim for dim in axis_names(given) if dim not in known.dims[1:]]
    values, axes = opened(given, name, left[0] if len(left) == 1 else None)
    return values if known is None or axes is None else matched(values, axes, known, name)


def arranged_targets(given: Labeled, known: Axes | None, name: str) -> Labeled:
    """The values of targets in the order of known axes."""
    if known is not None and known.words and is_frame(given) and len(known.dims) == 2:
        given = select(given, known.words, name)
    values, axes, _ = opened_targets(given, name)
    return values if known is None or axes is None else matched(values, axes, known, name)


def several(axes: Axes | None) -> Axes | None:
    """Axes with several columns or nodes, else None: a single column often has different names in tables."""
    return None if axes is None or axes.shape == (1,) else axes


def matched(values: Labeled, axes: Axes, known: Axes, name: str) -> Labeled:
    """Values whose axes, and entries along each axis, have the order of the known axes."""
    if known.units and axes.units and known.units != axes.units:
        raise ValueError(f"`{name}` is in {axes.units}; at calibration it was in {known.units}. Convert it.")
    values, axes = turned(values, axes, known.dims, name)
    for i, (wanted, given) in enumerate(zip(known.dims[1:], axes.dims[1:], strict=True)):
        sizes = known.shape[i], axes.shape[i]
        order = _order(known.along.get(wanted), axes.along.get(given), sizes, wanted, name)
        if order is not None:
            values = _taken(rows(values, name), order, i + 1)
    return values


def turned(values: Labeled, axes: Axes, dims: Sequence[str], name: str) -> tuple[Labeled, Axes]:
    """Transpose values so that their axes after the rows are in the order of `dims`."""
    wanted, given = tuple(dims[1:]), axes.dims[1:]
    if wanted == given or len(wanted) == len(given) == 1:
        return values, axes
    if sorted(wanted) != sorted(given):
        raise ValueError(_other_grid(name, f"its axes are {', '.join(given)}, not {', '.join(wanted)}"))
    order = [given.index(dim) for dim in wanted]
    found = floats(values, name)
    found = (found.permute if hasattr(found, "permute") else found.transpose)(0, *(1 + i for i in order))
    shape = tuple(axes.shape[i] for i in order)
    return found, Axes((axes.dims[0], *wanted), shape, axes.along, axes.units)


def like_inputs(given: Labeled, axes: Axes | None) -> Labeled:
    """Targets on a grid, with the axes that they share with the inputs in the order of the inputs.

    A model predicts in the order of its inputs, so targets in another order would be compared with the wrong
    nodes.
    """
    if axes is None or len(axis_names(given)) <= 2:
        return given
    names = given.dims if isinstance(given, Fields) else axis_names(given)
    dims = [dim for dim in names if dim in axes.dims[1:]]
    shared = iter([dim for dim in axes.dims[1:] if dim in dims])
    order = [next(shared) if dim in dims else dim for dim in names]
    found = given.turned(order) if isinstance(given, Fields) else given.transpose(*order)
    for dim in dims:
        wanted = axes.along.get(dim)
        places = found.coordinates.get(dim) if isinstance(found, Fields) else _along(found, dim)
        if not (isinstance(wanted, np.ndarray) and isinstance(places, np.ndarray)):
            continue
        if len(wanted) != len(places):
            continue
        if not _close(wanted, places) and _close(np.sort(wanted), np.sort(places)):
            raise ValueError(
                f"Inputs and targets have their nodes along {dim} in different orders. Sort both: "
                f"array.sortby({dim!r})."
            )
    return found


def placed(x: Labeled, axes: Sequence[str] | None) -> Labeled:
    """Points with named columns in the order of the axes of a network; plain arrays unchanged."""
    if is_frame(x):
        return only_numbers(x if axes is None else on_axes(x, axes), "The network")
    return arranged(x, None if axes is None else Axes.of_columns(axes), "x")


def field_pair(x: Labeled, y: Labeled) -> tuple[Labeled, Labeled]:
    """The values of whole fields x and y, with rows and axes in the same order."""
    refuse_unpaired(x=x, y=y)
    values, axes, _ = opened_targets(x, "x")
    return values, opened_targets(like_inputs(y, axes), "y")[0]


def inputs(x: Labeled, columns: Columns | None, known: Axes | None) -> Array | Frame:
    """New inputs in the order of calibration: a frame for a calibration on a frame, otherwise an array."""
    if columns is None:
        return finite(rows(arranged(x, known, "x"), "x"), "x")
    return columns.matched(x if is_frame(x) else arranged(x, Axes.of_columns(columns.names), "x"))


def refuse_unpaired(**given: Labeled) -> None:
    """Refuse inputs whose rows have the same labels in different orders, such as two Series."""
    labels = {name: found for name, one in given.items() if (found := _row_labels(one)) is not None}
    first = next(iter(labels), "")
    for name, index in labels.items():
        if not same_order(index, labels[first]):
            theirs, mine = first.removesuffix("_cal"), name.removesuffix("_cal")
            raise ValueError(
                f"The rows of `{name}` have the labels of `{first}` in a different order. Use "
                f"{mine}.loc[{theirs}.index]."
            )


def _row_labels(given: Labeled) -> Labels | None:
    """The labels of rows as a pandas index, or None."""
    if type(given) is np.ndarray:
        return None
    names = axis_names(given) if hasattr(given, "indexes") else ()
    index = given.indexes.get(row_or_first(names)) if names else getattr(given, "index", None)
    return index if hasattr(index, "equals") else None


def _opened_array(given: DataArray, row: str | None) -> tuple[np.ndarray, Axes]:
    names = axis_names(given)
    first = row if row is not None and row in names else row_or_first(names)
    dims = (first, *(name for name in names if name != first))
    found = {name: places for name in dims[1:] if (places := _along(given, name)) is not None}
    values = given.transpose(*dims)
    if len(dims) == 1:
        dims, found = (first, COLUMN), {} if not isinstance(given.name, str) else {COLUMN: (given.name,)}
    sizes = tuple(values.shape[1:]) or (1,)
    return values.values, Axes(dims, sizes, found, _units(given))


def _along(given: DataArray, dim: str) -> tuple[str, ...] | np.ndarray | None:
    """The names, as a tuple, or the coordinates along an axis of a `DataArray`, or None."""
    if dim not in given.coords or given.coords[dim].dims != (dim,):
        return None
    places = np.asarray(given.coords[dim].values)
    if places.dtype.kind == "U" or (
        places.dtype.kind == "O" and all(isinstance(word, str) for word in places)
    ):
        return tuple(map(str, places))
    return np.asarray(floats(places, f"coordinates of {dim}"), dtype=float)


def _units(given: DataArray) -> str | None:
    units = given.attrs.get("units")
    return units if isinstance(units, str) else None


def _order(
    wanted: Along | None, given: Along | None, sizes: tuple[int, int], dim: str, name: str
) -> list[int] | None:
    """The positions of the wanted names or coordinates along an axis; None if they are in order."""
    if isinstance(wanted, tuple) and isinstance(given, tuple):
        missing = [one for one in wanted if one not in given]
        if missing:
            raise ValueError(
                f"`{name}` has no column `{missing[0]}`; its columns should be "
                f"{', '.join(map(str, wanted))}, got {', '.join(map(str, given))}."
            )
        return None if wanted == given else [given.index(one) for one in wanted]
    if sizes[0] != sizes[1]:
        raise ValueError(_other_grid(name, f"it has {sizes[1]} nodes along {dim}, not {sizes[0]}"))
    if not (isinstance(wanted, np.ndarray) and isinstance(given, np.ndarray)) or _close(wanted, given):
        return None
    if not _close(np.sort(wanted), np.sort(given)):
        raise ValueError(_other_grid(name, f"its nodes along {dim} have different coordinates"))
    order = np.empty(len(wanted), dtype=int)
    order[np.argsort(wanted)] = np.argsort(given)
    return order.tolist()


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-6, atol=REGULAR * float(np.ptp(a)) if a.size else 0.0))


def _other_grid(name: str, difference: str) -> str:
    return (
        f"`{name}` is on a different grid from that of calibration: {difference}. The promise applies to the "
        "nodes and steps of calibration. Interpolate to that grid, or calibrate on this one."
    )


def _taken(values: Array, order: Sequence[int], axis: int) -> Array:
    if isinstance(values, np.ndarray):
        return values.take(order, axis)
    return values.index_select(axis, to_torch(np.asarray(order)).to(values.device))
