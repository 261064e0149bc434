import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from guardband.base import files


def test_a_write_replaces_the_whole_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "note.txt"
    files.write_text(path, "first\r\n")
    files.write_text(path, "zweite Füllung\n")
    assert path.read_bytes() == "zweite Füllung\n".encode()
    assert list(path.parent.iterdir()) == [path]
    assert files.sha256(files.write_bytes(tmp_path / "empty", b"")).startswith("e3b0c44298fc1c14")


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    path = files.write_text(tmp_path / "ours", "x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    path.chmod(0o600)
    files.write_text(path, "y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = files.write_text(tmp_path / "note.txt", "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be changed there")
def test_what_grows_while_it_is_read_ends_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.write_bytes(tmp_path / "log", b"known")
    read = os.read

    def grown(descriptor: int, size: int) -> bytes:
        with path.open("ab") as file:
            file.write(b", and more")
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", grown)
    assert files.read_bytes(path, at_most=100) == b"known"
