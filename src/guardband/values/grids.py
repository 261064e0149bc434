"""Grids: whole fields and trajectories as arrays (N, *grid, m), whose axes are known by their names.

One row is one field or one trajectory. An array alone does not say which of its axes are space, time or
outputs, so nobody guesses: `gb.Fields(values, dims=("t", "x"))`, or an xarray `DataArray`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np

from guardband.base.arrays import DATES, Array, ArrayLike, floats, holds_dates, to_numpy
from guardband.base.kept import kept

TIME = ("t", "time")
"""What an axis of time is called."""

ROWS = ("field", "trajectory", "sample", "case", "run", "batch", "point", "row", "N", "n")
"""What the axis of rows is called in files, where nobody says."""

OUTPUTS = ("output", "channel", "component", "variable", "m")
"""What the axis of outputs is called in files, where nobody says."""

REGULAR = 1e-6
"""By how much of a step the nodes of a regular axis may be off."""


@kept
@dataclass(frozen=True, eq=False, repr=False)
class FieldGrid:
    """The axes of a field by name, without its values: how many nodes, where, and how large their cells are.

    >>> import numpy as np
    >>> import guardband as gb
    >>> grid = gb.Fields(
    ...     np.zeros((9, 3, 4)), dims=("t", "x"), coordinates={"t": [0.0, 1.0, 2.0]}
    ... ).grid
    >>> grid, grid.time, grid.cells[:, 0].tolist()
    (FieldGrid(t=3, x=4), 0, [0.5, 1.0, 0.5])
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: dict[str, np.ndarray] = field(default_factory=dict)
    periodic: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.dims)) != len(self.dims):
            raise ValueError(f"`dims` should have different names, got {', '.join(self.dims)}.")
        for what in ("coordinates", "periodic"):
            for name in getattr(self, what):
                if name not in self.dims:
                    raise ValueError(f"`{what}` names an axis {name!r}; the axes are {', '.join(self.dims)}.")
        for name, nodes in self.coordinates.items():
            size = self.shape[self.dims.index(name)]
            if nodes.shape != (size,):
                raise ValueError(
                    f"`coordinates` of {name} should be {size} numbers, got shape {nodes.shape}."
                )
            if size > 1 and not (np.diff(nodes) > 0).all():
                raise ValueError(f"`coordinates` of {name} should increase from node to node.")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in zip(self.dims, self.shape, strict=True))
        return f"FieldGrid({sizes})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldGrid) and not self.differs(other) and self.periodic == other.periodic

    def __hash__(self) -> int:
        return hash((self.dims, self.shape, self.periodic))

    @property
    def points(self) -> int:
        """How many nodes there are."""
        return math.prod(self.shape)

    @property
    def nodes(self) -> np.ndarray:
        """Where the nodes lie, (points, d), the last axis running fastest; numbered where that is unknown."""
        axes = [
            self.coordinates.get(name, np.arange(size, dtype=float))
            for name, size in zip(self.dims, self.shape, strict=True)
        ]
        return np.stack([part.reshape(-1) for part in np.meshgrid(*axes, indexing="ij")], axis=1)

    @property
    def time(self) -> int | None:
        """Which axis is time, called t or time; None if none is."""
        return next((i for i, name in enumerate(self.dims) if name in TIME), None)

    @property
    def space(self) -> tuple[int, ...]:
        """Which axes are not time."""
        return tuple(i for i in range(len(self.dims)) if i != self.time)

    @cached_property
    def cells(self) -> np.ndarray:
        """How large the cell of each node is, (*grid): products of lengths; 1 along axes of unknown places.

        A cell reaches halfway to its neighbors, so those at the ends of an axis that is not periodic are half
        as long as others (the trapezoidal rule).
        """
        return reduce(np.multiply.outer, [self._lengths(i) for i in range(len(self.dims))], np.ones(()))

    def _lengths(self, axis: int) -> np.ndarray:
        nodes, name = self.coordinates.get(self.dims[axis]), self.dims[axis]
        if nodes is None or len(nodes) < 2:
            return np.ones(self.shape[axis])
        if name in self.periodic:
            return np.full(len(nodes), self.step(axis))
        gaps = np.diff(nodes)
        return (np.append(gaps, 0.0) + np.append(0.0, gaps)) / 2

    def step(self, axis: int) -> float:
        """The distance between neighbors along an axis, where it is the same everywhere."""
        name, nodes = self.dims[axis], self.coordinates.get(self.dims[axis])
        if nodes is None or len(nodes) < 2:
            raise ValueError(
                f"The places of the nodes along {name} are not known. Give them: "
                f"gb.Fields(values, dims, coordinates={{{name!r}: places}})."
            )
        step = (nodes[-1] - nodes[0]) / (len(nodes) - 1)
        if (abs(np.diff(nodes) - step) > REGULAR * step).any():
            raise ValueError(f"The nodes along {name} should be equally far apart, and they are not.")
        return float(step)

    def gradient(self, values: np.ndarray, axis: int) -> np.ndarray:
        """The derivative of fields (N, *grid, m) along an axis of a regular grid.

        Central differences of second order, over the seam where the axis is periodic; at other ends one-sided
        ones, of second order too.
        """
        step, size, name = self.step(axis), self.shape[axis], self.dims[axis]
        if size < 3:
            raise ValueError(f"A derivative along {name} takes three nodes or more, got {size}.")
        at = axis + 1
        if name in self.periodic:
            return (np.roll(values, -1, axis=at) - np.roll(values, 1, axis=at)) / (2 * step)
        return np.gradient(values, step, axis=at, edge_order=2)

    def along(self, names: Sequence[str]) -> FieldGrid:
        """Some of the axes."""
        sizes = tuple(self.shape[self.dims.index(name)] for name in names)
        places = {name: nodes for name, nodes in self.coordinates.items() if name in names}
        return FieldGrid(tuple(names), sizes, places, tuple(name for name in self.periodic if name in names))

    def differs(self, other: FieldGrid) -> str:
        """How another grid differs from this one, in words; nothing if it does not."""
        if self.dims != other.dims:
            return f"its axes are {', '.join(other.dims)}, not {', '.join(self.dims)}"
        for name, mine, theirs in zip(self.dims, self.shape, other.shape, strict=True):
            if mine != theirs:
                return f"it has {theirs} nodes along {name}, not {mine}"
        for name in self.coordinates.keys() & other.coordinates.keys():
            mine, theirs = self.coordinates[name], other.coordinates[name]
            if not np.allclose(mine, theirs, rtol=1e-6, atol=REGULAR * float(np.ptp(mine))):
                return f"its nodes along {name} lie elsewhere"
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class Fields:
    """Whole fields or trajectories (N, *grid, m) whose axes have names: one row is one field.

    `dims` names the axes between the rows, which come first, and the outputs, which come last; an array
    (N, *grid) has one output. An axis called t or time is time. `coordinates` are the places of the nodes
    along some axes, and `periodic` those that close a ring: cells, derivatives and pictures use them.

    >>> import numpy as np
    >>> import guardband as gb
    >>> u = np.random.default_rng(0).normal(size=(40, 8, 8))
    >>> fields = gb.Fields(u, dims=("x", "y"), coordinates={"x": np.linspace(0, 1, 8)})
    >>> fields
    Fields(40 fields, x=8, y=8, 1 output)
    >>> gb.calibrate_arrays(0 * fields.values, fields, score=gb.Simultaneous()).grid
    FieldGrid(x=8, y=8)
    """

    values: Array
    dims: Sequence[str]
    coordinates: Mapping[str, ArrayLike] = field(default_factory=dict)
    periodic: Sequence[str] = ()
    grid: FieldGrid = field(init=False)

    def __post_init__(self) -> None:
        values = floats(self.values, "values")
        dims = (self.dims,) if isinstance(self.dims, str) else tuple(self.dims)
        if not dims or not all(isinstance(name, str) for name in dims):
            raise TypeError(
                f'`dims` should name the axes of the grid, such as ("x", "y"), got {self.dims!r}.'
            )
        if values.ndim == len(dims) + 1:
            values = values[..., None]
        if values.ndim != len(dims) + 2:
            raise ValueError(
                "`dims` should name all axes of `values` but the first, rows, and the last, outputs: "
                f"{len(dims)} names ({', '.join(dims)}) fit (N, *grid) and (N, *grid, m), got shape "
                f"{tuple(values.shape)}. A single field is values[None]; outputs that come first go last by "
                "np.moveaxis(values, 1, -1)."
            )
        places = {
            str(name): np.asarray(to_numpy(floats(at, f"coordinates of {name}")), dtype=float)
            for name, at in self.coordinates.items()
        }
        around = (self.periodic,) if isinstance(self.periodic, str) else tuple(self.periodic)
        grid = FieldGrid(dims, tuple(values.shape[1:-1]), places, around)
        vars(self).update(values=values, dims=dims, coordinates=places, periodic=around, grid=grid)

    @classmethod
    def of(
        cls, array: Any, *, row: str | None = None, output: str | None = None, periodic: Sequence[str] = ()
    ) -> Fields:
        """Fields of an xarray `DataArray`: its names are the dims, its coordinates the places.

        `row` is the axis of fields, `output` that of outputs; where they are not given, they go by their
        usual names, such as "field" or "sample", and "output" or "channel".

        >>> import numpy as np
        >>> import xarray
        >>> import guardband as gb
        >>> gb.Fields.of(
        ...     xarray.DataArray(np.zeros((2, 5, 9, 4)), dims=("channel", "sample", "t", "x"))
        ... )
        Fields(5 trajectories, t=9, x=4, 2 outputs)
        """
        names = [str(name) for name in array.dims]
        row = row_axis(names, row)
        output = output_axis(names, output)
        dims = [name for name in names if name not in (row, output)]
        order = [row, *dims, *([] if output is None else [output])]
        places = {
            name: array.coords[name].values
            for name in dims
            if name in array.coords and _are_numbers(array.coords[name].values, name)
        }
        return cls(array.transpose(*order).values, dims, places, periodic)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the values, (N, *grid, m)."""
        return tuple(self.values.shape)

    @property
    def ndim(self) -> int:
        """How many axes the values have."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Fields:
        """Some of the fields: a slice, indices or booleans."""
        return Fields(self.values[rows], self.dims, self.coordinates, self.periodic)

    def turned(self, dims: Sequence[str]) -> Fields:
        """The same fields with the axes of the grid in another order.

        >>> import numpy as np
        >>> import guardband as gb
        >>> gb.Fields(np.zeros((9, 3, 4)), dims=("t", "x")).turned(("x", "t"))
        Fields(9 trajectories, x=4, t=3, 1 output)
        """
        if list(dims) == list(self.dims):
            return self
        order = (0, *(1 + list(self.dims).index(name) for name in dims), self.ndim - 1)
        return Fields(np.transpose(to_numpy(self.values), order), dims, self.coordinates, self.periodic)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(to_numpy(self.values), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        what = "fields" if self.grid.time is None else "trajectories"
        sizes = repr(self.grid)[len("FieldGrid(") : -1]
        m = self.shape[-1]
        return f"Fields({len(self)} {what}, {sizes}, {m} output{'s' if m > 1 else ''})"


def row_axis(names: Sequence[str], said: str | None = None) -> str:
    """Which of the axes is that of fields: the one that was said, or one of its usual names.

    >>> row_axis(("t", "sample", "x"))
    'sample'
    """
    return _axis(said, ROWS, names, "row", "fields, or trajectories,")


def row_or_first(names: Sequence[str]) -> str:
    """The axis of rows by its usual name, if one axis has one, and otherwise the first.

    >>> row_or_first(("x", "sample")), row_or_first(("a", "b"))
    ('sample', 'a')
    """
    found = [name for name in names if name in ROWS]
    return found[0] if len(found) == 1 else names[0]


def output_axis(names: Sequence[str], said: str | None = None) -> str | None:
    """Which of the axes is that of outputs: the one that was said, one of a usual name, or none."""
    return _axis(said, OUTPUTS, names, "output", None)


def _are_numbers(places: Any, name: str) -> bool:
    """Whether the places along an axis are numbers; dates are refused, words are no places."""
    places = np.asarray(places)
    if holds_dates(places):
        raise TypeError(f"The coordinates of {name} are dates or durations. {DATES}")
    return places.dtype.kind in "fiu"


def _axis(
    said: str | None, usual: Sequence[str], names: Sequence[str], argument: str, needed: str | None
) -> Any:
    """An axis by the name that was said, or by one of its usual names."""
    if said is not None and said not in names:
        raise ValueError(f"`{argument}` should be one of the axes {', '.join(names)}, got {said!r}.")
    found = [name for name in names if name in usual] if said is None else [said]
    if len(found) > 1 or (needed is not None and not found):
        which = f"the axis of {needed or 'outputs'}"
        raise ValueError(
            f"Which of the axes {', '.join(names)} is {which}? Say it: gb.Fields.of(array, {argument}=...)."
        )
    return found[0] if found else None
