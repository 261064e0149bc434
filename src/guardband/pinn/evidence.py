"""Evidence: a model at points that it was not trained on, and what its misses are small against, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.derivatives import Residual
from guardband.pinn.linearized import Axes, Linearized, Source, linearize
from guardband.pinn.sizes import crude_sizes
from guardband.problems import Problem
from guardband.problems.base import conditions_in


class Asked(NamedTuple):
    """All equations, or one condition, at points of their own."""

    residual: Residual
    x: Tensor
    normals: Tensor | None
    together: int
    linear: Linearized


@dataclass(frozen=True, eq=False)
class Looked:
    """A model at fresh points: its equations, then each condition."""

    x: Tensor
    inside: Source
    """Derivatives of the model inside."""
    parts: tuple[Asked, ...]
    sizes: Tensor
    """The root mean square of each output, (m,); of a crude solution where it is 0."""
    reach: Tensor

    def scales(self) -> list[Tensor]:
        """What the misses of each part are held against, (q,) each: an equation's own terms at these points.

        What a condition compares is held against its size over the whole domain, since it may be 0 where the
        condition holds.
        """
        return [
            rms(self.parts[0].linear.sizes()),
            *(self._over_domain(part.linear) for part in self.parts[1:]),
        ]

    def shares(self) -> list[Tensor]:
        """How far each part is missed, relatively, (q,) each; what is missed of nothing is infinite."""
        return [
            relative(part.linear.misses, scale) for part, scale in zip(self.parts, self.scales(), strict=True)
        ]

    def _over_domain(self, linear: Linearized) -> Tensor:
        squares = linear.at_zero.square().mean(dim=0)
        for axes, slopes in linear.slopes.items():
            over, typical = rms(self.inside(axes)), self.sizes / self.reach[list(axes)].prod()
            over = torch.where(over > 1e-9 * typical, over, typical)
            squares = squares + (slopes.square().sum(dim=0).mean(dim=0) * over.square()).sum(dim=1)
        return squares.sqrt()

    def finite(self) -> bool:
        """Whether all that was found is a number."""
        return all(bool(part.linear.misses.isfinite().all()) for part in self.parts)


def look(problem: Problem, model: Callable[[Tensor], Tensor], seed: int, inside: int, edge: int) -> Looked:
    """A model at points uniform in the domain, and about so many where each condition holds.

    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> looked = look(problem, problem.solution, 0, 100, 2)
    >>> [bool((part.linear.misses.abs() < 1e-9).all()) for part in looked.parts]
    [True, True]
    """
    generator = torch.Generator().manual_seed(seed)
    domain, names = problem.domain, problem.names
    x = domain.uniform(inside, generator, dtype=torch.float64)
    source = _source(problem, model, x)
    parts = [Asked(problem.misses, x, None, 1, linearize(problem.misses, x, source, names))]
    for condition in conditions_in(problem):
        where = condition.points(domain, edge, generator)
        points, normals = where.points.double(), where.normals.double()
        at_edge, residual, together = _source(problem, model, points), condition.residual, condition.together
        linear = linearize(residual, points, at_edge, names, normals, together)
        parts.append(Asked(residual, points, normals, together, linear))
    sizes = rms(source(()))
    sizes = torch.where(sizes > 0, sizes, crude_sizes(problem)) if bool((sizes == 0).any()) else sizes
    return Looked(x, source, tuple(parts), sizes, torch.tensor(domain.reach, dtype=torch.float64))


def _source(problem: Problem, model: Callable[[Tensor], Tensor], x: Tensor) -> Source:
    """The derivatives of a model at points, in float64, each computed once."""
    field, known = problem.field(model, x), dict[Axes, Tensor]()

    def source(axes: Axes) -> Tensor:
        if axes not in known:
            known[axes] = field.partial(axes).detach().to(x)
        return known[axes]

    return source


def rms(values: Tensor) -> Tensor:
    """The root mean square of each column."""
    return values.square().mean(dim=0).sqrt()


def relative(misses: Tensor, sizes: Tensor) -> Tensor:
    """The root mean square of each column over its size; what is missed of nothing is infinite."""
    off = rms(misses)
    return torch.where(off > 0, off / sizes, 0.0)
