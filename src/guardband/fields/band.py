"""A band over a field: computed when it is asked for, as a lazy dataset, a Zarr store or a mesh."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as part_of
from pathlib import Path
from typing import Any, overload

import numpy as np

from guardband.base import engine, extras
from guardband.base.arrays import ArrayLike, floats, rows, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, allow_infinite, exact
from guardband.fields.base import PARTS, POINTS_PER_CHUNK, USUAL, Chunked
from guardband.fields.mesh import mesh_of, output_names, write_variables
from guardband.fields.stored import StoredBand, StoredFields, band_stored
from guardband.fields.writing import to_store
from guardband.values import Band
from guardband.values.labeled import Axes, arranged


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
    """The band over a whole field, computed when it is asked for.

    `grid` is named coordinates, in the order of the model's inputs, of which every combination is a point;
    or points (n, d); or a mesh file, whose nodes are the points. `parts` are those of the band that are
    wanted: "mean", "lower", "upper", "width". `names` are those of several outputs, `units` go into the
    attributes. Several levels cost one pass of the model. Where the model knows the names of its axes and
    outputs, coordinates may come in any order, and the outputs have their names. `chunk` is how many points
    are computed and written together.

    For a calibration on whole fields, `grid` is the inputs of others, a `gb.StoredFields`: their bands are
    written beside the means, field by field, in chunks of so many fields.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> gb.band_over(calibrated, {"x": np.linspace(0, 1, 1000)}, levels=[0.9, 0.95])
    FieldBand(x=1000: mean, lower_0.9, upper_0.9, lower_0.95, upper_0.95)
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`band_over` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    several = (
        [levels] if isinstance(levels, str | float | int) or not isinstance(levels, Sequence) else levels
    )
    decimals = tuple(f"{float(exact(level)):.12g}" for level in several)
    if not decimals or len({*decimals}) < len(decimals):
        given = ", ".join(decimals) or "none"
        raise ValueError(f"`levels` should be one level or several different ones, got {given}.")
    if calibrated.needs_groups:
        raise ValueError(f"{calibrated.name} wants the group of every point, which a grid does not have.")
    if calibrated.prediction is None:
        raise ValueError(
            f"{calibrated.name} does not say what it was calibrated on; call it at points instead."
        )
    if isinstance(grid, StoredFields):
        return band_stored(
            calibrated, grid, decimals, tuple(parts), tuple(names), dict(units or {}), dtype, chunk
        )
    if calibrated.prediction.mean.ndim != 2:
        raise ValueError(
            f"A band over a field is computed point by point; {calibrated.name} was calibrated on whole "
            f"fields {tuple(calibrated.prediction.mean.shape)}. Call it on inputs instead, or give "
            "those in a store, gb.StoredFields(path, x=...)."
        )
    with allow_infinite():
        shown = calibrated.band(calibrated.prediction.take(slice(1)), several[0])
    if not isinstance(shown, Band):
        raise TypeError(
            f"A field has a lower and an upper end at each point; the sets of {calibrated.name} are no boxes."
        )
    m = int(calibrated.prediction.mean.shape[-1])
    if names and len(names) != m:
        raise ValueError(f"`names` should name the {m} outputs, got {len(names)}.")
    known = calibrated.field_names
    names = names or (output_names(m) if known is None or m == 1 else known.outputs)
    mesh = None
    if isinstance(grid, str | os.PathLike):
        mesh = mesh_of(grid)
        if calibrated.prediction.x is None:
            raise ValueError(
                "How many of a mesh's coordinates the model takes is not known: the calibration points were "
                "not given. Give the points as an array (n, d)."
            )
        grid = mesh.points[:, : calibrated.prediction.x.shape[1]]
    if isinstance(grid, Mapping):
        axes = {name: to_numpy(floats(values, name)).astype(dtype) for name, values in grid.items()}
        if not axes or any(values.ndim != 1 or not len(values) for values in axes.values()):
            shapes = {name: values.shape for name, values in axes.items()}
            raise ValueError(f"`grid` should map names to coordinates (n,), one axis each, got {shapes}.")
        axes = {name: axes[name] for name in _in_order(list(axes), _names_of_x(calibrated))}
    else:
        axes = {"point": to_numpy(rows(_points(calibrated, grid), "grid")).astype(dtype)}
    if not parts or set(parts) - {*PARTS, "width"}:
        raise ValueError(f'`parts` should be some of "mean", "lower", "upper", "width", got {list(parts)}.')
    about = {"names": tuple(names), "units": dict(units or {}), "parts": tuple(parts)}
    return FieldBand(calibrated, axes, decimals, **about, chunk=chunk or POINTS_PER_CHUNK, mesh=mesh)


def _names_of_x(calibrated: Calibrated) -> tuple[str, ...]:
    """The names of the columns of x at calibration, or of the axes of the model; () if neither is known."""
    if calibrated.columns is not None:
        return tuple(map(str, calibrated.columns.names))
    if "x" in calibrated.axes and calibrated.axes["x"].words is not None:
        return tuple(map(str, calibrated.axes["x"].words))
    return () if calibrated.field_names is None else calibrated.field_names.axes


def _points(calibrated: Calibrated, given: Any) -> Any:
    """Points (n, d), with named columns in the order of those at calibration."""
    names = _names_of_x(calibrated)
    return arranged(given, Axes.of_columns(names) if names else None, "grid")


def _in_order(given: list[str], names: tuple[str, ...]) -> Sequence[str]:
    """The names of coordinates in the order of the columns of x; other names are refused."""
    if names and {*given} != {*names}:
        raise ValueError(f"`grid` should give coordinates for {', '.join(names)}, got {', '.join(given)}.")
    return names or given


@dataclass(frozen=True, eq=False, repr=False)
class FieldBand(Chunked):
    """A band over a field that is not computed yet: `to_xarray`, `to_zarr`, `to_mesh`.

    `axes` are the coordinates of a grid, or one axis of points (n, d).

    >>> import numpy as np
    >>> import guardband as gb
    >>> calibrated = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
    >>> field = gb.band_over(calibrated, {"x": np.linspace(0, 1, 4)}, levels=0.9)
    >>> field.compute()["mean"].shape
    (4,)
    """

    mesh: Any = part_of(default=None, repr=False)

    def to_xarray(self, *, batch: int = USUAL) -> Any:
        """A lazy `xarray.Dataset` on Dask: chunks are computed when asked for."""
        xarray, dask = extras.load("xarray", "scale"), extras.load("dask", "scale")
        stack = extras.load("dask.array", "scale")
        counts = [-(-n // size) for n, size in zip(self.shape, self.chunks, strict=True)]
        made = [dask.delayed(Chunked.compute)(self, region, batch=batch) for region in self.regions()]
        sizes = [tuple(part.stop - part.start for part in region) for region in self.regions()]
        data = {}
        for name in self.variables:
            blocks = np.empty(len(made), dtype=object)
            for i, (chunk, size) in enumerate(zip(made, sizes, strict=True)):
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
        """Write the field to a Zarr store, here or on Dask; a killed run is resumed when called again.

        What is there is verified by its hashes and not computed again; what is damaged or missing is made
        again, and variables and levels that are not there yet are added. Every chunk holds a checksum, so
        that any reader notices a changed bit; `guardband.fields.verify(path)` looks at all of them. The
        micro-batch is chosen by a short measurement, once, and kept in the store: results do not depend on
        who computed them. Until all is written, the attribute `complete` is "no" and missing chunks read as
        NaN. Beside the store lies `<path>.notes` with the hashes; without it the store is whole, but cannot
        be resumed.

        `on` says where: None is this process, a number that many Dask workers on this machine, an address
        such as "tcp://head:8786" a Dask scheduler, and a `distributed.Client` itself. Dask sends workers the
        calibration, your own functions in it too, from memory to memory by pickle, so a scheduler must be
        trusted; nothing that can be run is written to a file. All must see the folder.
        """
        return to_store(self, path, batch, on, progress)

    def to_mesh(self, path: str | os.PathLike[str]) -> Path:
        """Write the band at the nodes of a mesh, of a grid with its cells, or at points, for ParaView."""
        where = (
            self.mesh if self.mesh is not None else mesh_of(self.axes if self.is_grid else self.axes["point"])
        )
        return write_variables(where, {name: v.reshape(-1) for name, v in self.compute().items()}, path)
