"""Gradients: one graph for a step gives what eager torch gives, or there is none."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from guardband import pinn
from guardband.pinn import problems as P
from guardband.pinn.misses import gradients
from guardband.pinn.misses.gradients import Gradients
from guardband.pinn.misses.points import Points, fixed_points
from guardband.pinn.networks.jets import FUSED
from guardband.pinn.problems import Field, Problem

WEIGHTS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


@pytest.fixture
def as_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that are run as they were traced, which takes no compiler."""
    monkeypatch.setattr(torch, "compile", lambda graph, **options: graph)


def setting(problem: Problem, net: torch.nn.Module, n: int = 20) -> Points:
    data = problem.domain.quasi(6, dtype=torch.float64)
    y = torch.ones(6, len(problem.names.outputs), dtype=torch.float64)
    return fixed_points(problem, net, (data, y), n, 8, torch.Generator().manual_seed(0))


def found(made: Gradients, points: Points) -> list[Tensor]:
    """Squares, gradients and misses."""
    seen: list[Tensor] = []
    squares = made(points, WEIGHTS, seen)
    return [squares, *(p.grad for p in made.mean_squares.net.parameters() if p.grad is not None), *seen]


def both(problem: Problem, net: torch.nn.Module) -> tuple[Gradients, Gradients, Points]:
    points = setting(problem, net)
    graph, eager = (Gradients(problem, net, points, compile=compile) for compile in (True, False))
    return graph, eager, points


def assert_same(graph: Gradients, eager: Gradients, points: Points) -> None:
    mine, theirs = found(graph, points), found(eager, points)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12 * float(b.abs().max()) + 1e-15)


NETS: dict[str, Any] = {
    "Allen-Cahn": (P.AllenCahn2D(), lambda problem: pinn.mlp(problem, [8, 8])),
    "ends that ride with the inside": (P.DampedOscillator(), lambda problem: pinn.mlp(problem, [8, 8])),
    "a system": (P.Kovasznay(), lambda problem: pinn.mlp(problem, [8, 8])),
    "four derivatives": (P.Beam(), lambda problem: pinn.mlp(problem, [8, 8])),
    "third derivatives and waves": (P.KortewegDeVries(), pinn.mlp),
    "a condition that compares points": (P.AllenCahn1D(), lambda problem: pinn.mlp(problem, [8, 8])),
    "a hard constraint": (
        P.Helmholtz3D(),
        lambda problem: pinn.Constrained.of(problem, pinn.mlp(problem, [8, 8])),
    ),
    "a sequence": (
        P.Heat1D(),
        lambda problem: torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
    ),
    "another activation": (P.Heat1D(), lambda problem: pinn.mlp(problem, [8, 8], activation=torch.sin)),
}


@pytest.mark.parametrize("name", NETS)
def test_a_graph_gives_squares_gradients_and_misses_of_eager_torch(name: str, as_traced: None) -> None:
    problem, make = NETS[name]
    graph, eager, points = both(problem, make(problem).double())
    assert_same(graph, eager, points)
    assert len(graph._graphs) == 1 and not eager._graphs
    with torch.no_grad():  # the weights are looked at anew
        for weight in eager.mean_squares.net.parameters():
            weight.mul_(1.1)
    assert_same(graph, eager, points._replace(inside=points.inside * 0.9))
    assert len(graph._graphs) == 1


@pytest.mark.slow
def test_a_compiled_graph_trains_like_eager_torch() -> None:
    problem = P.AllenCahn2D()
    data = problem.observe(50, noise=0.05)
    recipe = pinn.Recipe(steps=50, warmup=10, batch=32, n_interior=64, n_boundary=16, finish=50)
    fast, slow = (
        pinn.fit(
            problem, pinn.mlp(2, [8, 8]), data, recipe=recipe, dtype="float64", compile=c, progress=False
        )
        for c in (True, False)
    )
    for mine, theirs in zip(fast.history, slow.history, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)


@pytest.mark.slow
def test_a_compiled_run_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path) -> None:
    problem = P.Poisson1D()
    recipe = pinn.Recipe(steps=100, batch=16, n_interior=16, n_boundary=2, finish=0)

    def run(**options: Any) -> pinn.Fitted:
        return pinn.fit(problem, pinn.mlp(1, [6]), recipe=recipe, compile=True, progress=False, **options)

    def interrupt(now: pinn.Moment) -> None:
        raise KeyboardInterrupt

    whole, path = run(), tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, callback=lambda now: interrupt(now) if now.step > 50 else None)
    assert run(checkpoint=path).history == whole.history


def test_frozen_weights_have_no_gradient(as_traced: None) -> None:
    problem = P.Heat1D()
    net = pinn.mlp(problem, [8, 8]).double()
    net.linears[0].requires_grad_(False)
    graph, eager, points = both(problem, net)
    assert_same(graph, eager, points)
    assert net.linears[0].weight.grad is None and net.linears[1].weight.grad is not None


@dataclass(frozen=True)
class Odd(Problem):
    """Equations that a graph cannot follow."""

    kind: str
    state: dict[str, float] = field(default_factory=lambda: {"factor": 1.0})
    domain = pinn.Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        off = u.d("x", "x") + self.state["factor"] * u.value
        if self.kind == "looks at values" and float(u.value.detach().mean()) > 1e6:
            return 2 * off
        if self.kind == "goes by numpy":
            return off - torch.from_numpy(x.detach().numpy() ** 2)
        if self.kind == "draws":
            return off + 0 * torch.rand(len(x), 1, dtype=x.dtype)
        return off


@pytest.mark.parametrize("kind", ["looks at values", "goes by numpy", "draws"])
def test_what_a_graph_cannot_follow_has_none(kind: str, as_traced: None) -> None:
    problem = Odd(kind)
    graph, eager, points = both(problem, pinn.mlp(1, [8, 8]).double())
    assert_same(graph, eager, points)
    assert not graph._graphs


def test_an_equation_that_changes_loses_its_graph(as_traced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "CHECKED", 3)
    problem = Odd("changes")
    graph, eager, points = both(problem, pinn.mlp(1, [8, 8]).double())
    assert_same(graph, eager, points)
    problem.state["factor"] = 50.0
    for _ in range(3):
        graph(points, WEIGHTS)
    assert_same(graph, eager, points)


@pytest.mark.slow
def test_ever_new_shapes_go_without(as_traced: None) -> None:
    problem = P.Heat1D()
    net = pinn.mlp(problem, [8]).double()
    graph, eager, points = both(problem, net)
    for n in range(gradients.SHAPES + 2):
        assert_same(graph, eager, points._replace(inside=points.inside[: 5 + n]))
    assert len(graph._graphs) == gradients.SHAPES


@pytest.mark.parametrize("why", ["dropout", "many points"])
def test_dropout_and_many_points_go_by_passes_alone(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "compiled_passes", lambda: FUSED)
    if why == "many points":
        monkeypatch.setattr("guardband.pinn.networks.jets.function.TILE", 1)
    problem, dropout = P.Heat1D(), 0.2 if why == "dropout" else 0.0
    net = pinn.mlp(problem, [8, 8], dropout=dropout, where="all").double()
    points = setting(problem, net, 400)
    passes, eager = (Gradients(problem, net, points, compile=compile) for compile in (True, False))
    both_found = []
    for made in (passes, eager):
        net.generator.manual_seed(5)
        both_found.append(found(made, points))
    assert passes._to_trace is None
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(*both_found, strict=True))
