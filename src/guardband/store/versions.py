"""A folder whose files change together: a new version is written next to the old one, then made current.

`manifest.json` names the files of the current version with their SHA-256 and size; the name of each file
contains the first digits of its hash. A reader sees either the old version or the new one. An interrupted
writer leaves the old one, and the next writer removes its files. A lock on the folder serializes writers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from guardband.base import limits
from guardband.base.files import read_bytes, sha256, write_bytes, write_text
from guardband.base.limits import LONGEST, parsed, printable, shown

Manifest: TypeAlias = dict[str, Any]

MANIFEST = "manifest.json"
AGAIN = "Take a fresh copy of the whole folder, or calibrate and save again."
"""The remedy for a folder that was changed or damaged."""

NAME = re.compile(r"(arrays|model)-([0-9a-f]{16})\.(safetensors|onnx)")
UNFINISHED = re.compile(rf"\.({NAME.pattern}|{re.escape(MANIFEST)})\.[a-z0-9_]{{8}}")
"""Names of the files of a version, and of temporary files that an interrupted writer leaves."""


class ArtifactError(ValueError):
    """The folder does not hold an intact calibration.

    Parameters
    ----------
    text
        The message.

    Examples
    --------
    >>> import guardband as gb
    >>> try:
    ...     gb.load("nowhere")
    ... except gb.store.ArtifactError as error:
    ...     print(error)
    nowhere/manifest.json cannot be read: No such file or directory.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text if len(text) <= LONGEST else f"{text[:LONGEST]}..."))


def write(
    folder: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes], *, overwrite: bool = True
) -> None:
    """Write `files` (by name, such as "arrays.safetensors") and a manifest as the current version."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not overwrite and (folder / MANIFEST).exists():
            raise FileExistsError(
                f"{folder} already holds a calibration. Save to another folder, or pass overwrite=True."
            )
        named = {_name(name, data): data for name, data in files.items()}
        entries = {name: {"sha256": sha256_of(data), "bytes": len(data)} for name, data in named.items()}
        whole = {**manifest, "files": entries}
        text = json.dumps(whole | {"sha256": digest(whole)}, indent=1) + "\n"
        for name, data in named.items():
            write_bytes(folder / name, data)
        write_text(folder / MANIFEST, text)
        _clean(folder, named)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of writers on a folder; it is released when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no such lock; renames are atomic, and writers must not run concurrently
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read(folder: Path) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest, and its files by name without the hash; every hash is checked."""
    previous = None
    while True:
        text, manifest = _manifest(folder)
        try:
            return manifest, {
                _plain(name): _file(folder / name, entry) for name, entry in manifest["files"].items()
            }
        except FileNotFoundError as error:  # a writer may have replaced the version meanwhile
            if text == previous:
                raise ArtifactError(f"{error.filename} is missing. {AGAIN}") from error
            previous = text


def digest(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest, independent of the order of its entries."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _manifest(folder: Path) -> tuple[bytes, Manifest]:
    """The manifest as bytes and parsed; an `ArtifactError` if its hash differs."""
    path = folder / MANIFEST
    try:
        text = read_bytes(path, at_most=limits.MANIFEST)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        found = parsed(text)
        claimed = found.pop("sha256")
        valid = all(NAME.fullmatch(name) and _valid(entry) for name, entry in found["files"].items())
        if claimed == digest(found) and valid:
            return text, found | {"sha256": claimed}
    except Exception as error:
        why = f"{type(error).__name__}: {shown(str(error))}"
        raise ArtifactError(f"{path} is damaged ({why}). {AGAIN}") from error
    raise ArtifactError(f"{path} was changed after it was saved: its SHA-256 differs. {AGAIN}")


def _valid(entry: object) -> bool:
    """Whether the entry of a file in the manifest has a hash and a size."""
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
        return False
    size = entry.get("bytes")
    return type(size) is int and size >= 0


def _file(path: Path, entry: Mapping[str, Any]) -> bytes:
    """The bytes of a file, verified with its entry in the manifest."""
    if entry["bytes"] > limits.ARRAYS:
        raise ArtifactError(f"{path} has {entry['bytes']} bytes, but the limit is {limits.ARRAYS}.")
    try:
        data = read_bytes(path, at_most=entry["bytes"])
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror} {AGAIN}") from error
    if len(data) != entry["bytes"] or sha256_of(data) != entry["sha256"]:
        raise ArtifactError(f"{path} was changed after it was saved: its SHA-256 differs. {AGAIN}")
    return data


def _clean(folder: Path, keep: Mapping[str, bytes]) -> None:
    """Remove older versions and temporary files of interrupted writers; other files stay."""
    for path in folder.iterdir():
        match = NAME.fullmatch(path.name)
        outdated = match and path.name not in keep and not path.is_symlink() and path.is_file()
        if UNFINISHED.fullmatch(path.name) or (match and outdated and sha256(path).startswith(match[2])):
            path.unlink(missing_ok=True)


def _name(name: str, data: bytes) -> str:
    stem, _, suffix = name.partition(".")
    return f"{stem}-{sha256_of(data)[:16]}.{suffix}"


def _plain(name: str) -> str:
    return re.sub(r"-[0-9a-f]{16}\.", ".", name)


def sha256_of(data: bytes) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
