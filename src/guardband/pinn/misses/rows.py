"""All scaled misses of a network as one vector, and its Jacobian.

A row is a miss divided by its scale and by the root of the number of misses of its term, so the sum of
squares is the loss that training minimizes. Gauss-Newton steps and Laplace approximations use the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from guardband.pinn.misses.factors import Factors, Products
from guardband.pinn.misses.jacobian import Slopes, value
from guardband.pinn.misses.likelihood import Scales
from guardband.pinn.misses.points import Points, terms_of
from guardband.pinn.misses.unknowns import unknown_slopes
from guardband.pinn.networks.derivatives import Residual, differentiate, needs_of
from guardband.pinn.problems import Problem


class Rows:
    """The scaled misses of a network at given points; `rows()` returns them (N,) with their Jacobian (N, P).

    Examples
    --------
    >>> from guardband import pinn
    >>> from guardband.pinn.misses.points import fixed_points
    >>> problem = pinn.problems.Poisson1D()
    >>> net, data = pinn.mlp(problem, [8]).double(), problem.observe(5, dtype=torch.float64)
    >>> points = fixed_points(problem, net, (data.x, data.y), 9, 4, None)
    >>> rows = Rows(
    ...     problem, net, points, Scales(torch.ones(1), torch.ones(1), (torch.ones(1),))
    ... )
    >>> [tuple(part.shape) for part in rows()]
    [(16,), (16, 25)]
    """

    problem: Problem
    net: nn.Module
    points: Points
    weights: Tensor | None
    """The weight of each interior point, (n,); None if all weights are equal."""

    def __init__(self, problem: Problem, net: nn.Module, points: Points, scales: Scales) -> None:
        self.weights = None
        self.problem, self.net, self.points = problem, net, points
        located = zip(terms_of(problem, net), points.edges, scales.boundary, strict=True)
        self._terms = [
            _Term(value, problem, net, points.inside, scales.data),
            _Term(problem.misses, problem, net, points.inside, scales.physics),
            *(
                _Term(one.residual, problem, net, edge.points, scale, one.together)
                for one, edge, scale in located
            ),
        ]

    def _pairs(self, *, physics: bool = True) -> list[tuple[_Term, _Place]]:
        """Each term with its points: the data (if any), the equation, then the entries of `terms_of`."""
        x, y, inside, edges = self.points
        root = None if self.weights is None else self.weights.sqrt()[:, None]
        places = [_Place(x, target=y), _Place(inside, root=root)]
        places += [_Place(edge.points, edge.normals) for edge in edges]
        pairs = list(zip(self._terms, places, strict=True))
        return pairs[int(not len(x)) : None if physics else 1]

    def __call__(self, names: Sequence[str] | None = None, *, physics: bool = True) -> tuple[Tensor, Tensor]:
        """All scaled misses (N,), and their derivatives with respect to the weights (N, P).

        `names` selects weights, and `physics=False` restricts the rows to the data.
        """
        found = [term.rows(place, names) for term, place in self._pairs(physics=physics)]
        misses, slopes = zip(*found, strict=True)
        whole = torch.cat([part.flatten(0, 1) for part in slopes])
        return torch.cat([part.flatten() for part in misses]), whole

    def columns(self) -> Tensor:
        """The derivatives of each miss with respect to the unknowns' parameters, (N, K); 0 for the data."""
        pairs = [(term, place) for term, place in self._pairs() if place.target is None]
        physics = torch.cat([term.columns(place).flatten(0, 1) for term, place in pairs])
        return torch.cat([physics.new_zeros(self.points.y.numel(), physics.shape[1]), physics])

    def __len__(self) -> int:
        """The number of misses."""
        return sum(term.width * (len(place.x) if term.together else 1) for term, place in self._pairs())

    def products(self) -> tuple[Tensor, Products] | None:
        """All scaled misses (N,), and their Jacobian through products; None if jets do not apply."""
        found = list[tuple[Tensor, Factors]]()
        for term, place in self._pairs():
            rows = term.factors(place)
            if rows is None:
                return None
            found.append(rows)
        return torch.cat([miss.flatten() for miss, _ in found]), Products([factors for _, factors in found])

    def misses(self) -> Tensor:
        """All scaled misses, (N,), without the Jacobian."""
        return torch.cat([term.misses(place).flatten() for term, place in self._pairs()])

    def residual(self, x: Tensor) -> Tensor:
        """The norm of the scaled residual of the equations at points x, (n,)."""
        return self._terms[1].misses(_Place(x)).square().sum(dim=1).mul(len(x)).sqrt()


class _Place(NamedTuple):
    """The points of a term, with normals, targets (n, q), or square roots (n, 1) of the points' weights."""

    x: Tensor
    normals: Tensor | None = None
    target: Tensor | None = None
    root: Tensor | None = None


class _Term:
    """The misses of one term: the data, the equations, a condition, or an additional term of the problem."""

    width: int
    together: int
    """The number of consecutive points with dependent residuals; 0 if all points have a single miss."""

    def __init__(
        self,
        residual: Residual,
        problem: Problem,
        net: nn.Module,
        x: Tensor,
        scale: Tensor,
        together: int = 1,
    ) -> None:
        self._problem, self._residual, self._scale = problem, residual, scale.to(x)
        self._field = differentiate(net, needs_of(residual, net, x, problem.names), problem.names)
        few = x[: together or 2]
        shape = self.misses(_Place(few, torch.ones_like(few))).shape
        self.width, self.together = shape[1], together or int(shape[0] == len(few))
        self._slopes = Slopes(residual, net, x, problem.names, self.together)

    def _over(self, miss: Tensor, place: _Place) -> Tensor:
        """Misses as rows, divided by their scale, minus the targets."""
        over = self._scale * math.sqrt(max(1, len(miss)))
        rows = miss / over
        if place.target is not None:
            rows = (rows - place.target / over).nan_to_num(0.0)  # 0 where a target is missing
        return rows if place.root is None else rows * place.root

    def misses(self, place: _Place) -> Tensor:
        """The rows at some points, (n, q)."""
        with torch.no_grad():
            field = self._field(place.x)
            field.normals = place.normals
            return self._over(self._residual(place.x, field).detach(), place)

    def rows(self, place: _Place, names: Sequence[str] | None) -> tuple[Tensor, Tensor]:
        """The rows at some points (n, q), and their derivatives (n, q, P)."""
        miss, slopes = self._slopes(place.x, place.normals, names)
        slopes.div_(self._spread(miss)[:, None])
        if place.target is not None:
            slopes = slopes * ~place.target.isnan()[:, :, None]
        if place.root is not None:
            slopes.mul_(place.root[:, :, None])
        return self._over(miss, place), slopes

    def factors(self, place: _Place) -> tuple[Tensor, Factors] | None:
        """The rows, with their derivatives as factors; None if jets do not apply."""
        found = self._slopes.factors(place.x, place.normals)
        if found is None:
            return None
        miss, factors = found
        factors.weigh(1 / self._spread(miss))
        if place.target is not None:
            factors.weigh((~place.target.isnan()).to(miss))
        if place.root is not None:
            factors.weigh(place.root)
        return self._over(miss, place), factors

    def columns(self, place: _Place) -> Tensor:
        """The derivatives of the rows with respect to each unknown, (n, q, K)."""
        with torch.no_grad():
            field = self._field(place.x)
        field.normals = place.normals
        with torch.enable_grad():
            return unknown_slopes(self._problem, self._over(self._residual(place.x, field), place))

    def _spread(self, miss: Tensor) -> Tensor:
        """The divisor of each column of misses, (q,)."""
        return (self._scale * math.sqrt(len(miss))).expand(miss.shape[1])
