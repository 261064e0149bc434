"""Campaigns: killed, started twice, on any engine, they give the same results, each once."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import guardband as gb
from guardband import campaign, cli, engine, leases
from guardband.predictors import Distance, MeanOnly
from guardband.problems import Poisson1D
from guardband.studies import Factory, Study, Training, grid, records
from guardband.studies.base import describe, key_of
from guardband.studies.tables import write_page

# A cluster that is torn down may leave a socket to the garbage collector; that is Dask's, and harmless.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUICK = gb.Recipe(steps=20, finish=0, n_interior=32, n_boundary=4)


def small(trainings: int = 2) -> Study:
    made = [
        Training(Poisson1D(), (8, 8), n=40, noise=0.1, recipe=QUICK, seed=seed) for seed in range(trainings)
    ]
    predictors = {"constant": Factory(MeanOnly), "distance": Factory(Distance, n_neighbors=5)}
    return grid("small", made, predictors, cal=30, test=20, draws=5)


def cells(folder: Path) -> dict[str, Any]:
    """All results of a folder without times and writers, by file name; files that are not whole fail here."""
    found = {}
    for path in (folder / "cells").iterdir():
        whole = json.loads(path.read_text())
        found[path.name] = {name: whole[name] for name in whole.keys() - {"seconds", "lease", "sha256"}}
    return found


def alike(results: Any) -> list[Any]:
    """Results without times and writers."""
    return [{name: r[name] for name in r.keys() - {"seconds", "lease"}} for r in results]


def a_record(seed: int = 0, **more: Any) -> dict[str, Any]:
    """A result of one cell that no network was trained for."""
    cell = describe(replace(small(1).cells[0], training=replace(small(1).cells[0].training, seed=seed)))
    rest = {"found": {"covered": [1, 2, 3], "acd": 0.123456789}, "versions": {}, "threads": 1}
    return {"key": key_of(cell), "cell": cell, **rest, "seconds": {"training": 0.25}, **more}


def test_a_campaign_runs_what_is_missing_and_nothing_else(tmp_path: Path) -> None:
    study = small()
    assert campaign.status(tmp_path, study).missing == 4
    status = campaign.run(study, tmp_path, progress=False)
    assert str(status) == "4 done, 0 failed, 0 running, 0 to do"
    assert "constant" in (tmp_path / "README.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    gone, *_ = before
    gone.unlink()
    campaign.run(study, tmp_path, progress=False)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert {path for path in after if after[path] != before[path]} == {gone}
    assert not [path for path in (tmp_path / "leases").iterdir() if path.name != ".clock"]
    assert not list((tmp_path / "trainings").iterdir())
    assert campaign.status(tmp_path).done == 4 and len(list(campaign.results(tmp_path))) == 4


def broken_predictor(fitted: Any) -> Any:
    raise ArithmeticError("the chain\nran away")


def test_a_failing_cell_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    study = small(1)
    bad = replace(study.cells[0], predictor=Factory(broken_predictor))
    status = campaign.run(Study("mixed", [bad, study.cells[1]], write_page), tmp_path, progress=False)
    assert status.done == 1 and list(status.failed.values()) == ["Poisson1D, constant, seed 0: ran away"]
    assert f"failed {bad.key}: Poisson1D, constant, seed 0: ran away" in str(status)
    good = Study("mixed", study.cells, write_page)
    assert campaign.run(good, tmp_path, progress=False).failed == {}  # tried again


def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(records, "write_text", full)
        with pytest.raises(campaign.CampaignError, match=r"is full\. Make room and run the same again"):
            campaign.run(small(1), tmp_path, progress=False)
        patched.setattr("guardband.studies.runner.checkpoint.write", full)
        with pytest.raises(campaign.CampaignError, match="is full"):
            campaign.run(small(2), tmp_path, progress=False)
    assert not _names(tmp_path / "cells") and not _names(tmp_path / "leases")
    assert campaign.run(small(1), tmp_path, progress=False).done == 2
    with monkeypatch.context() as patched:
        patched.setattr(records, "write_text", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            campaign.run(small(2), tmp_path, progress=False)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("[!.]*")]


class TestLeases:
    KEY = "0" * 16

    def lease(self, folder: Path) -> Any:
        return leases.Lease(folder, self.KEY)

    def test_only_one_gets_it(self, tmp_path: Path) -> None:
        first, second = self.lease(tmp_path), self.lease(tmp_path)
        assert first.take(time.time()) and not second.take(time.time())
        first.touch()
        first.give_back()
        assert second.take(time.time())

    def test_of_many_at_once_one_gets_it(self, tmp_path: Path) -> None:
        for _ in range(20):
            leases = [self.lease(tmp_path) for _ in range(8)]
            with ThreadPoolExecutor(8) as pool:
                assert sum(pool.map(lambda one: one.take(time.time()), leases)) == 1
            for lease in leases:
                lease.give_back()

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_the_lease_of_a_dead_process_is_taken_over_at_once(self, tmp_path: Path) -> None:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        assert self.lease(tmp_path).take(time.time())
        owner = leases.owner() | {"pid": dead.pid}
        (tmp_path / "leases" / f"{self.KEY}.0").write_text(json.dumps(owner))
        assert self.lease(tmp_path).take(time.time())
        assert (tmp_path / "leases" / f"{self.KEY}.1").exists()

    def test_the_lease_of_another_machine_goes_stale(self, tmp_path: Path) -> None:
        assert self.lease(tmp_path).take(time.time())
        (tmp_path / "leases" / f"{self.KEY}.0").write_text('{"machine": "far", "pid": 1, "born": ""}')
        assert not self.lease(tmp_path).take(time.time())
        assert self.lease(tmp_path).take(time.time() + leases.STALE + 1)

    def test_one_that_is_being_written_is_alive(self, tmp_path: Path) -> None:
        assert self.lease(tmp_path).take(time.time())
        (tmp_path / "leases" / f"{self.KEY}.0").write_text('{"mach')
        assert self.lease(tmp_path).alive(time.time()) and not self.lease(tmp_path).take(time.time())

    def test_work_that_others_do_is_left_to_them(self, tmp_path: Path, monkeypatch: Any) -> None:
        study = small(1)
        other = leases.Lease(tmp_path, study.cells[0].key)
        assert other.take(time.time())
        made = campaign.work(str(tmp_path), list(study.cells))
        assert made == {study.cells[0].key: "busy", study.cells[1].key: "done"}
        assert campaign.status(tmp_path, study).running == 1
        monkeypatch.setattr("guardband.campaign.time.sleep", lambda _: other.give_back())
        assert campaign.run(study, tmp_path, progress=False).done == 2

    def test_a_heart_keeps_leases_fresh(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(leases, "BEAT", 0.01)
        lease = self.lease(tmp_path)
        assert lease.take(time.time())
        os.utime(lease.path, (0, 0))
        with leases.heart([lease]):
            time.sleep(0.2)
        assert lease.alive(time.time())

    def test_where_processes_cannot_be_asked_only_the_heart_counts(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("guardband.leases.os.readlink", lambda _: (_ for _ in ()).throw(OSError()))
        leases._machine.cache_clear()
        assert leases._machine() == ""
        leases._machine.cache_clear()


KILLED = """
import os, signal, sys
from pathlib import Path
from guardband import campaign

Path.unlink = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
campaign.pack(sys.argv[1])
"""


class TestPacks:
    def made(self, folder: Path) -> tuple[Study, list[Any]]:
        study = small()
        campaign.run(study, folder, progress=False)
        return study, list(campaign.results(folder))

    def test_a_pack_is_the_same_results_in_one_sorted_file(self, tmp_path: Path) -> None:
        _, results = self.made(tmp_path)
        run = CliRunner().invoke(cli.app, ["study", "pack", str(tmp_path)])
        assert run.exit_code == 0 and "4 results: " in run.output
        text = (tmp_path / "cells.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert sorted(line["key"] for line in lines) == [result["key"] for result in results]
        assert [line["cell"]["method"] for line in lines] == ["constant"] * 2 + ["distance"] * 2
        assert [line["cell"]["training"]["seed"] for line in lines] == [0, 1, 0, 1]
        assert list(campaign.results(tmp_path)) == results and not cells(tmp_path)
        assert campaign.pack(tmp_path) == 4 and (tmp_path / "cells.jsonl").read_text() == text
        assert campaign.status(tmp_path).running == 0, "the lease of packing is not one of a cell"

    def test_a_campaign_goes_on_from_a_pack(self, tmp_path: Path, monkeypatch: Any) -> None:
        study, results = self.made(tmp_path)
        gone = results.pop()["key"]
        (tmp_path / "cells" / f"{gone}.json").unlink()
        assert campaign.pack(tmp_path) == 3 and campaign.status(tmp_path, study).missing == 1
        assert campaign.run(study, tmp_path, progress=False).done == 4
        assert list(cells(tmp_path)) == [f"{gone}.json"] and len(list(campaign.results(tmp_path))) == 4
        assert campaign.pack(tmp_path) == 4
        monkeypatch.setattr("guardband.studies.runner.CellRunner.run", lambda *_: 1 / 0)
        assert campaign.work(str(tmp_path), list(study.cells)) == {cell.key: "done" for cell in study.cells}

    def test_a_file_counts_more_than_a_line(self, tmp_path: Path) -> None:
        _, results = self.made(tmp_path)
        campaign.pack(tmp_path)
        again = results[0] | {"threads": 7}
        (tmp_path / "cells" / f"{again['key']}.json").write_text(records.sealed(again))
        for _ in range(2):
            assert list(campaign.results(tmp_path)) == [again, *results[1:]]
            assert campaign.status(tmp_path).done == campaign.pack(tmp_path) == 4

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_killed_before_the_files_are_removed_it_loses_nothing(self, tmp_path: Path) -> None:
        study, results = self.made(tmp_path)
        killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
        assert killed.returncode == -signal.SIGKILL
        assert len(cells(tmp_path)) == 4 and (tmp_path / "cells.jsonl").exists()
        assert list(campaign.results(tmp_path)) == results and campaign.status(tmp_path, study).done == 4
        assert campaign.pack(tmp_path) == 4, "its lease is taken over at once"
        assert list(campaign.results(tmp_path)) == results and not cells(tmp_path)

    def test_a_full_disk_leaves_files_and_pack_as_they_were(self, tmp_path: Path, monkeypatch: Any) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        _, results = self.made(tmp_path)
        monkeypatch.setattr("guardband.studies.records.write_text", full)
        with pytest.raises(OSError, match="No space left"):
            campaign.pack(tmp_path)
        run = CliRunner().invoke(cli.app, ["study", "pack", str(tmp_path)])
        assert run.exit_code == 3 and "No space left" in run.output
        assert list(campaign.results(tmp_path)) == results and not (tmp_path / "cells.jsonl").exists()

    def test_what_the_disk_did_not_keep_is_not_removed(self, tmp_path: Path, monkeypatch: Any) -> None:
        _, results = self.made(tmp_path)

        def cut(path: Path, text: str) -> None:
            path.write_text(text[:-20])

        monkeypatch.setattr("guardband.studies.records.write_text", cut)
        with pytest.raises(ValueError, match=r"cells\.jsonl is damaged: line 4 \(not JSON\)"):
            campaign.pack(tmp_path)
        (tmp_path / "cells.jsonl").unlink()
        assert list(campaign.results(tmp_path)) == results

    def test_damaged_lines_are_named_and_their_cells_made_again(self, tmp_path: Path) -> None:
        study, results = self.made(tmp_path)
        saved = {"study": "own", "cells": [cell.key for cell in study.cells]}
        (tmp_path / "study.json").write_text(json.dumps(saved))
        campaign.pack(tmp_path)
        file = tmp_path / "cells.jsonl"
        lines = file.read_text().splitlines()
        other = lines[2].replace('"draws": 5', '"draws": 6')
        for bad, said in (
            ([lines[0][:50], *lines[1:]], r"line 1 \(not JSON\)"),
            ([lines[0], "[]", lines[2], "\0"], r"line 2 \(not a result\), line 4 \(not JSON\)"),
            ([*lines[:2], other, lines[3]], r"line 3 \(its checksum is not that of its content\)"),
            ([*lines, lines[0]], r"line 5 \([0-9a-f]{16} is there twice\)"),
        ):
            file.write_text("\n".join(bad) + "\n")
            with pytest.raises(ValueError, match=rf"cells\.jsonl is damaged: {said}\. Take an intact"):
                campaign.pack(tmp_path)
            with pytest.raises(ValueError, match=r"holds damaged results: cells\.jsonl line"):
                list(campaign.results(tmp_path))
            for command in ("status", "pack"):
                run = CliRunner().invoke(cli.app, ["study", command, str(tmp_path)])
                assert run.exit_code == 2 and "damaged" in run.output
            with pytest.warns(UserWarning, match=r"held damaged results: cells\.jsonl line"):
                assert campaign.run(study, tmp_path, progress=False).damaged == {}
            assert alike(campaign.results(tmp_path)) == alike(results) and list(
                (tmp_path / "damaged").iterdir()
            )

    @pytest.mark.parametrize("rubbish", ["", "{", '{"key": "0", "cell": 1, "found": 2}'])
    def test_a_damaged_file_is_named_and_not_packed(self, rubbish: str, tmp_path: Path) -> None:
        (tmp_path / "cells").mkdir()
        record = a_record()
        file = records.path(tmp_path, record["key"])
        file.write_text(rubbish)
        with pytest.raises(ValueError, match=rf"{file.name} is damaged: .*makes its cell again"):
            campaign.pack(tmp_path)
        with pytest.raises(ValueError, match=f"holds damaged results: cells/{file.name}"):
            list(campaign.results(tmp_path))
        assert not (tmp_path / "cells.jsonl").exists()

    def test_of_two_at_once_one_is_refused(self, tmp_path: Path, monkeypatch: Any) -> None:
        _, results = self.made(tmp_path)
        original = records.write_pack

        def interrupted(folder: Path, lines: Any) -> None:
            with pytest.raises(campaign.CampaignError, match=r"Another process packs .*\. Wait for it"):
                campaign.pack(tmp_path)
            original(folder, lines)

        monkeypatch.setattr(records, "write_pack", interrupted)
        assert campaign.pack(tmp_path) == 4 and list(campaign.results(tmp_path)) == results
        sleeping = leases.Lease(tmp_path, ".pack")
        assert sleeping.take(0.0) and sleeping.path is not None
        os.utime(sleeping.path, (0, 0))
        with pytest.raises(campaign.CampaignError, match="Another process packs"):
            campaign.pack(tmp_path)

    @pytest.mark.slow
    def test_many_at_once_beside_a_running_campaign_lose_nothing(self, tmp_path: Path) -> None:
        _, results = self.made(tmp_path / "made")
        many = []
        for number in range(60):
            cell = json.loads(json.dumps(results[0]["cell"]))
            cell["training"]["seed"] = number
            many.append(results[0] | {"key": key_of(cell), "cell": cell})
        stop = threading.Event()

        def packing(_: int) -> None:
            while not stop.is_set():
                with suppress(campaign.CampaignError):
                    campaign.pack(tmp_path)

        with ThreadPoolExecutor(4) as pool:
            work = pool.map(packing, range(4))
            for number, result in enumerate(many, start=1):
                records.publish(tmp_path, result["key"], records.sealed(result))
                assert all(records.exists(tmp_path, earlier["key"]) for earlier in many[:number])
                assert campaign.status(tmp_path).done == number
            stop.set()
            list(work)
        assert campaign.pack(tmp_path) == 60 and not cells(tmp_path)
        assert list(campaign.results(tmp_path)) == sorted(many, key=lambda result: result["key"])

    def test_without_results_there_is_nothing_to_pack(self, tmp_path: Path) -> None:
        run = CliRunner().invoke(cli.app, ["study", "pack", str(tmp_path)])
        assert run.exit_code == 2 and "There are no results" in run.output


@pytest.mark.slow
def test_dask_gives_the_same_bytes(tmp_path: Path) -> None:
    study = small(3)
    campaign.run(study, tmp_path / "here", progress=False)
    campaign.run(study, tmp_path / "dask", workers=2, progress=False)
    assert cells(tmp_path / "here") == cells(tmp_path / "dask")


def test_workers_do_not_have_the_slow_allocator_setting() -> None:
    with engine.connect(workers=1) as client:
        found = client.run(os.environ.copy)
    (environment,) = found.values()
    assert "MALLOC_TRIM_THRESHOLD_" not in environment and environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_worker_comes_back_however_often_it_is_killed() -> None:
    """Dask gives up on one that is away at a moment of its choosing, after the second of two kills say."""
    pytest.importorskip("distributed")  # first: it brings settings, which would go with the one below
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}),
        engine.connect(workers=1) as client,
    ):
        before = client.submit(os.getpid).result()
        os.kill(before, signal.SIGKILL)
        assert client.submit(os.getpid, pure=False).result(timeout=30) != before


def test_engines_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="`workers` or `scheduler`, not both"), engine.connect(1, "tcp://x"):
        pass
    with pytest.raises(ValueError, match="`workers` should be at least 1, got 0"), engine.connect(0):
        pass


def test_a_scheduler_without_workers_is_waited_for_aloud() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        pytest.warns(UserWarning, match="No worker is at tcp://127.0.0.1:.* yet: waiting for the first"),
        engine.connect(scheduler=cluster.scheduler_address),
    ):
        pass


def test_a_lost_scheduler_ends_a_campaign_with_a_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    def gone(*_: Any) -> Any:
        raise engine.SchedulerGone("The scheduler is gone.")

    monkeypatch.setattr(engine, "each", gone)
    with pytest.raises(campaign.CampaignError, match="The scheduler is gone"):
        campaign.run(small(1), tmp_path, progress=False)


def test_an_interrupted_study_says_how_to_go_on(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "own.py").write_text(OWN)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "run", stop)
    words = ["study", "run", str(tmp_path / "own.py"), "--out", str(tmp_path / "out")]
    run = CliRunner().invoke(cli.app, words)
    assert run.exit_code == 130 and "The same command resumes it" in run.output


OWN = """
from dataclasses import dataclass

import torch

import guardband as gb
from guardband.studies import Training, Factory, grid


@dataclass(frozen=True)
class Decay(gb.Problem):
    domain = gb.Time(0, 1)

    def residual(self, x, u):
        return u.d("t") + u.value

    def solution(self, x):
        return torch.exp(-x)


def near(fitted):
    return gb.predictors.Distance(fitted, n_neighbors=3)


def own_split(train):
    return gb.Split()


recipe = gb.Recipe(steps=20, finish=0, n_interior=32, n_boundary=4)
trainings = [Training(Decay(), (8,), n=30, recipe=recipe, seed=seed) for seed in range(2)]
predictors = {"constant": Factory(gb.predictors.MeanOnly), "near": Factory(near)}
study = grid("own", trainings, predictors, {"": Factory(own_split)}, cal=30, draws=5)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
def test_a_study_of_ones_own_runs_from_a_file_on_dask(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "far" / "away")
    out = str(tmp_path / "out")
    run = CliRunner().invoke(
        cli.app, ["study", "run", str(tmp_path / "own.py"), "--out", out, "--workers", "1"]
    )
    assert run.exit_code == 0 and "4 done, 0 failed" in run.output
    assert "4 done" in CliRunner().invoke(cli.app, ["study", "status", out]).output
    (tmp_path / "own.py").unlink()
    (tmp_path / "out" / "README.md").unlink()
    assert "4 results" in CliRunner().invoke(cli.app, ["study", "table", out]).output
    assert "| near" in (tmp_path / "out" / "README.md").read_text()
    kinds = {
        path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != ".clock"
    }
    assert kinds == {".json", ".md"}, "no code travels through the folder"


@pytest.mark.slow
def test_the_study_of_the_docs_runs_as_written(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "studies.md").read_text()
    (tmp_path / "my_study.py").write_text(page.split("```python\n")[1].split("```")[0])
    words = ["study", "run", str(tmp_path / "my_study.py"), "--out", str(tmp_path / "rod"), "--workers", "2"]
    run = CliRunner().invoke(cli.app, words)
    assert run.exit_code == 0 and "6 done, 0 failed" in run.output
    assert "| Laplace | 2 |" in (tmp_path / "rod" / "README.md").read_text()


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(cli.app, ["study", *words])
        assert result.exit_code == 2
        return result.output

    assert "`only` should name" in said("paper", "--only", "table9", "--out", str(tmp_path / "a"))
    assert "`presets` should be some of" in said("paper", "--preset", "our", "--out", str(tmp_path / "a"))
    assert "has no study.json" in said("status", str(tmp_path))
    (tmp_path / "empty.py").write_text("study = 3")
    assert "should make a `study`" in said("run", str(tmp_path / "empty.py"), "--out", str(tmp_path / "b"))
    (tmp_path / "text.txt").write_text("")
    assert "cannot be read as Python" in said("run", str(tmp_path / "text.txt"), "--out", str(tmp_path / "c"))
    (tmp_path / "study.json").write_text('{"study": "paper", "options": {"smoke": true}}')
    assert "no results" in said("table", str(tmp_path))


def test_the_command_line_reports_failures_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(OWN.replace("n_neighbors=3", "n_neighbors=300"))
    out = str(tmp_path / "out")
    run = CliRunner().invoke(cli.app, ["study", "run", str(tmp_path / "bad.py"), "--out", out])
    assert run.exit_code == 3 and "2 done, 2 failed" in run.output and "`n_neighbors` should be" in run.output


class Cluster:
    """A scheduler and two workers as processes of their own, to be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if k != "MALLOC_TRIM_THRESHOLD_"}
        self.scheduler: subprocess.Popen[bytes]
        self.workers: list[subprocess.Popen[bytes]] = []
        self.count = 0

    def start(self) -> str:
        self.count += 1
        file = self.folder / f"scheduler{self.count}.json"
        self.scheduler = self._spawn("scheduler", "--no-dashboard", "--scheduler-file", str(file))
        while not file.exists() or not file.read_text():
            time.sleep(0.1)
        self.address = json.loads(file.read_text())["address"]
        self.workers = [self._worker(), self._worker()]
        return self.address

    def kill_one(self, generator: random.Random) -> None:
        i = generator.randrange(2)
        self.workers[i].send_signal(signal.SIGKILL)
        self.workers[i].wait()
        self.workers[i] = self._worker()

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._spawn("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def _spawn(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=self.environment, **quiet)  # type: ignore[return-value]


def late(item: int) -> int:
    if item == 1:
        raise TimeoutError("the storage did not answer")
    return item


@pytest.mark.slow
def test_a_task_that_timed_out_is_not_lost() -> None:
    with engine.connect(workers=1) as client, pytest.raises(TimeoutError, match="did not answer"):
        list(engine.each(client, late, [0, 1, 2]))


def test_a_failed_cell_that_succeeds_has_failed_no_more(tmp_path: Path) -> None:
    study = small(1)
    key = study.cells[0].key
    bad = replace(study.cells[0], predictor=Factory(broken_predictor))
    campaign.run(Study("bad", [bad], write_page), tmp_path, progress=False)
    assert campaign.status(tmp_path).failed.keys() == {bad.key}
    assert list((tmp_path / "trainings").iterdir()), "its network is kept for another try"
    (tmp_path / "failed" / f"{bad.key}.json").rename(tmp_path / "failed" / f"{key}.json")
    status = campaign.run(study, tmp_path, progress=False)
    assert str(status) == "2 done, 0 failed, 0 running, 0 to do" and not list((tmp_path / "failed").iterdir())


def test_failures_of_another_study_stay(tmp_path: Path) -> None:
    study = small(1)
    bad = replace(study.cells[0], predictor=Factory(broken_predictor))
    campaign.run(Study("bad", [bad], write_page), tmp_path, progress=False)
    campaign.run(study, tmp_path, progress=False)
    assert campaign.status(tmp_path).failed.keys() == {bad.key}


@pytest.mark.parametrize("rubbish", [b"", b"\0" * 120, b'{"machin', b"\xff\xfe", b"[]"])
def test_an_old_lease_that_cannot_be_read_is_taken_over(rubbish: bytes, tmp_path: Path) -> None:
    key = small(1).cells[0].key
    lease = tmp_path / "leases" / f"{key}.0"
    lease.parent.mkdir()
    lease.write_bytes(rubbish)
    assert not leases.Lease(tmp_path, key).take(leases.now_in(tmp_path)), "it may be being written"
    os.utime(lease, (0, 0))
    assert leases.Lease(tmp_path, key).take(leases.now_in(tmp_path))


def test_a_heart_outlives_a_stumbling_file_system(tmp_path: Path, monkeypatch: Any) -> None:
    lease = leases.Lease(tmp_path, "key")
    assert lease.take(0.0)
    beats = []

    def stumble(path: Path) -> None:
        beats.append(path)
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(leases, "BEAT", 0.01)
    monkeypatch.setattr(os, "utime", stumble)
    with leases.heart([lease]):
        while len(beats) < 3:
            time.sleep(0.01)


def test_who_may_only_look_may_look(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "leases").mkdir()
    (tmp_path / "leases" / f"{TestLeases.KEY}.0").write_text("{}")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert campaign.status(tmp_path).running == 1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:No worker is at")
def test_twenty_killed_workers_and_a_killed_scheduler_lose_nothing(tmp_path: Path, cluster: Cluster) -> None:
    whole = gb.paper.study(smoke=True, presets=["ours"])
    study = Study("paper", whole.cells[:40], lambda *_: None)
    campaign.run(study, tmp_path / "serial", progress=False)
    generator, killed, stop = random.Random(0), 0, threading.Event()

    def kill() -> None:
        nonlocal killed
        while killed < 20 and not stop.wait(generator.uniform(0.5, 4)):
            cluster.kill_one(generator)
            killed += 1
            if killed == 10:
                cluster.scheduler.kill()
                return

    for _ in range(2):
        address = cluster.start()
        killer = threading.Thread(target=kill)
        killer.start()
        with suppress(campaign.CampaignError):
            campaign.run(study, tmp_path / "dask", scheduler=address, progress=False)
        killer.join()
        cluster.stop()
    cluster.start()
    status = campaign.run(study, tmp_path / "dask", scheduler=cluster.address, progress=False)
    assert killed == 20 and status.done == 40
    assert cells(tmp_path / "dask") == cells(tmp_path / "serial")


COUNTING = """
import sys
from pathlib import Path
from guardband import campaign
from guardband import paper
from guardband.studies import Study, runner

original = runner.CellRunner.run


def counted(self, cell):
    (Path(sys.argv[1]) / "runs.txt").open("a").write(cell.key + chr(10))
    return original(self, cell)


runner.CellRunner.run = counted
study = Study("paper", paper.study(smoke=True, presets=["ours"]).cells[:40], lambda *_: None)
print(campaign.run(study, sys.argv[1], progress=False))
"""


@pytest.mark.long
def test_two_campaigns_in_one_folder_do_each_cell_once(tmp_path: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", COUNTING, str(tmp_path)]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    runs = (tmp_path / "runs.txt").read_text().split()
    assert len(runs) == len(set(runs)) == 40 == len(cells(tmp_path))


def test_workers_that_write_elsewhere_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(campaign.CampaignError, match="the workers do not see this folder"):
        campaign._check_seen(tmp_path, {"abc": "done"})
    campaign._check_seen(tmp_path, {"abc": "busy"})
