"""Grids: whole fields and trajectories as arrays (N, *grid, m) with named axes.

One row is one field or one trajectory. A plain array does not show which of its axes are space, time or
outputs, so the axes must be named: `gb.Fields(values, dims=("t", "x"))`, or an xarray `DataArray`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from guardband.base.arrays import DATES, Array, ArrayLike, Index, floats, holds_dates, to_numpy
from guardband.base.kept import kept

if TYPE_CHECKING:
    import xarray
    from numpy.typing import DTypeLike

TIME = ("t", "time")
"""Names of a time axis."""

ROWS = ("field", "trajectory", "sample", "case", "run", "batch", "point", "row", "N", "n")
"""Usual names of the axis of rows in files."""

OUTPUTS = ("output", "channel", "component", "variable", "m")
"""Usual names of the axis of outputs in files."""

REGULAR = 1e-6
"""Tolerated deviation of the nodes of a regular axis, relative to the step."""


@kept
@dataclass(frozen=True, eq=False, repr=False)
class FieldGrid:
    """The grid of a field: the names, sizes and coordinates of its axes.

    Parameters
    ----------
    dims
        Names of the axes. An axis called "t" or "time" is time.
    shape
        Number of nodes along each axis.
    coordinates
        Increasing coordinates of the nodes, by axis. Axes with unknown coordinates are omitted.
    periodic
        Names of the periodic axes.

    Examples
    --------
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
                    raise ValueError(
                        f"`{what}` names an unknown axis {name!r}; the axes are {', '.join(self.dims)}."
                    )
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
        """Number of nodes."""
        return math.prod(self.shape)

    @property
    def nodes(self) -> np.ndarray:
        """Coordinates of the nodes, (points, d), in C order; indices along axes without coordinates."""
        axes = [
            self.coordinates.get(name, np.arange(size, dtype=float))
            for name, size in zip(self.dims, self.shape, strict=True)
        ]
        return np.stack([part.reshape(-1) for part in np.meshgrid(*axes, indexing="ij")], axis=1)

    @property
    def time(self) -> int | None:
        """Index of the time axis, called "t" or "time", or None."""
        return next((i for i, name in enumerate(self.dims) if name in TIME), None)

    @property
    def space(self) -> tuple[int, ...]:
        """Indices of all axes except time."""
        return tuple(i for i in range(len(self.dims)) if i != self.time)

    @cached_property
    def cells(self) -> np.ndarray:
        """Volume of the cell of each node, shape (*grid), with length 1 along axes without coordinates.

        A cell extends halfway to its neighbors. Cells at the ends of an axis that is not periodic are
        therefore half as long as others (trapezoidal rule).
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
        """Return the distance between neighboring nodes along a regular axis.

        Parameters
        ----------
        axis
            Index of the axis.

        Returns
        -------
        float
            The step.

        Raises
        ------
        ValueError
            If the coordinates are unknown or not equally spaced.
        """
        name, nodes = self.dims[axis], self.coordinates.get(self.dims[axis])
        if nodes is None or len(nodes) < 2:
            raise ValueError(
                f"The coordinates of the nodes along {name} are not known. Pass them: "
                f"gb.Fields(values, dims, coordinates={{{name!r}: nodes}})."
            )
        step = (nodes[-1] - nodes[0]) / (len(nodes) - 1)
        if (abs(np.diff(nodes) - step) > REGULAR * step).any():
            raise ValueError(f"The nodes along {name} should be equally spaced, but are not.")
        return float(step)

    def gradient(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Return the derivative of fields along an axis, by second-order differences.

        Differences are central, including across a periodic boundary; at other boundaries they are
        one-sided.

        Parameters
        ----------
        values
            Fields, shape (N, *grid, m).
        axis
            Index of a regular axis with at least three nodes.

        Returns
        -------
        numpy.ndarray
            The derivative, with the shape of `values`.
        """
        step, size, name = self.step(axis), self.shape[axis], self.dims[axis]
        if size < 3:
            raise ValueError(f"A derivative along {name} needs at least three nodes, got {size}.")
        at = axis + 1
        if name in self.periodic:
            return (np.roll(values, -1, axis=at) - np.roll(values, 1, axis=at)) / (2 * step)
        return np.gradient(values, step, axis=at, edge_order=2)

    def along(self, names: Sequence[str]) -> FieldGrid:
        """Return the grid over some of the axes.

        Parameters
        ----------
        names
            Names of the axes to keep.

        Returns
        -------
        FieldGrid
            The grid over these axes.
        """
        sizes = tuple(self.shape[self.dims.index(name)] for name in names)
        places = {name: nodes for name, nodes in self.coordinates.items() if name in names}
        return FieldGrid(tuple(names), sizes, places, tuple(name for name in self.periodic if name in names))

    def differs(self, other: FieldGrid) -> str:
        """Describe how another grid differs from this one.

        Parameters
        ----------
        other
            The other grid.

        Returns
        -------
        str
            The first difference in words, or "" if there is none.
        """
        if self.dims != other.dims:
            return f"its axes are {', '.join(other.dims)}, not {', '.join(self.dims)}"
        for name, mine, theirs in zip(self.dims, self.shape, other.shape, strict=True):
            if mine != theirs:
                return f"it has {theirs} nodes along {name}, not {mine}"
        for name in self.coordinates.keys() & other.coordinates.keys():
            mine, theirs = self.coordinates[name], other.coordinates[name]
            if not np.allclose(mine, theirs, rtol=1e-6, atol=REGULAR * float(np.ptp(mine))):
                return f"its nodes along {name} have different coordinates"
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class Fields:
    """Whole fields or trajectories with named axes; one row is one field.

    Parameters
    ----------
    values
        Values of the fields, shape (N, *grid, m), or (N, *grid) for one output.
    dims
        Names of the axes of the grid, which lie between the rows and the outputs. An axis called "t" or
        "time" is time.
    coordinates
        Coordinates of the nodes, by axis. Cell volumes, derivatives and plots use them.
    periodic
        Names of the periodic axes.

    Examples
    --------
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
                "`dims` should name all axes of `values` except the first (rows) and the last (outputs): "
                f"{len(dims)} names ({', '.join(dims)}) fit (N, *grid) and (N, *grid, m), got shape "
                f"{tuple(values.shape)}. Pass a single field as values[None]. If outputs come first, use "
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
        cls,
        array: xarray.DataArray,
        *,
        row: str | None = None,
        output: str | None = None,
        periodic: Sequence[str] = (),
    ) -> Fields:
        """Convert an xarray `DataArray` with its dimensions and coordinates.

        Parameters
        ----------
        array
            The fields.
        row
            Name of the axis of fields. By default, usual names such as "field" or "sample" are recognized.
        output
            Name of the axis of outputs. By default, usual names such as "output" or "channel" are recognized.
        periodic
            Names of the periodic axes.

        Returns
        -------
        Fields
            The fields, with rows first and outputs last.

        Examples
        --------
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
        """Shape of the values, (N, *grid, m)."""
        return tuple(self.values.shape)

    @property
    def ndim(self) -> int:
        """Number of axes of the values."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Index) -> Fields:
        """Select fields by a slice, integer indices or booleans."""
        return Fields(self.values[rows], self.dims, self.coordinates, self.periodic)

    def turned(self, dims: Sequence[str]) -> Fields:
        """Transpose the axes of the grid.

        Parameters
        ----------
        dims
            Names of the axes in the new order.

        Returns
        -------
        Fields
            The same fields with their axes in this order.

        Examples
        --------
        >>> import numpy as np
        >>> import guardband as gb
        >>> gb.Fields(np.zeros((9, 3, 4)), dims=("t", "x")).turned(("x", "t"))
        Fields(9 trajectories, x=4, t=3, 1 output)
        """
        if list(dims) == list(self.dims):
            return self
        order = (0, *(1 + list(self.dims).index(name) for name in dims), self.ndim - 1)
        return Fields(np.transpose(to_numpy(self.values), order), dims, self.coordinates, self.periodic)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(to_numpy(self.values), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        what = "fields" if self.grid.time is None else "trajectories"
        sizes = repr(self.grid)[len("FieldGrid(") : -1]
        m = self.shape[-1]
        return f"Fields({len(self)} {what}, {sizes}, {m} output{'s' if m > 1 else ''})"


def row_axis(names: Sequence[str], chosen: str | None = None) -> str:
    """The axis of fields: the chosen one, or the one with a usual name.

    >>> row_axis(("t", "sample", "x"))
    'sample'
    """
    axis = _axis(chosen, ROWS, names, "row")
    if axis is None:
        raise _ambiguous(names, "row", "fields or trajectories")
    return axis


def row_or_first(names: Sequence[str]) -> str:
    """The axis of rows: the only axis with a usual name for rows, or otherwise the first axis.

    >>> row_or_first(("x", "sample")), row_or_first(("a", "b"))
    ('sample', 'a')
    """
    found = [name for name in names if name in ROWS]
    return found[0] if len(found) == 1 else names[0]


def output_axis(names: Sequence[str], chosen: str | None = None) -> str | None:
    """The axis of outputs: the chosen one, the one with a usual name, or None."""
    return _axis(chosen, OUTPUTS, names, "output")


def _are_numbers(places: np.ndarray, name: str) -> bool:
    """Whether the coordinates of an axis are numbers; dates are refused, and words are ignored."""
    if holds_dates(places):
        raise TypeError(f"The coordinates of {name} are dates or durations. {DATES}")
    return places.dtype.kind in "fiu"


def _axis(chosen: str | None, usual: Sequence[str], names: Sequence[str], argument: str) -> str | None:
    """The chosen axis, or the only one with a usual name; None if there is none."""
    if chosen is not None and chosen not in names:
        raise ValueError(f"`{argument}` should be one of the axes {', '.join(names)}, got {chosen!r}.")
    found = [name for name in names if name in usual] if chosen is None else [chosen]
    if len(found) > 1:
        raise _ambiguous(names, argument, "fields or trajectories" if argument == "row" else "outputs")
    return found[0] if found else None


def _ambiguous(names: Sequence[str], argument: str, what: str) -> ValueError:
    return ValueError(
        f"Which of the axes {', '.join(names)} is the axis of {what}? Pass its name: "
        f"gb.Fields.of(array, {argument}=...)."
    )
