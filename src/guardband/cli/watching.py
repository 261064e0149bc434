"""The work of `guardband watch`: rows of a growing file or a pipe in, bands and alarms out.

A snapshot holds what a restart needs: the stream, the counts, hashes of the rows that were counted and the
hash of the output. It is written after the output has reached the disk, by one rename. A journal next to it
gets every line before the output does. A restart reads the data from its beginning and skips the rows that
the snapshot has counted. It removes the lines that were written after the snapshot, which have to be those
of the journal, and computes them again. Each row is predicted alone, so these lines are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import guardband as gb
from guardband.base import limits
from guardband.base.files import read_bytes, write_bytes
from guardband.base.limits import MIB, printable, shown
from guardband.cli.errors import note
from guardband.cli.models import Artifact, import_code
from guardband.cli.rows import Batch, Counted, Header, OtherHeader, Rotated, lines
from guardband.cli.words import METHODS
from guardband.cli.work import Found
from guardband.streams import AdaptiveLevel, ConformalPID, DecayingSteps, RollingWindow, StreamMethod
from guardband.tables import TableError

PIPE = "-"


def watch(
    folder: Path,
    data: str,
    out: Path,
    *,
    snapshot: Path | None,
    level: str,
    method: str,
    every: int,
    once: bool,
    model: str | None,
    imports: list[str] | None,
) -> Found:
    """Follow the rows to the end of the pipe, to that of the file (`once`), or until it is stopped."""
    snapshot = Path(f"{out}.snapshot") if snapshot is None else snapshot
    _check_paths(data, out, snapshot)
    import_code(imports)
    artifact = Artifact.read(folder, model)
    stream = gb.Stream(artifact.calibrated, level, method=_method(method))
    place = Path(f"{snapshot.resolve()}.journal")
    with _locked(out) as file, _locked(place) as journal:
        state = State.read(snapshot, artifact, data)
        for path, opened, known in ((out, file, state.stream), (place, journal, state.header)):
            if os.fstat(opened.fileno()).st_size and not known:
                raise ValueError(
                    f"{path} has lines already, and there is no snapshot {snapshot} that belongs to it. Give "
                    "the right --snapshot, or write to another file."
                )
        if state.stream:
            _restore(stream, state.stream, snapshot)
        watcher = Watcher(artifact, stream, state, Output(file, journal, out, state), snapshot, every)
        try:
            with contextlib.nullcontext(sys.stdin.buffer) if data == PIPE else open(data, "rb") as source:
                watcher.follow(source, data, once)
        except (KeyboardInterrupt, SystemExit):
            note(state.counted)
            raise
    text = f"{state.counted} {stream!r}\n{stream.promise}\nWritten to {out}."
    about = {"rows": state.rows, "readings": stream.steps, "misses": stream.misses, "alarms": stream.alarms}
    about |= {"missing": state.missing, "unreadable": state.unreadable, "repeated": state.repeated}
    return about | {"file": str(out)}, text


def _check_paths(data: str, out: Path, snapshot: Path) -> None:
    """Refuse names that cannot be read from or written to, before anything is opened."""
    if data != PIPE and not Path(data).is_file():
        raise ValueError(f"There is no file {data}. A pipe is --data -, a file may begin with its header.")
    for option, path in (("--out", out), ("--snapshot", snapshot)):
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise ValueError(f"{option} should name a file to write, and {path} is something else.")
        if data != PIPE and path.exists() and path.samefile(data):
            raise ValueError(f"{path} is the file that is read. Choose another file for {option}.")
    if out.resolve() == snapshot.resolve():
        raise ValueError("--out and --snapshot should be two files.")


def _method(word: str) -> StreamMethod:
    made = dict(zip(METHODS, (AdaptiveLevel, DecayingSteps, ConformalPID, RollingWindow), strict=True))
    if word not in made:
        raise ValueError(f"--method should be one of {', '.join(METHODS)}, got {word!r}.")
    return made[word]()


def _restore(stream: gb.Stream, kept: bytes, path: Path) -> None:
    """Restore a stream, after a trial step: a snapshot may be forged."""
    calibrated: Any = stream.calibrated
    try:
        stream.restore(kept)
        stream.follow(calibrated.prediction.take(slice(1)), calibrated.y[:1])
        stream.snapshot()
        stream.restore(kept)
    except Exception as error:
        raise ValueError(
            f"{path} was changed, or is of another stream: {error} Give the --level and --method that it was "
            "made with, or another --out and --snapshot."
        ) from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """A file that is open for this process alone, created if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            if os.name == "nt":
                import msvcrt

                file.seek(2**40)  # a lock there does not keep others from reading the file
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise ValueError(
                f"Another `guardband watch` has locked {path}. End it, or choose other files for --out and "
                "--snapshot."
            ) from error
        file.seek(0)
        yield file


@dataclass
class State:
    """The contents of a snapshot."""

    calibration: str
    header: str = ""
    marks: dict[str, str] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    rows: int = 0
    missing: int = 0
    unreadable: int = 0
    repeated: int = 0
    length: int = 0
    written: str = hashlib.sha256().hexdigest()
    stream: bytes = b""

    @property
    def counted(self) -> str:
        """The counts in words."""
        return (
            f"{self.rows} rows: {self.missing} without a reading, {self.unreadable} unreadable; "
            f"{self.repeated} came again and were not counted."
        )

    @classmethod
    def read(cls, path: Path, artifact: Artifact, data: str) -> State:
        """The state in a snapshot, or a new one if the file does not exist."""
        calibration = hashlib.sha256(json.dumps(artifact.hashes, sort_keys=True).encode()).hexdigest()
        try:
            text = read_bytes(path, at_most=limits.ARRAYS, follow=True)
        except FileNotFoundError:
            return cls(calibration)
        try:
            state = cls._of_0_2(text, calibration, data) if text.startswith(b"{") else cls._parsed(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} is no snapshot of `guardband watch`, or it was changed since."
            ) from error
        if state.calibration != calibration:
            raise ValueError(
                f"The snapshot {path} belongs to another calibration. Give the folder that it was made with, "
                "or another --out and --snapshot."
            )
        return state

    @classmethod
    def _parsed(cls, text: bytes) -> State:
        sha256, _, rest = text.partition(b"\n")
        if hashlib.sha256(rest).hexdigest().encode() != sha256:
            raise ValueError("Its hash differs.")
        head, _, stream = rest.partition(b"\n")
        found = limits.parsed(head)
        batches = [Batch(**batch) for batch in found.pop("batches")]
        state = cls(**found, batches=batches, stream=stream)
        for made, blank in ((state, cls("")), *((batch, Batch()) for batch in batches)):
            for name, value in vars(blank).items():
                one = getattr(made, name)
                if type(one) is not type(value) or (type(one) is int and not 0 <= one < 2**63):
                    raise TypeError(f"`{name}` should be like {value!r}.")
        if not state.marks.keys() <= {"comma", "point"} or not state.written:
            raise ValueError("It names other decimal marks, or no hash.")
        return state

    @classmethod
    def _of_0_2(cls, text: bytes, calibration: str, data: str) -> State:
        """A snapshot of 0.2.0, which has no hashes of the calibration, the data and the output."""
        head, _, stream = text.partition(b"\n")
        found = limits.parsed(head)
        rows, offset, length = (int(found[name]) for name in ("rows", "offset", "length"))
        if found["sha256"] != hashlib.sha256(stream).hexdigest() or min(rows, offset, length) < 0:
            raise ValueError("Its hash differs.")
        note("The snapshot is of guardband 0.2.0. It does not say to which data and output it belongs.")
        batches = [Batch(rows)] if rows and data != PIPE else []
        return cls(calibration, batches=batches, rows=rows, length=length, written="", stream=stream)

    def write(self, path: Path) -> None:
        """Write the snapshot, whole or not at all."""
        about = {name: value for name, value in asdict(self).items() if name != "stream"}
        rest = json.dumps(about).encode() + b"\n" + self.stream
        write_bytes(path, hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


class Output:
    """The file of bands, and a journal of the lines that were written to it after the snapshot.

    The journal gets a line first, so what a kill leaves of the output after the snapshot is the beginning of
    the journal. Only that is removed.
    """

    file: BinaryIO
    journal: BinaryIO
    path: Path
    length: int

    def __init__(self, file: BinaryIO, journal: BinaryIO, path: Path, state: State) -> None:
        self.file, self.journal, self.path, self.length = file, journal, path, state.length
        self._hash, self._begun, done, rows = hashlib.sha256(), False, 0, 0
        while done < self.length and (part := file.read(min(self.length - done, MIB))):
            self._hash.update(part)
            done, rows = done + len(part), rows + part.count(b"\n")
        found = self._hash.hexdigest()
        if (done, rows, found) != (self.length, state.rows, state.written or found):
            raise ValueError(
                f"{path} is not the output that the snapshot belongs to, or it was changed or shortened "
                "since. Give the right --out, or another --out and --snapshot."
            )
        while part := file.read(MIB):
            if journal.read(len(part)) != part:
                raise ValueError(
                    f"Line {rows + 1} of {path} and those after it are not what this watcher wrote after its "
                    "snapshot, so they are not removed. Remove them, or choose another --out and --snapshot."
                )

    def write(self, lines: bytes) -> None:
        """Add lines. Before the first one, those after the snapshot are removed."""
        if lines and not self._begun:
            self.file.truncate(self.length)
            self.file.seek(self.length)
            self._begun = True
            self.forget()
        for file in (self.journal, self.file):
            file.write(lines)
            file.flush()
        self._hash.update(lines)
        self.length += len(lines)

    def sync(self) -> str:
        """Bring all lines to the disk; the hash of all."""
        there = os.stat(self.path) if self.path.exists() else None
        if there is None or not os.path.samestat(there, os.fstat(self.file.fileno())):
            raise ValueError(f"{self.path} was renamed, removed or replaced while it was written.")
        os.fsync(self.file.fileno())
        return self._hash.hexdigest()

    def forget(self) -> None:
        """Empty the journal, unless it still tells which lines to remove."""
        if self._begun:
            self.journal.seek(0)
            self.journal.truncate()


@dataclass(eq=False)
class Watcher:
    """Takes rows along a stream, writes a line for each, and now and then a snapshot."""

    artifact: Artifact
    stream: gb.Stream
    state: State
    output: Output
    snapshot: Path
    every: int
    waiting: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counted: Counted = Counted(self.state.batches)
        self.kept_rows: int = self.state.rows

    def follow(self, source: BinaryIO, data: str, once: bool) -> None:
        """Take the lines of a file or a pipe until they end."""
        state, header, before = self.state, None, self.state.repeated
        known, together = data == PIPE or not state.batches, _by_elements(self.artifact.calibrated)
        path = None if data == PIPE else Path(data)
        try:
            for complete in lines(source, path, once or path is None):
                for line in complete:
                    if header is None or header.again(line):
                        header = header or self._header(line, data)
                        self.counted.header()
                    elif line.strip():
                        new = self.counted.row(line)
                        state.repeated = before + self.counted.dropped
                        known = known or self.counted.dropped > 0
                        if new and not known:
                            raise Rotated(data)
                        self.waiting += new
                        full = state.rows + len(self.waiting) - self.kept_rows >= self.every
                        if full or not together:
                            self._take(header)
                        if full:
                            self._keep()
                if header is not None:
                    self._take(header)
                    if not complete and not known:
                        raise Rotated(data)
                    if not complete and state.rows > self.kept_rows:
                        self._keep()
        finally:
            if header is not None:
                self._take(header)
        if header is None and path is not None:
            raise TableError(f"{path} has no complete first line, which should be a header of names.")
        self.counted.end()
        self._keep()

    def _header(self, line: bytes, data: str) -> Header:
        """The columns that the first line names; they should be those of the snapshot."""
        inputs, targets = self.artifact.inputs, self.artifact.targets
        source = "standard input" if data == PIPE else data
        header = Header.of(line, source, inputs, targets, self.state.marks)
        if self.state.header not in (header.text, ""):
            raise ValueError(
                f"The snapshot belongs to data with the header {shown(self.state.header)}, and the header of "
                f"these is {shown(header.text)}. Choose another --out and --snapshot for other data."
            )
        self.state.header = header.text
        if not self.state.stream:  # an output without a snapshot is refused at the next start
            self._keep()
        if data == PIPE:
            note(
                f"If this is stopped, up to {self.every} of the last rows are lost, unless the pipe begins "
                "again with all rows below the header, as from tail -n +1 -F."
            )
        return header

    def _take(self, header: Header) -> None:
        """Write a line of the output for each row that waits."""
        state, rows = self.state, self.waiting
        said, good = list[dict[str, Any]](), list[tuple[dict[str, Any], gb.Prediction, np.ndarray]]()
        self.waiting = []
        try:
            for line in rows:
                one: dict[str, Any] = {"row": state.rows + 1}
                try:
                    x, y = header.parsed(line, one["row"])
                    good.append((one, self.artifact.calibrated.predict(x), y))
                except ValueError as error:  # one bad row should not end what runs for months
                    if isinstance(error, OtherHeader):
                        raise
                    one["unreadable"] = printable(str(error))[: limits.LONGEST]
                    if not state.unreadable:
                        note(f"Row {one['row']} is unreadable: {one['unreadable']} Such rows are counted.")
                    state.unreadable += 1
                said.append(one)
                state.rows += 1
        finally:
            if good:
                abouts, predictions, readings = zip(*good, strict=True)
                found = self.stream.follow(type(predictions[0]).joined(predictions), np.concatenate(readings))
                state.missing += int((~found.read).sum())
                for i, one in enumerate(abouts):
                    one |= _line(found, i, readings[i][0], self.artifact.targets)
            self.output.write("".join(json.dumps(one, allow_nan=False) + "\n" for one in said).encode())

    def _keep(self) -> None:
        """Bring the output to the disk, then write the snapshot."""
        state = self.state
        state.written, state.length = self.output.sync(), self.output.length
        state.batches, state.stream = self.counted.snapshot(), self.stream.snapshot()
        state.write(self.snapshot)
        self.output.forget()
        self.kept_rows = state.rows


def _by_elements(calibrated: Any) -> bool:
    """Whether a band takes only +, -, *, / and maxima of the numbers of its row.

    Many rows at once then give the same bits as one after the other. Products of matrices do not.
    """
    return calibrated.traits.is_elementwise


def _line(found: gb.streams.Followed, i: int, reading: np.ndarray, targets: list[str]) -> dict[str, Any]:
    """A band, its reading, and whether the reading lies outside."""
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
    """A number for JSON, which has no infinity and no NaN: null."""
    return float(value) if math.isfinite(value) else None
