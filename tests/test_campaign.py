"""Campaigns give the same results, each once, if they are killed, started twice, or run on any engine."""

import errno
import inspect
import json
import os
import random
import shutil
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
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from guardband import cli, lab, pinn
from guardband.base import engine
from guardband.lab import campaign
from guardband.lab.studies import Factory, Study, Training, grid, records
from guardband.lab.studies.base import describe, key_of
from guardband.lab.studies.tables import write_page
from guardband.pinn.problems import Poisson1D
from guardband.predictors import Distance, MeanOnly

# A closed cluster may leave a socket to the garbage collector; this is Dask's, and harmless.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUICK = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=4)


def small(trainings: int = 2) -> Study:
    made = [
        Training(Poisson1D(), (8, 8), n=40, noise=0.1, recipe=QUICK, seed=seed) for seed in range(trainings)
    ]
    predictors = {"constant": Factory(MeanOnly), "distance": Factory(Distance, n_neighbors=5)}
    return grid("small", made, predictors, cal=30, test=20, draws=5)


def cells(folder: Path) -> dict[str, Any]:
    """Return all results of a folder by key, without times and writers."""
    return {result["key"]: result for result in alike(campaign.results(folder))}


def files(folder: Path) -> list[str]:
    """Return the names of the unpacked files with results."""
    return [path.name for path in sorted((folder / "cells").iterdir())]


def alike(results: Any) -> list[Any]:
    """Return results without times and writers."""
    return [{name: r[name] for name in r.keys() - {"seconds", "lease"}} for r in results]


def a_record(seed: int = 0, **more: Any) -> dict[str, Any]:
    """Return the result of a cell without training a network."""
    cell = describe(replace(small(1).cells[0], training=replace(small(1).cells[0].training, seed=seed)))
    rest = {"found": {"covered": [1, 2, 3], "acd": 0.123456789}, "versions": {}, "threads": 1}
    return {"key": key_of(cell), "cell": cell, **rest, "seconds": {"training": 0.25}, **more}


def test_a_campaign_runs_what_is_missing_and_nothing_else(tmp_path: Path) -> None:
    study = small()
    assert campaign.status(tmp_path, study).missing == 4
    status = campaign.run(study, tmp_path, progress=False)
    assert str(status) == "4 done, 0 failed, 0 running, 0 to do"
    assert "constant" in (tmp_path / "README.md").read_text()
    pack = tmp_path / "cells.jsonl"
    gone, *before = pack.read_text().splitlines()
    pack.write_text("".join(f"{line}\n" for line in before))
    campaign.run(study, tmp_path, progress=False)
    after = pack.read_text().splitlines()
    assert [line for line in after if line in before] == before
    assert [json.loads(line)["key"] for line in after if line not in before] == [json.loads(gone)["key"]]
    assert not list((tmp_path / "leases").iterdir()) and not files(tmp_path)
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
        patched.setattr(records, "publish", full)
        with pytest.raises(campaign.CampaignError, match=r"is full\. Free some space and rerun the command"):
            campaign.run(small(1), tmp_path, progress=False)
        patched.setattr("guardband.lab.studies.runner.checkpoint.write", full)
        with pytest.raises(campaign.CampaignError, match="is full"):
            campaign.run(small(2), tmp_path, progress=False)
    assert not _names(tmp_path / "cells") and not _names(tmp_path / "leases")
    assert campaign.run(small(1), tmp_path, progress=False).done == 2
    with monkeypatch.context() as patched:
        patched.setattr(records, "publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            campaign.run(small(2), tmp_path, progress=False)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("[!.]*")]


HOLDER = """
import sys, time
import filelock
lease = filelock.SoftFileLease(sys.argv[1], lease_duration=float(sys.argv[2]))
lease.acquire()
print("held", flush=True)
time.sleep(100)
"""


class TestLeases:
    STUDY = small(1)
    TRAINING = STUDY.cells[0].training.key

    def lease(self, folder: Path) -> Any:
        return campaign._lease(folder, self.TRAINING)

    def test_only_one_gets_it(self, tmp_path: Path) -> None:
        first, second = self.lease(tmp_path), self.lease(tmp_path)
        with campaign._held(first) as mine, campaign._held(second) as yours:
            assert mine and not yours
        with campaign._held(second) as yours:
            assert yours

    def test_work_that_others_do_is_left_to_them(self, tmp_path: Path, monkeypatch: Any) -> None:
        study, other = small(2), self.lease(tmp_path)
        theirs = {cell.key for cell in study.cells if cell.training.key == self.TRAINING}
        other.acquire()
        made = campaign.work(str(tmp_path), [c for c in study.cells if c.key in theirs], self.lease(tmp_path))
        assert made == dict.fromkeys(theirs, "busy")
        waited = []

        def wait(_: float) -> None:
            waited.append(campaign.status(tmp_path, study))
            other.release()

        monkeypatch.setattr("guardband.lab.campaign.time.sleep", wait)
        assert campaign.run(study, tmp_path, progress=False).done == 4
        assert str(waited[0]) == "2 done, 0 failed, 1 running, 2 to do"

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_the_lease_of_a_dead_process_is_taken_over_at_once(self, tmp_path: Path) -> None:
        for study in (self.STUDY, self.STUDY):  # before its cells are done, and after
            lease = campaign._lease(tmp_path, self.TRAINING)
            words = [sys.executable, "-c", HOLDER, str(lease.lock_file), str(campaign.LEASE)]
            with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None and process.stdout.readline() == b"held\n"
                assert campaign.status(tmp_path, study).running == 1
                process.kill()
            start = time.monotonic()
            assert campaign.run(study, tmp_path, progress=False).done == 2
            assert time.monotonic() - start < campaign.LEASE / 2
            assert not list((tmp_path / "leases").iterdir())

    @pytest.mark.parametrize("duration", ["0.3", None])
    def test_the_lease_of_another_machine_expires(
        self, duration: str | None, tmp_path: Path, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(campaign, "LEASE", 0.3)
        (tmp_path / "leases").mkdir()
        marker = f"filelock/2\npid=1\nhost=far\nmode=lease\ntoken=t\nduration={duration}\n"
        file = tmp_path / "leases" / f"{self.TRAINING}.lease"
        file.write_text(marker if duration else "filelo")  # what a power failure may leave
        with campaign._held(self.lease(tmp_path)) as mine:
            assert not mine
        assert campaign.run(self.STUDY, tmp_path, progress=False).done == 2

    def test_every_line_says_under_which_lease_it_was_made(self, tmp_path: Path, monkeypatch: Any) -> None:
        tokens = []
        original = campaign._run

        def noted(folder: Path, runner: Any, cell: Any, token: str) -> None:
            tokens.append(token)
            original(folder, runner, cell, token)

        monkeypatch.setattr(campaign, "_run", noted)
        campaign.run(small(2), tmp_path, progress=False)
        found = {result["key"]: result["lease"] for result in campaign.results(tmp_path)}
        assert list(found.values()).count(tokens[0]) == 2 == len(set(tokens)) and set(found.values()) == {
            *tokens
        }

    def test_who_lost_its_lease_leaves_the_other_cells(self, tmp_path: Path, monkeypatch: Any) -> None:
        lease, original = self.lease(tmp_path), campaign._run

        def paused(*words: Any) -> None:
            original(*words)
            lease._claim.compromise = "evicted"

        monkeypatch.setattr(campaign, "_run", paused)
        made = campaign.work(str(tmp_path), self.STUDY.cells, lease)
        assert list(made.values()) == ["done", "busy"]

    @pytest.mark.parametrize("options", [{"part": (1, 1)}, pytest.param({"on": 1}, marks=pytest.mark.slow)])
    def test_parts_and_schedulers_need_no_lease(self, options: Any, tmp_path: Path) -> None:
        assert campaign.run(self.STUDY, tmp_path, progress=False, **options).done == 2
        assert not (tmp_path / "leases").exists()
        assert {result["lease"] for result in campaign.results(tmp_path)} == {None}

    def test_an_old_filelock_is_named(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr("guardband.base.extras.load", lambda *_: object())
        with pytest.raises(ImportError, match=r"needs filelock 4\.2\.1 or later: pip install"):
            campaign.run(self.STUDY, tmp_path, progress=False)


class TestParts:
    def test_parts_are_one_run_together_and_train_nothing_twice(self, tmp_path: Path) -> None:
        study, whole = small(3), tmp_path / "whole"
        campaign.run(study, whole, progress=False)
        joined = tmp_path / "joined"
        joined.mkdir()
        lines, trainings = "", []
        for i in (1, 2):
            part = tmp_path / f"part-{i}"
            done = campaign.run(study, part, part=(i, 2), progress=False)
            assert done.missing == 0 and not (part / "README.md").exists()
            lines += (part / "cells.jsonl").read_text()
            trainings.append({json.dumps(r["cell"]["training"]) for r in campaign.results(part)})
        assert [len(its) for its in trainings] == [2, 1] and not set.intersection(*trainings)
        (joined / "cells.jsonl").write_text(lines)
        assert campaign.run(study, joined, progress=False).done == 6
        assert cells(joined) == cells(whole)
        assert (joined / "README.md").exists()

    def test_more_parts_than_networks_leave_some_empty(self, tmp_path: Path) -> None:
        for i, count in ((1, 2), (2, 0)):
            assert campaign.run(small(1), tmp_path, part=(i, 2), progress=False).done == count

    @pytest.mark.parametrize("part", [(0, 2), (3, 2), (1, 0)])
    def test_a_part_that_is_none_is_refused(self, part: Any, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"`part` should be \(i, n\) with i from 1 to n, got \("):
            campaign.run(small(1), tmp_path, part=part, progress=False)

    def test_the_command_line_runs_parts(self, tmp_path: Path) -> None:
        (tmp_path / "own.py").write_text(OWN)
        words = ["study", "run", str(tmp_path / "own.py"), "--out", str(tmp_path / "out"), "--part"]
        for part in ("1/2", "2/2"):
            run = CliRunner().invoke(cli.app, [*words, part])
            assert run.exit_code == 0 and "2 done, 0 failed, 0 running, 0 to do" in run.output
            assert "README" not in run.output
        run = CliRunner().invoke(cli.app, words[:-1])
        assert run.exit_code == 0 and "4 done" in run.output and "README" in run.output
        for part in ("1", "0/2", "one/two", "1/2/3"):
            run = CliRunner().invoke(cli.app, [*words, part])
            assert run.exit_code == 2 and "part" in run.output


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from guardband.lab import campaign

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
        assert list(campaign.results(tmp_path)) == results and not files(tmp_path)
        assert campaign.pack(tmp_path) == 4 and (tmp_path / "cells.jsonl").read_text() == text

    def test_a_campaign_goes_on_from_a_pack(self, tmp_path: Path, monkeypatch: Any) -> None:
        study, results = self.made(tmp_path)
        pack = tmp_path / "cells.jsonl"
        _gone, *rest = pack.read_text().splitlines(keepends=True)
        pack.write_text("".join(rest))
        assert campaign.pack(tmp_path) == 3 and campaign.status(tmp_path, study).missing == 1
        assert campaign.run(study, tmp_path, progress=False).done == 4
        assert alike(campaign.results(tmp_path)) == alike(results)
        monkeypatch.setattr("guardband.lab.studies.runner.CellRunner.run", lambda *_: 1 / 0)
        assert campaign.work(str(tmp_path), list(study.cells)) == {cell.key: "done" for cell in study.cells}

    def test_a_folder_of_02_is_read_and_goes_on(self, tmp_path: Path) -> None:
        """Write a file for each result, another pack, and leases without owner."""
        study, results = self.made(tmp_path / "now")
        lines = (tmp_path / "now" / "cells.jsonl").read_text().splitlines(keepends=True)
        old = tmp_path / "old"
        for name in ("cells", "leases"):
            (old / name).mkdir(parents=True)
        (old / "cells.jsonl").write_text(lines[0])
        (old / "leases" / ".clock").touch()
        (old / "leases" / f"{results[0]['key']}.0").write_text('{"machine": "far", "pid": 1, "born": ""}')
        for line in lines[1:3]:
            (old / "cells" / f"{json.loads(line)['key']}.json").write_text(line)
        assert str(campaign.status(old, study)) == "3 done, 0 failed, 0 running, 1 to do"
        assert campaign.run(study, old, progress=False).done == 4
        assert not files(old) and cells(old) == cells(tmp_path / "now")
        kept = (old / "cells.jsonl").read_text().splitlines(keepends=True)
        assert [line for line in kept if line in lines] == lines[:3]

    def test_a_file_counts_more_than_a_line(self, tmp_path: Path) -> None:
        _, results = self.made(tmp_path)
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
        assert files(tmp_path) and (tmp_path / "cells.jsonl").exists()
        assert list(campaign.results(tmp_path)) == results and campaign.status(tmp_path, study).done == 4
        assert campaign.pack(tmp_path) == 4
        assert list(campaign.results(tmp_path)) == results
        assert [name for name in files(tmp_path) if name[0] != "."] == []

    def test_a_full_disk_loses_nothing(self, tmp_path: Path, monkeypatch: Any) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        _, results = self.made(tmp_path)
        monkeypatch.setattr("guardband.lab.studies.records.write_text", full)
        with pytest.raises(OSError, match="No space left"):
            campaign.pack(tmp_path)
        run = CliRunner().invoke(cli.app, ["study", "pack", str(tmp_path)])
        assert run.exit_code == 3 and "No space left" in run.output
        assert list(campaign.results(tmp_path)) == results

    def test_what_the_disk_did_not_keep_is_not_removed(self, tmp_path: Path, monkeypatch: Any) -> None:
        _, results = self.made(tmp_path)

        def short(path: Path, text: str) -> None:
            path.write_text(text[:-20])

        monkeypatch.setattr("guardband.lab.studies.records.write_text", short)
        with pytest.raises(OSError, match="The disk did not store the pack"):
            campaign.pack(tmp_path)
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
            ([lines[0][:50], *lines[1:]], r"cells\.jsonl line 1 \(not JSON\)"),
            (
                [lines[0], "[]", lines[2], "\0"],
                r"cells\.jsonl line 2 \(not a result\), cells\.jsonl line 4 \(not JSON\)",
            ),
            (
                [*lines[:2], other, lines[3]],
                r"cells\.jsonl line 3 \(its checksum does not match its content\)",
            ),
        ):
            file.write_text("\n".join(bad) + "\n")
            with pytest.raises(ValueError, match=rf"holds damaged results: {said}\. Run"):
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
        file = tmp_path / "cells" / f"{record['key']}.json"
        file.write_text(rubbish)
        with pytest.raises(ValueError, match=rf"cells/{file.name} \(.*recomputes their cells"):
            campaign.pack(tmp_path)
        with pytest.raises(ValueError, match=f"holds damaged results: cells/{file.name}"):
            list(campaign.results(tmp_path))
        assert not (tmp_path / "cells.jsonl").exists()

    @pytest.mark.slow
    def test_many_at_once_beside_a_running_campaign_lose_nothing(self, tmp_path: Path) -> None:
        _, results = self.made(tmp_path / "made")
        many = []
        for number in range(30):
            cell = json.loads(json.dumps(results[0]["cell"]))
            cell["training"]["seed"] = number
            many.append(results[0] | {"key": key_of(cell), "cell": cell})
        stop = threading.Event()

        def packing(_: int) -> None:
            while not stop.wait(0.05):
                campaign.pack(tmp_path)

        with ThreadPoolExecutor(4) as pool:
            work = pool.map(packing, range(4))
            try:
                for number, result in enumerate(many, start=1):
                    records.publish(tmp_path, result["key"], records.sealed(result))
                    found = records.look(tmp_path)
                    assert found.lines.keys() == {earlier["key"] for earlier in many[:number]}
            finally:
                stop.set()
            list(work)
        assert campaign.pack(tmp_path) == 30 and not files(tmp_path)
        assert list(campaign.results(tmp_path)) == sorted(many, key=lambda result: result["key"])

    def test_without_results_there_is_nothing_to_pack(self, tmp_path: Path) -> None:
        run = CliRunner().invoke(cli.app, ["study", "pack", str(tmp_path)])
        assert run.exit_code == 2 and "There are no results" in run.output


@pytest.mark.slow
def test_dask_gives_the_same_bytes(tmp_path: Path) -> None:
    study = small(3)
    campaign.run(study, tmp_path / "here", progress=False)
    campaign.run(study, tmp_path / "dask", on=2, progress=False)
    assert cells(tmp_path / "here") == cells(tmp_path / "dask")


def test_workers_do_not_have_the_slow_allocator_setting() -> None:
    with engine.connect(1) as client:
        found = client.run(os.environ.copy)
    (environment,) = found.values()
    assert "MALLOC_TRIM_THRESHOLD_" not in environment and environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_worker_comes_back_however_often_it_is_killed() -> None:
    """Dask may give up on a killed worker, for example after the second of two kills."""
    pytest.importorskip("distributed")  # first, since the next import would override its settings
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}),
        engine.connect(1) as client,
    ):
        before = client.submit(os.getpid).result()
        os.kill(before, signal.SIGKILL)
        assert client.submit(os.getpid, pure=False).result(timeout=30) != before


def test_engines_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="`on` should be at least 1 worker, got 0"), engine.connect(0):
        pass
    for place in (True, 2.0, object(), ["tcp://x"]):
        with pytest.raises(TypeError, match="`on` should be a number of workers, the address"):
            engine.connect(place).__enter__()
    with pytest.raises(
        ValueError, match=r"`on` should select one place where work runs, got \[1, 'tcp://x'\]"
    ):
        engine.one_place(1, None, "tcp://x")


@pytest.mark.parametrize("old", ["workers", "scheduler", "client"])
def test_old_words_for_a_place_warn_and_mean_on(old: str) -> None:
    @engine.takes_old_places
    def work(*, on: engine.On = None) -> engine.On:
        return on

    old_work: Any = work
    with pytest.warns(DeprecationWarning, match=f"`{old}` is now `on`"):
        assert old_work(**{old: "there"}) == "there"
    with pytest.raises(TypeError, match="unexpected keyword argument 'worker'"):
        old_work(worker=2)
    assert list(inspect.signature(work).parameters) == ["on"]


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_the_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    script = "from guardband.base import engine\nwith engine.connect(1):\n    pass\n"
    (tmp_path / "unguarded.py").write_text(script)
    found = subprocess.run([sys.executable, tmp_path / "unguarded.py"], capture_output=True, text=True)
    last = found.stderr.strip().splitlines()[-1]
    assert "No worker could be started" in last and 'below `if __name__ == "__main__":`' in last


def test_a_scheduler_without_workers_is_waited_for_aloud() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        pytest.warns(UserWarning, match="No worker has connected to tcp://127.0.0.1:.* yet"),
        engine.connect(cluster.scheduler_address),
    ):
        pass


def test_a_lost_scheduler_ends_a_campaign_with_a_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    def gone(*_: Any) -> Any:
        raise engine.SchedulerGone("The scheduler has stopped.")

    monkeypatch.setattr(engine, "each", gone)
    with pytest.raises(campaign.CampaignError, match="The scheduler has stopped"):
        campaign.run(small(1), tmp_path, on=SimpleNamespace(scheduler_info=None), progress=False)


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
from guardband import lab
from guardband import pinn
from guardband.lab.studies import Training, Factory, grid


@dataclass(frozen=True)
class Decay(pinn.Problem):
    domain = pinn.Time(0, 1)

    def residual(self, x, u):
        return u.d("t") + u.value

    def solution(self, x):
        return torch.exp(-x)


def near(fitted):
    return gb.predictors.Distance(fitted, n_neighbors=3)


def own_split(train):
    return gb.Split()


recipe = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=4)
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
    run = CliRunner().invoke(cli.app, ["study", "run", str(tmp_path / "own.py"), "--out", out, "--on", "1"])
    assert run.exit_code == 0 and "4 done, 0 failed" in run.output
    assert "4 done" in CliRunner().invoke(cli.app, ["study", "status", out]).output
    (tmp_path / "own.py").unlink()
    (tmp_path / "out" / "README.md").unlink()
    assert "4 results" in CliRunner().invoke(cli.app, ["study", "table", out]).output
    assert "| near" in (tmp_path / "out" / "README.md").read_text()
    kinds = {path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert kinds == {".json", ".jsonl", ".md"}, "no code travels through the folder"


@pytest.mark.slow
def test_the_study_of_the_docs_runs_as_written(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "studies.md").read_text()
    (tmp_path / "my_study.py").write_text(page.split("```python\n")[1].split("```")[0])
    words = ["study", "run", str(tmp_path / "my_study.py"), "--out", str(tmp_path / "rod"), "--on", "2"]
    run = CliRunner().invoke(cli.app, words)
    assert run.exit_code == 0 and "6 done, 0 failed" in run.output
    assert "| Laplace | 2 |" in (tmp_path / "rod" / "README.md").read_text()


@pytest.fixture
def recipes(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """The study of the docs with short trainings, its page's scripts, and an environment to run them."""
    page = (Path(__file__).parent.parent / "docs" / "studies.md").read_text()
    study = page.split("```python\n")[1].split("```")[0]
    brief = "seed=seed, recipe=pinn.Recipe(steps=20, finish=0))"
    (tmp_path / "my_study.py").write_text(study.replace("seed=seed)", brief))
    scripts = [block.partition("\n")[2].split("```")[0] for block in page.split("\n```")[1::2]]
    return scripts, os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_the_recipe_for_submitit_runs(recipes: tuple[list[str], dict[str, str]], tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    scripts, environment = recipes
    (script,) = [script for script in scripts if "import submitit" in script]
    (tmp_path / "submit.py").write_text(script)
    words = [sys.executable, "submit.py"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said == ["3 done, 0 failed, 0 running, 0 to do"] * 2 + ["6 done, 0 failed, 0 running, 0 to do"]
    assert "| Laplace | 2 |" in (tmp_path / "rod" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_recipe_for_job_arrays_runs(recipes: tuple[list[str], dict[str, str]], tmp_path: Path) -> None:
    scripts, environment = recipes
    start = "from guardband.cli import run; run()"
    command = f"guardband() {{ {sys.executable} -c '{start}' \"$@\"; }}; set -e\n"
    (script,) = [script for script in scripts if "#SBATCH" in script]
    (join,) = [script for script in scripts if "cat part-*" in script]
    for i in "12":
        part = command + script.replace("/50", "/2").replace("/shared/rod", f"part-{i}")
        task = environment | {"SLURM_ARRAY_TASK_ID": i}
        subprocess.run(["bash", "-c", part], cwd=tmp_path, env=task, check=True, timeout=300)
    subprocess.run(["bash", "-c", command + join], cwd=tmp_path, env=environment, check=True, timeout=300)
    assert campaign.status(tmp_path / "rod").done == 6 and (tmp_path / "rod" / "README.md").exists()


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(cli.app, ["study", *words])
        assert result.exit_code == 2
        return result.output

    assert "`only` should name" in said("paper", "--only", "table9", "--out", str(tmp_path / "a"))
    assert "`presets` should be some of" in said("paper", "--preset", "our", "--out", str(tmp_path / "a"))
    assert "has no study.json" in said("status", str(tmp_path))
    (tmp_path / "empty.py").write_text("study = 3")
    assert "should define a `study`" in said("run", str(tmp_path / "empty.py"), "--out", str(tmp_path / "b"))
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
    """Start a scheduler and two workers as separate processes that can be killed."""

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
    with engine.connect(1) as client, pytest.raises(TimeoutError, match="did not answer"):
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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:No worker has connected to")
def test_twenty_killed_workers_and_a_killed_scheduler_lose_nothing(tmp_path: Path, cluster: Cluster) -> None:
    whole = lab.paper.study(smoke=True, presets=["ours"])
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
            campaign.run(study, tmp_path / "dask", on=address, progress=False)
        killer.join()
        cluster.stop()
    cluster.start()
    status = campaign.run(study, tmp_path / "dask", on=cluster.address, progress=False)
    assert killed == 20 and status.done == 40
    assert cells(tmp_path / "dask") == cells(tmp_path / "serial")


COUNTING = """
import sys
from pathlib import Path
from types import SimpleNamespace
from guardband.lab import campaign
from guardband.lab import paper
from guardband.lab.studies import Study, runner

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


def test_workers_that_write_elsewhere_are_noticed(tmp_path: Path, monkeypatch: Any) -> None:
    waited: list[float] = []
    monkeypatch.setattr("guardband.lab.campaign.time.sleep", waited.append)
    with pytest.raises(campaign.CampaignError, match="the workers do not share this folder"):
        campaign._check_visible(tmp_path, {"abc": "done"})
    assert len(waited) == campaign.PATIENCE, "a folder on the network may show it late"
    campaign._check_visible(tmp_path, {"abc": "busy"})
