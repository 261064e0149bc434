"""Where to measure next, and when to doubt the equation."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

import guardband as gb
from guardband.inverse.design import Design
from guardband.inverse.doubt import p_values

OSCILLATOR = gb.Family(gb.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)).exact()
HEAT = gb.Family(gb.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
TIMES = np.linspace(0, 5, 60)[:, None]


def information(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    slopes = Design.at(OSCILLATOR, x).slopes(theta[None])[0]
    return slopes.T @ slopes


def test_the_chosen_points_tell_more_than_random_ones() -> None:
    theta = np.array([0.06, 6.2])
    chosen = gb.next_points(OSCILLATOR, TIMES, 6, theta=[0.06, 6.2])
    best = np.linalg.slogdet(information(np.asarray(chosen.x), theta))[1]
    rng = np.random.default_rng(0)
    others = [np.linalg.slogdet(information(TIMES[rng.permutation(60)[:6]], theta))[1] for _ in range(300)]
    assert best > max(others)
    assert len({*chosen.numbers}) == 6 and (TIMES[list(chosen.numbers)] == chosen.x).all()


def test_the_first_point_is_the_best_one_by_brute_force() -> None:
    theta = np.array([0.06, 6.2])
    data = gb.problems.DampedOscillator(damping=0.06, frequency=6.2).observe(5, dtype=torch.float64)
    known = information(np.asarray(data.x), theta)
    gains = [np.linalg.det(known + information(TIMES[i : i + 1], theta)) for i in range(60)]
    assert gb.next_points(OSCILLATOR, TIMES, 1, data=data, theta=[0.06, 6.2]).numbers == (
        int(np.argmax(gains)),
    )
    cover = information(TIMES, theta)
    spread = [
        np.trace(np.linalg.solve(known + information(TIMES[i : i + 1], theta), cover)) for i in range(60)
    ]
    found = gb.next_points(OSCILLATOR, TIMES, 1, goal="field", data=data, theta=[0.06, 6.2])
    assert found.numbers == (int(np.argmin(spread)),)


def test_what_is_dear_is_taken_later() -> None:
    free = gb.next_points(HEAT, [[0.5, 0.2], [0.5, 0.9], [0.5, 0.0]], 1)
    assert free.numbers == (1,) or free.numbers == (0,)
    (first,) = free.numbers
    costs = np.ones(3)
    costs[first] = 1000.0
    other = gb.next_points(HEAT, [[0.5, 0.2], [0.5, 0.9], [0.5, 0.0]], 1, costs=costs)
    assert other.numbers != free.numbers and other.cost == 1.0


def test_it_is_said_that_exactness_ends() -> None:
    assert "no exact level any more" in " ".join(repr(gb.next_points(HEAT, [[0.5, 0.5]], 1)).split())


def test_what_is_asked_wrongly_is_refused_with_the_cure() -> None:
    with pytest.raises(ValueError, match="1 to 60"):
        gb.next_points(OSCILLATOR, TIMES, 61)
    with pytest.raises(ValueError, match='"coefficients" or "field"'):
        gb.next_points(OSCILLATOR, TIMES, 1, goal="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="60 positive numbers"):
        gb.next_points(OSCILLATOR, TIMES, 1, costs=[1.0])


def test_a_wrong_equation_is_doubted() -> None:
    heat = gb.Family(_Rod, diffusion=(0.01, 0.1)).exact()
    alarms = 0
    for seed in range(20):
        front = gb.problems.ReactionDiffusion1D(diffusion=0.05, growth=2.0)
        data = front.observe(100, noise=0.05, seed=seed, dtype=torch.float64)
        found = gb.inverse.doubt(heat, data)
        alarms += found.alarm
        assert not found.alarm or "have an order along the axes" in repr(found)
    assert alarms >= 18


@dataclass(frozen=True)
class _Rod(gb.problems.ReactionDiffusion1D):
    """The same start, which only diffuses."""

    def solution(self, x: Tensor) -> Tensor:
        nodes, weights = (torch.from_numpy(part).to(x) for part in np.polynomial.hermite.hermgauss(40))
        moved = x[:, :1] + torch.sqrt(4 * self.diffusion * x[:, 1:]) * nodes
        start = torch.sigmoid(-((2.0 / (6 * 0.05)) ** 0.5) * moved) ** 2
        return (weights * start).sum(dim=1, keepdim=True) / torch.pi**0.5


@pytest.mark.slow
def test_a_right_equation_is_doubted_no_more_often_than_stated() -> None:
    sets, rng = 300, np.random.default_rng(0)
    x = rng.uniform(0, 1, (40, 2))
    design, truth = Design.at(HEAT, x), HEAT.family.drawn(sets, seed=2)
    y = design.values(truth) + 0.05 * rng.laplace(size=(sets, 40))
    alarms = int((p_values(design, y) <= 0.01).sum())
    assert binom.sf(alarms - 1, sets, 0.01) > 1e-3
