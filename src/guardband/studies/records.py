"""Records: results on the disk, a file for each while a study runs, lines of one file when they are packed.

`cells/KEY.json` holds one result, `cells.jsonl` any number of them, one in a line. A result may be in both,
for example if packing was interrupted; then its own file counts, being the newer one. Whoever looks for a
result looks for the file first and for the line second: packing writes the line before it removes the file,
so the result is always seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from guardband.files import write_text
from guardband.studies.base import Result, key_of

CELLS, PACK = "cells", "cells.jsonl"


class DamagedResults(ValueError):
    """A stored result cannot be read, or is not the one that its key names."""


def path(folder: Path, key: str) -> Path:
    """Where a result of its own file is."""
    return folder / CELLS / f"{key}.json"


def exists(folder: Path, key: str) -> bool:
    """Whether there is a result."""
    return path(folder, key).exists() or key in packed(folder)


def keys(folder: Path) -> set[str]:
    """The keys of all results."""
    alone = {file.stem for file in _files(folder)}
    return alone | set(packed(folder))


def read(folder: Path, key: str) -> Result | None:
    """A result, if there is one."""
    line = _alone(path(folder, key)) or packed(folder).get(key)
    return None if line is None else json.loads(line)


def packed(folder: Path) -> Mapping[str, str]:
    """The lines of the pack by their keys; empty if there is none."""
    pack = folder / PACK
    try:
        now = pack.stat()
    except FileNotFoundError:
        return {}
    return _lines(pack, now.st_mtime_ns, now.st_size, now.st_ino)


def write_pack(folder: Path, lines: Mapping[str, str]) -> None:
    """Write the pack, whole or not at all: by experiment, method, seed and key."""
    write_text(folder / PACK, "".join(f"{line}\n" for line in sorted(lines.values(), key=_place)))


def pack(folder: Path) -> int:
    """Put all results into the pack and remove their files; how many it then holds.

    Files go once the pack is on the disk, and has been read back. Only one process at a time may do this.
    """
    alone = {file: line for file in _files(folder) if (line := _alone(file))}
    if alone:
        write_pack(folder, dict(packed(folder)) | {file.stem: line for file, line in alone.items()})
    whole = packed(folder)
    for file, line in alone.items():
        if whole.get(file.stem) == line:
            file.unlink(missing_ok=True)
    return len(whole)


def _files(folder: Path) -> list[Path]:
    """The files of single results; a name with a dot is one that is being written."""
    return sorted(file for file in (folder / CELLS).glob("*.json") if file.name[0] != ".")


def _alone(file: Path) -> str | None:
    """The line of a single result; none if there is no such file."""
    try:
        line = file.read_bytes()
    except FileNotFoundError:
        return None
    trouble = _trouble(line, file.stem)
    if trouble:
        raise DamagedResults(f"{file} is damaged: {trouble}. Remove it, and the study makes it again.")
    return line.decode().strip()


@lru_cache(maxsize=4)
def _lines(pack: Path, *stamp: int) -> Mapping[str, str]:
    """The lines of a pack, read again when it has changed."""
    found: dict[str, str] = {}
    damaged = []
    for number, line in enumerate(pack.read_bytes().splitlines(), start=1):
        trouble = _trouble(line)
        key = "" if trouble else json.loads(line)["key"]
        if trouble or key in found:
            damaged.append(f"line {number} ({trouble or f'{key} is there twice'})")
        else:
            found[key] = line.decode()
    if damaged:
        raise DamagedResults(
            f"{pack} is damaged: {', '.join(damaged)}. Take an intact copy, or remove these lines, and the "
            "study makes their cells again."
        )
    return found


def _trouble(line: bytes, key: str | None = None) -> str:
    """What is wrong with a stored result; nothing if it is one."""
    try:
        result: Any = json.loads(line)
    except ValueError:
        return "not JSON"
    if not isinstance(result, dict) or not {"key", "cell", "found"} <= result.keys():
        return "not a result"
    right = key_of(result["cell"])
    return "" if result["key"] == right == (key or right) else f"its cell has the key {right}"


def _place(line: str) -> tuple[str, str, int, str]:
    result = json.loads(line)
    cell = result["cell"]
    return cell["experiment"], cell["method"], cell["training"]["seed"], result["key"]
