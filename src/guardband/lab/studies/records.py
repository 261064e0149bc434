"""Records: results on the disk, one line of JSON each, with a checksum.

Each process appends to its own file, `cells/NAME.jsonl`. `pack` collects all lines in one, `cells.jsonl`.
Releases up to 0.2 wrote one file per result, `cells/KEY.json`; these are read and packed too.

No file is locked, and any process may be killed or paused at any time:

* Readers ignore what follows the last newline of `cells/NAME.jsonl`: a write that is going on or was cut off.
  The owner of the file removes it before it appends the next line.
* Packing renames the files first, the old pack included. If the file of an owner has lost its name after a
  write, the owner writes the line again, to a new file. The new pack gets its name by a link, which fails if
  another process has made one meanwhile; that one is then packed too. A file is removed after the pack with
  its lines is on the disk.
* If a key has several results, the first one counts: `cells/KEY.json`, then `cells.jsonl`, then other files
  sorted by name, with the lines of a file in their order. If the numbers (`found`) of another one differ, it
  is reported, and packing keeps both.

An empty, cut or changed record counts as missing, is reported by name, and can be set aside in `damaged/`.
Records of 0.1 have no checksum, and no other new field.
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
"""The fields of a record of 0.1: one without a checksum has no others."""
CELL_BYTES, FILE_BYTES, PACK_BYTES = 2**24, 2**26, 2**28
"""Sizes in bytes: of one result, of a file at which its owner begins another one, and of a pack."""
CURE = "Run the study again: it sets them aside in damaged/ and makes their cells again."


class DamagedResults(ValueError):
    """A stored result cannot be read, or is not the one that its key names."""


class Found(NamedTuple):
    """Per key the line that counts, and all lines if their numbers differ; what is damaged, by place."""

    lines: dict[str, str]
    differing: dict[str, list[str]]
    damaged: dict[str, str]

    @property
    def every(self) -> list[str]:
        """The lines that count, each with those that differ from it."""
        return [one for key, line in self.lines.items() for one in self.differing.get(key, [line])]


@dataclass
class _File:
    """What was read of a file: lines by key, and damaged ones by number (0 for the whole file)."""

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
    """A folder inside the one of a study; an error if it is a link, which may lead anywhere."""
    if (folder / name).is_symlink():
        raise DamagedResults(
            f"{folder / name} is a link, which is not followed. Put the folder itself in its place."
        )
    return folder / name


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
    return any(key in file.lines for file in _scan(folder).values())


def look(folder: Path) -> Found:
    """All that a folder holds."""
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
    """A result without its checksum, if there is one; an error if what may be it is damaged."""
    found = found or look(folder)
    if key not in found.lines:
        _refuse(folder, {at: it for at, it in found.damaged.items() if " line " in at or key in at})
        return None
    return {name: item for name, item in json.loads(found.lines[key]).items() if name != CHECKSUM}


def damage(folder: Path) -> str:
    """The damaged results in words; empty where there are none."""
    return _words(look(folder).damaged)


def publish(folder: Path, key: str, line: str) -> bool:
    """Append a result to the file of this process, unless there is one already. Whether it was appended."""
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
                    file.truncate(end)  # a line of which a full disk kept only a part
                    file.seek(end)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if new:
                    sync(folder / CELLS)
                path.open("rb").close()  # it still has its name; opening asks the server of a network disk
            except FileNotFoundError:
                del _OWN[me]
            else:
                _OWN[me] = path, end + len(data)
                return True


def loose(folder: Path) -> int:
    """The number of files with results beside the pack."""
    return sum(file.name != PACK for file in _files(folder))


def pack(folder: Path, *, aside: bool = False) -> int:
    """Put all results into the pack and remove their files; how many keys it then holds.

    Damaged results are an error; with `aside` they are moved to `damaged/`. Records of 0.1 get a checksum.
    """
    found = look(folder)
    _refuse(folder, {} if aside else found.damaged)
    joined(found.every)  # what cannot be packed is not moved
    mine = uuid.uuid4().hex
    merged = _place_in(folder, CELLS) / f".{mine}"
    while True:
        for path in _files(folder):
            if path.suffix == ".jsonl":
                # One name for each file: a rename would replace another one of the same name.
                name = f"0-{uuid.uuid4().hex}" if path.name == PACK else path.name.partition(".")[0]
                _place_in(folder, CELLS).mkdir(exist_ok=True)
                with suppress(FileNotFoundError, PermissionError):  # Windows renames no file that is open
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
                raise OSError(f"The disk did not keep the pack of {folder}. The results are as they were.")
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
    """The text of a pack: by experiment, method, seed and key."""
    text = "".join(f"{line}\n" for line in sorted(map(_with_checksum, lines), key=_place))
    if len(text) > PACK_BYTES:
        raise ValueError(
            f"These results have more than the {PACK_BYTES} bytes that a pack may hold: leave them as files."
        )
    return text


def _set_aside(folder: Path, files: Mapping[Path, Mapping[int, tuple[str, bytes]]]) -> None:
    """Move damaged files to `damaged/`, and write damaged lines of other files there."""
    kept = b"".join(line + b"\n" for damaged in files.values() for _, line in damaged.values() if line)
    if kept:
        write_bytes(_place_in(folder, DAMAGED) / f"lines-{hashlib.sha256(kept).hexdigest()[:16]}", kept)
    for path, damaged in files.items():
        if 0 in damaged:
            _place_in(folder, DAMAGED).mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                path.rename(_place_in(folder, DAMAGED) / f"{path.stem}-{uuid.uuid4().hex[:8]}{path.suffix}")


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
    """The files of results in the order in which they count; other names are none of ours."""
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
    """What was read of a folder before."""
    return {}


def _scan(folder: Path) -> dict[Path, _File]:
    """All files of results in the order in which they count; only what is new is read."""
    with _LOCK:
        known = _known(folder)
        while True:
            files = _files(folder)
            try:
                found = {path: _read(path, known.get(path, _File())) for path in files}
            except FileNotFoundError:
                continue  # packed meanwhile
            if files == _files(folder):  # else something may have moved to where we had looked already
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
    """Add a line to those of its key, if none of them has the same numbers."""
    its = lines.setdefault(key, [])
    if not its or not any(line == one or _numbers(line) == _numbers(one) for one in its):
        its.append(line)


def _numbers(line: str) -> Any:
    return json.loads(line)["found"]


def _refuse(folder: Path, damaged: Mapping[str, str]) -> None:
    if damaged:
        raise DamagedResults(f"{folder} holds damaged results: {_words(damaged)}. {CURE}")


def _words(damaged: Mapping[str, str]) -> str:
    return listed([f"{place} ({trouble})" for place, trouble in damaged.items()])


def _checked(line: bytes, key: str | None) -> tuple[str, str]:
    """The key of a stored result, and what is wrong with it, if anything."""
    if not line.strip():
        return "", "empty"
    try:
        result: Any = parsed(line)
        if not isinstance(result, dict) or not {"key", "cell", "found"} <= result.keys():
            return "", "not a result"
        if CHECKSUM not in result and result.keys() - FIRST_FIELDS:
            return "", "its checksum is missing"
        if CHECKSUM in result and result[CHECKSUM] != checksum(result):
            return "", "its checksum is not that of its content"
        right = key_of(result["cell"])
    except (ValueError, RecursionError):
        return "", "not JSON"
    return right, "" if result["key"] == right == (key or right) else f"its cell has the key {right}"


def _with_checksum(line: str) -> str:
    result = json.loads(line)
    return line if CHECKSUM in result and "\n" not in line else sealed(result)


def _place(line: str) -> tuple[str, str, int, str]:
    result = json.loads(line)
    cell = result["cell"]
    try:
        return str(cell["experiment"]), str(cell["method"]), int(cell["training"]["seed"]), result["key"]
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedResults(f"Result {result['key']} is of no cell that a study has.") from error
