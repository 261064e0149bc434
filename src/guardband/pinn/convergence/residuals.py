"""The residuals of a network at fresh points, and the scales with which they are compared.

The size of an output is its root mean square over the domain, with two exceptions. A constant offset counts
for at most three times the spread, so a temperature of 300 K that varies by 20 K has a size determined by its
variation. The size of an output that is zero, such as the velocity across a channel, is a hundredth of the
size that would matter in its equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.misses.linearized import Axes, Linearized, Source, linearize
from guardband.pinn.misses.sizes import crude_sizes
from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import conditions_in, terms_in

AT_ONCE = 1024
"""The number of points of a pool that are evaluated at a time."""

OFFSET = 3.0
"""The size of an output is at most this multiple of its spread."""

NEGLIGIBLE = 0.01
"""The smallest size of an output or term, as a fraction of the size that would matter."""

MET = 0.1
"""An equation whose residuals exceed this share of its terms does not show which size would matter."""

ROUNDING = 1e-9
"""Prescribed values below this share of the size that would matter count as 0."""


class ResidualPart(NamedTuple):
    """The residuals of the equations, a condition or a term, at their points."""

    residual: Residual
    x: Tensor
    normals: Tensor | None
    together: int
    linear: Linearized
    weights: Tensor
    """The weight of each residual, (n,), which is 1 on average over the domain."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The residuals of a model at fresh points: of the equations, then each condition, then each term."""

    x: Tensor
    inside: Source
    """The derivatives of the model inside the domain."""
    parts: tuple[ResidualPart, ...]
    sizes: Tensor
    """The size of each output, (m,), with which errors are compared."""
    least: Tensor
    """The smallest relevant size of each output, (m,)."""
    reach: Tensor

    @property
    def weights(self) -> Tensor:
        """The weight of each interior point, (n,)."""
        return self.parts[0].weights

    def scales(self) -> list[Tensor]:
        """The scales of the residuals of each part, (q,) each.

        The scale of an equation is the size of its terms at these points. The quantities that a condition
        compares may vanish where it holds, so its scale is their size over the whole domain.
        """
        equations = self.parts[0].linear
        own = rms(equations.sizes(), self.weights)
        smallest = NEGLIGIBLE * typical(equations, self.weights, self.sizes, self.reach)
        return [own.maximum(smallest), *(self._over_domain(part.linear) for part in self.parts[1:])]

    def shares(self) -> list[Tensor]:
        """The residuals of each part relative to their scales, (q,) each; infinite if the scale is 0."""
        return [
            relative(part.linear.misses, scale, part.weights)
            for part, scale in zip(self.parts, self.scales(), strict=True)
        ]

    def _over_domain(self, linear: Linearized) -> Tensor:
        squares = linear.at_zero.square().mean(dim=0)
        for axes, slopes in linear.slopes.items():
            smallest = self.least.maximum(NEGLIGIBLE * self.sizes) / self.reach[list(axes)].prod()
            over = rms(self.inside(axes), self.weights).maximum(smallest)
            each = slopes[0].abs().sum(0).square() if linear.whole else slopes.square().sum(dim=0).mean(dim=0)
            squares = squares + (each * over.square()).sum(dim=1)
        return squares.sqrt()

    def finite(self) -> bool:
        """Whether all residuals are finite."""
        return all(bool(part.linear.misses.isfinite().all()) for part in self.parts)


def sample_misses(
    problem: Problem, model: Callable[[Tensor], Tensor], seed: int, inside: int, edge: int, pool: int = 0
) -> Sample:
    """Evaluate a model at points that are uniform in the domain, and at about `edge` points per condition.

    The largest residuals are often confined to fronts and corners. With a `pool`, half of the interior points
    are therefore drawn from a pool of that number of uniform points, with probabilities proportional to the
    residuals, and weighted accordingly.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> sample = sample_misses(problem, problem.solution, 0, 100, 2)
    >>> [bool((part.linear.misses.abs() < 1e-9).all()) for part in sample.parts]
    [True, True]
    """
    generator = torch.Generator().manual_seed(seed)
    domain, names = problem.domain, problem.names
    x = domain.uniform(max(inside, pool), generator, dtype=torch.float64)
    weights = torch.ones_like(x[:, 0])
    if pool:
        x, weights = _where_missed(problem, model, x, inside, generator)
    source = _source(problem, model, x)
    parts = [ResidualPart(problem.misses, x, None, 1, linearize(problem.misses, x, source, names), weights)]
    conditions = conditions_in(problem)
    for condition in (*conditions, *terms_in(problem)):
        where = condition.points(domain, edge, generator)
        points, normals = where.points.double(), where.normals.double()
        at_edge, residual, together = _source(problem, model, points), condition.residual, condition.together
        linear = linearize(residual, points, at_edge, names, normals, together)
        ones = torch.ones_like(linear.misses[:, 0])
        parts.append(ResidualPart(residual, points, normals, together, linear, ones))
    sizes, reach = size(source(()), weights), torch.tensor(domain.reach, dtype=torch.float64)
    smallest = least(
        sizes, weights, parts[0].linear, [part.linear for part in parts[1 : 1 + len(conditions)]], reach
    )
    sizes = sizes.maximum(smallest)
    sizes = torch.where(sizes > 0, sizes, crude_sizes(problem)) if bool((sizes == 0).any()) else sizes
    return Sample(x, source, tuple(parts), sizes, smallest, reach)


def _where_missed(
    problem: Problem, model: Callable[[Tensor], Tensor], pool: Tensor, n: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """n points of a pool with importance weights, half of them drawn in proportion to the residuals."""
    missed = torch.cat([problem.misses(x, problem.field(model, x)).detach() for x in pool.split(AT_ONCE)])
    sizes = missed.abs().double()
    mean = sizes.mean(dim=0)
    density = (1 + torch.where(mean > 0, sizes / mean, 1.0).mean(dim=1)) / 2
    if not bool(density.isfinite().all()):  # reported for the residuals themselves
        return pool[:n], torch.ones_like(pool[:n, 0])
    chosen = torch.multinomial(density, n, replacement=True, generator=generator)
    return pool[chosen], 1 / density[chosen]


def _source(problem: Problem, model: Callable[[Tensor], Tensor], x: Tensor) -> Source:
    """The derivatives of a model at points, in float64, each computed once."""
    field, known = problem.field(model, x), dict[Axes, Tensor]()

    def source(axes: Axes) -> Tensor:
        if axes not in known:
            known[axes] = field.partial(axes).detach().to(x)
        return known[axes]

    return source


def relative(misses: Tensor, sizes: Tensor, weights: Tensor) -> Tensor:
    """The root mean square of each column divided by its size; infinite if the size is 0."""
    off = rms(misses, weights)
    return torch.where(off > 0, off / sizes, 0.0)


def rms(values: Tensor, weights: Tensor) -> Tensor:
    """The weighted root mean square of each column.

    >>> rms(torch.tensor([[3.0], [4.0]]), torch.ones(2)) ** 2
    tensor([12.5000])
    """
    return (values.square() * weights[:, None]).mean(dim=0).sqrt()


def size(values: Tensor, weights: Tensor) -> Tensor:
    """The root mean square of each column, between a hundredth of itself and three times its spread.

    >>> size(torch.tensor([[99.0, -1.0], [101.0, 1.0]], dtype=torch.float64), torch.ones(2))
    tensor([3., 1.], dtype=torch.float64)
    """
    whole, mean = rms(values, weights), (values * weights[:, None]).mean(dim=0) / weights.mean()
    return whole.minimum(OFFSET * rms(values - mean, weights)).maximum(NEGLIGIBLE * whole)


def least(
    sizes: Tensor, weights: Tensor, equations: Linearized, conditions: Sequence[Linearized], reach: Tensor
) -> Tensor:
    """The smallest relevant size of each output, (m,); 0 if it cannot be estimated.

    An output matters in an equation if its terms are as large as those of the other outputs, and the most
    sensitive equation determines the size. If the prescribed values are smaller, they determine it instead.
    """
    rates, terms = _rates(equations, reach, weights), _terms(equations, weights)
    each = torch.maximum(rates * sizes, terms)
    others = rms(equations.at_zero, weights)[:, None] + each.sum(dim=1, keepdim=True) - each
    needed = others / torch.maximum(rates, torch.where(sizes > 0, terms / sizes, 0.0))  # 0 / 0 gives NaN
    needed = torch.where((rates > 0) & (others > 0), needed, torch.inf).amin(dim=0)
    given = _prescribed(conditions, reach)
    needed = torch.where(given > ROUNDING * needed.nan_to_num(posinf=0.0), needed.minimum(given), needed)
    found = torch.where(needed.isfinite(), NEGLIGIBLE * needed, 0.0)
    met = rms(equations.misses, weights)[:, None] <= MET * (others + each.maximum(rates * found))
    return torch.where((met | (rates == 0)).all(dim=0), found, 0.0)


def typical(linear: Linearized, weights: Tensor, sizes: Tensor, reach: Tensor) -> Tensor:
    """The size of the terms of each equation, (q,), for outputs of these sizes that vary over the domain."""
    return (_rates(linear, reach, weights) * sizes).square().sum(dim=1).sqrt()


def _rates(linear: Linearized, reach: Tensor, weights: Tensor) -> Tensor:
    """The size of the terms, (q, m), of an output of size 1 that varies over the domain."""
    squares = [
        _mean(slopes.square().sum(dim=0), weights) / reach[list(axes)].prod() ** 2
        for axes, slopes in linear.slopes.items()
    ]
    return torch.stack(squares).sum(dim=0).sqrt()


def _terms(linear: Linearized, weights: Tensor) -> Tensor:
    """The size of the terms of each output, (q, m)."""
    squares = [
        _mean((slopes * linear.leaves[axes][None, :, None]).square().sum(dim=0), weights)
        for axes, slopes in linear.slopes.items()
    ]
    return torch.stack(squares).sum(dim=0).sqrt()


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    return (values * weights[:, None, None]).mean(dim=0)


def _prescribed(conditions: Sequence[Linearized], reach: Tensor) -> Tensor:
    """The largest value that conditions prescribe for each output, (m,)."""
    found = [torch.zeros(())]
    for linear in conditions:
        ones = torch.ones_like(linear.misses[:, 0])
        values = rms(linear.at_zero, ones)[:, None] / _rates(linear, reach, ones)
        found.append(torch.where(values.isfinite(), values, 0.0).amax(dim=0))
    return torch.stack(torch.broadcast_tensors(*found)).amax(dim=0)
