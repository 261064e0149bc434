"""Rows: all misses of a network over their scales as one vector, and how each changes with each weight.

A row is a miss over its scale and over the root of how many there are of its kind, so the sum of squares
is the loss that training minimizes. Gauss-Newton steps and the Laplace approximation use the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from guardband.pinn.derivatives import Residual, differentiate, needs_of
from guardband.pinn.factors import Factors, Products
from guardband.pinn.jacobian import Slopes, value
from guardband.pinn.points import Points, conditions_of
from guardband.pinn.scales import Scales
from guardband.pinn.unknowns import slopes_in
from guardband.problems import Problem


class Rows:
    """The misses of a network at given points: `rows()` are (N,) and their derivatives (N, P).

    >>> import guardband as gb
    >>> from guardband.pinn.points import fixed_points
    >>> problem = gb.problems.Poisson1D()
    >>> net, data = gb.mlp(problem, [8]).double(), problem.observe(5, dtype=torch.float64)
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
    """How much each point inside counts, (n,); None if all count alike."""

    def __init__(self, problem: Problem, net: nn.Module, points: Points, scales: Scales) -> None:
        self.weights = None
        self.problem, self.net, self.points = problem, net, points
        conditions = conditions_of(problem, net)
        self._data = _Kind(value, problem, net, points.inside, scales.data)
        self._equations = _Kind(problem.misses, problem, net, points.inside, scales.physics)
        self._conditions = [
            _Kind(condition.residual, problem, net, edge.points, scale, condition.together)
            for condition, edge, scale in zip(conditions, points.edges, scales.boundary, strict=True)
        ]

    def __call__(self, names: Sequence[str] | None = None, *, physics: bool = True) -> tuple[Tensor, Tensor]:
        """All misses over their scales (N,), and their derivatives in the weights (N, P).

        `names` chooses weights, and `physics=False` leaves out equation and conditions.
        """
        found = []
        x, y, inside, edges = self.points
        if len(x):
            miss, slopes = self._data.rows(x, None, names)
            off = (miss - self._data.over(y, len(y))).nan_to_num(0.0)
            found.append((off, slopes * ~y.isnan()[:, :, None]))  # what was not measured says nothing
        if physics:
            miss, slopes = self._equations.rows(inside, None, names)
            if self.weights is not None:
                root = self.weights.sqrt()[:, None]
                miss, slopes = miss * root, slopes.mul_(root[:, :, None])
            found.append((miss, slopes))
            for kind, edge in zip(self._conditions, edges, strict=True):
                found.append(kind.rows(edge.points, edge.normals, names))
        misses, slopes = zip(*found, strict=True)
        whole = torch.cat([part.flatten(0, 1) for part in slopes])
        return torch.cat([part.flatten() for part in misses]), whole

    def columns(self) -> Tensor:
        """How each miss changes with the parameter of each unknown, (N, K); those of the data do not."""
        _, y, inside, edges = self.points
        found = [self._equations.columns(inside, None)]
        if self.weights is not None:
            found[0] = found[0] * self.weights.sqrt()[:, None, None]
        for kind, edge in zip(self._conditions, edges, strict=True):
            found.append(kind.columns(edge.points, edge.normals))
        physics = torch.cat([part.flatten(0, 1) for part in found])
        return torch.cat([physics.new_zeros(y.numel(), physics.shape[1]), physics])

    def __len__(self) -> int:
        """How many misses there are."""
        kinds = [self._data, self._equations, *self._conditions]
        places = [self.points.x, self.points.inside, *(edge.points for edge in self.points.edges)]
        return sum(kind.width * len(x) for kind, x in zip(kinds, places, strict=True))

    def products(self) -> tuple[Tensor, Products] | None:
        """All misses over their scales (N,), and their derivatives by their products; None if not by jets."""
        x, y, inside, edges = self.points
        kinds = [(self._data, x, None), (self._equations, inside, None)]
        kinds += [(kind, e.points, e.normals) for kind, e in zip(self._conditions, edges, strict=True)]
        found = []
        for kind, at, normals in kinds if len(x) else kinds[1:]:
            rows = kind.factors(at, normals)
            if rows is None:
                return None
            miss, factors = rows
            if kind is self._data:
                miss = (miss - kind.over(y, len(y))).nan_to_num(0.0)
                factors.weigh((~y.isnan()).to(y))
            if kind is self._equations and self.weights is not None:
                root = self.weights.sqrt()[:, None]
                miss = miss * root
                factors.weigh(root)
            found.append((miss.flatten(), factors))
        return torch.cat([miss for miss, _ in found]), Products([factors for _, factors in found])

    def misses(self) -> Tensor:
        """All misses over their scales, (N,), alone."""
        x, y, inside, edges = self.points
        off = self._data.misses(x) - self._data.over(y, len(y))
        equations = self._equations.misses(inside)
        if self.weights is not None:
            equations = equations * self.weights.sqrt()[:, None]
        found = [off.nan_to_num(0.0), equations]
        for kind, edge in zip(self._conditions, edges, strict=True):
            found.append(kind.misses(edge.points, edge.normals))
        return torch.cat([part.flatten() for part in found])

    def residual(self, x: Tensor) -> Tensor:
        """How far the equations are off at points x, over their scales, (n,)."""
        return self._equations.misses(x).square().sum(dim=1).mul(len(x)).sqrt()


class _Kind:
    """Misses of one kind: of the data, of the equations, or of one condition."""

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
        self._slopes = Slopes(residual, net, x, problem.names, together)
        self._field = differentiate(net, needs_of(residual, net, x, problem.names), problem.names)
        few = x[:together]
        self.width = self.misses(few, torch.ones_like(few)).shape[1]

    def over(self, miss: Tensor, n: int) -> Tensor:
        """One of n misses as a row."""
        return miss / (self._scale * math.sqrt(max(1, n)))

    def misses(self, x: Tensor, normals: Tensor | None = None) -> Tensor:
        """The misses over their scales, (n, q)."""
        with torch.no_grad():
            field = self._field(x)
            field.normals = normals
            return self.over(self._residual(x, field).detach(), len(x))

    def rows(self, x: Tensor, normals: Tensor | None, names: Sequence[str] | None) -> tuple[Tensor, Tensor]:
        """The misses over their scales (n, q), and their derivatives (n, q, P)."""
        miss, slopes = self._slopes(x, normals, names)
        scale = (self._scale * math.sqrt(len(x))).expand(miss.shape[1])
        return miss / scale, slopes.div_(scale[:, None])

    def columns(self, x: Tensor, normals: Tensor | None) -> Tensor:
        """How the misses over their scales change with each unknown, (n, q, K)."""
        with torch.no_grad():
            field = self._field(x)
        field.normals = normals
        with torch.enable_grad():
            return slopes_in(self._problem, self.over(self._residual(x, field), len(x)))

    def factors(self, x: Tensor, normals: Tensor | None) -> tuple[Tensor, Factors] | None:
        """The same with the derivatives as factors; None where they do not come by jets."""
        found = self._slopes.factors(x, normals)
        if found is None:
            return None
        miss, factors = found
        scale = (self._scale * math.sqrt(len(x))).expand(miss.shape[1])
        factors.weigh(1 / scale)
        return miss / scale, factors
