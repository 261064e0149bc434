"""Laplace approximations: exact where the model is linear, the same in both spaces, aware of the physics."""

import numpy as np
import pytest
import torch

from guardband import pinn
from guardband.pinn.predictors import Laplace, LastLayerLaplace
from guardband.pinn.predictors.laplace import Posterior
from guardband.pinn.problems import AllenCahn2D
from helpers import scale
from line import posterior, simulate

THETA = torch.tensor([0.7, -0.4], dtype=torch.float64)


def test_the_scale_of_a_line_is_the_closed_form() -> None:
    fitted, seen = simulate(THETA, torch.Generator().manual_seed(0))
    _, covariance = posterior(seen, sd=0.9)
    x = np.linspace(-1, 2, 7)[:, None]
    rows = np.hstack([x, np.ones_like(x)])
    expected = np.sqrt(np.einsum("ni,ij,nj->n", rows, covariance.numpy(), rows))
    for kind in (Laplace, LastLayerLaplace):
        assert scale(kind(fitted, 0.9), x)[:, 0] == pytest.approx(expected, rel=1e-10)


def test_both_spaces_give_the_same_variance() -> None:
    generator = torch.Generator().manual_seed(1)
    rows, theta, slopes = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((5, 9), (9,), (4, 9))
    )
    narrow = Posterior(rows, theta, 0.8)
    wide = Posterior(torch.cat([rows, torch.zeros(9, 9, dtype=torch.float64)]), theta, 0.8)
    assert narrow._by_weights != wide._by_weights
    assert torch.allclose(narrow.variance(slopes), wide.variance(slopes), rtol=1e-10)
    inverse = torch.linalg.inv(rows.T @ rows + torch.eye(9, dtype=torch.float64) / 0.64)
    assert torch.allclose(narrow.variance(slopes), ((slopes @ inverse) * slopes).sum(1))


def test_the_prior_of_largest_evidence_is_found() -> None:
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(30, 4, generator=generator, dtype=torch.float64) * 100
    theta = torch.tensor([3.0, -3.0, 3.0, 3.0], dtype=torch.float64)
    assert Posterior(rows, theta, None).sd == pytest.approx(3.0, rel=0.01)  # all four are well determined
    fitted, _ = simulate(THETA, torch.Generator().manual_seed(0))
    with torch.no_grad():
        fitted.net.weight.fill_(0.5)  # type: ignore[union-attr]
    assert 0 < Laplace(fitted).posterior.sd < 10


def test_equation_and_conditions_add_knowledge() -> None:
    problem = AllenCahn2D()
    recipe = pinn.Recipe(steps=50, finish=0, n_interior=64, n_boundary=32)
    net = pinn.mlp(2, [10, 8], seed=0)
    fitted = pinn.fit(problem, net, problem.observe(20, noise=0.05), recipe=recipe, progress=False)
    x = problem.domain.uniform(50, torch.Generator().manual_seed(0))
    for kind in (Laplace, LastLayerLaplace):
        with_physics, without = kind(fitted, 1.0), kind(fitted, 1.0, physics=False)
        assert (scale(with_physics, x) < scale(without, x)).all()
        assert torch.equal(with_physics(x).mean, fitted(x))
    sizes = dict(fitted.net.named_parameters())
    names = [LastLayerLaplace(fitted, layers=k).names for k in (1, 2, 9)]
    assert [sum(sizes[name].numel() for name in some) for some in names] == [9, 97, 127]
    with pytest.raises(ValueError, match="at least 1"):
        LastLayerLaplace(fitted, layers=0)
