"""Tables: named columns, in memory and in files.

`table.py` is a table in memory; `text.py` reads and writes .csv, `arrays.py` .npz, and `foreign.py` the
formats of other libraries, which are read in a separate process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

from guardband.base import files
from guardband.base.limits import TABLE
from guardband.tables import arrays, foreign, text
from guardband.tables.table import Reader, Table, TableError, Unsound, number

__all__ = ["Table", "TableError", "number", "read", "write"]


Writer: TypeAlias = Callable[[Table, Sequence[str], str], bytes]
Tool = TypeVar("Tool")
Result = TypeVar("Result")


def read(path: str | os.PathLike[str]) -> Table:
    """Read a table from a .csv, .parquet, .nc or .npz file.

    Parameters
    ----------
    path
        File to read; its suffix selects the format.

    Returns
    -------
    Table
        The columns, complete and finite.

    Raises
    ------
    TableError
        If the file is not a complete table of finite numbers and text.

    Notes
    -----
    A .csv has a header and is encoded in UTF-8; commas, semicolons or tabs separate its columns. With
    semicolons or tabs, all numbers may have decimal commas, as in the European 0,5;1,25. A column whose cells
    are all numbers is numeric. A .nc holds variables over one dimension, or over a grid whose coordinates
    become columns too, with the last dimension varying fastest; times remain numbers in the units of the
    file. A .npz holds arrays of shape (n,), or (n, k), which become columns name0, name1, ...

    Untrusted files may be read. A .parquet or .nc is read by another library in a separate process, which
    takes about a second and is stopped if it needs too much time or memory.

    Examples
    --------
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
    return _with_tool(Path(path), READERS, _read, Unsound)


def write(path: str | os.PathLike[str], table: Table, *, points: Sequence[str] = ()) -> Path:
    """Write a table atomically as .csv, .parquet, .nc or .npz, or for ParaView as .vtk or .vtu.

    Parameters
    ----------
    path
        File to write; its suffix selects the format.
    table
        Table to write.
    points
        For ParaView, the names of one to three coordinates; the other columns, all numeric, are data at these
        points.

    Returns
    -------
    Path
        The file.

    Notes
    -----
    `read` returns the same table bit for bit, except that a .csv does not distinguish numbers from a column
    of text whose cells are all numbers.

    Examples
    --------
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

    def to_bytes(path: Path, writer: Writer) -> bytes:
        if (0 < len(points) <= 3) != (writer is foreign.write_mesh):
            raise TableError(
                "`points` should name one to three coordinates for .vtk and .vtu, and be empty otherwise."
            )
        return writer(table, points, path.suffix.lower())

    def unfit(why: str) -> TableError:
        return TableError(f"This format cannot store the table. Rename its columns or use .csv ({why}).")

    return files.write_bytes(path, _with_tool(Path(path), WRITERS, to_bytes, unfit))


def _with_tool(
    path: Path,
    tools: Mapping[str, Tool],
    work: Callable[[Path, Tool], Result],
    failure: Callable[[str], TableError],
) -> Result:
    """Apply the tool for a file's suffix; errors of libraries become a `TableError` that names the file."""
    try:
        if path.suffix.lower() not in tools:
            raise TableError(f"The file name should end in one of {', '.join(tools)}, got {path.suffix!r}.")
        return work(path, tools[path.suffix.lower()])
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    except ImportError:
        raise
    except Exception as error:
        raise TableError(f"{path}: {failure(f'{type(error).__name__}: {str(error)[:200]}')}") from error


def _read(path: Path, reader: Reader) -> Table:
    if not path.is_file():
        raise TableError("There is no file at this path. Check the spelling.")
    if reader in foreign.READERS.values():
        return Table.gathered(foreign.read(path), arrays.read)
    return Table.gathered(files.read_bytes(path, at_most=TABLE, follow=True), reader)


READERS: dict[str, Reader] = {".csv": text.read, **foreign.READERS, ".npz": arrays.read}
WRITERS: dict[str, Writer] = {
    ".csv": text.write,
    ".parquet": foreign.write_parquet,
    ".nc": foreign.write_netcdf,
}
WRITERS |= {".npz": arrays.write, ".vtk": foreign.write_mesh, ".vtu": foreign.write_mesh}
