"""Activations: smooth functions of one variable with their first three derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Activation(NamedTuple):
    """A smooth function s: z -> (s, s', s''), and (z, s, s', s'') -> s'''."""

    upto_second: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
    third: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _tanh(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.tanh(z)
    slope = 1 - a * a
    return a, slope, -2 * a * slope


def _sin(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.sin(z)
    return a, torch.cos(z), -a


def _sigmoid(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.sigmoid(z)
    slope = a * (1 - a)
    return a, slope, slope * (1 - 2 * a)


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


def _gelu(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    density = torch.exp(-0.5 * z * z) * (0.5 / torch.pi) ** 0.5
    share = torch.special.ndtr(z)
    return z * share, share + z * density, density * (2 - z * z)


def _gelu_third(z: Tensor, a: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.exp(-0.5 * z * z) * (0.5 / torch.pi) ** 0.5 * z * (z * z - 4)


ACTIVATIONS: dict[Callable[..., Tensor], Activation] = {
    torch.tanh: Activation(_tanh, lambda z, a, first, second: first * (4 - 6 * first)),
    torch.sin: Activation(_sin, lambda z, a, first, second: -first),
    torch.sigmoid: Activation(_sigmoid, lambda z, a, first, second: first * (1 - 6 * first)),
    F.softplus: Activation(_softplus, lambda z, a, first, second: second * (1 - 2 * first)),
    F.silu: Activation(_silu, _silu_third),
    F.gelu: Activation(_gelu, _gelu_third),
}
"""The activations whose derivatives are known in closed form."""


def function_of(module: nn.Module) -> Callable[..., Tensor] | None:
    """The function that an activation module computes, or None if it is not one of `ACTIVATIONS`."""
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
