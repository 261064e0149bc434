"""Fields on disk: the same bits as in memory, for any number of chunks and after any kill."""

import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.fields import verify
from guardband.fields.stored import StoredBand
from helpers import Later, needs
from wings import torch

xarray, zarr = Later("xarray"), Later("zarr")
pytestmark = needs("xarray", "zarr")

N, CAL = 90, 50
X, Y = np.linspace(0, 1, 12), np.linspace(0, 2, 10)


def wave(a: np.ndarray) -> np.ndarray:
    return np.sin(a)[..., None]


def dataset(n: int = N) -> Any:
    generator = np.random.default_rng(0)
    a = generator.normal(size=(n, 12, 10)) * np.exp(generator.normal(size=(n, 1, 1)))
    u = np.sin(a) + 0.2 * generator.normal(size=a.shape)
    dims = ("field", "x", "y")
    return xarray.Dataset({"a": (dims, a), "u": (dims, u)}, coords={"x": X, "y": Y})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    chunks = {name: {"chunks": (8, 12, 10)} for name in ("a", "u")}
    dataset().to_zarr(tmp_path / "f.zarr", encoding=chunks, consolidated=False)
    return tmp_path / "f.zarr"


def fields(source: Any) -> gb.StoredFields:
    return gb.StoredFields(source, x="a", y="u")


def in_memory(score: gb.conformal.Score, batch: int) -> gb.Calibrated:
    """A calibration on arrays, predicted in the same micro-batches."""
    data = dataset()[{"field": slice(CAL)}]
    x = data["a"].values
    mean = np.concatenate([np.sin(x[i : i + batch]) for i in range(0, CAL, batch)])[..., None]
    return gb.calibrate_arrays(mean, data["u"], x_cal=x, score=score)


SCORES = {
    "all": gb.Simultaneous(),
    "share": gb.Share(0.1),
    "L2": gb.Norm("L2"),
    "H1": gb.Norm("H1"),
    "quantity": gb.Quantity(lambda u: u.mean(axis=(1, 2, 3))),
}


@pytest.mark.slow("1-1-share", "1-1-L2", "1-1-H1", "1-1-quantity")
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("chunk", "batch"), [(None, None), (8, 4), (7, 7), (1, 1)])
def test_scores_are_those_of_memory_to_the_bit(
    name: str, chunk: int | None, batch: int | None, store: Path, tmp_path: Path
) -> None:
    made = gb.calibrate(
        wave,
        fields(store)[:CAL],
        scores=tmp_path / "s",
        score=SCORES[name],
        chunk=chunk,
        batch=batch,
        progress=False,
    )
    here = in_memory(SCORES[name], batch or CAL)
    assert np.array_equal(made.threshold.scores, here.threshold.scores)  # type: ignore[attr-defined]
    assert made.n == CAL and len(made.y) == 0 and made.grid == here.grid
    x = dataset()["a"].values[CAL:]
    for level in (0.5, 0.9):
        width = made(x, level).width
        assert np.array_equal(width, here.band(gb.Prediction(x, np.sin(x)[..., None]), level).width)


@pytest.mark.slow
def test_an_evaluation_is_that_of_memory(store: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"score": gb.Simultaneous()}
    data = dataset()
    x, y = data["a"].values, data["u"]
    here = gb.evaluate(gb.calibrate(wave, x[:CAL], y[:CAL], **options), x[CAL:], y[CAL:])
    made = gb.calibrate(wave, fields(store)[:CAL], scores=tmp_path / "c", progress=False)
    found = gb.evaluate(made, fields(store)[CAL:], scores=tmp_path / "t", chunk=8, progress=False)
    assert found.coverage == here.coverage and found.verdict == here.verdict and found.consistent
    assert found.rows[0].coverages == here.rows[0].coverages and np.array_equal(found.ranges, here.ranges)  # type: ignore[arg-type]
    assert np.isclose(found.sharpness, here.sharpness) and np.isclose(found.relative_l2, here.relative_l2)
    assert found.remarks == here.remarks and "quarters of the size of the input" in str(found)
    other = gb.evaluate(made, fields(store)[CAL:], scores=tmp_path / "t", level=0.8, chunk=8, progress=False)
    assert other.coverage < found.coverage and other.sharpness < found.sharpness


def test_any_dataset_will_do(store: Path, tmp_path: Path) -> None:
    data = dataset()
    data.to_netcdf(tmp_path / "f.nc", engine="scipy")
    turned = data.transpose("x", "field", "y").rename(field="who")
    sources = {
        "memory": fields(data),
        "dask": fields(xarray.open_zarr(store, consolidated=False)),
        "file": fields(tmp_path / "f.nc"),
        "turned": gb.StoredFields(turned, x="a", y="u", row="who"),
    }
    scores = []
    for name, source in sources.items():
        made = gb.calibrate(wave, source, scores=tmp_path / name, progress=False)
        scores.append(made.threshold.scores)  # type: ignore[attr-defined]
    assert all(np.array_equal(one, scores[0]) for one in scores)


@pytest.mark.slow
def test_bands_are_written_beside_the_means(store: Path, tmp_path: Path) -> None:
    made = gb.calibrate(wave, fields(store)[:CAL], scores=tmp_path / "s", progress=False)
    band = gb.band_over(made, gb.StoredFields(store, x="a")[CAL:], levels=[0.8, 0.9], chunk=16)
    path = band.to_zarr(tmp_path / "b.zarr", progress=False)
    data, x = xarray.open_zarr(path), dataset()["a"].values[CAL:]
    here = made(x, 0.9)
    assert data["upper_0.9"].dims == ("field", "x", "y") and data["upper_0.9"].dtype == np.float32
    assert np.array_equal(data["x"], X) and np.array_equal(data["field"], np.arange(CAL, N))
    for name, values in (("mean", here.mean), ("lower_0.9", here.lower), ("upper_0.9", here.upper)):
        assert np.array_equal(data[name], values[..., 0].astype(np.float32))
    assert "whole field" in data.attrs["comment"] and verify(path).sound
    assert np.array_equal(band.compute()["mean"], data["mean"])
    for score in (gb.Norm(), SCORES["quantity"]):
        other = gb.calibrate(
            wave, fields(store)[:CAL], scores=tmp_path / repr(score), score=score, progress=False
        )
        with pytest.raises(TypeError, match=r"Use gb\.Simultaneous\(\) or gb\.Share\(\)"):
            gb.band_over(other, fields(store))


@pytest.mark.slow
def test_what_is_finished_is_not_computed_again(store: Path, tmp_path: Path) -> None:
    asked: list[int] = []

    def model(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        if sum(asked) > 60 and not fixed:
            raise KeyboardInterrupt
        return wave(x)

    fixed: list[bool] = []
    options: dict[str, Any] = {"chunk": 8, "batch": 4, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        gb.calibrate(model, fields(store), scores=tmp_path / "s", **options)
    fixed.append(True)
    asked.clear()
    made = gb.calibrate(model, fields(store), scores=tmp_path / "s", **options)
    whole = gb.calibrate(wave, fields(store), scores=tmp_path / "w", **options)
    assert np.array_equal(made.threshold.scores, whole.threshold.scores)  # type: ignore[attr-defined]
    first, again = sum(asked), len(asked)
    gb.calibrate(model, fields(store), scores=tmp_path / "s", **options)
    assert sum(asked) - first < 60 < first and again < len(asked)  # only the first few are evaluated again
    with pytest.raises(ValueError, match="holds a different field"):
        gb.calibrate(lambda a: np.cos(a)[..., None], fields(store), scores=tmp_path / "s", **options)
    with pytest.raises(ValueError, match="holds a different field"):
        gb.calibrate(wave, fields(store)[1:], scores=tmp_path / "s", **options)


SCRIPT = """
import sys, time
import numpy as np
import guardband as gb

def slow(x):
    time.sleep(0.01 * len(x))
    return np.sin(x)[..., None]

gb.calibrate(slow, gb.StoredFields(sys.argv[1], x="a", y="u"), scores=sys.argv[2], chunk=4, progress=False)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_process_that_is_killed_loses_nothing(store: Path, tmp_path: Path) -> None:
    notes, kills = tmp_path / "s.notes", 0
    while kills < 3:
        before = len(list(notes.glob("[0-9]*.json"))) if notes.exists() else 0
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(store), str(tmp_path / "s")], env=os.environ
        )
        while process.poll() is None and (
            not notes.exists() or len(list(notes.glob("[0-9]*.json"))) < before + 3
        ):
            time.sleep(0.01)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills == 3
    made = gb.calibrate(wave, fields(store), scores=tmp_path / "s", chunk=4, progress=False)
    whole = gb.calibrate(wave, fields(store), scores=tmp_path / "w", chunk=4, progress=False)
    assert np.array_equal(made.threshold.scores, whole.threshold.scores)  # type: ignore[attr-defined]
    assert verify(tmp_path / "s").sound


@pytest.mark.slow
def test_workers_give_the_same_bits(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    net = torch.nn.Conv2d(1, 1, 3, padding=1).double()
    operator = gb.adapters.from_neuralop(net, on_grid=True)
    data = dataset().expand_dims(channel=1, axis=1)
    data["u"] = dataset()["u"]
    source = gb.StoredFields(data, x="a", y="u")
    here, there = (
        gb.calibrate(operator, source, scores=tmp_path / f"{n}", chunk=8, on=n, progress=False)
        for n in (None, 2)
    )
    assert np.array_equal(here.threshold.scores, there.threshold.scores)  # type: ignore[attr-defined]


def test_a_calibration_that_keeps_no_field_is_saved_with_its_scores(store: Path, tmp_path: Path) -> None:
    made = gb.calibrate(wave, fields(store)[:CAL], scores=tmp_path / "s", confidence=0.9, progress=False)
    again = gb.load(gb.save(made, tmp_path / "band"), model=wave)
    x = dataset()["a"].values[CAL:]
    assert np.array_equal(made(x, 0.8).width, again(x, 0.8).width) and repr(again) == repr(made)
    assert "50 calibration fields are enough" in gb.check(again, x, level=0.9)["size"].text


def test_stored_fields_are_a_view(store: Path) -> None:
    some = fields(store)[10:40][5:]
    assert len(some) == 25 and np.array_equal(some.inputs(slice(2)), dataset()["a"].values[15:17])
    assert "dataset" not in vars(pickle.loads(pickle.dumps(some))) and len(pickle.dumps(some)) < 1000
    assert some.chunk(120) % 8 == 0 and some.chunk(2**30) == 8


def test_errors_teach(store: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Pass the path of a Zarr store or a NetCDF file"):
        fields(tmp_path / "none.zarr")
    with pytest.raises(TypeError, match=r"array\.to_dataset"):
        fields(dataset()["u"])
    with pytest.raises(ValueError, match=r"one of the variables .*, got 'b'"):
        gb.StoredFields(store, x="b")
    with pytest.raises(TypeError, match=r"fields\[1000:\]"):
        fields(store)[::2]
    with pytest.raises(ValueError, match=r"gb\.StoredFields\(\.\.\., y=\.\.\.\)"):
        gb.calibrate(wave, gb.StoredFields(store, x="a"), scores=tmp_path / "s")
    with pytest.raises(ValueError, match="at least one field"):
        gb.calibrate(wave, fields(store)[:0], scores=tmp_path / "s")
    broken = dataset()
    broken["u"][70, 3, 3] = np.nan
    with pytest.raises(ValueError, match="`u of fields 64 to 71` should be finite, but row 6 is NaN"):
        gb.calibrate(wave, fields(broken), scores=tmp_path / "b", chunk=8, progress=False)
    points, fit = (np.arange(6.0), np.arange(6.0)), lambda _: np.sin
    made = gb.calibrate(wave, fields(store), scores=tmp_path / "s", progress=False)
    with pytest.raises(ValueError, match=r"gb\.StoredFields\(path, x="):
        gb.band_over(made, {"x": X})
    with pytest.raises(ValueError, match="it has 11 nodes along x, not 12"):
        gb.evaluate(made, fields(dataset()[{"x": slice(0, 11)}]), scores=tmp_path / "t", progress=False)
    with pytest.raises(TypeError, match=r"come from `gb\.calibrate`, got CrossValidated"):
        gb.evaluate(gb.calibration.calibrate_cross(fit, points), fields(store), scores=tmp_path / "t")
    others: list[dict[str, Any]] = [{"groups": [0]}, {"target": "truth"}, {"names": ["a"]}]
    for options in others:
        with pytest.raises(TypeError, match=f"`{next(iter(options))}` does not apply to stored fields"):
            gb.calibrate(wave, fields(store), scores=tmp_path / "s", **options)
    others = [{"chunk": 8}, {"scores": tmp_path / "s"}, {"on": 2}]
    for options in others:
        with pytest.raises(TypeError, match=f"`{next(iter(options))}` applies only to fields in a store"):
            gb.calibrate(wave, X, X, **options)
        with pytest.raises(TypeError, match=f"`{next(iter(options))}` applies only to fields in a store"):
            gb.evaluate(made, X, X, **options)
    for call in (gb.calibrate, gb.evaluate):
        with pytest.raises(TypeError, match="need `scores`, a path"):
            call(made, fields(store))
        with pytest.raises(TypeError, match=r"is missing\. Pass the targets that were measured"):
            call(made, X)
    with pytest.raises(ValueError, match="one score each and one threshold"):
        gb.calibrate(wave, fields(store), scores=tmp_path / "j", score=gb.Scaled(joint=False), progress=False)


def test_the_functions_of_0_2_warn_and_do_the_same(store: Path, tmp_path: Path) -> None:
    old: Any = gb
    with pytest.warns(DeprecationWarning, match=r"is now guardband.calibrate\(model, fields, scores=...\)"):
        made = old.calibrate_stored(wave, fields(store)[:CAL], tmp_path / "s", progress=False)
    with pytest.warns(DeprecationWarning, match=r"is now guardband.evaluate\(calibrated, fields, sc"):
        found = old.evaluate_stored(made, fields(store)[CAL:], tmp_path / "t", progress=False)
    again = gb.evaluate(made, fields(store)[CAL:], scores=tmp_path / "t", progress=False)
    assert found.verdict == again.verdict and made.n == CAL


def test_a_calibration_that_kept_no_field_is_evaluated_in_memory(store: Path, tmp_path: Path) -> None:
    data, fresh = dataset(), slice(CAL, None)
    made = gb.calibrate(wave, fields(store)[:CAL], scores=tmp_path / "s", progress=False)
    here = gb.calibrate(wave, data["a"].values[:CAL], data["u"][:CAL], score=gb.Simultaneous())
    found, same = (gb.evaluate(one, data["a"].values[fresh], data["u"][fresh]) for one in (made, here))
    assert found.verdict == same.verdict and found.coverage == same.coverage
    assert found.rows[0].coverages == same.rows[0].coverages and len(found.rows) == 1 and not found.ties
    with pytest.warns(UserWarning, match="have the score of a calibration point"):
        found = gb.evaluate(made, data["a"].values[:CAL], data["u"][:CAL])
    assert found.consistent is None


def test_scores_of_data_that_have_changed_are_not_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, dims = rng.normal(size=(60, 8, 8)), ("field", "x", "y")
    u = np.sin(a) + 0.1 * rng.normal(size=a.shape)
    before = xarray.Dataset({"a": (dims, a), "u": (dims, u)})
    changed = before.assign(u=(dims, np.where(np.arange(60)[:, None, None] < 30, u, 3 * u)))
    calibrate = partial(gb.calibrate, lambda a: np.sin(a)[..., None], scores=tmp_path / "s.zarr")
    calibrate(gb.StoredFields(before, x="a", y="u"), progress=False)
    with pytest.raises(ValueError, match="holds a different field"):
        calibrate(gb.StoredFields(changed, x="a", y="u"), progress=False)


def test_fields_that_were_calibrated_on_prove_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, dims = rng.normal(size=(120, 8, 8)), ("field", "x", "y")
    u = np.sin(a) + 0.1 * rng.normal(size=a.shape)
    fields = gb.StoredFields(xarray.Dataset({"a": (dims, a), "u": (dims, u)}), x="a", y="u")
    model = lambda a: np.sin(a)[..., None]  # noqa: E731
    made = gb.calibrate(model, fields[:60], scores=tmp_path / "cal.zarr", progress=False)
    with pytest.warns(UserWarning, match="40 of 60 test fields"):
        found = gb.evaluate(made, fields[20:80], scores=tmp_path / "some.zarr", progress=False)
    assert found.consistent is None and "prove nothing" in found.verdict
    fresh = gb.evaluate(made, fields[60:], scores=tmp_path / "fresh.zarr", progress=False)
    assert fresh.consistent


def test_a_chunk_is_whole_fields_and_never_more_than_there_are(store: Path) -> None:
    data = dataset()
    made = gb.calibrate(
        wave, data["a"].values, gb.Fields(data["u"].values, dims=("x", "y")), score=gb.Simultaneous()
    )
    few = fields(store)[:20]
    for chunk, expected in ((None, 20), (7, 7), (100, 20)):
        band = gb.band_over(made, few, levels=0.9, chunk=chunk)
        assert isinstance(band, StoredBand) and band.chunks == (expected, 12, 10)
