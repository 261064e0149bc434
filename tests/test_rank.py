import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from guardband.conformal.rank import confident_rank, exact, parse_exact, points_needed, quantile, rank
from wings import needed, torch


@pytest.mark.slow
def test_the_rank_is_exact_for_all_n_up_to_2000_and_99_levels() -> None:
    for percent in range(1, 100):
        for n in range(2001):
            k = -(-(n + 1) * percent // 100)
            assert rank(n, percent / 100) == k, (n, percent)
            if n % 97 == 0:
                assert rank(n, f"0.{percent:02d}") == rank(n, Fraction(percent, 100)) == k


@pytest.mark.parametrize(
    "level",
    [
        "0.95",
        0.95,
        0.9500000000000001,
        1 - 0.05,
        Decimal("0.95"),
        Fraction(19, 20),
        np.float64(0.95),
        np.float32(0.95),
        np.float16(0.95),
        np.array(0.95),
        np.array(0.95, dtype=np.float32),
        torch.tensor(0.95),
        torch.tensor(0.95, dtype=torch.float64),
        np.linspace(0.05, 0.95, 19)[-1],
    ],
    ids=lambda level: f"{type(level).__name__} {level}",
)
def test_a_level_is_the_decimal_that_was_written(level: Any) -> None:
    needed(level)
    assert exact(level) == Fraction(19, 20)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fraction", ["2/3", "1/3", "6/7", "5/6", "1/7", "8/9"])
def test_a_float_that_is_a_simple_fraction_means_it(fraction: str, dtype: type) -> None:
    value = Fraction(fraction)
    assert exact(dtype(value.numerator / value.denominator)) == value
    assert exact(value.numerator / value.denominator) == value
    n = value.denominator - 1  # the smallest n at which (n + 1) level is whole
    assert rank(n, dtype(value.numerator / value.denominator)) == value.numerator


def test_a_decimal_is_never_taken_for_a_fraction_nearby() -> None:
    for digits in (1, 2, 3, 4):
        for i in range(1, 10**digits, max(1, 10**digits // 997)):
            assert exact(i / 10**digits) == Fraction(i, 10**digits)
    for i in range(1, 1000):
        assert exact(np.float32(i / 1000)) == Fraction(i, 1000)  # type: ignore[arg-type]
    assert exact(0.666) == Fraction(333, 500) and exact(0.6667) == Fraction(6667, 10000)
    assert exact(0.123456789012345) == Fraction("0.123456789012")


def test_bfloat16_is_the_shortest_decimal_that_rounds_to_it() -> None:
    for level in ("0.5", "0.8", "0.9", "0.95", "0.99", "0.75"):
        assert exact(torch.tensor(float(level), dtype=torch.bfloat16)) == Fraction(level)  # type: ignore[arg-type]
        assert exact(torch.tensor(float(level), dtype=torch.float16)) == Fraction(level)  # type: ignore[arg-type]


def test_a_grid_of_float_levels_means_what_it_says() -> None:
    for grid in (np.arange(1, 20) * 0.05, np.linspace(0.05, 0.95, 19), np.arange(0.05, 1, 0.05)[:19]):
        for dtype in (np.float64, np.float32):
            assert [exact(level) for level in grid.astype(dtype)] == [Fraction(i, 20) for i in range(1, 20)]


@pytest.mark.parametrize(
    ("level", "error", "text"),
    [
        (95, ValueError, r"`level` should lie strictly between 0 and 1, got 95. Did you mean 0.95\?"),
        (99.5, ValueError, r"Did you mean 0.995\?"),
        (0, ValueError, "got 0.$"),
        (1.0, ValueError, "got 1.0.$"),
        (-0.5, ValueError, "got -0.5.$"),
        (math.nan, ValueError, "got nan"),
        (math.inf, ValueError, "got inf"),
        ("95%", ValueError, "got '95%'"),
        (True, TypeError, "got True"),
        (None, TypeError, "one number between 0 and 1, got NoneType"),
        ([0.9], TypeError, "got list"),
        (np.array([0.9, 0.95]), TypeError, "got ndarray"),
    ],
)
def test_other_levels_are_errors_that_teach(level: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        exact(level)


def test_points_needed_is_the_first_n_with_a_finite_quantile() -> None:
    for level in ("0.5", "0.8", "0.9", "0.95", "0.99", "0.999"):
        n = points_needed(level)
        assert rank(n, level) <= n and rank(n - 1, level) > n - 1
        for confidence in ("0.5", "0.9", "0.95", "0.999"):
            n = points_needed(level, confidence)
            assert confident_rank(n, level, confidence) <= n
            assert confident_rank(n - 1, level, confidence) == n


def tail(n: int, k: int, p: Fraction) -> Fraction:
    """P(Binomial(n, p) >= k) = P(Beta(k, n+1-k) < p), exactly."""
    return sum((math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1)), Fraction(0))


@pytest.mark.parametrize("n", [1, 2, 4, 9, 19, 30, 45, 100])
def test_the_confident_rank_is_the_smallest_that_keeps_the_promise(n: int) -> None:
    for level in ("0.5", "0.75", "0.9", "0.95"):
        for confidence in ("0.5", "0.75", "0.9", "0.9375", "0.99"):
            k = confident_rank(n, level, confidence)
            delta = 1 - Fraction(confidence)
            assert k == n + 1 or tail(n, k, Fraction(level)) <= delta
            assert k == 1 or tail(n, k - 1, Fraction(level)) > delta


def test_a_confidence_met_with_equality_counts() -> None:
    # level^n = 1/16 = 1 - confidence at n = 4: floating point could fall on either side.
    assert confident_rank(4, "0.5", "0.9375") == 4
    assert confident_rank(3, "0.5", "0.9375") == 4  # infinite: n + 1
    assert points_needed("0.5", "0.9375") == 4
    # P(Binomial(n, 1/2) >= (n+1)/2) = 1/2 for every odd n.
    for n in (5, 101, 2001, 19_999):
        assert confident_rank(n, "0.5", "0.5") == (n + 1) // 2


def test_a_near_tie_too_large_for_exact_arithmetic_takes_the_safe_rank() -> None:
    assert confident_rank(40_001, "0.5", "0.5") == 20_002


def test_the_confident_rank_of_a_billion_scores_is_found_at_once() -> None:
    k = confident_rank(10**9, "0.95", "0.9")
    assert 0 < k - 0.95 * 10**9 < 10_000


def test_no_scores_give_an_infinite_quantile() -> None:
    assert quantile([], 0.5) == math.inf


def test_levels_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1, got '1/0'"):
        rank(10, "1/0")
    with pytest.raises(ValueError, match="farther from 1"):
        points_needed("0.99999999999999999999", 0.9)


def test_a_quotient_has_sixty_digits_on_either_side() -> None:
    assert parse_exact("1" * 60 + "/" + "3" * 60) == Fraction(1, 3)
    with pytest.raises(ValueError, match="too many digits"):
        parse_exact("1" * 61 + "/" + "3" * 61)
