"""Hostile folders: what a stranger may put there ends in one error, soon, and without much memory.

And what SECURITY.md promises is proved by tests that are there.
"""

import ast
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.files import UnsafeFile, read_bytes
from guardband.limits import shown
from guardband.store import MANIFEST, versions
from helpers import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()
SOURCES = sorted((ROOT / "src/guardband").rglob("*.py"))
pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and holes are those of POSIX")
SECONDS, ROOM = 2.0, 200 * 2**20
"""CPU time and memory that a hostile folder may take, above a process that has imported guardband."""


def saved(folder: Path) -> Path:
    return gb.save(gb.calibrate_arrays(np.zeros(50), np.arange(50.0), confidence="0.9"), folder)


def forged(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest as somebody would who makes its hash right again."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    manifest.pop("sha256")
    edit(manifest)
    path.unlink()
    path.write_text(json.dumps(manifest | {"sha256": versions.digest(manifest)}))


def arrays(folder: Path) -> Path:
    return next(folder.glob("arrays-*.safetensors"))


def instead(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


def hole(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def larger(folder: Path, size: int) -> None:
    """Arrays of nearly nothing, which the manifest calls large."""
    path = arrays(folder)
    hole(path, size)
    forged(folder, lambda m: m["files"][path.name].update(bytes=size))


def fields(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["value"]["calibrated"]["fields"]


def confident(text: Any) -> Callable[[Path], Any]:
    return lambda folder: forged(folder, lambda m: fields(m).update(confidence=text))


def many(folder: Path) -> None:
    """One large array that is named two hundred times."""
    big = gb.calibrate_arrays(np.zeros(5_000_000), np.zeros(5_000_000))
    gb.save(big, folder, overwrite=True)
    forged(folder, lambda m: fields(m).update(groups=[fields(m)["y"]] * 200))


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "the manifest is a pipe": lambda folder: instead(folder / MANIFEST, os.mkfifo),
    "the arrays are a pipe": lambda folder: instead(arrays(folder), os.mkfifo),
    "the manifest is a link to a device": lambda folder: instead(
        folder / MANIFEST, lambda path: path.symlink_to("/dev/zero")
    ),
    "the arrays are a link to a device": lambda folder: instead(
        arrays(folder), lambda path: path.symlink_to("/dev/zero")
    ),
    "the manifest is a link": lambda folder: instead(
        folder / MANIFEST, lambda path: path.symlink_to(folder / "other.json")
    ),
    "the manifest is a folder": lambda folder: instead(folder / MANIFEST, Path.mkdir),
    "a hole of 5 GiB": lambda folder: larger(folder, 5 * 2**30),
    "a hole of 5 GiB that is not declared": lambda folder: hole(arrays(folder), 5 * 2**30),
    "a manifest of 30 MiB of brackets": lambda folder: (folder / MANIFEST).write_text("[" * 30_000_000),
    "a manifest of 30 MiB of nothing": lambda folder: (folder / MANIFEST).write_text("[" + "0," * 15_000_000),
    "a manifest of 40 MiB": lambda folder: hole(folder / MANIFEST, 40 * 2**20),
    "a number of many digits": lambda folder: (folder / MANIFEST).write_text("1" * 10_000_000),
    "a fraction with a huge exponent": confident({"fraction": "1e999999999"}),
    "a fraction with a tiny exponent": confident({"fraction": "1e-999999999"}),
    "a fraction of many digits": confident({"fraction": "0." + "9" * 1_000_000}),
    "a quotient of many digits": confident({"fraction": "1/" + "9" * 1_000_000}),
    "a confidence with a tiny exponent": confident("1e-99999999"),
    "a confidence with a huge exponent": confident("1e99999999"),
    "sizes that are none": lambda folder: forged(
        folder, lambda m: m["files"][arrays(folder).name].update(bytes=-1)
    ),
    "a size beyond all measure": lambda folder: forged(
        folder, lambda m: m["files"][arrays(folder).name].update(bytes=10**30)
    ),
    "a name of another folder": lambda folder: forged(folder, lambda m: m.update(files={"../x": {}})),
}

LOADER = """
import json, resource, sys, time
import guardband as gb
gb.conformal, gb.store, gb.predictors, gb.calibrate_arrays
import torch
start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    gb.load(sys.argv[1])
    found = "loaded"
except Exception as error:
    found = f"{type(error).__name__}: {error}"
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([found, time.process_time() - start, (after - before) * 1024]))
"""


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_in_one_error(name: str, tmp_path: Path) -> None:
    ATTACKS[name](saved(tmp_path))
    started = time.process_time()
    with pytest.raises(gb.ArtifactError) as caught:
        gb.load(tmp_path)
    assert time.process_time() - started < SECONDS and len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_takes_little_time_and_memory(name: str, tmp_path: Path) -> None:
    ATTACKS[name](saved(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    found, seconds, memory = json.loads(done.stdout)
    print(f"{name}: {seconds:.2f} CPU s, {memory / 2**20:.0f} MiB")
    assert found.startswith("ArtifactError") and seconds < SECONDS and memory < ROOM


def test_an_array_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    many(saved(tmp_path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(gb.ArtifactError):
        gb.load(tmp_path)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 8 * 40e6 + ROOM


def test_levels_of_any_size_end_soon() -> None:
    made = gb.calibrate_arrays(np.zeros(20), np.arange(20.0))
    started = time.process_time()
    for level in ("1e-999999999", "1e999999999", "0." + "9" * 10**6, "1/" + "3" * 10**6, "nan", "1e-9e9"):
        with pytest.raises(ValueError, match="`level` should"):
            made.band(gb.Prediction(None, [0.0]), level)
    assert time.process_time() - started < SECONDS


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    assert read_bytes(path, at_most=5) == b"12345" == read_bytes(tmp_path / "link", at_most=5, follow=True)
    for name, text in (("link", "is no regular file"), ("pipe", "is no regular file"), (".", "no regular")):
        with pytest.raises(UnsafeFile, match=text):
            read_bytes(tmp_path / name, at_most=5)
    with pytest.raises(UnsafeFile, match="has 5 bytes; at most 4 are read"):
        read_bytes(path, at_most=4)
    hole(path, 2**30)
    with pytest.raises(UnsafeFile, match="nearly all are holes"):
        read_bytes(path, at_most=2**31)


def test_names_are_shown_escaped_and_cut() -> None:
    assert shown("\x1b[2Jname") == r"'\x1b[2Jname'"
    assert len(shown("x" * 100_000)) < 100 and "digits" in shown(10**10_000)


def test_a_folder_is_not_written_over_unless_asked(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(FileExistsError, match="holds a calibration already"):
        saved(tmp_path)
    (tmp_path / "arrays-of-my-own.safetensors").write_text("mine")
    mine = f"arrays-{'0' * 16}.safetensors"
    (tmp_path / mine).write_text("mine too")
    other = gb.calibrate_arrays(np.zeros(9), np.arange(9.0))
    gb.save(other, tmp_path, overwrite=True)
    assert gb.load(tmp_path).n == 9
    assert {path.name for path in tmp_path.iterdir()} == {
        MANIFEST,
        arrays_of(tmp_path),
        mine,
        "arrays-of-my-own.safetensors",
    }


def arrays_of(folder: Path) -> str:
    return next(iter(gb.store.manifest(folder)["files"]))


def test_what_stopped_writers_left_is_taken_away(tmp_path: Path) -> None:
    saved(tmp_path)
    left = arrays(tmp_path).read_bytes()
    gb.save(gb.calibrate_arrays(np.zeros(9), np.arange(9.0)), tmp_path, overwrite=True)
    (tmp_path / ".manifest.json.abcd1234").write_text("{")
    (tmp_path / f"arrays-{versions.sha256_of(left)[:16]}.safetensors").write_bytes(left)
    gb.save(gb.calibrate_arrays(np.zeros(8), np.arange(8.0)), tmp_path, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [arrays_of(tmp_path), MANIFEST]


def crowd(folder: Path, saves: int, loads: int, writers: int = 2, readers: int = 4) -> None:
    """Writers and readers at once: each load is of one version, and nothing is left over."""
    made = [gb.calibrate_arrays(np.zeros(20 + k), np.arange(20.0 + k)) for k in range(writers)]
    gb.save(made[0], folder)
    failed: list[BaseException] = []

    def run(task: Callable[[], Any], times: int) -> None:
        try:
            for _ in range(times):
                task()
        except BaseException as error:
            failed.append(error)

    def look() -> None:
        assert 20 <= gb.load(folder).n < 20 + writers

    tasks: list[tuple[Callable[[], Any], int]] = [(look, loads // readers)] * readers
    tasks += [(lambda one=one: gb.save(one, folder, overwrite=True), saves // writers) for one in made]
    threads = [threading.Thread(target=run, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert sorted(path.name for path in folder.iterdir()) == [arrays_of(folder), MANIFEST]


def test_writers_and_readers_at_once(tmp_path: Path) -> None:
    crowd(tmp_path, 40, 80)


@pytest.mark.long
def test_many_writers_and_readers_at_once(tmp_path: Path) -> None:
    crowd(tmp_path, 1000, 5000)


def names(path: Path) -> set[str]:
    """The tests of a file, and its classes."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_every_test_that_is_named_is_there() -> None:
    known: set[str] = set()
    found = re.findall(r"`(tests/test_\w+\.py)?(?:::(\w+))?`", PAGE)
    rows = [(file, test) for file, test in found if file or test]
    assert len(rows) > 15
    for file, test in rows:
        known = names(ROOT / file) if file else known
        assert not test or test in known, test


def test_no_room_reads_a_pickle_or_runs_what_it_reads() -> None:
    words = r"^\s*(import|from) (pickle|marshal|shelve|dill)\b|(?<![.\w])(eval|exec)\(|pickle\.loads?\("
    for path in SOURCES:
        assert not re.search(words, path.read_text(), flags=re.MULTILINE), path.name
