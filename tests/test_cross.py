"""Jackknife+ and CV+: order statistics, the guaranteed probability, stored folds, and folds that leak."""

import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import cross
import guardband as gb
from guardband.calibration.cross import assign_folds
from guardband.conformal.cross import GroupWeights
from wings import pinn, torch

FALSE_ALARM = 1e-3 / 8
"""The false-alarm rate of each of at most 8 comparisons in this file."""


def line(data: gb.Observations) -> cross.Line:
    return cross.Line.fit(data.x, data.y)


def readings(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 1))
    return x, 1 + 2 * x + (0.05 + 0.2 * x) * rng.normal(size=(n, 1))


class Wiggly:
    """A polynomial of high degree that overfits, so its errors are larger on unseen data."""

    def __init__(self, data: gb.Observations) -> None:
        powers = np.vander(np.asarray(data.x)[:, 0], 6)
        self.weights = np.linalg.lstsq(powers, np.asarray(data.y), rcond=None)[0]

    def __call__(self, x: Any) -> Any:
        return np.vander(np.asarray(x)[:, 0], 6) @ self.weights


# The band


@pytest.mark.parametrize("folds", [None, 8, 20])
def test_it_is_what_an_outsider_wrote(folds: int | None) -> None:
    x, y = readings(40)
    ours = gb.calibration.calibrate_cross(line, (x, y), folds=folds, seed=3)
    theirs = cross.cross_calibrate(cross.Line.fit, x, y, folds=folds or 40, seed=3)
    assert (ours.fold == theirs.fold).all()
    new = np.linspace(0, 1, 9)[:, None]
    for level in (0.5, 0.9, "0.95"):
        a, b = ours(new, level), theirs(new, level)
        assert np.allclose(a.lower, b.lower) and np.allclose(a.upper, b.upper)
        assert ours.promised(level) == theirs.promised(level)


def test_groups_of_one_reading_are_readings() -> None:
    x, y = readings(30)
    plain = gb.calibration.calibrate_cross(line, (x, y), folds=6)
    grouped = gb.calibration.calibrate_cross(line, (x, y), folds=6, groups=np.arange(30))
    for level in (0.5, 0.8, 0.9):
        assert np.array_equal(plain([0.1, 0.7], level).upper, grouped([0.1, 0.7], level).upper)
        assert np.array_equal(plain([0.1, 0.7], level).lower, grouped([0.1, 0.7], level).lower)
    assert grouped.covers_new_groups and not plain.covers_new_groups


def test_groups_are_kept_whole_and_count_as_one() -> None:
    """The upper end is the smallest at which the cumulative weight reaches (G + 1) level."""
    groups = np.repeat(list("abcdefghij"), [1, 2, 3, 4, 5, 6, 7, 3, 2, 1])
    x, y = readings(len(groups))
    seen: list[set[str]] = []

    def fit(data: gb.Observations) -> cross.Line:
        known = {tuple(row) for row in np.asarray(data.x)}
        seen.append({g for g, row in zip(groups, x, strict=True) if tuple(row) not in known})
        return line(data)

    made = gb.calibration.calibrate_cross(fit, (x, y), groups=groups)
    assert sorted(map(len, seen)) == [1] * 10 and made.name == "Jackknife+"
    assert made.size(0.9) == gb.conformal.Size(10, 9, "groups (sensors)")
    ends = made.predict([0.4]).each[0, made.fold] + made.residuals
    share = {g: Fraction(1, int((groups == g).sum())) for g in groups}
    enough = [
        end
        for end in ends
        if sum(share[g] for g, e in zip(groups, ends, strict=True) if e <= end) >= Fraction(99, 10)
    ]
    assert made([0.4], "0.9").upper[0, 0] == pytest.approx(min(enough))
    with pytest.warns(gb.conformal.InfiniteBandWarning, match=r"19 groups \(sensors\), but there are 10"):
        assert np.isinf(made([0.4], 0.95).lower).all()
    many = GroupWeights.of(np.repeat(np.arange(60), np.arange(1, 61)))  # beyond 64 bits
    assert sum(many.weights) == 60 * many.whole


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_stay_tensors(dtype: torch.dtype) -> None:
    x, y = (torch.tensor(part, dtype=dtype) for part in readings(20))

    def fit(data: gb.Observations) -> Callable[[Any], Any]:
        slope = float((data.x * data.y).sum() / (data.x**2).sum())
        return lambda x: slope * x

    band = gb.calibration.calibrate_cross(fit, (x, y[:, 0]), folds=5)(x[:3], 0.8)
    assert isinstance(band.upper, torch.Tensor) and band.upper.dtype == dtype and band.upper.shape == (3, 1)


def test_too_few_readings_give_an_infinite_band() -> None:
    made = gb.calibration.calibrate_cross(line, readings(8))
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="level 0.9 needs 9 readings, but there are 8"):
        assert np.isinf(made([0.5], 0.9).upper).all()


# The promise


@pytest.mark.parametrize(
    ("n", "folds", "promised"),
    [
        (40, None, Fraction(4, 5)),
        (40, 10, Fraction(4, 5) - Fraction(3, 4) / 11),
        (400, 2, Fraction(4, 5) - Fraction(1, 201)),
        (41, 10, Fraction(4, 5) - 2 * Fraction(9, 51)),
    ],
)
def test_the_promise_is_a_number(n: int, folds: int | None, promised: Fraction) -> None:
    """For unequal folds, the bound from a mean of p-values weighted by fold size."""
    made = gb.calibration.calibrate_cross(line, readings(n), folds=folds)
    assert made.promised("0.9") == promised
    assert f"{float(promised):.4g} at level 0.9" in made.promise and "Usually" in made.promise
    assert "settings were fixed without them or are chosen inside `fit`" in made.promise
    assert made.promised(0.5) == max(0, promised - Fraction(4, 5))


def covered(fit: Any, draws: int, n: int, folds: int | None) -> int:
    """The share of new readings that are covered at 90 %."""
    count = 0
    for seed in range(draws):
        x, y = readings(n + 1, seed)
        made = gb.calibration.calibrate_cross(fit, (x[:n], y[:n]), folds=folds, seed=seed)
        count += int(made.contains(x[n:], y[n:], 0.9)[0])
    return count


@pytest.mark.parametrize("draws", [400, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("n", "folds"), [(12, None), (20, 5)])
def test_coverage_keeps_the_promise(n: int, folds: int | None, draws: int) -> None:
    """One-sided: an overfitted model, detected by its left-out residuals."""
    promised = float(gb.calibration.calibrate_cross(line, readings(n), folds=folds).promised(0.9))
    assert covered(Wiggly, draws, n, folds) >= binom.ppf(FALSE_ALARM, draws, promised)


def test_coverage_of_a_new_group_keeps_the_promise() -> None:
    """Sensors with random offsets and different numbers of readings; one-sided, 400 sets."""
    count, draws, sizes = 0, 400, np.array([1, 2, 3, 4, 5, 6, 3, 2, 1, 4, 2])
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        size = rng.permutation(sizes)
        sensor = np.repeat(np.arange(11), size)
        x = rng.uniform(size=(len(sensor), 1))
        y = x + 0.5 * rng.normal(size=11)[sensor][:, None] + 0.05 * rng.normal(size=x.shape)
        old = sensor < 10
        made = gb.calibration.calibrate_cross(line, (x[old], y[old]), groups=sensor[old], seed=seed)
        count += int(made.contains(x[~old][:1], y[~old][:1], 0.9)[0])
    assert count >= binom.ppf(FALSE_ALARM, draws, 0.8)


def test_folds_that_leak_are_caught_by_the_law() -> None:
    """Every model has seen all readings, through a variable that it should not have."""

    def leaking(seed: int) -> int:
        x, y = readings(13, seed)
        whole = gb.Observations(x[:12], y[:12])
        made = gb.calibration.calibrate_cross(lambda data: Wiggly(whole), (x[:12], y[:12]), seed=seed)
        return int(made.contains(x[12:], y[12:], 0.9)[0])

    assert sum(map(leaking, range(400))) < binom.ppf(FALSE_ALARM, 400, 0.8)


def test_folds_that_leak_are_refused_where_a_model_knows_its_readings() -> None:
    problem = pinn.problems.Poisson1D()
    data = problem.observe(20, noise=0.05)
    recipe = pinn.Recipe(steps=2, finish=0)

    def train(observations: gb.Observations) -> pinn.Fitted:
        return pinn.fit(problem, pinn.mlp(1, [4]), observations, recipe=recipe, progress=False)

    with pytest.raises(ValueError, match="`fit` should train only on the observations that it receives"):
        gb.calibration.calibrate_cross(lambda _: train(data), data, folds=4)
    made = gb.calibration.calibrate_cross(train, data, folds=4)
    assert made.field_names is not None and len(made.models) == 4


def test_rows_reach_training_in_random_order() -> None:
    x = np.arange(20.0)
    orders: list[list[float]] = []

    def fit(data: gb.Observations) -> cross.Line:
        orders.append(np.asarray(data.x)[:, 0].tolist())
        return line(data)

    gb.calibration.calibrate_cross(fit, (x, x), folds=4)
    assert all(order != sorted(order) for order in orders) and len({tuple(o) for o in orders}) == 4


# Folds on disk and in other modules


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    data, calls = readings(12), list[int]()

    def fit(observations: gb.Observations) -> cross.Line:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return line(observations)

    with pytest.raises(KeyboardInterrupt):
        gb.calibration.calibrate_cross(fit, data, folds=4, out=tmp_path / "run")
    again = gb.calibration.calibrate_cross(fit, data, folds=4, out=tmp_path / "run")
    assert len(calls) == 3 + 2
    assert np.array_equal(
        again([0.3], 0.5).upper, gb.calibration.calibrate_cross(line, data, folds=4)([0.3], 0.5).upper
    )
    gb.calibration.calibrate_cross(fit, data, folds=4, out=tmp_path / "run")
    assert len(calls) == 5, "all of them are kept"
    for folds, seed in ((4, 1), (3, 0)):
        with pytest.raises(ValueError, match=r"models of a different run, which differs in .*folds"):
            gb.calibration.calibrate_cross(line, data, folds=folds, seed=seed, out=tmp_path / "run")
    with pytest.raises(ValueError, match="which differs in readings"):
        gb.calibration.calibrate_cross(line, readings(12, 1), folds=4, out=tmp_path / "run")


KILLED = """
import os, sys
import numpy as np
import cross, guardband as gb
rng = np.random.default_rng(0)
x = rng.uniform(size=(12, 1))
calls = []
def fit(data):
    calls.append(1)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
    return cross.Line.fit(data.x, data.y)
made = gb.calibration.calibrate_cross(fit, (x, 2 * x + rng.normal(size=x.shape)), folds=4, out=sys.argv[1])
print(len(calls), made([0.5], 0.5).upper[0, 0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    paths = [str(Path(cross.__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}

    def run(out: str, at: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(tmp_path / out), str(at)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    assert run("killed", 3).returncode == -9
    calls, upper = run("killed", 99).stdout.split()
    assert (calls, upper) == ("2", run("whole", 99).stdout.split()[1])


@pytest.mark.slow
def test_processes_give_the_same_band(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    data = readings(12)

    def fit(observations: gb.Observations) -> Callable[[Any], Any]:
        slope = float((observations.x * observations.y).sum() / (observations.x**2).sum())
        return lambda x: slope * x

    here, there = (gb.calibration.calibrate_cross(fit, data, folds=4, on=on) for on in (None, 1))
    assert np.array_equal(here([0.3], 0.5).upper, there([0.3], 0.5).upper)


def test_it_is_saved_evaluated_and_checked(tmp_path: Path) -> None:
    made = gb.calibration.calibrate_cross(line, readings(40), folds=10)
    x, y = readings(200, 9)
    again = gb.load(gb.save(made, tmp_path / "band"))
    assert np.array_equal(again(x, 0.9).lower, made(x, 0.9).lower) and repr(again) == "CV+(10 models, n=40)"
    assert "0.7318" in str(gb.evaluate(made, x, y, level=0.9)) + made.promise
    assert str(gb.check(made, x))


# Invalid input


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"fit": 3}, TypeError, "`fit` should be a function of observations, got int"),
        ({"fit": lambda data: None}, TypeError, "should return the trained model, got None"),
        ({"folds": 1}, ValueError, "from 2 to the number of readings, 12, or None"),
        ({"folds": 13}, ValueError, "got 13"),
        ({"folds": 2.5}, ValueError, "got 2.5"),
        ({"folds": True}, ValueError, "got True"),
        ({"groups": ["a"] * 12}, ValueError, "at least 2 groups"),
        ({"groups": ["a"] * 11}, ValueError, r"one label per row, shape \(12,\)"),
        ({"data": readings(1)}, ValueError, "at least 2 readings"),
        ({"data": (np.ones((4, 1)), np.ones((4, 2)))}, ValueError, "supports one output"),
        ({"data": (np.ones(4), [1, 2, np.nan, 4])}, ValueError, "row 2 is NaN"),
        ({"fit": lambda data: lambda x: np.ones((len(x), 2))}, ValueError, r"a model returned \(12, 2\)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    options: dict[str, Any], error: type[Exception], match: str
) -> None:
    asked: dict[str, Any] = {"fit": line, "data": readings(12), **options}
    with pytest.raises(error, match=match):
        gb.calibration.calibrate_cross(asked.pop("fit"), asked.pop("data"), **asked)


def test_a_band_needs_what_each_model_says() -> None:
    made = gb.calibration.calibrate_cross(line, readings(12), folds=4)
    with pytest.raises(TypeError, match=r"calibrated.predict\(x\), got Prediction"):
        made.band(gb.Prediction(None, [0.0]))
    with pytest.raises(ValueError, match="`groups` should not be passed"):
        made([0.5], 0.5, groups=["a"])
    with pytest.raises(ValueError, match=r"`each` should hold the predictions of each model at 1 points"):
        gb.conformal.CrossPrediction(None, [0.0])


def test_a_model_that_cannot_be_kept_is_refused_with_out(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"this one cannot be.*Or omit `out`"):
        gb.calibration.calibrate_cross(lambda data: np.sin, readings(12), folds=3, out=tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="contains other files"):
        gb.calibration.calibrate_cross(line, readings(12), folds=3, out=tmp_path / "mine")


def test_folds_are_as_equal_as_can_be() -> None:
    for n, folds in ((40, 7), (9, 9), (11, 2)):
        counts = np.bincount(assign_folds(n, folds, None, 0))
        assert len(counts) == folds and counts.max() - counts.min() <= 1
