"""The store: a field on disk, written piece by piece, by many, and resumed after any interruption.

A chunk is written with all its variables; beside the store lies a note with their hashes. What is noted and
whole is not computed again, so any process may be killed at any time and workers need not know of each other.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from guardband import engine, extras
from guardband.arrays import to_numpy
from guardband.fields.base import Block, Chunked
from guardband.files import write_bytes, write_text

Chunk: TypeAlias = tuple[int, Block]
"""A chunk's number and where it lies."""

NOTES = ".notes"
"""What is added to the name of a Zarr store for the folder of notes on finished chunks."""


def create(band: Chunked, folder: Path, batch: int | None) -> int:
    """Make the store, or check that it belongs to this field; the micro-batch to use."""
    zarr = extras.load("zarr", "scale")
    probes = _probes(band)
    if (folder / "zarr.json").exists():
        group = zarr.open_group(folder, mode="r+", use_consolidated=False)
        known = int(group.attrs.get("batch", 0))
        if batch is not None and batch != known:
            raise ValueError(
                f"{folder} was begun with batch={known}, got {batch}. Leave `batch` out to resume it."
            )
        batch = known
        _check(band, group, folder, probes)
        group.attrs["complete"] = "no"
    else:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} holds something else; nothing there is touched. Write elsewhere.")
        batch = batch or band.tuned_batch()
        about = band.about() | {"identity": _identity(band), "batch": batch, "complete": "no"}
        group = zarr.open_group(folder, mode="w", attributes=about)
    for name, (dims, values, attributes) in band.coordinates().items():
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
                dtype=band.dtype,
                fill_value=math.nan,
                compressors=compression(),
                dimension_names=band.dims,
                attributes=band.attributes(name) | {"probe": probes[name]},
                config={"write_empty_chunks": True},
            )
    return batch


def finish(folder: Path) -> None:
    """Say that everything is there, and gather the metadata for readers."""
    zarr = extras.load("zarr", "scale")
    zarr.open_group(folder, mode="r+", use_consolidated=False).attrs["complete"] = "yes"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata")
        zarr.consolidate_metadata(folder)


def compression() -> Any:
    """Bytes of equal weight side by side, then LZ4: smooth fields shrink by a third, fast."""
    return extras.load("zarr.codecs", "scale").BloscCodec(cname="lz4", clevel=3, shuffle="shuffle")


def _check(band: Chunked, group: Any, folder: Path, probes: Mapping[str, list[str]]) -> None:
    """Refuse a store of other points, another calibration, or a network that answers differently."""
    there = [name for name in band.variables if name in group]
    same = group.attrs.get("identity") == _identity(band)
    if not same or any(group[name].attrs["probe"] != probes[name] for name in there):
        raise ValueError(
            f"{folder} holds another field: another calibration, other points or other chunks. Write "
            "elsewhere, or remove it."
        )


def _identity(band: Chunked) -> str:
    """What must be the same for two runs to belong together: points, chunks, and what was calibrated on."""
    digest = hashlib.sha256(repr((band.shape, band.chunks, band.dtype.str)).encode())
    for name, values in band.axes.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    if band.calibrated.y is not None:
        digest.update(np.ascontiguousarray(to_numpy(band.calibrated.y)).tobytes())
    return digest.hexdigest()[:32]


def _probes(band: Chunked) -> dict[str, list[str]]:
    """Each variable at the first few points, to four digits: enough to tell two networks apart."""
    first = next(band.regions())
    found = band.compute(tuple(slice(part.start, min(part.stop, part.start + 2)) for part in first))
    return {name: [f"{value:.4g}" for value in values.reshape(-1)] for name, values in found.items()}


def write_all(band: Chunked, folder: Path, batch: int, client: Any) -> Iterator[int]:
    """Write all chunks, here or on a client's workers; yields how many points were finished, as they are."""
    numbered = list(enumerate(band.regions()))
    if client is None:
        yield from write(band, folder, batch, numbered)
        return
    workers = max(1, len(client.scheduler_info()["workers"]))
    size = max(1, min(16, len(numbered) // (4 * workers)))
    tasks = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    # The network travels once, as a file that every worker reads; with the user's own functions in it.
    packed = extras.load("cloudpickle", "scale").dumps(band)
    parcel = _notes(folder) / "field.pickle"
    write_bytes(parcel, packed)
    try:
        yield from engine.each(
            client, partial(_unpack_and_write, parcel, _hash(packed), folder, batch), tasks
        )
    finally:
        parcel.unlink()


def _unpack_and_write(parcel: Path, known: str, folder: Path, batch: int, chunks: Sequence[Chunk]) -> int:
    return sum(write(_unpacked(parcel, known), folder, batch, chunks))


@lru_cache(maxsize=1)
def _unpacked(parcel: Path, known: str) -> Chunked:
    """Once per worker, however many tasks it gets; only what the sender packed."""
    if not parcel.exists():
        raise FileNotFoundError(
            f"This worker does not see {parcel.parent}. Write to a folder that all workers share."
        )
    packed = parcel.read_bytes()
    if _hash(packed) != known:
        raise RuntimeError(f"{parcel} was changed while a field was being written. Write it again.")
    return pickle.loads(packed)


def write(band: Chunked, folder: Path, batch: int, chunks: Sequence[Chunk]) -> Iterator[int]:
    """Compute and write chunks that are not there yet, or not whole; yields how many points each has.

    While a chunk is computed the one before is being written.
    """
    group = extras.load("zarr", "scale").open_group(folder, mode="r+", use_consolidated=False)
    arrays = {name: group[name] for name in band.variables}
    before: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer:
        for number, region in chunks:
            note = _notes(folder) / f"{number}.json"
            known = _noted(note)
            files = {name: _chunk_file(band, folder, name, region) for name in band.variables}
            missing = {name: file for name, file in files.items() if not _whole(file, known.get(name))}
            found: dict[str, np.ndarray] = {}
            if missing:
                with engine.one_thread():
                    found = band.compute(region, batch=batch)
            if before is not None:
                yield before.result()
            before = writer.submit(_store, arrays, region, found, missing, note, known)
        if before is not None:
            yield before.result()


def _store(
    arrays: Mapping[str, Any],
    region: Block,
    found: Mapping[str, np.ndarray],
    missing: Mapping[str, Path],
    note: Path,
    known: dict[str, str],
) -> int:
    """Write what is missing of a chunk, and then the note that it is there."""
    for name, file in missing.items():
        arrays[name][region] = found[name]
        known[name] = _hash(file.read_bytes())
    if missing:
        write_text(note, json.dumps(known, sort_keys=True) + "\n")
    return math.prod(part.stop - part.start for part in region)


def _notes(folder: Path) -> Path:
    return folder.with_name(folder.name + NOTES)


def _noted(note: Path) -> dict[str, str]:
    try:
        return json.loads(note.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _whole(file: Path, known: str | None) -> bool:
    return known is not None and file.exists() and _hash(file.read_bytes()) == known


def _chunk_file(band: Chunked, folder: Path, name: str, region: Block) -> Path:
    place = [str(part.start // size) for part, size in zip(region, band.chunks, strict=True)]
    return Path(folder, name, "c", *place)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
