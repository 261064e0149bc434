"""Check every chunk of the Zarr store of a band, and list damaged and missing files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guardband.base.limits import printable
from guardband.fields import metadata, reading, store
from guardband.fields.metadata import Array
from guardband.fields.store import Json

MOST_ARRAYS, MOST_CHUNKS = 100, 5 * 10**5
"""Largest numbers of arrays and chunks of a store that is verified."""

SHOWN = 20
"""Number of damaged and of missing chunks named in the text; the attributes contain all."""


@dataclass(frozen=True)
class StoreCheck:
    """The result of `verify`, which prints as sentences.

    Attributes
    ----------
    path
        Folder of the store.
    chunks
        Number of chunks.
    damaged
        Damaged files.
    missing
        Missing files.
    unwritten
        Number of chunks that are not written yet.
    noted
        Whether there are notes next to the store.
    summed
        Whether chunks have checksums.
    compared
        Whether the notes cover attributes and metadata.

    Examples
    --------
    >>> print(StoreCheck(Path("f.zarr"), chunks=4, damaged=("mean/c/0/1",)))
    f.zarr is not as it was written.
    mean/c/0/1 is damaged.
    The call that wrote f.zarr, made again, computes this again and nothing else.
    """

    path: Path
    chunks: int
    damaged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unwritten: int = 0
    noted: bool = True
    summed: bool = True
    compared: bool = True

    @property
    def sound(self) -> bool:
        """Whether no file is damaged or missing."""
        return not self.damaged and not self.missing

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        name, wrong = self.path.name, (*self.damaged, *self.missing)
        if not wrong:
            yield f"{name} is sound: {self.chunks} chunks are as they were written."
        else:
            yield f"{name} is not as it was written."
        yield from (f"{printable(file)} is damaged." for file in self.damaged[:SHOWN])
        yield from (f"{printable(file)} is missing." for file in self.missing[:SHOWN])
        left = sum(max(0, len(files) - SHOWN) for files in (self.damaged, self.missing))
        if left:
            yield f"{left} more are damaged or missing."
        if wrong:
            again = (
                "this again and nothing else"
                if self.noted
                else "all of it again, since its notes are missing"
            )
            yield f"The call that wrote {name}, made again, computes {again}."
        if self.unwritten:
            yield f"{self.unwritten} chunks are not written yet. The same call resumes with them."
        if not self.compared:
            yield "The note on attributes and metadata is missing, so they were not compared with it."
        if not self.summed:
            yield (
                "Its chunks were written by guardband 0.1 and have no checksums, so other programs do not "
                "detect damage. Write the field again to add checksums."
            )


def verify(path: str | os.PathLike[str]) -> StoreCheck:
    """Check every chunk of a store that `to_zarr` wrote.

    Parameters
    ----------
    path
        Folder of the store.

    Returns
    -------
    StoreCheck
        Damaged and missing files. The call that wrote the store repairs exactly these.

    Notes
    -----
    A file is compared with the hash in the notes next to the store or, without notes, with its own checksum.
    The attributes of the store are compared with the notes, and its consolidated metadata, which other
    programs read first, with the metadata of each array.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import guardband as gb
    >>> from guardband.fields import verify
    >>> calibrated = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
    >>> band = gb.band_over(calibrated, {"x": np.linspace(0, 1, 4)}, levels=0.9)
    >>> path = band.to_zarr(tempfile.mkdtemp() + "/f.zarr", progress=False)
    >>> print(verify(path))
    f.zarr is sound: 4 chunks are as they were written.
    >>> (path / "mean/c/0").unlink()
    >>> verify(path).missing
    ('mean/c/0',)
    """
    folder = Path(path)
    if store.notes_of(folder).is_symlink():
        raise ValueError(f"{store.notes_of(folder)} is a link, which is not followed. Remove it.")
    note = store.store_note(folder)
    if not note and store.attributes_of(folder) is None:
        shown = printable(str(folder))
        raise ValueError(f"{shown} is not a Zarr store: it has no zarr.json that can be read.")
    arrays = _arrays(folder, note)
    readable = {name: array for name, array in arrays.items() if array is not None}
    count = sum(math.prod(array.counts) for array in readable.values())
    if count > MOST_CHUNKS:
        raise ValueError(
            f"{folder} should have at most {MOST_CHUNKS} chunks to be verified, but declares {count}."
        )
    hashes = note.get("files", {}) | _noted(folder, readable)
    states = _of_metadata(folder, note, arrays)
    complete = _complete(folder)
    chunks = [(array, *found) for name, array in readable.items() for found in store.places(name, array)]
    for array, file, place in chunks:
        states[file] = _state(folder, array, file, place, hashes, complete)

    def in_state(state: str) -> tuple[str, ...]:
        return tuple(file for file, found in states.items() if found == state)

    return StoreCheck(
        folder,
        len(chunks),
        in_state("damaged"),
        in_state("missing"),
        len(in_state("unwritten")),
        noted=bool(hashes),
        summed=all("crc32c" in array.codecs for array in readable.values()),
        compared=bool(note),
    )


def _arrays(folder: Path, note: Json) -> dict[str, Array | None]:
    """The arrays in the store or in its note by name, with None for those with invalid metadata."""
    files = note.get("files", {})
    names = {file.split("/")[0] for file in files if store.METADATA.fullmatch(file)}
    names |= {found.parent.name for found in folder.glob("*/zarr.json")}
    if len(names) > MOST_ARRAYS:
        raise ValueError(f"{folder} should hold a band, but holds {len(names)} arrays.")
    return {name: _inspected(folder, name, note) for name in sorted(names)}


def _inspected(folder: Path, name: str, note: Json) -> Array | None:
    """The metadata of an array, or None if they are invalid or differ from the note."""
    file = folder / name / "zarr.json"
    if (folder / name).is_symlink() or (
        note and not store.intact(file, note["files"].get(f"{name}/zarr.json"))
    ):
        return None
    try:
        array = metadata.array_of(name, store.read_json(file))
    except (OSError, *store.INVALID):
        return None
    return array if math.prod(array.counts) <= MOST_CHUNKS and not array.inner else None


def _noted(folder: Path, arrays: dict[str, Array]) -> dict[str, str]:
    """The hashes in the notes on chunks, by file; all variables have the same chunks."""
    files = {name: [file for file, _ in store.places(name, array)] for name, array in arrays.items()}
    found, notes = {}, store.notes_of(folder)
    existing = {*os.listdir(notes)} if notes.is_dir() else set()
    for number in range(max(map(len, files.values()), default=0)):
        if f"{number}.json" not in existing:
            continue
        for name, known in store.noted(notes / f"{number}.json").items():
            if number < len(files.get(name, ())):
                found[files[name][number]] = known
    return found


def _of_metadata(folder: Path, note: Json, arrays: dict[str, Array | None]) -> dict[str, str]:
    """The states of damaged and missing metadata files."""
    wrong = [f"{name}/zarr.json" for name, array in arrays.items() if array is None]
    own = store.attributes_of(folder)
    # A damaged array, which is listed already, makes the consolidated metadata differ too.
    if own is None or (note and not metadata.equal(own, note["attributes"])):
        wrong = ["zarr.json", *wrong]
    elif not wrong and store.root_damaged(folder, note):
        wrong = ["zarr.json"]
    return {file: "damaged" if os.path.lexists(folder / file) else "missing" for file in wrong}


def _state(
    folder: Path, array: Array, file: str, place: tuple[int, ...], hashes: dict[str, str], complete: bool
) -> str:
    if not os.path.lexists(folder / file):
        return "missing" if complete or file in hashes else "unwritten"
    if file in hashes:
        return "sound" if store.intact(folder / file, hashes[file], inside=folder) else "damaged"
    return "sound" if _decodes(folder, array, place) else "damaged"


def _decodes(folder: Path, array: Array, place: tuple[int, ...]) -> bool:
    """Whether a chunk can be decoded and its checksum is correct."""
    try:
        reading.open_array(folder, array).blocks[place]
    except Exception:  # codecs raise errors of many types
        return False
    return True


def _complete(folder: Path) -> bool:
    try:
        return store.read_json(folder / "zarr.json")["attributes"]["complete"] == "yes"
    except (OSError, *store.INVALID):
        return False
