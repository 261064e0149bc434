"""What `guardband watch` does: rows of a growing file or a pipe in, bands and alarms out, whatever happens.

The snapshot holds the stream, how many bytes of the file were read, and how long the output was then. It is
written after the output has reached the disk, by one rename. A restart cuts the output at that length and
reads on at that byte: what is computed again is the same, since each row is predicted alone.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import guardband as gb
from guardband import limits
from guardband.cli.errors import note
from guardband.cli.models import Artifact, import_code
from guardband.cli.words import METHODS
from guardband.cli.work import Found
from guardband.files import read_bytes, write_bytes
from guardband.limits import printable, shown
from guardband.streams import AdaptiveLevel, ConformalPID, DecayingSteps, RollingWindow, StreamMethod
from guardband.tables import TableError, number

PIPE = "-"
WAIT = 0.1
"""Seconds between two looks at a file that does not grow."""

LINE = 2**24
"""Bytes that a row may have."""


def watch(
    folder: Path,
    data: str,
    out: Path,
    *,
    snapshot: Path,
    level: str,
    method: str,
    every: int,
    once: bool,
    model: str | None,
    imports: list[str] | None,
) -> Found:
    """Follow the rows to the end of the pipe, to that of the file (`once`), or for ever."""
    import_code(imports)
    artifact = Artifact.read(folder, model)
    stream = gb.Stream(artifact.calibrated, level, method=_method(method))
    if data != PIPE and not Path(data).is_file():
        raise ValueError(f"There is no file {data}. A pipe is --data -, a file may begin with its header.")
    if data != PIPE and out.exists() and out.samefile(data):
        raise ValueError(f"{out} is the file that is read; write the bands to another one.")
    with _alone(out) as file:
        kept = Kept.read(snapshot)
        if kept is None and os.fstat(file.fileno()).st_size:
            raise ValueError(
                f"{out} has lines already, and there is no snapshot {snapshot} that belongs to it. Give the "
                "right --snapshot, or write to another file."
            )
        if kept is not None:
            stream.restore(kept.stream)
        watcher = Watcher(artifact, stream, file, snapshot, every, kept or Kept(0, 0, 0, b""))
        watcher.begin()
        if data == PIPE:
            note(f"At most {every} readings of the pipe are lost if this is killed.")
            watcher.follow_pipe(sys.stdin.buffer)
        else:
            watcher.follow_file(Path(data), once)
    text = f"{watcher.rows} rows, {stream!r}\n{stream.promise}\nWritten to {out}."
    about = {"rows": watcher.rows, "readings": stream.steps, "misses": stream.misses}
    return about | {"alarms": stream.alarms, "file": str(out)}, text


def _method(word: str) -> StreamMethod:
    made = dict(zip(METHODS, (AdaptiveLevel, DecayingSteps, ConformalPID, RollingWindow), strict=True))
    if word not in made:
        raise ValueError(f"--method should be one of {', '.join(METHODS)}, got {word!r}.")
    return made[word]()


@dataclass(frozen=True)
class Kept:
    """A snapshot: rows and bytes that were read, how long the output was then, and the stream."""

    rows: int
    offset: int
    length: int
    stream: bytes

    @classmethod
    def read(cls, path: Path) -> Kept | None:
        """The snapshot in a file, or None if there is none; a damaged one is an error."""
        try:
            head, _, stream = read_bytes(path, at_most=limits.ARRAYS, follow=True).partition(b"\n")
        except FileNotFoundError:
            return None
        try:
            found = limits.parsed(head)
            rows, offset, length = (int(found[name]) for name in ("rows", "offset", "length"))
            if found["sha256"] == hashlib.sha256(stream).hexdigest() and min(rows, offset, length) >= 0:
                return cls(rows, offset, length, stream)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise ValueError(f"{path} is no snapshot of `guardband watch`, or it was changed since.")

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        counts = {"rows": self.rows, "offset": self.offset, "length": self.length}
        head = json.dumps(counts | {"sha256": hashlib.sha256(self.stream).hexdigest()})
        write_bytes(path, head.encode() + b"\n" + self.stream)


class Watcher:
    """A stream on its way along rows: it writes a line for each, and a snapshot now and then."""

    artifact: Artifact
    stream: gb.Stream
    file: BinaryIO
    path: Path
    every: int
    rows: int
    offset: int
    length: int
    kept_rows: int

    def __init__(
        self, artifact: Artifact, stream: gb.Stream, file: BinaryIO, path: Path, every: int, kept: Kept
    ) -> None:
        self.artifact, self.stream, self.file, self.path, self.every = artifact, stream, file, path, every
        self.rows, self.offset, self.kept_rows = kept.rows, kept.offset, kept.rows
        self.length = kept.length

    def begin(self) -> None:
        """Cut the output where the snapshot says; without one, make one before the first line."""
        if os.fstat(self.file.fileno()).st_size < self.length:
            raise ValueError(
                f"The output is shorter than the snapshot {self.path} says. Lines that were taken away do "
                "not come again; write to another file, with a snapshot of its own."
            )
        self.file.truncate(self.length)
        self.file.seek(self.length)
        self.keep()

    def keep(self) -> None:
        """The output to the disk, then the snapshot."""
        os.fsync(self.file.fileno())
        Kept(self.rows, self.offset, self.length, self.stream.snapshot()).write(self.path)
        self.kept_rows = self.rows

    def follow_file(self, path: Path, once: bool) -> None:
        """Read complete lines as they come; a line without its end is not yet one."""
        with path.open("rb") as source:
            start, header = _first_line(source, path, once)
            columns = Header.of(header, self.artifact, str(path))
            if self.offset == 0:
                self.offset = start
            while True:
                if os.fstat(source.fileno()).st_size < self.offset:
                    raise ValueError(f"{path} became shorter than it was; rows that were read are gone.")
                source.seek(self.offset)
                lines = _complete(source, self.every - (self.rows - self.kept_rows))
                if lines:
                    self.take(columns, lines)
                    self.offset += sum(map(len, lines))
                if self.rows - self.kept_rows >= self.every or (not lines and self.rows > self.kept_rows):
                    self.keep()
                if not lines:
                    if once:
                        if source.read(1):
                            note(f"The last line of {path} has no end yet and was not read.")
                        return
                    time.sleep(WAIT)

    def follow_pipe(self, source: BinaryIO) -> None:
        """Read line by line to the end; each band is written as soon as its row is there."""
        header = source.readline(LINE)
        columns = Header.of(header, self.artifact, "standard input")
        for line in iter(lambda: source.readline(LINE), b""):
            self.take(columns, [line])
            if self.rows - self.kept_rows >= self.every:
                self.keep()
        self.keep()

    def take(self, columns: Header, lines: list[bytes]) -> None:
        """Rows as text to lines of the output."""
        said = list[dict[str, Any]]()
        predictions, readings, places = [], [], []
        for line in lines:
            if not line.strip():
                continue
            self.rows += 1
            try:
                x, y = columns.parsed(line)
                predictions.append(self.artifact.calibrated.predict(x))
                readings.append(y)
                places.append(len(said))
                said.append({"row": self.rows})
            except ValueError as error:  # one bad row should not end what runs for months
                said.append({"row": self.rows, "unreadable": printable(str(error))})
        if predictions:
            found = self.stream.follow(type(predictions[0]).joined(predictions), np.concatenate(readings))
            for i, place in enumerate(places):
                said[place] |= _line(found, i, readings[i][0], self.artifact.targets)
        data = "".join(json.dumps(one, allow_nan=False) + "\n" for one in said).encode()
        self.file.write(data)
        self.file.flush()
        self.length += len(data)


def _line(found: gb.streams.Followed, i: int, reading: np.ndarray, targets: list[str]) -> dict[str, Any]:
    """One band, what was read, and what that was."""
    band = found.band
    bands = {
        name: {end: _finite(getattr(band, end)[i, j]) for end in ("mean", "lower", "upper")}
        | {"reading": _finite(reading[j])}
        for j, name in enumerate(targets)
    }
    width = band.upper[i] - band.lower[i]
    kind = "empty" if (width < 0).any() else "finite" if np.isfinite(width).all() else "infinite"
    missed, p = (bool(found.missed[i]), float(found.p[i])) if found.read[i] else (None, None)
    return {"bands": bands, "kind": kind, "missed": missed, "p": p, "alarm": bool(found.alarm[i])}


def _finite(value: float) -> float | None:
    """JSON has no infinity: an end that is none is null."""
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class Header:
    """Which cells of a line are inputs, and which are readings."""

    names: list[str]
    delimiter: str
    inputs: list[int]
    targets: list[int]

    @classmethod
    def of(cls, header: bytes, artifact: Artifact, source: str) -> Header:
        """What the first line says."""
        text = _text(header)
        if text is None or not text.strip():
            raise TableError(f"The first line of {source} should be a header with the names of columns.")
        delimiter = max(",;\t", key=text.count)
        names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
        lacking = [name for name in (*artifact.inputs, *artifact.targets) if name not in names]
        if lacking:
            raise TableError(f"{source} has no column `{lacking[0]}`; its header is {shown(names)}.")
        of = [[names.index(name) for name in part] for part in (artifact.inputs, artifact.targets)]
        return cls(names, delimiter, *of)

    def parsed(self, line: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (1, d) and readings (1, m), NaN where there is none."""
        text = _text(line)
        if text is None:
            raise TableError("The line should be UTF-8, and is not.")
        cells = next(csv.reader([text], delimiter=self.delimiter), [])
        if len(cells) != len(self.names):
            raise TableError(f"The line should have {len(self.names)} cells, and has {len(cells)}.")
        x, y = ([number(cells[i]) for i in part] for part in (self.inputs, self.targets))
        for i, value in zip(self.inputs, x, strict=True):
            if value is None or not math.isfinite(value):
                raise TableError(f"Column `{self.names[i]}` should hold a number, got {shown(cells[i])}.")
        readings = [math.nan if value is None or math.isinf(value) else value for value in y]
        return np.array([x], dtype=float), np.array([readings], dtype=float)


def _text(line: bytes) -> str | None:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        return None


def _first_line(source: BinaryIO, path: Path, once: bool) -> tuple[int, bytes]:
    """The header, as soon as it is there, and where the rows begin."""
    while True:
        source.seek(0)
        line = source.readline(LINE)
        if line.endswith(b"\n"):
            return len(line), line
        if once or len(line) >= LINE:
            raise TableError(f"{path} has no complete first line, which should be a header of names.")
        time.sleep(WAIT)


def _complete(source: BinaryIO, most: int) -> list[bytes]:
    """At most so many lines that have their end."""
    lines = list[bytes]()
    while len(lines) < most:
        line = source.readline(LINE)
        if not line.endswith(b"\n"):
            if len(line) >= LINE:
                raise TableError(f"A line should have at most {LINE} bytes; this seems to be no .csv.")
            break
        lines.append(line)
    return lines


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[BinaryIO]:
    """The output, open for this process alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows: one watcher at a time is asked for
            pass
        except BlockingIOError as error:
            raise ValueError(
                printable(f"Another `guardband watch` writes to {path}. End it, or write to another file.")
            ) from error
        yield file
