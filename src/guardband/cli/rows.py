"""The rows of a growing file or a pipe: their columns, and which of them were counted already."""

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
"""Bytes that a row may have, and bytes that are read at once."""

BATCHES, HELD = 1000, 1024
"""Headers, with the rows below them, that a snapshot remembers, and rows that are held back at most."""

WAIT = 0.1
"""Seconds between two looks at a file that does not grow."""


class Rotated(ValueError):
    """A file is no longer the one whose rows were read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(
            f"{path} is no longer the file whose rows were read: it was rotated, shortened or replaced. "
            f"Follow such a log through a pipe: tail -n +1 -F {path} | guardband watch BAND --data - --out "
            "OUT, with the same OUT."
        )


@dataclass
class Batch:
    """The rows below a header: how many, a hash of all, and hashes of the first 1, 2, 4, 8, ... rows."""

    count: int = 0
    hash: str = ""
    marks: list[str] = field(default_factory=list)

    def add(self, line: bytes) -> None:
        """Count one more row."""
        self.hash = hashlib.sha256(self.hash.encode() + line).hexdigest()[:16]
        self.count += 1
        if self.count == 1 << len(self.marks):
            self.marks.append(self.hash)

    def may_begin_with(self, rows: Batch) -> bool:
        """False if `rows` differ from the first rows of this batch, as far as its hashes show."""
        at = len(rows.marks) - 1
        marked = self.marks[at] if rows.count == 1 << at and at < len(self.marks) else ""
        return (self.hash if rows.count == self.count else marked) in (rows.hash, "")  # 0.2.0 kept no hash


@dataclass
class Counted:
    """Recognizes rows that were counted when they come again, after a restart or a rotation.

    Rows that may be the first of a counted batch are held back, and only skipped once `HELD` rows agree. When
    they are the whole batch they are dropped, and the rows after them are new.
    """

    batches: list[Batch]
    now: Batch = field(default_factory=Batch)
    alike: list[Batch] = field(default_factory=list)
    held: list[bytes] = field(default_factory=list)
    dropped: int = 0

    def header(self) -> None:
        """Begin a batch."""
        self.end()
        self.batches = self.alike = self.snapshot()
        self.now = Batch()

    def row(self, line: bytes) -> list[bytes]:
        """The rows that are known to be new now that this one has come."""
        self.now.add(line)
        if not self.alike:
            return [line]
        self.alike = [batch for batch in self.alike if batch.may_begin_with(self.now)]
        if whole := [batch for batch in self.alike if batch.count == self.now.count]:
            self.batches = [batch for batch in self.batches if batch not in whole]
            self.dropped += self.now.count
            self.alike, self.held = [], []
        elif self.now.count <= HELD:
            self.held.append(line)
        elif not self.alike:
            raise ValueError(
                f"The data repeat more than {HELD} rows that were counted, and continue otherwise. Give the "
                "data as they were, or another --out and --snapshot."
            )
        new = [] if self.alike else self.held
        self.held = self.held if self.alike else []
        return new

    def end(self) -> None:
        """The batch ends here."""
        if self.alike and self.now.count:
            raise ValueError(
                f"The data end, or a header comes again, after {self.now.count} rows that may be the first "
                "of those that were counted before. They could not be compared and were not counted. Give "
                "all of the data."
            )

    def snapshot(self) -> list[Batch]:
        """The batches that are counted by now."""
        counted = self.now.count and not self.alike
        return [*self.batches, self.now][-BATCHES:] if counted else self.batches


MISSING = ("", "na", "nan")
"""Cells that stand for a missing reading. Other words are errors of a sensor or a log."""


class OtherHeader(TableError):
    """A header has come that differs from the first one."""


@dataclass(frozen=True)
class Header:
    """The header of the data, and which of its columns are inputs and targets."""

    text: str
    names: list[str]
    dialect: Dialect
    inputs: list[int]
    targets: list[int]

    @classmethod
    def of(
        cls, line: bytes, source: str, inputs: list[str], targets: list[str], marks: dict[str, str]
    ) -> Header:
        """The columns that a first line names; `marks` are the decimal marks found before."""
        if not line.endswith(b"\n") or not line.strip():
            raise TableError(f"The first line of {source} should be a header with the names of columns.")
        text = _text(line)
        dialect = Dialect(Dialect.of(line).delimiter, marks)
        names = [name.strip() for name in dialect.cells(text)]
        for name in (*inputs, *targets):
            if names.count(name) != 1:
                many = "no column" if name not in names else f"{names.count(name)} columns"
                raise TableError(f"{source} has {many} {shown(name)}; its header is {shown(names)}.")
        indices = [[names.index(name) for name in part] for part in (inputs, targets)]
        return cls(text, names, dialect, *indices)

    def again(self, line: bytes) -> bool:
        """Whether a line is the header once more."""
        return line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf") == self.text.encode()

    def parsed(self, line: bytes, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (1, d) and readings (1, m), NaN for a missing one."""
        cells = self.dialect.cells(_text(line))
        words, used = [cell.strip() for cell in cells], (*self.inputs, *self.targets)
        names, here = {self.names[i] for i in used}, {words[i] for i in used if i < len(words)}
        if (names & here or names <= {*words}) and all(number(word) is None for word in here):
            raise OtherHeader(
                f"Row {row} is a header that differs from the first one: {shown(cells)}. Choose another "
                "--out and --snapshot for data with other columns."
            )
        if len(cells) != len(self.names):
            raise TableError(f"The line should have {len(self.names)} cells, and has {len(cells)}.")
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
        raise TableError("The line should be UTF-8, and is not.") from error


def lines(source: BinaryIO, path: Path | None = None, once: bool = True) -> Iterator[list[bytes]]:
    """The complete lines of a pipe, or of the file `path`, those together that can be read together.

    An empty list says that there is no more for now. Of a line longer than `LINE` the middle is left out.
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
                note(f"The last line of {name} has no newline at its end, so it was not counted.")
            return
        time.sleep(WAIT)
        _refuse_rotated(path, source, last, end)
        source.seek(end)
        rest, read = b"", end


def _refuse_rotated(path: Path | None, source: BinaryIO, last: bytes, end: int) -> None:
    """The name of a file should still lead to it, with the last line in its place."""
    if path is None:
        return
    with contextlib.suppress(FileNotFoundError), path.open("rb", buffering=0) as again:
        again.seek(end - len(last))
        same = os.path.samestat(os.fstat(again.fileno()), os.fstat(source.fileno()))
        if same and again.read(len(last)) == last:
            return
    raise Rotated(path)
