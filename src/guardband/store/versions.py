"""A folder whose files change together: a new version is written beside the old, and one rename switches.

`manifest.json` names the files of the version that holds, each with its SHA-256 and its size; a file's own
name has the first digits of its hash. A reader sees the old version or the new one, a writer that is stopped
leaves the old one, and the next writer takes away what it left. Writers take turns by a lock on the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from guardband.base import limits
from guardband.base.files import read_bytes, sha256, write_bytes, write_text
from guardband.base.limits import LONGEST, parsed, printable, shown

MANIFEST = "manifest.json"
AGAIN = "Take a fresh copy of the whole folder, or calibrate and save again."
"""What to do about a folder that is not as it was saved."""

NAME = re.compile(r"(arrays|model)-([0-9a-f]{16})\.(safetensors|onnx)")
UNFINISHED = re.compile(rf"\.({NAME.pattern}|{re.escape(MANIFEST)})\.[a-z0-9_]{{8}}")
"""Files of a version, and what a writer that was stopped leaves of one."""


class ArtifactError(ValueError):
    """The folder does not hold a calibration that can be believed.

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
    """Make `files` (by name, such as "arrays.safetensors") and a manifest the version that holds."""
    folder.mkdir(parents=True, exist_ok=True)
    with turn(folder):
        if not overwrite and (folder / MANIFEST).exists():
            raise FileExistsError(
                f"{folder} holds a calibration already. Save elsewhere, or pass overwrite=True."
            )
        named = {_name(name, data): data for name, data in files.items()}
        about = {name: {"sha256": sha256_of(data), "bytes": len(data)} for name, data in named.items()}
        whole = {**manifest, "files": about}
        text = json.dumps(whole | {"sha256": digest(whole)}, indent=1) + "\n"
        for name, data in named.items():
            write_bytes(folder / name, data)
        write_text(folder / MANIFEST, text)
        _clean(folder, named)


@contextlib.contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread writes to the folder; the lock ends with whoever holds it."""
    try:
        import fcntl
    except ImportError:  # Windows: a rename is still whole, and writers are asked to be one at a time
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the files that it names, by their name without the hash; every hash is checked."""
    before = None
    while True:
        text, found = _manifest(folder)
        try:
            return found, {
                _plain(name): _file(folder / name, about) for name, about in found["files"].items()
            }
        except FileNotFoundError as error:  # another version holds since the manifest was read
            if text == before:
                raise ArtifactError(f"{error.filename} is missing. {AGAIN}") from error
            before = text


def digest(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest, whatever the order of its entries."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _manifest(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """The manifest as it is written, and what it says, believed only if its hash is right."""
    path = folder / MANIFEST
    try:
        text = read_bytes(path, at_most=limits.MANIFEST)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        found = parsed(text)
        claimed = found.pop("sha256")
        names = all(NAME.fullmatch(name) and _sound(about) for name, about in found["files"].items())
        if claimed == digest(found) and names:
            return text, found | {"sha256": claimed}
    except Exception as error:
        why = f"{type(error).__name__}: {shown(str(error))}"
        raise ArtifactError(f"{path} is damaged ({why}). {AGAIN}") from error
    raise ArtifactError(f"{path} was changed after it was saved: its SHA-256 differs. {AGAIN}")


def _sound(about: Any) -> bool:
    return (
        isinstance(about, dict)
        and isinstance(about.get("sha256"), str)
        and type(about.get("bytes")) is int
        and about["bytes"] >= 0
    )


def _file(path: Path, about: Mapping[str, Any]) -> bytes:
    """The bytes of a file, if they are those that the manifest names."""
    if about["bytes"] > limits.ARRAYS:
        raise ArtifactError(f"{path} has {about['bytes']} bytes; at most {limits.ARRAYS} are read.")
    try:
        data = read_bytes(path, at_most=about["bytes"])
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror} {AGAIN}") from error
    if len(data) != about["bytes"] or sha256_of(data) != about["sha256"]:
        raise ArtifactError(f"{path} was changed after it was saved: its SHA-256 differs. {AGAIN}")
    return data


def _clean(folder: Path, keep: Mapping[str, bytes]) -> None:
    """Take away older versions, and what writers left that were stopped; nothing else is touched."""
    for path in folder.iterdir():
        known = NAME.fullmatch(path.name)
        ours = known and path.name not in keep and not path.is_symlink() and path.is_file()
        if UNFINISHED.fullmatch(path.name) or (known and ours and sha256(path).startswith(known[2])):
            path.unlink(missing_ok=True)


def _name(name: str, data: bytes) -> str:
    stem, _, suffix = name.partition(".")
    return f"{stem}-{sha256_of(data)[:16]}.{suffix}"


def _plain(name: str) -> str:
    return re.sub(r"-[0-9a-f]{16}\.", ".", name)


def sha256_of(data: bytes) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
