"""What one training tells: Laplace intervals of its unknowns, and where it wants the next reading."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import guardband as gb
from guardband import pinn
from guardband.pinn.inverse.laplace import Curvature

DATA = pinn.problems.Heat1D(diffusivity=0.12).observe(30, noise=0.02)
PLACES = np.random.default_rng(0).uniform(size=(25, 2))


@cache
def found(physics: float = 0.05, known: bool = False) -> pinn.Fitted:
    problem = pinn.problems.Heat1D(diffusivity=0.12 if known else pinn.Unknown(0.02, 0.2))
    likelihood, recipe = pinn.Likelihood(data=0.02, physics=physics), pinn.Recipe.by_newton(30)
    net = pinn.mlp(problem, [8, 8])
    return pinn.fit(problem, net, DATA, likelihood=likelihood, recipe=recipe, progress=False)


@pytest.mark.slow
def test_the_length_is_set_by_the_scale_of_the_physics_and_that_is_said() -> None:
    lengths = [
        np.diff(pinn.inverse.laplace_intervals(found(p))["diffusivity"])[0] for p in (0.002, 0.05, 0.5)
    ]
    assert 0 < lengths[0] < 0.7 * lengths[1] < 0.7 * 0.7 * lengths[2] < 0.18
    said = repr(pinn.inverse.laplace_intervals(found()))
    assert "No coverage is stated" in said and "physics scale" in said


def test_the_interval_lies_around_the_estimate_within_the_range_and_grows_with_the_level() -> None:
    ends = [pinn.inverse.laplace_intervals(found(), level)["diffusivity"] for level in (0.5, 0.95, 1 - 1e-12)]
    value = found().estimates["diffusivity"]
    assert 0.02 <= ends[2][0] < ends[1][0] < ends[0][0] < value < ends[0][1] < ends[1][1] < ends[2][1] <= 0.2


@pytest.mark.parametrize("made", [lambda: found(known=True), lambda: found().net])
def test_a_training_without_unknowns_is_refused(made: Any) -> None:
    with pytest.raises(ValueError, match=r"Replace a number of the problem with pinn.Unknown\(low, high\)"):
        pinn.inverse.laplace_intervals(made())
    with pytest.raises(ValueError, match="`level` should lie between 0 and 1"):
        pinn.inverse.laplace_intervals(found(), 1.0)


def covariance(curvature: Curvature, targets: torch.Tensor, readings: torch.Tensor) -> torch.Tensor:
    """Of the targets after readings, by the precision of weights and unknowns as a whole."""
    before = curvature._factor @ curvature._factor.T
    after = before + readings.T @ readings / curvature.noise[0] ** 2
    return targets @ torch.linalg.solve(after, targets.T)


@pytest.mark.parametrize("goal", ["field", "coefficients"])
def test_each_next_point_is_the_best_one_by_brute_force(goal: Any) -> None:
    curvature = Curvature(found())
    slopes = curvature.slopes(torch.tensor(PLACES))
    targets = slopes if goal == "field" else curvature.of_unknowns()
    chosen = list[int]()
    for _ in range(3):
        left = [i for i in range(25) if i not in chosen]
        after = [covariance(curvature, targets, slopes[[*chosen, i]]) for i in left]
        worth = [-(a.trace() if goal == "field" else a.logdet()).item() for a in after]
        chosen.append(left[int(np.argmax(worth))])
    assert pinn.next_points(found(), PLACES, 3, goal=goal).numbers == tuple(chosen)


def test_the_same_in_float32_with_costs_and_without_unknowns() -> None:
    places = torch.tensor(PLACES).float()
    free = pinn.next_points(found(known=True), places, 1, goal="field")
    assert isinstance(free.x, torch.Tensor) and free.x.dtype == torch.float32
    costs = np.where(np.arange(25) == free.numbers[0], 1e4, 1.0)
    assert pinn.next_points(found(known=True), places, 1, goal="field", costs=costs).numbers != free.numbers


def test_what_cannot_be_asked_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match='Use goal="field"'):
        pinn.next_points(found(known=True), PLACES, 1)
    with pytest.raises(ValueError, match="Omit `data` and `theta`"):
        pinn.next_points(found(), PLACES, 1, data=DATA)
    with pytest.raises(ValueError, match=r"should have shape \(k, 2\), one row per point, got \(25, 1\)"):
        pinn.next_points(found(), PLACES[:, :1], 1)


def test_only_outputs_that_were_read_are_read_again() -> None:
    problem = pinn.problems.LotkaVolterra()
    times = problem.domain.uniform(20, seed=0)
    prey = gb.Observations(times, problem.solution(times)[:, :1], outputs="prey")
    recipe = pinn.Recipe.by_newton(5)
    fitted = pinn.fit(problem, pinn.mlp(problem, [6]), prey, recipe=recipe, progress=False)
    curvature = Curvature(fitted)
    assert curvature.measured.tolist() == [True, False]
    assert len(pinn.next_points(fitted, times, 4, goal="field")) == 4
