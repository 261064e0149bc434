"""Records: what the disk holds is what was written, the first result stays, and a folder runs nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import guardband as gb
from guardband import campaign, cli, leases
from guardband.predictors import MeanOnly
from guardband.problems import Poisson1D
from guardband.studies import Cell, Factory, Study, Training, records, tables
from guardband.studies.base import describe, key_of
from guardband.studies.tables import write_page

ROOT = Path(__file__).parent.parent
TRAINING = Training(Poisson1D(), (8,), n=30, recipe=gb.Recipe(steps=5, finish=0, n_interior=16, n_boundary=4))
CELL = Cell("poisson", "constant", TRAINING, Factory(MeanOnly), cal=30, test=20, draws=5)
STUDY = Study("one", [CELL], write_page)


def a_result(**more: Any) -> dict[str, Any]:
    """A result of the cell that no network was trained for."""
    found = {"covered": [1, 2, 3], "acd": 0.123456789, "note": "width"}
    rest = {"found": found, "versions": {"python": "3.11"}, "threads": 1, "seconds": {"training": 0.25}}
    return {"key": CELL.key, "cell": describe(CELL), **rest, **more}


def put(folder: Path, line: str, packed: bool = False) -> Path:
    file = folder / "cells.jsonl" if packed else records.path(folder, CELL.key)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line + "\n")
    return file


def said(*words: str) -> str:
    """What a command says that ends with the status of a wrong input: one sentence, no traceback."""
    run = CliRunner().invoke(cli.app, ["study", *words])
    assert run.exit_code == 2 and isinstance(run.exception, SystemExit), run.output
    assert "Traceback" not in run.output
    return run.output


class TestChecksums:
    @pytest.mark.parametrize("packed", [False, True])
    def test_no_flipped_bit_is_taken_as_data(self, packed: bool, tmp_path: Path) -> None:
        result = a_result(lease=0)
        file = put(tmp_path, records.sealed(result), packed)
        whole, generator = file.read_bytes(), np.random.default_rng(0)
        for place in generator.choice(8 * len(whole), size=300, replace=False).tolist():
            flipped = bytearray(whole)
            flipped[place // 8] ^= 1 << place % 8
            file.write_bytes(flipped)
            assert not records.exists(tmp_path, CELL.key) or records.read(tmp_path, CELL.key) == result

    @pytest.mark.parametrize("packed", [False, True])
    def test_an_empty_a_cut_and_a_changed_result_are_named(self, packed: bool, tmp_path: Path) -> None:
        line = records.sealed(a_result(lease=0))
        for bad, trouble in (
            ("", "empty"),
            (line[:100], "not JSON"),
            (line.replace("0.123456789", "0.123456788"), "its checksum is not that of its content"),
            (line.replace('"sha256"', '"sha257"'), "its checksum is missing"),
        ):
            file = put(tmp_path, bad, packed)
            place = "cells.jsonl line 1" if packed else f"cells/{file.name}"
            status = campaign.status(tmp_path, STUDY)
            assert status.damaged == {place: trouble} and status.done == 0 and status.missing == 1
            assert f"damaged {place}: {trouble}" in str(status)
            with pytest.raises(records.DamagedResults, match=f"{file.name} is damaged: .*{trouble}"):
                records.read(tmp_path, CELL.key)

    @pytest.mark.parametrize("packed", [False, True])
    def test_run_makes_a_damaged_cell_again(self, packed: bool, tmp_path: Path) -> None:
        put(tmp_path, records.sealed(a_result())[:200], packed)
        with pytest.warns(UserWarning, match="held damaged results: .* their cells are made again"):
            status = campaign.run(STUDY, tmp_path, progress=False)
        assert str(status) == "1 done, 0 failed, 0 running, 0 to do"
        (result,) = campaign.results(tmp_path)
        assert result["found"]["points"] == 100 and len(list((tmp_path / "damaged").iterdir())) == 1

    @pytest.mark.parametrize("packed", [False, True])
    def test_results_of_before_are_read_and_packing_adds_a_checksum(
        self, packed: bool, tmp_path: Path
    ) -> None:
        old = a_result()
        put(tmp_path, json.dumps(old), packed)
        assert list(campaign.results(tmp_path)) == [old]
        assert campaign.pack(tmp_path) == 1
        line = json.loads((tmp_path / "cells.jsonl").read_text())
        assert line["sha256"] == records.checksum(old) and list(campaign.results(tmp_path)) == [old]

    @pytest.mark.slow
    def test_every_stored_line_of_the_paper_has_a_checksum(self) -> None:
        lines = [json.loads(line) for line in records.packed(ROOT / "results" / "paper").values()]
        assert len(lines) == 1137 and all(line["sha256"] == records.checksum(line) for line in lines)
        assert all(line["key"] == key_of(line["cell"]) for line in lines)

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
    @pytest.mark.parametrize("kind", ["pipe", "link", "endless", "folder"])
    def test_what_is_no_regular_file_is_damaged(self, kind: str, tmp_path: Path) -> None:
        file = put(tmp_path, "")
        file.unlink()
        unusual(file, kind, tmp_path)
        ((_, trouble),) = campaign.status(tmp_path, STUDY).damaged.items()
        assert trouble == "is no regular file" and not records.exists(tmp_path, CELL.key)

    def test_a_file_that_is_too_large_is_not_read(self, tmp_path: Path) -> None:
        file = put(tmp_path, "")
        os.truncate(file, records.CELL_BYTES + 1)
        assert "at most" in campaign.status(tmp_path, STUDY).damaged[f"cells/{file.name}"]

    def test_no_more_is_packed_than_is_read(self, tmp_path: Path, monkeypatch: Any) -> None:
        file = put(tmp_path, records.sealed(a_result()))
        monkeypatch.setattr(records, "PACK_BYTES", 100)
        with pytest.raises(ValueError, match="more than the 100 bytes that a pack may hold"):
            campaign.pack(tmp_path)
        assert file.exists()


def unusual(path: Path, kind: str, folder: Path) -> None:
    """Something else than a regular file under a name."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        target = Path("/dev/zero") if kind == "endless" else folder / "target"
        if kind == "link":
            target.write_text(records.sealed(a_result()))
        path.symlink_to(target)


class TestFirstResult:
    def test_the_first_complete_result_stays(self, tmp_path: Path) -> None:
        first, second = (records.sealed(a_result(lease=number)) for number in (0, 1))
        assert records.publish(tmp_path, CELL.key, first)
        assert not records.publish(tmp_path, CELL.key, second)
        assert records.read(tmp_path, CELL.key) == a_result(lease=0)
        campaign.pack(tmp_path)
        assert not records.publish(tmp_path, CELL.key, second)
        assert records.read(tmp_path, CELL.key) == a_result(lease=0)
        assert not list((tmp_path / "cells").iterdir()), "no temporary file is left"

    @pytest.mark.parametrize("packed", [False, True])
    def test_also_if_it_comes_while_the_second_is_written(
        self, packed: bool, tmp_path: Path, monkeypatch: Any
    ) -> None:
        original = records._linked

        def paused(temporary: Path, place: Path) -> bool:
            monkeypatch.setattr(records, "_linked", original)
            assert records.publish(tmp_path, CELL.key, records.sealed(a_result(lease=1)))
            if packed:
                campaign.pack(tmp_path)
            return original(temporary, place)

        monkeypatch.setattr(records, "_linked", paused)
        assert not records.publish(tmp_path, CELL.key, records.sealed(a_result(lease=0)))
        assert records.read(tmp_path, CELL.key) == a_result(lease=1)

    def test_a_damaged_one_gives_way(self, tmp_path: Path) -> None:
        put(tmp_path, "{")
        assert records.publish(tmp_path, CELL.key, records.sealed(a_result()))
        assert records.read(tmp_path, CELL.key) == a_result()

    def test_a_sound_one_that_was_taken_for_damaged_goes_back(self, tmp_path: Path) -> None:
        file = put(tmp_path, records.sealed(a_result()))
        records._put_aside(tmp_path, file)
        assert records.read(tmp_path, CELL.key) == a_result() and not list((tmp_path / "damaged").iterdir())

    def test_a_file_system_without_links_is_enough(self, tmp_path: Path, monkeypatch: Any) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "link", refuse)
        self.test_the_first_complete_result_stays(tmp_path)

    def test_the_writer_is_known_by_its_lease(self, tmp_path: Path) -> None:
        dead = leases.Lease(tmp_path, CELL.key)
        assert dead.take(0.0) and dead.path is not None
        os.utime(dead.path, (0, 0))
        campaign.run(STUDY, tmp_path, progress=False)
        (result,) = campaign.results(tmp_path)
        assert result["lease"] == 1
        assert os.listdir(tmp_path / "leases") == [".clock"], "what the dead left is swept"


class TestLeases:
    def taken(self, folder: Path) -> Any:
        lease = leases.Lease(folder, CELL.key)
        assert lease.take(leases.now_in(folder)) and lease.path is not None
        return lease

    def test_who_was_paused_removes_no_lease_but_its_own(self, tmp_path: Path) -> None:
        first = self.taken(tmp_path)
        os.utime(first.path, (0, 0))
        second = self.taken(tmp_path)
        first.give_back()
        assert second.path.exists() and not first.path.exists()
        assert not leases.Lease(tmp_path, CELL.key).take(leases.now_in(tmp_path)), "no third takes the cell"

    def test_a_lease_of_the_same_number_is_not_mistaken_for_the_own_one(self, tmp_path: Path) -> None:
        first = self.taken(tmp_path)
        first.path.unlink()
        second = self.taken(tmp_path)
        assert second.path == first.path
        os.utime(second.path, (0, 0))
        first.touch()
        first.give_back()
        assert second.path.exists() and second.path.stat().st_mtime == 0

    @pytest.mark.parametrize("days", [-1, 1])
    def test_a_lease_of_another_day_is_not_alive(self, days: int, tmp_path: Path) -> None:
        lease = self.taken(tmp_path)
        then = leases.now_in(tmp_path) + days * 86400
        os.utime(lease.path, (then, then))
        assert campaign.status(tmp_path, STUDY).running == 0
        assert self.taken(tmp_path).number == 1

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
    def test_only_the_clock_of_the_file_system_is_asked(self, tmp_path: Path, monkeypatch: Any) -> None:
        lease = self.taken(tmp_path)
        for wrong in (0.0, time.time() + 86400):
            monkeypatch.setattr(time, "time", lambda wrong=wrong: wrong)
            assert lease.alive(leases.now_in(tmp_path))
        (tmp_path / "leases" / ".clock").unlink()
        (tmp_path / "leases" / ".clock").symlink_to(tmp_path / "elsewhere")
        assert lease.alive(leases.now_in(tmp_path)), "who cannot touch takes the latest touch for the present"
        assert not (tmp_path / "elsewhere").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
    def test_strangers_in_the_folder_of_leases_do_no_harm(self, tmp_path: Path) -> None:
        place = tmp_path / "leases"
        place.mkdir()
        for name in (
            "notes.txt",
            f"{CELL.key}.txt",
            f"{CELL.key}.",
            f"{CELL.key}.9{'0' * 30}",
            f"{CELL.key}.²",
        ):
            (place / name).write_text("rubbish")
        os.mkfifo(place / f"{CELL.key}.0")
        os.utime(place / f"{CELL.key}.0", (0, 0))
        assert str(campaign.status(tmp_path, STUDY)) == "0 done, 0 failed, 0 running, 1 to do"
        assert campaign.run(STUDY, tmp_path, progress=False).done == 1

    def test_a_full_disk_leaves_no_lease_behind(self, tmp_path: Path, monkeypatch: Any) -> None:
        def full(*_: Any) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr(json, "dump", full)
        with pytest.raises(OSError, match="No space"):
            leases.Lease(tmp_path, CELL.key).take(0.0)
        assert not list((tmp_path / "leases").iterdir())


class TestFolders:
    @pytest.mark.parametrize("named", ["evil.py", "./evil.py", "absolute", "evil"])
    def test_nothing_runs_that_a_folder_names(self, named: str, tmp_path: Path) -> None:
        mark = tmp_path / "ran"
        (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
        put(tmp_path, records.sealed(a_result()))
        named = str(tmp_path / "evil.py") if named == "absolute" else named
        for more in ({}, {"cells": [CELL.key]}, {"options": {}}):
            (tmp_path / "study.json").write_text(json.dumps({"study": named, **more}))
            for command in ("status", "table"):
                assert "a folder names no file to be run" in said(command, str(tmp_path))
        assert not mark.exists() and "evil" not in sys.modules

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            "\0\xff",
            "[" * 100_000,
            "{}",
            '{"study": 3}',
            '{"study": ["paper"]}',
            '{"study": "own"}',
            '{"study": "own", "cells": []}',
            '{"study": "own", "cells": 3}',
            '{"study": "own", "cells": ["../../passwd"]}',
            '{"study": "own", "cells": [1e999]}',
            '{"study": "paper"}',
            '{"study": "paper", "options": {"write": 1}}',
            '{"study": "paper", "options": {"only": [["table1"]]}}',
            '{"study": "paper", "options": {"only": ["table99"]}}',
            '{"study": "paper", "options": {"draws": "many"}}',
            '{"study": "paper", "options": {"seeds": 1000000000}}',
            '{"study": "\\u001b[2J' + "x" * 100_000 + '"}',
        ],
    )
    def test_a_broken_description_ends_in_a_sentence(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "study.json").write_text(text)
        for command in ("status", "table"):
            output = said(command, str(tmp_path))
            assert "study.json" in output or "`only` should name" in output
            assert len(output) < 2000 and "\x1b[2J" not in output

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
    @pytest.mark.parametrize("kind", ["pipe", "link", "endless", "folder", "large"])
    def test_a_description_that_is_no_regular_file_or_too_large(self, kind: str, tmp_path: Path) -> None:
        file = tmp_path / "study.json"
        if kind == "large":
            file.touch()
            os.truncate(file, 2**40)
        else:
            unusual(file, kind, tmp_path)
        for command in ("status", "table"):
            assert ("at most" if kind == "large" else "is no regular file") in said(command, str(tmp_path))

    def test_a_study_of_ones_own_gets_the_plain_table_of_its_cells(self, tmp_path: Path) -> None:
        campaign.run(STUDY, tmp_path, progress=False)
        (tmp_path / "README.md").unlink()
        (tmp_path / "study.json").write_text(json.dumps({"study": "own", "cells": [CELL.key, "0" * 16]}))
        run = CliRunner().invoke(cli.app, ["study", "table", str(tmp_path)])
        assert run.exit_code == 0 and "1 results" in run.output
        assert "| constant | 1 |" in (tmp_path / "README.md").read_text()
        run = CliRunner().invoke(cli.app, ["study", "status", str(tmp_path)])
        assert "1 done, 0 failed, 0 running, 1 to do" in run.output

    def test_the_paper_as_stored_before_is_still_known(self) -> None:
        run = CliRunner().invoke(cli.app, ["study", "status", str(ROOT / "results" / "paper")])
        assert run.exit_code == 0 and "1137 done, 0 failed, 0 running, 0 to do" in run.output

    def test_results_of_no_study_end_in_a_sentence(self, tmp_path: Path) -> None:
        put(tmp_path, records.sealed(a_result(found={"covered": "x"})))
        for word in ("own", "paper"):
            (tmp_path / "study.json").write_text(json.dumps({"study": word, "cells": [CELL.key]}))
            assert "No page can be made of the results" in said("table", str(tmp_path))

    def test_what_a_failure_says_cannot_write_to_the_terminal(self, tmp_path: Path) -> None:
        file = tmp_path / "failed" / f"{CELL.key}.json"
        file.parent.mkdir()
        (file.parent / "\x1b[2J.json").write_text("{}")
        failure = {"experiment": "\x1b[2J", "method": "m", "seed": 0, "error": "e" * 100_000}
        for text in (json.dumps(failure), "", "[]", "{", '{"experiment": 1}', "[" * 100_000):
            file.write_text(text)
            output = str(campaign.status(tmp_path, STUDY))
            assert "\x1b" not in output and len(output) < 1000 and f"failed {CELL.key}: " in output

    def test_a_page_of_results_that_claim_too_much_ends_in_a_sentence(self) -> None:
        lines = (ROOT / "results" / "paper" / "cells.jsonl").read_text().splitlines()
        result = json.loads(lines[0])
        result["cell"]["draws"] = 10**12
        with pytest.raises(ValueError, match="should count 1 to"):
            tables.broken([result])

    def test_no_pickle_is_read_by_campaigns(self) -> None:
        text = (ROOT / "src" / "guardband" / "campaign.py").read_text()
        assert "import pickle" not in text and "pickle.load(" not in text


PAUSED = """
import sys
from pathlib import Path
import test_records as here
from guardband import campaign, leases
leases.BEAT, leases.STALE = 0.05, 0.5
leases.Lease.__init__.__defaults__ = (0.5,)
print(campaign.run(here.many(), sys.argv[1], progress=False), flush=True)
"""


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    const char *said = getenv("CLOCK_SHIFT");
    return said ? atol(said) : 0;
}
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, t);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += shift();
    return failed;
}
int gettimeofday(struct timeval *t, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"""
DAY = 86_400


def clock(folder: Path) -> Path:
    """A library that shifts the clock of a process before which it is loaded."""
    (folder / "clock.c").write_text(CLOCK)
    made = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "clock.c", "-ldl"], check=True)
    return made


def many(count: int = 200) -> Study:
    """As many cells of a few quick trainings."""
    cells = [
        replace(CELL, method=f"constant {number}", training=replace(TRAINING, seed=number % 20))
        for number in range(count)
    ]
    return Study("many", cells, lambda *_: None)


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
def test_the_clock_of_a_process_can_be_shifted(tmp_path: Path) -> None:
    shifted = os.environ | {"LD_PRELOAD": str(clock(tmp_path)), "CLOCK_SHIFT": str(DAY)}
    command = [sys.executable, "-c", "import time; print(time.time())"]
    ahead = subprocess.run(command, env=shifted, capture_output=True, text=True, check=True)
    assert DAY - 1 < float(ahead.stdout) - time.time() <= DAY


@pytest.mark.long
@pytest.mark.parametrize("days", [(0, 0), (1, -1)])
def test_twenty_pauses_of_lease_holders_lose_nothing(days: tuple[int, int], tmp_path: Path) -> None:
    preload = str(clock(tmp_path))

    def start(day: int) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        words = [sys.executable, "-c", PAUSED, str(tmp_path / "paused")]
        shifted = {"LD_PRELOAD": preload, "CLOCK_SHIFT": str(day * DAY)}
        return subprocess.Popen(words, env=os.environ | {"PYTHONPATH": path} | shifted)

    generator = np.random.default_rng(0)
    both = [start(day) for day in days]
    time.sleep(6)
    pauses = 0
    while pauses < 20 and any(process.poll() is None for process in both):
        process = both[pauses % 2]
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(float(generator.uniform(0.6, 1.2)))
            process.send_signal(signal.SIGCONT)
        pauses += 1
        time.sleep(float(generator.uniform(0.05, 0.2)))
    assert [process.wait() for process in both] == [0, 0] and pauses == 20
    campaign.run(many(), tmp_path / "whole", progress=False)
    paused, whole = (list(campaign.results(tmp_path / name, many())) for name in ("paused", "whole"))
    assert len(paused) == len(whole) == 200
    assert [result["found"] for result in paused] == [result["found"] for result in whole]
