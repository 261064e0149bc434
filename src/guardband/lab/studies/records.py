"""Results on disk, one line of JSON each, with a checksum.

Each process appends to its own file, `cells/NAME.jsonl`. `pack` collects all lines in one file,
`cells.jsonl`. Releases up to 0.2 wrote one file per result, `cells/KEY.json`; these are read and packed too.

No file is locked, and any process may be killed or paused at any time:

* Readers ignore the text after the last newline of `cells/NAME.jsonl`, which is an unfinished write. The
  owner of the file removes it before it appends the next line.
* Packing first renames all files, including the old pack. If an owner's file was renamed during a write, the
  owner writes the line again to a new file. The new pack is named by a link, which fails if another process
  has created one in the meantime; that one is then packed too. A file is removed only after the pack with
  its lines has been synced to disk.
* If a key has several results, the first one counts, in this order: `cells/KEY.json`, `cells.jsonl`, other
  files sorted by name; the lines of a file in their order. Results with different numbers (`found`) are
  reported, and packing keeps all of them.

An empty, truncated or changed record counts as missing, is reported by name, and can be moved to `damaged/`.
Records written by version 0.1 have no checksum and none of the later fields.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from guardband.base.files import UnsafeFile, opened, sync, write_bytes, write_text
from guardband.base.limits import listed, parsed
from guardband.lab.studies.base import Result, key_of

CELLS, PACK, DAMAGED = "cells", "cells.jsonl", "damaged"
CHECKSUM = "sha256"
FIRST_FIELDS = frozenset({"key", "cell", "found", "versions", "threads", "seconds"})
"""The fields of a record written by version 0.1, and of any record without a checksum."""
CELL_BYTES, FILE_BYTES, PACK_BYTES = 2**24, 2**26, 2**28
"""The largest sizes in bytes of one result, of the file of one process, and of a pack."""
CURE = "Run the study again: it moves them to damaged/ and recomputes their cells."


class DamagedResults(ValueError):
    """A stored result cannot be read, or does not match its key."""


class Found(NamedTuple):
    """The line that counts for each key, all lines if their numbers differ, and damage by place."""

    lines: dict[str, str]
    differing: dict[str, list[str]]
    damaged: dict[str, str]

    @property
    def every(self) -> list[str]:
        """The lines that count, each followed by those with different numbers."""
        return [one for key, line in self.lines.items() for one in self.differing.get(key, [line])]


@dataclass
class _File:
    """The content of a file: lines by key, and damaged lines by number (0 for the whole file)."""

    stamp: tuple[int, ...] = ()
    end: int = 0
    count: int = 0
    lines: dict[str, list[str]] = field(default_factory=dict)
    damaged: dict[int, tuple[str, bytes]] = field(default_factory=dict)


_LOCK = threading.RLock()
_OWN: dict[tuple[Path, int], tuple[Path, int]] = {}
"""The file of this process in each folder, and the end of its last line."""


def is_key(name: str) -> bool:
    """Whether a name can be the key of a cell."""
    return re.fullmatch(r"[0-9a-f]{16}", name) is not None


def _place_in(folder: Path, name: str) -> Path:
    """Return the path of a folder in a study's folder; refuse a link, which may lead anywhere."""
    if (folder / name).is_symlink():
        raise DamagedResults(
            f"{folder / name} is a link, which is not followed. Replace it with the folder itself."
        )
    return folder / name


def sealed(result: Result) -> str:
    """Return a result as a line of JSON with its checksum."""
    plain = {name: item for name, item in result.items() if name != CHECKSUM}
    plain = json.loads(json.dumps(plain, allow_nan=False))
    return json.dumps(plain | {CHECKSUM: checksum(plain)})


def checksum(result: Result) -> str:
    """Return the SHA-256 of the canonical JSON of a result: names sorted, no spaces, no checksum."""
    plain = {name: item for name, item in result.items() if name != CHECKSUM}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def exists(folder: Path, key: str) -> bool:
    """Whether there is an undamaged result."""
    return any(key in file.lines for file in _scan(folder).values())


def look(folder: Path) -> Found:
    """Return all results in a folder."""
    lines: dict[str, list[str]] = {}
    damaged: dict[str, str] = {}
    for path, file in _scan(folder).items():
        for key, its in file.lines.items():
            for line in its:
                _add(lines, key, line)
        for number, (trouble, _) in file.damaged.items():
            damaged[f"{path.relative_to(folder)}{f' line {number}' if number else ''}"] = trouble
    differing = {key: its for key, its in lines.items() if len(its) > 1}
    return Found({key: its[0] for key, its in lines.items()}, differing, damaged)


def read(folder: Path, key: str, found: Found | None = None) -> Result | None:
    """Return a result without its checksum, or None; refuse damage that may concern it."""
    found = found or look(folder)
    if key not in found.lines:
        _refuse(folder, {at: it for at, it in found.damaged.items() if " line " in at or key in at})
        return None
    return {name: item for name, item in json.loads(found.lines[key]).items() if name != CHECKSUM}


def damage(folder: Path) -> str:
    """Describe the damaged results; empty if there are none."""
    return _words(look(folder).damaged)


def publish(folder: Path, key: str, line: str) -> bool:
    """Append a result to the file of this process, unless a result exists; return whether it was appended."""
    if exists(folder, key):
        return False
    data, me = f"{line}\n".encode(), (folder, os.getpid())
    with _LOCK:
        while True:
            path, end = _OWN.get(me, (folder, FILE_BYTES))
            new = end + len(data) > FILE_BYTES
            if new:
                _place_in(folder, CELLS).mkdir(parents=True, exist_ok=True)
                path, end = _OWN[me] = _place_in(folder, CELLS) / f"{uuid.uuid4().hex}.jsonl", 0
            try:
                with path.open("x+b" if new else "r+b") as file:
                    file.seek(end)
                    end += file.read().rfind(b"\n") + 1
                    file.truncate(end)  # a full disk may have left a part of a line
                    file.seek(end)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if new:
                    sync(folder / CELLS)
                path.open("rb").close()  # check for a rename; opening also queries a network disk's server
            except FileNotFoundError:
                del _OWN[me]
            else:
                _OWN[me] = path, end + len(data)
                return True


def loose(folder: Path) -> int:
    """Return the number of files with results, except the pack."""
    return sum(file.name != PACK for file in _files(folder))


def pack(folder: Path, *, aside: bool = False) -> int:
    """Move all results into the pack and return its number of keys.

    Damaged results are an error, or with `aside` are moved to `damaged/`. Records written by version 0.1 get
    a checksum.
    """
    found = look(folder)
    _refuse(folder, {} if aside else found.damaged)
    joined(found.every)  # fail before any file is renamed
    mine = uuid.uuid4().hex
    merged = _place_in(folder, CELLS) / f".{mine}"
    while True:
        for path in _files(folder):
            if path.suffix == ".jsonl":
                # a unique name, since a rename would replace another file with the same name
                name = f"0-{uuid.uuid4().hex}" if path.name == PACK else path.name.partition(".")[0]
                _place_in(folder, CELLS).mkdir(exist_ok=True)
                with suppress(FileNotFoundError, PermissionError):  # Windows cannot rename open files
                    path.rename(_place_in(folder, CELLS) / f"{name}.{mine}.jsonl")
        files = {
            path: (file.stamp, file.damaged)
            for path, file in _scan(folder).items()
            if path.suffix == ".json" or mine in path.name
        }
        found = look(folder)
        if not found.lines:
            break
        try:
            write_text(merged, text := joined(found.every))
            if merged.read_text() != text:
                raise OSError(f"The disk did not store the pack of {folder}. The results are unchanged.")
            if _linked(merged, folder / PACK):
                break
        finally:
            merged.unlink(missing_ok=True)
    sync(folder)
    if aside:
        _set_aside(folder, {path: damaged for path, (_, damaged) in files.items()})
    for path, (stamp, damaged) in files.items():
        with suppress(FileNotFoundError, PermissionError):
            if _stamp(path.lstat()) == stamp and (aside or not damaged):
                path.unlink()
    return len(found.lines)


def joined(lines: Iterable[str]) -> str:
    """Return the text of a pack, sorted by experiment, method, seed and key."""
    text = "".join(f"{line}\n" for line in sorted(map(_with_checksum, lines), key=_sort_key))
    if len(text) > PACK_BYTES:
        raise ValueError(
            f"These results exceed the largest size of a pack, {PACK_BYTES} bytes. Leave them as files."
        )
    return text


def _set_aside(folder: Path, files: Mapping[Path, Mapping[int, tuple[str, bytes]]]) -> None:
    """Move damaged files to `damaged/`, and copy damaged lines of other files there."""
    text = b"".join(line + b"\n" for damaged in files.values() for _, line in damaged.values() if line)
    if text:
        write_bytes(_place_in(folder, DAMAGED) / f"lines-{hashlib.sha256(text).hexdigest()[:16]}", text)
    for path, damaged in files.items():
        if 0 in damaged:
            _place_in(folder, DAMAGED).mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                path.rename(_place_in(folder, DAMAGED) / f"{path.stem}-{uuid.uuid4().hex[:8]}{path.suffix}")


def _linked(temporary: Path, place: Path) -> bool:
    """Give a complete file its final name, unless the name is taken."""
    try:
        os.link(temporary, place, follow_symlinks=False)
    except FileExistsError:
        return False
    except (OSError, NotImplementedError):  # on a file system without links, check and then rename
        if os.path.lexists(place):
            return False
        os.replace(temporary, place)
    return True


def _files(folder: Path) -> list[Path]:
    """Return the files of results in the order in which they count; other files are ignored."""
    cells = _place_in(folder, CELLS)
    try:
        names = sorted(os.listdir(cells))
    except FileNotFoundError:
        names = []
    alone = [cells / name for name in names if name.endswith(".json") and is_key(name[:-5])]
    others = [cells / name for name in names if name.endswith(".jsonl") and name[0] != "."]
    return [*alone, *([folder / PACK] if os.path.lexists(folder / PACK) else []), *others]


@lru_cache(maxsize=4)
def _known(folder: Path) -> dict[Path, _File]:
    """Return the cached content of a folder."""
    return {}


def _scan(folder: Path) -> dict[Path, _File]:
    """Return all files of results in the order in which they count; only new text is read."""
    with _LOCK:
        known = _known(folder)
        while True:
            files = _files(folder)
            try:
                found = {path: _read(path, known.get(path, _File())) for path in files}
            except FileNotFoundError:
                continue  # packed in the meantime
            if files == _files(folder):  # otherwise results may have moved to a file that was already read
                known.clear()
                known.update(found)
                return found


def _read(path: Path, seen: _File) -> _File:
    alone, grows = path.suffix == ".json", path.suffix == ".jsonl" and path.name != PACK
    try:
        with opened(path, at_most=CELL_BYTES if alone else PACK_BYTES) as (descriptor, _):
            stamp = _stamp(os.fstat(descriptor))
            if stamp == seen.stamp:
                return seen
            grown = grows and seen.stamp and stamp[0] == seen.stamp[0] and stamp[2] > seen.stamp[2]
            file = seen if grown else _File()
            os.lseek(descriptor, file.end, os.SEEK_SET)
            text = b"".join(iter(lambda: os.read(descriptor, 2**24), b""))
    except UnsafeFile as error:
        return _File(damaged={0: (str(error).removeprefix(f"{path} ").rstrip("."), b"")})
    if grows:
        text = text[: text.rfind(b"\n") + 1]
    for line in [text] if alone else text.splitlines():
        file.count += 1
        key, trouble = _checked(line, path.stem if alone else None)
        if trouble:
            file.damaged[0 if alone else file.count] = trouble, b"" if alone else line
        else:
            _add(file.lines, key, line.decode().strip())
    file.stamp, file.end = stamp, file.end + len(text)
    return file


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    return about.st_ino, about.st_mtime_ns, about.st_size


def _add(lines: dict[str, list[str]], key: str, line: str) -> None:
    """Add a line to those of its key, unless one has the same numbers."""
    its = lines.setdefault(key, [])
    if not its or not any(line == one or _numbers(line) == _numbers(one) for one in its):
        its.append(line)


def _numbers(line: str) -> object:
    return json.loads(line)["found"]


def _refuse(folder: Path, damaged: Mapping[str, str]) -> None:
    if damaged:
        raise DamagedResults(f"{folder} holds damaged results: {_words(damaged)}. {CURE}")


def _words(damaged: Mapping[str, str]) -> str:
    return listed([f"{place} ({trouble})" for place, trouble in damaged.items()])


def _checked(line: bytes, key: str | None) -> tuple[str, str]:
    """Return the key of a stored result, and a description of its damage, if any."""
    if not line.strip():
        return "", "empty"
    try:
        result: Any = parsed(line)
        if not isinstance(result, dict) or not {"key", "cell", "found"} <= result.keys():
            return "", "not a result"
        if CHECKSUM not in result and result.keys() - FIRST_FIELDS:
            return "", "its checksum is missing"
        if CHECKSUM in result and result[CHECKSUM] != checksum(result):
            return "", "its checksum does not match its content"
        right = key_of(result["cell"])
    except (ValueError, RecursionError):
        return "", "not JSON"
    return right, "" if result["key"] == right == (key or right) else f"its cell has the key {right}"


def _with_checksum(line: str) -> str:
    result = json.loads(line)
    return line if CHECKSUM in result and "\n" not in line else sealed(result)


def _sort_key(line: str) -> tuple[str, str, int, str]:
    result = json.loads(line)
    cell = result["cell"]
    try:
        return str(cell["experiment"]), str(cell["method"]), int(cell["training"]["seed"]), result["key"]
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedResults(f"Result {result['key']} does not describe a cell of a study.") from error
