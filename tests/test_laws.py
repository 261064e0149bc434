from typing import Any

import numpy as np
import pytest
from scipy import stats

from guardband.conformal.laws import (
    LEVELS,
    CoverageLaw,
    central_range,
    expected_deviation,
    simulated_deviations,
    tails,
    total_counts,
)
from guardband.conformal.rank import rank
from guardband.metrics import acd_floor


def test_the_levels_are_the_nineteen_of_the_paper() -> None:
    assert [float(level) for level in LEVELS] == [round(0.05 * i, 2) for i in range(1, 20)]


def test_the_law_is_scipys_beta_and_beta_binomial() -> None:
    law, beta = CoverageLaw(96, 100), stats.beta(96, 5)
    assert law.mean == pytest.approx(beta.mean()) and law.sd == pytest.approx(beta.std())
    assert law.below(0.95) == pytest.approx(beta.cdf(0.95))
    assert law.interval(0.9) == pytest.approx(beta.interval(0.9))
    counts: Any = stats.betabinom(100, 96, 5)
    assert law.counts(100) == pytest.approx(counts.pmf(np.arange(101)), rel=1e-9)
    assert law.counts(100_000).sum() == pytest.approx(1, abs=1e-8)
    assert law.count_range(100, 0.95) == (88, 100)
    assert tails(law.counts(100), 90) == pytest.approx((counts.cdf(90), counts.sf(89)))


def test_an_infinite_band_covers_everything() -> None:
    law = CoverageLaw(9, 8)
    assert law.infinite and law.mean == 1 and law.sd == 0
    assert law.interval() == (1, 1) and law.below(0.9) == 0
    assert law.count_range(10) == (10, 10)


def test_sums_over_experiments_and_groups_are_convolutions() -> None:
    first, second = CoverageLaw(18, 19), CoverageLaw(9, 9)
    direct = np.convolve(first.counts(7), second.counts(5))
    assert total_counts([(first, 7), (second, 5)]) == pytest.approx(direct, abs=1e-14)
    assert total_counts([(first, 7)], repeats=2) == pytest.approx(
        np.convolve(first.counts(7), first.counts(7)), abs=1e-14
    )


def test_a_central_range_leaves_at_most_its_share_on_each_side() -> None:
    probabilities = CoverageLaw(96, 100).counts(200)
    low, high = central_range(probabilities, 0.9)
    assert probabilities[:low].sum() <= 0.05 < probabilities[: low + 1].sum()
    assert probabilities[high + 1 :].sum() <= 0.05 < probabilities[high:].sum()


@pytest.mark.parametrize(
    ("n", "m", "mean", "low", "high"),
    [
        (100, 100, 0.0460, 0.0195, 0.0979),
        (200, 200, 0.0326, 0.0139, 0.0692),
        (150, 1000, 0.0285, 0.0123, 0.0603),
        (100, 2000, 0.0335, 0.0142, 0.0716),
        (30, 75, 0.0703, 0.0302, 0.1498),
    ],
)
def test_the_noise_floor_of_acd(n: int, m: int, mean: float, low: float, high: float) -> None:
    floor = acd_floor(n, m)
    assert floor.mean == pytest.approx(mean, abs=1.5e-4)
    assert floor.low == pytest.approx(low, abs=8e-4)
    assert floor.high == pytest.approx(high, abs=2e-3)


def test_simulated_deviations_average_to_the_exact_floor() -> None:
    # 20 000 draws; the standard error is below 2e-4, so 1e-3 is more than five of them.
    ranks = [rank(9, level) for level in LEVELS]
    draws = simulated_deviations([(ranks, 9, 50), (ranks, 9, 30)], LEVELS)
    laws = [[(CoverageLaw(k, 9), 50), (CoverageLaw(k, 9), 30)] for k in ranks]
    exact_mean = np.mean([expected_deviation(law, at) for law, at in zip(laws, LEVELS, strict=True)])
    assert draws.mean() == pytest.approx(exact_mean, abs=1e-3)
