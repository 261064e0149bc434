"""A band over a field: computed when it is asked for, chunk by chunk, in micro-batches that fit the cache."""

from __future__ import annotations

import itertools
import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as part_of
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from tqdm.auto import tqdm

from guardband import engine, extras
from guardband.arrays import ArrayLike, floats, rows, to_numpy
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.conformal.rank import Level, exact
from guardband.fields import chunks
from guardband.fields.chunks import Region
from guardband.fields.mesh import mesh_of, write_variables
from guardband.values import Prediction

CHUNK = 2**18
"""How many points a chunk holds at most; it is computed and written as a whole."""

Coordinate: TypeAlias = tuple[tuple[str, ...], np.ndarray, dict[str, str]]
"""Dimensions, values and attributes, as xarray takes them."""

PARTS = ("mean", "lower", "upper")
"""What is computed of a band if nothing else is asked for."""

BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
"""Micro-batches among which a short measurement chooses."""

USUAL = 4096
"""The micro-batch where nothing was measured."""


def field(
    calibrated: Calibrated,
    grid: Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str],
    *,
    levels: Sequence[Level] | Level = 0.95,
    parts: Sequence[str] = PARTS,
    names: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    dtype: str = "float32",
    chunk: int = CHUNK,
) -> FieldBand:
    """The band over a whole field, computed when it is asked for.

    `grid` is named coordinates, in the order of the model's inputs, of which every combination is a point;
    or points (n, d); or a mesh file, whose nodes are the points. `parts` are those of the band that are
    wanted: "mean", "lower", "upper", "width". `names` are those of several outputs, `units` go into the
    attributes. Several levels cost one pass of the model.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.sin), x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> gb.field(calibrated, {"x": np.linspace(0, 1, 1000)}, levels=[0.9, 0.95])
    FieldBand(x=1000: mean, lower_0.9, upper_0.9, lower_0.95, upper_0.95)
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`field` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    several = (
        [levels] if isinstance(levels, str | float | int) or not isinstance(levels, Sequence) else levels
    )
    decimals = tuple(f"{float(exact(level)):.12g}" for level in several)
    m = int(calibrated.prediction.mean.shape[-1])
    if names and len(names) != m:
        raise ValueError(f"`names` should name the {m} outputs, got {len(names)}.")
    mesh = None
    if isinstance(grid, str | os.PathLike):
        mesh = mesh_of(grid)
        d = m if calibrated.prediction.x is None else calibrated.prediction.x.shape[1]
        grid = mesh.points[:, :d]
    if isinstance(grid, Mapping):
        axes = {name: to_numpy(floats(values, name)).astype(dtype) for name, values in grid.items()}
        if not axes or any(values.ndim != 1 for values in axes.values()):
            raise ValueError("`grid` should map names to coordinates (n,), one axis each.")
    else:
        axes = {"point": to_numpy(rows(grid, "grid")).astype(dtype)}
    if not parts or set(parts) - {*PARTS, "width"}:
        raise ValueError(f'`parts` should be some of "mean", "lower", "upper", "width", got {list(parts)}.')
    about = {"names": tuple(names), "units": dict(units or {}), "parts": tuple(parts)}
    return FieldBand(calibrated, axes, decimals, **about, chunk=chunk, mesh=mesh)


@dataclass(frozen=True, eq=False)
class FieldBand:
    """A band over a field that is not computed yet: `to_xarray`, `to_zarr`, `to_mesh`.

    `axes` are the coordinates of a grid, or one axis of points (n, d).

    >>> import numpy as np
    >>> import guardband as gb
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.sin), np.arange(20.0), np.ones(20))
    >>> gb.field(calibrated, {"x": np.linspace(0, 1, 4)}, levels=0.9).compute()["mean"].shape
    (4,)
    """

    calibrated: Calibrated
    axes: dict[str, np.ndarray]
    levels: tuple[str, ...]
    names: tuple[str, ...] = ()
    units: dict[str, str] = part_of(default_factory=dict)
    parts: tuple[str, ...] = PARTS
    chunk: int = CHUNK
    mesh: Any = part_of(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points there are along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def variables(self) -> list[str]:
        """The mean, and the other parts at every level, of every output."""
        ends = [f"{part}_{level}" for level in self.levels for part in self.parts if part != "mean"]
        found = ["mean", *ends] if "mean" in self.parts else ends
        return [f"{name}_{part}" if name else part for name in self.names or ("",) for part in found]

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """How many points a chunk has along each axis: whole rows of the last axes as far as they fit."""
        sizes, room = [], max(1, self.chunk)
        for n in reversed(self.shape):
            sizes.append(min(n, room))
            room = max(1, room // n)
        return tuple(reversed(sizes))

    def regions(self) -> Iterator[Region]:
        """The chunks in order, each as a slice per axis."""
        starts = [range(0, n, size) for n, size in zip(self.shape, self.chunks, strict=True)]
        for corner in itertools.product(*starts):
            ends = zip(corner, self.chunks, self.shape, strict=True)
            yield tuple(slice(start, min(start + size, n)) for start, size, n in ends)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        shape = ", ".join(f"{name}={n}" for name, n in zip(self.axes, self.shape, strict=True))
        return f"FieldBand({shape}: {', '.join(self.variables)})"

    def points(self, region: Region) -> np.ndarray:
        """The points (n, d) of a region, in the order of a flattened array."""
        if not self.is_grid:
            return self.axes["point"][region[0]]
        parts = [values[part] for values, part in zip(self.axes.values(), region, strict=True)]
        return np.stack([axis.reshape(-1) for axis in np.meshgrid(*parts, indexing="ij")], axis=1)

    def compute(self, region: Region | None = None, *, batch: int = USUAL) -> dict[str, np.ndarray]:
        """The variables in a region (everywhere by default), as arrays of its shape."""
        if region is None:
            whole = {name: np.empty(self.shape, self.dtype) for name in self.variables}
            for chunk in self.regions():  # as every other way computes it, so the numbers are the same
                for name, values in self.compute(chunk, batch=batch).items():
                    whole[name][chunk] = values
            return whole
        prediction = _predicted(self.calibrated, self.points(region), batch)
        ends = [prediction.mean] if "mean" in self.parts else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfiniteBandWarning)
            for level in self.levels:
                made = self.calibrated.band(prediction, level)
                ends += [getattr(made, part) for part in self.parts if part != "mean"]
        size = tuple(part.stop - part.start for part in region)
        outputs = range(max(1, len(self.names)))
        arrays = [to_numpy(end) for end in ends]
        values = [end[:, j].reshape(size).astype(self.dtype, copy=False) for j in outputs for end in arrays]
        return dict(zip(self.variables, values, strict=True))

    def to_xarray(self, *, batch: int = USUAL) -> Any:
        """A lazy `xarray.Dataset` on Dask: chunks are computed when asked for."""
        xarray, dask = extras.load("xarray", "scale"), extras.load("dask", "scale")
        stack = extras.load("dask.array", "scale")
        counts = [-(-n // size) for n, size in zip(self.shape, self.chunks, strict=True)]
        made = [dask.delayed(FieldBand.compute)(self, region, batch=batch) for region in self.regions()]
        sizes = [tuple(part.stop - part.start for part in region) for region in self.regions()]
        data = {}
        for name in self.variables:
            blocks = np.empty(len(made), dtype=object)
            for i, (chunk, size) in enumerate(zip(made, sizes, strict=True)):
                blocks[i] = stack.from_delayed(chunk[name], size, self.dtype)
            data[name] = (self.dims, stack.block(blocks.reshape(counts).tolist()), self.attributes(name))
        return xarray.Dataset(data, coords=self.coordinates(), attrs=self.about())

    def to_zarr(
        self,
        path: str | os.PathLike[str],
        *,
        batch: int | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        progress: bool = True,
    ) -> Path:
        """Write the field to a Zarr store, here or on Dask; a killed run goes on when called again.

        What is there is verified by its hashes and not computed again; variables and levels that are not
        there yet are added. The micro-batch is chosen by a short measurement, once, and kept in the store:
        results do not depend on who computed them.
        """
        folder = Path(path)
        batch = chunks.create(self, folder, batch)
        options = {"desc": "field", "unit": "point", "unit_scale": True, "disable": not progress}
        with engine.connect(workers, scheduler) as client, tqdm(total=len(self), **options) as bar:
            for points in chunks.write_all(self, folder, batch, client):
                bar.update(points)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            extras.load("zarr", "scale").consolidate_metadata(folder)
        return folder

    def to_mesh(self, path: str | os.PathLike[str]) -> Path:
        """Write the band at the nodes of a mesh, of a grid with its cells, or at points, for ParaView."""
        where = (
            self.mesh if self.mesh is not None else mesh_of(self.axes if self.is_grid else self.axes["point"])
        )
        return write_variables(where, {name: v.reshape(-1) for name, v in self.compute().items()}, path)

    def tuned_batch(self) -> int:
        """The micro-batch with the highest throughput, by a measurement of a second or two.

        All are timed on the same points, in turn, and each by its best time: other work on the machine must
        not decide. A small field takes the usual one.
        """
        x = self.points(next(self.regions()))[: 2 * max(BATCHES)]
        if len(self) < 50 * len(x) or len(x) < max(BATCHES):
            return USUAL
        best = dict.fromkeys(BATCHES, math.inf)
        for _, batch in itertools.product(range(5), BATCHES):
            start = time.perf_counter()
            _predicted(self.calibrated, x, batch)
            best[batch] = min(best[batch], time.perf_counter() - start)
        return min(BATCHES, key=lambda batch: best[batch])

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.axes)

    @property
    def dtype(self) -> np.dtype:
        """That of coordinates and results."""
        return next(iter(self.axes.values())).dtype

    def coordinates(self) -> dict[str, Coordinate]:
        """The coordinates of a grid by name, or those of points as x0, x1, ..."""
        if self.is_grid:
            units = {name: {"units": self.units[name]} if name in self.units else {} for name in self.axes}
            return {name: ((name,), values, units[name]) for name, values in self.axes.items()}
        return {f"x{j}": (("point",), values, {}) for j, values in enumerate(self.axes["point"].T)}

    @property
    def is_grid(self) -> bool:
        """Every combination of coordinates, not a list of points."""
        return all(values.ndim == 1 for values in self.axes.values())

    def attributes(self, variable: str) -> dict[str, Any]:
        """The attributes of a variable by the CF conventions."""
        head, _, level = variable.rpartition("_")
        output, _, part = (variable if variable.endswith("mean") else head).rpartition("_")
        name = output or "prediction"
        about: dict[str, Any] = {"units": self.units[name]} if name in self.units else {}
        if part == "mean":
            ends = [other for other in self.variables if other != variable and other.startswith(output)]
            return about | {"long_name": f"predicted {name}", "ancillary_variables": " ".join(ends)}
        what = "width" if part == "width" else f"{part} end"
        return about | {
            "long_name": f"{what} of the {level} prediction band of {name}",
            "level": float(level),
        }

    def about(self) -> dict[str, Any]:
        """The attributes of the whole, the promise among them."""
        return {
            "Conventions": "CF-1.11",
            "title": "prediction bands by guardband",
            "comment": self.calibrated.promise,
            "calibration": repr(self.calibrated),
        }


def _predicted(calibrated: Calibrated, x: np.ndarray, batch: int) -> Prediction:
    """The prediction at x, in micro-batches."""
    parts = [calibrated.predict(x[start : start + batch]) for start in range(0, len(x), batch)]
    scales = [part.scale for part in parts if part.scale is not None]
    mean = np.concatenate([to_numpy(part.mean) for part in parts])
    return Prediction(x, mean, np.concatenate([to_numpy(scale) for scale in scales]) if scales else None)
