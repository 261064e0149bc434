"""Stored results equal the written ones, the first result of a key stays, and a folder runs no code."""

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

from guardband import cli, pinn
from guardband.lab import campaign
from guardband.lab.studies import Cell, Factory, Study, Training, records, tables
from guardband.lab.studies.base import describe, key_of
from guardband.lab.studies.tables import write_page
from guardband.pinn.problems import Poisson1D
from guardband.predictors import MeanOnly

ROOT = Path(__file__).parent.parent
TRAINING = Training(
    Poisson1D(), (8,), n=30, recipe=pinn.Recipe(steps=5, finish=0, n_interior=16, n_boundary=4)
)
CELL = Cell("poisson", "constant", TRAINING, Factory(MeanOnly), cal=30, test=20, draws=5)
STUDY = Study("one", [CELL], write_page)


def a_result(**more: Any) -> dict[str, Any]:
    """Return the result of a cell without training a network."""
    found = {"covered": [1, 2, 3], "acd": 0.123456789, "note": "width"}
    rest = {"found": found, "versions": {"python": "3.11"}, "threads": 1, "seconds": {"training": 0.25}}
    return {"key": CELL.key, "cell": describe(CELL), **rest, **more}


def put(folder: Path, line: str, packed: bool = False) -> Path:
    file = folder / "cells.jsonl" if packed else folder / "cells" / f"{CELL.key}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line + "\n")
    return file


def said(*words: str) -> str:
    """Return the message of a command that exits with status 2: one sentence, no traceback."""
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
            (line.replace("0.123456789", "0.123456788"), "its checksum does not match its content"),
            (line.replace('"sha256"', '"sha257"'), "its checksum is missing"),
        ):
            file = put(tmp_path, bad, packed)
            place = "cells.jsonl line 1" if packed else f"cells/{file.name}"
            status = campaign.status(tmp_path, STUDY)
            assert status.damaged == {place: trouble} and status.done == 0 and status.missing == 1
            assert f"damaged {place}: {trouble}" in str(status)
            with pytest.raises(records.DamagedResults, match=rf"damaged results: {place} \({trouble}"):
                records.read(tmp_path, CELL.key)

    @pytest.mark.parametrize("packed", [False, True])
    def test_run_makes_a_damaged_cell_again(self, packed: bool, tmp_path: Path) -> None:
        put(tmp_path, records.sealed(a_result())[:200], packed)
        with pytest.warns(UserWarning, match="held damaged results: .* their cells are recomputed"):
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
        lines = [json.loads(line) for line in records.look(ROOT / "results" / "paper").every]
        assert len(lines) == 1137 and all(line["sha256"] == records.checksum(line) for line in lines)
        assert all(line["key"] == key_of(line["cell"]) for line in lines)

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
    @pytest.mark.parametrize("kind", ["pipe", "link", "endless", "folder"])
    def test_what_is_no_regular_file_is_damaged(self, kind: str, tmp_path: Path) -> None:
        file = put(tmp_path, "")
        file.unlink()
        unusual(file, kind, tmp_path)
        ((_, trouble),) = campaign.status(tmp_path, STUDY).damaged.items()
        assert trouble == "is not a regular file" and not records.exists(tmp_path, CELL.key)

    @pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
    @pytest.mark.parametrize("name", ["cells", "damaged"])
    def test_a_linked_folder_is_not_followed(self, name: str, tmp_path: Path) -> None:
        folder, victim = tmp_path / "study", tmp_path / "victim"
        victim.mkdir()
        put(folder, "half a result")
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).symlink_to(victim)
        if name == "cells":
            calls = [
                lambda: records.publish(folder, CELL.key, records.sealed(a_result())),
                lambda: records.read(folder, CELL.key),
                lambda: campaign.status(folder, STUDY),
                lambda: campaign.pack(folder),
            ]
        else:
            calls = [lambda: records.pack(folder, aside=True)]
        for call in calls:
            with pytest.raises(records.DamagedResults, match=f"{name} is a link, which is not followed"):
                call()
        assert not list(victim.iterdir())

    def test_a_file_that_is_too_large_is_not_read(self, tmp_path: Path) -> None:
        file = put(tmp_path, "")
        os.truncate(file, records.CELL_BYTES + 1)
        assert "the limit is" in campaign.status(tmp_path, STUDY).damaged[f"cells/{file.name}"]

    def test_no_more_is_packed_than_is_read(self, tmp_path: Path, monkeypatch: Any) -> None:
        file = put(tmp_path, records.sealed(a_result()))
        monkeypatch.setattr(records, "PACK_BYTES", 100)
        with pytest.raises(ValueError, match="exceed the largest size of a pack, 100 bytes"):
            campaign.pack(tmp_path)
        assert file.exists()


def unusual(path: Path, kind: str, folder: Path) -> None:
    """Create something other than a regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        target = Path("/dev/zero") if kind == "endless" else folder / "target"
        if kind == "link":
            target.write_text(records.sealed(a_result()))
        path.symlink_to(target)


def other(seed: int, **more: Any) -> dict[str, Any]:
    """Return the result of another cell."""
    cell = describe(replace(CELL, training=replace(TRAINING, seed=seed)))
    return a_result(**more) | {"key": key_of(cell), "cell": cell}


def append(folder: Path, name: str, *results: dict[str, Any], torn: str = "") -> Path:
    """Append to the file of another process."""
    file = folder / "cells" / f"{name}.jsonl"
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as opened:
        opened.write("".join(f"{records.sealed(result)}\n" for result in results) + torn)
    return file


def publish(folder: Path, result: dict[str, Any]) -> bool:
    return records.publish(folder, result["key"], records.sealed(result))


def own(folder: Path) -> list[Path]:
    return sorted((folder / "cells").glob("*.jsonl"))


class TestAppending:
    def test_a_process_has_one_file(self, tmp_path: Path) -> None:
        for seed in range(5):
            assert publish(tmp_path, other(seed)) and records.exists(tmp_path, other(seed)["key"])
        (file,) = own(tmp_path)
        assert len(file.read_text().splitlines()) == 5

    def test_the_first_result_stays(self, tmp_path: Path) -> None:
        assert publish(tmp_path, a_result(lease="a")) and not publish(tmp_path, a_result(lease="b"))
        assert records.read(tmp_path, CELL.key) == a_result(lease="a")
        campaign.pack(tmp_path)
        assert not publish(tmp_path, a_result(lease="b"))
        assert records.read(tmp_path, CELL.key) == a_result(lease="a")
        assert not list((tmp_path / "cells").iterdir()), "no temporary file is left"

    @pytest.mark.parametrize("cut", [1, 100, -1])
    def test_a_torn_line_is_no_result_and_is_cut_off(self, cut: int, tmp_path: Path) -> None:
        """A full disk stores part of a line; a line without its newline also counts as incomplete."""
        publish(tmp_path, other(0))
        (file,) = own(tmp_path)
        append(tmp_path, file.stem, torn=f"{records.sealed(other(1))}\n"[:cut])
        found = records.look(tmp_path)
        assert found.lines.keys() == {other(0)["key"]} and not found.damaged
        assert publish(tmp_path, other(2)) and own(tmp_path) == [file]
        kept = [json.loads(line)["key"] for line in file.read_text().splitlines()]
        assert kept == [other(seed)["key"] for seed in (0, 2)]
        append(tmp_path, "dead", other(3), torn=records.sealed(other(4))[:cut])
        assert campaign.pack(tmp_path) == 3 and not own(tmp_path)

    def test_a_line_whose_write_ended_in_an_error_is_not_cut_if_it_is_whole(
        self, tmp_path: Path, monkeypatch: Any
    ) -> None:
        publish(tmp_path, other(0))

        def fail(_: int) -> None:
            raise OSError("Input/output error")

        with monkeypatch.context() as patched, pytest.raises(OSError, match="Input/output"):
            patched.setattr(os, "fsync", fail)
            publish(tmp_path, other(1))
        assert publish(tmp_path, other(2))
        assert records.look(tmp_path).lines.keys() == {other(seed)["key"] for seed in range(3)}

    def test_a_line_that_came_too_late_for_packing_is_written_again(
        self, tmp_path: Path, monkeypatch: Any
    ) -> None:
        publish(tmp_path, other(0))
        (file,) = own(tmp_path)
        original = os.fsync

        def packed(descriptor: int) -> None:
            monkeypatch.setattr(os, "fsync", original)
            file.unlink()  # as if it had been read just before this line was written
            original(descriptor)

        monkeypatch.setattr(os, "fsync", packed)
        publish(tmp_path, other(1))
        assert own(tmp_path) != [file] and records.exists(tmp_path, other(1)["key"])

    def test_a_file_that_is_long_enough_gets_a_successor(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(records, "FILE_BYTES", 2.5 * len(records.sealed(other(0))))
        for seed in range(7):
            publish(tmp_path, other(seed))
        assert len(own(tmp_path)) == 4 and len(records.look(tmp_path).lines) == 7

    def test_readers_read_only_what_is_new(self, tmp_path: Path, monkeypatch: Any) -> None:
        read, original = [], records._checked

        def counted(line: bytes, key: str | None) -> Any:
            read.append(line)
            return original(line, key)

        monkeypatch.setattr(records, "_checked", counted)
        for seed in range(50):
            append(tmp_path, "a", other(seed))
            assert records.exists(tmp_path, other(seed)["key"]) and len(read) == seed + 1

    def test_a_damaged_line_of_another_process_is_set_aside(self, tmp_path: Path) -> None:
        file = append(tmp_path, "a", other(0), torn="{\n")
        append(tmp_path, "a", other(1))
        assert campaign.status(tmp_path).damaged == {"cells/a.jsonl line 2": "not JSON"}
        with pytest.raises(records.DamagedResults):
            campaign.pack(tmp_path)
        assert file.exists()
        assert records.pack(tmp_path, aside=True) == 2 and not campaign.status(tmp_path).damaged
        (aside,) = (tmp_path / "damaged").iterdir()
        assert aside.read_bytes() == b"{\n"

    @pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
    @pytest.mark.parametrize("kind", ["pipe", "link", "endless", "folder"])
    @pytest.mark.parametrize("packed", [False, True])
    def test_what_is_no_regular_file_is_set_aside(self, kind: str, packed: bool, tmp_path: Path) -> None:
        append(tmp_path, "a", other(0))
        unusual(tmp_path / ("cells.jsonl" if packed else "cells/b.jsonl"), kind, tmp_path)
        assert list(campaign.status(tmp_path).damaged.values()) == ["is not a regular file"]
        assert records.pack(tmp_path, aside=True) == 1
        assert not campaign.status(tmp_path).damaged and len(list((tmp_path / "damaged").iterdir())) == 1

    def test_a_damaged_one_gives_way(self, tmp_path: Path) -> None:
        put(tmp_path, "{")
        assert publish(tmp_path, a_result())
        assert records.look(tmp_path).lines.keys() == {CELL.key}

    def test_a_file_system_without_links_is_enough(self, tmp_path: Path, monkeypatch: Any) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "link", refuse)
        self.test_the_first_result_stays(tmp_path)


class TestTwoResults:
    FIRST, SECOND = a_result(lease="a"), a_result(lease="b", seconds={"training": 9.0})
    OTHER = a_result(lease="c", found={"covered": [1, 2, 4]})

    def test_equal_numbers_are_one_result(self, tmp_path: Path) -> None:
        append(tmp_path, "b", self.FIRST)
        append(tmp_path, "a", self.SECOND)
        for _ in range(2):
            status = campaign.status(tmp_path)
            assert status.done == 1 and not status.differing
            assert list(campaign.results(tmp_path)) == [self.SECOND], "the file whose name comes first"
            campaign.pack(tmp_path)
        assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 1

    def test_different_numbers_are_reported_and_kept(self, tmp_path: Path) -> None:
        (tmp_path / "study.json").write_text(json.dumps({"study": "own", "cells": [CELL.key]}))
        append(tmp_path, "b", self.OTHER, self.FIRST)
        append(tmp_path, "a", self.FIRST, self.SECOND)
        for _ in range(3):
            status = campaign.status(tmp_path, STUDY)
            assert status.differing == {CELL.key: "2 results with different numbers; the first counts"}
            assert f"differing {CELL.key}: 2 results" in str(status)
            assert list(campaign.results(tmp_path)) == [self.FIRST]
            assert campaign.pack(tmp_path) == 1
        run = CliRunner().invoke(cli.app, ["study", "status", str(tmp_path)])
        assert run.exit_code == 0 and "differing" in run.output
        run = CliRunner().invoke(cli.app, ["verify", str(tmp_path)])
        assert run.exit_code == 2 and f"different numbers: {CELL.key}" in " ".join(run.output.split())
        with pytest.warns(UserWarning, match=f"differing results for the same cell: {CELL.key}"):
            campaign.run(replace(STUDY, write=lambda *_: None), tmp_path, progress=False)
        file = tmp_path / "cells.jsonl"
        kept, _ = file.read_text().splitlines(keepends=True)
        file.write_text(kept)
        assert not campaign.status(tmp_path).differing

    def test_a_file_of_one_result_comes_first_then_the_pack(self, tmp_path: Path) -> None:
        results = [a_result(lease=name) for name in "xyz"]
        append(tmp_path, "0", results[2])
        assert list(campaign.results(tmp_path)) == [results[2]]
        put(tmp_path, records.sealed(results[1]), packed=True)
        assert list(campaign.results(tmp_path)) == [results[1]]
        put(tmp_path, records.sealed(results[0]))
        assert list(campaign.results(tmp_path)) == [results[0]]
        campaign.pack(tmp_path)
        assert list(campaign.results(tmp_path)) == [results[0]]

    def test_the_order_holds_while_somebody_packs(self, tmp_path: Path, monkeypatch: Any) -> None:
        append(tmp_path, "a", a_result(lease="z"))
        put(tmp_path, records.sealed(self.FIRST), packed=True)

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        for _ in range(2):
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(records, "write_text", killed)
                campaign.pack(tmp_path)
            assert list(campaign.results(tmp_path)) == [self.FIRST]
            assert not (tmp_path / "cells.jsonl").exists()
        assert campaign.pack(tmp_path) == 1 and list(campaign.results(tmp_path)) == [self.FIRST]


WRITER = """
import sys
from pathlib import Path
import test_records as here
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    here.publish(Path(sys.argv[1]), here.other(seed))
"""


@pytest.mark.slow
def test_readers_and_packing_while_others_append(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(start), str(start + 100)],
            env=os.environ | {"PYTHONPATH": path},
        )
        for start in (0, 100)
    ]
    seen: set[str] = set()
    looks = 0
    while any(writer.poll() is None for writer in writers):
        found = records.look(tmp_path)
        assert not found.damaged and not found.differing
        assert seen <= found.lines.keys(), "what was seen is seen again"
        seen |= found.lines.keys()
        looks += 1
        if seen and looks % 3 == 0:
            records.pack(tmp_path)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert records.pack(tmp_path) == 200 and not own(tmp_path)


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
                assert "a folder cannot name a file to run" in said(command, str(tmp_path))
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
            why = "the limit is" if kind == "large" else "is not a regular file"
            assert why in said(command, str(tmp_path))

    def test_many_keys_are_looked_up_soon_and_repeated_ones_refused(self, tmp_path: Path) -> None:
        """0.2.0 looked for the file of each key, about 70 microseconds each."""
        file, keys = tmp_path / "study.json", [f"{i:016x}" for i in range(200_000)]
        file.write_text(json.dumps({"study": "own", "cells": keys + keys[:1]}))
        for command in ("status", "table"):
            assert "should list each key once" in said(command, str(tmp_path))
        file.write_text(json.dumps({"study": "own", "cells": keys}))
        start = time.process_time()
        assert "There are no results" in said("table", str(tmp_path))
        assert time.process_time() - start < 3

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
            assert "The page cannot be written from the results" in said("table", str(tmp_path))

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
        text = (ROOT / "src" / "guardband" / "lab" / "campaign.py").read_text()
        assert "import pickle" not in text and "pickle.load(" not in text


PAUSED = """
import sys
from pathlib import Path
import test_records as here
from guardband.lab import campaign
campaign.LEASE = 0.5
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
    """Build a library that shifts the clock of a process in which it is preloaded."""
    (folder / "clock.c").write_text(CLOCK)
    made = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "clock.c", "-ldl"], check=True)
    return made


def many(count: int = 200) -> Study:
    """Return this number of cells on a few short trainings."""
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
