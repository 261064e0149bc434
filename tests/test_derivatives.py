"""The fast path equals autograd, in every derivative and in the gradient of every weight."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from guardband.pinn.geometry import Segment
from guardband.pinn.misses.mean_squares import MeanSquares
from guardband.pinn.misses.points import fixed_points
from guardband.pinn.networks import derivatives, jets
from guardband.pinn.networks.activations import ACTIVATIONS
from guardband.pinn.networks.derivatives import JetField, Needs, differentiate, needs_of
from guardband.pinn.networks.jets import Jet, Memory
from guardband.pinn.networks.networks import MLP, Constrained, mlp
from guardband.pinn.problems import (
    AllenCahn2D,
    AutogradField,
    Box,
    Condition,
    DampedOscillator,
    Dirichlet,
    Field,
    Helmholtz3D,
    Neumann,
    Poisson1D,
    Problem,
    Robin,
)

LAPLACIAN = Needs(laplacians=frozenset({(0, 1)}))


def needs(*derivatives: tuple[int, ...], over: tuple[int, ...] = ()) -> Needs:
    return Needs(frozenset(derivatives), frozenset({over} if over else ()))


def points(n: int, d: int) -> Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(n), dtype=torch.float64)


def seed(net: nn.Module) -> None:
    """Start the dropout masks of a network anew."""
    inner = net.net if isinstance(net, Constrained) else net
    if isinstance(inner, MLP):
        inner.generator.manual_seed(3)


def values_and_gradients(net: nn.Module, field: Field, ask: Callable[[Field], list[Tensor]]) -> list[Tensor]:
    parts = ask(field)
    loss = sum((torch.sin(i + p) * p).sum() for i, p in enumerate(parts))
    parameters = list(net.parameters())
    gradients = torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True)  # type: ignore[arg-type]
    return [part.detach() for part in parts] + list(gradients)


def gap(
    net: nn.Module, x: Tensor, needs: Needs, ask: Callable[[Field], list[Tensor]], **options: Any
) -> float:
    """The largest relative difference between jets and autograd, over all answers and gradients."""
    seed(net)
    slow = values_and_gradients(net, AutogradField(net, x), ask)
    seed(net)
    field = differentiate(net, needs, **options)(x)
    assert not isinstance(field, AutogradField)
    fast = values_and_gradients(net, field, ask)
    return max(float((a - b).abs().max() / (a.abs().max() + 1e-300)) for a, b in zip(slow, fast, strict=True))


@pytest.mark.parametrize("dropout", [None, "last", "all"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_jets_equal_autograd(d: int, activation: Any, dropout: Any) -> None:
    p, where = (0.0, "last") if dropout is None else (0.3, dropout)
    net = mlp(d, [7, 12, 5], outputs=2, activation=activation, dropout=p, where=where).double()
    net.set_domain(Box((-1,) * d, (2,) * d))
    x = points(40, d)
    whole = needs(over=tuple(range(d)))
    assert gap(net, x, whole, lambda u: [u.value, u.laplacian]) < 1e-10
    some = needs((0,), (d - 1, d - 1))
    assert gap(net, x, some, lambda u: [u.value, u.d(0), u.d(d - 1, d - 1)]) < 1e-10
    both = needs((0, 0), over=tuple(range(d)))
    assert gap(net, x, both, lambda u: [u.laplacian, u.d(0, 0), u.grad]) < 1e-10
    assert gap(net, x, needs(*((i,) for i in range(d))), lambda u: [u.value, u.grad]) < 1e-10
    constrained = Constrained(net, lambda x: x[:, :1] ** 2, lambda x: (1 - x**2).prod(dim=1, keepdim=True))
    assert gap(constrained, x, whole, lambda u: [u.value, u.laplacian]) < 1e-10
    assert gap(constrained, x, some, lambda u: [u.value, u.d(0), u.d(d - 1, d - 1)]) < 1e-10


@pytest.mark.parametrize("widths", [[3], [16] * 6, [1, 40, 2]])
def test_jets_equal_autograd_whatever_the_depth_and_width(
    widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guardband.pinn.networks.jets.function.TILE", 1)  # the least tiles, of 256 points
    for n in (1, 5, 256, 257, 519):
        net = mlp(2, widths).double()
        assert gap(net, points(n, 2), LAPLACIAN, lambda u: [u.value, u.laplacian]) < 1e-10


def test_memory_is_used_again_and_bounded() -> None:
    memory, like = Memory(), torch.zeros(1)
    kept = memory.take(like, 3, 10, [4, 4])
    assert memory.take(like, 3, 10, [4, 4])[0] is not kept[0]
    first = kept[0]
    del kept
    assert memory.take(like, 3, 10, [4, 4])[0] is first
    for n in range(100):
        memory.take(like, 3, n, [4])
    assert len(memory._free) <= 8


def test_plain_sequential_networks_go_by_jets_too() -> None:
    for module in (nn.Tanh(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.Sigmoid()):
        net = nn.Sequential(nn.Linear(2, 8), module, nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        assert gap(net, points(20, 2), LAPLACIAN, lambda u: [u.value, u.laplacian]) < 1e-10


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(2, 8), nn.GELU("tanh"), nn.Linear(8, 1)),
        nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1, bias=False)),
        nn.Sequential(nn.Linear(2, 8), nn.Tanh()),
        nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.LayerNorm(8)),
        mlp(2, [8], activation=torch.relu),
        mlp(2, []),
        nn.Bilinear(2, 2, 1),
    ],
    ids=lambda net: type(net).__name__,
)
def test_other_networks_go_by_autograd(net: nn.Module) -> None:
    assert isinstance(differentiate(net, LAPLACIAN)(torch.zeros(3, 2)), AutogradField)


FOUR = needs((0,), (1,), (0, 1), (1, 1), (0, 0, 0), (0, 0, 0, 0), (1, 1, 1))


def four(u: Field) -> list[Tensor]:
    """First to fourth derivatives, in the order of axes in which a person may ask for them."""
    return [
        u.value,
        u.d(0),
        u.d(1, 0),
        u.d(1, 1),
        u.d(0, 0, 0),
        u.d(1, 1, 1),
        u.d(0, 0, 0, 0),
        u["u1"].d("x", "y"),
    ]


@pytest.mark.parametrize("kind", ["plain", "periodic", "fourier", "both", "dropout", "hard"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda f: f.__name__)
def test_mixed_third_and_fourth_derivatives_go_by_jets(
    activation: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {}
    if kind in ("periodic", "both"):
        options["periodic"] = "y" if kind == "both" else ("x", 1)
    if kind in ("fourier", "both"):
        options["fourier"] = (5, 2.0)
    if kind == "dropout":
        options |= {"dropout": 0.3, "where": "all"}
    net = mlp(2, [7, 9], outputs=3, activation=activation, **options).double()
    net.set_domain(Box((-1, 0), (2, 0.5)))
    whole: nn.Module = net
    if kind == "hard":
        bubble = lambda x: torch.cat([torch.sin(x[:, :1] * x[:, 1:]), x.prod(1, keepdim=True), x[:, :1]], 1)  # noqa: E731
        whole = Constrained(net, lambda x: torch.exp(x[:, :1]).expand(-1, 3) * x[:, 1:], bubble)
    monkeypatch.setattr("guardband.pinn.networks.jets.function.TILE", 1)  # the least tiles, of 256 points
    for n in (3, 261) if kind == "both" else (20,):
        assert gap(whole, points(n, 2), FOUR, four) < 1e-9


def test_what_jets_do_not_carry_goes_by_autograd() -> None:
    net, x = mlp(2, [8]).double(), points(5, 2)
    for beyond in (needs((0, 0, 1)), needs((0,) * 5), needs((0, 0, 1, 1))):
        assert beyond.channels() is None and isinstance(differentiate(net, beyond)(x), AutogradField)
    assert torch.allclose(differentiate(net, needs((0,)))(x).d(1), AutogradField(net, x).d(1))
    u = differentiate(net, LAPLACIAN)(x)
    assert torch.allclose(u.d(0, 1, 1), AutogradField(net, x).d(0, 1, 1))
    assert torch.allclose(u.d(0, 0, 0, 0, 0), AutogradField(net, x).d(0, 0, 0, 0, 0))


def test_a_derivative_not_foreseen_is_refused_where_dropout_would_draw_new_masks() -> None:
    net = mlp(2, [8], dropout=0.5)
    u = differentiate(net, LAPLACIAN)(torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="Use the same derivatives at every call"):
        u.d(0, 1)


def test_values_alone_cost_one_ordinary_pass() -> None:
    net, x = mlp(2, [8]).double(), points(5, 2)
    u = differentiate(net, Needs())(x)
    assert isinstance(u, JetField) and torch.equal(u.value, net(x)) and not x.requires_grad


def test_the_needs_of_an_equation_are_what_it_asked_for() -> None:
    for problem, expected in (
        (AllenCahn2D(), needs(over=(0, 1))),
        (Helmholtz3D(), needs(over=(0, 1, 2))),
        (Poisson1D(), needs((0, 0))),
        (DampedOscillator(), needs((0,), (0, 0))),
    ):
        d = problem.domain.d
        assert needs_of(problem.misses, mlp(d, [4]), torch.zeros(3, d), problem.names) == expected
    net = mlp(2, [4], dropout=0.5)
    fourth = needs_of(lambda x, u: u.d(1, 0, 0, 1) + u.d(1, 0), net, torch.zeros(3, 2))
    assert fourth == needs((0, 0, 1, 1), (0, 1)) and net.training
    assert needs_of(lambda x, u: u.grad.sum(-1), net, torch.zeros(3, 2)) == needs((0,), (1,))
    assert needs_of(lambda x, u: u.value, net, torch.zeros(3, 2)).only_value


def test_gradcheck_passes_and_a_second_derivative_in_the_weights_is_refused() -> None:
    net, x = mlp(2, [5, 4]).double(), points(6, 2)
    parameters = tuple(net.parameters())
    field = differentiate(net, LAPLACIAN)

    def laplacian(*_: Tensor) -> Tensor:
        return field(x).laplacian

    assert torch.autograd.gradcheck(laplacian, parameters)
    (gradient,) = torch.autograd.grad(laplacian().square().sum(), parameters[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_two_fields_may_be_open_at_once_and_none_need_be_used() -> None:
    net = mlp(2, [8, 8]).double()
    field = differentiate(net, LAPLACIAN)
    first, second = field(points(30, 2)), field(points(31, 2))
    with torch.no_grad():
        field(points(5, 2))
    parameters = list(net.parameters())
    loss = first.laplacian.sum() + second.laplacian.sum()
    both = torch.autograd.grad(loss, parameters, retain_graph=True)
    again = torch.autograd.grad(loss, parameters)
    assert all(torch.equal(a, b) for a, b in zip(both, again, strict=True))
    slow = torch.stack([AutogradField(net, points(n, 2)).laplacian.sum() for n in (30, 31)]).sum()
    expected = torch.autograd.grad(slow, parameters, materialize_grads=True, allow_unused=True)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(both, expected, strict=True))


@pytest.mark.slow("compiled")
@pytest.mark.parametrize("really", [False, True], ids=["as written", "compiled"])
def test_fused_jets_equal_autograd(really: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not really:
        monkeypatch.setattr(derivatives, "compiled_passes", lambda: jets.FUSED)
    net = mlp(2, [6, 5], dropout=0.2).double()
    assert gap(net, points(20, 2), LAPLACIAN, lambda u: [u.value, u.laplacian], compile=True) < 1e-10
    around = mlp(2, [6, 5], outputs=2, periodic="x").double()
    assert gap(around, points(20, 2), FOUR, four, compile=True) < 1e-9
    if not really:  # a compilation takes ten seconds
        some = needs((0,), (1, 1))
        assert gap(net, points(20, 2), some, lambda u: [u.d(0), u.d(1, 1)], compile=True) < 1e-10
        assert gap(mlp(2, [6, 5], outputs=2).double(), points(20, 2), FOUR, four, compile=True) < 1e-9


def test_the_derivatives_of_activations_are_right() -> None:
    z = torch.linspace(-3, 3, 41, dtype=torch.float64)[:, None]
    for function, activation in ACTIVATIONS.items():
        u = AutogradField(function, z)
        value, first, second = activation.upto_second(z)
        third = activation.third(z, value, first, second)
        higher = activation.higher(z, value, first, second, third)
        for order, part in enumerate((value, first, second, third, *higher)):
            assert (u.d(*[0] * order) - part).abs().max() < 1e-12 * (10 if order > 3 else 1), (
                function,
                order,
            )
    assert F.gelu in ACTIVATIONS


class Rod(Problem):
    """A rod held at one end, with heat through both: ends with a value, with a slope, and with both."""

    domain = Segment(0, 2)

    def residual(self, x: Tensor, u: Any) -> Tensor:
        return u.laplacian + u.value

    def conditions(self) -> list[Condition]:
        return [Neumann(0.5, on="right"), Dirichlet(1.0, on="left"), Robin(2.0, 1.0, on="left")]


@pytest.mark.parametrize("problem", [Rod(), DampedOscillator(), Poisson1D()])
def test_ends_of_a_line_that_ride_with_the_inside_miss_by_the_same(problem: Problem) -> None:
    net = mlp(1, [8, 8]).double()
    x = torch.linspace(0, 1, 7, dtype=torch.float64)[:, None]
    where = fixed_points(problem, net, (x, x**2), 11, 1, None)
    squares = MeanSquares(problem, net, where)(where)

    def mean_square(residual: Any, x: Tensor, normals: Tensor | None = None) -> Tensor:
        return residual(x, AutogradField(net, x, problem.names, normals)).square().sum(1).mean()

    edges = zip(problem.conditions(), where.edges, strict=True)
    by_hand = [
        (net(x) - x**2).square().mean(),
        mean_square(problem.residual, where.inside),
        sum(mean_square(condition.residual, edge.points, edge.normals) for condition, edge in edges),
    ]
    for one, other in zip(squares, by_hand, strict=True):
        assert torch.allclose(one, other, rtol=1e-10)
        weights = list(net.parameters())
        slopes = [
            torch.autograd.grad(total, weights, retain_graph=True, materialize_grads=True)
            for total in (one, other)
        ]
        assert all(torch.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(*slopes, strict=True))


def test_the_start_of_a_line_takes_no_pass_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, net, passes = DampedOscillator(), mlp(1, [8, 8]), []
    where = fixed_points(problem, net, (torch.zeros(2, 1), torch.zeros(2, 1)), 11, 1, None)
    squares = MeanSquares(problem, net, where)
    apply = Jet.apply
    monkeypatch.setattr(Jet, "apply", lambda x, *rest: passes.append(len(x)) or apply(x, *rest))
    squares(where)
    assert passes == [12]
