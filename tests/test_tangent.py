"""Tangent bands: equal to brute force, exact at the level, blind to nothing that has seen the readings."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom, binomtest

import guardband as gb
from guardband import pinn
from guardband.conformal import rank
from guardband.conformal.cross import band_between
from guardband.pinn.misses.jacobian import jacobian, value
from guardband.pinn.misses.likelihood import scales_of
from guardband.pinn.misses.points import fixed_points
from guardband.pinn.misses.rows import Rows
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.predictors.tangent import Ridge

FALSE_ALARM = 1e-3 / 16
"""The false-alarm rate of each of at most 16 comparisons in this file."""

HEAT = pinn.problems.Heat1D()
WRONG = pinn.problems.Heat1D(diffusivity=0.64)
KINDS = ("full", "jackknife+")


@cache
def fitted() -> pinn.Fitted:
    """A small network that knows a wrong equation, and no readings."""
    return pinn.fit(WRONG, pinn.mlp(2, [10, 10]), recipe=pinn.Recipe.by_newton(15), progress=False)


@cache
def tangent() -> pinn.Tangent:
    return pinn.Tangent(fitted(), noise=0.05, n_interior=128, n_boundary=64)


@cache
def pool() -> tuple[np.ndarray, np.ndarray]:
    """What is true minus the network, and the twenty strongest features, at many places."""
    x = HEAT.domain.uniform(2000, torch.Generator().manual_seed(5), dtype=torch.float64)
    made = tangent().calibrate(x[:40], HEAT.solution(x[:40]))
    base = made.fitted(x)
    return (HEAT.solution(x) - base).numpy()[:, 0], made.predict(x).features[:, -20:]


def band_of(ridge: Ridge, features: np.ndarray, kind: str, level: Any) -> gb.Band:
    nowhere = np.zeros(len(features))
    prediction = ridge.around(nowhere[:, None], nowhere, features)
    return band_between(prediction, *ridge.without(features, kind, prediction.mean), level)


# Equal to brute force


def whole_numbers(
    rng: np.random.Generator, n: int, queries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, 2), readings in quarters, features of queries, and candidates: so few that many tie."""
    features, y = rng.integers(-2, 3, size=(n, 2)), rng.integers(-12, 13, size=n)
    return features, y, rng.integers(-2, 3, size=(queries, 2)), np.arange(-40, 41)


def decided(
    features: np.ndarray, y: np.ndarray, query: np.ndarray, candidates: np.ndarray, k: int
) -> np.ndarray:
    """Which candidates conformal prediction keeps, score by score, in whole numbers: noise is 1.

    M = 1 - H of all n + 1 points times the determinant of 1 + F^T F; a score is (M y)_i^2 / M_ii.
    """
    f = np.vstack([features, query])
    a, b, c = 1 + f[:, 0] @ f[:, 0], f[:, 0] @ f[:, 1], 1 + f[:, 1] @ f[:, 1]
    m = (a * c - b * b) * np.eye(len(f), dtype=np.int64) - f @ np.array([[c, -b], [-b, a]]) @ f.T
    off = (m[:, :-1] @ y)[:, None] + m[:, -1:] * candidates  # (n + 1, candidates)
    at_least = off[:-1] ** 2 * m[-1, -1] >= off[-1] ** 2 * m.diagonal()[:-1, None]
    return at_least.sum(axis=0) >= len(features) - k + 1


def test_the_band_is_that_of_brute_force_in_whole_numbers_ties_included() -> None:
    """100 000 decisions and more; readings repeat, and candidates lie at the very ends."""
    rng, decisions, ties = np.random.default_rng(0), 0, 0
    while decisions < 100_000:
        n, level = int(rng.integers(4, 12)), ("0.5", "0.8", "0.6")[int(rng.integers(3))]
        features, y, queries, candidates = whole_numbers(rng, n, 8)
        queries[:2], k = features[:2], rank(n, level)
        band = band_of(Ridge(features.astype(float), y / 4, 1.0), queries.astype(float), "full", level)
        for i, query in enumerate(queries):
            exact = np.ones(len(candidates), bool) if k > n else decided(features, y, query, candidates, k)
            inside = (band.lower[i, 0] <= candidates / 4) & (candidates / 4 <= band.upper[i, 0])
            assert (inside == exact).all()
            decisions += len(candidates)
            ties += int(np.isclose(candidates / 4, band.upper[i, 0], rtol=1e-9).any())
    assert ties > 20


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_without_a_reading_is_what_a_fit_without_it_says(kind: str) -> None:
    rng = np.random.default_rng(1)
    f, y, new = rng.normal(size=(12, 5)), rng.normal(size=12), rng.normal(size=(7, 5))
    ridge = Ridge(f, y, 0.3)
    prediction = ridge.around(np.zeros((7, 1)), np.zeros(7), new)
    middle, reach = ridge.without(new, kind, prediction.mean)
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        without = Ridge(f[rest], y[rest], 0.3)
        here, there = (without.around(np.zeros((len(at), 1)), np.zeros(len(at)), at) for at in (f[[i]], new))
        assert ridge.left_out[i] == pytest.approx(y[i] - here.mean[0, 0])
        assert middle[:, i] == pytest.approx(there.mean[:, 0])
        ratio = there.scale[:, 0] / here.scale[0, 0] if kind == "full" else 1.0  # type: ignore[index]
        assert reach[:, i] == pytest.approx(abs(ridge.left_out[i]) * ratio)


def test_directions_carry_the_whole_prior() -> None:
    """The covariance that they give is the inverse of the Gauss-Newton curvature, written out."""
    made, net = tangent(), fitted().net.double()
    nothing = torch.zeros(0, 2).double(), torch.zeros(0, 1).double()
    points = fixed_points(WRONG, net, nothing, 128, 64, torch.Generator().manual_seed(0))
    scales = scales_of(fitted().likelihood, WRONG, titles_of(WRONG, net, points.inside))
    _, rows = Rows(WRONG, net, points, scales)()
    x = HEAT.domain.uniform(50, torch.Generator().manual_seed(1), dtype=torch.float64)
    slopes = jacobian(value, net, x)[1][:, 0]
    precision = 30 * rows.T @ rows + torch.eye(rows.shape[1]).double()
    known = slopes @ torch.linalg.solve(precision, slopes.T)
    found = slopes @ made.modes(30) @ (slopes @ made.modes(30)).T
    assert float((known - found).abs().max()) < 0.02 * float(known.diagonal().max()) + 1e-3 * 0.05**2
    net.float()


# The law


def covered(n: int, kind: str, draws: int, *, fit_first: bool = False) -> int:
    """How often one new reading lies in the band of n, at 90 %; a new data set each time."""
    truth, features = pool()
    rng, count = np.random.default_rng(n), 0
    for _ in range(draws):
        at = rng.integers(len(truth), size=n + 1)
        y = truth[at] + 0.05 * rng.normal(size=n + 1)
        if fit_first:  # weights that have seen the readings: they go through all of them
            powers = rng.normal(size=(n + 1, n))
            y = y - powers @ np.linalg.solve(powers[:n], y[:n]) * 0.8
        ridge = Ridge(features[at[:n]], y[:n], 0.05)
        count += int(band_of(ridge, features[at[n:]], kind, 0.9).contains(y[n:, None])[0])
    return count


@pytest.mark.slow("40", "60")
@pytest.mark.parametrize("n", [9, 19, 40, 60])
def test_full_covers_exactly_k_of_n_plus_1(n: int) -> None:
    """Two-sided, one new reading for each of 2000 data sets, the equation being wrong."""
    found = binomtest(covered(n, "full", 2000), 2000, rank(n, 0.9) / (n + 1))
    assert found.pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("n", [9, 40])
def test_jackknife_plus_keeps_its_weaker_promise(n: int) -> None:
    assert covered(n, "jackknife+", 2000) >= binom.ppf(FALSE_ALARM, 2000, 0.8)


def test_weights_that_saw_the_readings_are_caught_by_the_law() -> None:
    seen = covered(19, "full", 500, fit_first=True)
    assert binomtest(seen, 500, rank(19, 0.9) / 20, alternative="less").pvalue < FALSE_ALARM


def test_weights_that_saw_readings_are_refused() -> None:
    data = HEAT.observe(20, noise=0.05)
    saw = pinn.fit(WRONG, pinn.mlp(2, [4]), data, recipe=pinn.Recipe(steps=2, finish=0), progress=False)
    on = pinn.fit(WRONG, saw, recipe=pinn.Recipe(steps=2, finish=0), progress=False)
    assert on.training_data is None and on.saw_data and not fitted().saw_data
    for net in (saw, on):
        with pytest.raises(ValueError, match="its weights have seen readings"):
            pinn.Tangent(net)


def test_readings_that_watched_the_training_are_refused() -> None:
    data = HEAT.observe(20, noise=0.05)
    recipe = pinn.Recipe(steps=2, finish=0)
    watched = pinn.fit(WRONG, pinn.mlp(2, [4]), held_out=data, recipe=recipe, progress=False)
    with pytest.raises(ValueError, match="validation"):
        pinn.Tangent(watched, noise=0.1).calibrate(*data)


# The band


def test_all_kinds_of_arrays_give_the_same_band() -> None:
    x, y = (np.asarray(part, dtype=np.float64) for part in HEAT.observe(19, noise=0.05))
    new = np.asarray(HEAT.observe(5, seed=9).x, dtype=np.float64)
    wide = tangent().calibrate(x, y)(new, 0.9)
    for kind in (np.float32, torch.float64, torch.float32):
        as_kind = (
            (lambda a, k=kind: torch.tensor(a, dtype=k))
            if isinstance(kind, torch.dtype)
            else (lambda a, k=kind: a.astype(k))
        )
        band = tangent().calibrate(as_kind(x), as_kind(y)[:, 0])(as_kind(new), 0.9)
        assert type(band.lower) is type(as_kind(x)) and band.lower.dtype == kind
        assert np.allclose(np.asarray(band.lower), wide.lower, atol=1e-5)
    again = tangent().calibrate(x, y)
    x[:] = 0
    assert np.array_equal(again(new, 0.9).upper, wide.upper), "it keeps its own readings"


def test_too_few_readings_give_an_infinite_band() -> None:
    made = tangent().calibrate(*HEAT.observe(8, noise=0.05))
    assert made.size(0.9) == gb.conformal.Size(8, 9, "readings")
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="level 0.9 needs 9 readings, but there are 8"):
        assert np.isinf(made([[0.5, 0.5]], 0.9).width).all()
    with warnings.catch_warnings(action="error"):
        assert np.isfinite(tangent().calibrate(*HEAT.observe(9))([[0.5, 0.5]], 0.9).width).all()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_saved_evaluated_and_checked(kind: Any, tmp_path: Path) -> None:
    made = tangent().calibrate(*HEAT.observe(30, noise=0.05), kind=kind)
    new = HEAT.observe(200, noise=0.05, seed=7)
    again = gb.load(gb.save(made, tmp_path / "band"))
    for level in (0.5, 0.9):
        assert np.array_equal(again(new.x, level).lower, made(new.x, level).lower)
    assert repr(again) == repr(made) and again.promise == made.promise
    said = str(gb.evaluate(made, new.x, new.y, level=0.9))
    assert "0.9" in said and str(gb.check(made, new.x))
    assert float(made.promised("0.9")) == (0.9 if kind == "full" else 0.8)
    before = made.before(made.predict(new.x), 0.9)
    assert before is not None and (before.width > 0).all()


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_threads_and_modes_change_nothing(mode: Any) -> None:
    data, new = HEAT.observe(20, noise=0.05), HEAT.observe(30, seed=3).x
    plain = pinn.Tangent(fitted(), noise=0.05).calibrate(*data)(new, 0.9)
    with mode():
        made = pinn.Tangent(fitted(), noise=0.05).calibrate(*data)
    with ThreadPoolExecutor(8) as threads:
        bands = list(threads.map(lambda _: made(new, 0.9), range(16)))
    assert all(torch.equal(torch.as_tensor(band.upper), torch.as_tensor(plain.upper)) for band in bands)


def test_an_equation_that_counts_more_moves_less() -> None:
    x, y = HEAT.observe(30, noise=0.05)
    off = [
        float(
            abs(
                pinn.Tangent(fitted(), noise=0.05, counts=count).calibrate(x, y).predict(x).mean - fitted()(x)
            ).max()
        )
        for count in (1, 1e6)
    ]
    assert off[1] < 0.2 * off[0]


# What is refused


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: pinn.Tangent(pinn.mlp(2, [4])), TypeError, r"the result of `pinn.fit\(problem, net\)`"),  # type: ignore[arg-type]
        (lambda: pinn.Tangent(fitted(), noise=0), ValueError, "`noise` should be a positive number, got 0"),
        (lambda: pinn.Tangent(fitted(), physics=-1.0), ValueError, "`physics` should be a positive number"),
        (lambda: pinn.Tangent(fitted(), counts=0), ValueError, "`counts` should be a positive number"),
        (lambda: tangent().calibrate([0.1], [0.2]), ValueError, r"\(n, 2\) for x and \(n, 1\) for y"),
        (lambda: tangent().calibrate(np.ones((3, 2)), np.ones((3, 2))), ValueError, r"and \(3, 2\)"),
        (lambda: tangent().calibrate(np.ones((0, 2)), np.ones((0, 1))), ValueError, "n of at least 1"),
        (lambda: tangent().calibrate(np.ones((3, 2)), [1, np.nan, 2]), ValueError, "row 1 is NaN"),
        (lambda: tangent().calibrate(*HEAT.observe(9), kind="plus"), ValueError, "'full' or 'jackknife\\+'"),  # type: ignore[arg-type]
        (lambda: tangent().calibrate(*HEAT.observe(9))([0.5]), ValueError, r"like the readings"),
        (
            lambda: tangent().calibrate(*HEAT.observe(9)).band(gb.Prediction(None, [0.0])),
            TypeError,
            r"calibrated.predict\(x\), got Prediction",
        ),
        (
            lambda: tangent().calibrate(*HEAT.observe(9))([[0.5, 0.5]], groups=["a"]),
            ValueError,
            "treats all points alike",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_a_sentence(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


def test_windows_and_several_outputs_are_refused() -> None:
    recipe = pinn.Recipe(steps=2, finish=0, windows=2)
    windows = pinn.fit(WRONG, pinn.mlp(2, [4]), recipe=recipe, progress=False)
    with pytest.raises(ValueError, match=r"per time window.*Train a single network, pinn.fit"):
        pinn.Tangent(windows)
    problem = pinn.problems.LotkaVolterra()
    two = pinn.fit(problem, pinn.mlp(problem, [4]), recipe=pinn.Recipe(steps=2, finish=0), progress=False)
    with pytest.raises(ValueError, match="needs a network with one output"):
        pinn.Tangent(two)


def test_where_a_point_lies_is_one_row_per_point() -> None:
    with pytest.raises(ValueError, match=r"`features` should have one row per point, \(2, r\), got None"):
        pinn.TangentPrediction(None, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"one row per point, \(2, r\), got \(3, 1\)"):
        pinn.TangentPrediction(None, [1.0, 2.0], features=np.ones((3, 1)))
