"""Files: atomic writes, and reads that refuse links, devices and oversized files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from guardband.base.limits import MIB, SPARSE, shown

LINK = "its path contains a link. Remove the link."


class UnsafeFile(OSError):
    """The path is not a regular file, or the file is too large.

    >>> read_bytes("/dev/null", at_most=10)
    Traceback (most recent call last):
        ...
    guardband.base.files.UnsafeFile: /dev/null is not a regular file.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.strerror: str | None = text


def read_bytes(
    path: str | os.PathLike[str],
    *,
    at_most: int,
    follow: bool = False,
    inside: str | os.PathLike[str] | None = None,
) -> bytes:
    """The bytes of a regular file with at most `at_most` bytes; anything else is refused.

    A pipe would block, a device is endless, and a link may point anywhere. Links are followed only if
    `follow` is true, for files that the user named. Below the folder `inside` no part of the path may be a
    link. A file that grows while it is read is truncated to its size at opening.

    >>> path = write_bytes(Path(tempfile.mkdtemp()) / "q.txt", b"1.96")
    >>> read_bytes(path, at_most=4)
    b'1.96'
    """
    with opened(path, at_most=at_most, follow=follow, inside=inside) as (descriptor, size):
        parts, left = [], size
        while left and (part := os.read(descriptor, min(left, 2**24))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


@contextlib.contextmanager
def opened(
    path: str | os.PathLike[str],
    *,
    at_most: int,
    follow: bool = False,
    inside: str | os.PathLike[str] | None = None,
) -> Iterator[tuple[int, int]]:
    """A descriptor of a regular file and its size; see `read_bytes`."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    flags |= 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = _open(Path(path), flags | getattr(os, "O_BINARY", 0), inside)
    except ValueError as error:  # null bytes, and characters that are invalid in names
        raise UnsafeFile(f"{shown(os.fspath(path))} is not a valid file name.") from error
    except OSError as error:
        if inside is not None and error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise UnsafeFile(f"{os.fspath(path)} is not a regular file in its folder: {LINK}") from error
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise UnsafeFile(f"{os.fspath(path)} is not a regular file.") from error
        error.filename = os.fspath(path)
        raise
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise UnsafeFile(f"{os.fspath(path)} is not a regular file.")
        if about.st_size > at_most:
            raise UnsafeFile(f"{os.fspath(path)} has {about.st_size} bytes, but the limit is {at_most}.")
        occupied = 512 * getattr(about, "st_blocks", about.st_size)
        if about.st_size > MIB and about.st_size > SPARSE * occupied:
            raise UnsafeFile(f"{os.fspath(path)} has {about.st_size} bytes, nearly all of which are holes.")
        yield descriptor, about.st_size
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int, inside: str | os.PathLike[str] | None) -> int:
    """A descriptor, opened folder by folder below `inside`, so that no folder can be replaced by a link."""
    if inside is None or os.open not in os.supports_dir_fd:
        refuse_links(path, inside or path.parent)
        return os.open(path, flags)
    *folders, name = path.relative_to(inside).parts
    at = os.open(inside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, flags, dir_fd=at)
    finally:
        os.close(at)


def refuse_links(path: Path, inside: str | os.PathLike[str]) -> None:
    """Raise `UnsafeFile` if a folder between `inside` and a path is a link."""
    for folder in path.parents:
        if folder == Path(inside):
            return
        if folder.is_symlink():
            raise UnsafeFile(f"{folder} is not a folder inside {os.fspath(inside)}: {LINK}")


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` atomically: a reader sees the old file or the new one, never a part of it.

    The bytes are written to a temporary file in the same folder and synced, and the file is then renamed. If
    the disk is full or the process is killed, the old file is unchanged.

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
    sync(path.parent)
    return path


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` to `path` atomically, as UTF-8 with unchanged newlines."""
    return write_bytes(path, text.encode("utf-8"))


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file in hexadecimal, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _permissions(path: Path) -> int:
    """The permissions that an ordinary `open` gives a file; mkstemp grants access to the owner alone."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk; Windows cannot sync folders and does not need to."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
