"""The misses of a network at fresh points, and the sizes that they are compared with.

The size of an output is its root mean square over the domain, with two exceptions. Of an offset not all
counts: a temperature in kelvin is 300 and changes by 20. And an output may be nothing at all, as the velocity
across a channel is; it is held against a hundredth of what it would have to be to matter in its equations.
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
"""Points of a pool at a time."""

OFFSET = 3.0
"""An output counts as no more than so many times its spread."""

NEGLIGIBLE = 0.01
"""The share of what would matter that an output, or a term, is taken for at least."""

MET = 0.1
"""Equations that are missed by more than this share of their terms say nothing of what would matter."""

ROUNDING = 1e-9
"""Prescribed values that are smaller than this share of what would matter are taken for 0."""


class Part(NamedTuple):
    """All equations, one condition or one term, at points of their own."""

    residual: Residual
    x: Tensor
    normals: Tensor | None
    together: int
    linear: Linearized
    weights: Tensor
    """How much each miss counts, (n,), 1 in the mean over the domain."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A model at fresh points: its equations, then each condition and each term of the problem."""

    x: Tensor
    inside: Source
    """Derivatives of the model inside."""
    parts: tuple[Part, ...]
    sizes: Tensor
    """What an error of each output is held against, (m,)."""
    least: Tensor
    """What that is at least, whatever the output is, (m,)."""
    reach: Tensor

    @property
    def weights(self) -> Tensor:
        """How much each point inside counts, (n,)."""
        return self.parts[0].weights

    def scales(self) -> list[Tensor]:
        """What the misses of each part are held against, (q,) each: an equation's own terms at these points.

        What a condition compares is held against its size over the whole domain, since it may be 0 where the
        condition holds.
        """
        equations = self.parts[0].linear
        own = rms(equations.sizes(), self.weights)
        smallest = NEGLIGIBLE * typical(equations, self.weights, self.sizes, self.reach)
        return [own.maximum(smallest), *(self._over_domain(part.linear) for part in self.parts[1:])]

    def shares(self) -> list[Tensor]:
        """How far each part is missed, relatively, (q,) each; what is missed of nothing is infinite."""
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
        """Whether all that was found is a number."""
        return all(bool(part.linear.misses.isfinite().all()) for part in self.parts)


def sample_misses(
    problem: Problem, model: Callable[[Tensor], Tensor], seed: int, inside: int, edge: int, pool: int = 0
) -> Sample:
    """A model at points uniform in the domain, and about so many where each condition holds.

    Fronts and corners, where most may be missed, are small. So of a `pool` of so many points, half of those
    inside are drawn by how much is missed there, and count the less.

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
    parts = [Part(problem.misses, x, None, 1, linearize(problem.misses, x, source, names), weights)]
    conditions = conditions_in(problem)
    for condition in (*conditions, *terms_in(problem)):
        where = condition.points(domain, edge, generator)
        points, normals = where.points.double(), where.normals.double()
        at_edge, residual, together = _source(problem, model, points), condition.residual, condition.together
        linear = linearize(residual, points, at_edge, names, normals, together)
        parts.append(Part(residual, points, normals, together, linear, torch.ones_like(linear.misses[:, 0])))
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
    """n points of a pool, half of them by the misses there, and the weights that make up for it."""
    missed = torch.cat([problem.misses(x, problem.field(model, x)).detach() for x in pool.split(AT_ONCE)])
    sizes = missed.abs().double()
    mean = sizes.mean(dim=0)
    density = (1 + torch.where(mean > 0, sizes / mean, 1.0).mean(dim=1)) / 2
    if not bool(density.isfinite().all()):  # which is told of the misses themselves
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
    """The root mean square of each column over its size; what is missed of nothing is infinite."""
    off = rms(misses, weights)
    return torch.where(off > 0, off / sizes, 0.0)


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
