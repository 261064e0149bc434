"""Weighted and localized conformal prediction: valid under shifts for which plain ranks are not."""

import json
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal import RandomlyLocalized, Weighted, density_ratio
from guardband.conformal.randomly_localized import RandomlyLocalizedThreshold
from guardband.conformal.rank import quantile
from guardband.conformal.weighted import WeightedThreshold, weighted_rank
from guardband.testing import HETEROSKEDASTIC, Draw, World, check_calibrator

VECTORS = json.loads((Path(__file__).parent / "data" / "conformal_vectors.json").read_text())["weighted"]


def drawn(n: int, d: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points in a cube, and targets that do not depend on them."""
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(n, d)), generator.normal(size=n)


def weighted_quantile(scores: np.ndarray, weights: np.ndarray, own: np.ndarray, level: Any) -> np.ndarray:
    return np.append(scores, np.inf)[weighted_rank(weights, own, level)]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_reference_vectors(case: dict[str, Any]) -> None:
    weights, own = np.array([case["weights"]], float), np.array([case["test_weight"]], float)
    level = 1 - Fraction(case["alpha"])
    found = weighted_quantile(np.array(case["scores"], float), weights, own, level)
    assert found == [float(case["quantile"])]


@pytest.mark.slow("1e+200")
@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-200, 1e200])
def test_equal_weights_are_split_bit_for_bit(weight: float) -> None:
    generator = np.random.default_rng(0)
    for n in (*range(1, 41), 99, 100, 199, 999):
        scores = np.sort(generator.normal(size=n) ** 2)
        for level in [f"0.{i:02d}" for i in range(1, 100)]:
            one = weighted_quantile(scores, np.full((1, n), weight), np.full(3, weight), level)
            many = weighted_quantile(scores, np.full((3, n), weight), np.full(3, weight), level)
            assert (one == quantile(scores, level)).all() and (many == one).all(), (n, level)


def test_equal_weights_give_the_band_of_split() -> None:
    x, y = drawn(50)
    zero = gb.predictors.MeanOnly(np.zeros_like)
    weighted = gb.calibrate(zero, x, y, calibrator=Weighted(lambda x: np.full(len(x), 0.7)))
    assert np.array_equal(weighted(x).upper, gb.calibrate(zero, x, y)(x).upper)
    assert weighted.threshold.effective == pytest.approx(50)  # type: ignore[attr-defined]


def shifted(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """Calibration points concentrate on the left, queries on the right, where the noise is larger."""
    x = np.vstack([generator.beta(1, 3, size=(n, 1)), generator.beta(3, 1, size=(m, 1))])
    y = world.observe(generator, x, outputs)
    return Draw(x[:n], y[:n], x[n:], y[n:])


def true_ratio(x: np.ndarray) -> np.ndarray:
    return x[:, 0] ** 2 / np.maximum((1 - x[:, 0]) ** 2, 1e-12)


SETTING: dict[str, Any] = dict(
    score=gb.Absolute(), sampler=shifted, worlds=[HETEROSKEDASTIC], sizes=(30, 100), levels=(0.5, 0.8, 0.9)
)


@pytest.mark.slow
def test_the_true_ratio_covers() -> None:
    check_calibrator(Weighted(true_ratio), draws=2000, **SETTING)


@pytest.mark.slow
def test_ignored_weights_are_caught() -> None:
    class Ignoring(Weighted):
        def _weights(self, prediction: Any) -> np.ndarray:
            return np.ones(len(prediction))

    with pytest.raises(AssertionError, match="coverage is too low"):
        check_calibrator(Ignoring(true_ratio), draws=2000, **SETTING)


def test_no_weight_at_all_is_infinite() -> None:
    q = weighted_quantile(np.array([1.0, 2.0]), np.zeros((1, 2)), np.array([1.0, 5.0]), 0.5)
    assert np.isinf(q).all()
    threshold = WeightedThreshold(np.array([1.0]), np.zeros(1), lambda p: np.ones(len(p)))
    assert threshold.effective == 0
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="at 2 of 2 points too few"):
        threshold(gb.Prediction(np.zeros((2, 1)), np.zeros(2)), 0.5)


def test_the_rank_is_exact_for_any_weights() -> None:
    """Compared with fractions; ties with the required weight are frequent, and 0.3 has no exact float."""
    generator = np.random.default_rng(2)
    for _ in range(3000):
        n, level = int(generator.integers(1, 30)), Fraction(int(generator.integers(1, 20)), 20)
        weights = generator.integers(0, 7, size=n) * generator.choice([1.0, 0.3, 1 / 3])
        own = float(generator.integers(0, 7) * generator.choice([1.0, 0.3]))
        carried = list(accumulate(Fraction(w) for w in weights))
        needed = level * (carried[-1] + Fraction(own))
        right = next((i for i, sum_ in enumerate(carried) if sum_ >= needed > 0), n)
        for shape in (1, 2):
            found = weighted_rank(np.tile(weights, (shape, 1)), np.full(2, own), level)
            assert (found == right).all(), (weights, own, level)


def test_a_query_without_weight_among_points_without_weight_is_infinite() -> None:
    x, y = drawn(50)
    zero = gb.predictors.MeanOnly(np.zeros_like)
    far = gb.calibrate(zero, x, y, calibrator=Weighted(lambda x: (x > 2) * 1.0))
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="at 2 of 2 points"):
        assert np.isinf(far([0.5, 3.0], 0.9).width).all()


def test_far_from_everything_the_kernel_ratio_makes_no_promise() -> None:
    generator = np.random.default_rng(3)
    ratio = density_ratio(
        generator.normal(size=(300, 1)), 2 * generator.normal(size=(300, 1)), method="kernel"
    )
    x, y = generator.normal(size=(200, 1)), generator.normal(size=200)
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), x, y, calibrator=Weighted(ratio))
    with pytest.warns(gb.conformal.InfiniteBandWarning):
        width = calibrated([0.0, 8.0, 30.0, 1e3, 1e200], 0.9).width.ravel()
    assert np.isfinite(width[0]) and np.isinf(width[1:]).all()


@pytest.mark.parametrize("factor", [1e-200, 0.3, 1e200])
def test_a_ratio_is_up_to_a_factor(factor: float) -> None:
    threshold = WeightedThreshold(np.arange(19.0), np.full(19, factor), lambda p: np.full(len(p), factor))
    assert threshold.effective == pytest.approx(19) and threshold(gb.Prediction(None, [0.0]), 0.95) == [18.0]


def test_infinite_scores_are_named_as_the_cause() -> None:
    x, y = np.linspace(0, 1, 50), np.ones(50)
    sure = gb.predictors.Given(np.zeros_like, np.zeros_like)
    for calibrator in (Weighted(lambda x: np.ones(len(x))), RandomlyLocalized(bandwidth=1e3)):
        calibrated = gb.calibrate(sure, x, y, calibrator=calibrator)
        with pytest.warns(gb.conformal.InfiniteBandWarning, match="scores are infinite"):
            calibrated([0.5])


def test_a_chosen_bandwidth_does_not_depend_on_the_unit() -> None:
    x, _ = drawn(300)
    in_metres, in_nanometres = (
        RandomlyLocalized(inputs=x * unit)._choose_bandwidth(500) / unit for unit in (1.0, 1e-9)
    )
    assert in_nanometres == pytest.approx(in_metres, rel=1e-6)
    assert RandomlyLocalized(inputs=np.zeros((20, 1)))._choose_bandwidth(500) > 0


@pytest.mark.parametrize("method", ["logistic", "kernel"])
def test_an_estimated_ratio_ranks_places_as_the_true_one(method: Any) -> None:
    generator = np.random.default_rng(1)
    old, new = generator.normal(size=(500, 2)), generator.normal(size=(500, 2)) + 0.7
    ratio = density_ratio(old, new, method=method)
    x = generator.normal(size=(300, 2))
    assert np.corrcoef(np.log(ratio(x)), x.sum(axis=1))[0, 1] > 0.9


def hub(generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three quarters of the points at a hub with small scores, the rest at two spokes with large ones."""
    where = generator.choice([0.0, -0.9, 0.9], p=[0.75, 0.125, 0.125], size=n)
    x = where + 1e-6 * generator.normal(size=n)
    return x[:, None], np.where(abs(where) > 0.5, 10.0, 1.0) * generator.uniform(size=n)


def coverage_at_the_hub(calibrator: gb.conformal.Calibrator, draws: int) -> float:
    generator, covered = np.random.default_rng(2), 0
    zero = gb.predictors.MeanOnly(np.zeros_like)
    for _ in range(draws):
        x, y = hub(generator, 201)
        calibrated = gb.calibrate(zero, x[:200], y[:200], calibrator=calibrator)
        covered += int(calibrated(x[200:], 0.8).contains(y[200:])[0])
    return covered / draws


class CenteredOnTheQuery(RandomlyLocalized):
    """A tempting error: weights centered on the query itself."""

    def threshold(self, *args: Any, **options: Any) -> RandomlyLocalizedThreshold:
        made = super().threshold(*args, **options)

        class Centered(RandomlyLocalizedThreshold):
            def near(self, x: np.ndarray) -> np.ndarray:
                return x

        return Centered(made.scores, made.x, made.bandwidth, made.kernel, made.seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::guardband.conformal.InfiniteBandWarning")
def test_a_kernel_centered_on_the_query_is_caught() -> None:
    """P(Binomial(2000, 0.8) <= 1543) is 1e-3."""
    assert coverage_at_the_hub(RandomlyLocalized(1.0, kernel="box"), 2000) > 1543 / 2000
    assert coverage_at_the_hub(CenteredOnTheQuery(1.0, kernel="box"), 2000) < 1543 / 2000


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["gauss", "box"])
def test_localized_covers(kernel: Any) -> None:
    localized = RandomlyLocalized(0.2, kernel=kernel)
    check_calibrator(localized, worlds=[HETEROSKEDASTIC], sizes=(30, 100), levels=(0.5, 0.8, 0.9), draws=2000)


def test_the_bandwidth_follows_the_effective_size() -> None:
    x = np.random.default_rng(0).uniform(size=(300, 1))
    prediction = gb.Prediction(x[:100], np.zeros(100))
    wide, narrow = (
        RandomlyLocalized(inputs=x, effective=size).threshold(np.ones(100), prediction).bandwidth
        for size in (60, 20)
    )
    assert wide > 2 * narrow > 0
    assert RandomlyLocalized(inputs=x, effective=1e9).threshold(np.ones(100), prediction).bandwidth > 10


def test_chunks_and_the_whole_agree_and_seeds_differ() -> None:
    x, y = drawn(100, 2)
    zero = gb.predictors.MeanOnly(lambda x: 0 * x[:, :1])
    bands = [gb.calibrate(zero, x, y, calibrator=RandomlyLocalized(0.5, seed=seed)) for seed in (0, 0, 1)]
    new, _ = drawn(40, 2, seed=1)
    whole = bands[0](new, 0.8).upper
    assert np.array_equal(whole, np.vstack([bands[1](new[i : i + 1], 0.8).upper for i in range(40)]))
    assert not np.array_equal(whole, bands[2](new, 0.8).upper)


def test_errors_teach() -> None:
    x, y = np.arange(9.0)[:, None] / 9, np.arange(9.0)
    zero = gb.predictors.MeanOnly(np.zeros_like)
    for calibrator in (Weighted(lambda x: x[:, 0] + 1), RandomlyLocalized(1.0)):
        with pytest.raises(ValueError, match="uses the positions of points"):
            gb.calibrate_arrays(y, y, calibrator=calibrator)
        with pytest.raises(ValueError, match="has no exact law"):
            gb.calibrate(zero, x, y, calibrator=calibrator, confidence=0.9)
        with pytest.raises(ValueError, match="by their positions"):
            gb.calibrate(zero, x, y, calibrator=calibrator, groups=np.zeros(9, int))
    with pytest.raises(ValueError, match="finite, nonnegative weights, but row 0 is -"):
        gb.calibrate(zero, x, y, calibrator=Weighted(lambda x: x[:, 0] - 1))
    with pytest.raises(ValueError, match=r"one weight per point, shape \(9,\), got shape \(8,\)"):
        gb.calibrate(zero, x, y, calibrator=Weighted(lambda x: x[1:, 0]))
    with pytest.raises(ValueError, match="either a `bandwidth` or `inputs`"):
        RandomlyLocalized()
    with pytest.raises(ValueError, match="positive length"):
        RandomlyLocalized(0.0)
    with pytest.raises(ValueError, match="'gauss' or 'box'"):
        RandomlyLocalized(1.0, kernel="hat")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`x_query` should have the same coordinates, got 1 and 2"):
        density_ratio(np.zeros((9, 1)), np.zeros((9, 2)))
    with pytest.raises(ValueError, match="'logistic' or 'kernel'"):
        density_ratio(x, x, method="forest")  # type: ignore[arg-type]
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="at 1 of 1 points too few"):
        gb.calibrate(zero, x, y, calibrator=RandomlyLocalized(1.0, kernel="box"))([[50.0]])


@pytest.mark.parametrize("calibrator", [Weighted(lambda x: 1 + x[:, 0]), RandomlyLocalized(0.5)])
def test_they_can_be_evaluated(calibrator: Any) -> None:
    x, y = drawn(300)
    made = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), x[:100], y[:100], calibrator=calibrator)
    evaluation = gb.evaluate(made, x[100:], y[100:], level=0.8)
    assert evaluation.coverage > 0.7 and evaluation.verdict.endswith("no exact law for one test set.")
    found = gb.check(made, 0.3 + 0.1 * x)["shift"]
    assert found.alarm == isinstance(calibrator, RandomlyLocalized)
