"""Run other libraries that read a file in a separate process, limited in time and memory.

A forged .nc can make HDF5 loop, and a few kilobytes of .parquet can unpack to gigabytes. The damage is
confined to that process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from guardband.base.limits import MIB, SECONDS, SMALL, SWELL

ALONE = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment variables, since more threads or an allocator that reserves memory would exceed the limit."""


def run(module: str, function: str, path: Path) -> bytes:
    """Run a function in another process with `path` as its argument, and return the bytes that it prints.

    Raise a `ChildProcessError` if it crashes or takes too long.
    """
    # Modules are imported from the same paths as in this process, and never from the current folder.
    paths = [os.fspath(folder) for folder in sys.path if folder]
    code = f"import sys; sys.path[:] = {paths!r}; from {module} import {function}; {function}()"
    try:
        done = subprocess.run(
            [sys.executable or "python", "-P", "-c", code, os.fspath(path)],
            env={**os.environ, **ALONE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise ImportError(f"Reading a {path.suffix} file requires a new Python process: {error}.") from error
    if done.returncode == -getattr(signal, "SIGXCPU", 0) != 0:
        raise ChildProcessError(
            "Reading this file takes longer than any file of its size should. Write it again."
        )
    if done.returncode:
        raise ChildProcessError(
            f"The process that read this file exited with status {done.returncode}. Write the file again."
        )
    return done.stdout


def begin(libraries: Iterable[str], size: int) -> None:  # pragma: no cover, in another process
    """In the other process: import libraries, then limit time and memory for reading `size` bytes."""
    for module in libraries:
        try:
            __import__(module)
        except ImportError:
            continue  # the reader raises an error if it needs the library
    limit(size)


def limit(size: int) -> None:  # pragma: no cover
    """Limit the memory and CPU time that this process may use from now on, if the system supports it."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    limits = {resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + 1 + SECONDS + size // MIB}
    pages = Path("/proc/self/statm")
    if pages.exists():
        there = int(pages.read_text().split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = there + size + 5 * (SWELL * size + SMALL) // 2 + 32 * MIB
    for kind, most in limits.items():
        known = resource.getrlimit(kind)[1]
        if known == resource.RLIM_INFINITY or most < known:
            resource.setrlimit(kind, (most, most + 1))  # a signal at the soft limit, a kill at the hard limit
