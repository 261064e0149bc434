"""Stored fields: whole fields in a Zarr store or an xarray dataset, read a few at a time.

A chunk consists of several fields. It is read, predicted in micro-batches and scored, and only the scores are
kept, so calibration on any number of fields needs the memory of one chunk. `store.py` writes the results,
locally or on workers, such that an interrupted run can be resumed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np

from guardband.base import engine, limits
from guardband.base.arrays import Array, fingerprint, finite, flat, floats, kind_of, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import allow_infinite
from guardband.fields import reading
from guardband.fields.base import Attributes, Block, Chunked, predicted
from guardband.fields.mesh import output_names
from guardband.fields.store import to_store
from guardband.values import Band, Prediction
from guardband.values.grids import Fields, row_axis
from guardband.values.labeled import Axes, like_inputs, matched, opened

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

NODES_PER_CHUNK, NODES_AT_ONCE = 2**20, 2**17
"""Largest number of nodes in a chunk and in a micro-batch, unless a single field has more."""

FINGERPRINTED = 16
"""Number of fields whose values identify the data that results belong to."""

SCORE, WIDTH, ERROR, SIZE, INPUT = "score", "width", "error", "size", "input"
"""Numbers per field: score, mean width of its band, and mean squares of error, target and input."""


class HasScore(Protocol):
    """A calibration with a score."""

    @property
    def score(self) -> Callable[[Prediction, Array], Array]:
        """The scores of targets."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class StoredFields:
    """Whole fields in a Zarr store, a NetCDF file or an xarray dataset, read only when needed.

    `fields[1000:]` selects some of the fields.

    Parameters
    ----------
    source
        Path of a Zarr store or NetCDF file, or an xarray dataset, which is used as is.
    x, y
        Names of the variables of inputs and targets. Inputs are read with the axis of fields first and their
        other axes in the stored order.
    row
        Name of the axis of fields, if it is not a common one such as "field".
    output
        Name of the axis of outputs, if it is not a common one such as "channel". The other axes of `y` are
        those of the grid.
    periodic
        Names of periodic axes.
    first, last
        Range of fields, by default all.
    missing
        Treatment of absent chunks: "refuse" raises an error when they are read, and "fill" reads them as the
        fill value, for writers that omit such chunks, as zarr does by default.

    Notes
    -----
    A path may be untrusted: metadata are inspected before anything is decoded, and unusual codecs, links and
    excessive sizes raise a `ValueError`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> import guardband as gb
    >>> u = xarray.DataArray(np.zeros((50, 8, 8), "float32"), dims=("field", "x", "y"))
    >>> fields = gb.StoredFields(xarray.Dataset({"a": u, "u": u}), x="a", y="u")
    >>> fields, fields[10:].targets(slice(0, 2))
    (StoredFields(50 fields: a -> u), Fields(2 fields, x=8, y=8, 1 output))

    `gb.calibrate` and `gb.evaluate` accept them instead of x and y, and store the scores on disk:

    >>> import tempfile
    >>> a = np.random.default_rng(0).normal(size=(90, 8, 8))
    >>> u, dims = np.sin(a) + 0.1 * a, ("field", "x", "y")
    >>> data = xarray.Dataset({"a": (dims, a), "u": (dims, u)})
    >>> fields, folder = gb.StoredFields(data, x="a", y="u"), tempfile.mkdtemp()
    >>> def model(a):
    ...     return np.sin(a)[..., None]  # (N, *grid, m), as in memory
    >>> made = gb.calibrate(model, fields[:50], scores=f"{folder}/cal.zarr", progress=False)
    >>> made
    Calibrated(MeanOnly, score=Simultaneous(), calibrator=Split(), n=50)
    >>> print(
    ...     gb.evaluate(
    ...         made, fields[50:], scores=f"{folder}/test.zarr", level=0.9, progress=False
    ...     ).verdict
    ... )
    Consistent with the guarantee: 38 of 40 covered, a valid band covers 28 to 40 in 99 % of cases.
    """

    source: str | os.PathLike[str] | Dataset
    x: str
    y: str | None = None
    row: str | None = None
    output: str | None = None
    periodic: Sequence[str] = ()
    first: int = 0
    last: int | None = None
    missing: str = "refuse"

    def __post_init__(self) -> None:
        if self.missing not in ("refuse", "fill"):
            raise ValueError(f"`missing` should be 'refuse' or 'fill', got {self.missing!r}.")
        if isinstance(self.source, str | os.PathLike):
            shown = limits.printable(os.fspath(self.source))
            try:
                path = Path(self.source).resolve()  # workers may run in other folders
                exists = path.exists()
            except ValueError as error:  # null bytes and other characters that names cannot have
                raise ValueError(
                    f"{shown} is not a valid file name. Pass the path of a Zarr store or a NetCDF file."
                ) from error
            if not exists:
                raise FileNotFoundError(
                    f"There is no {shown}. Pass the path of a Zarr store or a NetCDF file."
                )
            vars(self).update(source=path)
        elif not (hasattr(self.source, "data_vars") and hasattr(self.source, "sizes")):
            raise TypeError(
                "`source` should be the path of a Zarr store or NetCDF file, or an xarray Dataset, got "
                f"{type(self.source).__name__}. Convert a DataArray with array.to_dataset(name='u')."
            )
        for argument, name in (("x", self.x), ("y", self.y)):
            if name is not None and name not in self.dataset.data_vars:
                known = limits.printable(limits.listed(self._variables()))
                raise ValueError(f"`{argument}` should be one of the variables {known}, got {name!r}.")
        vars(self).update(last=self.dataset.sizes[self.axis] if self.last is None else self.last)

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset, opened in each process and not read yet."""
        return self._opened.dataset if isinstance(self.source, Path) else cast("Dataset", self.source)

    @cached_property
    def _opened(self) -> reading.Source:
        assert isinstance(self.source, Path)
        names = [name for name in (self.x, self.y) if name is not None]
        return reading.open_source(self.source, names, missing=self.missing)

    def _variables(self) -> list[str]:
        if isinstance(self.source, Path):
            return reading.variables(self.source)
        return [*map(str, self.dataset.data_vars)]

    @property
    def axis(self) -> str:
        """The axis of fields."""
        names = [str(name) for name in self.dataset[self.y or self.x].dims]
        return names[0] if self.row is None and self.y is None else row_axis(names, self.row)

    def __len__(self) -> int:
        assert self.last is not None
        return self.last - self.first

    def __getitem__(self, some: slice) -> StoredFields:
        """Select consecutive fields."""
        if not isinstance(some, slice) or some.step not in (None, 1):
            raise TypeError(f"Stored fields are selected by slices such as fields[1000:], got {some!r}.")
        start, stop, _ = some.indices(len(self))
        return replace(self, first=self.first + start, last=self.first + max(start, stop))

    def __getstate__(self) -> dict[str, Any]:
        """The state sent to a worker, without an opened dataset if there is a path."""
        state = dict(vars(self))
        if isinstance(self.source, Path):
            state.pop("dataset", None)
            state.pop("_opened", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __repr__(self) -> str:
        return f"StoredFields({len(self)} fields: {self.x}{'' if self.y is None else f' -> {self.y}'})"

    def inputs(self, some: slice, known: Axes | None = None) -> np.ndarray:
        """Read the inputs of some fields.

        Parameters
        ----------
        some
            Range of fields.
        known
            Names of the axes in the requested order, by default the stored order.

        Returns
        -------
        np.ndarray
            Inputs, with the axis of fields first.
        """
        values, axes = self.named_inputs(some)
        return values if known is None else to_numpy(matched(values, axes, known, self.x))

    def named_inputs(self, some: slice) -> tuple[np.ndarray, Axes]:
        """Read the inputs of some fields with the names of their axes.

        Parameters
        ----------
        some
            Range of fields.

        Returns
        -------
        values : np.ndarray
            Inputs in the stored order, with the axis of fields first.
        axes : Axes
            Names of their axes.
        """
        values, axes = opened(self._read(self.x, some), self.x, row=self.axis)
        assert axes is not None
        return to_numpy(finite(floats(values, self.x), f"{self.x} of fields {self._words(some)}")), axes

    def targets(self, some: slice) -> Fields:
        """Read the targets of some fields.

        Parameters
        ----------
        some
            Range of fields.

        Returns
        -------
        Fields
            Targets with the names of their axes.
        """
        if self.y is None:
            raise ValueError(
                "These fields have no targets. Name their variable: gb.StoredFields(..., y=...)."
            )
        _, axes = opened(self.dataset[self.x].isel({self.axis: slice(0)}), self.x, row=self.axis)
        array = like_inputs(self._read(self.y, some), axes)
        found = Fields.of(array, row=self.axis, output=self.output, periodic=self.periodic)
        finite(found.values, f"{self.y} of fields {self._words(some)}")
        return found

    def chunk(self, nodes: int) -> int:
        """Return the default number of fields in a chunk: as many complete chunks of the dataset as fit.

        Parameters
        ----------
        nodes
            Number of values in a field.

        Returns
        -------
        int
            Number of fields.
        """
        encoding, lazy = self.dataset[self.x].encoding, dict(self.dataset[self.x].chunksizes)
        stored = encoding.get("preferred_chunks") or {name: sizes[0] for name, sizes in lazy.items()}
        together = int(stored.get(self.axis, 1))
        return together * max(1, NODES_PER_CHUNK // (together * nodes))

    def _read(self, name: str, some: slice) -> DataArray:
        start, stop, _ = some.indices(len(self))
        found = self.dataset[name].isel({self.axis: slice(self.first + start, self.first + stop)})
        if not isinstance(self.source, Path):
            return found
        try:
            self._opened.check(name, self.axis, self.first + start, self.first + stop)
        except ValueError as error:
            raise ValueError(f"{self.source}: {name} of fields {self._words(some)}: {error}") from error
        try:
            return found.load()
        except Exception as error:  # codecs raise errors of many types
            prefix = f"{self.source}: {name} of fields {self._words(some)} cannot be read"
            raise reading.named(error, self.source, prefix) from error

    def _words(self, some: slice) -> str:
        start, stop, _ = some.indices(len(self))
        return f"{self.first + start} to {self.first + stop - 1}"


@dataclass(frozen=True, eq=False, repr=False)
class Stored(Chunked):
    """Whole fields in chunks of several fields."""

    fields: StoredFields = field(kw_only=True)
    unit: ClassVar[str] = "field"

    @cached_property
    def data(self) -> str:
        """The fingerprint of a few fields, from the first to the last."""
        rows = np.unique(np.linspace(0, len(self.fields) - 1, FINGERPRINTED).astype(int))
        some = [slice(i, i + 1) for i in rows]
        parts = [self.fields.inputs(one) for one in some]
        if self.fields.y is not None:
            parts += [self.fields.targets(one).values for one in some]
        return fingerprint(parts)

    def tuned_batch(self) -> int:
        """Return the default number of fields in a micro-batch, from the number of nodes of a field."""
        return max(1, NODES_AT_ONCE // nodes_of(self.calibrated))

    def predicted(self, some: slice, batch: int) -> Prediction:
        """Predict some fields in micro-batches.

        Parameters
        ----------
        some
            Range of fields.
        batch
            Number of fields in a micro-batch.

        Returns
        -------
        Prediction
            Prediction with one row per field.
        """
        inputs = self.fields.inputs(some, self.calibrated.axes.get("x"))
        return predicted(self.calibrated, inputs, batch)


@dataclass(frozen=True, eq=False, repr=False)
class StoredScores(Stored):
    """The score of each field and, for an evaluation, further numbers."""

    asked: tuple[str, ...] = (SCORE,)

    @property
    def variables(self) -> list[str]:
        """The names of the numbers of each field."""
        return [f"{name}_{self.levels[0]}" if name == WIDTH else name for name in self.asked]

    @property
    def dtype(self) -> np.dtype:
        """float64, so that scores are not rounded."""
        return np.dtype(float)

    def compute(self, region: Block | None = None, *, batch: int = 1) -> dict[str, np.ndarray]:
        """Compute the numbers of some fields."""
        if region is None:
            parts = [self.compute(part, batch=batch) for part in self.regions()]
            return {name: np.concatenate([part[name] for part in parts]) for name in self.variables}
        prediction = self.predicted(region[0], batch)
        y = kind_of(prediction.mean, self.calibrated.targets(self.fields.targets(region[0])))
        score = cast("HasScore", self.calibrated).score
        numbers: dict[str, Callable[[], np.ndarray]] = {
            SCORE: lambda: to_numpy(score(prediction, y)),
            WIDTH: lambda: self._widths(prediction),
            ERROR: lambda: _mean_squares(to_numpy(prediction.mean) - to_numpy(y)),
            SIZE: lambda: _mean_squares(to_numpy(y)),
            INPUT: lambda: _mean_squares(to_numpy(prediction.x)),
        }
        values = [np.asarray(numbers[name](), dtype=float) for name in self.asked]
        return dict(zip(self.variables, values, strict=True))

    def attributes(self, variable: str) -> Attributes:
        """Return the attributes of a variable."""
        return {"long_name": f"{variable} of each field"}

    def about(self) -> Attributes:
        """Return the attributes of the store."""
        return {"title": "scores of fields by guardband", "comment": repr(self.fields)}

    def _widths(self, prediction: Prediction) -> np.ndarray:
        with allow_infinite():
            width = to_numpy(self.calibrated.band(prediction, self.levels[0]).width)
        return flat(np.asarray(width, dtype=float)).mean(axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class StoredBand(Stored):
    """Bands of whole fields with their means, computed and written by `to_zarr`.

    `band_over` creates it.

    Parameters
    ----------
    calibrated
        Calibration on whole fields.
    axes
        Numbers of the fields and coordinates of the grid, by name.
    levels
        Levels as decimals.
    names
        Names of the outputs.
    units
        Units of coordinates and outputs by name.
    parts
        Parts of the band to compute.
    chunk
        Number of fields in a chunk.
    fields
        Inputs of the fields.
    precision
        Data type of the results.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> import guardband as gb
    >>> a = np.random.default_rng(0).normal(size=(50, 8, 8))
    >>> made = gb.calibrate(
    ...     lambda a: a[..., None],
    ...     a,
    ...     gb.Fields(a, dims=("x", "y")),
    ...     score=gb.Simultaneous(),
    ... )
    >>> data = xarray.Dataset({"a": (("field", "x", "y"), a + 1)})
    >>> band = gb.band_over(made, gb.StoredFields(data, x="a"), levels=0.9)
    >>> band
    StoredBand(field=50, x=8, y=8: mean, lower_0.9, upper_0.9)
    """

    precision: str = "float32"

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk, which consists of whole fields."""
        return (min(self.shape[0], self.chunk), *self.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the results."""
        return np.dtype(self.precision)

    def compute(self, region: Block | None = None, *, batch: int = 1) -> dict[str, np.ndarray]:
        """Compute the variables of some fields, or of a part of each."""
        if region is None:
            return super().compute(batch=batch)
        part = (slice(None), *region[1:])
        return {name: ends[part] for name, ends in self.ends(self.predicted(region[0], batch)).items()}

    @engine.takes_old_places
    def to_zarr(
        self,
        path: str | os.PathLike[str],
        *,
        batch: int | None = None,
        on: engine.On = None,
        progress: bool = True,
    ) -> Path:
        """Write means and bands to a Zarr store; the same call resumes an interrupted run.

        Parameters
        ----------
        path
            Folder of the store.
        batch
            Number of fields in a micro-batch.
        on
            Where to compute, as in `FieldBand.to_zarr`.
        progress
            Show a progress bar.

        Returns
        -------
        Path
            The folder.
        """
        return to_store(self, path, batch, on, progress)


def band_stored(
    calibrated: Calibrated,
    fields: StoredFields,
    levels: tuple[str, ...],
    parts: tuple[str, ...],
    names: tuple[str, ...],
    units: dict[str, str],
    dtype: str,
    chunk: int | None,
) -> StoredBand:
    """The bands of stored fields, whose axes are those of the calibration fields."""
    shown = calibrated.predict(fields.inputs(slice(1), calibrated.axes.get("x")))
    with allow_infinite():
        band = calibrated.band(shown, levels[0])
    if not isinstance(band, Band) or band.mean.ndim < 3:
        raise TypeError(
            f"A field has a lower and an upper end at each node, unlike the sets of {calibrated.name}. "
            "Use gb.Simultaneous() or gb.Share()."
        )
    *grid, m = band.mean.shape[1:]
    axes = {"field": numbered(fields)}
    known = calibrated.grid
    for i, size in enumerate(grid):
        name, numbers = f"x{i}" if known is None else known.dims[i], np.arange(float(size))
        axes[name] = numbers if known is None else known.coordinates.get(name, numbers)
    about = {"names": names or output_names(m), "units": units, "parts": parts, "precision": dtype}
    return StoredBand(
        calibrated, axes, levels, fields=fields, chunk=chunk or fields.chunk(nodes_of(calibrated)), **about
    )


def numbered(fields: StoredFields) -> np.ndarray:
    """The indices of fields in their dataset."""
    return np.arange(float(fields.first), float(fields.first + len(fields)))


def nodes_of(calibrated: Calibrated) -> int:
    """The number of values in a predicted field."""
    assert calibrated.prediction is not None
    return max(1, int(np.prod(calibrated.prediction.mean.shape[1:])))


def _mean_squares(values: np.ndarray) -> np.ndarray:
    return (flat(np.asarray(values, dtype=float)) ** 2).mean(axis=1)
