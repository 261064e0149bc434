"""Rows of a growing file or a pipe: reading, parsing, and skipping those that were already counted."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from guardband.base.limits import shown
from guardband.cli.errors import note
from guardband.tables import TableError, number
from guardband.tables.text import Dialect

LINE, CHUNK = 2**24, 2**16
"""The largest size of a row, and the size of one read, in bytes."""

BATCHES, HELD = 1000, 1024
"""The number of batches in a snapshot, and the largest number of rows that are held back."""

WAIT = 0.1
"""Seconds between reads of a file that does not grow."""


class Rotated(ValueError):
    """The file was rotated, shortened or replaced while its rows were read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(
            f"{path} is no longer the file whose rows were read: it was rotated, shortened or replaced. "
            f"Follow such a log through a pipe: tail -n +1 -F {path} | guardband watch BAND --data - --out "
            "OUT, with the same OUT."
        )


@dataclass
class Batch:
    """The rows below a header: their number, their hash, and hashes of the first 1, 2, 4, 8, ... rows."""

    count: int = 0
    hash: str = ""
    marks: list[str] = field(default_factory=list)

    def add(self, line: bytes) -> None:
        """Count a row."""
        self.hash = hashlib.sha256(self.hash.encode() + line).hexdigest()[:16]
        self.count += 1
        if self.count == 1 << len(self.marks):
            self.marks.append(self.hash)

    def may_begin_with(self, rows: Batch) -> bool:
        """Return False if the stored hashes prove that this batch does not begin with `rows`."""
        at = len(rows.marks) - 1
        marked = self.marks[at] if rows.count == 1 << at and at < len(self.marks) else ""
        # Version 0.2.0 stored no hash.
        return (self.hash if rows.count == self.count else marked) in (rows.hash, "")


@dataclass
class Counted:
    """Recognizes rows that are repeated after a restart or a rotation and were already counted.

    Rows that agree with the beginning of a counted batch are held back, at most `HELD` of them. If a later
    row differs, they are new. If the rows agree with the whole batch, they are dropped, and the rows after
    them are new.
    """

    batches: list[Batch]
    current: Batch = field(default_factory=Batch)
    candidates: list[Batch] = field(default_factory=list)
    held: list[bytes] = field(default_factory=list)
    dropped: int = 0

    def header(self) -> None:
        """Begin a batch."""
        self.end()
        self.batches = self.candidates = self.snapshot()
        self.current = Batch()

    def row(self, line: bytes) -> list[bytes]:
        """Add a row, and return the rows that are now known to be new."""
        self.current.add(line)
        if not self.candidates:
            return [line]
        self.candidates = [batch for batch in self.candidates if batch.may_begin_with(self.current)]
        if whole := [batch for batch in self.candidates if batch.count == self.current.count]:
            self.batches = [batch for batch in self.batches if batch not in whole]
            self.dropped += self.current.count
            self.candidates, self.held = [], []
        elif self.current.count <= HELD:
            self.held.append(line)
        elif not self.candidates:
            raise ValueError(
                f"The data repeat more than {HELD} counted rows, and then differ. Pass the "
                "original data, or another --out and --snapshot."
            )
        new = [] if self.candidates else self.held
        self.held = self.held if self.candidates else []
        return new

    def end(self) -> None:
        """End the batch; rows that are still held back are an error."""
        if self.candidates and self.current.count:
            raise ValueError(
                f"The data end, or the header is repeated, after {self.current.count} rows that may be the "
                "first of those counted before. They could not be compared and were not counted. Pass all of "
                "the data."
            )

    def snapshot(self) -> list[Batch]:
        """Return the batches counted so far."""
        counted = self.current.count and not self.candidates
        return [*self.batches, self.current][-BATCHES:] if counted else self.batches


MISSING = ("", "na", "nan")
"""Cells that denote a missing reading; any other word is an error."""


class OtherHeader(TableError):
    """A header differs from the first one."""


@dataclass(frozen=True)
class Header:
    """The header of the data, with the positions of inputs and targets."""

    text: str
    names: list[str]
    dialect: Dialect
    inputs: list[int]
    targets: list[int]

    @classmethod
    def of(
        cls, line: bytes, source: str, inputs: list[str], targets: list[str], marks: dict[str, str]
    ) -> Header:
        """Parse the first line; `marks` are the decimal marks found in earlier rows."""
        if not line.endswith(b"\n") or not line.strip():
            raise TableError(f"The first line of {source} should be a header with column names.")
        text = _text(line)
        dialect = Dialect(Dialect.of(line).delimiter, marks)
        names = [name.strip() for name in dialect.cells(text)]
        for name in (*inputs, *targets):
            if names.count(name) != 1:
                count = "no column" if name not in names else f"{names.count(name)} columns"
                raise TableError(f"{source} has {count} {shown(name)}; its header is {shown(names)}.")
        indices = [[names.index(name) for name in part] for part in (inputs, targets)]
        return cls(text, names, dialect, *indices)

    def is_repeated_in(self, line: bytes) -> bool:
        """Whether a line is this header."""
        return line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf") == self.text.encode()

    def parsed(self, line: bytes, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs (1, d) and readings (1, m), with NaN for a missing reading."""
        cells = self.dialect.cells(_text(line))
        words, used = [cell.strip() for cell in cells], (*self.inputs, *self.targets)
        names, values = {self.names[i] for i in used}, {words[i] for i in used if i < len(words)}
        if (names & values or names <= {*words}) and all(number(word) is None for word in values):
            raise OtherHeader(
                f"Row {row} is a header that differs from the first one: {shown(cells)}. Choose another "
                "--out and --snapshot for data with other columns."
            )
        if len(cells) != len(self.names):
            raise TableError(f"The line should have {len(self.names)} cells, got {len(cells)}.")
        x = [self._number(cells[i], i, row) for i in self.inputs]
        y = [
            math.nan if words[i].lower() in MISSING else self._number(cells[i], i, row) for i in self.targets
        ]
        return np.array([x], dtype=float), np.array([y], dtype=float)

    def _number(self, cell: str, i: int, row: int) -> float:
        (value,) = self.dialect.numbers(self.names[i], [cell], row)
        if value is None or not math.isfinite(value):
            raise TableError(f"Column `{self.names[i]}` should hold a number, got {shown(cell)}.")
        return value


def _text(line: bytes) -> str:
    if len(line) > LINE:
        raise TableError(f"A line should have at most {LINE} bytes.")
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TableError("The line should be encoded in UTF-8.") from error


def lines(source: BinaryIO, path: Path | None = None, once: bool = True) -> Iterator[list[bytes]]:
    """Yield the complete lines of a pipe, or of the file `path`, in lists as they become available.

    An empty list means that the source has ended or has not grown. Lines longer than `LINE` lose their
    middle.
    """
    rest, last, read, end = b"", b"", 0, 0
    while True:
        while part := source.read1(CHUNK):  # type: ignore[attr-defined]
            read += len(part)
            if b"\n" in part:
                found, _, rest = (rest + part).rpartition(b"\n")
                complete = io.BytesIO(found + b"\n").readlines()
                last, end = complete[-1] if len(complete[-1]) <= LINE else b"\n", read - len(rest)
                yield complete
            elif len(rest) <= LINE:
                rest += part
        _refuse_rotated(path, source, last, end)
        yield []
        if once:
            if rest:
                name = path or "standard input"
                note(f"The last line of {name} does not end with a newline, so it was not counted.")
            return
        time.sleep(WAIT)
        _refuse_rotated(path, source, last, end)
        source.seek(end)
        rest, read = b"", end


def _refuse_rotated(path: Path | None, source: BinaryIO, last: bytes, end: int) -> None:
    """Check that `path` is still the open file, and that its last line has not moved."""
    if path is None:
        return
    with contextlib.suppress(FileNotFoundError), path.open("rb", buffering=0) as again:
        again.seek(end - len(last))
        same = os.path.samestat(os.fstat(again.fileno()), os.fstat(source.fileno()))
        if same and again.read(len(last)) == last:
            return
    raise Rotated(path)
