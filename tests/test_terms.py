"""Terms that a problem adds: an integral constraint in training, history, verdict and checkpoints."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.pinn.misses.likelihood import Scales
from guardband.pinn.misses.points import fixed_points
from guardband.pinn.misses.rows import Rows
from guardband.pinn.problems import Field


@dataclass(frozen=True)
class Mean(pinn.Term):
    """The mean of u over the domain is known."""

    value: float = 0.0
    name: str = "mean"
    scale: float = 1e-3

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.value.mean(dim=0, keepdim=True) - self.value


@dataclass(frozen=True)
class Insulated(pinn.Problem):
    """u'' = -pi^2 cos(pi x) between insulated ends: u = mean + cos(pi x), if the mean is given."""

    mean: float | None = 0.5
    domain = pinn.Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("x", "x") + torch.pi**2 * torch.cos(torch.pi * x)

    def conditions(self) -> list[pinn.Neumann]:
        return [pinn.Neumann(0.0)]

    def terms(self) -> list[Mean]:
        return [] if self.mean is None else [Mean(self.mean)]


@dataclass(frozen=True)
class Slope(pinn.Term):
    """u is flat at each of some points: a term with a miss at each point."""

    name: str = "slope"
    scale: float = 0.1

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d(0)


ADAM = pinn.Recipe(steps=400, finish=300)
NEWTON = pinn.Recipe.by_newton(40)


def off(fitted: pinn.Fitted, mean: float = 0.5) -> float:
    x = torch.linspace(0, 1, 101)[:, None]
    return float((fitted(x) - mean - torch.cos(torch.pi * x)).abs().max())


@pytest.mark.parametrize(
    ("recipe", "most"), [(NEWTON, 2e-3), pytest.param(ADAM, 0.05, marks=pytest.mark.slow)]
)
def test_an_integral_constraint_pins_what_conditions_leave_open(recipe: pinn.Recipe, most: float) -> None:
    problem = Insulated()
    fitted = pinn.fit(problem, pinn.mlp(problem, [10]), recipe=recipe, progress=False)
    assert off(fitted) < most
    assert list(fitted.terms[-1]) == ["step", "equation", "Neumann", "mean"]
    assert list(fitted.history[-1]) == ["step", "data", "physics", "boundary", "mean", "loss"]
    assert fitted.terms[-1]["mean"] == pytest.approx(fitted.history[-1]["mean"])


def test_the_verdict_knows_the_term() -> None:
    net = pinn.mlp(Insulated(), [10])
    fitted = pinn.fit(Insulated(), net, recipe=NEWTON, progress=False)
    assert fitted.verdict.word == "converged" and fitted.verdict.conditions["mean"] < 1e-3
    open_ = pinn.verdict(Insulated(mean=None), fitted.net)
    assert open_.word == "suspicious" and "mean" not in open_.conditions
    wrong = pinn.verdict(Insulated(mean=1.0), fitted.net)
    assert wrong.word == "not converged" and wrong.conditions["mean"] > 0.1
    assert wrong.error["u"] == pytest.approx(0.5 / math.sqrt(1.5), rel=0.1)


@pytest.mark.parametrize("term", [Mean(), Slope()])
@pytest.mark.parametrize("kind", ["jets", "copies"])
def test_the_derivatives_of_a_term_are_those_of_autograd(term: pinn.Term, kind: str) -> None:
    @dataclass(frozen=True)
    class Added(Insulated):
        def terms(self) -> Any:
            return [term]

    problem = Added()
    net: Any = pinn.mlp(problem, [5]).double()
    if kind == "copies":
        net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.LayerNorm(4)).double()
        net.append(torch.nn.Linear(4, 1).double())
    empty = torch.zeros(0, 1).double(), torch.zeros(0, 1).double()
    points = fixed_points(problem, net, empty, 7, 4, None)
    one = torch.ones(1).double()
    rows = Rows(problem, net, points, Scales(one, one, (one, 2 * one)))
    misses, slopes = rows()
    x = points.edges[-1].points
    each = term.residual(x, problem.field(net, x))
    n, expected = len(each), []
    for miss in each.flatten():
        weights = list(net.parameters())
        parts = torch.autograd.grad(
            miss, weights, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        expected.append(torch.cat([part.flatten() for part in parts]) / (2 * math.sqrt(n)))
    assert len(misses) == len(rows) == 7 + len(points.edges[0]) + n and n in (1, len(x))
    torch.testing.assert_close(slopes[-n:], torch.stack(expected))
    torch.testing.assert_close(misses[-n:], (each / (2 * math.sqrt(n))).flatten().detach())
    torch.testing.assert_close(rows.misses(), misses)
    products = rows.products()
    if kind == "jets":
        assert products is not None
        v, w = torch.randn(slopes.shape[1]).double(), torch.randn(len(misses)).double()
        torch.testing.assert_close(products[1].times(v), slopes @ v)
        torch.testing.assert_close(products[1].transposed(w), slopes.T @ w)


def test_an_unknown_may_be_in_a_term() -> None:
    problem = Insulated(mean=pinn.Unknown(0.0, 1.0, start=0.3))  # type: ignore[arg-type]
    data = Insulated(mean=None)
    x = torch.linspace(0.1, 0.9, 9)[:, None]
    readings = gb.Observations(x, 0.6 + torch.cos(torch.pi * x))
    fitted = pinn.fit(problem, pinn.mlp(data, [8]), readings, recipe=NEWTON, progress=False)
    assert fitted.estimates["mean"] == pytest.approx(0.6, abs=0.01)


def test_a_killed_training_with_a_term_resumes_and_another_term_is_another_problem(tmp_path: Path) -> None:
    recipe, path = replace(NEWTON, newton=15), tmp_path / "run"
    start: Any = {"net": pinn.mlp(Insulated(), [6]), "recipe": recipe, "progress": False}

    def kill(now: pinn.Moment) -> None:
        if now.step > 5:
            raise KeyboardInterrupt

    whole = pinn.fit(Insulated(), **start)
    with pytest.raises(pinn.TrainingInterrupted):
        pinn.fit(Insulated(), checkpoint=path, callback=kill, **start)
    with pytest.raises(ValueError, match="differs in its problem"):
        pinn.fit(Insulated(mean=0.6), checkpoint=path, **start)
    assert pinn.fit(Insulated(), checkpoint=path, **start).history == whole.history


def test_terms_without_a_name_or_a_scale_are_refused() -> None:
    def with_term(term: Any) -> pinn.Problem:
        class Other(Insulated):
            def terms(self) -> Any:
                return [term]

        return Other()

    for term, message in (
        (Mean(name="loss"), "a unique `name`"),
        (Mean(name="equation"), "differs from those of equations"),
        (Mean(scale=0.0), "a positive `scale`"),
        (Mean, "instances of pinn.Term"),
    ):
        problem = with_term(term)
        with pytest.raises((TypeError, ValueError), match=message):
            pinn.fit(problem, pinn.mlp(Insulated(), [4]), recipe=NEWTON, progress=False)
