"""Tables: columns with names, from and to files.

`table.py` is a table in memory; `text.py` reads and writes .csv, `arrays.py` .npz, and `foreign.py` the
formats of other libraries, which read in a separate process (`apart.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from guardband.base import files
from guardband.base.limits import TABLE
from guardband.tables import apart, arrays, foreign, text
from guardband.tables.table import Reader, Table, TableError, Unsound, number

__all__ = ["Table", "TableError", "number", "read", "write"]


def read(path: str | os.PathLike[str]) -> Table:
    """The table in a .csv, .parquet, .nc or .npz file, complete and finite; otherwise a `TableError`.

    A .csv has a header and is in UTF-8; commas, semicolons or tabs separate its columns. Where it is
    semicolons or tabs, numbers may have decimal commas, all of them: 0,5;1,25 is what a European
    Excel writes. A column whose cells are all numbers is one of numbers.
    A .nc holds variables over one dimension, or over a grid whose coordinates become columns too,
    the last dimension running fastest; times stay numbers in the file's own units. A .npz holds
    arrays (n,), or (n, k), which become columns name0, name1, ...

    Untrusted files may be read. A .parquet or .nc is unpacked by another library, in a separate process,
    which takes about a second and is ended if it needs too much time or memory.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from guardband.tables import Table, read, write
    >>> path = write(
    ...     Path(tempfile.mkdtemp(), "readings.csv"),
    ...     Table({"x": [0.0, 0.5], "sensor": ["a", "b"]}),
    ... )
    >>> read(path)
    Table(2 rows: x, sensor)
    """
    return _naming(Path(path), READERS, _read, Unsound)


def write(path: str | os.PathLike[str], table: Table, *, points: Sequence[str] = ()) -> Path:
    """Write a table as .csv, .parquet, .nc or .npz, or for ParaView as .vtk or .vtu, whole or not at all.

    What `read` gives back is the same bit for bit, except that a column of text in which every
    cell spells a number comes back from a .csv as numbers. For ParaView `points` names one to
    three coordinates; the other columns, all numbers, are the data at these points.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from guardband.tables import Table, write
    >>> path = write(
    ...     Path(tempfile.mkdtemp(), "band.csv"),
    ...     Table({"x": [0.0, 0.5], "upper": [1.0, 2.0]}),
    ... )
    >>> path.read_text().splitlines()
    ['x,upper', '0.0,1.0', '0.5,2.0']
    """
    points = [points] if isinstance(points, str) else list(points)

    def to_bytes(path: Path, writer: Callable[..., bytes]) -> bytes:
        if (0 < len(points) <= 3) != (writer is foreign.write_mesh):
            raise TableError("`points` should name one to three coordinates for .vtk and .vtu, else nothing.")
        return writer(table, points, path.suffix.lower())

    def unfit(why: str) -> TableError:
        return TableError(f"This table does not fit such a file; rename its columns or choose .csv ({why}).")

    return files.write_bytes(path, _naming(Path(path), WRITERS, to_bytes, unfit))


def _naming(
    path: Path,
    tools: Mapping[str, Any],
    work: Callable[[Path, Any], Any],
    failure: Callable[[str], TableError],
) -> Any:
    """Work with the tool for a file's ending; errors name the file, and what libraries throw is a failure."""
    try:
        if path.suffix.lower() not in tools:
            raise TableError(f"The name should end in one of {', '.join(tools)}, got {path.suffix!r}.")
        return work(path, tools[path.suffix.lower()])
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    except ImportError:
        raise
    except Exception as error:
        raise TableError(f"{path}: {failure(f'{type(error).__name__}: {str(error)[:200]}')}") from error


def _read(path: Path, reader: Reader) -> Table:
    if not path.is_file():
        raise TableError("There should be a file here, but there is none. Look at the path.")
    if reader in apart.READERS.values():
        return Table.gathered(apart.read(path), arrays.read)
    return Table.gathered(files.read_bytes(path, at_most=TABLE, follow=True), reader)


READERS: dict[str, Reader] = {".csv": text.read, **apart.READERS, ".npz": arrays.read}
WRITERS = {".csv": text.write, ".parquet": foreign.write_parquet, ".nc": foreign.write_netcdf}
WRITERS |= {".npz": arrays.write, ".vtk": foreign.write_mesh, ".vtu": foreign.write_mesh}
