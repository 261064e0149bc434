"""A network class written outside the package works everywhere, with derivatives of its own."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import guardband as gb
from guardband import pinn
from guardband.pinn.misses.jacobian import jacobian, value
from guardband.pinn.networks.derivatives import Needs
from guardband.pinn.networks.jets import Layers
from guardband.pinn.networks.modules import restarted
from guardband.pinn.networks.traits import core_of, generators_in, has_derivatives, traits_of
from guardband.pinn.training.train import _automatic

NEWTON = pinn.Recipe.by_newton(12)
ADAM = pinn.Recipe(steps=60, finish=0, batch=None, n_interior=64, n_boundary=8)
LBFGS = pinn.Recipe(steps=0, finish=50, n_interior=64, n_boundary=8)


class Waves(pinn.Network):
    """u = sin(k x + b) V, with derivatives of any order in closed form."""

    def __init__(self, d: int, n: int = 12, m: int = 1, p: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self.k, self.b, self.v = (nn.Parameter(torch.empty(*shape)) for shape in ((n, d), (n,), (n, m)))
        self.drop = nn.Dropout(p)
        self.generator = torch.Generator().manual_seed(seed)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.k.normal_(std=2.0, generator=self.generator)
        self.b.normal_(std=2.0, generator=self.generator)
        self.v.normal_(std=0.1, generator=self.generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(torch.sin(x @ self.k.T + self.b)) @ self.v

    @property
    def shape(self) -> tuple[int, int]:
        return self.k.shape[1], self.v.shape[1]


class Closed(Waves):
    """The same with derivatives of its own: autograd does not see how the outputs depend on x."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        turned = torch.sin(x.detach() @ self.k.T + self.b + len(axes) * torch.pi / 2)
        for axis in axes:
            turned = turned * self.k[:, axis]
        return turned @ self.v


class Layered(pinn.Network):
    """Two linear layers that declare themselves as such."""

    def __init__(self, d: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(d, width), nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))

    def as_layers(self, x: Tensor) -> tuple[Tensor, Layers] | None:
        return traits_of(nn.Sequential(self.first, nn.Tanh(), self.last)).as_layers(x)

    @property
    def last_layer(self) -> nn.Linear:
        return self.last


class Odd(pinn.Network):
    """u = net(x) - net(-x): a network around another one, which meets u(0) = 0."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) - self.net(-x)

    def meets(self, problem: pinn.Problem) -> Collection[int]:
        return [0]


def trained(net: nn.Module, recipe: pinn.Recipe = NEWTON, problem: Any = None, **options: Any) -> pinn.Fitted:
    chosen = pinn.problems.Poisson1D() if problem is None else problem
    return pinn.fit(chosen, net, recipe=recipe, dtype=torch.float64, progress=False, **options)


def pair(d: int = 1, **options: Any) -> tuple[Waves, Closed]:
    return Waves(d, **options), Closed(d, **options)


POISSON = pinn.problems.Poisson1D()
READINGS = POISSON.observe(30, noise=0.05, dtype=torch.float64)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (0, 0), (0, 1), (0, 0, 1)])
@pytest.mark.parametrize("around", [lambda net: net, lambda net: pinn.Constrained(net, lift, bubble)])
def test_own_derivatives_are_used_in_fields_and_jacobians(
    axes: tuple[int, ...], around: Callable[[nn.Module], nn.Module]
) -> None:
    x = torch.rand(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_autograd, closed = (around(net.double()) for net in pair(2, m=2))

    def residual(x: Tensor, u: pinn.problems.Field) -> Tensor:
        return u.partial(axes) ** 2

    needs = Needs(derivatives=frozenset({axes} - {()}))
    fields = [pinn.differentiate(net, needs)(x) for net in (by_autograd, closed)]
    assert torch.allclose(*(residual(x, field) for field in fields), rtol=1e-10)
    found = [jacobian(residual, net, x) for net in (by_autograd, closed)]
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)


def lift(x: Tensor) -> Tensor:
    return x[:, :1].sin()


def bubble(x: Tensor) -> Tensor:
    return x[:, :1] * (1 - x[:, 1:])


@pytest.mark.parametrize("recipe", [NEWTON, ADAM, LBFGS], ids=["newton", "adam", "lbfgs"])
@pytest.mark.parametrize("data", [None, READINGS], ids=["alone", "with readings"])
def test_training_with_own_derivatives_is_training_by_autograd(
    recipe: pinn.Recipe, data: gb.Observations | None
) -> None:
    runs = [trained(net, recipe, training_data=data) for net in pair()]
    first, second = (run.history[-1]["loss"] for run in runs)
    assert first == pytest.approx(second, rel=1e-4)
    x = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
    assert torch.allclose(*(run.net(x) for run in runs), atol=1e-4)


def test_the_verdict_sees_own_derivatives() -> None:
    fitted = trained(Closed(1))
    assert fitted.verdict.word == "converged"
    x = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    assert float((fitted(x) - POISSON.solution(x)).abs().max()) < 1e-3
    assert pinn.verdict(POISSON, Closed(1).double()).word == "not converged"


@pytest.mark.parametrize("predictor", [pinn.predictors.Laplace, pinn.predictors.LastLayerLaplace])
def test_laplace_approximations_take_own_derivatives(predictor: type[pinn.predictors.Laplace]) -> None:
    x = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    fitted = trained(Closed(1), training_data=READINGS)
    by_autograd = Waves(1).double()
    by_autograd.load_state_dict(fitted.net.state_dict())
    found, wanted = (predictor(run)(x).scale for run in (fitted, replace(fitted, net=by_autograd)))
    assert torch.allclose(torch.as_tensor(found), torch.as_tensor(wanted), rtol=1e-5)


def test_a_tangent_band_takes_own_derivatives() -> None:
    calibrated = pinn.Tangent(trained(Closed(1)), noise=0.05).calibrate(*READINGS)
    band = calibrated(READINGS.x, level=0.8)
    assert float(band.contains(READINGS.y).double().mean()) >= 0.8
    assert float((band.upper - band.lower).max()) < 1.0


def test_dropout_layers_are_found_and_refused_by_gauss_newton() -> None:
    net = Waves(1, p=0.2)
    assert traits_of(net).stochastic and not traits_of(Waves(1)).stochastic
    with pytest.raises(ValueError, match="Gauss-Newton steps need a fixed network"):
        trained(net)
    fitted = pinn.fit(POISSON, net, READINGS, recipe=ADAM, dtype=torch.float64, progress=False)
    prediction = pinn.predictors.Dropout(fitted, draws=20)(READINGS.x)
    assert prediction.scale is not None and bool((torch.as_tensor(prediction.scale) > 0).all())


def test_a_hard_constraint_around_it_is_met_and_trained() -> None:
    net = pinn.Constrained.of(POISSON, Closed(1))
    fitted = trained(net)
    assert fitted.verdict.word == "converged"
    assert list(fitted.terms[-1]) == ["step", "equation"]
    ends = fitted(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    assert float(ends.abs().max()) < 1e-12


def test_conditions_that_it_meets_are_left_out() -> None:
    assert list(trained(Odd(Waves(1)), ADAM).terms[-1]) == ["step", "equation"]


def test_layers_that_it_declares_make_it_fast_with_the_same_numbers() -> None:
    own, plain = Layered(1, 9), Layered(1, 9)
    sequential = nn.Sequential(plain.first, nn.Tanh(), plain.last)
    runs = [trained(net) for net in (own, sequential)]
    assert runs[0].history == runs[1].history
    assert (
        _automatic(POISSON, own, None, None).newton and not _automatic(POISSON, Waves(1), None, None).newton
    )


class Reversed(Layered):
    """The same layers, registered in reverse order."""

    def __init__(self, d: int, width: int) -> None:
        super().__init__(d, width)
        first = self.first
        del self.first
        self.first = first


def test_jacobians_do_not_depend_on_the_order_of_the_layers() -> None:
    x = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    slopes = [jacobian(value, kind(1, 9).double(), x)[1] for kind in (Layered, Reversed)]
    first, last = slopes[0].split([18, 10], dim=2)
    assert torch.allclose(torch.cat([last, first], dim=2), slopes[1])


def test_windows_of_time_start_where_it_ended() -> None:
    problem, recipe = pinn.problems.DampedOscillator(), replace(NEWTON, newton=20, windows=2)
    fitted = trained(Closed(1, n=16), recipe, problem)
    assert isinstance(fitted.net, pinn.Windowed) and traits_of(fitted.net).windowed
    before, after = fitted.net.nets
    assert traits_of(fitted.net).at_time(0.0) is before
    border = fitted.net.borders[None]
    assert torch.allclose(before(border), after(border), atol=2e-2)
    assert "Continuity" in fitted.verdict.conditions


def test_restarts_and_checkpoints_follow_its_generator(tmp_path: Path) -> None:
    net = Waves(1, p=0.0)
    assert generators_in(nn.Sequential(net, nn.Tanh())) == [net.generator]
    again, other = restarted(net, 1), restarted(net, 2)
    assert torch.equal(again(READINGS.x.float()), restarted(net, 1)(READINGS.x.float()))
    assert not torch.allclose(again.k / other.k, torch.ones(()))  # type: ignore[operator]
    file = tmp_path / "run"

    def stop(now: pinn.Moment) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        trained(net, ADAM, callback=stop, checkpoint=file)
    assert trained(net, ADAM, checkpoint=file).history == trained(net, ADAM).history


def test_another_shape_than_the_problem_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Poisson1D has 1 coordinates \(x\) and 1 outputs"):
        trained(Waves(2))


def test_a_plain_module_has_the_default_traits() -> None:
    net = nn.Linear(2, 1)
    traits = traits_of(net)
    assert traits.inner is net and traits.at_time(0.5) is net and core_of(net) is net
    assert not (traits.windowed or traits.stochastic or traits.meets_start or has_derivatives(net))
    assert traits.shape is None and traits.last_layer is None and not traits.dropped()
    assert traits.meets(POISSON) == () and traits.posed(POISSON) is POISSON
