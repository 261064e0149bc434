"""Products with the derivatives of misses, and steps by them, are those of the matrix written out."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from guardband import pinn
from guardband.pinn.misses import gauss_newton
from guardband.pinn.misses.factors import Products
from guardband.pinn.misses.gauss_newton import GaussNewton
from guardband.pinn.misses.likelihood import Scales
from guardband.pinn.misses.points import conditions_of, fixed_points
from guardband.pinn.misses.rows import Rows
from guardband.pinn.problems import Problem
from guardband.pinn.training import newton as stage
from guardband.pinn.training.newton import Newton

P = pinn.problems
NETS: dict[str, Any] = {
    "two conditions": (P.Burgers1D(), lambda problem: pinn.mlp(problem, [8, 8])),
    "a system": (P.Kovasznay(), lambda problem: pinn.mlp(problem, [8, 8])),
    "a condition that compares points": (P.AllenCahn1D(), lambda problem: pinn.mlp(problem, [8, 8])),
    "third derivatives and waves": (P.KortewegDeVries(), lambda problem: pinn.mlp(problem, periodic="x")),
    "four derivatives": (P.Beam(), lambda problem: pinn.mlp(problem, [8, 8])),
    "a hard constraint": (
        P.Helmholtz3D(),
        lambda problem: pinn.Constrained.of(problem, pinn.mlp(problem, [8, 8])),
    ),
}


def rows_of(problem: Problem, net: nn.Module) -> Rows:
    x = problem.domain.quasi(6, dtype=torch.float64)
    y = torch.ones(6, len(problem.names.outputs), dtype=torch.float64)
    y[0] = torch.nan
    points = fixed_points(problem, net, (x, y), 20, 8, torch.Generator().manual_seed(0))
    scale = torch.tensor([0.7], dtype=torch.float64)
    rows = Rows(problem, net, points, Scales(scale, scale, tuple(scale for _ in conditions_of(problem, net))))
    rows.weights = torch.rand(20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return rows


@pytest.mark.parametrize("name", NETS)
def test_products_are_those_of_the_rows(name: str) -> None:
    problem, make = NETS[name]
    rows = rows_of(problem, make(problem).double())
    misses, slopes = rows()
    found = rows.products()
    assert found is not None and len(rows) == len(misses) == len(found[0])
    assert torch.allclose(found[0], misses, rtol=1e-12)
    generator = torch.Generator().manual_seed(2)
    v, w = (torch.randn(n, generator=generator, dtype=torch.float64) for n in reversed(slopes.shape))
    for mine, theirs in ((found[1].times(v), slopes @ v), (found[1].transposed(w), slopes.T @ w)):
        assert float((mine - theirs).norm()) < 1e-12 * float(theirs.norm())


def test_a_network_of_ones_own_has_no_factors() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.only = nn.Linear(1, 1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.only(x))

    assert rows_of(P.Poisson1D(), Plain().double()).products() is None


def begun(problem: Problem, widths: list[int], n: int) -> Newton:
    net = pinn.mlp(problem, widths).double()
    net.linears[0].bias.requires_grad_(False)
    empty = torch.zeros(0, problem.domain.d, dtype=torch.float64), torch.zeros(0, 1, dtype=torch.float64)
    ones = torch.ones(1, dtype=torch.float64)
    scales = Scales(ones, ones, tuple(ones for _ in conditions_of(problem, net)))
    made = Newton(problem, net, empty, scales, ones, most=n, seed=0)
    made.rows.points = made._uniform(n, made.points[:2])
    return made


def test_a_step_by_products_is_the_dense_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in {"TOLERANCE": 1e-13, "MOST": 5000, "CHORDS": 0}.items():
        monkeypatch.setattr(gauss_newton, name, number)
    ends, steps = [], []
    for most in (2**62, 0):
        monkeypatch.setattr(stage, "MOST_NUMBERS", most)
        monkeypatch.setattr(stage, "MOST_DENSE", 0)
        made = begun(P.Burgers1D(), [8, 8], 40)
        assert isinstance(made.rows()[1], Products) == (most == 0)
        steps.append(made.steps.step(made.rows))
        ends.append(made.rows.theta)
    assert steps[0].moved and steps[0].after == pytest.approx(steps[1].after, rel=1e-8)
    assert float((ends[0] - ends[1]).norm()) < 1e-8 * float(ends[0].norm())


def test_conjugate_gradients_that_end_early_still_go_downhill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MOST_NUMBERS", 0)
    monkeypatch.setattr(stage, "MOST_DENSE", 0)
    monkeypatch.setattr(gauss_newton, "MOST", 3)
    made = begun(P.Burgers1D(), [12, 12], 60)
    taken = [made.steps.step(made.rows) for _ in range(5)]
    assert all(step.moved and step.after < step.before for step in taken)


@pytest.mark.slow
def test_a_hundred_thousand_weights_are_trained_in_little_memory() -> None:
    """The matrix would have 1.5e8 numbers, 1.2 GB; its factors take a twentieth of that."""
    made = begun(P.Burgers1D(), [222] * 3, 1024)
    misses, slopes = made.rows()
    assert isinstance(slopes, Products)
    assert 20 * slopes.nbytes < 8 * len(misses) * len(made.rows.theta)
    step = GaussNewton().step(made.rows)
    assert step.moved and step.after < 0.5 * step.before
