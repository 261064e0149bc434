"""Records: results on the disk, a file for each while a study runs, lines of one file when they are packed.

`cells/KEY.json` holds one result, `cells.jsonl` any number of them, one in a line. A result may be in both,
for example if packing was interrupted; then its own file counts, being the newer one. Whoever looks for a
result looks for the file first and for the line second: packing writes the line before it removes the file,
so the result is always seen.

Every record holds the SHA-256 of its canonical JSON. One that is empty, cut or changed counts as missing, is
reported by name, and can be set aside in `damaged/`. Records of 0.1 have no checksum, and no other new field.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from guardband.files import UnsafeFile, read_bytes, sync, write_bytes, write_text
from guardband.limits import listed, parsed
from guardband.studies.base import Result, key_of

CELLS, PACK, DAMAGED = "cells", "cells.jsonl", "damaged"
CHECKSUM = "sha256"
FIRST_FIELDS = frozenset({"key", "cell", "found", "versions", "threads", "seconds"})
"""The fields of a record of 0.1: one without a checksum has no others."""
CELL_BYTES, PACK_BYTES = 2**24, 2**28
"""No file of one result, and no pack, is larger."""


class DamagedResults(ValueError):
    """A stored result cannot be read, or is not the one that its key names."""


class Packed(NamedTuple):
    """The sound lines of a pack by their keys, and what is wrong with the others by their numbers."""

    lines: Mapping[str, str]
    damaged: Mapping[int, str]


def is_key(name: str) -> bool:
    """Whether a name can be the key of a cell."""
    return re.fullmatch(r"[0-9a-f]{16}", name) is not None


def path(folder: Path, key: str) -> Path:
    """Where a result of its own file is."""
    return folder / CELLS / f"{key}.json"


def sealed(result: Result) -> str:
    """A result as a line of JSON, with its checksum."""
    plain = {name: item for name, item in result.items() if name != CHECKSUM}
    plain = json.loads(json.dumps(plain, allow_nan=False))
    return json.dumps(plain | {CHECKSUM: checksum(plain)})


def checksum(result: Result) -> str:
    """The SHA-256 of the canonical JSON of a result: names sorted, no spaces, without the checksum."""
    plain = {name: item for name, item in result.items() if name != CHECKSUM}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def exists(folder: Path, key: str) -> bool:
    """Whether there is a sound result."""
    return _single(path(folder, key))[0] is not None or key in look(folder).lines


def keys(folder: Path) -> set[str]:
    """The keys of all sound results."""
    return {file.stem for file in _files(folder) if exists(folder, file.stem)} | set(look(folder).lines)


def read(folder: Path, key: str) -> Result | None:
    """A result without its checksum, if there is one; an error if what may be it is damaged."""
    line = _alone(path(folder, key)) or look(folder).lines.get(key)
    if line is None:
        packed(folder)  # a damaged line may be the one
        return None
    result = json.loads(line)
    result.pop(CHECKSUM, None)
    return result


def damaged(folder: Path) -> dict[str, str]:
    """What is wrong with the results that are not sound, by their places."""
    files = {f"{CELLS}/{file.name}": trouble for file in _files(folder) if (trouble := _single(file)[1])}
    return files | {f"{PACK} line {number}": trouble for number, trouble in look(folder).damaged.items()}


def damage(folder: Path) -> str:
    """The damaged results in words; empty where there are none."""
    return listed([f"{place} ({trouble})" for place, trouble in damaged(folder).items()])


def look(folder: Path) -> Packed:
    """The lines of the pack, sound and damaged; none if there is no pack."""
    pack = folder / PACK
    try:
        now = pack.lstat()
    except FileNotFoundError:
        return Packed({}, {})
    return _lines(pack, now.st_mtime_ns, now.st_size, now.st_ino)


def packed(folder: Path) -> Mapping[str, str]:
    """The lines of the pack by their keys, or an error that names the damaged ones."""
    found = look(folder)
    if found.damaged:
        lines = listed([f"line {number} ({trouble})" for number, trouble in found.damaged.items()])
        raise DamagedResults(
            f"{folder / PACK} is damaged: {lines}. Take an intact copy, or run the study again: it sets "
            f"these lines aside in {DAMAGED}/ and makes their cells again."
        )
    return found.lines


def publish(folder: Path, key: str, line: str) -> bool:
    """Write a result unless there is one: the first complete result stays. Whether it is this one.

    The bytes reach the disk under another name first, and get their own by a link, which fails where the name
    is taken.
    """
    if exists(folder, key):
        return False
    place = path(folder, key)
    temporary = write_text(place.parent / f".{key}.{uuid.uuid4().hex}", line + "\n")
    try:
        while not _linked(temporary, place):
            if exists(folder, key):
                return False
            _put_aside(folder, place)
        # Another may have made and packed it while this process was paused.
        if look(folder).lines.get(key, line) != line:
            place.unlink(missing_ok=True)
            return False
    finally:
        temporary.unlink(missing_ok=True)
        sync(place.parent)
    return True


def write_pack(folder: Path, lines: Mapping[str, str]) -> None:
    """Write the pack, whole or not at all: by experiment, method, seed and key."""
    text = "".join(f"{line}\n" for line in sorted(lines.values(), key=_place))
    if len(text.encode()) > PACK_BYTES:
        raise ValueError(
            f"The results of {folder} have more than the {PACK_BYTES} bytes that a pack may hold: leave them "
            "as files."
        )
    write_text(folder / PACK, text)


def pack(folder: Path) -> int:
    """Put all results into the pack and remove their files; how many it then holds.

    Records of 0.1 get a checksum. Files go once the pack is on the disk, and has been read back. Only one
    process at a time may do this.
    """
    alone = {file: _with_checksum(line) for file in _files(folder) if (line := _alone(file))}
    before = packed(folder)
    after = {key: _with_checksum(line) for key, line in before.items()}
    after |= {file.stem: line for file, line in alone.items()}
    if after != before:
        write_pack(folder, after)
    whole = packed(folder)
    for file, line in alone.items():
        if whole.get(file.stem) == line:
            file.unlink(missing_ok=True)
    return len(whole)


def set_aside(folder: Path) -> None:
    """Move damaged results to `damaged/`, so that their cells count as missing; not while one packs."""
    for file in _files(folder):
        if _single(file)[1]:
            _put_aside(folder, file)
    found = look(folder)
    if found.damaged:
        lines = read_bytes(folder / PACK, at_most=PACK_BYTES).splitlines(keepends=True)
        kept = b"".join(lines[number - 1] for number in found.damaged)
        write_bytes(folder / DAMAGED / f"lines-{hashlib.sha256(kept).hexdigest()[:16]}", kept)
        write_pack(folder, found.lines)


def _put_aside(folder: Path, file: Path) -> None:
    """Move a damaged file away; one that another process has made whole meanwhile goes back."""
    (folder / DAMAGED).mkdir(exist_ok=True)
    away = folder / DAMAGED / f"{file.stem}-{uuid.uuid4().hex[:8]}.json"
    with suppress(FileNotFoundError):
        os.rename(file, away)
        if not _single(away, file.stem)[1]:
            _linked(away, file)
            away.unlink()


def _linked(temporary: Path, place: Path) -> bool:
    """Give a whole file its name, unless the name is taken."""
    try:
        os.link(temporary, place, follow_symlinks=False)
    except FileExistsError:
        return False
    except (OSError, NotImplementedError):  # a file system without links: look, then rename
        if os.path.lexists(place):
            return False
        os.replace(temporary, place)
    return True


def _files(folder: Path) -> list[Path]:
    """The files of single results; other names are none of ours, or are being written."""
    return sorted(file for file in (folder / CELLS).glob("*.json") if is_key(file.stem))


def _alone(file: Path) -> str | None:
    """The line of a single result; none if there is no such file, an error if it is damaged."""
    line, trouble = _single(file)
    if trouble:
        raise DamagedResults(
            f"{file} is damaged: {trouble}. Run the study again: it sets the file aside in {DAMAGED}/ and "
            "makes its cell again."
        )
    return line


def _single(file: Path, key: str | None = None) -> tuple[str | None, str]:
    """The line of a single result, none if there is no such file; and what is wrong with it, if anything."""
    try:
        line = read_bytes(file, at_most=CELL_BYTES)
    except FileNotFoundError:
        return None, ""
    except UnsafeFile as error:
        return None, str(error).removeprefix(f"{file} ").rstrip(".")
    trouble = _trouble(line, key or file.stem)
    return (None, trouble) if trouble else (line.decode().strip(), "")


@lru_cache(maxsize=4)
def _lines(pack: Path, *stamp: int) -> Packed:
    """The lines of a pack, read again when it has changed."""
    found: dict[str, str] = {}
    wrong: dict[int, str] = {}
    for number, line in enumerate(read_bytes(pack, at_most=PACK_BYTES).splitlines(), start=1):
        trouble = _trouble(line)
        key = "" if trouble else json.loads(line)["key"]
        if trouble or key in found:
            wrong[number] = trouble or f"{key} is there twice"
        else:
            found[key] = line.decode()
    return Packed(found, wrong)


def _trouble(line: bytes, key: str | None = None) -> str:
    """What is wrong with a stored result; nothing if it is one."""
    if not line.strip():
        return "empty"
    try:
        result: Any = parsed(line)
        if not isinstance(result, dict) or not {"key", "cell", "found"} <= result.keys():
            return "not a result"
        if CHECKSUM not in result and result.keys() - FIRST_FIELDS:
            return "its checksum is missing"
        if CHECKSUM in result and result[CHECKSUM] != checksum(result):
            return "its checksum is not that of its content"
        right = key_of(result["cell"])
    except (ValueError, RecursionError):
        return "not JSON"
    return "" if result["key"] == right == (key or right) else f"its cell has the key {right}"


def _with_checksum(line: str) -> str:
    result = json.loads(line)
    return line if CHECKSUM in result else sealed(result)


def _place(line: str) -> tuple[str, str, int, str]:
    result = json.loads(line)
    cell = result["cell"]
    try:
        return str(cell["experiment"]), str(cell["method"]), int(cell["training"]["seed"]), result["key"]
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedResults(f"Result {result['key']} is of no cell that a study has.") from error
