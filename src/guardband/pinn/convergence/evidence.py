"""Evidence: a model at points that it was not trained on, and what its misses are small against, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.convergence.yardstick import NEGLIGIBLE, least, rms, size, typical
from guardband.pinn.misses.linearized import Axes, Linearized, Source, linearize
from guardband.pinn.misses.sizes import crude_sizes
from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import conditions_in, terms_in

AT_ONCE = 1024
"""Points of a pool at a time."""


class Asked(NamedTuple):
    """All equations, one condition or one term, at points of their own."""

    residual: Residual
    x: Tensor
    normals: Tensor | None
    together: int
    linear: Linearized
    weights: Tensor
    """How much each miss counts, (n,), 1 in the mean over the domain."""


@dataclass(frozen=True, eq=False)
class Looked:
    """A model at fresh points: its equations, then each condition and each term of the problem."""

    x: Tensor
    inside: Source
    """Derivatives of the model inside."""
    parts: tuple[Asked, ...]
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


def look(
    problem: Problem, model: Callable[[Tensor], Tensor], seed: int, inside: int, edge: int, pool: int = 0
) -> Looked:
    """A model at points uniform in the domain, and about so many where each condition holds.

    Fronts and corners, where most may be missed, are small. So of a `pool` of so many points, half of those
    inside are drawn by how much is missed there, and count the less.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> looked = look(problem, problem.solution, 0, 100, 2)
    >>> [bool((part.linear.misses.abs() < 1e-9).all()) for part in looked.parts]
    [True, True]
    """
    generator = torch.Generator().manual_seed(seed)
    domain, names = problem.domain, problem.names
    x = domain.uniform(max(inside, pool), generator, dtype=torch.float64)
    weights = torch.ones_like(x[:, 0])
    if pool:
        x, weights = _where_missed(problem, model, x, inside, generator)
    source = _source(problem, model, x)
    parts = [Asked(problem.misses, x, None, 1, linearize(problem.misses, x, source, names), weights)]
    conditions = conditions_in(problem)
    for condition in (*conditions, *terms_in(problem)):
        where = condition.points(domain, edge, generator)
        points, normals = where.points.double(), where.normals.double()
        at_edge, residual, together = _source(problem, model, points), condition.residual, condition.together
        linear = linearize(residual, points, at_edge, names, normals, together)
        parts.append(Asked(residual, points, normals, together, linear, torch.ones_like(linear.misses[:, 0])))
    sizes, reach = size(source(()), weights), torch.tensor(domain.reach, dtype=torch.float64)
    smallest = least(
        sizes, weights, parts[0].linear, [part.linear for part in parts[1 : 1 + len(conditions)]], reach
    )
    sizes = sizes.maximum(smallest)
    sizes = torch.where(sizes > 0, sizes, crude_sizes(problem)) if bool((sizes == 0).any()) else sizes
    return Looked(x, source, tuple(parts), sizes, smallest, reach)


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
