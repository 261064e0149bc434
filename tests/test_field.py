"""Derivatives by autograd, against polynomials whose derivatives are known."""

import torch
from torch import Tensor

from guardband.pinn.problems import AutogradField

X = torch.rand(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def polynomial(x: Tensor) -> Tensor:
    a, b, c = x.unbind(dim=1)
    return torch.stack([a**3 * b**2 + c, a * b * c], dim=1)


def test_derivatives_of_every_order_are_those_of_the_polynomial() -> None:
    a, b, c = X.unbind(dim=1)
    u = AutogradField(polynomial, X)
    zero = torch.zeros_like(a)
    expected = {
        (): (a**3 * b**2 + c, a * b * c),
        (0,): (3 * a**2 * b**2, b * c),
        (1,): (2 * a**3 * b, a * c),
        (2,): (zero + 1, a * b),
        (0, 0): (6 * a * b**2, zero),
        (0, 1): (6 * a**2 * b, c),
        (1, 0): (6 * a**2 * b, c),
        (2, 2): (zero, zero),
        (0, 1, 2): (zero, zero + 1),
        (2, 0, 1): (zero, zero + 1),
        (0, 0, 0, 1): (12 * b, zero),
    }
    for axes, parts in expected.items():
        assert (u.d(*axes) - torch.stack(parts, dim=1)).abs().max() < 1e-12, axes


def test_the_words_of_an_equation() -> None:
    a, b, _ = X.unbind(dim=1)
    u = AutogradField(polynomial, X)
    assert torch.equal(u.value, polynomial(X)) and u.grad.shape == (50, 2, 3)
    assert torch.equal(u.grad[:, :, 1], u.d(1)) and torch.equal(u.d(0, 1), u.d(1, 0))
    laplacian = 6 * a * b**2 + 2 * a**3
    assert (u.laplacian[:, 0] - laplacian).abs().max() < 1e-12
    assert u.laplacian[:, 1].abs().max() == 0


def test_a_constant_has_no_slope_and_the_callers_x_stays_as_it_was() -> None:
    x = X.clone()
    u = AutogradField(lambda x: torch.ones(len(x), 1, dtype=x.dtype), x)
    assert u.laplacian.abs().max() == 0 and not x.requires_grad


def test_derivatives_can_be_asked_for_without_gradients_around() -> None:
    with torch.no_grad():
        assert AutogradField(polynomial, X).d(0, 0).shape == (50, 2)


def test_gradgradcheck_passes() -> None:
    weight = torch.randn(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def laplacian(weight: Tensor) -> Tensor:
        u = AutogradField(lambda x: torch.tanh(x @ weight).sum(dim=1, keepdim=True), X[:4])
        return u.laplacian

    weight.requires_grad_()
    assert torch.autograd.gradcheck(laplacian, (weight,))
    assert torch.autograd.gradgradcheck(laplacian, (weight,))
