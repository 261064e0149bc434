"""Apart: other libraries read a data file in a separate process; its errors become a `TableError` here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from guardband.base import files, separate
from guardband.base.limits import SWELL, TABLE
from guardband.tables import arrays, foreign
from guardband.tables.table import Reader, Table, TableError, Unsound

READERS: dict[str, Reader] = {".parquet": foreign.read_parquet, ".nc": foreign.read_netcdf}
LIBRARIES: dict[str, tuple[str, ...]] = {
    ".parquet": ("pyarrow", "pyarrow.parquet"),
    ".nc": ("xarray", "h5py", "h5netcdf", "scipy.io"),
}


def read(path: Path) -> bytes:
    """The columns of a file as a .npz, whose arrays are what they claim to be."""
    try:
        found = separate.run(__name__, "answer", path)
    except ChildProcessError as error:
        raise TableError(str(error)) from error
    if found.startswith(b"PK"):
        return found
    kind, said = json.loads(found)
    raise {"TableError": TableError, "ImportError": ImportError}.get(kind, Unsound)(said)


def answer() -> None:  # pragma: no cover, in another process
    """In the other process: read the file that is named, and write what was found to standard output."""
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    path = Path(sys.argv[1])
    kind = path.suffix.lower()
    with os.fdopen(out, "wb") as file:
        try:
            data = files.read_bytes(path, at_most=TABLE, follow=True)
            separate.begin(LIBRARIES[kind], len(data))
            table = Table.gathered(data, READERS[kind])
        except (TableError, ImportError) as error:
            file.write(json.dumps([type(error).__name__, str(error)]).encode())
        except MemoryError:
            said = (
                f"The columns take more than {SWELL} times the bytes of their file. Shorten long cells of "
                "text, save with less compression, or split the file."
            )
            file.write(json.dumps(["TableError", said]).encode())
        except Exception as error:
            file.write(json.dumps(["", f"{type(error).__name__}: {str(error)[:200]}"]).encode())
        else:
            arrays.write_to(file, table)
