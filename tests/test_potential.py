"""The one potential, and the Jacobians of its misses."""

import pytest
import torch
from torch import Tensor

from guardband import pinn
from guardband.pinn import Constrained, mlp
from guardband.pinn.misses.jacobian import jacobian, value
from guardband.pinn.predictors.potential import Potential, Prior, flat_weights, named
from guardband.pinn.problems import (
    AllenCahn2D,
    AutogradField,
    DampedOscillator,
    Helmholtz3D,
    Poisson1D,
    Problem,
)
from line import design, posterior, simulate

PROBLEMS = [Poisson1D(), AllenCahn2D(), Helmholtz3D(), DampedOscillator()]


def fitted(problem: Problem, *, steps: int = 5, **options: object) -> pinn.Fitted:
    net = mlp(problem.domain.d, [8, 6], seed=1).double()
    recipe = pinn.Recipe(steps=steps, finish=0, n_interior=20, n_boundary=12)
    data = problem.observe(15, noise=0.05, seed=1)
    return pinn.fit(problem, net, data, recipe=recipe, progress=False)


def by_autograd(potential: Potential, problem: Problem, theta: Tensor) -> Tensor:
    """The same function written out, all derivatives by autograd."""
    points = potential.points

    def net(x: Tensor) -> Tensor:
        return torch.func.functional_call(potential.net, dict(named(potential.net, theta)), (x,))

    def mean_square(misses: Tensor) -> Tensor:
        return misses.square().sum(1).mean()

    inside = mean_square(problem.misses(points.inside, AutogradField(net, points.inside, problem.names)))
    boundary = torch.zeros(())
    for condition, edge in zip(problem.conditions(), points.edges, strict=True):
        field = AutogradField(net, edge.points, problem.names, edge.normals)
        boundary = boundary + mean_square(condition.residual(edge.points, field))
    data = mean_square(net(points.x) - points.y)
    a, b, c = potential.likelihood.weights()
    return 0.5 * len(points.x) * (a * data + b * inside + c * boundary) + 0.5 * (theta**2).sum() / 0.7**2


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: type(p).__name__)
def test_value_and_gradient_equal_autograd(problem: Problem) -> None:
    potential = Potential(fitted(problem), Prior(0.7))
    theta = (potential.start + 0.1).requires_grad_()
    ours, theirs = potential(theta), by_autograd(potential, problem, theta)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    (mine,), (other,) = torch.autograd.grad(ours, theta), torch.autograd.grad(theirs, theta)
    assert (mine - other).abs().max() < 1e-10 * other.abs().max()


def test_the_number_of_points_is_accuracy_and_not_evidence() -> None:
    few, many = (Potential(fitted(AllenCahn2D()), n_interior=n, n_boundary=n) for n in (500, 4000))
    assert float(few.misfit(few.start)) == pytest.approx(float(many.misfit(many.start)), rel=0.1)


def test_the_posterior_of_a_line_is_the_closed_form() -> None:
    fit, seen = simulate(torch.tensor([0.7, -0.4], dtype=torch.float64), torch.Generator().manual_seed(0))
    mean, covariance = posterior(seen)
    potential = Potential(fit)
    gradient = torch.autograd.functional.jacobian(potential, mean)
    assert gradient.abs().max() < 1e-10
    offsets = torch.tensor([[0.3, 0.0], [0.0, 0.3]], dtype=torch.float64)
    rises = [(potential(mean + step) - potential(mean)).item() for step in offsets]
    precision = torch.linalg.inv(covariance)
    assert rises == pytest.approx([0.045 * float(precision[i, i]) for i in range(2)], rel=1e-9)


def test_priors() -> None:
    net = mlp(4, [9])
    assert Prior(2.0).scales(net).unique().tolist() == [2.0]
    scales = Prior(2.0, fan_in=True).scales(net)
    assert scales[:45].unique().tolist() == [1.0] and scales[45:].unique() == pytest.approx([2 / 3])
    with pytest.raises(ValueError, match="positive standard deviation"):
        Prior(0.0)


def test_a_posterior_needs_data() -> None:
    problem = Poisson1D()
    alone = pinn.fit(problem, mlp(1, [4]), recipe=pinn.Recipe(steps=2, finish=0), progress=False)
    for use in (Potential, pinn.predictors.Laplace):
        with pytest.raises(ValueError, match="training observations of the network"):
            use(alone)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("hard", [False, True])
def test_a_jacobian_is_the_gradient_of_each_miss(problem: Problem, hard: bool) -> None:
    net = mlp(problem.domain.d, [7, 5], seed=3).double()
    net = Constrained(net, problem.lift, problem.bubble) if hard else net
    x = problem.domain.uniform(6, torch.Generator().manual_seed(0)).double()
    misses, slopes = jacobian(problem.misses, net, x, of=problem.names)
    assert misses.shape == (6, 1) and slopes.shape == (6, 1, len(flat_weights(net)))
    for i in (0, 5):
        miss = problem.misses(x[i : i + 1], problem.field(net, x[i : i + 1]))
        gradients = torch.autograd.grad(
            miss.sum(), list(net.parameters()), materialize_grads=True, allow_unused=True
        )
        expected = torch.cat([gradient.flatten() for gradient in gradients])
        assert torch.allclose(slopes[i, 0], expected, rtol=1e-10, atol=1e-12)
        assert torch.allclose(misses[i], miss.detach()[0])


def test_a_jacobian_in_some_weights_is_a_part_of_the_whole() -> None:
    net = mlp(2, [5, 4], outputs=2).double()
    x = torch.rand(300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, whole = jacobian(value, net, x)
    _, last = jacobian(value, net, x, ["layers.2.weight", "layers.2.bias"])
    assert last.shape == (300, 2, 10) and torch.allclose(whole[..., -10:], last)
    assert torch.allclose(last[:, 0, :4], net.features(x)) and last[:, 0, 8].eq(1).all()


def test_the_design_of_the_line_is_its_jacobian() -> None:
    fit, _ = simulate(torch.zeros(2, dtype=torch.float64), torch.Generator())
    potential = Potential(fit)
    rows, _ = design()
    _, slopes = jacobian(fit.problem.misses, fit.net, potential.points.inside)
    assert torch.allclose(slopes[:, 0], rows[len(potential.points.x) :])
