"""The action of `guardband watch`: from rows of a growing file or a pipe to bands and alarms.

A snapshot holds the state for a restart: the stream, the counts, hashes of the counted rows and the hash of
the output. It is written by one rename after the output has been synced to disk. Every line is written to a
journal first, then to the output. A restart reads the data from the beginning and skips the rows that the
snapshot has counted. It removes the lines written after the snapshot, which must match the journal, and
computes them again. Each row is predicted separately, so these lines are the same.
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
from guardband.cli.actions import Result
from guardband.cli.choices import METHODS
from guardband.cli.errors import note
from guardband.cli.models import Artifact, import_code
from guardband.cli.rows import Batch, Counted, Header, OtherHeader, Rotated, lines
from guardband.streams import AdaptiveLevel, ConformalPID, DecayingSteps, RollingWindow, StreamMethod
from guardband.tables import TableError

PIPE = "-"

Entry = dict[str, object]
"""A line of the output."""


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
) -> Result:
    """Follow the rows to the end of the pipe or, with `once`, of the file; otherwise until interrupted."""
    snapshot = Path(f"{out}.snapshot") if snapshot is None else snapshot
    _check_paths(data, out, snapshot)
    import_code(imports)
    artifact = Artifact.read(folder, model)
    stream = gb.Stream(artifact.calibrated, level, method=_method(method))
    journal_path = Path(f"{snapshot.resolve()}.journal")
    with _locked(out) as file, _locked(journal_path) as journal:
        state = State.read(snapshot, artifact, data)
        for path, opened, known in ((out, file, state.stream), (journal_path, journal, state.header)):
            if os.fstat(opened.fileno()).st_size and not known:
                raise ValueError(
                    f"{path} already has lines, but no snapshot {snapshot} belongs to it. Pass the right "
                    "--snapshot, or write to another file."
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
    result: dict[str, object] = {
        "rows": state.rows,
        "readings": stream.steps,
        "misses": stream.misses,
        "alarms": stream.alarms,
        "missing": state.missing,
        "unreadable": state.unreadable,
        "repeated": state.repeated,
        "file": str(out),
    }
    return result, text


def _check_paths(data: str, out: Path, snapshot: Path) -> None:
    """Refuse paths that cannot be read or written before any file is opened."""
    if data != PIPE and not Path(data).is_file():
        raise ValueError(
            f"There is no file {data}. Use --data - for a pipe. A new file may contain only its header."
        )
    for option, path in (("--out", out), ("--snapshot", snapshot)):
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise ValueError(f"{option} should be a file to write, but {path} is not a regular file.")
        if data != PIPE and path.exists() and path.samefile(data):
            raise ValueError(f"{path} is the input file. Choose another file for {option}.")
    if out.resolve() == snapshot.resolve():
        raise ValueError("--out and --snapshot should be two files.")


def _method(word: str) -> StreamMethod:
    methods = dict(zip(METHODS, (AdaptiveLevel, DecayingSteps, ConformalPID, RollingWindow), strict=True))
    if word not in methods:
        raise ValueError(f"--method should be one of {', '.join(METHODS)}, got {word!r}.")
    return methods[word]()


def _restore(stream: gb.Stream, saved: bytes, path: Path) -> None:
    """Restore a stream after a trial step, since a snapshot may be forged."""
    calibrated: Any = stream.calibrated
    try:
        stream.restore(saved)
        stream.follow(calibrated.prediction.take(slice(1)), calibrated.y[:1])
        stream.snapshot()
        stream.restore(saved)
    except Exception as error:
        raise ValueError(
            f"{path} was changed, or belongs to another stream: {error} Pass its original --level and "
            "--method, or another --out and --snapshot."
        ) from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file exclusively for this process; create it if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            if os.name == "nt":
                import msvcrt

                file.seek(2**40)  # a lock beyond the end does not prevent reading
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise ValueError(
                f"Another `guardband watch` has locked {path}. Stop it, or choose other files for --out and "
                "--snapshot."
            ) from error
        file.seek(0)
        yield file


@dataclass
class State:
    """The content of a snapshot."""

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
        """The counts as a sentence."""
        return (
            f"{self.rows} rows: {self.missing} without a reading, {self.unreadable} unreadable; "
            f"{self.repeated} repeated rows were skipped."
        )

    @classmethod
    def read(cls, path: Path, artifact: Artifact, data: str) -> State:
        """Read the state from a snapshot, or return a new one if the file does not exist."""
        calibration = hashlib.sha256(json.dumps(artifact.hashes, sort_keys=True).encode()).hexdigest()
        try:
            text = read_bytes(path, at_most=limits.ARRAYS, follow=True)
        except FileNotFoundError:
            return cls(calibration)
        try:
            state = cls._of_0_2(text, calibration, data) if text.startswith(b"{") else cls._parsed(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a snapshot of `guardband watch`, or it was changed afterward."
            ) from error
        if state.calibration != calibration:
            raise ValueError(
                f"The snapshot {path} belongs to another calibration. Pass the folder of that calibration, "
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
        for parsed, blank in ((state, cls("")), *((batch, Batch()) for batch in batches)):
            for name, default in vars(blank).items():
                value = getattr(parsed, name)
                if type(value) is not type(default) or (type(value) is int and not 0 <= value < 2**63):
                    raise TypeError(f"`{name}` should be like {default!r}.")
        if not state.marks.keys() <= {"comma", "point"} or not state.written:
            raise ValueError("Its decimal marks are unknown, or its hash is missing.")
        return state

    @classmethod
    def _of_0_2(cls, text: bytes, calibration: str, data: str) -> State:
        """Parse a snapshot written by version 0.2.0, without hashes of calibration, data and output."""
        head, _, stream = text.partition(b"\n")
        found = limits.parsed(head)
        rows, offset, length = (int(found[name]) for name in ("rows", "offset", "length"))
        if found["sha256"] != hashlib.sha256(stream).hexdigest() or min(rows, offset, length) < 0:
            raise ValueError("Its hash differs.")
        note("The snapshot was written by guardband 0.2.0, so its data and output cannot be checked.")
        batches = [Batch(rows)] if rows and data != PIPE else []
        return cls(calibration, batches=batches, rows=rows, length=length, written="", stream=stream)

    def write(self, path: Path) -> None:
        """Write the snapshot atomically."""
        head = {name: value for name, value in asdict(self).items() if name != "stream"}
        rest = json.dumps(head).encode() + b"\n" + self.stream
        write_bytes(path, hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


class Output:
    """The file of bands, with a journal of the lines written since the snapshot.

    A line is written to the journal first, so after a kill the lines of the output since the snapshot are
    a prefix of the journal. Only such lines are removed.
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
                f"The snapshot does not belong to the output {path}, or the output was changed or shortened "
                "afterward. Pass the right --out, or another --out and --snapshot."
            )
        while part := file.read(MIB):
            if journal.read(len(part)) != part:
                raise ValueError(
                    f"Line {rows + 1} of {path} and those after it were not written by this watcher after "
                    "its snapshot, so they are not removed. Remove them, or choose another --out and "
                    "--snapshot."
                )

    def write(self, lines: bytes) -> None:
        """Append lines. Before the first one, remove the lines written after the snapshot."""
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
        """Sync all lines to disk, and return their hash."""
        status = os.stat(self.path) if self.path.exists() else None
        if status is None or not os.path.samestat(status, os.fstat(self.file.fileno())):
            raise ValueError(f"{self.path} was renamed, removed or replaced while it was written.")
        os.fsync(self.file.fileno())
        return self._hash.hexdigest()

    def forget(self) -> None:
        """Empty the journal, unless it is still needed to identify the lines to remove."""
        if self._begun:
            self.journal.seek(0)
            self.journal.truncate()


@dataclass(eq=False)
class Watcher:
    """Processes rows with a stream, writes a line for each, and a snapshot after every `every` rows."""

    artifact: Artifact
    stream: gb.Stream
    state: State
    output: Output
    snapshot: Path
    every: int
    waiting: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counted: Counted = Counted(self.state.batches)
        self.saved_rows: int = self.state.rows

    def follow(self, source: BinaryIO, data: str, once: bool) -> None:
        """Process the lines of a file or a pipe until they end."""
        state, header, before = self.state, None, self.state.repeated
        # True once the data have repeated a counted batch, which is not required of a pipe
        repeated = data == PIPE or not state.batches
        together = _is_elementwise(self.artifact.calibrated)
        path = None if data == PIPE else Path(data)
        try:
            for complete in lines(source, path, once or path is None):
                for line in complete:
                    if header is None or header.is_repeated_in(line):
                        header = header or self._header(line, data)
                        self.counted.header()
                    elif line.strip():
                        new = self.counted.row(line)
                        state.repeated = before + self.counted.dropped
                        repeated = repeated or self.counted.dropped > 0
                        if new and not repeated:
                            raise Rotated(data)
                        self.waiting += new
                        full = state.rows + len(self.waiting) - self.saved_rows >= self.every
                        if full or not together:
                            self._process(header)
                        if full:
                            self._save()
                if header is not None:
                    self._process(header)
                    if not complete and not repeated:
                        raise Rotated(data)
                    if not complete and state.rows > self.saved_rows:
                        self._save()
        finally:
            if header is not None:
                self._process(header)
        if header is None and path is not None:
            raise TableError(f"The first line of {path} should be a complete header with column names.")
        self.counted.end()
        self._save()

    def _header(self, line: bytes, data: str) -> Header:
        """Parse the header, which should be the one in the snapshot."""
        inputs, targets = self.artifact.inputs, self.artifact.targets
        source = "standard input" if data == PIPE else data
        header = Header.of(line, source, inputs, targets, self.state.marks)
        if self.state.header not in (header.text, ""):
            raise ValueError(
                f"The snapshot belongs to data with the header {shown(self.state.header)}, but these data "
                f"have the header {shown(header.text)}. Choose another --out and --snapshot for other data."
            )
        self.state.header = header.text
        if not self.state.stream:  # without a snapshot, the next start would refuse the output
            self._save()
        if data == PIPE:
            note(
                f"If this command is stopped, up to {self.every} recent rows are lost, unless the pipe "
                "repeats all rows below the header, as tail -n +1 -F does."
            )
        return header

    def _process(self, header: Header) -> None:
        """Write a line of the output for each waiting row."""
        state, rows = self.state, self.waiting
        entries, good = list[Entry](), list[tuple[Entry, gb.Prediction, np.ndarray]]()
        self.waiting = []
        try:
            for line in rows:
                row = state.rows + 1
                entry: Entry = {"row": row}
                try:
                    x, y = header.parsed(line, row)
                    good.append((entry, self.artifact.calibrated.predict(x), y))
                except ValueError as error:  # one bad row should not stop a watcher that runs for months
                    if isinstance(error, OtherHeader):
                        raise
                    entry["unreadable"] = printable(str(error))[: limits.LONGEST]
                    if not state.unreadable:
                        note(f"Row {row} is unreadable: {entry['unreadable']} Such rows are counted.")
                    state.unreadable += 1
                entries.append(entry)
                state.rows += 1
        finally:
            if good:
                readable, predictions, readings = zip(*good, strict=True)
                bands = self.stream.follow(type(predictions[0]).joined(predictions), np.concatenate(readings))
                state.missing += int((~bands.read).sum())
                for i, entry in enumerate(readable):
                    entry |= _band_entry(bands, i, readings[i][0], self.artifact.targets)
            self.output.write("".join(json.dumps(one, allow_nan=False) + "\n" for one in entries).encode())

    def _save(self) -> None:
        """Sync the output to disk, then write the snapshot."""
        state = self.state
        state.written, state.length = self.output.sync(), self.output.length
        state.batches, state.stream = self.counted.snapshot(), self.stream.snapshot()
        state.write(self.snapshot)
        self.output.forget()
        self.saved_rows = state.rows


def _is_elementwise(calibrated: gb.Calibrated) -> bool:
    """Whether a band uses only elementwise arithmetic.

    If so, many rows at once give the same bits as single rows. Matrix products do not.
    """
    return calibrated.traits.is_elementwise


def _band_entry(result: gb.streams.Followed, i: int, reading: np.ndarray, targets: list[str]) -> Entry:
    """Return the band of a row, its reading, and whether the reading lies outside."""
    band = result.band
    bands = {
        name: {end: _finite(getattr(band, end)[i, j]) for end in ("mean", "lower", "upper")}
        | {"reading": _finite(reading[j])}
        for j, name in enumerate(targets)
    }
    width = band.upper[i] - band.lower[i]
    kind = "empty" if (width < 0).any() else "finite" if np.isfinite(width).all() else "infinite"
    missed, p = (bool(result.missed[i]), float(result.p[i])) if result.read[i] else (None, None)
    return {"bands": bands, "kind": kind, "missed": missed, "p": p, "alarm": bool(result.alarm[i])}


def _finite(value: float) -> float | None:
    """Return a number for JSON, in which infinity and NaN become null."""
    return float(value) if math.isfinite(value) else None
