"""Parametric problems: the coefficients of a problem become the first axes of its domain.

The original equation receives each coefficient as a column (n, 1) instead of a number. Its field has only the
original axes, so the Laplacian is over space and time is still the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from guardband.base.computed import computed
from guardband.pinn.geometry import Boundary, Box, Domain, Piece
from guardband.pinn.geometry.arguments import as_generator, count, of_any_points
from guardband.pinn.geometry.boundary import Placed
from guardband.pinn.problems import Condition, Field, Problem, Term
from guardband.pinn.problems.base import conditions_in, terms_in
from guardband.pinn.problems.field import Columns
from guardband.pinn.problems.unknown import with_values
from guardband.values import Names


@dataclass(frozen=True, eq=False)
class ParametricProblem(Problem):
    """A problem whose coefficients are axes, each with a range."""

    problem: Problem
    ranges: Mapping[str, tuple[float, float]]
    domain: ClassVar[Domain] = computed(lambda self: ParametricDomain(_box(self.ranges), self.problem.domain))
    outputs: ClassVar[tuple[str, ...] | int] = computed(lambda self: self.problem.names.outputs)

    def residual(self, x: Tensor, u: Field) -> Tensor | Mapping[str, Tensor]:
        """Return the residual of the problem, with columns of coefficients."""
        return self.at(x).residual(x[:, len(self.ranges) :], self.original(u))

    def conditions(self) -> list[Condition]:
        """Return the conditions of the problem, for all coefficients."""
        return [ParametricCondition(self, i, one) for i, one in enumerate(conditions_in(self.problem))]

    def terms(self) -> list[Term]:
        """Return an empty list; refuse a problem with terms, which are not defined per coefficient."""
        if found := terms_in(self.problem):
            raise ValueError(
                f"{type(self.problem).__name__} has the term {found[0].name!r}, but a network for all "
                "coefficients is trained only on equation and conditions. Remove the term."
            )
        return []

    def at(self, x: Tensor) -> Problem:
        """The problem with the coefficients of points x."""
        return with_values(self.problem, {name: x[:, [i]] for i, name in enumerate(self.ranges)})

    def original(self, u: Field) -> Field:
        """A field over the axes of the original problem."""
        return _Original(u, len(self.ranges), self.problem.names)


class _Original(Field):
    """A field restricted to its last axes."""

    def __init__(self, whole: Field, first: int, names: Names) -> None:
        normals = None if whole.normals is None else whole.normals[:, first:]
        super().__init__(whole.x[:, first:], names, normals)
        self._whole, self._first = whole, first

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return a partial derivative of some outputs."""
        return self._whole.partial(tuple(i + self._first for i in axes), columns)

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return the sum of second derivatives."""
        return self._whole.trace(tuple(i + self._first for i in axes), columns)


class ParametricCondition(Condition):
    """A condition of a problem, for all of its coefficients."""

    called: str

    def __init__(self, problem: ParametricProblem, number: int, condition: Condition) -> None:
        self._parametric, self._number, self._condition = problem, number, condition
        vars(self).update(on=condition.on, output=condition.output, together=condition.together)
        self.called = type(condition).__name__
        axis = getattr(condition, "axis", None)
        if axis is not None:
            self.axis = axis

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return the residual of the condition, with columns of coefficients."""
        problem = self._parametric.at(x)
        condition = conditions_in(problem)[self._number]
        return condition.residual(x[:, len(self._parametric.ranges) :], self._parametric.original(u))

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """Return about n points of the condition, each with separate coefficients."""
        edge, box = (
            self._condition.points(self._parametric.problem.domain, n, generator),
            _box(self._parametric.ranges),
        )
        groups = len(edge) // self.together
        times = max(1, math.ceil(n / max(1, len(edge))))
        if generator is None:
            theta = box.quasi(times * groups, dtype=torch.float64)
        else:
            theta = spread(box, times * groups, generator)
        theta = theta.repeat_interleave(self.together, dim=0)
        return Boundary(
            torch.cat([theta, edge.points.repeat(times, 1).to(theta)], dim=1),
            torch.cat([torch.zeros_like(theta), edge.normals.repeat(times, 1).to(theta)], dim=1),
            edge.sizes.repeat(times) / times,
            edge.parts * times,
        )

    def around(self, domain: Domain) -> int | None:
        """Return the periodic axis, counted from the first coefficient."""
        axis = self._condition.around(self._parametric.problem.domain)
        return None if axis is None else axis + len(self._parametric.ranges)


@dataclass(frozen=True, eq=False)
class ParametricDomain(Domain):
    """The product of a box of coefficients, whose axes come first, and a shape."""

    box: Box
    shape: Domain

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients and of the shape's axes."""
        return (*self.box.names, *self.shape.names)

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return (*self.box.lower, *self.shape.lower)

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return (*self.box.upper, *self.shape.upper)

    @property
    def space(self) -> tuple[int, ...]:
        """The indices of all axes except the time axis."""
        return (*range(self.box.d), *(i + self.box.d for i in self.shape.space))

    @property
    def walls(self) -> tuple[str, ...]:
        """The spatial parts of the shape's boundary."""
        return self.shape.walls

    @property
    def measure(self) -> float:
        """The measure of the box times the measure of the shape."""
        return self.box.measure * self.shape.measure

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie in the box and in the shape."""
        return self.box.contains(x[:, : self.box.d]) & self.shape.contains(x[:, self.box.d :])

    def uniform(
        self,
        n: int,
        generator: torch.Generator | int | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return n independent points, uniform in the shape, with coefficients `spread` over the box."""
        n, generator = count(n), as_generator(generator, seed)
        x = self.shape.uniform(n, generator, dtype=dtype)
        return torch.cat([spread(self.box, n, generator).to(x), x], dim=1)

    def pieces(self) -> list[Piece]:
        """Return the pieces of the shape, for all coefficients."""
        return [self._piece(piece) for piece in self.shape.made]

    def _piece(self, piece: Piece) -> Piece:
        p = self.box.d

        def place(unit: Tensor) -> Placed:
            points, normals = piece.place(unit[:, p:])
            theta = self.box.stretched(unit[:, :p])
            return torch.cat([theta, points], dim=1), torch.cat([torch.zeros_like(theta), normals], dim=1)

        def side(points: Tensor, normals: Tensor) -> Tensor:
            assert piece.side is not None
            return piece.side(points[:, p:], normals[:, p:])

        hidden = None if piece.side is None else side
        return Piece(piece.name, piece.dimension + p, piece.whole * self.box.measure, place, hidden)


def spread(box: Box, n: int, generator: torch.Generator | None) -> Tensor:
    """n random points of a box with the density of Chebyshev nodes, which is higher near the faces.

    A network that is trained at uniform points is least accurate in the corners, and the ends of a range
    matter as much as its middle.
    """
    unit = torch.rand(n, box.d, generator=generator, dtype=torch.float64)
    return box.stretched((1 - torch.cos(torch.pi * unit)) / 2)


def _box(ranges: Mapping[str, tuple[float, float]]) -> Box:
    lower, upper = np.array(list(ranges.values())).T
    return Box(lower, upper, names=tuple(ranges))
