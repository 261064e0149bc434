"""Labeled inputs: the names of rows, columns and axes, read and matched here for every public call.

Frames, Series, xarray `DataArray`s and `gb.Fields` have names. A call that knows the names of calibration
brings new inputs into that order by name and refuses other names. Arrays have none and go by positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from guardband.base.arrays import Array, axis_names, finite, floats, rows, to_torch
from guardband.base.kept import kept
from guardband.values.frames import Columns, is_frame, on_axes, only_numbers, same_order, select
from guardband.values.grids import REGULAR, FieldGrid, Fields, output_axis, row_or_first

ROW, COLUMN, OUTPUT = "row", "column", "output"
"""The names of axes that have none of their own."""


@kept
@dataclass(frozen=True, eq=False)
class Axes:
    """The names of the axes of an input, rows first, their sizes, and words or numbers along them.

    >>> import guardband as gb
    >>> from guardband.values.labeled import opened
    >>> values, axes = opened(gb.Fields([[[1.0, 2.0]]], dims=("t", "x")), "x")
    >>> axes.dims, axes.shape
    (('row', 't', 'x', 'output'), (1, 2, 1))
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    """The sizes of the axes after the rows."""
    along: Mapping[str, Any] = field(default_factory=dict)
    units: str | None = None

    @classmethod
    def of_columns(cls, names: Sequence[str | int]) -> Axes:
        """Those of a table with named columns."""
        return cls((ROW, COLUMN), (len(names),), {COLUMN: tuple(names)})

    @classmethod
    def of_grid(cls, grid: FieldGrid, m: int) -> Axes:
        """Those of fields with m outputs."""
        return cls((ROW, *grid.dims, OUTPUT), (*grid.shape, m), dict(grid.coordinates))

    @property
    def words(self) -> tuple[Any, ...] | None:
        """The names of columns or outputs, along the last axis; None if they have none."""
        found = self.along.get(self.dims[-1])
        return found if isinstance(found, tuple) else None


def opened(given: Any, name: str, row: str | None = None) -> tuple[Any, Axes | None]:
    """The values of an input, rows first, and the names of its axes; None for an input without names."""
    if type(given) is np.ndarray:  # as most inputs are
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


def opened_targets(given: Any, name: str) -> tuple[Any, Axes | None, FieldGrid | None]:
    """The same for targets, whose outputs come last, with the grid of whole fields."""
    if len(axis_names(given)) > 2 and not isinstance(given, Fields):
        output = output_axis(axis_names(given))
        words = None if output is None else _along(given, output)
        fields = Fields.of(given)
        axes = Axes.of_grid(fields.grid, fields.shape[-1])
        along = {**axes.along, **({} if words is None else {OUTPUT: words})}
        return fields.values, Axes(axes.dims, axes.shape, along, _units(given)), fields.grid
    values, axes = opened(given, name)
    return values, axes, given.grid if isinstance(given, Fields) else None


def arranged(given: Any, known: Axes | None, name: str) -> Any:
    """The values of an input in the order of known names; other names are refused, arrays are left as is."""
    if type(given) is np.ndarray:
        return given
    if known is not None and known.words and is_frame(given) and len(known.dims) == 2:
        given = select(given, known.words, name)
    left = [] if known is None else [dim for dim in axis_names(given) if dim not in known.dims[1:]]
    values, axes = opened(given, name, left[0] if len(left) == 1 else None)
    return values if known is None or axes is None else matched(values, axes, known, name)


def arranged_targets(given: Any, known: Axes | None, name: str) -> Any:
    """The same for targets."""
    if known is not None and known.words and is_frame(given) and len(known.dims) == 2:
        given = select(given, known.words, name)
    values, axes, _ = opened_targets(given, name)
    return values if known is None or axes is None else matched(values, axes, known, name)


def several(axes: Axes | None) -> Axes | None:
    """Axes with several columns or nodes; a single column often has another name in each table."""
    return None if axes is None or axes.shape == (1,) else axes


def matched(values: Any, axes: Axes, known: Axes, name: str) -> Any:
    """Values with named axes in the order of known axes, and along each in the order of its words."""
    if known.units and axes.units and known.units != axes.units:
        raise ValueError(f"`{name}` is in {axes.units}; at calibration it was in {known.units}. Convert it.")
    values, axes = turned(values, axes, known.dims, name)
    for i, (mine, theirs) in enumerate(zip(known.dims[1:], axes.dims[1:], strict=True)):
        sizes = known.shape[i], axes.shape[i]
        order = _order(known.along.get(mine), axes.along.get(theirs), sizes, mine, name)
        if order is not None:
            values = _taken(rows(values, name), order, i + 1)
    return values


def turned(values: Any, axes: Axes, dims: Sequence[str], name: str) -> tuple[Any, Axes]:
    """Values with their axes after the rows in the order of these names."""
    mine, theirs = tuple(dims[1:]), axes.dims[1:]
    if mine == theirs or len(mine) == len(theirs) == 1:
        return values, axes
    if sorted(mine) != sorted(theirs):
        raise ValueError(_elsewhere(name, f"its axes are {', '.join(theirs)}, not {', '.join(mine)}"))
    order = [theirs.index(word) for word in mine]
    found = floats(values, name)
    found = (found.permute if hasattr(found, "permute") else found.transpose)(0, *(1 + i for i in order))
    shape = tuple(axes.shape[i] for i in order)
    return found, Axes((axes.dims[0], *mine), shape, axes.along, axes.units)


def like_inputs(given: Any, axes: Axes | None) -> Any:
    """Targets on a grid, with the axes that inputs have too in the order of the inputs.

    A model answers in the order of its inputs, so targets in another order would be compared with the wrong
    nodes.
    """
    if axes is None or len(axis_names(given)) <= 2:
        return given
    names = given.dims if isinstance(given, Fields) else axis_names(given)
    dims = [dim for dim in names if dim in axes.dims[1:]]
    shared = iter([dim for dim in axes.dims[1:] if dim in dims])
    order = [next(shared) if dim in dims else dim for dim in names]
    found: Any = given.turned(order) if isinstance(given, Fields) else given.transpose(*order)
    for dim in dims:
        mine = axes.along.get(dim)
        theirs = found.coordinates.get(dim) if isinstance(found, Fields) else _along(found, dim)
        if not (isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray)) or len(mine) != len(theirs):
            continue
        if not _close(mine, theirs) and _close(np.sort(mine), np.sort(theirs)):
            raise ValueError(
                f"Inputs and targets have their nodes along {dim} in different orders. Sort both: "
                f"array.sortby({dim!r})."
            )
    return found


def placed(x: Any, axes: Sequence[str] | None) -> Any:
    """Points in the order of the axes of a network, if they have names; arrays as they are."""
    if is_frame(x):
        return only_numbers(x if axes is None else on_axes(x, axes), "The network")
    return arranged(x, None if axes is None else Axes.of_columns(axes), "x")


def field_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """The values of whole fields x and y, row by row and axis by axis in the same order."""
    refuse_unpaired(x=x, y=y)
    values, axes, _ = opened_targets(x, "x")
    return values, opened_targets(like_inputs(y, axes), "y")[0]


def inputs(x: Any, columns: Columns | None, known: Axes | None) -> Any:
    """New inputs in the order of calibration: a frame for a calibration on a frame, otherwise an array."""
    if columns is None:
        return finite(rows(arranged(x, known, "x"), "x"), "x")
    return columns.matched(x if is_frame(x) else arranged(x, Axes.of_columns(columns.names), "x"))


def refuse_unpaired(**given: Any) -> None:
    """Refuse inputs whose rows have the same labels in another order, such as two Series."""
    labels = {name: found for name, one in given.items() if (found := _row_labels(one)) is not None}
    first = next(iter(labels), "")
    for name, index in labels.items():
        if not same_order(index, labels[first]):
            theirs, mine = first.removesuffix("_cal"), name.removesuffix("_cal")
            raise ValueError(
                f"The rows of `{name}` have the labels of `{first}` in another order: "
                f"{mine}.loc[{theirs}.index]."
            )


def _row_labels(given: Any) -> Any:
    """The labels of rows as a pandas index; None if there are none."""
    if type(given) is np.ndarray:
        return None
    names = axis_names(given) if hasattr(given, "indexes") else ()
    index = given.indexes.get(row_or_first(names)) if names else getattr(given, "index", None)
    return index if hasattr(index, "equals") else None


def _opened_array(given: Any, row: str | None) -> tuple[Any, Axes]:
    names = axis_names(given)
    first = row if row in names else row_or_first(names)
    dims = (first, *(name for name in names if name != first))
    found = {name: places for name in dims[1:] if (places := _along(given, name)) is not None}
    values = given.transpose(*dims)
    if len(dims) == 1:
        dims, found = (first, COLUMN), {} if not isinstance(given.name, str) else {COLUMN: (given.name,)}
    sizes = tuple(values.shape[1:]) or (1,)
    return values.values, Axes(dims, sizes, found, _units(given))


def _along(given: Any, dim: str) -> Any:
    """The words, as a tuple, or the numbers along an axis of a `DataArray`; None where it has neither."""
    if dim not in given.coords or given.coords[dim].dims != (dim,):
        return None
    places = np.asarray(given.coords[dim].values)
    if places.dtype.kind == "U" or (
        places.dtype.kind == "O" and all(isinstance(word, str) for word in places)
    ):
        return tuple(map(str, places))
    return np.asarray(floats(places, f"coordinates of {dim}"), dtype=float)


def _units(given: Any) -> str | None:
    units = given.attrs.get("units")
    return units if isinstance(units, str) else None


def _order(mine: Any, theirs: Any, sizes: tuple[int, int], dim: str, name: str) -> list[int] | None:
    """The positions of the known words or numbers along an axis; None if they are in order."""
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        missing = [word for word in mine if word not in theirs]
        if missing:
            raise ValueError(
                f"`{name}` has no column `{missing[0]}`; its columns should be "
                f"{', '.join(map(str, mine))}, and are {', '.join(map(str, theirs))}."
            )
        return None if mine == theirs else [theirs.index(word) for word in mine]
    if sizes[0] != sizes[1]:
        raise ValueError(_elsewhere(name, f"it has {sizes[1]} nodes along {dim}, not {sizes[0]}"))
    if not (isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray)) or _close(mine, theirs):
        return None
    if not _close(np.sort(mine), np.sort(theirs)):
        raise ValueError(_elsewhere(name, f"its nodes along {dim} lie elsewhere"))
    order = np.empty(len(mine), dtype=int)
    order[np.argsort(mine)] = np.argsort(theirs)
    return order.tolist()


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-6, atol=REGULAR * float(np.ptp(a)) if a.size else 0.0))


def _elsewhere(name: str, how: str) -> str:
    return (
        f"`{name}` is on another grid than at calibration: {how}. A promise is about the nodes and steps "
        "that were calibrated; bring it to that grid, or calibrate on this one."
    )


def _taken(values: Array, order: Sequence[int], axis: int) -> Array:
    if isinstance(values, np.ndarray):
        return values.take(order, axis)
    return values.index_select(axis, to_torch(np.asarray(order)).to(values.device))
