"""Files: the one way anything reaches the disk, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` atomically: a reader sees the old file or the new one, never a part.

    The bytes go to a temporary file in the same folder, reach the disk (fsync), and take the name
    by a rename; a full disk or a killed process leaves the old file as it was.

    >>> import tempfile
    >>> path = write_bytes(Path(tempfile.mkdtemp()) / "q.txt", b"1.96")
    >>> path.read_bytes()
    b'1.96'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _permissions(path))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return path


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to `path` atomically, as UTF-8 with the newlines it has."""
    return write_bytes(path, text.encode("utf-8"))


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal, read piece by piece."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _permissions(path: Path) -> int:
    """The permissions an ordinary `open` would have given: mkstemp's are for its owner alone."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; folders cannot be synced on Windows, and need not be."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
