"""A band over a field, computed on demand as a lazy dataset, a Zarr store or a mesh."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as part_of
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from guardband.base import engine, extras
from guardband.base.arrays import ArrayLike, floats, rows, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, allow_infinite, exact
from guardband.fields.base import PARTS, POINTS_PER_CHUNK, USUAL, Chunked
from guardband.fields.mesh import mesh_of, output_names, write_variables
from guardband.fields.store import to_store
from guardband.fields.stored import StoredBand, StoredFields, band_stored
from guardband.values import Band
from guardband.values.labeled import Axes, arranged

if TYPE_CHECKING:
    from pyvista import DataSet
    from xarray import Dataset


@overload
def band_over(  # type: ignore[reportOverlappingOverload]
    calibrated: Calibrated,
    grid: StoredFields,
    *,
    levels: Sequence[Level] | Level = 0.95,
    parts: Sequence[str] = PARTS,
    names: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    dtype: str = "float32",
    chunk: int | None = None,
) -> StoredBand: ...


@overload
def band_over(
    calibrated: Calibrated,
    grid: Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str],
    *,
    levels: Sequence[Level] | Level = 0.95,
    parts: Sequence[str] = PARTS,
    names: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    dtype: str = "float32",
    chunk: int | None = None,
) -> FieldBand: ...


def band_over(
    calibrated: Calibrated,
    grid: Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str],
    *,
    levels: Sequence[Level] | Level = 0.95,
    parts: Sequence[str] = PARTS,
    names: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    dtype: str = "float32",
    chunk: int | None = None,
) -> FieldBand | StoredBand:
    """Return the band over a whole field, computed on demand.

    Parameters
    ----------
    calibrated
        Calibration at points, or on whole fields.
    grid
        Named coordinates of a grid, in the order of the model's inputs; or points, shape (n, d); or a mesh
        file, whose nodes are the points. If the model has named axes, coordinates may be in any order. For a
        calibration on whole fields, the inputs of new fields as `gb.StoredFields`.
    levels
        One or several levels, which need only one evaluation of the model.
    parts
        Parts of the band to compute, among "mean", "lower", "upper" and "width".
    names
        Names of the outputs, by default those of the model.
    units
        Units of coordinates and outputs by name, for the attributes.
    dtype
        Data type of coordinates and results.
    chunk
        Number of points that are computed and written together; for whole fields, the number of fields.

    Returns
    -------
    FieldBand or StoredBand
        The band at points, or the bands of whole fields.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> gb.band_over(calibrated, {"x": np.linspace(0, 1, 1000)}, levels=[0.9, 0.95])
    FieldBand(x=1000: mean, lower_0.9, upper_0.9, lower_0.95, upper_0.95)
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`band_over` expects the result of `gb.calibrate`, got {type(calibrated).__name__}.")
    several = (
        [levels] if isinstance(levels, str | float | int) or not isinstance(levels, Sequence) else levels
    )
    decimals = tuple(f"{float(exact(level)):.12g}" for level in several)
    if not decimals or len({*decimals}) < len(decimals):
        got = ", ".join(decimals) or "none"
        raise ValueError(f"`levels` should be one level or several distinct levels, got {got}.")
    if calibrated.needs_groups:
        raise ValueError(f"{calibrated.name} needs the group of every point, but a grid has no groups.")
    if calibrated.prediction is None:
        raise ValueError(
            f"{calibrated.name} does not record its calibration points; call it at points instead."
        )
    if isinstance(grid, StoredFields):
        return band_stored(
            calibrated, grid, decimals, tuple(parts), tuple(names), dict(units or {}), dtype, chunk
        )
    if calibrated.prediction.mean.ndim != 2:
        raise ValueError(
            f"A band over a field is computed point by point, but {calibrated.name} was calibrated on whole "
            f"fields {tuple(calibrated.prediction.mean.shape)}. Call it on inputs instead, or pass "
            "the inputs as a store: gb.StoredFields(path, x=...)."
        )
    with allow_infinite():
        shown = calibrated.band(calibrated.prediction.take(slice(1)), several[0])
    if not isinstance(shown, Band):
        raise TypeError(
            f"A field has a lower and an upper end at each point, but the prediction sets of "
            f"{calibrated.name} are not boxes."
        )
    m = int(calibrated.prediction.mean.shape[-1])
    if names and len(names) != m:
        raise ValueError(f"`names` should name the {m} outputs, got {len(names)}.")
    field_names = calibrated.field_names
    names = names or (output_names(m) if field_names is None or m == 1 else field_names.outputs)
    mesh = None
    if isinstance(grid, str | os.PathLike):
        mesh = mesh_of(grid)
        if calibrated.prediction.x is None:
            raise ValueError(
                "The number of mesh coordinates that the model takes is unknown, since this calibration does "
                "not contain its points. Pass the points as an array of shape (n, d)."
            )
        grid = mesh.points[:, : calibrated.prediction.x.shape[1]]
    if isinstance(grid, Mapping):
        axes = {name: to_numpy(floats(values, name)).astype(dtype) for name, values in grid.items()}
        if not axes or any(values.ndim != 1 or not len(values) for values in axes.values()):
            shapes = {name: values.shape for name, values in axes.items()}
            raise ValueError(f"`grid` should map each axis to coordinates of shape (n,), got {shapes}.")
        axes = {name: axes[name] for name in _in_order(list(axes), _names_of_x(calibrated))}
    else:
        axes = {"point": to_numpy(rows(_points(calibrated, grid), "grid")).astype(dtype)}
    if not parts or set(parts) - {*PARTS, "width"}:
        raise ValueError(f'`parts` should be some of "mean", "lower", "upper", "width", got {list(parts)}.')
    about = {"names": tuple(names), "units": dict(units or {}), "parts": tuple(parts)}
    return FieldBand(calibrated, axes, decimals, **about, chunk=chunk or POINTS_PER_CHUNK, mesh=mesh)


def _names_of_x(calibrated: Calibrated) -> tuple[str, ...]:
    """The names of the columns of x at calibration, or of the axes of the model; () if both are unknown."""
    if calibrated.columns is not None:
        return tuple(map(str, calibrated.columns.names))
    if "x" in calibrated.axes and calibrated.axes["x"].words is not None:
        return tuple(map(str, calibrated.axes["x"].words))
    return () if calibrated.field_names is None else calibrated.field_names.axes


def _points(calibrated: Calibrated, points: ArrayLike) -> ArrayLike:
    """Points (n, d), with named columns in the order at calibration."""
    names = _names_of_x(calibrated)
    return arranged(points, Axes.of_columns(names) if names else None, "grid")


def _in_order(coordinates: list[str], names: tuple[str, ...]) -> Sequence[str]:
    """The names of coordinates in the order of the columns of x; other names are refused."""
    if names and {*coordinates} != {*names}:
        got = ", ".join(coordinates)
        raise ValueError(f"`grid` should contain coordinates for {', '.join(names)}, got {got}.")
    return names or coordinates


@dataclass(frozen=True, eq=False, repr=False)
class FieldBand(Chunked):
    """A band over a field that is computed by `to_xarray`, `to_zarr` or `to_mesh`.

    `band_over` creates it.

    Parameters
    ----------
    calibrated
        Calibration at points.
    axes
        Coordinates of a grid by name, or one axis "point" with points, shape (n, d).
    levels
        Levels as decimals.
    names
        Names of the outputs.
    units
        Units of coordinates and outputs by name.
    parts
        Parts of the band to compute.
    chunk
        Largest number of points in a chunk.
    mesh
        Mesh whose nodes are the points.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> calibrated = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
    >>> field = gb.band_over(calibrated, {"x": np.linspace(0, 1, 4)}, levels=0.9)
    >>> field.compute()["mean"].shape
    (4,)
    """

    mesh: DataSet | None = part_of(default=None, repr=False)

    def to_xarray(self, *, batch: int = USUAL) -> Dataset:
        """Return a lazy dataset backed by Dask, whose chunks are computed on demand.

        Parameters
        ----------
        batch
            Size of a micro-batch.

        Returns
        -------
        xarray.Dataset
            The variables with coordinates and attributes.
        """
        xarray, dask = extras.load("xarray", "scale"), extras.load("dask", "scale")
        stack = extras.load("dask.array", "scale")
        counts = [-(-n // size) for n, size in zip(self.shape, self.chunks, strict=True)]
        chunks = [dask.delayed(Chunked.compute)(self, region, batch=batch) for region in self.regions()]
        sizes = [tuple(part.stop - part.start for part in region) for region in self.regions()]
        data = {}
        for name in self.variables:
            blocks = np.empty(len(chunks), dtype=object)
            for i, (chunk, size) in enumerate(zip(chunks, sizes, strict=True)):
                blocks[i] = stack.from_delayed(chunk[name], size, self.dtype)
            data[name] = (self.dims, stack.block(blocks.reshape(counts).tolist()), self.attributes(name))
        return xarray.Dataset(data, coords=self.coordinates(), attrs=self.about())

    @engine.takes_old_places
    def to_zarr(
        self,
        path: str | os.PathLike[str],
        *,
        batch: int | None = None,
        on: engine.On = None,
        progress: bool = True,
    ) -> Path:
        """Write the field to a Zarr store; the same call resumes an interrupted run.

        Parameters
        ----------
        path
            Folder of the store.
        batch
            Size of a micro-batch, by default chosen by a short measurement. It is recorded in the store, so
            that results do not depend on where they are computed.
        on
            Where to compute: in this process (None), on this number of Dask workers on this machine, on
            the Dask scheduler at an address such as "tcp://head:8786", or on a `distributed.Client`. All
            workers must have access to the folder.
        progress
            Show a progress bar.

        Returns
        -------
        Path
            The folder.

        Notes
        -----
        Chunks in the store are verified by their hashes. Intact chunks are kept, damaged or missing chunks
        are recomputed, and new variables and levels are added. Every chunk has a checksum, so any reader
        detects a changed bit; `guardband.fields.verify(path)` checks all chunks. Until the store is
        complete, its attribute `complete` is "no" and missing chunks read as NaN. The hashes are in
        `<path>.notes` next to the store. Without this folder the store can be read but not resumed.

        Dask sends the calibration, including user-defined functions, to workers by pickle in memory, so use
        only a scheduler that you trust. No executable code is written to a file.
        """
        return to_store(self, path, batch, on, progress)

    def to_mesh(self, path: str | os.PathLike[str]) -> Path:
        """Write the band for ParaView at the nodes of the mesh, on the cells of the grid, or at points.

        Parameters
        ----------
        path
            File to write, .vtu or .vtk.

        Returns
        -------
        Path
            The file.
        """
        mesh = (
            self.mesh if self.mesh is not None else mesh_of(self.axes if self.is_grid else self.axes["point"])
        )
        return write_variables(mesh, {name: v.reshape(-1) for name, v in self.compute().items()}, path)
