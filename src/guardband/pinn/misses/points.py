"""The points at which a network is compared with data, equation, conditions and terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from guardband.pinn.geometry import Boundary
from guardband.pinn.networks.traits import traits_of
from guardband.pinn.problems import Condition, Problem
from guardband.pinn.problems.base import Term, conditions_in, terms_in


class Points(NamedTuple):
    """The points of the loss: data points with targets, interior points, and points of each of `terms_of`.

    Missing targets are NaN.
    """

    x: Tensor
    y: Tensor
    inside: Tensor
    edges: tuple[Boundary, ...]


def fixed_points(
    problem: Problem,
    net: nn.Module,
    data: tuple[Tensor, Tensor],
    n_interior: int | tuple[int, ...] | None,
    n_boundary: int,
    generator: torch.Generator | None,
) -> Points:
    """Fixed points: all data, quasi-random points inside, and random points on the boundary.

    Without a generator the points are evenly spaced. The default number of interior points is 256 in one
    dimension and 768 otherwise; a tuple specifies the numbers per axis.
    """
    x, y = data
    domain = problem.domain
    counts = n_interior or (256 if domain.d == 1 else 768)
    whole = counts if isinstance(counts, int) else math.prod(counts)
    within = domain.grid(counts) if generator is None else domain.quasi(whole, seed=generator.initial_seed())
    on_edges = [c.points(domain, n_boundary, generator) for c in terms_of(problem, net)]
    return Points(x, y, within.to(x), tuple(edge.to(x) for edge in on_edges))


def conditions_of(problem: Problem, net: nn.Module) -> Sequence[Condition]:
    """The conditions to be learned, without those that the network satisfies by construction."""
    met = traits_of(net).meets(problem)
    return [condition for i, condition in enumerate(conditions_in(problem)) if i not in met]


def terms_of(problem: Problem, net: nn.Module) -> Sequence[Condition | Term]:
    """The conditions to be learned, followed by the problem's additional terms, as in `Points.edges`."""
    return [*conditions_of(problem, net), *terms_in(problem)]
