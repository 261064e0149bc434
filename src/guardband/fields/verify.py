"""Verify: whether a Zarr store of a band is as it was written, chunk by chunk, and what is not."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardband import extras
from guardband.fields import store
from guardband.limits import MANIFEST, SMALL

MOST_ARRAYS, MOST_CHUNKS, MOST_BYTES, PACKED = 100, 2 * 10**5, 2**31, 1024
"""How many arrays a store may have, chunks an array, and bytes a chunk, for its metadata to be believed.

A chunk is unpacked only to so many times the bytes of its file, or a little.
"""

SHOWN = 20
"""How many damaged or missing chunks are named in words; the lists have all of them."""


@dataclass(frozen=True)
class StoreCheck:
    """What was found of a store: `damaged` and `missing` files, and how many are `unwritten` as yet.

    `noted` says whether there are notes beside it, and `summed` whether chunks hold checksums. Printed, it is
    sentences.

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
        yield from (f"{file} is damaged." for file in self.damaged[:SHOWN])
        yield from (f"{file} is missing." for file in self.missing[:SHOWN])
        left = sum(max(0, len(files) - SHOWN) for files in (self.damaged, self.missing))
        if left:
            yield f"{left} more are damaged or missing."
        if wrong:
            again = "this again and nothing else" if self.noted else "all of it again, for its notes are gone"
            yield f"The call that wrote {name}, made again, computes {again}."
        if self.unwritten:
            yield f"{self.unwritten} chunks are not written yet: the same call goes on with them."
        if not self.summed:
            yield (
                "Its chunks have no checksum, as guardband 0.1 wrote them, so other programs do not notice "
                "damage: write the field anew to give them one."
            )


def verify(path: str | os.PathLike[str]) -> StoreCheck:
    """Look at every chunk of a store that `to_zarr` wrote, and name those that are damaged or missing.

    A file is held against the hash in the notes beside the store and, where they are gone, against the
    checksum that it holds. The call that made the store makes exactly what is named again.

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
    about = store.about_store(folder)
    if not about and store.attributes_of(folder) is None:
        raise ValueError(f"{folder} is no Zarr store: it has no zarr.json that can be read.")
    arrays = _arrays(folder, about)
    sound = {name: array for name, array in arrays.items() if array is not None}
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
        summed=all(_summed(array) for array in sound.values()),
    )


def _arrays(folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a store by name, those that are noted too; None for metadata that are not sound."""
    files = about.get("files", {})
    names = {file.split("/")[0] for file in files if store.METADATA.fullmatch(file)}
    names |= {found.parent.name for found in folder.glob("*/zarr.json")}
    if len(names) > MOST_ARRAYS:
        raise ValueError(f"{folder} should hold a band, and holds {len(names)} arrays.")
    return {name: _opened(folder / name, files.get(f"{name}/zarr.json")) for name in sorted(names)}


def _opened(folder: Path, known: str | None) -> Any:
    zarr, file = extras.load("zarr", "scale"), folder / "zarr.json"
    try:
        if folder.is_symlink() or (known is not None and not store.whole(file, known)):
            return None
        store.regular(file, at_most=MANIFEST)
        array = zarr.open_array(folder, mode="r")
        counts = [-(-n // size) for n, size in zip(array.shape, array.chunks, strict=True)]
        small = math.prod(counts) <= MOST_CHUNKS
        return array if small and math.prod(array.chunks) * array.dtype.itemsize <= MOST_BYTES else None
    except Exception:  # whatever zarr makes of what is written there
        return None


def _noted(folder: Path, arrays: dict[str, Any]) -> dict[str, str]:
    """The hashes in the notes on chunks, by file; all variables have the same chunks."""
    files = {name: [file for file, _ in store.places(name, array)] for name, array in arrays.items()}
    found = {}
    for number in range(max(map(len, files.values()), default=0)):
        for name, known in store.noted(store.notes_of(folder) / f"{number}.json").items():
            if number < len(files.get(name, ())):
                found[files[name][number]] = known
    return found


def _of_metadata(folder: Path, about: dict[str, Any], arrays: dict[str, Any]) -> dict[str, str]:
    """What is to be said of files that say what the chunks mean."""
    wrong = [f"{name}/zarr.json" for name, array in arrays.items() if array is None]
    attributes = store.attributes_of(folder)
    if attributes is None or (about and attributes != about["attributes"]):
        wrong = ["zarr.json", *wrong]
    return {file: "damaged" if os.path.lexists(folder / file) else "missing" for file in wrong}


def _state(
    folder: Path, array: Any, file: str, place: tuple[int, ...], hashes: dict[str, str], complete: bool
) -> str:
    if not os.path.realpath(folder / file).startswith(os.path.realpath(folder) + os.sep):
        return "damaged"  # it leads elsewhere
    if not os.path.lexists(folder / file):
        return "missing" if complete or file in hashes else "unwritten"
    if file in hashes:
        return "sound" if store.whole(folder / file, hashes[file]) else "damaged"
    return "sound" if _decodes(array, folder / file, place) else "damaged"


def _decodes(array: Any, file: Path, place: tuple[int, ...]) -> bool:
    """Whether a chunk can be read, its checksum among the rest."""
    try:
        most = SMALL + PACKED * len(store.regular(file))
        if math.prod(array.chunks) * array.dtype.itemsize > most:
            return False
        array.blocks[place]
    except Exception:  # every codec has errors of its own
        return False
    return True


def _summed(array: Any) -> bool:
    checksum = extras.load("zarr.codecs", "scale").Crc32cCodec
    return any(isinstance(codec, checksum) for codec in array.metadata.codecs)


def _complete(folder: Path) -> bool:
    try:
        return store.described(folder / "zarr.json")["attributes"]["complete"] == "yes"
    except (OSError, *store.UNSOUND):
        return False
