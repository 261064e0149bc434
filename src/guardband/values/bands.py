"""Prediction bands: intervals at each point, or balls around whole fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from guardband.base.arrays import (
    Array,
    copy,
    flat,
    kind_of,
    refuse_other_length,
    refuse_other_shape,
    rows,
    to_numpy,
)
from guardband.values import cf
from guardband.values.grids import FieldGrid
from guardband.values.labeled import Axes, arranged_targets
from guardband.values.names import Names, output_names
from guardband.values.prediction import Prediction

if TYPE_CHECKING:
    import pandas
    import xarray


@dataclass(frozen=True, eq=False)
class Band:
    """A prediction band: an interval [lower, upper] around the mean at each point.

    Both ends belong to the band. With several outputs the band is joint: a row is covered if all its outputs
    lie inside.

    Parameters
    ----------
    x
        Points, shape (n, d), or None if they are unknown.
    mean
        The prediction, shape (n, m), or (N, *grid, m) for whole fields.
    lower, upper
        Ends of the intervals, each with the shape of `mean`.
    level
        The coverage that was requested.
    names
        Names of the axes and outputs.
    grid
        The grid of whole fields.
    targets
        Names of the axes and outputs of the calibration targets, which `contains` uses to match new targets.
    side
        "upper" or "lower" for one-sided bounds, "both" for intervals, or one of these for each output.

    Examples
    --------
    >>> import guardband as gb
    >>> band = gb.Band(None, [0.0, 1.0], [-1.0, 0.5], [1.0, 1.5], level=0.9)
    >>> band.contains([0.3, 2.0])
    array([ True, False])
    """

    x: Array | None
    mean: Array
    lower: Array
    upper: Array
    level: float
    names: Names | None = None
    grid: FieldGrid | None = None
    targets: Axes | None = None
    side: str | tuple[str, ...] = "both"
    boxed: ClassVar[bool] = True
    """Whether every target in the band lies between its ends at all points."""

    def __post_init__(self) -> None:
        mean = rows(self.mean, "mean")
        lower, upper = (kind_of(mean, rows(getattr(self, n), n)) for n in ("lower", "upper"))
        vars(self).update(mean=mean, lower=lower, upper=upper)
        refuse_other_shape("lower", lower, "mean", mean)
        refuse_other_shape("upper", upper, "mean", mean)
        if self.x is not None:
            vars(self).update(x=kind_of(mean, rows(self.x, "x")))
            refuse_other_length("x", self.x, "mean", mean)

    @classmethod
    def around(cls, prediction: Prediction, lower: Array, upper: Array, level: float) -> Band:
        """Return the band around a prediction, without validation.

        Parameters
        ----------
        prediction
            The prediction, which supplies the points and the mean.
        lower, upper
            Ends of the intervals, each with the shape and the type of the mean.
        level
            The coverage that was requested.

        Returns
        -------
        Band
            The band, whose arrays are not copied.
        """
        band = object.__new__(cls)
        band.__dict__.update(x=prediction.x, mean=prediction.mean, lower=lower, upper=upper, level=level)
        return band

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        infinite = int((flat(to_numpy(self.width)) == np.inf).any(axis=-1).sum())
        side = self.side if isinstance(self.side, str) else "/".join(self.side)
        note = "" if side == "both" else f", {side} bounds"
        note += f", {infinite} of them infinite" if infinite else ""
        empty = int(self.empty.sum())
        note += f", {empty} of them empty" if empty else ""
        return f"Band(level={self.level:g}, {len(self)} points{note})"

    @property
    def width(self) -> Array:
        """Upper minus lower, (n, m), and 0 where the interval is empty; for one-sided bounds the margin.

        The margin is the distance from the mean to the bound, negative if the bound lies beyond the mean.
        """
        if self.side == "both":
            return (self.upper - self.lower).clip(min=0)
        width = copy(self.mean)
        for j, side in enumerate(self.sides):
            lower, mean, upper = (part[..., j] for part in (self.lower, self.mean, self.upper))
            margins = {"upper": upper - mean, "lower": mean - lower, "none": 0.0 * mean}
            width[..., j] = margins[side] if side in margins else (upper - lower).clip(min=0)
        return width

    @property
    def sides(self) -> tuple[str, ...]:
        """The side of each output."""
        return (self.side,) * self.mean.shape[-1] if isinstance(self.side, str) else self.side

    @property
    def empty(self) -> np.ndarray:
        """Rows with an empty interval (upper end below lower end), as booleans of shape (n,)."""
        return flat(to_numpy(self.upper < self.lower)).any(axis=-1)

    def contains(self, y: Array) -> Array:
        """Test which rows of targets lie in the band with all their outputs.

        Parameters
        ----------
        y
            Targets, shape (n, m). NaN is never covered.

        Returns
        -------
        Array
            Booleans of shape (n,).
        """
        y = targets_of(self, y)
        refuse_other_shape("y", y, "band", self.mean)
        inside = (self.lower <= y) & (y <= self.upper)
        return flat(inside).all(-1)

    def numpy(self) -> Band:
        """Convert to numpy arrays.

        Returns
        -------
        Band
            The same band with numpy arrays.
        """
        x = None if self.x is None else to_numpy(self.x)
        ends = (to_numpy(self.mean), to_numpy(self.lower), to_numpy(self.upper))
        return replace(self, x=x, **dict(zip(("mean", "lower", "upper"), ends, strict=True)))

    def one(self, row: int) -> Band:
        """Return one of several whole fields as a band over its nodes, for plots and tables.

        Parameters
        ----------
        row
            Index of the field.

        Returns
        -------
        Band
            The band at the nodes of the grid, with x of shape (points, d).

        Examples
        --------
        >>> import numpy as np
        >>> import guardband as gb
        >>> u = gb.Fields(np.ones((9, 5)), dims="x", coordinates={"x": np.linspace(0, 1, 5)})
        >>> band = gb.calibrate_arrays(0 * u.values, u, score=gb.Simultaneous())
        >>> band.band(gb.Prediction(None, np.zeros((2, 5, 1))), level=0.9).one(0).x.ravel()
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
        """
        if self.mean.ndim < 3:
            raise ValueError("This band has one row per point rather than per field. Plot it directly.")
        m = self.mean.shape[-1]
        mean, low, high = (to_numpy(part)[row].reshape(-1, m) for part in (self.mean, self.lower, self.upper))
        grid = self.grid or FieldGrid(("node",), (len(mean),))
        return Band(grid.nodes, mean, low, high, self.level, Names(grid.dims, output_names(m), grid.space))

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to a table with one row per point.

        Returns
        -------
        pandas.DataFrame
            Columns x0, x1, ..., mean, lower and upper (mean0, mean1, ... for several outputs). If axes and
            outputs have names, the columns use them: x, y, mean_u, mean_p, ...
        """
        import pandas

        return pandas.DataFrame({name: column for name, column in self._columns()})

    def to_xarray(self, units: Mapping[str, str] | None = None) -> xarray.Dataset:
        """Convert to a dataset over `point` (and `output`), with the coordinates of x and the level.

        Parameters
        ----------
        units
            Units of axes and outputs, by name.

        Returns
        -------
        xarray.Dataset
            The variables mean, lower, upper and offsets (the ends minus the mean).

        Notes
        -----
        Attributes follow the CF conventions. `offsets` follows their draft chapter on uncertainty; an
        attribute of the dataset gives the version of the draft.

        Examples
        --------
        >>> import guardband as gb
        >>> data = gb.Band([0.5], [1.0], [0.0], [3.0], level=0.9).to_xarray(
        ...     {"x0": "m", "u": "K"}
        ... )
        >>> (
        ...     data["upper"].attrs["units"],
        ...     data["x0"].attrs["units"],
        ...     data["offsets"].values.tolist(),
        ... )
        ('K', 'm', [[[-1.0, 2.0]]])
        """
        import xarray

        band, units = self.numpy(), units or {}
        dims, places = _axes_of(band.mean, self.grid)
        m = band.mean.shape[-1]
        outputs = output_names(m) if self.names is None else self.names.outputs
        unknown = {*units} - {*outputs, *places, *(name for name, _ in band._coordinates())}
        if unknown:
            raise ValueError(
                f"`units` should name axes and outputs of the band, got {', '.join(sorted(unknown))}."
            )
        known = [units.get(output, "") for output in outputs]
        same = {"units": known[0]} if len({*known}) == 1 and known[0] else {}
        parts = {part: getattr(band, part) for part in ("mean", *cf.ENDS)}
        coords: dict[str, Any] = {name: ("point", values) for name, values in band._coordinates()} | {
            name: (name, values) for name, values in places.items()
        }
        for name, (dim, values) in coords.items():
            coords[name] = (dim, values, {"units": units[name]} if name in units else {})
        if m > 1 and (self.names is not None or any(known)):
            coords["output"] = list(outputs)
        if m > 1 and any(known):
            coords["output_units"] = ("output", known)
        data = cf.variables(dims, parts, self.level, attributes=same)
        return cf.described(
            xarray.Dataset(data, coords=coords, attrs=cf.dataset_attributes(level=self.level))
        )

    def _coordinates(self) -> Iterator[tuple[str, np.ndarray]]:
        if self.x is not None and self.x.ndim == 2:
            x = to_numpy(self.x)
            names = [f"x{j}" for j in range(x.shape[1])] if self.names is None else self.names.axes
            yield from ((name, x[:, j]) for j, name in enumerate(names))

    def _columns(self) -> Iterator[tuple[str, np.ndarray]]:
        if self.mean.ndim != 2:
            raise ValueError("A table has one row per point. For whole fields, use `to_xarray()`.")
        yield from self._coordinates()
        for name in ("mean", "lower", "upper"):
            values = to_numpy(getattr(self, name))
            for j in range(values.shape[1]):
                suffix = str(j) if self.names is None else f"_{self.names.outputs[j]}"
                yield (name if values.shape[1] == 1 else f"{name}{suffix}"), values[:, j]


@dataclass(frozen=True, eq=False)
class NormBand:
    """A ball around a whole field: all fields whose distance to the mean, in a norm, is at most a radius.

    A ball in a norm has no ends at individual points. A field in the ball may leave any interval at a point.
    Use `contains` to test membership.

    Parameters
    ----------
    x
        Inputs, one row per field, or None if they are unknown.
    mean
        The predicted fields, shape (n, ...).
    radius
        Radius of each ball, shape (n,) or a number.
    norm
        A function from differences, shape (n, ...), to their norms, shape (n,).
    level
        The coverage that was requested.
    grid
        The grid of the fields.
    targets
        Names of the axes and outputs of the calibration targets, which `contains` uses to match new targets.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> def largest(difference):
    ...     return abs(difference).max(axis=(1, 2))
    >>> ball = gb.values.NormBand(
    ...     None, np.zeros((1, 5, 1)), np.array([2.0]), largest, level=0.9
    ... )
    >>> ball.contains(np.full((1, 5, 1), 1.5))
    array([ True])
    """

    x: Array | None
    mean: Array
    radius: Array
    norm: Callable[[Array], Array]
    level: float
    grid: FieldGrid | None = None
    targets: Axes | None = None

    def __post_init__(self) -> None:
        mean = rows(self.mean, "mean")
        radius = np.broadcast_to(np.asarray(to_numpy(self.radius), dtype=float), (len(mean),))
        vars(self).update(mean=mean, radius=radius)
        if self.x is not None:
            vars(self).update(x=kind_of(mean, rows(self.x, "x")))
            refuse_other_length("x", self.x, "mean", mean)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        infinite = int(np.isinf(self.radius).sum())
        note = f", {infinite} of them infinite" if infinite else ""
        return f"NormBand(level={self.level:g}, {len(self)} fields{note})"

    @property
    def width(self) -> Array:
        """Diameter in the norm, shape (n, 1)."""
        return 2 * self.radius[:, None]

    def contains(self, y: Array) -> Array:
        """Test which fields lie in the ball.

        Parameters
        ----------
        y
            Targets, with the shape of the mean. NaN is never covered.

        Returns
        -------
        Array
            Booleans of shape (n,).
        """
        y = targets_of(self, y)
        refuse_other_shape("y", y, "band", self.mean)
        return to_numpy(self.norm(y - self.mean)) <= self.radius

    def to_xarray(self) -> xarray.Dataset:
        """Convert to a dataset over `point`.

        Returns
        -------
        xarray.Dataset
            The variables mean and radius, and the level as an attribute.
        """
        import xarray

        dims, places = _axes_of(self.mean, self.grid)
        parts = {"mean": (dims, to_numpy(self.mean)), "radius": ((dims[0],), self.radius)}
        return xarray.Dataset(parts, coords=places, attrs={"level": self.level})


def targets_of(band: Band | NormBand, y: Array) -> Array:
    """Targets (n, m) as the type of array of the band, with named outputs and axes in its order."""
    known, names = band.targets, getattr(band, "names", None)
    if known is None and band.grid is not None:
        known = Axes.of_grid(band.grid, band.mean.shape[-1])
    if known is None and names is not None and len(names.outputs) > 1:
        known = Axes.of_columns(names.outputs)
    return kind_of(band.mean, rows(arranged_targets(y, known, "y"), "y"))


def _axes_of(mean: Array, grid: FieldGrid | None) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The names of the axes of a mean in a dataset, and the known coordinates of its nodes."""
    if grid is not None:
        return ("point", *grid.dims, "output"), grid.coordinates
    if mean.ndim > 3:
        raise ValueError(
            f"The axes of fields {tuple(mean.shape)} have no names. Calibrate on fields with named axes: "
            'gb.Fields(values, dims=("x", "y")).'
        )
    return ("point", "node", "output")[:: 1 if mean.ndim == 3 else 2], {}
