"""A table: named columns of numbers or text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from guardband.base.limits import CELLS, NAME, SMALL, SWELL, TABLE, WIDEST, printable

if TYPE_CHECKING:
    from guardband.base.arrays import ArrayLike

NO_TEXT = re.compile("[\0\ud800-\udfff]")  # the null character and surrogates
Columns: TypeAlias = "Iterator[tuple[str, ArrayLike]]"
Reader: TypeAlias = "Callable[[bytes, Budget], Columns]"


class TableError(ValueError):
    """An error in a table or its file, with its location. Rows are counted from 1, below the header.

    Parameters
    ----------
    text
        The message.

    Examples
    --------
    >>> from guardband.tables import TableError, read
    >>> try:
    ...     read("nowhere.csv")
    ... except TableError as error:
    ...     print(error)
    nowhere.csv: There is no file at this path. Check the spelling.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class Unsound(TableError):
    """A file that is damaged or not of the format of its suffix."""

    def __init__(self, why: str) -> None:
        super().__init__(f"This file is damaged or has another format. Create it again ({why}).")


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length: float64 numbers, or text without blank cells.

    Parameters
    ----------
    columns
        Columns by name. Numbers may be infinite or NaN, as in an infinite band; `read` refuses both.

    Examples
    --------
    >>> from guardband.tables import Table
    >>> table = Table({"x": [0.0, 0.5], "sensor": ["a", "b"]})
    >>> table.with_columns(u=[1, 2])
    Table(2 rows: x, sensor, u)
    >>> table.matrix(["x"]).shape, table.column("sensor").tolist()
    ((2, 1), ['a', 'b'])
    """

    columns: Mapping[str, ArrayLike]

    def __post_init__(self) -> None:
        check_names(list(self.columns))
        columns = {name: _column(name, cells) for name, cells in self.columns.items()}
        lengths = {len(column): name for name, column in columns.items()}
        if len(lengths) > 1 or 0 in lengths:
            raise TableError(f"Columns should be equally long and not empty, got lengths {lengths}.")
        for column in columns.values():
            column.flags.writeable = False
        object.__setattr__(self, "columns", columns)

    @classmethod
    def gathered(cls, data: bytes, reader: Reader) -> Table:
        """Read a table from the bytes of a file.

        Parameters
        ----------
        data
            Content of the file.
        reader
            Reader of its format.

        Returns
        -------
        Table
            The table, complete and finite.
        """
        budget, columns = Budget(len(data)), dict[str, np.ndarray]()
        names = list[str]()
        for name, cells in reader(data, budget):
            names.append(name)
            check_cells(1, len(names))
            check_names(names[-1:], len(names))
            columns[name] = budget.column(name, cells)
            columns[name].flags.writeable = False
        check_names(names)
        for name, column in columns.items():
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                row = int(np.argmin(np.isfinite(column)))
                raise wrong(name, row + 1, "be finite", column[row])
        return cls(columns)

    def __len__(self) -> int:
        return len(self.columns[self.names[0]])

    def __repr__(self) -> str:
        return printable(f"Table({len(self)} rows: {', '.join(self.names)})")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.columns)

    def column(self, name: str) -> np.ndarray:
        """Return a column.

        Parameters
        ----------
        name
            Name of the column.

        Returns
        -------
        np.ndarray
            Numbers or text, shape (n,), read-only.
        """
        if name not in self.columns:
            raise TableError(f"Unknown column `{name}`; the columns are {', '.join(self.names)}.")
        return self.columns[name]

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """Return numeric columns as a matrix.

        Parameters
        ----------
        names
            Names of k columns.

        Returns
        -------
        np.ndarray
            The columns in float64, shape (n, k).
        """
        names = [names] if isinstance(names, str) else names
        for name in names:
            if self.column(name).dtype.kind != "f":
                cells = enumerate(self.column(name).tolist(), 1)
                row, cell = next(((i, c) for i, c in cells if number(c) is None), (1, "text"))
                raise wrong(name, row, "hold numbers", repr(cell[:40]))
        return np.array([self.column(name) for name in names]).reshape(len(names), len(self)).T.copy()

    def with_columns(self, **columns: ArrayLike) -> Table:
        """Return a table with columns added or replaced.

        Parameters
        ----------
        **columns
            Columns by name.

        Returns
        -------
        Table
            The new table.
        """
        return Table({**self.columns, **columns})


def wrong(name: str, row: int, should: str, got: object) -> TableError:
    """The error for a cell."""
    return TableError(f"Column `{name}` should {should}, but row {row} is {got}. Repair it or leave it out.")


def check_cells(rows: int, columns: int) -> None:
    """Raise a `TableError` if a table is too large."""
    if columns > WIDEST or rows * columns > CELLS:
        limits = f"{WIDEST} columns and {CELLS} cells"
        raise TableError(f"A table should have at most {limits}, got {rows} x {columns}. Split it.")


def check_names(names: Sequence[str], first: int = 1) -> None:
    """Raise a `TableError` unless names are valid and distinct; `first` is the number of the first column."""
    if not names:
        raise TableError("A table should have at least one column, got none.")
    for j, name in enumerate(names, first):
        if not (isinstance(name, str) and name.strip() == name != "" and "\0" not in name):
            raise TableError(f"Column {j} should have a name, got {str(name)[:40]!r}. Name it.")
        if len(name) > NAME:
            raise TableError(f"Column {j} should have a name of at most {NAME} characters, got {len(name)}.")
    if len(set(names)) < len(names):
        name = next(name for j, name in enumerate(names) if name in names[:j])
        raise TableError(f"Column names should differ, but `{name[:40]}` occurs twice. Rename one.")


def _column(name: str, cells: ArrayLike, widest: int = TABLE) -> np.ndarray:
    """The cells as float64 or as text of at most `widest` bytes; a copy, unless they are read-only."""
    if np.ma.is_masked(cells):
        raise TableError(f"Column `{name}` should be complete, but cells are masked. Leave such rows out.")
    # A list becomes objects first, since in an array of text every cell is as wide as the longest.
    a = np.array(cells, dtype=object) if isinstance(cells, list | tuple) else _array(cells)
    if a.ndim != 1:
        raise TableError(f"Column `{name}` should be one-dimensional, got shape {a.shape}. Split it.")
    if a.dtype.kind == "S":
        return _checked(name, np.char.decode(a, "utf-8"), widest)
    if a.dtype.kind == "U":
        return _checked(name, a, widest)
    if a.dtype.kind in "OT":
        if any(isinstance(cell, str) for cell in a.tolist()):
            return _text(name, a.tolist(), widest)
        a = np.array(a.tolist())
    if a.dtype.kind not in "fiub":
        raise TableError(
            f"Column `{name}` should hold real numbers or text, got dtype {a.dtype}. Convert it."
        )
    if a.dtype.kind in "iu" and bool(((a > 2**53) | (a < -(2**53))).any()):
        raise TableError(f"Column `{name}` should hold integers up to 2^53. Store larger ones as text.")
    return a.astype(np.float64, copy=a.flags.writeable or a.base is not None)


def _checked(name: str, cells: np.ndarray, widest: int) -> np.ndarray:
    """An array of text, checked by its characters instead of cell by cell."""
    if cells.nbytes > widest:
        raise TableError(
            f"Column `{name}` should be short text, got {cells.itemsize // 4} characters. Shorten it."
        )
    letters = np.ascontiguousarray(cells).view(np.uint32).reshape(len(cells), -1)
    odd = (letters >= 0xD800) & (letters <= 0xDFFF)
    odd[:, :-1] |= (letters[:, :-1] == 0) & (letters[:, 1:] != 0)
    for wrong_rows, should in ((odd.any(1), "be readable text"), (np.char.strip(cells) == "", "be complete")):
        if wrong_rows.any():
            row = int(np.argmax(wrong_rows))
            raise wrong(
                name, row + 1, should, "blank" if should == "be complete" else repr(str(cells[row])[:40])
            )
    return np.array(cells)


def _array(cells: ArrayLike) -> np.ndarray:
    if isinstance(cells, np.ndarray):
        return cells
    from guardband.base.arrays import to_numpy

    return to_numpy(cells)


def _text(name: str, cells: list[str], widest: int) -> np.ndarray:
    for row, cell in enumerate(cells, 1):
        if not isinstance(cell, str):
            raise wrong(name, row, "be all text or all numbers", repr(cell))
        if not cell.strip():
            raise wrong(name, row, "be complete", "blank")
        if NO_TEXT.search(cell):
            raise wrong(name, row, "be readable text", repr(cell[:40]))
    longest = max(map(len, cells))
    if 4 * longest * len(cells) > widest:
        raise TableError(f"Column `{name}` should be short text, got {longest} characters. Shorten it.")
    return np.array(cells, dtype=np.str_)


def number(cell: str) -> float | None:
    """The number in a cell, or None; 1_2 is a number only in Python."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None


class Budget:
    """The memory that the columns of a file may take: `SWELL` times its bytes, plus `SMALL`.

    Compressed data can declare any size, so the declared size is counted before anything is unpacked.

    >>> Budget(2**20).left // 2**20  # MiB, for a file of 1 MiB
    96
    """

    def __init__(self, size: int) -> None:
        self.left: int = SWELL * size + SMALL

    def take(self, rows: int, columns: int, width: int = 8) -> None:
        """Count cells of `width` bytes before they are read."""
        check_cells(rows, columns)
        if min(rows, columns) < 0:
            raise TableError(f"An array should have rows and columns, got {rows} x {columns}.")
        self.left -= rows * columns * width
        if self.left < 0:
            raise TableError(
                f"The columns should take at most {SWELL} times the bytes of their file, plus {SMALL}. "
                "Save them with less compression, or split the file."
            )

    def column(self, name: str, cells: ArrayLike) -> np.ndarray:
        """Cells as a column of a table; text is counted by its width."""
        column = _column(name, cells, self.left)
        if column.dtype.kind == "U":  # as wide as its longest cell
            self.left -= column.nbytes
        return column
