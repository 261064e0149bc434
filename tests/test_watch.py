"""guardband watch: rows that come one by one, kills at any moment, and no line lost or doubled."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from guardband.cli import app
from helpers import ROOT

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


def watch(*more: str | Path, code: int = 0, given: str | None = None) -> str:
    words = ("watch", "band", "--model", "net:model", "--level", "0.9", *more)
    return run(*words, code=code, given=given)


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


def test_missing_readings_are_skipped_and_bad_rows_are_said(home: Path) -> None:
    (home / "data.csv").write_text("x,u\n0.5,\n0.5,nan\nabc,0.1\n0.5,0.2,9\n\n0.5,0.2\n")
    said = watch("--data", "data.csv", "--out", "out.jsonl", "--once", "--json")
    found = lines(home / "out.jsonl")
    assert [line.get("missed") for line in found] == [None, None, None, None, False]
    assert "Column `x` should hold a number" in found[2]["unreadable"]
    assert "should have 2 cells, and has 3" in found[3]["unreadable"]
    assert json.loads(said.splitlines()[-1])["readings"] == 1


def test_a_pipe_is_followed_and_says_how_much_a_kill_loses(home: Path) -> None:
    said = watch("--data", "-", "--out", "out.jsonl", "--every", "10", given=table(25))
    assert "At most 10 readings of the pipe are lost" in said
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
        (("--data", "cal.csv", "--out", "cal.csv"), "is the file that is read"),
        (("--data", "cal.csv", "--out", "net.py"), "has lines already, and there is no snapshot"),
        (("--data", "cal.csv", "--out", "o", "--method", "best"), "--method should be one of adaptive"),
        (("--data", "cal.csv", "--out", "o", "--snapshot", "net.py"), "is no snapshot"),
        (("--data", "other.csv", "--out", "o"), "other.csv has no column `x`"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(home: Path, words: tuple[str, ...], message: str) -> None:
    (home / "other.csv").write_text("a,b\n1,2\n")
    assert message in " ".join(watch(*words, "--once", code=2).split())


def test_a_shortened_file_output_or_another_level_is_refused(home: Path) -> None:
    (home / "data.csv").write_text(table(20))
    watch("--data", "data.csv", "--out", "o", "--once")
    (home / "data.csv").write_text(table(3))
    assert "became shorter" in watch("--data", "data.csv", "--out", "o", "--once", code=2)
    run_level = ("watch", "band", "--model", "net:model", "--data", "data.csv", "--out", "o", "--once")
    assert "snapshot is of another stream" in " ".join(run(*run_level, "--level", "0.8", code=2).split())
    (home / "o").write_text("")
    assert "shorter than the snapshot" in watch("--data", "data.csv", "--out", "o", "--once", code=2)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_two_watchers_of_one_output_are_refused(home: Path) -> None:
    import fcntl

    (home / "data.csv").write_text(table(5))
    with (home / "o").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "Another `guardband watch`" in watch("--data", "data.csv", "--out", "o", "--once", code=2)


LOOP = """
import sys
sys.argv = ["guardband", *sys.argv[1:]]
import guardband.cli.watching  # imported before the clock of the kills starts
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
        """The file grows in pieces that end anywhere, while it is read."""
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
