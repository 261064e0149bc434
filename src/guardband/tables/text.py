"""CSV with commas, semicolons or tabs, and with decimal points or commas."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from guardband.base.limits import CELLS, NAME, WIDEST
from guardband.tables.table import Budget, Columns, Table, TableError, check_cells, number, wrong

if TYPE_CHECKING:
    from _csv import Reader as Lines

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
QUOTED = r'(?<![^,;\t])"(?:[^"]++|"")*+"'  # a quote inside a cell is an ordinary character
FIRST_LINE = re.compile(rf'(?:{QUOTED}|[^",;\t\r\n]++|[^\r\n])*+')
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:,\d{3})+\.\d+)\s*", re.ASCII)
HEADER = WIDEST * NAME
"""Largest header, in bytes."""

WORDS = 10**5
"""Largest number of distinct cells that are interned."""


def read(data: bytes, _: Budget) -> Columns:
    """The columns of a .csv. Its cells are Python objects at first, about 32 times the bytes of the file."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(
            f"A .csv should be UTF-8, but byte {error.start} is not. Save it as UTF-8."
        ) from error
    if len(data.partition(b"\n")[0]) > HEADER:
        raise TableError(f"The first line should be a header of at most {HEADER} bytes. Shorten the names.")
    dialect = Dialect.of(data)
    lines = _lines(data, dialect.delimiter)
    names = [name.strip() for name in next(lines, [])]
    if _all_numbers(names):
        raise TableError(f"The first line should be a header of names, got {names[:5]}. Add one.")
    check_cells(0, len(names))
    columns = deque[list[str]]([] for _ in names)
    words: dict[str, str] = {}
    for rows, row in enumerate(lines, 1):
        if len(row) != len(names):
            row_name, wanted = f"Row {rows} (line {lines.line_num})", f"{len(names)} cells"
            raise TableError(f"{row_name} should have {wanted} like the header, got {len(row)}. Repair it.")
        if rows * len(names) > CELLS:
            check_cells(rows, len(names))
        full = len(words) >= WORDS
        for column, cell in zip(columns, row, strict=True):
            column.append(words.get(cell) or cell if full else words.setdefault(cell, cell))
    for name in names:
        cells = columns.popleft()
        numbers = dialect.numbers(name, cells)
        yield name, cells if None in numbers else np.array(numbers, dtype=np.float64)


@dataclass
class Dialect:
    """The delimiter of a .csv, and an example of each decimal mark found in its numbers so far.

    >>> Dialect(";").numbers("u", ["0,5", "2", "none"])
    [0.5, 2.0, None]
    """

    delimiter: str
    marks: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Dialect:
        """The dialect of the content of a file, or of its header alone if that is unambiguous."""
        return cls(_delimiter(data))

    def cells(self, line: str) -> list[str]:
        """The cells of a single line."""
        try:
            return next(csv.reader([line], delimiter=self.delimiter, strict=True), [])
        except csv.Error as error:
            raise TableError(f"The line cannot be read as CSV: {error}.") from error

    def numbers(self, name: str, cells: list[str], first: int = 1) -> list[float | None]:
        """The numbers in a column, None for other cells; `first` is the row of the first cell."""
        found = [number(cell) for cell in cells]
        return found if self.delimiter == "," else _european(name, cells, found, self.marks, first)


def _lines(data: bytes, delimiter: str) -> Lines:
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    return csv.reader(text, delimiter=delimiter, strict=True)


def _delimiter(data: bytes) -> str:
    """The delimiter of the columns: the one in the header, outside quotes.

    If the header contains several, as in `x;u, m`, the delimiter is the one that gives all rows the same
    number of cells.
    """
    text = io.TextIOWrapper(io.BytesIO(data[: 2 * HEADER]), "utf-8-sig", errors="ignore", newline="").read()
    header = FIRST_LINE.match(text)
    outside = re.sub(QUOTED, "", header[0] if header else "")
    found = [mark for mark in DELIMITERS if mark in outside]
    if len(found) > 1:
        fitting = [mark for mark in found if _fits(data, mark)]
        if ";" in fitting and _all_numbers(outside.split(";")):
            return ";"  # the header is refused later
        if len(fitting) != 1:
            both = " and ".join(DELIMITERS[mark] for mark in found)
            raise TableError(
                f"One delimiter should separate the columns, but the header has {both}, and the rows do not "
                "show which it is. Quote names that contain a delimiter."
            )
        return fitting[0]
    return found[0] if found else ","


def _all_numbers(names: Sequence[str]) -> bool:
    return all(number(name) is not None or DECIMAL_COMMA.fullmatch(name) is not None for name in names)


def _fits(data: bytes, delimiter: str) -> bool:
    lines = _lines(data, delimiter)
    try:
        width = len(next(lines, []))
        return all(len(row) == width for row in lines)
    except csv.Error:
        return False


def _european(
    name: str, cells: list[str], numbers: list[float | None], marks: dict[str, str], first: int
) -> list[float | None]:
    """The numbers in a column with decimal commas; `marks` records an example of each decimal mark."""
    found = list[float | None]()
    seen = dict[str, str]()
    for row, (cell, value) in enumerate(zip(cells, numbers, strict=True), first):
        if value is None and THOUSANDS.fullmatch(cell):
            raise wrong(name, row, "hold numbers without thousands separators", repr(cell[:40]))
        comma = value is None and DECIMAL_COMMA.fullmatch(cell) is not None
        found.append(float(cell.replace(",", ".")) if comma else value)
        if comma or "." in cell:
            seen.setdefault("comma" if comma else "point", f"{cell[:40]!r} in row {row} of `{name[:40]}`")
    if None in found:
        return found
    both = seen | marks
    if len(both) == 2:
        raise TableError(
            f"Numbers should have one decimal mark throughout a file, got {both['comma']} and "
            f"{both['point']}. Write all with a point."
        )
    marks |= both
    return found


def write(table: Table, *_: object) -> bytes:
    """The bytes of a .csv with commas."""
    text = io.StringIO(newline="")
    marked = any(mark in name for name in table.names for mark in DELIMITERS)
    header = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if marked else csv.QUOTE_MINIMAL)
    header.writerow(table.names)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(zip(*(column.tolist() for column in table.columns.values()), strict=True))
    return text.getvalue().encode("utf-8")
