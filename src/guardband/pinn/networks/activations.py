"""Activations: smooth functions of one variable with their first five derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Activation(NamedTuple):
    """A smooth activation s with its derivatives.

    `upto_second` maps z to (s, s', s''), `third` maps (z, s, s', s'') to s''', and `higher` maps
    (z, s, s', s'', s''') to the fourth and fifth derivatives.
    """

    upto_second: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
    third: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    higher: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    to_compile: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor, Tensor]] | None = None

    def fused(self, z: Tensor, value: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """(s, s', s'') in a form that compiles well; `value` is s if it has already been computed."""
        return self.upto_second(z) if self.to_compile is None else self.to_compile(z, value)


def _tanh(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.tanh(z)  # the most common activation, with few passes over memory
    slope = torch.addcmul(z.new_ones(()), a, a, value=-1)
    return a, slope, torch.addcmul(z.new_zeros(()), a, slope, value=-2)


def _tanh_to_compile(z: Tensor, a: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    if a is None:  # computed by exp, since compiled kernels take several times as long for tanh
        a = 1 - 2 / (torch.exp(2 * z) + 1)
    slope = 1 - a * a
    return a, slope, -2 * a * slope


def _tanh_third(z: Tensor, a: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.addcmul(first, first, first, value=-1.5).mul_(4)


def _tanh_higher(z: Tensor, a: Tensor, first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
    bend = 4 - 12 * first
    return second * bend, third * bend - 12 * second * second


def _sin(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.sin(z)
    return a, torch.cos(z), -a


def _sigmoid(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.sigmoid(z)
    slope = a * (1 - a)
    return a, slope, slope * (1 - 2 * a)


def _sigmoid_higher(
    z: Tensor, a: Tensor, first: Tensor, second: Tensor, third: Tensor
) -> tuple[Tensor, Tensor]:
    bend = 1 - 12 * first
    return second * bend, third * bend - 12 * second * second


def _softplus(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    slope = torch.sigmoid(z)
    return F.softplus(z), slope, slope * (1 - slope)


def _silu(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p = torch.sigmoid(z)
    rise = p * (1 - p)
    return z * p, p + z * rise, rise * (2 + z * (1 - 2 * p))


def _silu_third(z: Tensor, a: Tensor, first: Tensor, second: Tensor) -> Tensor:
    p = torch.sigmoid(z)
    rise = p * (1 - p)
    return rise * (3 * (1 - 2 * p) + z * (1 - 6 * rise))


def _silu_higher(z: Tensor, a: Tensor, first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
    p, p1, p2 = _sigmoid(z)
    p3 = p1 * (1 - 6 * p1)
    p4, p5 = _sigmoid_higher(z, p, p1, p2, p3)
    return z * p4 + 4 * p3, z * p5 + 5 * p4


def _gelu(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    density = torch.exp(-0.5 * z * z) * (0.5 / torch.pi) ** 0.5
    share = torch.special.ndtr(z)
    return z * share, share + z * density, density * (2 - z * z)


def _gelu_third(z: Tensor, a: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.exp(-0.5 * z * z) * (0.5 / torch.pi) ** 0.5 * z * (z * z - 4)


def _gelu_higher(z: Tensor, a: Tensor, first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
    density = torch.exp(-0.5 * z * z) * (0.5 / torch.pi) ** 0.5
    square = z * z
    return density * (-4 + square * (7 - square)), density * z * (18 + square * (square - 11))


ACTIVATIONS: dict[Callable[..., Tensor], Activation] = {
    torch.tanh: Activation(_tanh, _tanh_third, _tanh_higher, _tanh_to_compile),
    torch.sin: Activation(
        _sin, lambda z, a, first, second: -first, lambda z, a, first, second, third: (a, first)
    ),
    torch.sigmoid: Activation(_sigmoid, lambda z, a, first, second: first * (1 - 6 * first), _sigmoid_higher),
    F.softplus: Activation(
        _softplus,
        lambda z, a, first, second: second * (1 - 2 * first),
        lambda z, a, first, second, third: (second * (1 - 6 * second), third * (1 - 12 * second)),
    ),
    F.silu: Activation(_silu, _silu_third, _silu_higher),
    F.gelu: Activation(_gelu, _gelu_third, _gelu_higher),
}
"""The activations with derivatives in closed form."""


def function_of(module: nn.Module) -> Callable[..., Tensor] | None:
    """The function that an activation module computes; None if it is not one of `ACTIVATIONS`."""
    match module:
        case nn.Tanh():
            return torch.tanh
        case nn.Sigmoid():
            return torch.sigmoid
        case nn.SiLU():
            return F.silu
        case nn.GELU(approximate="none"):
            return F.gelu
        case nn.Softplus(beta=1):
            return F.softplus
    return None
