"""Units: an equation of milliseconds, hours or micrometers is solved as well as one in units of its own."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.pinn.convergence.error import _factor, _loose, _loose_there
from guardband.pinn.misses.likelihood import BOUNDARY_SHARE, DROWNED, PHYSICS_SHARE, typical_residual
from guardband.pinn.misses.sizes import crude_sizes
from guardband.pinn.problems import Field


@dataclass(frozen=True)
class Swing(pinn.Problem):
    """u'' + 2 z w u' + w^2 u = 0 over three periods of so many seconds, let go at a height."""

    period: float = 1.0
    height: float = 1.0

    def __post_init__(self) -> None:
        vars(self).update(domain=pinn.Time(0, 3 * self.period))

    @property
    def frequency(self) -> float:
        return 2 * math.pi / self.period

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t", "t") + 0.1 * self.frequency * u.d("t") + self.frequency**2 * u.value

    def conditions(self) -> list[Any]:
        return [pinn.Initial(self.height, velocity=0.0)]

    def solution(self, x: Tensor) -> Tensor:
        inside = self.frequency * math.sqrt(1 - 0.05**2)
        shape = torch.cos(inside * x) + 0.05 / math.sqrt(1 - 0.05**2) * torch.sin(inside * x)
        return self.height * torch.exp(-0.05 * self.frequency * x) * shape


@dataclass(frozen=True)
class Bar(pinn.Problem):
    """A wave in a bar: rho u_tt = E u_xx, fixed at both ends, for one period."""

    length: float = 2.0
    density: float = 1.0
    stiffness: float = 1.0
    height: float = 1.0

    def __post_init__(self) -> None:
        period = 2 * self.length * math.sqrt(self.density / self.stiffness)
        vars(self).update(domain=pinn.Segment(0, self.length) * pinn.Time(0, period))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return self.density * u.d("t", "t") - self.stiffness * u.d("x", "x")

    def conditions(self) -> list[Any]:
        return [pinn.Dirichlet(0.0), pinn.Initial(self.start, velocity=0.0)]

    def start(self, x: Tensor) -> Tensor:
        return self.height * torch.sin(torch.pi * x[:, :1] / self.length)

    def solution(self, x: Tensor) -> Tensor:
        speed = math.sqrt(self.stiffness / self.density)
        return self.start(x) * torch.cos(torch.pi * speed * x[:, 1:] / self.length)


@dataclass(frozen=True)
class Ring(pinn.Problem):
    """Heat around a ring of so many meters: u_t = D u_xx, warmer on one side, over an offset."""

    length: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        vars(self).update(domain=pinn.Segment(0, self.length) * pinn.Time(0, self.length))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") - 0.1 * self.length * u.d("x", "x")

    def conditions(self) -> list[Any]:
        return [pinn.Periodic("x"), pinn.Initial(self.start)]

    def start(self, x: Tensor) -> Tensor:
        return self.offset + 20 * torch.sin(2 * torch.pi * x[:, :1] / self.length)

    def solution(self, x: Tensor) -> Tensor:
        decay = torch.exp(-0.1 * (2 * torch.pi) ** 2 * x[:, 1:] / self.length)
        return self.offset + (self.start(x) - self.offset) * decay


def error(problem: pinn.Problem, net: torch.nn.Module, steps: int) -> tuple[float, pinn.Fitted]:
    """The relative error after so many Gauss-Newton steps, and the training."""
    fitted = pinn.fit(problem, net, recipe=pinn.Recipe.by_newton(steps), progress=False)
    x = problem.domain.quasi(500, dtype=torch.float64)
    truth = problem.solution(x)
    return float((torch.as_tensor(fitted(x)) - truth).norm() / truth.norm()), fitted


@pytest.mark.slow
@pytest.mark.parametrize("period", [1.0, 1e-3, 3600.0])
def test_an_oscillator_in_any_unit_of_time_is_solved(period: float) -> None:
    problem = Swing(period, height=1e-3)
    off, fitted = error(problem, pinn.mlp(problem), 100)
    assert off < 1e-3 and fitted.verdict.word == "converged"


@pytest.mark.slow
@pytest.mark.parametrize("bar", [Bar(), Bar(density=7850.0, stiffness=210e9, height=1e-4)])
def test_a_bar_of_steel_is_solved_as_one_of_ones(bar: Bar) -> None:
    off, _ = error(bar, pinn.mlp(bar, [24, 24]), 80)
    assert off < 0.03


@pytest.mark.slow("True-10000.0", "False-1e-06")
@pytest.mark.parametrize("length", [1.0, 1e-6, 1e4])
@pytest.mark.parametrize("exactly", [True, False])
def test_a_ring_of_any_length_is_solved(length: float, exactly: bool) -> None:
    ring = Ring(length, offset=300.0)
    net = pinn.mlp(ring, [16, 16]) if exactly else pinn.mlp(2, [16, 16])
    off, _ = error(ring, net, 40)
    assert off < 1e-3


@pytest.mark.parametrize("length", [1.0, 1e-6, 1e4])
def test_a_crude_solution_knows_that_a_ring_is_closed(length: float) -> None:
    """Its constant is what the offset is; a polynomial around a ring is little else."""
    assert float(crude_sizes(Ring(length, offset=300.0))) == pytest.approx(300.0, rel=0.01)
    assert 1 < float(crude_sizes(Ring(length))) < 20


def test_no_part_of_a_condition_is_drowned_by_another() -> None:
    slow, fast = (error(Swing(period), pinn.mlp(1, [8]), 5)[1].likelihood.boundary for period in (1.0, 1e-3))
    assert isinstance(slow, float)  # one scale of both, as their units are alike
    assert isinstance(fast, dict)  # and in a motion of milliseconds they are not
    value, velocity = cast(tuple[float, float], fast["Initial"])
    problem = Swing(1e-3)
    own = typical_residual(problem, problem.conditions()[0].residual, problem.conditions()[0], torch.ones(1))
    share = BOUNDARY_SHARE * PHYSICS_SHARE
    assert value == pytest.approx(DROWNED * share * float(own[0]), rel=0.05)
    assert velocity == pytest.approx(share * float(own.square().mean().sqrt()), rel=0.05)


def test_scales_of_parts_are_given_back_and_kept(tmp_path: Path) -> None:
    problem = Swing(1e-3)
    first = error(problem, pinn.mlp(1, [8]), 5)[1]
    recipe = pinn.Recipe.by_newton(5)
    again = pinn.fit(problem, pinn.mlp(1, [8]), recipe=recipe, likelihood=first.likelihood, progress=False)
    assert again.history == first.history and again.likelihood == first.likelihood
    loaded = gb.load(gb.save(first, tmp_path / "fitted"), pinn.Fitted, problem=problem)
    assert loaded.likelihood == first.likelihood
    adam = pinn.Recipe(steps=2, finish=2)
    assert pinn.fit(problem, loaded, recipe=adam, likelihood=loaded.likelihood, progress=False).history


@pytest.mark.parametrize(
    "scales, said",
    [
        ((0.1, 1.0, 2.0), "`boundary` of 'Initial' should be one number, or 2, .* got 3"),
        ((0.1, -1.0), "`boundary` of 'Initial' should be a positive noise scale, got -1.0"),
        ((), r"`boundary` of 'Initial' should be a positive noise scale, got \(\)"),
    ],
)
def test_scales_of_other_parts_are_refused(scales: tuple[float, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pinn.fit(
            Swing(),
            pinn.mlp(1, [8]),
            likelihood=pinn.Likelihood(boundary={"Initial": scales}),
            recipe=pinn.Recipe.by_newton(1),
            progress=False,
        )


def test_what_is_loose_at_single_points_alone_is_not_loose() -> None:
    """A layer that one point sees meets everything there, and nothing at others."""
    generator = torch.Generator().manual_seed(0)
    fields, fields_there = (torch.randn(n, 30, generator=generator, dtype=torch.float64) for n in (200, 100))
    rows, rows_there = 0.5 * fields, 0.5 * fields_there
    rows[:, 0] *= 1e-6  # which nothing misses here
    found = []
    for there in (rows_there, torch.cat([1e-6 * rows_there[:, :1], rows_there[:, 1:]], dim=1)):
        gram = rows.T @ rows
        factor = _factor(gram, 1e-9)
        assert factor is not None and _loose(gram, factor, fields) > 1e3
        found.append(_loose_there(factor, fields, there, fields_there))
    assert found[0] == pytest.approx(2.0, rel=0.1) and found[1] > 1e3
