"""Where to measure next, and when to doubt the equation."""

import itertools
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.pinn.inverse.design import Design, _unit
from guardband.pinn.inverse.doubt import _most_changes, p_values
from guardband.pinn.problems import Condition, Field

OSCILLATOR = pinn.Family(pinn.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)).exact()
HEAT = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
TIMES = np.linspace(0, 5, 60)[:, None]


def information(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    slopes = Design.at(OSCILLATOR, x).slopes(theta[None])[0]
    return slopes.T @ slopes


def test_the_chosen_points_tell_more_than_random_ones() -> None:
    theta = np.array([0.06, 6.2])
    chosen = pinn.next_points(OSCILLATOR, TIMES, 6, theta=[0.06, 6.2])
    best = np.linalg.slogdet(information(np.asarray(chosen.x), theta))[1]
    rng = np.random.default_rng(0)
    others = [np.linalg.slogdet(information(TIMES[rng.permutation(60)[:6]], theta))[1] for _ in range(300)]
    assert best > max(others)
    assert len({*chosen.numbers}) == 6 and (TIMES[list(chosen.numbers)] == chosen.x).all()


def test_the_first_point_is_the_best_one_by_brute_force() -> None:
    theta = np.array([0.06, 6.2])
    data = pinn.problems.DampedOscillator(damping=0.06, frequency=6.2).observe(5, dtype=torch.float64)
    known = information(np.asarray(data.x), theta)
    gains = [np.linalg.det(known + information(TIMES[i : i + 1], theta)) for i in range(60)]
    assert pinn.next_points(OSCILLATOR, TIMES, 1, data=data, theta=[0.06, 6.2]).numbers == (
        int(np.argmax(gains)),
    )
    cover = information(TIMES, theta)
    spread = [
        np.trace(np.linalg.solve(known + information(TIMES[i : i + 1], theta), cover)) for i in range(60)
    ]
    found = pinn.next_points(OSCILLATOR, TIMES, 1, goal="field", data=data, theta=[0.06, 6.2])
    assert found.numbers == (int(np.argmin(spread)),)


def test_what_is_dear_is_taken_later() -> None:
    free = pinn.next_points(HEAT, [[0.5, 0.2], [0.5, 0.9], [0.5, 0.0]], 1)
    assert free.numbers == (1,) or free.numbers == (0,)
    (first,) = free.numbers
    costs = np.ones(3)
    costs[first] = 1000.0
    other = pinn.next_points(HEAT, [[0.5, 0.2], [0.5, 0.9], [0.5, 0.0]], 1, costs=costs)
    assert other.numbers != free.numbers and other.cost == 1.0


def test_it_is_said_that_exactness_ends() -> None:
    assert "no exact level" in " ".join(repr(pinn.next_points(HEAT, [[0.5, 0.5]], 1)).split())


def test_what_is_asked_wrongly_is_refused_with_the_cure() -> None:
    with pytest.raises(ValueError, match="1 to 60"):
        pinn.next_points(OSCILLATOR, TIMES, 61)
    with pytest.raises(ValueError, match='"coefficients" or "field"'):
        pinn.next_points(OSCILLATOR, TIMES, 1, goal="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="60 positive numbers"):
        pinn.next_points(OSCILLATOR, TIMES, 1, costs=[1.0])


def test_a_wrong_equation_is_doubted() -> None:
    heat = pinn.Family(_Rod, diffusion=(0.01, 0.1)).exact()
    alarms = 0
    for seed in range(20):
        front = pinn.problems.ReactionDiffusion1D(diffusion=0.05, growth=2.0)
        data = front.observe(100, noise=0.05, seed=seed, dtype=torch.float64)
        found = pinn.inverse.doubt(heat, data)
        alarms += found.alarm
        assert not found.alarm or "have an order along the axes" in repr(found)
    assert alarms >= 18


@dataclass(frozen=True)
class _Rod(pinn.problems.ReactionDiffusion1D):
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


def test_no_directions_have_no_length() -> None:
    assert _unit(np.zeros((0, 3))).shape == (0, 3)
    assert np.array_equal(_unit(np.array([[0.0, 0.0], [3.0, 4.0]])), [[0.0, 0.0], [0.6, 0.8]])


@pytest.mark.parametrize("zeros", [0.0, 0.4, 0.8])
def test_noise_that_is_often_exactly_zero_raises_no_more_alarms(zeros: float) -> None:
    """Binomial(30, .01) at 1e-3; 0.2 doubted 44 of 60 right equations at 40 % zeros, and 60 at 70 %."""
    sets, rng = 30, np.random.default_rng(1)
    x = rng.uniform(0, 1, (100, 2))
    design, truth = Design.at(HEAT, x), HEAT.family.drawn(sets, seed=2)
    y = design.values(truth) + 0.05 * rng.normal(size=(sets, 100)) * (rng.uniform(size=(sets, 100)) > zeros)
    assert binom.sf(int((p_values(design, y) <= 0.01).sum()) - 1, sets, 0.01) > 1e-3


@dataclass(frozen=True)
class _Wave(pinn.Problem):
    """A wave whose readings are not monotone in its coefficients over the whole range."""

    amplitude: float = 1.0
    damping: float = 0.3
    frequency: float = 6.0
    domain = pinn.Time(0, 4)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t", "t")

    def conditions(self) -> list[Condition]:
        return []

    def solution(self, x: Tensor) -> Tensor:
        return self.amplitude * torch.exp(-self.damping * x) * torch.cos(self.frequency * x)


RANGES = {"amplitude": (0.5, 1.5), "damping": (0.1, 0.6), "frequency": (5.0, 7.0)}


def waves(
    count: int, sets: int, wrong: float = 0.0, zeros: float = 0.0, seed: int = 0
) -> tuple[Design, np.ndarray]:
    """Readings of waves with 3 coefficients or fewer, and of a force that the equation may leave out."""
    rng = np.random.default_rng(seed)
    family = pinn.Family(_Wave, **{name: RANGES[name] for name in list(RANGES)[-count:]}).exact()
    design = Design.at(family, rng.uniform(0, 4, (100, 1)))
    t = np.asarray(design.x)[:, 0]
    noise = 0.05 * rng.normal(size=(sets, 100)) * (rng.uniform(size=(sets, 100)) >= zeros)
    return design, design.values(family.family.drawn(sets, seed=2)) + wrong * t * (t < 2.5) + noise


def test_a_wrong_equation_with_three_coefficients_is_doubted() -> None:
    """One grid over the coefficients in place of cells that are halved doubts 0 of these 6."""
    assert (p_values(*waves(3, 6, wrong=0.15)) <= 0.01).sum() == 6


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_power_grows_with_the_error_of_the_equation(count: int) -> None:
    few, many = ((p_values(*waves(count, 20, wrong)) <= 0.01).sum() for wrong in (0.05, 0.15))
    assert many >= 18 and few < many


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_cells_doubt_a_right_equation_no_more_often_than_stated(count: int, zeros: float) -> None:
    """Binomial(sets, .01) at 1e-3; the readings of waves have turning points inside cells."""
    sets = 100 if count < 3 else 30
    alarms = int((p_values(*waves(count, sets, zeros=zeros)) <= 0.01).sum())
    assert binom.sf(alarms - 1, sets, 0.01) > 1e-3


def test_an_error_that_the_solver_may_have_is_not_held_against_the_equation() -> None:
    data = pinn.problems.Heat1D(diffusivity=0.1).observe(100, noise=0.02, dtype=torch.float64)
    off = gb.Observations(data.x, data.y + 0.4 * data.x[:, 1:])
    delta = float(np.linalg.norm(0.4 * data.x[:, 1]))
    assert pinn.inverse.doubt(HEAT, off).alarm
    assert not pinn.inverse.doubt(HEAT, off, delta=delta).alarm
    assert not pinn.coefficients(HEAT, off, delta=delta).doubt.alarm
    with pytest.raises(ValueError, match="a nonnegative number"):
        pinn.inverse.doubt(HEAT, off, delta=-1.0)


def test_a_search_that_takes_too_many_cells_raises_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["guardband.pinn.inverse.doubt"], "CELLS", 1728)
    assert (p_values(*waves(3, 1, wrong=0.15)) > 0.01).all()


def test_free_signs_are_those_with_the_most_changes() -> None:
    rng = np.random.default_rng(0)
    signs = rng.integers(-1, 2, size=(200, 7, 1))
    every = np.array(list(itertools.product([-1, 1], repeat=7)))
    changes = (np.diff(every, axis=1) != 0).sum(axis=1)
    found = _most_changes(signs)[:, 0]
    for one, most in zip(signs[:, :, 0], found, strict=True):
        assert most == changes[((one == 0) | (one == every)).all(axis=1)].max()
