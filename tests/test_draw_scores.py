"""CRPS, energy score, PIT and quantile loss: equal to scoringrules, with correct standard errors."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, kstest

import guardband as gb
from guardband.metrics import Average, crps, energy_score, interval_score, pit, quantile_loss
from wings import pinn

RNG = np.random.default_rng
Y, DRAWS = RNG(0).normal(size=(40, 3)), RNG(1).normal(size=(15, 40, 3))


def test_they_are_those_of_scoringrules() -> None:
    rules = pytest.importorskip("scoringrules")
    each = rules.crps_ensemble(Y, DRAWS, m_axis=0, estimator="nrg")
    fair = rules.crps_ensemble(Y, DRAWS, m_axis=0, estimator="fair")
    assert crps(DRAWS, Y).mean == pytest.approx(each.mean(), rel=1e-12)
    assert crps(DRAWS, Y, fair=True).mean == pytest.approx(fair.mean(), rel=1e-12)
    energy = rules.es_ensemble(Y, DRAWS, m_axis=0, v_axis=-1)
    assert energy_score(DRAWS, Y).mean == pytest.approx(energy.mean(), rel=1e-12)
    for at in (0.1, 0.5, 0.9):
        pinball = rules.quantile_score(Y, DRAWS[0], at)
        assert quantile_loss(DRAWS[0], Y, at=at).mean == pytest.approx(pinball.mean(), rel=1e-12)
    rows = each.mean(axis=1)
    assert crps(DRAWS, Y).standard_error == pytest.approx(rows.std(ddof=1) / 40**0.5)


def test_they_are_what_their_formulas_say() -> None:
    pairs = abs(DRAWS[:, None] - DRAWS[None])
    by_hand = abs(DRAWS - Y).mean(axis=0) - pairs.mean(axis=(0, 1)) / 2
    assert crps(DRAWS, Y).mean == pytest.approx(by_hand.mean())
    assert crps(DRAWS[:1], Y).mean == pytest.approx(abs(DRAWS[0] - Y).mean())
    one = energy_score(DRAWS[..., :1], Y[:, :1])
    assert one.mean == pytest.approx(crps(DRAWS[..., :1], Y[:, :1]).mean)
    band = gb.Band(None, Y, Y - 0.3, Y + 0.7, level=0.8)
    target = Y + RNG(2).normal(size=Y.shape)
    loss = quantile_loss(band, target).mean
    assert loss == pytest.approx((1 - 0.8) / 4 * interval_score(band, target))


def test_a_right_ensemble_has_the_best_expected_scores() -> None:
    """Paired differences over 4000 rows, five standard errors away."""
    y, right = RNG(3).normal(size=(4000, 1)), RNG(4).normal(size=(30, 4000, 1))
    for score in (crps, energy_score):
        for other in (0.3 * right, 3 * right, right + 1):
            better, worse = score(right, y), score(other, y)
            assert worse.mean - better.mean > 5 * np.hypot(better.standard_error, worse.standard_error)


def test_standard_errors_are_those_of_repeated_experiments() -> None:
    """The mean of 100 rows lies within 1.96 standard errors of the truth in about 95 % of cases."""
    generator, inside, expected = RNG(5), 0, (2 / np.pi) ** 0.5
    for _ in range(1000):
        y = generator.normal(size=100)
        found = crps(np.zeros((1, 100)), y)  # the absolute error, sqrt(2 / pi) on average
        inside += abs(found.mean - expected) < 1.96 * found.standard_error
    assert binom.ppf(1e-3, 1000, 0.93) <= inside <= binom.ppf(1 - 1e-3, 1000, 0.96)


def test_the_pit_of_one_more_draw_is_uniform_and_ties_fall_at_random() -> None:
    draws = RNG(6).normal(size=(19, 5000, 1))
    y = RNG(7).normal(size=(5000, 1))
    assert kstest(pit(draws, y).values.ravel(), "uniform").pvalue > 1e-3
    assert pit(draws, y).p > 1e-3 and pit(draws, y).counts.sum() == 5000
    coarse = pit(np.round(draws), np.round(y))
    assert kstest(coarse.values.ravel(), "uniform").pvalue > 1e-3
    assert np.array_equal(coarse.values, pit(np.round(draws), np.round(y)).values), "fixed by its seed"
    assert pit(2 * draws, y).p < 1e-6 and pit(2 * draws, y).counts[5] > pit(2 * draws, y).counts[0]


def test_draws_of_a_predictor_go_in_as_they_are() -> None:
    import torch

    net = torch.nn.Linear(1, 1)
    predictor = pinn.predictors.Draws(net, {"bias": torch.randn(7, 1, generator=torch.Generator())})
    found = crps(predictor.outputs(torch.zeros(4, 1)), [0.0] * 4)
    assert isinstance(found, Average) and found.n == 4 and found.standard_error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: crps(DRAWS, Y[:5]), r"`draws` should have shape \(k, 5, 3\) for y of shape \(5, 3\), got"),
        (lambda: crps(DRAWS[:1], Y, fair=True), "at least two draws"),
        (lambda: quantile_loss(Y, Y), "`at` should be the probability of the quantiles"),
        (lambda: quantile_loss(Y[:2], Y, at=0.5), "`y` should have the shape of the quantiles"),
        (lambda: quantile_loss(gb.Band(None, Y, Y, Y, 0.9), Y, at=0.5), "A band has its own level"),
        (lambda: pit(DRAWS * np.nan, Y), "`draws` should be finite"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_one_row_has_no_standard_error() -> None:
    assert np.isnan(crps([[0.0]], [1.0]).standard_error) and "nan" in str(crps([[0.0]], [1.0]))
