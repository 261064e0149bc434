"""This release reads the files of 0.2.0, and they give the same numbers."""

import json
import shutil
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband import store
from guardband.base.kept import _KINDS, attributes
from helpers import ROOT, needs, script

BASELINE = script("tools/baseline.py")
DATA = ROOT / "tests/data/saved_by_0.2.0"
SAVED = {path.name: path for path in sorted((DATA / "saved").iterdir())}
STREAMS = [name for name, path in SAVED.items() if (path / BASELINE.SNAPSHOT).exists()]

NOT_STORED = {
    "Axes": "0.3.0",
    "ByFunction": "A SolvedFamily is saved whole, so one with a function of the user cannot be saved.",
    "OneSided": "New in 0.3.",
}
"""Kept kinds that no stored object holds, each with the reason; a kind newer than 0.2.0 gives its release."""

pytestmark = pytest.mark.filterwarnings("ignore::guardband.conformal.InfiniteBandWarning")


def nodes_in(folder: Path) -> list[dict[str, Any]]:
    """The entries of a manifest that are objects: their kind and their fields."""

    def found(node: Any) -> list[dict[str, Any]]:
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        own = [node] if isinstance(node, dict) and {"kind", "fields"} == set(node) else []
        return own + [one for child in children for one in found(child)]

    return found(json.loads((folder / store.MANIFEST).read_text())["value"])


def kinds_in(folder: Path) -> set[str]:
    """The kinds of objects that a manifest names."""
    return {node["kind"] for node in nodes_in(folder)}


def load(name: str) -> Any:
    """A stored object; functions that were not saved with it are passed again."""
    if missing := {"data_frame": "pandas", "float32": "torch"}.get(name):  # asked with a table or tensors
        pytest.importorskip(missing)
    about = store.manifest(SAVED[name])
    wanted = set(about["passed_at_load"]) - set(about["optional_at_load"])
    kinds = kinds_in(SAVED[name])
    return gb.load(SAVED[name], object, **{word: BASELINE.own(word, kinds) for word in wanted})


@pytest.fixture(scope="module")
def saved_again(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The stored objects, loaded and saved by this release, with today's names of kinds and attributes."""
    folder = tmp_path_factory.mktemp("saved_again")
    return {name: gb.save(load(name), folder / name) for name in SAVED}


def check(found: Any, expected: np.ndarray, rtol: float) -> None:
    """Equal bits with a tolerance of 0, else equal up to rounding, relative to the largest number."""
    found = np.asarray(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if rtol == 0:
        assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")
        return
    size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * size)


def check_answers(saved: Any, name: str) -> None:
    """Compare with the numbers that were stored with an object."""
    with np.load(SAVED[name] / BASELINE.ANSWERS) as stored:
        check(BASELINE.answers(saved, stored["x"]), stored["answers"], float(stored["rtol"]))


@pytest.mark.parametrize("name", SAVED)
def test_a_stored_object_gives_the_same_numbers(name: str) -> None:
    check_answers(load(name), name)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_continues_from_its_snapshot(name: str) -> None:
    saved = load(name)
    stream = gb.Stream(saved.calibrated, saved.level, method=saved.method, alarm=saved.alarm)
    stream.restore((SAVED[name] / BASELINE.SNAPSHOT).read_bytes())
    assert (stream.steps, stream.misses, stream.alarms) == (saved.steps, saved.misses, saved.alarms)
    check_answers(stream, name)


def test_some_stream_had_raised_an_alarm() -> None:
    assert any(load(name).alarms for name in STREAMS)


@needs("torch")
@pytest.mark.parametrize("recipe", BASELINE.RECIPES)
def test_a_training_continues_from_its_checkpoint(recipe: str, tmp_path: Path) -> None:
    """The last digits depend on the machine, and the remaining steps amplify them."""
    path = Path(shutil.copy(DATA / f"checkpoints/{recipe}.ckpt", tmp_path))
    steps = list[int]()
    fitted = BASELINE.resumable(recipe, path, lambda now: steps.append(now.step))
    assert min(steps) > BASELINE.INTERRUPTED[recipe]
    assert not path.exists()
    with np.load(DATA / f"checkpoints/{recipe}.npz") as stored:
        check(fitted(stored["x"]), stored["answers"], rtol=1e-6)


def test_watch_continues_from_its_snapshot(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "watch", tmp_path / "watch"))
    before, expected = ((folder / name).read_text() for name in ("out.jsonl", "expected.jsonl"))
    assert expected.startswith(before) and 0 < len(before) < len(expected)
    BASELINE.watch(folder)
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in expected.splitlines()]


def test_a_snapshot_of_another_output_is_refused(tmp_path: Path) -> None:
    """A snapshot of 0.2.0 has no journal, so no line after it is removed."""
    folder = Path(shutil.copytree(DATA / "watch", tmp_path / "watch"))
    out = folder / "out.jsonl"
    precious = out.read_text().replace('{"row": 7, ', '{"day": 7, ') + "notes\n"
    out.write_text(precious)
    with pytest.raises(AssertionError, match=r"Line 41 of .* were not written by this watcher"):
        BASELINE.watch(folder)
    assert out.read_text() == precious


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own warnings, and the pinned release
def test_an_mlflow_model_gives_the_same_answers() -> None:
    pytest.importorskip("mlflow")
    with np.load(DATA / "mlflow" / BASELINE.ANSWERS) as stored:
        check(BASELINE.ask_mlflow(DATA / "mlflow", stored["x"]), stored["answers"], rtol=1e-9)


def test_every_kept_kind_is_stored_or_has_a_reason(saved_again: dict[str, Path]) -> None:
    kept = {name for name, kind in _KINDS.items() if kind.cls.__module__.startswith("guardband.")}
    stored = set[str]().union(*map(kinds_in, saved_again.values()))
    assert kept - stored == set(NOT_STORED)


def test_attributes_are_called_as_they_are_today(saved_again: dict[str, Path]) -> None:
    """An attribute under an old name would be kept, and never read."""
    for folder in saved_again.values():
        for node in nodes_in(folder):
            cls = _KINDS[node["kind"]].cls
            if is_dataclass(cls) and _KINDS[node["kind"]].parts is attributes:
                assert set(node["fields"]) <= {one.name for one in fields(cls)}, (folder.name, cls)


def test_nothing_stored_names_a_machine() -> None:
    for path in DATA.rglob("*"):
        if path.is_file() and path.suffix != ".npz":
            data = path.read_bytes()
            assert not any(word in data for word in (b"/tmp", b"/home", b"/root", b"/Users", b"file:")), path
