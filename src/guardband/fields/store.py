"""The store: a field on disk, written piece by piece, by many, and resumed after any interruption.

A chunk is written with all its variables and reaches the disk; then a note with their hashes is put beside
the store. What is noted and whole is not computed again, so any process may be killed at any time and
workers need not know of each other. Each chunk ends with its own checksum, which every reader of Zarr checks.
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
from typing import Any, TypeAlias

import numpy as np

from guardband.base import engine, extras
from guardband.base.arrays import to_numpy
from guardband.base.files import UnsafeFile, read_bytes, refuse_links, sync, write_text
from guardband.base.limits import CHUNK, MANIFEST, parsed, printable
from guardband.fields import metadata, reading
from guardband.fields.base import Block, Chunked

Chunk: TypeAlias = tuple[int, Block]
"""A chunk's number and where it lies."""

NOTES = ".notes"
"""What is added to the name of a Zarr store for the folder of notes on finished chunks."""

ABOUT = "store.json"
"""The note on what is no chunk of a variable: attributes, metadata and coordinates."""

FORMAT = 2
"""Of the notes. Those of guardband 0.1, format 1, have no note on the store, and its chunks no checksum."""

METADATA = re.compile(r"(?!\.)[^/\\\x00-\x1f]+/zarr\.json")
"""The metadata of an array, as its note names them; a note must not lead elsewhere."""

ROOT = {"zarr_format", "node_type", "attributes", "consolidated_metadata"}
"""What the metadata of the root may hold."""

UNPACKED = {"scale_factor", "add_offset", "_FillValue", "missing_value", "dtype", "_Unsigned"}
"""Attributes by which readers change the numbers of an array; none is ever written here."""

UNFINISHED = re.compile(r"(\d+|zarr)\.[0-9a-f]{32}\.partial")
"""What a writer that was killed leaves behind."""


def create(band: Chunked, folder: Path, batch: int | None) -> int:
    """Make the store, or check that it belongs to this field and mend what is no chunk; the micro-batch."""
    zarr = extras.load("zarr", "scale")
    refuse_linked_folders(folder)
    probes = _probes(band)
    about = _mend_metadata(band, folder, about_store(folder))
    files = about.get("files", {})
    if (folder / "zarr.json").exists():
        known = (attributes_of(folder) or {}).get("batch")
        if type(known) is not int or known < 1:
            raise ValueError(
                f"{folder} was changed: `batch` should be a whole number from 1. Write elsewhere."
            )
        if batch is not None and batch != known:
            raise ValueError(
                f"{folder} was begun with batch={known}, got {batch}. Leave `batch` out to resume it."
            )
        batch = known
        reading.open_group(folder)  # refuses metadata that are not to be opened
        group = zarr.open_group(folder, mode="r+", use_consolidated=False)
        _check(band, group, folder, probes)
        _describe(band, group, folder, probes, files)
        group.attrs.put(_attributes(band, batch) | about.get("attributes", {}))
    else:
        if folder.exists() and not _only_unfinished(folder):
            raise ValueError(f"{folder} holds something else; nothing there is touched. Write elsewhere.")
        batch = batch or band.tuned_batch()
        group = zarr.open_group(folder, mode="w", attributes=_attributes(band, batch))
    coordinates = band.coordinates()
    for name in (*coordinates, *band.variables):
        if name not in group:
            group.create_array(name, **_array(band, name, probes), **_settings())
        if name in coordinates:
            if not all(whole(folder / file, files.get(file)) for file, _ in places(name, group[name])):
                group[name][...] = coordinates[name][1]
    _note_store(band, group, folder, about)
    return batch


def refuse_linked_folders(folder: Path) -> None:
    """An error if a folder of the store, or of the notes beside it, is a link: writing would follow it.

    A link in the place of a file is harmless: files are exchanged as a whole, which replaces the link.
    """
    for root in (folder, notes_of(folder)):
        below = (Path(place, name) for place, folders, _ in os.walk(root) for name in folders)
        for path in itertools.chain([root], below):
            if path.is_symlink():
                raise UnsafeFile(
                    f"{printable(str(path))} is a link, which is not written through. Remove it."
                )


def _only_unfinished(folder: Path) -> bool:
    """Whether a folder is empty but for what a writer that was killed at its very first file left there."""
    return folder.is_dir() and all(UNFINISHED.fullmatch(file.name) for file in folder.iterdir())


def finish(folder: Path) -> None:
    """Say that everything is there, gather the metadata for readers, and take away what was left behind."""
    refuse_linked_folders(folder)
    root = described(folder / "zarr.json")
    nodes = {file.parent.name: described(file) for file in sorted(folder.glob("*/zarr.json"))}
    root["attributes"]["complete"] = "yes"
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": nodes}
    write_text(folder / "zarr.json", json.dumps(root, indent=2))
    for file in folder.rglob("*.partial"):
        if UNFINISHED.fullmatch(file.name):
            file.unlink(missing_ok=True)


def compression() -> list[Any]:
    """Bytes of equal weight side by side, then LZ4: smooth fields shrink by a third, fast; a checksum."""
    codecs = extras.load("zarr.codecs", "scale")
    return [codecs.BloscCodec(cname="lz4", clevel=3, shuffle="shuffle"), codecs.Crc32cCodec()]


def _settings() -> dict[str, Any]:
    """What all arrays of a store have in common: what is missing reads as NaN, and all else is a file."""
    return {
        "fill_value": math.nan,
        "compressors": compression(),
        "config": {"write_empty_chunks": True},
    }


def _attributes(band: Chunked, batch: int) -> dict[str, Any]:
    return band.about() | {"identity": _identity(band), "batch": batch, "complete": "no"}


def _array(band: Chunked, name: str, probes: Mapping[str, list[str]]) -> dict[str, Any]:
    """An array as zarr makes it, but for the settings that all have in common."""
    if name in probes:
        about = band.attributes(name) | {"probe": probes[name]}
        known = {
            "shape": band.shape,
            "chunks": band.chunks,
            "dtype": band.dtype,
            "dimension_names": band.dims,
        }
        return known | {"attributes": about}
    dims, values, about = band.coordinates()[name]
    return {"shape": values.shape, "dtype": values.dtype, "dimension_names": dims, "attributes": about}


def _describe(band: Chunked, group: Any, folder: Path, probes: Mapping[str, list[str]], files: Any) -> None:
    """Write the attributes of arrays without a note anew; an error if one was made otherwise.

    In 0.1 chunks had no checksum, and coordinates the settings of zarr.
    """
    zarr, here = extras.load("zarr", "scale"), {"store": {}, "zarr_format": 3}
    first = _settings() | {"compressors": compression()[:1]}
    for name in (*band.coordinates(), *band.variables):
        if name not in group or f"{name}/zarr.json" in files:
            continue
        given = _array(band, name, probes)
        ways = (_settings(), first, {"fill_value": math.nan}, {})
        made = [zarr.create_array(**here, overwrite=True, **given, **settings) for settings in ways]
        if _layout(group[name]) not in map(_layout, made):
            raise ValueError(_changed(folder / name))
        group[name].attrs.put(given["attributes"])


def _layout(array: Any) -> dict[str, str]:
    """The metadata of an array but for its attributes, as text, in which NaN equals NaN."""
    return {key: repr(value) for key, value in array.metadata.to_dict().items() if key != "attributes"}


def _changed(folder: Path) -> str:
    return (
        f"The metadata of {folder} were changed after they were written. Remove that folder; the same call "
        "writes it again."
    )


def _check(band: Chunked, group: Any, folder: Path, probes: Mapping[str, list[str]]) -> None:
    """Refuse a store of other points, another calibration, or a network that answers differently."""
    there = {name: group[name] for name in band.variables if name in group}
    same = group.attrs.get("identity") == _identity(band)
    if not same or any(array.attrs.get("probe") != probes[name] for name, array in there.items()):
        raise ValueError(
            f"{folder} holds another field: another calibration, other points or other chunks. Write "
            "elsewhere, or remove it."
        )
    for name, array in there.items():
        stored = array.shape, array.chunks, array.dtype
        if stored != (band.shape, band.chunks, band.dtype) or {*array.attrs} & UNPACKED:
            raise ValueError(_changed(folder / name))


def _identity(band: Chunked) -> str:
    """What two runs that belong together share: points, chunks, calibration, and what is read."""
    digest = hashlib.sha256(repr((band.shape, band.chunks, band.dtype.str)).encode())
    for name, values in band.axes.items():
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    if band.calibrated.y is not None:
        digest.update(np.ascontiguousarray(to_numpy(band.calibrated.y)).tobytes())
    digest.update(band.data.encode())
    return digest.hexdigest()[:32]


def _probes(band: Chunked) -> dict[str, list[str]]:
    """Each variable at the first few points, to four digits: enough to tell two networks apart."""
    first = next(band.regions())
    found = band.compute(tuple(slice(part.start, min(part.stop, part.start + 2)) for part in first))
    return {name: [f"{value:.4g}" for value in values.reshape(-1)] for name, values in found.items()}


def _note_store(band: Chunked, group: Any, folder: Path, about: Mapping[str, Any]) -> None:
    """Note attributes, metadata and coordinates, once they have reached the disk."""
    files = [f"{name}/zarr.json" for name in (*band.coordinates(), *band.variables)]
    for name in band.coordinates():
        files += [file for file, _ in places(name, group[name])]
    for file in ("zarr.json", *files):
        _sync(folder / file, folder)
    attributes = {name: value for name, value in group.attrs.items() if name != "complete"}
    hashes = about.get("files", {}) | {file: digest(regular(folder / file)) for file in files}
    note = {"format": FORMAT, "attributes": attributes, "files": hashes}
    write_text(notes_of(folder) / ABOUT, json.dumps(note | {"sha256": _seal(note)}, indent=1) + "\n")


def about_store(folder: Path) -> dict[str, Any]:
    """The note on a store; empty where there is none, where it is damaged, or beside a store of 0.1."""
    try:
        note = described(notes_of(folder) / ABOUT)
        version, seal = int(note["format"]), note.pop("sha256")
        sound = seal == _seal(note) and isinstance(note["attributes"], dict)
        sound = sound and all(isinstance(known, str) for known in note["files"].values())
    except (OSError, *UNSOUND):
        return {}
    if version > FORMAT:
        raise ValueError(
            f"The notes beside {folder} have format {version}, of a newer guardband; this one reads up to "
            f"format {FORMAT}. Upgrade: pip install -U guardband."
        )
    return note if sound else {}


def _seal(note: Mapping[str, Any]) -> str:
    return digest(json.dumps(note, sort_keys=True).encode())


def _mend_metadata(band: Chunked, folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Take away metadata that are not as they were noted, to be written anew, and write the attributes.

    Returns the note, empty if it is of another store.
    """
    files = about.get("files", {})
    if not any(whole(folder / file, known) for file, known in files.items()):
        return {}
    damaged = {file for file in files if METADATA.fullmatch(file) and not whole(folder / file, files[file])}
    own = {f"{name}/zarr.json" for name in (*band.coordinates(), *band.variables)}
    for file in sorted(damaged & own):
        (folder / file).unlink(missing_ok=True)
    for file in sorted(damaged - own):
        raise ValueError(
            f"{folder / printable(file)} is damaged, and this call does not write it. Run the call that made "
            "it first, with its levels and parts, or remove its folder."
        )
    if root_damaged(folder, about):
        group = {"zarr_format": 3, "node_type": "group", "attributes": about["attributes"]}
        write_text(folder / "zarr.json", json.dumps(group, indent=2))
    return about


def root_damaged(folder: Path, about: Mapping[str, Any]) -> bool:
    """Whether the metadata of the root are not those that were noted, or not those of its arrays."""
    try:
        root = described(folder / "zarr.json")
        if not ROOT >= set(root) or root["attributes"].get("complete") not in ("yes", "no"):
            return True
        nodes = {"zarr.json": root}
        for file in sorted(folder.glob("*/zarr.json")):
            nodes[f"{file.parent.name}/zarr.json"] = described(file)
        gathered = root.get("consolidated_metadata")
        if gathered is not None:
            usual = {"kind": "inline", "must_understand": False, "metadata": gathered["metadata"]}
            if not metadata.equal(gathered, usual) or any("/" in name for name in gathered["metadata"]):
                return True
        noted = about["attributes"] if about else attributes_of(folder)
        return not metadata.equal(attributes_of(folder), noted) or bool(metadata.disagreeing(nodes, 3))
    except (OSError, *UNSOUND):
        return True


def attributes_of(folder: Path) -> dict[str, Any] | None:
    """The attributes of a store, but for whether it is complete; None if they cannot be read."""
    try:
        found = described(folder / "zarr.json")
        if (found["zarr_format"], found["node_type"]) != (3, "group"):
            return None
        return {name: value for name, value in found["attributes"].items() if name != "complete"}
    except (OSError, *UNSOUND):
        return None


def write_all(band: Chunked, folder: Path, batch: int, client: Any) -> Iterator[int]:
    """Write all chunks, here or on a client's workers; yields how many points were finished, as they are."""
    numbered = list(enumerate(band.regions()))
    if client is None:
        yield from write(band, folder, batch, numbered)
        return
    workers = max(1, len(client.scheduler_info()["workers"]))
    size = max(1, min(16, len(numbered) // (4 * workers)))
    tasks = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    sent = _sent(client, band)
    yield from engine.each(client, partial(_write_task, folder, batch), [(sent, task) for task in tasks])


def _sent(client: Any, band: Chunked) -> Any:
    """The field in the memory of workers, as a future: it travels once to each, and outlives any of them."""
    dask = extras.load("dask", "scale")
    try:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return client.submit(_itself, band, pure=False)
    except Exception as error:
        raise TypeError(
            "This field cannot be sent to workers: Dask sends it by pickle, and a part of it, such as a "
            f"function of your own, cannot be pickled ({error}). Define that part at the top of a module, or "
            "write the field without `on`."
        ) from error


def _itself(band: Chunked) -> Chunked:
    return band


def _write_task(folder: Path, batch: int, task: tuple[Chunked, Sequence[Chunk]]) -> int:
    band, chunks = task
    return sum(write(band, folder, batch, chunks))


def write(band: Chunked, folder: Path, batch: int, chunks: Sequence[Chunk]) -> Iterator[int]:
    """Compute and write chunks that are not there yet, or not whole; yields how many points each has.

    While a chunk is computed the one before is being written.
    """
    if not (folder / "zarr.json").exists():
        raise FileNotFoundError(
            f"This worker does not see {folder}. Write to a folder that all workers share."
        )
    group = extras.load("zarr", "scale").open_group(folder, mode="r+", use_consolidated=False)
    arrays = {name: group[name] for name in band.variables}
    before: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer:
        for number, region in chunks:
            note = notes_of(folder) / f"{number}.json"
            known = noted(note)
            files = {name: _chunk_file(band, folder, name, region) for name in band.variables}
            missing = {name: file for name, file in files.items() if not whole(file, known.get(name))}
            found: dict[str, np.ndarray] = {}
            if missing:
                with engine.one_thread():
                    found = band.compute(region, batch=batch)
            if before is not None:
                yield before.result()
            before = writer.submit(_store, arrays, region, found, missing, note, known, folder)
        if before is not None:
            yield before.result()


def _store(
    arrays: Mapping[str, Any],
    region: Block,
    found: Mapping[str, np.ndarray],
    missing: Mapping[str, Path],
    note: Path,
    known: dict[str, str],
    folder: Path,
) -> int:
    """Write what is missing of a chunk, see it reach the disk, and then note that it is there."""
    for name, file in missing.items():
        refuse_links(file, folder)
        arrays[name][region] = found[name]
        known[name] = digest(regular(file, inside=folder))
        _sync(file, folder)
    if missing:
        refuse_links(note, folder.parent)
        write_text(note, json.dumps(known, sort_keys=True) + "\n")
    return math.prod(part.stop - part.start for part in region)


def _sync(file: Path, folder: Path) -> None:
    """Make a file durable, and its name in all folders up to that of the store."""
    depth = len(file.relative_to(folder).parts)
    for path in (file, *itertools.islice(file.parents, depth + 1)):
        sync(path)


def notes_of(folder: Path) -> Path:
    """The folder of notes beside a store."""
    return folder.with_name(folder.name + NOTES)


def noted(note: Path) -> dict[str, str]:
    """The hashes of a chunk's variables, as noted; none where there is no note that can be read."""
    try:
        found = described(note)
        return {str(name): str(known) for name, known in found.items()}
    except (OSError, *UNSOUND):
        return {}


def whole(file: Path, known: str | None, inside: Path | None = None) -> bool:
    """Whether a file is there, as it was noted."""
    try:
        return known is not None and digest(regular(file, inside=inside)) == known
    except OSError:
        return False


def places(name: str, array: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The files of an array's chunks in order, each with its place among them."""
    counts = [-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True)]
    for place in itertools.product(*map(range, counts)):
        yield "/".join([name, "c", *map(str, place)]), place


def digest(content: bytes) -> str:
    """The first half of a SHA-256, which no accident repeats."""
    return hashlib.sha256(content).hexdigest()[:32]


UNSOUND = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What ends in one of these is not what it should be."""


def described(file: Path) -> Any:
    """What a file says of the store, as JSON."""
    return parsed(regular(file, at_most=MANIFEST))


def regular(file: Path, *, at_most: int = CHUNK, inside: Path | None = None) -> bytes:
    """The bytes of a regular file; a pipe would block, and a link may lead anywhere."""
    try:
        return read_bytes(file, at_most=at_most, inside=inside)
    except UnsafeFile as error:
        raise FileNotFoundError(str(error)) from error


def _chunk_file(band: Chunked, folder: Path, name: str, region: Block) -> Path:
    place = [str(part.start // size) for part, size in zip(region, band.chunks, strict=True)]
    return Path(folder, name, "c", *place)
