"""Apart: other libraries read a file in a separate process, limited in time and memory.

A forged .nc can make HDF5 loop, and a few kilobytes of .parquet can unpack to gigabytes. What goes wrong
stays in that process, and becomes a `TableError` here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from guardband import files
from guardband.limits import MIB, SECONDS, SMALL, SWELL, TABLE
from guardband.tables import arrays, foreign
from guardband.tables.table import Reader, Table, TableError, Unsound

READERS: dict[str, Reader] = {".parquet": foreign.read_parquet, ".nc": foreign.read_netcdf}
LIBRARIES: dict[str, tuple[str, ...]] = {
    ".parquet": ("pyarrow", "pyarrow.parquet"),
    ".nc": ("xarray", "h5py", "h5netcdf", "scipy.io"),
}
ALONE = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""More threads, or an allocator that reserves memory, would soon exceed the limit."""


def read(path: Path) -> bytes:
    """The columns of a file as a .npz, whose arrays are what they claim to be."""
    # Modules come from where they come from here, and never from the folder in which somebody works.
    paths = [os.fspath(folder) for folder in sys.path if folder]
    code = f"import sys; sys.path[:] = {paths!r}; from {__name__} import answer; answer()"
    try:
        done = subprocess.run(
            [sys.executable or "python", "-P", "-c", code, os.fspath(path)],
            env={**os.environ, **ALONE},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise ImportError(f"Reading a {path.suffix} needs to start Python, which failed: {error}.") from error
    if done.returncode == 0 and done.stdout.startswith(b"PK"):
        return done.stdout
    if done.returncode == 0:
        kind, said = json.loads(done.stdout)
        raise {"TableError": TableError, "ImportError": ImportError}.get(kind, Unsound)(said)
    if done.returncode == -signal.SIGXCPU:
        raise TableError("Reading this takes longer than any file of its size should. Make it again.")
    raise TableError(f"The library that reads this ended with status {done.returncode}. Make it again.")


def answer() -> None:  # pragma: no cover, in another process
    """In the other process: read the file that is named, and write what was found to standard output."""
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    path = Path(sys.argv[1])
    kind = path.suffix.lower()
    with os.fdopen(out, "wb") as file:
        try:
            data = files.read_bytes(path, at_most=TABLE, follow=True)
            _import(kind)
            _limit(len(data))
            table = Table.gathered(data, READERS[kind])
        except (TableError, ImportError) as error:
            file.write(json.dumps([type(error).__name__, str(error)]).encode())
        except Exception as error:
            file.write(json.dumps(["", f"{type(error).__name__}: {str(error)[:200]}"]).encode())
        else:
            arrays.write_to(file, table)


def _import(kind: str) -> None:  # pragma: no cover
    """What the reader needs, before time and memory are counted."""
    for module in LIBRARIES[kind]:
        try:
            __import__(module)
        except ImportError:
            continue  # the reader says so, if it is needed


def _limit(size: int) -> None:  # pragma: no cover
    """From now on so much more memory, and so many more seconds; where the system has no limits, none."""
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
            resource.setrlimit(kind, (most, most + 1))  # a signal at the one, the end at the other
