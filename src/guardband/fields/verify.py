"""Verify: whether a Zarr store of a band is as it was written, chunk by chunk, and what is not."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardband.base.limits import printable
from guardband.fields import metadata, reading, store
from guardband.fields.metadata import Array

MOST_ARRAYS, MOST_CHUNKS = 100, 5 * 10**5
"""How many arrays and chunks a store may have for its metadata to be believed."""

SHOWN = 20
"""How many damaged or missing chunks are named in words; the lists have all of them."""


@dataclass(frozen=True)
class StoreCheck:
    """What was found of a store: `damaged` and `missing` files, and how many are `unwritten` as yet.

    `noted` says whether there are notes beside it, `compared` whether these cover attributes and metadata,
    and `summed` whether chunks hold checksums. Printed, it is sentences.

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
        """Whether all that was written is there as it was written."""
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
            again = "this again and nothing else" if self.noted else "all of it again, for its notes are gone"
            yield f"The call that wrote {name}, made again, computes {again}."
        if self.unwritten:
            yield f"{self.unwritten} chunks are not written yet: the same call goes on with them."
        if not self.compared:
            yield "The note on attributes and metadata is missing, so they were not compared with it."
        if not self.summed:
            yield (
                "Its chunks have no checksum, as guardband 0.1 wrote them, so other programs do not notice "
                "damage: write the field anew to give them one."
            )


def verify(path: str | os.PathLike[str]) -> StoreCheck:
    """Look at every chunk of a store that `to_zarr` wrote, and name those that are damaged or missing.

    A file is compared with the hash in the notes next to the store or, if they are gone, with the checksum
    that it holds. The attributes of the store are compared with the notes, and its consolidated metadata,
    which other programs read first, with the metadata of each array. The call that wrote the store repairs
    exactly the files that are named.

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
    about = store.about_store(folder)
    if not about and store.attributes_of(folder) is None:
        said = printable(str(folder))
        raise ValueError(f"{said} is no Zarr store: it has no zarr.json that can be read.")
    arrays = _arrays(folder, about)
    sound = {name: array for name, array in arrays.items() if array is not None}
    many = sum(math.prod(array.counts) for array in sound.values())
    if many > MOST_CHUNKS:
        raise ValueError(
            f"{folder} should have at most {MOST_CHUNKS} chunks to be verified, and claims {many}."
        )
    hashes = about.get("files", {}) | _noted(folder, sound)
    states = _of_metadata(folder, about, arrays)
    complete = _complete(folder)
    chunks = [(array, *found) for name, array in sound.items() for found in store.places(name, array)]
    for array, file, place in chunks:
        states[file] = _state(folder, array, file, place, hashes, complete)

    def those(state: str) -> tuple[str, ...]:
        return tuple(file for file, found in states.items() if found == state)

    return StoreCheck(
        folder,
        len(chunks),
        those("damaged"),
        those("missing"),
        len(those("unwritten")),
        noted=bool(hashes),
        summed=all("crc32c" in array.codecs for array in sound.values()),
        compared=bool(about),
    )


def _arrays(folder: Path, about: dict[str, Any]) -> dict[str, Array | None]:
    """The arrays of a store by name, those that are noted too; None for metadata that are not sound."""
    files = about.get("files", {})
    names = {file.split("/")[0] for file in files if store.METADATA.fullmatch(file)}
    names |= {found.parent.name for found in folder.glob("*/zarr.json")}
    if len(names) > MOST_ARRAYS:
        raise ValueError(f"{folder} should hold a band, and holds {len(names)} arrays.")
    return {name: _opened(folder, name, about) for name in sorted(names)}


def _opened(folder: Path, name: str, about: dict[str, Any]) -> Array | None:
    """An array as it was noted, or if there are no notes as it is; None otherwise."""
    file = folder / name / "zarr.json"
    if (folder / name).is_symlink() or (
        about and not store.whole(file, about["files"].get(f"{name}/zarr.json"))
    ):
        return None
    try:
        array = metadata.array_of(name, store.described(file))
    except (OSError, *store.UNSOUND):
        return None
    return array if math.prod(array.counts) <= MOST_CHUNKS and not array.inner else None


def _noted(folder: Path, arrays: dict[str, Any]) -> dict[str, str]:
    """The hashes in the notes on chunks, by file; all variables have the same chunks."""
    files = {name: [file for file, _ in store.places(name, array)] for name, array in arrays.items()}
    found, notes = {}, store.notes_of(folder)
    there = {*os.listdir(notes)} if notes.is_dir() else set()
    for number in range(max(map(len, files.values()), default=0)):
        if f"{number}.json" not in there:
            continue
        for name, known in store.noted(notes / f"{number}.json").items():
            if number < len(files.get(name, ())):
                found[files[name][number]] = known
    return found


def _of_metadata(folder: Path, about: dict[str, Any], arrays: dict[str, Array | None]) -> dict[str, str]:
    """The state of metadata files that are not sound."""
    wrong = [f"{name}/zarr.json" for name, array in arrays.items() if array is None]
    own = store.attributes_of(folder)
    # The consolidated metadata differ from those of a damaged array too, which is named already.
    if own is None or (about and not metadata.equal(own, about["attributes"])):
        wrong = ["zarr.json", *wrong]
    elif not wrong and store.root_damaged(folder, about):
        wrong = ["zarr.json"]
    return {file: "damaged" if os.path.lexists(folder / file) else "missing" for file in wrong}


def _state(
    folder: Path, array: Array, file: str, place: tuple[int, ...], hashes: dict[str, str], complete: bool
) -> str:
    if not os.path.lexists(folder / file):
        return "missing" if complete or file in hashes else "unwritten"
    if file in hashes:
        return "sound" if store.whole(folder / file, hashes[file], inside=folder) else "damaged"
    return "sound" if _decodes(folder, array, place) else "damaged"


def _decodes(folder: Path, array: Array, place: tuple[int, ...]) -> bool:
    """Whether a chunk can be read, its checksum among the rest."""
    try:
        reading.open_array(folder, array).blocks[place]
    except Exception:  # every codec has errors of its own
        return False
    return True


def _complete(folder: Path) -> bool:
    try:
        return store.described(folder / "zarr.json")["attributes"]["complete"] == "yes"
    except (OSError, *store.UNSOUND):
        return False
