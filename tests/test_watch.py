"""guardband watch: rows arrive one by one, kills at any moment, and no line is lost or duplicated."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save
from typer.testing import CliRunner

from guardband.cli import app
from guardband.cli.rows import Header
from helpers import ROOT

REMEDY = "tail -n +1 -F data.csv | guardband watch"
MODEL = "def model(x):\n    return x[:, :1] ** 2\n"


def run(*words: str | Path, code: int = 0, given: str | None = None) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], input=given)
    assert result.exit_code == code, result.output
    return result.output


def table(rows: int, seed: int = 1, *, names: bool = True) -> str:
    draw = np.random.default_rng(seed)
    x, noise = draw.uniform(size=rows), draw.normal(size=rows) * np.linspace(1, 3, rows)
    lines = [f"{a:.6f},{a**2 + 0.1 * e:.6f}" for a, e in zip(x, noise, strict=True)]
    return "\n".join(["x,u"] * names + lines) + "\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "cal.csv").write_text(table(300, 0))
    sys.modules.pop("net", None)
    run("calibrate", "net:model", "--data", "cal.csv", "--targets", "u", "--out", "band")
    return tmp_path


WATCH = ("watch", "band", "--model", "net:model", "--level", "0.9")


def watch(*more: str | Path, code: int = 0, given: str | None = None) -> str:
    return run(*WATCH, *more, code=code, given=given)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_row_becomes_a_line_with_band_reading_and_what_it_was(home: Path) -> None:
    (home / "data.csv").write_text(table(50))
    said = watch("--data", "data.csv", "--out", "out.jsonl", "--once")
    found = lines(home / "out.jsonl")
    assert [line["row"] for line in found] == [*range(1, 51)]
    first = found[0]["bands"]["u"]
    assert first["lower"] < first["mean"] < first["upper"]
    assert all(
        line["missed"]
        == (not line["bands"]["u"]["lower"] <= line["bands"]["u"]["reading"] <= line["bands"]["u"]["upper"])
        for line in found
    )
    assert "50 rows" in said and "whatever they are" in said


def test_a_file_that_grows_is_followed_from_where_it_was_left(home: Path) -> None:
    whole = table(120)
    (home / "data.csv").write_text(whole)
    watch("--data", "data.csv", "--out", "whole.jsonl", "--once")
    cuts = [0, 3, 700, 701, len(whole)]
    for end in cuts:
        (home / "data.csv").write_text(whole[:end])
        expected = 0 if end > 3 else 2
        watch("--data", "data.csv", "--out", "out.jsonl", "--once", "--every", "7", code=expected)
    assert (home / "out.jsonl").read_text() == (home / "whole.jsonl").read_text()


def test_rows_that_come_together_give_the_same_bytes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from guardband.cli import watch as watching

    together = list[int]()
    take = watching.Watcher._process

    def taken(self: watching.Watcher, header: Header) -> None:
        together.append(len(self.waiting))
        take(self, header)

    monkeypatch.setattr(watching.Watcher, "_process", taken)
    (home / "data.csv").write_text(table(300) + "0.5,\nno,1\n" + table(300, 2, names=False))
    watch("--data", "data.csv", "--out", "o", "--once")
    assert max(together) == 602
    monkeypatch.setattr(watching, "_is_elementwise", lambda _: False)
    together.clear()
    watch("--data", "data.csv", "--out", "p", "--once")
    assert max(together) == 1 and (home / "p").read_bytes() == (home / "o").read_bytes()


def test_missing_readings_are_skipped_and_bad_rows_are_said(home: Path) -> None:
    (home / "data.csv").write_text("x,u\n0.5,\n0.5,nan\nabc,0.1\n0.5,0.2,9\n\n0.5,0.2\n")
    said = watch("--data", "data.csv", "--out", "out.jsonl", "--once", "--json")
    found = lines(home / "out.jsonl")
    assert [line.get("missed") for line in found] == [None, None, None, None, False]
    assert "Column `x` should hold a number" in found[2]["unreadable"]
    assert "should have 2 cells, got 3" in found[3]["unreadable"]
    assert json.loads(said.splitlines()[-1])["readings"] == 1


def test_a_pipe_is_followed_and_says_how_much_a_kill_loses(home: Path) -> None:
    said = watch("--data", "-", "--out", "out.jsonl", "--every", "10", given=table(25))
    assert "up to 10 recent rows are lost" in said
    assert len(lines(home / "out.jsonl")) == 25
    watch("--data", "-", "--out", "out.jsonl", given=table(5, 2))
    assert [line["row"] for line in lines(home / "out.jsonl")] == [*range(1, 31)]


@pytest.mark.parametrize("method", ["adaptive", "decaying", "pid", "rolling"])
def test_every_method_can_be_named(home: Path, method: str) -> None:
    (home / "data.csv").write_text(table(20))
    watch("--data", "data.csv", "--out", "out.jsonl", "--once", "--method", method)
    assert len(lines(home / "out.jsonl")) == 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "none.csv", "--out", "o"), "There is no file none.csv"),
        (("--data", "cal.csv", "--out", "cal.csv"), "is the input file"),
        (("--data", "cal.csv", "--out", "net.py"), "already has lines, but no snapshot"),
        (("--data", "cal.csv", "--out", "o", "--method", "best"), "--method should be one of adaptive"),
        (("--data", "cal.csv", "--out", "o", "--snapshot", "net.py"), "is not a snapshot"),
        (("--data", "other.csv", "--out", "o"), "other.csv has no column 'x'"),
        (("--data", "twice.csv", "--out", "o"), "twice.csv has 2 columns 'u'"),
        (("--data", "cal.csv", "--out", "."), "--out should be a file to write"),
        (("--data", "cal.csv", "--out", "o", "--snapshot", "band"), "--snapshot should be a file"),
        (("--data", "cal.csv", "--out", "o", "--snapshot", "o"), "should be two files"),
        (("--data", "cal.csv", "--out", "o", "--snapshot", "cal.csv"), "is the input file"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(home: Path, words: tuple[str, ...], message: str) -> None:
    (home / "other.csv").write_text("a,b\n1,2\n")
    (home / "twice.csv").write_text("x,u,u\n1,2,3\n")
    assert message in " ".join(watch(*words, "--once", code=2).split())


def test_a_shortened_file_output_or_another_level_is_refused(home: Path) -> None:
    (home / "data.csv").write_text(table(20))
    watch("--data", "data.csv", "--out", "o", "--once")
    (home / "data.csv").write_text(table(3))
    assert REMEDY in watch("--data", "data.csv", "--out", "o", "--once", code=2)
    run_level = ("watch", "band", "--model", "net:model", "--data", "data.csv", "--out", "o", "--once")
    assert "belongs to another stream" in " ".join(run(*run_level, "--level", "0.8", code=2).split())
    (home / "o").write_text("")
    assert "changed or shortened" in watch("--data", "data.csv", "--out", "o", "--once", code=2)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
@pytest.mark.parametrize("name", ["o", "s.journal"])
def test_two_watchers_of_one_output_or_one_snapshot_are_refused(home: Path, name: str) -> None:
    import fcntl

    (home / "data.csv").write_text(table(5))
    with (home / name).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said = watch("--data", "data.csv", "--out", "o", "--snapshot", "s", "--once", code=2)
    assert "Another `guardband watch`" in said and not (home / "s").exists()


@pytest.fixture
def watched(home: Path) -> Path:
    """Return a folder in which 20 rows were watched."""
    (home / "data.csv").write_text(table(20))
    watch("--data", "data.csv", "--out", "o", "--once")
    return home


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "x,u\n" + "0.5,0.2\n" * 900, "does not belong to the output"),
        (
            lambda text: text.replace("true", "null", 1).replace("false", "true", 1),
            "does not belong to the output",
        ),
        (lambda text: text + "notes of a person\n", "were not written by this watcher"),
        (lambda text: text + '{"row": 21, "bands": {}}\n', "were not written by this watcher"),
        (lambda text: text + "{", "were not written by this watcher"),
    ],
)
def test_a_file_that_it_did_not_write_is_not_shortened(
    watched: Path, change: Callable[[str], str], message: str
) -> None:
    changed = change((watched / "o").read_text())
    (watched / "o").write_text(changed)
    (watched / "data.csv").write_text(table(20) + table(5, 2, names=False))
    assert message in " ".join(watch("--data", "data.csv", "--out", "o", "--once", code=2).split())
    assert (watched / "o").read_text() == changed


def killed(out: str) -> bytes:
    """Return the output of a watcher that is killed at the end of the data, before its next snapshot."""
    from guardband.cli.watch import Watcher

    keep = Watcher._save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watcher, "_save", lambda self: None if self.state.rows else keep(self))
        watch("--data", "data.csv", "--out", out, "--once")
    return Path(out).read_bytes()


def test_lines_after_the_snapshot_are_removed_and_computed_again(watched: Path) -> None:
    before, snapshot = (watched / "o").read_bytes(), (watched / "o.snapshot").read_bytes()
    (watched / "data.csv").write_text(table(20) + table(20, 2, names=False))
    whole = killed("o")
    assert whole.startswith(before) and whole.count(b"\n") == 40
    assert (watched / "o.snapshot").read_bytes() == snapshot
    for end in (len(whole), len(whole) - 9, len(before) + 3, len(before)):
        (watched / "o").write_bytes(whole[:end])
        assert killed("o") == whole
    (watched / "data.csv").write_text(table(20) + table(2, 3, names=False))  # these rows are others
    watch("--data", "data.csv", "--out", "o", "--once")
    assert [line["row"] for line in lines(watched / "o")] == [*range(1, 23)]
    assert (watched / "o").read_bytes().startswith(before) and not whole.startswith(
        (watched / "o").read_bytes()
    )


def test_lines_after_the_snapshot_stay_if_no_row_comes(watched: Path) -> None:
    (watched / "data.csv").write_text(table(20) + table(9, 2, names=False))
    whole = killed("o")
    (watched / "data.csv").write_text(table(20))
    for _ in range(2):
        watch("--data", "data.csv", "--out", "o", "--once")
        assert (watched / "o").read_bytes() == whole
    (watched / "o.snapshot.journal").unlink()
    assert "were not written by this watcher" in " ".join(
        watch("--data", "data.csv", "--out", "o", "--once", code=2).split()
    )


def test_the_output_of_another_watcher_is_not_shortened(home: Path) -> None:
    """The journal continues the row numbers of the snapshot, in all lines or after a common prefix."""
    (home / "data.csv").write_text("x,u\n")
    watch("--data", "data.csv", "--out", "a", "--once")
    (home / "data.csv").write_text(table(20))
    watch("--data", "data.csv", "--out", "b", "--once")
    before = (home / "b").read_bytes()
    said = watch("--data", "data.csv", "--out", "b", "--snapshot", "a.snapshot", "--once", code=2)
    assert "Line 1 of b" in said and (home / "b").read_bytes() == before
    for name in ("b", "b.snapshot"):
        (home / name.replace("b", "c", 1)).write_bytes((home / name).read_bytes())
    (home / "data.csv").write_text(table(20) + table(5, 2, names=False))
    (home / "b").write_bytes(killed("c"))
    said = watch("--data", "data.csv", "--out", "b", "--once", code=2)
    assert "Line 21 of b" in said and len(lines(home / "b")) == 25


def test_a_journal_without_a_snapshot_is_not_shortened(home: Path) -> None:
    (home / "data.csv").write_text(table(5))
    (home / "o.snapshot.journal").write_text("notes\n")
    assert "already has lines" in watch("--data", "data.csv", "--out", "o", "--once", code=2)
    assert (home / "o.snapshot.journal").read_text() == "notes\n"


@pytest.mark.parametrize("word", [b'"rows": 20', b'"length": ', b'"missing": 0', b'"x,u"'])
def test_a_snapshot_that_was_changed_is_refused(watched: Path, word: bytes) -> None:
    snapshot, before = watched / "o.snapshot", (watched / "o").read_bytes()
    assert word in snapshot.read_bytes()
    snapshot.write_bytes(snapshot.read_bytes().replace(word, word[:-1] + b"9"))
    assert "or it was changed afterward" in watch("--data", "data.csv", "--out", "o", "--once", code=2)
    assert (watched / "o").read_bytes() == before


VALUES = [None, True, -1, 1.5, 2**70, "", "\ud800\x1b", [], ["x"], [[1]], {}, {"comma": 1}, {"x": "y"}]
MESSAGE = "is not a snapshot|was changed, or belongs to another|does not belong to the output"
MESSAGE += "|another calibration"
MESSAGE += "|belongs to data with the header|no longer the file|already has lines"


def forged(head: bytes, stream: bytes) -> bytes:
    """Return a snapshot with the right hash."""
    rest = head + b"\n" + stream
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def forgeries(text: bytes) -> Iterator[bytes]:
    """Snapshots in which an entry is missing, new or of another type, and damaged streams."""
    _, head, stream = text.split(b"\n", 2)
    about = json.loads(head)
    places = [(about, name) for name in about] + [(about["batches"][0], name) for name in about["batches"][0]]
    for place, name in places:
        before = place.pop(name)
        yield forged(json.dumps(about).encode(), stream)
        for value in VALUES:
            place[name] = value
            yield forged(json.dumps(about).encode(), stream)
        place[name] = before
    for made in (b"[]", b"{}", b"1", b"[" * 9000, json.dumps(about | {"more": 1}).encode(), b"\xff", b""):
        yield forged(made, stream)
    arrays = load(stream)
    for name in arrays:
        value = arrays[name]
        others = [
            value.reshape(1, *value.shape),
            value.astype(np.uint8),
            value[..., :0] if value.ndim else None,
        ]
        for other in (None, np.zeros_like(value) - 1, np.full(7, np.nan), *others):
            changed = {key: kept for key, kept in arrays.items() if key != name}
            yield forged(head, save(changed if other is None else changed | {name: np.array(other)}))
    for end in (0, 8, len(stream) // 2, len(stream) - 1):
        yield forged(head, stream[:end])


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_forged_snapshot_ends_in_one_error(
    watched: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    """Either the watcher takes another step, or an error names the file."""
    from guardband.cli import watch as watching
    from guardband.cli.models import Artifact

    artifact = Artifact.read(Path("band"), "net:model")
    monkeypatch.setattr(Artifact, "read", lambda *_: artifact)
    monkeypatch.setattr(watching, "write_bytes", lambda *_: None)
    options = {
        "level": "0.9",
        "method": "adaptive",
        "every": 1000,
        "once": True,
        "model": None,
        "imports": None,
    }
    out, before = watched / "o", (watched / "o").read_bytes()
    (watched / "data.csv").write_text(table(20) + "0.5,0.2\n")
    refused = 0
    for text in [*forgeries((watched / "o.snapshot").read_bytes())][::share]:
        (watched / "o.snapshot").write_bytes(text)
        try:
            watching.watch(Path("band"), "data.csv", Path("o"), snapshot=None, **options)  # type: ignore[arg-type]
        except ValueError as error:
            assert re.search(MESSAGE, str(error)), error
            assert out.read_bytes() == before
            refused += 1
        out.write_bytes(before)
    assert refused > 150 / share


def test_a_snapshot_of_another_calibration_or_other_columns_is_refused(watched: Path) -> None:
    (watched / "data.csv").write_text("u,x\n0.1,0.2\n")
    assert "belongs to data with the header 'x,u'" in watch("--data", "data.csv", "--out", "o", code=2)
    (watched / "data.csv").write_text(table(20))
    (watched / "cal.csv").write_text(table(300, 5))
    words = ("net:model", "--data", "cal.csv", "--targets", "u", "--out", "band", "--overwrite")
    run("calibrate", *words)
    assert "belongs to another calibration" in watch("--data", "data.csv", "--out", "o", "--once", code=2)


@pytest.mark.parametrize(
    "text",
    [
        table(20, 2),
        table(40, 2),
        table(19) + table(30, 2, names=False),
        "x,u\n" + table(20, names=False)[1:],
        "x,u\n",
    ],
)
def test_a_file_that_was_replaced_is_noticed_at_the_next_start(watched: Path, text: str) -> None:
    (watched / "data.csv").write_text(text)
    before = (watched / "o").read_bytes()
    assert REMEDY in " ".join(watch("--data", "data.csv", "--out", "o", "--once", code=2).split())
    assert (watched / "o").read_bytes() == before


def test_bad_lines_and_missing_readings_are_counted_and_kept(home: Path) -> None:
    bad = ["0.5,0.2\r0.6,0.2", "0.5," + "1" * 140_000, "0.5,0.4V", "0.5,error", "0.5,inf", "0.5,n/a", "0.5"]
    data = ["x,u", "0.5,0.2", *bad, "0.5,", "0.5,NA", "0.5,nan", "0.5,0.3"]
    (home / "data.csv").write_bytes("".join(f"{line}\n" for line in data).encode() + b"\xff,1\n")
    for more in ("", "0.5,none\n"):
        with (home / "data.csv").open("a") as file:
            file.write(more)
        said = watch("--data", "data.csv", "--out", "o", "--once", "--json")
    found = json.loads(said.splitlines()[-1])
    assert (found["rows"], found["readings"], found["missing"], found["unreadable"]) == (14, 2, 3, 9)
    unreadable = [line["row"] for line in lines(home / "o") if "unreadable" in line]
    assert unreadable == [*range(2, 9), 13, 14]
    text = watch("--data", "data.csv", "--out", "o", "--once")
    assert "14 rows: 3 without a reading, 9 unreadable" in text


@pytest.mark.parametrize("mark", [";", "\t"])
def test_decimal_commas_are_read_as_calibrate_reads_them(home: Path, mark: str) -> None:
    (home / "data.csv").write_text(table(30))
    watch("--data", "data.csv", "--out", "plain", "--once")
    european = table(30).replace(",", mark).replace(".", ",")
    (home / "data.csv").write_text(european)
    watch("--data", "data.csv", "--out", "o", "--once")
    assert (home / "o").read_bytes() == (home / "plain").read_bytes()
    (home / "data.csv").write_text(european + f"0.5{mark}0.2\n" + f"0,5{mark}0,2\n")
    watch("--data", "data.csv", "--out", "o", "--once")  # the decimal mark survives a restart
    before, after = lines(home / "o")[30:]
    assert "one decimal mark" in before["unreadable"] and after["bands"]["u"]["reading"] == 0.2


NASTY = [
    b"\0",
    b"\x1b[2J",
    b"\x07",
    b"\xed\xa0\x80",
    b"\xff",
    b"\r",
    b"\x0c",
    b"\x85",
    b'"',
    b'""',
    b",",
    b";",
]
NASTY += [
    b"\xe2\x80\xae",
    b"\xe3\x85\xa4",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"x",
    b"u",
    b"0.5",
    b" ",
]


def readable(text: str) -> bool:
    return text.replace("\n", "").isprintable() and not any(mark in text for mark in "\u202e\u3164")


def test_control_characters_are_escaped_wherever_they_stand(home: Path) -> None:
    draw = np.random.default_rng(9)
    pieces = [b"".join(draw.choice(np.array(NASTY, object), size=k)) for k in (1, 2, 4, 7) for _ in range(60)]
    (home / "data.csv").write_bytes(b"x,u\n" + b"".join(b"0.5," + piece + b"\n" for piece in pieces))
    said = watch("--data", "data.csv", "--out", "o", "--once")
    assert readable(said) and len(lines(home / "o")) == len(pieces)
    assert all(readable(line.get("unreadable", "")) for line in lines(home / "o"))
    for piece in pieces[::30]:
        (home / "data.csv").write_bytes(b"x,u," + piece + b"\n0.5,0.2\n" + piece + b",u\n")
        result = CliRunner().invoke(app, [*WATCH, "--data", "data.csv", "--out", "p", "--once"])
        assert result.exit_code in (0, 2) and readable(result.output), piece
        for name in ("p", "p.snapshot", "p.snapshot.journal"):
            (home / name).unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["\0", "\x1b[2J", "\ud800", "u\n guardband: done", "\u202e", "u" * 5000])
def test_names_of_columns_are_shown_escaped(home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from guardband.cli.models import Artifact

    artifact = replace(Artifact.read(Path("band"), "net:model"), targets=[name])
    monkeypatch.setattr(Artifact, "read", lambda *_: artifact)
    for header in (b"x,u", b"x," + name.encode("utf-8", "surrogatepass")):
        (home / "data.csv").write_bytes(header + b"\n0.5,?\n0.5,0.2\n")
        result = CliRunner().invoke(app, [*WATCH, "--data", "data.csv", "--out", "o", "--once"])
        assert result.exit_code in (0, 2) and readable(result.output)
        assert "\n guardband: done" not in result.output and len(result.output) < 3000


def rows_of(*parts: tuple[int, int]) -> str:
    """Return lines without a header: a number of rows of the table of each seed."""
    return "".join(table(rows, seed, names=False) for rows, seed in parts)


def pipe(home: Path, text: str, code: int = 0) -> str:
    return watch("--data", "-", "--out", "o", given=text, code=code)


def test_rows_of_a_pipe_that_come_again_are_counted_once(home: Path) -> None:
    first, second = table(20), table(30, 2)
    pipe(home, first + second)  # a rotation repeats the header
    assert [line["row"] for line in lines(home / "o")] == [*range(1, 51)]
    once = (home / "o").read_bytes()
    pipe(home, second)
    pipe(home, first + second)
    assert (home / "o").read_bytes() == once
    more = rows_of((7, 3))
    assert "110 repeated rows" in pipe(home, second + more)
    assert len(lines(home / "o")) == 57
    pipe(home, second + more + table(4, 4))
    assert len(lines(home / "o")) == 61
    read = [line["bands"]["u"]["reading"] for line in lines(home / "o")]
    data = (first + second + more + table(4, 4)).splitlines()
    assert read == [float(line.split(",")[1]) for line in data if line != "x,u"]


def test_rows_that_only_begin_alike_are_new(home: Path) -> None:
    text = table(20)
    pipe(home, text)
    pipe(home, "".join(text.splitlines(keepends=True)[:4]) + rows_of((30, 2)))
    assert len(lines(home / "o")) == 20 + 33


def test_what_cannot_be_told_from_counted_rows_is_refused(home: Path) -> None:
    whole = table(3000)
    pipe(home, whole)
    before, parts = (home / "o").read_bytes(), whole.splitlines(keepends=True)
    assert "could not be compared" in pipe(home, "".join(parts[:12]), code=2)
    changed = [*parts[:1500], "0.5,0.1\n", *parts[1501:]]
    assert "and then differ" in " ".join(pipe(home, "".join(changed), code=2).split())
    assert (home / "o").read_bytes() == before


def test_a_header_after_counted_rows_begins_anew() -> None:
    from guardband.cli.rows import Counted

    before, after = Counted([]), list[bytes]()
    rows = table(3000, names=False).encode().splitlines(keepends=True)
    before.header()
    assert [new for row in rows for new in before.row(row)] == rows
    again = Counted(before.snapshot())
    for part in ([b"0.5,0.2\n"], rows[:2048], rows[:1], rows):  # new rows, too few rows to compare, old rows
        again.header()
        after += [new for row in part for new in again.row(row)]
        if len(part) in (1, 2048) and part[0] == rows[0]:
            with pytest.raises(ValueError, match="could not be compared"):
                again.header()
            again.candidates.clear()
            again.current.count = 0
    assert after == [b"0.5,0.2\n"] and again.dropped == 3000
    assert [batch.count for batch in again.snapshot()] == [1, 3000]


def test_another_header_in_the_middle_is_refused(home: Path) -> None:
    assert "is a header that differs" in pipe(home, table(3) + "0.5,u\nu,x\n0.1,0.2\n", code=2)
    assert len(lines(home / "o")) == 4  # a row with a number is never a header


def test_a_last_line_that_is_cut_off_is_not_counted(home: Path) -> None:
    assert "does not end with a newline" in pipe(home, table(5) + "0.5,0.2")
    assert len(lines(home / "o")) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be renamed")
@pytest.mark.parametrize("kind", ["renamed", "removed", "truncated", "rewritten"])
def test_a_rotation_is_noticed_while_a_file_is_followed(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    from guardband.cli.rows import Rotated
    from guardband.cli.rows import lines as lines_of

    path = tmp_path / "data.csv"
    path.write_text(table(20))
    source = path.open("rb")
    request.addfinalizer(source.close)
    found = lines_of(source, path, once=False)
    assert len(next(found)) == 21 and next(found) == []
    with path.open("a") as file:
        file.write("0.5,0.2\n0.5,")
    assert next(found) == [b"0.5,0.2\n"] and next(found) == []
    match kind:
        case "renamed":
            path.rename(tmp_path / "data.csv.1")
            path.write_text(table(30))
        case "removed":
            path.unlink()
        case "truncated":
            os.truncate(path, 10)
        case _:  # copytruncate, with more rows than before at the next read
            path.write_text(table(90, 2))
    with pytest.raises(Rotated, match="was rotated"):
        next(found)


def test_an_output_that_is_renamed_is_noticed(watched: Path) -> None:
    from guardband.cli.watch import Output, State

    state = State("", rows=0, stream=b"")
    with (watched / "new").open("w+b") as file, (watched / "journal").open("w+b") as journal:
        output = Output(file, journal, watched / "new", state)
        output.write(b'{"row": 1, }\n')
        output.sync()
        (watched / "new").rename(watched / "new.1")
        with pytest.raises(ValueError, match="was renamed, removed or replaced"):
            output.sync()


LOOP = """
import sys
sys.argv = ["guardband", *sys.argv[1:]]
import guardband.cli.watch  # imported before the clock of the kills starts
print("ready", flush=True)
from guardband.cli import run
run()
"""


@pytest.mark.slow("3")
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_random_moments_no_line_is_lost_or_doubled(home: Path, kills: int) -> None:
    rows = 400 * (kills + 1)
    whole = table(rows).encode()
    (home / "all.csv").write_bytes(whole)
    watch("--data", "all.csv", "--out", "whole.jsonl", "--once")
    data = home / "data.csv"
    data.write_bytes(b"")

    def write() -> None:
        """The file grows during reading, in pieces that end anywhere."""
        with data.open("ab", buffering=0) as file:
            for start in range(0, len(whole), 509):
                file.write(whole[start : start + 509])
                time.sleep(0.002)

    words = ["watch", "band", "--model", "net:model", "--level", "0.9", "--data", "data.csv"]
    words += ["--out", "out.jsonl", "--every", "50"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    draw, writer = np.random.default_rng(kills), threading.Thread(target=write)
    writer.start()
    for _ in range(kills):
        before = (home / "out.jsonl").stat().st_size if (home / "out.jsonl").exists() else 0
        process = subprocess.Popen(
            [sys.executable, "-c", LOOP, *words], cwd=home, env=environment, stdout=subprocess.PIPE
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            size = (home / "out.jsonl").stat().st_size if (home / "out.jsonl").exists() else 0
            if size != before or not writer.is_alive():
                break
            time.sleep(0.002)
        time.sleep(float(draw.uniform(0, 0.08)))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
    writer.join()
    watch("--data", "data.csv", "--out", "out.jsonl", "--once", "--every", "50")
    assert (home / "out.jsonl").read_bytes() == (home / "whole.jsonl").read_bytes()


def start(home: Path, *words: str, source: int | None = None) -> subprocess.Popen[bytes]:
    """Start a watcher in a new process, after its imports."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, "watch", "band", "--model", "net:model", "--level", "0.9", *words],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def wait_for(path: Path, rows: int) -> None:
    """Wait until an output has this many lines."""
    until = time.monotonic() + 60
    while not (path.exists() and path.read_bytes().count(b"\n") >= rows):
        assert time.monotonic() < until, path.read_bytes() if path.exists() else path
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be renamed")
@pytest.mark.parametrize("how", ["rename", "copytruncate"])
def test_a_rotated_log_ends_a_watcher_and_a_second_one_is_refused(home: Path, how: str) -> None:
    data, out = home / "data.csv", home / "o"
    data.write_text(table(20))
    first = start(home, "--data", "data.csv", "--out", "o")
    wait_for(out, 20)
    second = start(home, "--data", "data.csv", "--out", "p", "--snapshot", "o.snapshot")
    assert b"Another `guardband watch`" in second.communicate(timeout=60)[1] and second.returncode == 2
    if how == "rename":
        data.rename(home / "data.csv.1")
    data.write_text(table(30, 2))
    said = first.communicate(timeout=60)[1]
    assert first.returncode == 2 and REMEDY.encode() in said and b"Traceback" not in said
    assert len(lines(out)) == 20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="wants tail -F of GNU")
def test_tail_follows_a_rotated_log_and_no_row_is_lost_or_counted_twice(home: Path) -> None:
    data, out = home / "data.csv", home / "o"
    parts = [table(20 + seed, seed, names=False) for seed in range(1, 5)]
    expected = [float(line.split(",")[1]) for part in parts for line in part.splitlines()]

    def begin() -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        words = ["tail", "-n", "+1", "-F", "-s", "0.1", "data.csv"]
        tail = subprocess.Popen(words, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert tail.stdout is not None
        return tail, start(home, "--data", "-", "--out", "o", "--every", "7", source=tail.stdout.fileno())

    data.write_text("x,u\n" + parts[0])
    for step in range(4):
        tail, watcher = begin()
        wait_for(out, sum(len(part.splitlines()) for part in parts[: min(step + 1, 3)]))
        if step < 2:
            time.sleep(0.3)  # tail has opened the file and waits
            if step == 0:
                data.rename(home / "data.csv.1")
                data.write_text("x,u\n" + parts[1])
            else:  # emptied and then filled, like logrotate's copytruncate
                os.truncate(data, 0)
                time.sleep(0.5)
                data.write_text("x,u\n" + parts[2])
            wait_for(out, sum(len(part.splitlines()) for part in parts[: step + 2]))
        if step == 3:
            with data.open("a") as file:
                file.write(parts[3])
            wait_for(out, len(expected))
        (watcher.kill if step < 3 else watcher.terminate)()
        said = watcher.communicate(timeout=60)[1]
        tail.kill()
        tail.communicate()
        if step == 3:
            assert watcher.returncode == 128 + signal.SIGTERM and f"{len(expected)} rows".encode() in said
    assert [line["bands"]["u"]["reading"] for line in lines(out)] == expected
