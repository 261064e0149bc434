"""Conditional: the level in every group and under every shift that the features span."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal.hashed import uniform
from guardband.conformal.rank import allow_infinite


def eighths(x: np.ndarray) -> np.ndarray:
    """Indicators (n, 8) of the eighth of [0, 1] that contains a point."""
    return np.eye(8)[np.minimum((8 * x[:, 0]).astype(int), 7)]


def overlapping(x: np.ndarray) -> np.ndarray:
    """Three intervals that overlap."""
    return np.hstack([(x > 0.2) & (x < 0.6), (x > 0.5), x < 0.3])


def calibrated(x: np.ndarray, features: Any, seed: int = 0, **options: Any) -> gb.Calibrated:
    draw = np.random.default_rng((seed, 1))
    y = (0.2 + 3 * (x > 0.7)) * draw.normal(size=x.shape)
    made = gb.Conditional(features, seed=seed)
    return gb.calibrate_arrays(0 * y, y, x_cal=x, calibrator=made, **options)


def covered(features: Any, n: int, sets: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """New points (sets,), one for each calibration set, and whether each is covered."""
    draw, inside, places = np.random.default_rng(0), [], draws(sets)
    for seed, place in enumerate(places):
        made = calibrated(draw.uniform(size=n), features, seed)
        y = (0.2 + 3 * (place > 0.7)) * draw.normal(size=1)
        with allow_infinite():
            inside.append(made.contains(gb.Prediction(place[None], [0.0]), y, level)[0])
    return places[:, 0], np.array(inside)


def draws(sets: int) -> np.ndarray:
    return np.random.default_rng(9).uniform(size=(sets, 1))


@pytest.mark.slow("800")
@pytest.mark.parametrize("sets", [800, pytest.param(1600, marks=pytest.mark.long)])
def test_each_of_eight_groups_is_covered_at_the_level(sets: int) -> None:
    """Two-sided: counts in each group at 1e-3 / 8, one new point per calibration set."""
    from scipy.stats import binomtest

    x, inside = covered(eighths, 100, sets, 0.8)
    for group in range(8):
        mine = inside[(8 * x).astype(int) == group]
        assert binomtest(int(mine.sum()), len(mine), 0.8).pvalue > 1e-3 / 8, group


def test_split_fails_there() -> None:
    draw, inside = np.random.default_rng(0), []
    for _ in range(400):
        x = draw.uniform(size=100)
        y = (0.2 + 3 * (x > 0.7)) * draw.normal(size=100)
        inside.append(gb.conformal.quantile(abs(y), 0.8) >= abs(3.2 * draw.normal()))
    assert np.mean(inside) < 0.8 - 4 * math.sqrt(0.16 / 400)


@pytest.mark.parametrize("sets", [400, pytest.param(1000, marks=pytest.mark.long)])
def test_groups_that_overlap_and_all_points_together(sets: int) -> None:
    from scipy.stats import binomtest

    x, inside = covered(overlapping, 80, sets, 0.8)
    for column in (*overlapping(x[:, None]).T.astype(bool), np.ones(len(x), dtype=bool)):
        assert binomtest(int(inside[column].sum()), int(column.sum()), 0.8).pvalue > 1e-3 / 4


def test_without_features_it_is_a_randomized_split() -> None:
    """Between two neighboring ranks of the scores."""
    x = np.random.default_rng(0).uniform(size=49)
    made = calibrated(x, lambda x: np.zeros((len(x), 0)))
    scores = np.sort(made.fingerprint()["scores"])
    q = made.threshold(gb.Prediction(draws(30), np.zeros(30)), 0.8)  # type: ignore[attr-defined]
    assert set(np.searchsorted(scores, q - 1e-9)) <= {38, 39, 40}


def test_the_regression_with_the_new_point_agrees_with_brute_force() -> None:
    """A score is in the set if and only if its dual variable in a regression on n + 1 points is below u."""
    from scipy.optimize import linprog

    x, alpha = np.random.default_rng(3).uniform(size=40), 0.2
    made = calibrated(x, overlapping)
    for place in draws(12):
        prediction = gb.Prediction(place[None], [0.0])
        q = float(made.threshold(prediction, 0.8)[0])  # type: ignore[attr-defined]
        u = float(uniform(made.threshold._key, place)[0]) - alpha  # type: ignore[attr-defined]
        columns = np.hstack([np.ones((41, 1)), overlapping(np.r_[x, place][:, None])])
        for score in (q - 0.05, q + 0.05):
            scores = np.r_[made.fingerprint()["scores"], score]
            solved = linprog(-scores, A_eq=columns.T, b_eq=np.zeros(4), bounds=(-alpha, 1 - alpha))
            assert (solved.x[-1] < u) == (score < q)


def test_new_features_of_their_own_are_infinite_or_empty_and_said() -> None:
    x = np.random.default_rng(0).uniform(0, 0.5, size=50)
    made = calibrated(x, lambda x: x > 0.9)
    with pytest.warns(
        gb.conformal.InfiniteBandWarning, match="too few calibration points have features like those"
    ):
        q = made.threshold(gb.Prediction(np.full((20, 1), 0.95) + 1e-3 * draws(20), np.zeros(20)), 0.9)  # type: ignore[attr-defined]
    assert np.isinf(q).all() and (q > 0).any()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (lambda x: x[:3], r"one row per point, shape \(50, p\), got shape \(3, 1\)"),
        (lambda x: x / 0, "should be finite, but those of row 0 are not"),
    ],
)
def test_features_are_checked(features: Any, message: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        calibrated(np.random.default_rng(0).uniform(size=50), features)


def test_settings_are_checked() -> None:
    with pytest.raises(TypeError, match="`features` should be a function from x"):
        gb.Conditional(np.eye(3))  # type: ignore[arg-type]
    x = np.random.default_rng(0).uniform(size=50)
    with pytest.raises(ValueError, match="pass the groups as features"):
        calibrated(x, eighths, groups=[0, 1] * 25)
    with pytest.raises(ValueError, match="uses the positions of points"):
        gb.calibrate_arrays([0.0] * 9, range(9), calibrator=gb.Conditional(eighths))
    with pytest.raises(ValueError, match="should be finite for regression, but row 0"):
        gb.calibrate_arrays(
            [0.0] * 9, range(1, 10), [0.0] * 9, x_cal=[0.0] * 9, calibrator=gb.Conditional(eighths)
        )


def test_it_is_a_fixed_function_and_is_saved(tmp_path: Path) -> None:
    made = calibrated(np.random.default_rng(0).uniform(size=120), eighths)
    at = gb.Prediction(draws(20), np.zeros(20))
    again = gb.load(gb.save(made, tmp_path / "a"), features=eighths)
    with allow_infinite():
        whole = made.band(at, 0.8)
        parts = [made.band(at.take(slice(i, i + 1)), 0.8).upper for i in range(20)]
        assert np.array_equal(whole.upper, np.concatenate(parts))
        assert np.array_equal(whole.upper, again.band(at, 0.8).upper)
    assert "every reweighting of places" in made.promise and made.answers_shift
    assert made.size(0.9).need == 72  # type: ignore[union-attr]


def test_features_that_change_their_number_are_refused() -> None:
    wide = [1]
    made = calibrated(np.random.default_rng(0).uniform(size=50), lambda x: np.hstack([x] * wide[0]))
    wide[0] = 2
    with pytest.raises(ValueError, match="should return 1 numbers per point, as at calibration, got 2"):
        made.band(gb.Prediction([[0.5]], [[0.0]]), 0.9)


def covered_at(
    places: int, n: int, seed: int, sets: int, *, level: float = 0.9, fresh: bool = True
) -> np.ndarray:
    """Whether each of `sets` new readings at fixed points is covered by its own calibration set.

    With one point the constant is the only feature; with two, the second point is a feature.
    """
    draw, inside = np.random.default_rng((places, n, seed)), []
    features = (lambda x: np.zeros((len(x), 0))) if places == 1 else (lambda x: x > 0.5)
    calibrator = gb.Conditional(features, seed=seed, fresh=fresh)
    for _ in range(sets):
        x = draw.integers(places, size=(n + 1, 1)).astype(float)
        y = (1 + 2 * x) * draw.normal(size=(n + 1, 1))
        made = gb.calibrate_arrays(0 * y[:n], y[:n], x_cal=x[:n], calibrator=calibrator)
        with allow_infinite():
            inside.append(made.contains(gb.Prediction(x[n:], 0 * y[n:]), y[n:], level)[0])
    return np.array(inside)


def test_fixed_places_are_covered_at_a_fixed_seed() -> None:
    """Two-sided at 1e-3; the draws of 0.2 are rejected: at seed 1 they cover 4/6, not .8."""
    from scipy.stats import binomtest

    fresh, frozen = (covered_at(1, 5, 1, 400, level=0.8, fresh=fresh) for fresh in (True, False))
    assert binomtest(int(fresh.sum()), 400, 0.8).pvalue > 1e-3
    assert binomtest(int(frozen.sum()), 400, 0.8, alternative="less").pvalue < 1e-3


@pytest.mark.parametrize(
    "calibrator", [gb.Conditional(lambda x: x > 0.5), gb.conformal.RandomlyLocalized(0.5)]
)
def test_the_draw_is_of_the_scores_in_any_order_and_the_promise_says_so(calibrator: Any) -> None:
    draw = np.random.default_rng(2)
    x, y, at = draw.uniform(size=(40, 1)), draw.normal(size=40), gb.Prediction([[0.3], [0.7]], [0.0, 0.0])

    def ends(order: Any, y: np.ndarray) -> np.ndarray:
        given = {"x_cal": x[order], "calibrator": calibrator}
        return gb.calibrate_arrays(np.zeros(40), y[order], **given).band(at, 0.5).upper

    order = draw.permutation(40)
    assert np.allclose(ends(order, y), ends(slice(None), y))
    assert np.allclose(ends(slice(None), y * (1 + 1e-15)), ends(slice(None), y)), "but for rounding"
    made = gb.calibrate_arrays(np.zeros(40), y, x_cal=x, calibrator=calibrator)
    assert "determined by the seed, the calibration scores and the point" in made.promise
    assert "on average over seeds" in type(calibrator)(**{**vars(calibrator), "fresh": False}).promise


@pytest.mark.parametrize("digit", [b"\x00", b"\xff"])
def test_draws_lie_strictly_between_0_and_1(digit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest 64-bit value was rounded to 1, which is outside of the open interval."""

    class Extreme:
        def __init__(self, _: bytes) -> None: ...

        def digest(self, count: int) -> bytes:
            return digit * count

    monkeypatch.setattr("guardband.conformal.hashed.hashlib.shake_128", Extreme)
    (draw,) = uniform(b"", np.zeros(2))
    assert 0 < draw < 1


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (gb.Conditional(np.sign).promise, "by a nonnegative combination of the features and a constant"),
        (gb.Conditional(np.sign).promise, "if scores tie, it is also over seeds"),
        (gb.Weighted(np.ones_like).promise, "the calibration points and a new point are drawn independently"),
        (gb.Weighted(np.ones_like).promise, "the true density ratio up to a constant factor"),
        (gb.RiskControl().promise, "right-continuous in the threshold, lies between 0 and 1 at every point"),
    ],
)
def test_promises_name_what_their_theorems_assume(promise: str, said: str) -> None:
    assert said in promise
