"""Fields: bands over grids, meshes and lists of points of any size, chunk by chunk.

Nothing is computed before it is asked for. A chunk is computed by itself, in micro-batches that fit the
cache, and written to Zarr with all its variables; beside it lies a note with their hashes. So a killed run
goes on where it was, workers need not know of each other, and memory does not grow with the field.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import pickle
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as part_of
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from guardband import engine, extras
from guardband.arrays import ArrayLike, floats, rows, to_numpy
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.conformal.rank import Level, exact
from guardband.files import write_text
from guardband.values import Prediction

CHUNK = 2**18
"""How many points a chunk holds at most; it is computed and written as a whole."""

BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
"""Micro-batches among which a short measurement chooses."""

NOTES = ".notes"
"""What is added to the name of a Zarr store for the folder of notes on finished chunks."""


def field(
    calibrated: Calibrated,
    grid: Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str],
    *,
    levels: Sequence[Level] | Level = 0.95,
    names: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    dtype: str = "float32",
    chunk: int = CHUNK,
) -> FieldBand:
    """The band over a whole field, computed when it is asked for.

    `grid` is named coordinates, in the order of the model's inputs, of which every combination is a point;
    or points (n, d); or a mesh file, whose nodes are the points. `names` are those of several outputs,
    `units` go into the attributes. Several levels cost one pass of the model.

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
        mesh = extras.load("meshio", "mesh").read(grid)
        d = m if calibrated.prediction.x is None else calibrated.prediction.x.shape[1]
        grid = mesh.points[:, :d]
    if isinstance(grid, Mapping):
        axes = {name: to_numpy(floats(values, name)).astype(dtype) for name, values in grid.items()}
        if not axes or any(values.ndim != 1 for values in axes.values()):
            raise ValueError("`grid` should map names to coordinates (n,), one axis each.")
    else:
        axes = {"point": to_numpy(rows(grid, "grid")).astype(dtype)}
    return FieldBand(calibrated, axes, decimals, tuple(names), dict(units or {}), chunk, mesh)


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
    chunk: int = CHUNK
    mesh: Any = part_of(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points there are along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def variables(self) -> list[str]:
        """Mean, lower and upper end at every level, of every output."""
        ends = [f"{end}_{level}" for level in self.levels for end in ("lower", "upper")]
        return [
            f"{name}_{part}" if name else part for name in self.names or ("",) for part in ("mean", *ends)
        ]

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """How many points a chunk has along each axis: whole rows of the last axes as far as they fit."""
        sizes, room = [], max(1, self.chunk)
        for n in reversed(self.shape):
            sizes.append(min(n, room))
            room = max(1, room // n)
        return tuple(reversed(sizes))

    def regions(self) -> Iterator[tuple[slice, ...]]:
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

    def compute(self, region: tuple[slice, ...] | None = None, *, batch: int = 4096) -> dict[str, np.ndarray]:
        """The variables in a region (everywhere by default), as arrays of its shape."""
        if region is not None:
            return _computed(self, region, batch)
        whole = {name: np.empty(self.shape, self._dtype) for name in self.variables}
        for chunk in self.regions():  # as every other way computes it, so the numbers are the same
            for name, values in _computed(self, chunk, batch).items():
                whole[name][chunk] = values
        return whole

    def to_xarray(self, *, batch: int = 4096) -> Any:
        """A lazy `xarray.Dataset` on Dask: chunks are computed when asked for."""
        xarray, dask = extras.load("xarray", "scale"), extras.load("dask", "scale")
        stack = extras.load("dask.array", "scale")
        counts = [-(-n // size) for n, size in zip(self.shape, self.chunks, strict=True)]
        made = [dask.delayed(_computed)(self, region, batch) for region in self.regions()]
        sizes = [tuple(part.stop - part.start for part in region) for region in self.regions()]
        data = {}
        for name in self.variables:
            blocks = np.empty(len(made), dtype=object)
            for i, (chunk, size) in enumerate(zip(made, sizes, strict=True)):
                blocks[i] = stack.from_delayed(chunk[name], size, self._dtype)
            data[name] = (self._dims, stack.block(blocks.reshape(counts).tolist()), self._attributes(name))
        return xarray.Dataset(data, coords=self._coordinates(), attrs=self._about())

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
        batch = _created(self, folder, batch)
        regions = list(self.regions())
        with engine.connect(workers, scheduler) as client:
            with tqdm(
                total=len(self), disable=not progress, desc="field", unit="point", unit_scale=True
            ) as bar:
                for points in _run(self, str(folder), batch, regions, client):
                    bar.update(points)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            extras.load("zarr", "scale").consolidate_metadata(folder)
        return folder

    def to_mesh(self, path: str | os.PathLike[str]) -> Path:
        """Write the band at the nodes of a mesh, or at points, for ParaView (.vtu, .vtk)."""
        meshio = extras.load("meshio", "mesh")
        found = {name: values.reshape(-1).astype(float) for name, values in self.compute().items()}
        mesh = self.mesh
        if mesh is None:
            x = _points(self, tuple(slice(0, n) for n in self.shape)).astype(float)
            points = np.zeros((len(x), 3))
            points[:, : x.shape[1]] = x[:, :3]
            mesh = meshio.Mesh(points, [("vertex", np.arange(len(x))[:, None])])
        made = meshio.Mesh(mesh.points, mesh.cells, point_data={**mesh.point_data, **found})
        meshio.write(path, made)
        return Path(path)

    @property
    def _dims(self) -> tuple[str, ...]:
        return tuple(self.axes)

    @property
    def _dtype(self) -> np.dtype:
        return next(iter(self.axes.values())).dtype

    def _coordinates(self) -> dict[str, Any]:
        if self._is_grid:
            return {
                name: ((name,), values, {"units": self.units[name]} if name in self.units else {})
                for name, values in self.axes.items()
            }
        points = self.axes["point"]
        return {f"x{j}": (("point",), points[:, j]) for j in range(points.shape[1])}

    @property
    def _is_grid(self) -> bool:
        return all(values.ndim == 1 for values in self.axes.values())

    def _attributes(self, variable: str) -> dict[str, Any]:
        output, _, part = variable.rpartition("mean") if variable.endswith("mean") else _parts(variable)
        name = output.rstrip("_") or "prediction"
        about: dict[str, Any] = {"units": self.units[name]} if name in self.units else {}
        if part.partition("_")[0] in ("lower", "upper"):
            end, _, level = part.partition("_")
            return about | {
                "long_name": f"{end} end of the {level} prediction band of {name}",
                "level": float(level),
            }
        ends = [v for v in self.variables if v != variable and v.startswith(output)]
        return about | {"long_name": f"predicted {name}", "ancillary_variables": " ".join(ends)}

    def _about(self) -> dict[str, Any]:
        return {
            "Conventions": "CF-1.11",
            "title": "prediction bands by guardband",
            "comment": self.calibrated.promise,
            "calibration": repr(self.calibrated),
        }


def _parts(variable: str) -> tuple[str, str, str]:
    """The output, '', and the end with its level, of a variable's name."""
    for end in ("lower_", "upper_"):
        output, found, level = variable.rpartition(end)
        if found:
            return output, "", end + level
    return "", "", variable


def _points(band: FieldBand, region: tuple[slice, ...]) -> np.ndarray:
    """The points (n, d) of a region, in the order of a flattened array."""
    if not band._is_grid:
        return band.axes["point"][region[0]]
    parts = [values[part] for values, part in zip(band.axes.values(), region, strict=True)]
    return np.stack([axis.reshape(-1) for axis in np.meshgrid(*parts, indexing="ij")], axis=1)


def _computed(band: FieldBand, region: tuple[slice, ...], batch: int) -> dict[str, np.ndarray]:
    prediction = _predicted(band.calibrated, _points(band, region), batch)
    size = tuple(part.stop - part.start for part in region)
    ends: list[np.ndarray] = [to_numpy(prediction.mean)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        for level in band.levels:
            made = band.calibrated.band(prediction, level)
            ends += [to_numpy(made.lower), to_numpy(made.upper)]
    outputs = range(max(1, len(band.names)))
    values = [end[:, j].reshape(size).astype(band._dtype, copy=False) for j in outputs for end in ends]
    return dict(zip(band.variables, values, strict=True))


def _predicted(calibrated: Calibrated, x: np.ndarray, batch: int) -> Prediction:
    """The prediction at x, in micro-batches."""
    parts = [calibrated.predict(x[start : start + batch]) for start in range(0, len(x), batch)]
    scales = [part.scale for part in parts if part.scale is not None]
    mean = np.concatenate([to_numpy(part.mean) for part in parts])
    return Prediction(x, mean, np.concatenate([to_numpy(scale) for scale in scales]) if scales else None)


def _tuned(band: FieldBand) -> int:
    """The micro-batch with the highest throughput on a few points, by a short measurement."""
    region = next(band.regions())
    x = _points(band, region)
    best, chosen = math.inf, BATCHES[0]
    for batch in BATCHES:
        some = x[: 2 * batch]
        if len(some) < batch and batch > BATCHES[0]:
            break
        times = []
        for _ in range(3):
            start = time.perf_counter()
            _predicted(band.calibrated, some, batch)
            times.append((time.perf_counter() - start) / len(some))
        if min(times) < 0.98 * best:
            best, chosen = min(times), batch
    return chosen


def _created(band: FieldBand, folder: Path, batch: int | None) -> int:
    """Make the store, or check that it belongs to this field; the micro-batch to use."""
    zarr = extras.load("zarr", "scale")
    about = band._about() | {"identity": _identity(band)}
    if (folder / "zarr.json").exists():
        group = zarr.open_group(folder, mode="r+", use_consolidated=False)
        if group.attrs.get("identity") != about["identity"]:
            raise ValueError(
                f"{folder} holds another field: another calibration, other points or other chunks. Write "
                "elsewhere, or remove it."
            )
        known = int(group.attrs["batch"])
        if batch is not None and batch != known:
            raise ValueError(f"{folder} was begun with batch={known}, got {batch}.")
        batch = known
    else:
        batch = batch or _tuned(band)
        group = zarr.open_group(folder, mode="w", attributes=about | {"batch": batch})
    for name, (dims, values, attributes) in _coordinate_arrays(band):
        if name not in group:
            options = {"dimension_names": dims, "attributes": attributes}
            group.create_array(name, shape=values.shape, dtype=values.dtype, **options)
        group[name][...] = values  # a run may have been killed between the two
    for name in band.variables:
        if name not in group:
            group.create_array(
                name,
                shape=band.shape,
                chunks=band.chunks,
                dtype=band._dtype,
                fill_value=math.nan,
                dimension_names=band._dims,
                attributes=band._attributes(name),
                config={"write_empty_chunks": True},
            )
    return batch


def _coordinate_arrays(band: FieldBand) -> Iterator[tuple[str, tuple[Any, np.ndarray, dict[str, Any]]]]:
    for name, found in band._coordinates().items():
        dims, values, *attributes = found
        yield name, (dims, values, attributes[0] if attributes else {})


def _identity(band: FieldBand) -> str:
    """What must be the same for two runs to belong together: the calibration's answers, points and chunks."""
    digest = hashlib.sha256(repr((band.shape, band.chunks, band._dtype.str)).encode())
    for name, values in band.axes.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    first = next(band.regions())
    probe = tuple(slice(part.start, min(part.stop, part.start + 2)) for part in first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        prediction = band.calibrated.predict(_points(band, probe))
        half = band.calibrated.band(prediction, band.levels[0])
    for part in (half.mean, half.upper):
        digest.update(np.array([f"{value:.4g}" for value in to_numpy(part).reshape(-1)]).tobytes())
    return digest.hexdigest()[:32]


def _run(
    band: FieldBand, folder: str, batch: int, regions: Sequence[tuple[slice, ...]], client: Any
) -> Iterator[int]:
    """Write all chunks; yields how many points were finished, as they are."""
    numbered = list(enumerate(regions))
    if client is None:
        yield from engine.each(None, lambda item: write_chunks(band, folder, batch, [item]), numbered)
        return
    workers = max(1, len(client.scheduler_info()["workers"]))
    size = max(1, min(16, len(numbered) // (4 * workers)))
    tasks = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    packed = extras.load("cloudpickle", "scale").dumps(
        band
    )  # with the user's own functions, wherever they are
    yield from engine.each(client, partial(_unpack_and_write, packed, folder, batch), tasks)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> FieldBand:
    """Once per worker, however many tasks it gets."""
    return pickle.loads(packed)


def _unpack_and_write(packed: bytes, folder: str, batch: int, chunks: Sequence[Any]) -> int:
    return write_chunks(_unpacked(packed), folder, batch, chunks)


def write_chunks(
    band: FieldBand, folder: str, batch: int, chunks: Sequence[tuple[int, tuple[slice, ...]]]
) -> int:
    """Compute and write chunks that are not there yet, or not whole; how many points they have."""
    torch.set_num_threads(1)
    zarr = extras.load("zarr", "scale")
    group = zarr.open_group(folder, mode="r+", use_consolidated=False)
    points = 0
    for number, region in chunks:
        points += math.prod(part.stop - part.start for part in region)
        note = Path(folder + NOTES) / f"{number}.json"
        known = _noted(note)
        missing = [name for name in band.variables if not _whole(band, folder, name, region, known)]
        if missing:
            found = _computed(band, region, batch)
            for name in missing:
                group[name][region] = found[name]
                known[name] = _hash(_chunk_file(band, folder, name, region))
            write_text(note, json.dumps(known, sort_keys=True) + "\n")
    return points


def _noted(note: Path) -> dict[str, str]:
    try:
        return json.loads(note.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _whole(
    band: FieldBand, folder: str, name: str, region: tuple[slice, ...], known: Mapping[str, str]
) -> bool:
    path = _chunk_file(band, folder, name, region)
    return name in known and path.exists() and _hash(path) == known[name]


def _chunk_file(band: FieldBand, folder: str, name: str, region: tuple[slice, ...]) -> Path:
    place = [str(part.start // size) for part, size in zip(region, band.chunks, strict=True)]
    return Path(folder, name, "c", *place)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
