"""Deterministic laws on many random cases: 1e5 in every run, 1e6 with `pytest -m long`."""

from fractions import Fraction

import numpy as np
import pytest

import guardband as gb
from guardband.conformal import quantile, rank
from guardband.conformal.rank import kth

CASES = [pytest.param(100_000, id="1e5"), pytest.param(1_000_000, id="1e6", marks=pytest.mark.long)]


def reference_quantile(scores: list[float], level: Fraction) -> float:
    """The smallest t with at least (n + 1) level scores at or below it, by counting."""
    needed = (len(scores) + 1) * level
    ordered = sorted(scores)
    for i, t in enumerate(ordered):
        if i + 1 >= needed:
            return t
    return float("inf")


def random_scores(generator: np.random.Generator) -> np.ndarray:
    """A few scores: tiny n, ties, infinities, float32, very small and very large numbers."""
    n = int(generator.integers(0, 26))
    kind = generator.integers(6)
    scores = abs(generator.standard_cauchy(size=n))
    if kind == 1:
        scores = np.round(scores)  # ties
    elif kind == 2:
        scores[generator.uniform(size=n) < 0.2] = np.inf
    elif kind == 3:
        scores = scores.astype(np.float32)
    elif kind == 4:
        scores = scores * 10.0 ** generator.integers(-320, 300, size=n)
    elif kind == 5:
        scores = np.round(scores.astype(np.float32), 1) * 0
    return scores


@pytest.mark.parametrize("cases", CASES)
def test_the_quantile_equals_the_exact_rational_reference(cases: int) -> None:
    generator = np.random.default_rng(2)
    mismatches = 0
    for _ in range(cases):
        scores = random_scores(generator)
        digits = int(generator.integers(1, 5))
        level = int(generator.integers(1, 10**digits))
        written = f"0.{level:0{digits}d}"
        expected = reference_quantile([float(s) for s in scores], Fraction(level, 10**digits))
        for spelled in (written, float(written)):
            mismatches += quantile(scores, spelled) != expected
    assert mismatches == 0


@pytest.mark.filterwarnings("ignore:The outputs differ in size")
@pytest.mark.parametrize("cases", CASES)
def test_at_least_k_of_n_calibration_points_lie_in_their_own_band(cases: int) -> None:
    """For very small, very large and cancelling numbers, in both precisions."""
    generator = np.random.default_rng(3)
    scores = (gb.Absolute(), gb.Scaled(), gb.conformal.Total(0.1))
    failures = 0
    for case in range(cases):
        n = int(generator.integers(1, 30))
        outputs = 1 + case % 2
        dtype = (np.float64, np.float32)[case // 2 % 2]
        reach = (3.0, 30.0, 300.0 if dtype is np.float64 else 37.0)[case // 4 % 3]
        shape = (n, outputs)
        mean = (generator.normal(size=shape) * 10 ** generator.uniform(-reach, reach)).astype(dtype)
        scale = (abs(generator.normal(size=shape)) * 10 ** generator.uniform(-reach, reach)).astype(dtype)
        miss = generator.normal(size=shape) * 10 ** generator.uniform(-reach, reach)
        y = (mean + miss).astype(dtype if case % 5 else np.float64)
        if case % 7 == 0:
            scale[0], y[0] = 0, mean[0]
        level = gb.conformal.LEVELS[case % 19]
        calibrated = gb.calibrate_arrays(mean, y, scale, score=scores[case % 3])
        k = min(rank(n, level), n)
        q = kth(calibrated.threshold.scores, k)  # type: ignore[attr-defined]
        band = calibrated.score.band(calibrated.prediction, q, float(level))
        failures += int(band.contains(y).sum()) < k
    assert failures == 0
