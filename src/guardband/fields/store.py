"""The Zarr store of a field, written chunk by chunk and resumed after any interruption.

A chunk is written with all its variables and synced to the disk; then a note with their hashes is written
next to the store. Chunks that are noted and intact are not computed again, so any process may be killed at
any time, and workers need no communication. Each chunk ends with a checksum that every Zarr reader checks.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tqdm.auto import tqdm

from guardband.base import engine, extras
from guardband.base.arrays import to_numpy
from guardband.base.files import UnsafeFile, read_bytes, refuse_links, sync, write_text
from guardband.base.limits import CHUNK, MANIFEST, parsed, printable
from guardband.fields import metadata, reading
from guardband.fields.base import Block, Chunked
from guardband.fields.reading import ZarrArray, ZarrGroup

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as Remote

Chunk: TypeAlias = tuple[int, Block]
"""The number and the region of a chunk."""

Json: TypeAlias = dict[str, Any]
"""A parsed JSON object."""

NOTES = ".notes"
"""Suffix of the folder of notes on finished chunks, added to the name of the store."""

ABOUT = "store.json"
"""The note on attributes, metadata and coordinates."""

FORMAT = 2
"""Version of the notes. Format 1, written by guardband 0.1, has neither this note nor checksums of chunks."""

METADATA = re.compile(r"(?!\.)[^/\\\x00-\x1f]+/zarr\.json")
"""Paths of array metadata in a note, which must not lead out of the store."""

ROOT = {"zarr_format", "node_type", "attributes", "consolidated_metadata"}
"""Keys that the metadata of the root may have."""

UNPACKED = {"scale_factor", "add_offset", "_FillValue", "missing_value", "dtype", "_Unsigned"}
"""Attributes that make readers change the numbers of an array. This module never writes them."""

UNFINISHED = re.compile(r"(\d+|zarr)\.[0-9a-f]{32}\.partial")
"""Names of temporary files that a killed writer leaves."""


def to_store(
    field: Chunked,
    path: str | os.PathLike[str],
    batch: int | None = None,
    on: engine.On = None,
    progress: bool = True,
) -> Path:
    """Compute and write the chunks that are missing; see `FieldBand.to_zarr`."""
    folder = Path(path).resolve()  # workers may run in other folders
    batch = create(field, folder, batch)
    options = {"desc": "field", "unit": field.unit, "unit_scale": True, "disable": not progress}
    with engine.connect(on) as client, tqdm(total=len(field), **options) as bar:
        try:
            for points in write_all(field, folder, batch, client):
                bar.update(points)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(
                f"{bar.n} of {len(field)} {field.unit}s are written; the same call resumes the run."
            )
            raise
    finish(folder)
    return folder


def create(band: Chunked, folder: Path, batch: int | None) -> int:
    """Create the store, or check that it is for this field and repair metadata; return the micro-batch."""
    zarr = extras.load("zarr", "scale")
    refuse_linked_folders(folder)
    probes = _probes(band)
    note = _repair_metadata(band, folder, store_note(folder))
    files = note.get("files", {})
    if (folder / "zarr.json").exists():
        known = (attributes_of(folder) or {}).get("batch")
        if type(known) is not int or known < 1:
            raise ValueError(
                f"{folder} was changed: `batch` should be a positive integer. Write to another folder."
            )
        if batch is not None and batch != known:
            raise ValueError(f"{folder} was started with batch={known}, got {batch}. Omit `batch` to resume.")
        batch = known
        reading.open_group(folder)  # refuses unsafe metadata
        group = zarr.open_group(folder, mode="r+", use_consolidated=False)
        _check(band, group, folder, probes)
        _rewrite_attributes(band, group, folder, probes, files)
        group.attrs.put(_attributes(band, batch) | note.get("attributes", {}))
    else:
        if folder.exists() and not _only_unfinished(folder):
            raise ValueError(
                f"{folder} is not a Zarr store, so it was left unchanged. Write to another folder."
            )
        batch = batch or band.tuned_batch()
        group = zarr.open_group(folder, mode="w", attributes=_attributes(band, batch))
    coordinates = band.coordinates()
    for name in (*coordinates, *band.variables):
        if name not in group:
            group.create_array(name, **_array(band, name, probes), **_settings())
        if name in coordinates:
            if not all(intact(folder / file, files.get(file)) for file, _ in places(name, group[name])):
                group[name][...] = coordinates[name][1]
    _note_store(band, group, folder, note)
    return batch


def refuse_linked_folders(folder: Path) -> None:
    """Raise an error if a folder of the store or of its notes is a link, since writing would follow it.

    A link in place of a file is harmless: files are replaced as a whole, and the link with them.
    """
    for root in (folder, notes_of(folder)):
        below = (Path(place, name) for place, folders, _ in os.walk(root) for name in folders)
        for path in itertools.chain([root], below):
            if path.is_symlink():
                raise UnsafeFile(
                    f"{printable(str(path))} is a link, and writing does not follow links. Remove it."
                )


def _only_unfinished(folder: Path) -> bool:
    """Whether a folder contains only temporary files of a writer that was killed at its first file."""
    return folder.is_dir() and all(UNFINISHED.fullmatch(file.name) for file in folder.iterdir())


def finish(folder: Path) -> None:
    """Mark the store as complete, consolidate its metadata, and remove temporary files."""
    refuse_linked_folders(folder)
    root = read_json(folder / "zarr.json")
    nodes = {file.parent.name: read_json(file) for file in sorted(folder.glob("*/zarr.json"))}
    root["attributes"]["complete"] = "yes"
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": nodes}
    write_text(folder / "zarr.json", json.dumps(root, indent=2))
    for file in folder.rglob("*.partial"):
        if UNFINISHED.fullmatch(file.name):
            file.unlink(missing_ok=True)


def compression() -> list[Any]:
    """Byte shuffle and LZ4, which quickly shrink smooth fields by a third, and a checksum."""
    codecs = extras.load("zarr.codecs", "scale")
    return [codecs.BloscCodec(cname="lz4", clevel=3, shuffle="shuffle"), codecs.Crc32cCodec()]


def _settings() -> Json:
    """The common settings of all arrays: missing chunks read as NaN, and all others are files."""
    return {
        "fill_value": math.nan,
        "compressors": compression(),
        "config": {"write_empty_chunks": True},
    }


def _attributes(band: Chunked, batch: int) -> Json:
    return band.about() | {"identity": _identity(band), "batch": batch, "complete": "no"}


def _array(band: Chunked, name: str, probes: Mapping[str, list[str]]) -> Json:
    """The arguments with which zarr creates an array, without the common settings."""
    if name in probes:
        return {
            "shape": band.shape,
            "chunks": band.chunks,
            "dtype": band.dtype,
            "dimension_names": band.dims,
            "attributes": band.attributes(name) | {"probe": probes[name]},
        }
    dims, values, attributes = band.coordinates()[name]
    return {"shape": values.shape, "dtype": values.dtype, "dimension_names": dims, "attributes": attributes}


def _rewrite_attributes(
    band: Chunked,
    group: ZarrGroup,
    folder: Path,
    probes: Mapping[str, list[str]],
    files: Mapping[str, str],
) -> None:
    """Rewrite the attributes of arrays without a note; raise an error if an array has different settings.

    Version 0.1 wrote chunks without checksums, and coordinates with zarr's default settings.
    """
    zarr, in_memory = extras.load("zarr", "scale"), {"store": {}, "zarr_format": 3}
    without_checksum = _settings() | {"compressors": compression()[:1]}
    for name in (*band.coordinates(), *band.variables):
        if name not in group or f"{name}/zarr.json" in files:
            continue
        expected = _array(band, name, probes)
        accepted = (_settings(), without_checksum, {"fill_value": math.nan}, {})
        arrays = [
            zarr.create_array(**in_memory, overwrite=True, **expected, **settings) for settings in accepted
        ]
        if _layout(group[name]) not in map(_layout, arrays):
            raise ValueError(_changed(folder / name))
        group[name].attrs.put(expected["attributes"])


def _layout(array: ZarrArray) -> dict[str, str]:
    """The metadata of an array without its attributes, as text, so that NaN equals NaN."""
    return {key: repr(value) for key, value in array.metadata.to_dict().items() if key != "attributes"}


def _changed(folder: Path) -> str:
    return (
        f"The metadata of {folder} were changed after they were written. Remove that folder; the same call "
        "writes it again."
    )


def _check(band: Chunked, group: ZarrGroup, folder: Path, probes: Mapping[str, list[str]]) -> None:
    """Refuse a store with different points, a different calibration, or a network with different outputs."""
    stored_arrays = {name: group[name] for name in band.variables if name in group}
    same = group.attrs.get("identity") == _identity(band)
    if not same or any(array.attrs.get("probe") != probes[name] for name, array in stored_arrays.items()):
        raise ValueError(
            f"{folder} holds a different field: its calibration, points or chunks differ. Write to another "
            "folder, or remove this one."
        )
    for name, array in stored_arrays.items():
        stored = array.shape, array.chunks, array.dtype
        if stored != (band.shape, band.chunks, band.dtype) or {*array.attrs} & UNPACKED:
            raise ValueError(_changed(folder / name))


def _identity(band: Chunked) -> str:
    """A hash of points, chunks, calibration and input data, which all runs of one field share."""
    digest = hashlib.sha256(repr((band.shape, band.chunks, band.dtype.str)).encode())
    for name, values in band.axes.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    if band.calibrated.y is not None:
        digest.update(np.ascontiguousarray(to_numpy(band.calibrated.y)).tobytes())
    digest.update(band.data.encode())
    return digest.hexdigest()[:32]


def _probes(band: Chunked) -> dict[str, list[str]]:
    """Each variable at the first few points to four digits, which distinguishes different networks."""
    first = next(band.regions())
    found = band.compute(tuple(slice(part.start, min(part.stop, part.start + 2)) for part in first))
    return {name: [f"{value:.4g}" for value in values.reshape(-1)] for name, values in found.items()}


def _note_store(band: Chunked, group: ZarrGroup, folder: Path, previous: Mapping[str, Any]) -> None:
    """Sync attributes, metadata and coordinates to the disk, then note their hashes."""
    files = [f"{name}/zarr.json" for name in (*band.coordinates(), *band.variables)]
    for name in band.coordinates():
        files += [file for file, _ in places(name, group[name])]
    for file in ("zarr.json", *files):
        _sync(folder / file, folder)
    attributes = {name: value for name, value in group.attrs.items() if name != "complete"}
    hashes = previous.get("files", {}) | {file: digest(regular(folder / file)) for file in files}
    note = {"format": FORMAT, "attributes": attributes, "files": hashes}
    write_text(notes_of(folder) / ABOUT, json.dumps(note | {"sha256": _seal(note)}, indent=1) + "\n")


def store_note(folder: Path) -> Json:
    """The note on a store; empty if it is missing or damaged, as in all stores written by version 0.1."""
    try:
        note = read_json(notes_of(folder) / ABOUT)
        version, seal = int(note["format"]), note.pop("sha256")
        valid = seal == _seal(note) and isinstance(note["attributes"], dict)
        valid = valid and all(isinstance(known, str) for known in note["files"].values())
    except (OSError, *INVALID):
        return {}
    if version > FORMAT:
        raise ValueError(
            f"The notes next to {folder} have format {version}, written by a newer guardband; this version "
            f"reads up to format {FORMAT}. Upgrade: pip install -U guardband."
        )
    return note if valid else {}


def _seal(note: Mapping[str, Any]) -> str:
    return digest(json.dumps(note, sort_keys=True).encode())


def _repair_metadata(band: Chunked, folder: Path, note: Json) -> Json:
    """Remove metadata of arrays whose hash differs from the note, and restore those of the root.

    Returns the note, or an empty one if it belongs to another store.
    """
    files = note.get("files", {})
    if not any(intact(folder / file, known) for file, known in files.items()):
        return {}
    damaged = {file for file in files if METADATA.fullmatch(file) and not intact(folder / file, files[file])}
    own = {f"{name}/zarr.json" for name in (*band.coordinates(), *band.variables)}
    for file in sorted(damaged & own):
        (folder / file).unlink(missing_ok=True)
    for file in sorted(damaged - own):
        raise ValueError(
            f"{folder / printable(file)} is damaged, and this call does not write it. First run the call "
            "that wrote it, with the same levels and parts, or remove its folder."
        )
    if root_damaged(folder, note):
        group = {"zarr_format": 3, "node_type": "group", "attributes": note["attributes"]}
        write_text(folder / "zarr.json", json.dumps(group, indent=2))
    return note


def root_damaged(folder: Path, note: Mapping[str, Any]) -> bool:
    """Whether the metadata of the root differ from the note, or from the metadata of its arrays."""
    try:
        root = read_json(folder / "zarr.json")
        if not ROOT >= set(root) or root["attributes"].get("complete") not in ("yes", "no"):
            return True
        nodes = {"zarr.json": root}
        for file in sorted(folder.glob("*/zarr.json")):
            nodes[f"{file.parent.name}/zarr.json"] = read_json(file)
        consolidated = root.get("consolidated_metadata")
        if consolidated is not None:
            usual = {"kind": "inline", "must_understand": False, "metadata": consolidated["metadata"]}
            nested = any("/" in name for name in consolidated["metadata"])
            if not metadata.equal(consolidated, usual) or nested:
                return True
        noted = note["attributes"] if note else attributes_of(folder)
        return not metadata.equal(attributes_of(folder), noted) or bool(metadata.disagreeing(nodes, 3))
    except (OSError, *INVALID):
        return True


def attributes_of(folder: Path) -> Json | None:
    """The attributes of a store without `complete`, or None if they cannot be read."""
    try:
        found = read_json(folder / "zarr.json")
        if (found["zarr_format"], found["node_type"]) != (3, "group"):
            return None
        return {name: value for name, value in found["attributes"].items() if name != "complete"}
    except (OSError, *INVALID):
        return None


def write_all(band: Chunked, folder: Path, batch: int, client: Client | None) -> Iterator[int]:
    """Write all chunks, in this process or on a client's workers; yield the numbers of finished points."""
    numbered = list(enumerate(band.regions()))
    if client is None:
        yield from write(band, folder, batch, numbered)
        return
    workers = max(1, len(client.scheduler_info()["workers"]))
    size = max(1, min(16, len(numbered) // (4 * workers)))
    tasks = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    shared = _share(client, band)
    yield from engine.each(client, partial(_write_task, folder, batch), [(shared, task) for task in tasks])


def _share(client: Client, band: Chunked) -> Remote:
    """The field as a future, which is sent to each worker once and survives the loss of a worker."""
    dask = extras.load("dask", "scale")
    try:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return client.submit(_identical, band, pure=False)
    except Exception as error:
        raise TypeError(
            "This field cannot be sent to workers: Dask sends it by pickle, and a part of it, such as "
            f"your own function, cannot be pickled ({error}). Define that part at the top of a module, or "
            "write the field without `on`."
        ) from error


def _identical(band: Chunked) -> Chunked:
    return band


def _write_task(folder: Path, batch: int, task: tuple[Chunked, Sequence[Chunk]]) -> int:
    band, chunks = task
    return sum(write(band, folder, batch, chunks))


def write(band: Chunked, folder: Path, batch: int, chunks: Sequence[Chunk]) -> Iterator[int]:
    """Compute and write chunks that are missing or damaged; yield the number of points of each chunk.

    While a chunk is computed, the previous one is being written.
    """
    if not (folder / "zarr.json").exists():
        raise FileNotFoundError(
            f"This worker has no access to {folder}. Write to a folder that all workers share."
        )
    group = extras.load("zarr", "scale").open_group(folder, mode="r+", use_consolidated=False)
    arrays = {name: group[name] for name in band.variables}
    previous: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer:
        for number, region in chunks:
            note = notes_of(folder) / f"{number}.json"
            known = noted(note)
            files = {name: _chunk_file(band, folder, name, region) for name in band.variables}
            missing = {name: file for name, file in files.items() if not intact(file, known.get(name))}
            values: dict[str, np.ndarray] = {}
            if missing:
                with engine.one_thread():
                    values = band.compute(region, batch=batch)
            if previous is not None:
                yield previous.result()
            previous = writer.submit(_store, arrays, region, values, missing, note, known, folder)
        if previous is not None:
            yield previous.result()


def _store(
    arrays: Mapping[str, ZarrArray],
    region: Block,
    values: Mapping[str, np.ndarray],
    missing: Mapping[str, Path],
    note: Path,
    known: dict[str, str],
    folder: Path,
) -> int:
    """Write the missing variables of a chunk, sync them to the disk, and then note their hashes."""
    for name, file in missing.items():
        refuse_links(file, folder)
        arrays[name][region] = values[name]
        known[name] = digest(regular(file, inside=folder))
        _sync(file, folder)
    if missing:
        refuse_links(note, folder.parent)
        write_text(note, json.dumps(known, sort_keys=True) + "\n")
    return math.prod(part.stop - part.start for part in region)


def _sync(file: Path, folder: Path) -> None:
    """Sync a file, and all folders up to that of the store."""
    depth = len(file.relative_to(folder).parts)
    for path in (file, *itertools.islice(file.parents, depth + 1)):
        sync(path)


def notes_of(folder: Path) -> Path:
    """The folder of notes next to a store."""
    return folder.with_name(folder.name + NOTES)


def noted(note: Path) -> dict[str, str]:
    """The noted hashes of a chunk's variables; empty if there is no readable note."""
    try:
        found = read_json(note)
        return {str(name): str(known) for name, known in found.items()}
    except (OSError, *INVALID):
        return {}


def intact(file: Path, known: str | None, inside: Path | None = None) -> bool:
    """Whether a file exists and has the noted hash."""
    try:
        return known is not None and digest(regular(file, inside=inside)) == known
    except OSError:
        return False


def places(name: str, array: metadata.Array | ZarrArray) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The files of an array's chunks in order, each with the index of its chunk."""
    counts = [-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True)]
    for place in itertools.product(*map(range, counts)):
        yield "/".join([name, "c", *map(str, place)]), place


def digest(content: bytes) -> str:
    """The first half of a SHA-256, long enough to exclude accidental collisions."""
    return hashlib.sha256(content).hexdigest()[:32]


INVALID = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors that invalid metadata or notes cause."""


def read_json(file: Path) -> Json:
    """The JSON in a file of the store."""
    return parsed(regular(file, at_most=MANIFEST))


def regular(file: Path, *, at_most: int = CHUNK, inside: Path | None = None) -> bytes:
    """The bytes of a regular file; pipes, which would block, and links are refused."""
    try:
        return read_bytes(file, at_most=at_most, inside=inside)
    except UnsafeFile as error:
        raise FileNotFoundError(str(error)) from error


def _chunk_file(band: Chunked, folder: Path, name: str, region: Block) -> Path:
    place = [str(part.start // size) for part, size in zip(region, band.chunks, strict=True)]
    return Path(folder, name, "c", *place)
