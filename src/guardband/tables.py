"""Tables: columns with names, from and to files."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from guardband import extras, files
from guardband.arrays import ArrayLike, to_numpy

LARGEST, CELLS, WIDEST = 2 * 1024**3, 10**8, 10**4
"""The most a table may have: bytes in a file or a column of text, rows times columns, columns."""

NO_TEXT = re.compile("[\0\ud800-\udfff]")  # the null, and halves of characters
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
QUOTED = r'(?<![^,;\t])"(?:[^"]++|"")*+"'  # a quote that does not open a cell is a letter like others
FIRST_LINE = re.compile(rf'(?:{QUOTED}|[^",;\t\r\n]++|[^\r\n])*+')
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:,\d{3})+\.\d+)\s*", re.ASCII)
Columns: TypeAlias = Iterator[tuple[str, ArrayLike]]


class TableError(ValueError):
    """What is wrong with a table or its file, and where: rows count from 1, below the header.

    >>> from guardband.tables import TableError, read
    >>> try:
    ...     read("nowhere.csv")
    ... except TableError as error:
    ...     print(error)
    nowhere.csv: There should be a file here, but there is none. Look at the path.
    """


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with names, all of one length: float64 numbers, or text without blank cells.

    Numbers may be infinite or NaN here, as an infinite band is; `read` refuses both in a file.

    >>> from guardband.tables import Table
    >>> table = Table({"x": [0.0, 0.5], "sensor": ["a", "b"]})
    >>> table.with_columns(u=[1, 2])
    Table(2 rows: x, sensor, u)
    >>> table.matrix(["x"]).shape, table.column("sensor").tolist()
    ((2, 1), ['a', 'b'])
    """

    columns: Mapping[str, ArrayLike]

    def __post_init__(self) -> None:
        _check_names(list(self.columns))
        columns = {name: _column(name, cells) for name, cells in self.columns.items()}
        lengths = {len(column): name for name, column in columns.items()}
        if len(lengths) > 1 or 0 in lengths:
            raise TableError(f"Columns should be equally long and not empty, got rows and columns {lengths}.")
        for column in columns.values():
            column.flags.writeable = False
        object.__setattr__(self, "columns", columns)

    def __len__(self) -> int:
        return len(self.columns[self.names[0]])

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self.columns)

    def column(self, name: str) -> np.ndarray:
        """One column (n,), numbers or text, not to be written to."""
        if name not in self.columns:
            raise TableError(f"There is no column `{name}`; the columns are {', '.join(self.names)}.")
        return self.columns[name]

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """Columns of numbers side by side, (n, k) float64."""
        names = [names] if isinstance(names, str) else names
        for name in names:
            if self.column(name).dtype.kind != "f":
                cells = enumerate(self.column(name).tolist(), 1)
                row, cell = next(((i, c) for i, c in cells if number(c) is None), (1, "text"))
                raise _wrong(name, row, "hold numbers", repr(cell[:40]))
        return np.array([self.column(name) for name in names]).reshape(len(names), len(self)).T.copy()

    def with_columns(self, **columns: ArrayLike) -> Table:
        """The same table with these columns added, or replaced where the name is known."""
        return Table({**self.columns, **columns})


def read(path: str | os.PathLike[str]) -> Table:
    """The table in a .csv, .parquet, .nc or .npz file, complete and finite; otherwise a `TableError`.

    A .csv has a header and is in UTF-8; commas, semicolons or tabs separate its columns. Where it is
    semicolons or tabs, numbers may have decimal commas, all of them: 0,5;1,25 is what a European
    Excel writes. A column whose cells are all numbers is one of numbers.
    A .nc holds variables over one dimension, or over a grid whose coordinates become columns too,
    the last dimension running fastest; times stay numbers in the file's own units. A .npz holds
    arrays (n,), or (n, k), which become columns name0, name1, ...

    A .nc that is HDF5 inside should come from people you trust: a forged one can hang that library.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from guardband.tables import Table, read, write
    >>> path = write(Path(tempfile.mkdtemp(), "readings.csv"), Table({"x": [0.0, 0.5], "sensor": ["a", "b"]}))
    >>> read(path)
    Table(2 rows: x, sensor)
    """
    return _naming(Path(path), READERS, _read, "This is not a sound file of its kind; make it again")


def write(path: str | os.PathLike[str], table: Table, *, points: Sequence[str] = ()) -> Path:
    """Write a table as .csv, .parquet, .nc or .npz, or for ParaView as .vtk or .vtu, whole or not at all.

    What `read` gives back is the same bit for bit, except that a column of text in which every
    cell spells a number comes back from a .csv as numbers. For ParaView `points` names one to
    three coordinates; the other columns, all numbers, are the data at these points.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from guardband.tables import Table, write
    >>> path = write(Path(tempfile.mkdtemp(), "band.csv"), Table({"x": [0.0, 0.5], "upper": [1.0, 2.0]}))
    >>> path.read_text().splitlines()
    ['x,upper', '0.0,1.0', '0.5,2.0']
    """
    points = [points] if isinstance(points, str) else list(points)

    def to_bytes(path: Path, writer: Callable[..., bytes]) -> bytes:
        if (0 < len(points) <= 3) != (writer is _to_mesh):
            raise TableError("`points` should name one to three coordinates for .vtk and .vtu, else nothing.")
        return writer(table, points, path.suffix.lower())

    failure = "This table does not fit such a file; rename its columns or choose .csv"
    return files.write_bytes(path, _naming(Path(path), WRITERS, to_bytes, failure))


def _naming(path: Path, tools: Mapping[str, Any], work: Callable[[Path, Any], Any], failure: str) -> Any:
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
        raise TableError(f"{path}: {failure} ({type(error).__name__}: {str(error)[:200]}).") from error


def _read(path: Path, reader: Callable[[bytes], Columns]) -> Table:
    if not path.is_file():
        raise TableError("There should be a file here, but there is none. Look at the path.")
    if (size := path.stat().st_size) > LARGEST:
        raise TableError(f"A file should have at most {LARGEST} bytes, got {size}. Split it.")
    columns = list(islice(reader(path.read_bytes()), WIDEST + 1))
    _check_cells(1, len(columns))
    _check_names([name for name, _ in columns])
    table = Table(dict(columns))
    for name, column in table.columns.items():
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            row = int(np.argmin(np.isfinite(column)))
            raise _wrong(name, row + 1, "be finite", column[row])
    return table


def _wrong(name: str, row: int, should: str, got: object) -> TableError:
    return TableError(f"Column `{name}` should {should}, but row {row} is {got}. Repair it or leave it out.")


def _check_cells(rows: int, columns: int) -> None:
    if columns > WIDEST or rows * columns > CELLS:
        limits = f"{WIDEST} columns and {CELLS} cells"
        raise TableError(f"A table should have at most {limits}, got {rows} x {columns}. Split it.")


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise TableError("A table should have at least one column, got none.")
    for j, name in enumerate(names, 1):
        if not (isinstance(name, str) and name.strip() == name != "" and "\0" not in name):
            raise TableError(f"Column {j} should have a name, got {str(name)[:40]!r}. Name it.")
    if len(set(names)) < len(names):
        name = next(name for j, name in enumerate(names) if name in names[:j])
        raise TableError(f"Column names should differ, but `{name[:40]}` occurs twice. Rename one.")


def _column(name: str, cells: ArrayLike) -> np.ndarray:
    """A copy of the cells, float64 or text."""
    if np.ma.is_masked(cells):
        raise TableError(f"Column `{name}` should be complete, but cells are masked. Leave such rows out.")
    # A list becomes objects first: as text, every cell would be as wide as the longest.
    a: Any = np.array(cells, dtype=object) if isinstance(cells, list | tuple) else to_numpy(cells)
    if a.ndim != 1:
        raise TableError(f"Column `{name}` should be one-dimensional, got shape {a.shape}. Split it.")
    if a.dtype.kind == "S":
        a = np.char.decode(a, "utf-8")
    if a.dtype.kind in "OUT":
        if any(isinstance(cell, str) for cell in a.tolist()):
            return _text(name, a.tolist())
        a = np.array(a.tolist())
    if a.dtype.kind not in "fiub":
        raise TableError(
            f"Column `{name}` should hold real numbers or text, got dtype {a.dtype}. Convert it."
        )
    if a.dtype.kind in "iu" and bool(((a > 2**53) | (a < -(2**53))).any()):
        raise TableError(f"Column `{name}` should hold integers up to 2^53. Make longer ones text.")
    return a.astype(np.float64)


def _text(name: str, cells: list[str]) -> np.ndarray:
    for row, cell in enumerate(cells, 1):
        if not isinstance(cell, str):
            raise _wrong(name, row, "be all text or all numbers", repr(cell))
        if not cell.strip():
            raise _wrong(name, row, "be complete", "blank")
        if NO_TEXT.search(cell):
            raise _wrong(name, row, "be readable text", repr(cell[:40]))
    longest = max(map(len, cells))
    if 4 * longest * len(cells) > LARGEST:
        raise TableError(f"Column `{name}` should be short text, got {longest} characters. Shorten it.")
    return np.array(cells, dtype=np.str_)


def number(cell: str) -> float | None:
    """The number a cell spells; 1_2 is one for Python but a label for everybody else."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None


def _from_csv(data: bytes) -> Columns:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(
            f"A .csv should be UTF-8, but byte {error.start} is not. Save it as UTF-8."
        ) from error
    delimiter = _delimiter(text)
    lines = _lines(text, delimiter)
    names = [name.strip() for name in next(lines, [])]
    if _all_numbers(names):
        raise TableError(f"The first line should be a header of names, got {names[:5]}. Add one.")
    rows = list[list[str]]()
    for row in lines:
        if len(row) != len(names):
            where, wanted = f"Row {len(rows) + 1} (line {lines.line_num})", f"{len(names)} cells"
            raise TableError(f"{where} should have {wanted} like the header, got {len(row)}. Repair it.")
        rows.append(row)
        _check_cells(len(rows), len(names))
    marks = dict[str, str]()
    for j, name in enumerate(names):
        cells = [row[j] for row in rows]
        numbers = [number(cell) for cell in cells]
        if delimiter != ",":
            numbers = _european(name, cells, numbers, marks)
        yield name, cells if None in numbers else np.array(numbers, dtype=np.float64)


def _lines(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def _delimiter(text: str) -> str:
    """What separates the columns: what stands in the header, outside quotes.

    Where two do, as in `x;u, m`, it is the one by which every row has as many cells as the header.
    """
    header = FIRST_LINE.match(text)
    outside = re.sub(QUOTED, "", header[0] if header else "")
    found = [mark for mark in DELIMITERS if mark in outside]
    if len(found) > 1:
        fitting = [mark for mark in found if _fits(text, mark)]
        if ";" in fitting and _all_numbers(outside.split(";")):
            return ";"  # and the header is refused
        if len(fitting) != 1:
            both = " and ".join(DELIMITERS[mark] for mark in found)
            raise TableError(
                f"One kind of mark should separate the columns, but the header has {both}, and the rows do "
                "not tell which it is. Put names with such a mark in quotes."
            )
        return fitting[0]
    return found[0] if found else ","


def _all_numbers(names: Sequence[str]) -> bool:
    return all(number(name) is not None or DECIMAL_COMMA.fullmatch(name) is not None for name in names)


def _fits(text: str, delimiter: str) -> bool:
    lines = _lines(text, delimiter)
    try:
        width = len(next(lines, []))
        return all(len(row) == width for row in lines)
    except csv.Error:
        return False


def _european(
    name: str, cells: list[str], numbers: list[float | None], marks: dict[str, str]
) -> list[float | None]:
    """The numbers of a column with decimal commas; `marks` knows a cell with a comma and one with a point."""
    found = list[float | None]()
    seen = dict[str, str]()
    for row, (cell, value) in enumerate(zip(cells, numbers, strict=True), 1):
        if value is None and THOUSANDS.fullmatch(cell):
            raise _wrong(name, row, "hold numbers without marks between thousands", repr(cell[:40]))
        comma = value is None and DECIMAL_COMMA.fullmatch(cell) is not None
        found.append(float(cell.replace(",", ".")) if comma else value)
        if comma or "." in cell:
            seen.setdefault("comma" if comma else "point", f"{cell[:40]!r} in row {row} of `{name[:40]}`")
    if None not in found:
        marks |= {mark: place for mark, place in seen.items() if mark not in marks}
    if len(marks) == 2:
        raise TableError(
            f"Numbers should have one decimal mark throughout a file, got {marks['comma']} and "
            f"{marks['point']}. Write all with a point."
        )
    return found


def _to_csv(table: Table, *_: Any) -> bytes:
    text = io.StringIO(newline="")
    marked = any(mark in name for name in table.names for mark in DELIMITERS)
    header = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if marked else csv.QUOTE_MINIMAL)
    header.writerow(table.names)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(zip(*(column.tolist() for column in table.columns.values()), strict=True))
    return text.getvalue().encode("utf-8")


def _from_npz(data: bytes) -> Columns:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > LARGEST:
            raise TableError(f"The arrays should have at most {LARGEST} bytes together. Split the file.")
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            array = np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
            if not isinstance(array, np.ndarray) or array.ndim not in (1, 2):
                raise TableError(f"`{name}` should be (n,) or (n, k), got {np.shape(array)}. Leave it out.")
            _check_cells(len(array), math.prod(array.shape[1:]))
            if array.ndim == 1:
                yield name, array
            else:
                yield from ((f"{name}{j}", column) for j, column in enumerate(array.T))


def _to_npz(table: Table, *_: Any) -> bytes:
    """As `numpy.savez`, which has no name `file` to give, and the same bytes every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, column in table.columns.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, column, allow_pickle=False)
    return buffer.getvalue()


def _from_parquet(data: bytes) -> Columns:
    parquet = extras.load("pyarrow.parquet", "tables")
    found = parquet.read_metadata(io.BytesIO(data))
    _check_cells(found.num_rows, found.num_columns)
    # Text stays a dictionary: a long cell that occurs a million times is in memory once.
    table = parquet.ParquetFile(io.BytesIO(data), read_dictionary=found.schema.names).read(use_threads=False)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise _wrong(name, column.is_null().to_pylist().index(True) + 1, "be complete", "null")
        yield name, column.to_numpy()


def _to_parquet(table: Table, *_: Any) -> bytes:
    arrow, parquet = extras.load("pyarrow", "tables"), extras.load("pyarrow.parquet", "tables")
    buffer = io.BytesIO()
    columns = {name: arrow.array(column.tolist()) for name, column in table.columns.items()}
    parquet.write_table(arrow.table(columns), buffer)
    return buffer.getvalue()


def _from_netcdf(data: bytes) -> Columns:
    xarray = extras.load("xarray", "scale")
    engine = "h5netcdf" if data.startswith(b"\x89HDF") else "scipy"
    extras.load(engine, "scale")
    if engine == "h5netcdf":  # which complains in `__del__` about files that h5py cannot open
        with extras.load("h5py", "scale").File(io.BytesIO(data)) as file:
            dict(file.attrs)
    with xarray.open_dataset(io.BytesIO(data), engine=engine, decode_times=False) as dataset:
        grid = max((variable.dims for variable in dataset.variables.values()), key=len, default=())
        sizes = {name: dataset.sizes[name] for name in grid}
        _check_cells(math.prod(sizes.values()), len(dataset.variables))
        axes = [name for name in grid if name in dataset.coords]
        variables = dict.fromkeys([*axes, *dataset.coords, *dataset.data_vars])
        for name in sorted(variables, key=lambda name: dataset[name].attrs.get("column", 0)):
            dims = set(dataset[name].dims)
            if not dims <= set(grid) or (name in dataset.data_vars and dims != set(grid)):
                raise TableError(f"`{name}` should lie over {grid}, got {dataset[name].dims}. Leave it out.")
            spelt = name.encode("latin-1").decode("utf-8") if engine == "scipy" else name  # see _latin
            yield spelt, dataset.variables[name].set_dims(sizes).values.ravel()


def _to_netcdf(table: Table, *_: Any) -> bytes:
    xarray = extras.load("xarray", "scale")
    if any("/" in name for name in table.names):
        raise TableError(
            "Column names in a .nc should be without '/', which names a folder there. Rename them."
        )
    columns = {_latin(name): column for name, column in table.columns.items()}
    rows = max(columns, key=len) + "_row"  # longer than any name, so it is none of them
    numbered = enumerate(columns.items())  # because scipy sorts them by their shape
    dataset = xarray.Dataset({name: (rows, column, {"column": j}) for j, (name, column) in numbered})
    return bytes(dataset.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _latin(name: str) -> str:
    """A name in the letters that make scipy, which knows Latin-1 alone, write it in UTF-8."""
    return name.encode("utf-8").decode("latin-1")


def _to_mesh(table: Table, points: Sequence[str], ending: str) -> bytes:
    meshio = extras.load("meshio", "mesh")
    places = np.zeros((len(table), 3))
    places[:, : len(points)] = table.matrix(points)
    data = {name: table.matrix([name])[:, 0] for name in table.names if name not in points}
    mesh = meshio.Mesh(places, [("vertex", np.arange(len(table))[:, None])], point_data=data)
    with tempfile.TemporaryDirectory() as folder:
        mesh.write(Path(folder, f"table{ending}"))
        return Path(folder, f"table{ending}").read_bytes()


READERS = {".csv": _from_csv, ".parquet": _from_parquet, ".nc": _from_netcdf, ".npz": _from_npz}
WRITERS = {".csv": _to_csv, ".parquet": _to_parquet, ".nc": _to_netcdf, ".npz": _to_npz}
WRITERS |= {".vtk": _to_mesh, ".vtu": _to_mesh}
