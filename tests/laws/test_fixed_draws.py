"""Randomized methods keep their level at every fixed seed, not only on average over seeds."""

import pytest
from scipy.stats import binom

from test_conditional import covered_at
from test_inverse_regions import covered_by_signs

SEEDS, SETS = range(10), 2000


@pytest.mark.long
@pytest.mark.parametrize("n", [12, 19])
@pytest.mark.parametrize("places", [1, 2])
def test_conditional_is_not_below_the_level_where_places_repeat(places: int, n: int) -> None:
    """One-sided test of Binomial(2000, .9), 1e-3 shared among 40 cells; the draws of 0.2 fail it."""
    counts = [int(covered_at(places, n, seed, SETS).sum()) for seed in SEEDS]
    assert min(binom.cdf(count, SETS, 0.9) for count in counts) > 1e-3 / 40, counts


@pytest.mark.long
def test_signs_are_exact_at_every_seed_and_size() -> None:
    """Two-sided test of Binomial(1000, 1 - q / m), 1e-3 shared among 5 seeds and 12 sizes."""
    sizes = [4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 40]
    for n in sizes:
        for seed in range(5):
            inside, level = covered_by_signs(n, seed)
            tails = binom.cdf(inside, 1000, level), binom.sf(inside - 1, 1000, level)
            assert min(tails) > 5e-4 / (5 * len(sizes)), (n, seed, inside, level)
