"""Leases: of many processes that work in one folder, on any machines, who works on what.

A lease is a file that its owner touches every few seconds; when it is no longer touched, or its owner is
known to be dead, another process takes over by creating the next one. An owner who wakes up late removes no
lease but its own.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from guardband.files import read_bytes

BEAT, STALE = 5.0, 60.0
"""Seconds between two touches of a lease, and after how many without one its owner is taken for dead."""

NOTE_BYTES = 2**20
"""No lease is larger."""


class Lease:
    """The right to run a cell: files key.0, key.1, ..., of which the last counts.

    Its owner is taken for dead after `stale` seconds without a touch, or at once if it is known to be. All
    times are those of the file system. A file holds a token, by which an owner who slept knows whether a file
    of its number is still its own.
    """

    def __init__(self, folder: Path, key: str, stale: float = STALE) -> None:
        self.folder: Path = folder / "leases"
        self.key: str = key
        self.stale: float = stale
        self.number: int | None = None
        self.token: str = uuid.uuid4().hex

    @property
    def path(self) -> Path | None:
        """The file of the lease, once it was taken."""
        return None if self.number is None else self.folder / f"{self.key}.{self.number}"

    def take(self, now: float) -> bool:
        """Take the lease if nobody alive has it. Creating a file is the one step that only one can do."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = self._last()
        if last is not None and self.alive(now):
            return False
        number = 0 if last is None else last + 1
        path = self.folder / f"{self.key}.{number}"
        try:
            file = path.open("x")
        except FileExistsError:
            return False
        with file:
            try:
                json.dump(owner() | {"token": self.token}, file)
                file.flush()
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        self.number = number
        return True

    def alive(self, now: float) -> bool:
        """Whether the last owner still works on it, as far as can be told from here."""
        last = self._last()
        return last is not None and _fresh(self.folder / f"{self.key}.{last}", now, self.stale)

    def touch(self) -> None:
        """Say that the owner lives."""
        if self.path is not None and self._mine(self.path):
            with suppress(OSError):  # it was given back, or the file system stumbles; the next beat comes
                os.utime(self.path)

    def give_back(self) -> None:
        """Remove the lease, if it still is the own one; what others left is not touched."""
        if self.path is not None and self._mine(self.path):
            self.path.unlink(missing_ok=True)

    def _mine(self, path: Path) -> bool:
        return _read_owner(path).get("token") == self.token

    def _last(self) -> int | None:
        return max((number for key, number in leases_in(self.folder.parent) if key == self.key), default=None)


def leases_in(folder: Path) -> Iterator[tuple[str, int]]:
    """Keys and numbers of all leases; other files in their folder are none of ours."""
    place = folder / "leases"
    for name in os.listdir(place) if place.is_dir() else ():
        found = re.fullmatch(r"(\.?\w+)\.(\d{1,9})", name, re.ASCII)
        if found:
            yield found[1], int(found[2])


def _fresh(path: Path, now: float, stale: float) -> bool:
    """Whether the owner of a lease lives: it was touched of late, and its process is not known to be dead.

    A date far in the future is not of late: the clock was set back since, and a living owner touches it anew.
    """
    try:
        touched = path.lstat().st_mtime
    except FileNotFoundError:
        return False
    owner, machine = _read_owner(path), _machine()
    if machine and owner.get("machine") == machine and not _lives(owner["pid"], owner["born"]):
        return False
    return abs(now - touched) < stale


def sweep(folder: Path, done: set[str]) -> None:
    """Remove the leases that dead owners of finished cells left."""
    left = [(key, number) for key, number in leases_in(folder) if key in done]
    now = now_in(folder) if left else 0.0
    for key, number in left:
        path = folder / "leases" / f"{key}.{number}"
        if not _fresh(path, now, STALE):
            path.unlink(missing_ok=True)


@contextmanager
def heart(leases: Sequence[Lease]) -> Iterator[None]:
    """Touch leases while the work lasts, and give them back if it ends by an error; a kill leaves them."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT):
            for lease in leases:
                lease.touch()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        for lease in leases:
            lease.give_back()
        raise
    finally:
        stop.set()
        thread.join()


@cache
def _machine() -> str:
    """The machine and its table of processes, where one can be asked whether a process lives; else ''."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def owner() -> dict[str, Any]:
    """Who this process is, as a lease says it."""
    return {"machine": _machine(), "pid": os.getpid(), "born": _born(os.getpid())}


def _read_owner(path: Path) -> dict[str, Any]:
    """Who holds a lease; nobody known while it is being written, or if a power loss left rubbish."""
    try:
        owner = json.loads(read_bytes(path, at_most=NOTE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    kinds = {"machine": str, "pid": int, "born": str}
    sound = isinstance(owner, dict) and all(isinstance(owner.get(n), kind) for n, kind in kinds.items())
    return owner if sound else {}


def _born(pid: int) -> str:
    """When a process was started, so that a number used again is not mistaken for it; '' if it is dead."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] == "Z" else after_name[19]


def _lives(pid: int, born: str) -> bool:
    return _born(pid) == born


def now_in(folder: Path) -> float:
    """The time by the clock of the file system, which all workers share; no other clock is asked.

    Who may only look takes the latest touch of any lease for the present.
    """
    place = folder / "leases"
    try:
        place.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(place / ".clock", flags, 0o666)
    except OSError:
        return max((touched for path in place.glob("*.*") if (touched := _touched(path))), default=0.0)
    try:
        os.utime(descriptor if os.utime in os.supports_fd else place / ".clock")
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def _touched(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
