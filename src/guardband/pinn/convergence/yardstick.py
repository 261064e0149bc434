"""Yardsticks: what an error of an output is held against, so that it is called small or large.

That is the root mean square of the output over the domain, with two exceptions. Of an offset not all
counts: a temperature in kelvin is 300 and changes by 20. And an output may be nothing at all, as the velocity
across a channel is; it is held against a hundredth of what it would have to be to matter in its equations.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guardband.pinn.misses.linearized import Linearized

OFFSET = 3.0
"""An output counts as no more than so many times its spread."""

NEGLIGIBLE = 0.01
"""The share of what would matter that an output, or a term, is taken for at least."""

MET = 0.1
"""Equations that are missed by more than this share of their terms say nothing of what would matter."""

ROUNDING = 1e-9
"""Prescribed values that are smaller than this share of what would matter are taken for 0."""


def rms(values: Tensor, weights: Tensor) -> Tensor:
    """The root mean square of each column over weighted points.

    >>> rms(torch.tensor([[3.0], [4.0]]), torch.ones(2)) ** 2
    tensor([12.5000])
    """
    return (values.square() * weights[:, None]).mean(dim=0).sqrt()


def size(values: Tensor, weights: Tensor) -> Tensor:
    """The root mean square of each column; or three times its spread where that is less, but a hundredth.

    >>> size(torch.tensor([[99.0, -1.0], [101.0, 1.0]], dtype=torch.float64), torch.ones(2))
    tensor([3., 1.], dtype=torch.float64)
    """
    whole, mean = rms(values, weights), (values * weights[:, None]).mean(dim=0) / weights.mean()
    return whole.minimum(OFFSET * rms(values - mean, weights)).maximum(NEGLIGIBLE * whole)


def least(
    sizes: Tensor, weights: Tensor, equations: Linearized, conditions: Sequence[Linearized], reach: Tensor
) -> Tensor:
    """What each output is taken for at least, (m,); 0 where nothing is known.

    An output matters in an equation when its terms are as large as those of the others, and the equation that
    feels it first decides. What is prescribed for it counts where it is less.
    """
    rates, terms = _rates(equations, reach, weights), _terms(equations, weights)
    each = torch.maximum(rates * sizes, terms)
    others = rms(equations.at_zero, weights)[:, None] + each.sum(dim=1, keepdim=True) - each
    needed = others / torch.maximum(rates, torch.where(sizes > 0, terms / sizes, 0.0))  # NaN is 0 / 0
    needed = torch.where((rates > 0) & (others > 0), needed, torch.inf).amin(dim=0)
    given = _prescribed(conditions, reach)
    needed = torch.where(given > ROUNDING * needed.nan_to_num(posinf=0.0), needed.minimum(given), needed)
    found = torch.where(needed.isfinite(), NEGLIGIBLE * needed, 0.0)
    met = rms(equations.misses, weights)[:, None] <= MET * (others + each.maximum(rates * found))
    return torch.where((met | (rates == 0)).all(dim=0), found, 0.0)


def typical(linear: Linearized, weights: Tensor, sizes: Tensor, reach: Tensor) -> Tensor:
    """How large the terms of each equation are where outputs of these sizes change over the domain, (q,)."""
    return (_rates(linear, reach, weights) * sizes).square().sum(dim=1).sqrt()


def _rates(linear: Linearized, reach: Tensor, weights: Tensor) -> Tensor:
    """How large the terms of an output of size 1 are that changes over the domain, (q, m)."""
    squares = [
        _mean(slopes.square().sum(dim=0), weights) / reach[list(axes)].prod() ** 2
        for axes, slopes in linear.slopes.items()
    ]
    return torch.stack(squares).sum(dim=0).sqrt()


def _terms(linear: Linearized, weights: Tensor) -> Tensor:
    """How large the terms of each output are, (q, m)."""
    squares = [
        _mean((slopes * linear.leaves[axes][None, :, None]).square().sum(dim=0), weights)
        for axes, slopes in linear.slopes.items()
    ]
    return torch.stack(squares).sum(dim=0).sqrt()


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    return (values * weights[:, None, None]).mean(dim=0)


def _prescribed(conditions: Sequence[Linearized], reach: Tensor) -> Tensor:
    """The largest value that conditions give each output, (m,)."""
    found = [torch.zeros(())]
    for linear in conditions:
        ones = torch.ones_like(linear.misses[:, 0])
        values = rms(linear.at_zero, ones)[:, None] / _rates(linear, reach, ones)
        found.append(torch.where(values.isfinite(), values, 0.0).amax(dim=0))
    return torch.stack(torch.broadcast_tensors(*found)).amax(dim=0)
