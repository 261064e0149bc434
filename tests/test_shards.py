"""Shards: exact order statistics of many files, with ties and infinities."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal.rank import rank
from guardband.conformal.shards import calibrate_shards, count_scores, order_statistics


def split(scores: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
    return np.split(scores, np.sort(generator.integers(len(scores) + 1, size=generator.integers(0, 4))))


def agree(cases: int) -> None:
    generator = np.random.default_rng(0)
    for _ in range(cases):
        n = int(generator.integers(1, 60))
        scores = abs(generator.standard_cauchy(n)) * 10.0 ** generator.integers(-40, 25)
        if generator.uniform() < 0.5:
            scores = np.round(scores / scores.max() * 5)
        scores[generator.uniform(size=n) < 0.1] = np.inf
        scores[generator.uniform(size=n) < 0.1] = generator.choice([0.0, -0.0])
        scores = scores * generator.choice([1.0, -1.0], size=n)
        scores = scores.astype(np.float32 if generator.uniform() < 0.5 else np.float64)
        ranks = [int(k) for k in generator.integers(1, n + 3, size=5)]
        found = order_statistics(split(scores, generator), ranks)
        expected = np.append(np.sort(scores.astype(float)), [np.inf] * 3)[np.array(ranks) - 1]
        assert np.array_equal(found, expected)


def test_a_few_small_cases_equal_a_sort() -> None:
    agree(40)


@pytest.mark.slow
def test_small_cases_equal_a_sort() -> None:
    agree(500)


@pytest.mark.long
def test_ten_thousand_small_cases_equal_a_sort() -> None:
    agree(10_000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_functions_and_arrays_are_shards(dtype: Any, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    scores = abs(generator.normal(size=900_000)).astype(dtype)
    a, b, c = np.split(scores, 3)
    np.save(tmp_path / "a.npy", a)
    shards = [tmp_path / "a.npy", b, lambda: iter([c[:1000], c[1000:]])]
    ranks = [rank(len(scores), level) for level in gb.conformal.LEVELS]
    assert np.array_equal(order_statistics(shards, ranks), np.sort(scores)[np.array(ranks) - 1])
    assert count_scores(shards) == len(scores)


def test_shards_of_different_kinds_are_compared_as_they_are() -> None:
    small, large = np.array([0.1], np.float32), np.array([0.1])
    assert order_statistics([small, large], [1, 2]).tolist() == [0.1, float(np.float32(0.1))]
    mixed = [lambda: iter([small, large])]
    assert order_statistics(mixed, [2])[0] == float(np.float32(0.1))


def test_what_is_no_score_is_refused() -> None:
    with pytest.raises(ValueError, match="numbers, but one is NaN"):
        order_statistics([np.array([1.0, np.nan])], [1])
    with pytest.raises(ValueError, match="one number per point, got shape"):
        order_statistics([np.ones((2, 2))], [1])
    with pytest.raises(ValueError, match="counted from 1, got 0"):
        order_statistics([np.ones(2)], [0])
    with pytest.raises(ValueError, match="at least one score"):
        calibrate_shards(gb.predictors.MeanOnly(np.sin), [np.empty(0)], [0.9], x=[0.0])


def test_a_calibration_from_shards_is_that_of_split() -> None:
    generator = np.random.default_rng(2)
    x, y = generator.uniform(size=(500, 1)), generator.normal(size=(500, 1))
    predictor = gb.predictors.Given(np.sin, lambda x: 1 + x)
    whole = gb.calibrate(predictor, x, y)
    scores = gb.Scaled()(predictor(x), y)
    made = calibrate_shards(predictor, [scores[:100], scores[100:]], ["0.5", 0.95], x=x[:3])
    for level in (0.5, 0.95):
        assert np.array_equal(made(x, level).upper, whole(x, level).upper)
        assert made.threshold.laws(level, 10) == whole.threshold.laws(level, 10)
    with pytest.raises(ValueError, match=r"one of the `levels` of this calibration, 0.5, 0.95, got 0.9"):
        made(x, 0.9)
    few = calibrate_shards(predictor, [scores[:10]], [0.95], x=x[:3])
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="level 0.95 needs 19 scores, but there are 10"):
        few(x, 0.95)
    lost = calibrate_shards(predictor, [np.full(30, np.inf)], [0.9], x=x[:3])
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="too many scores are infinite"):
        lost(x, 0.9)


def test_no_ranks_no_values() -> None:
    assert order_statistics([np.arange(3.0)], []).shape == (0,)
