"""Boxes of any dimension, including segments and rectangles, with a named face at both ends of each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from guardband.pinn.geometry.arguments import as_generator, count, of_any_points
from guardband.pinn.geometry.boundary import Piece, Placed
from guardband.pinn.geometry.domain import Domain, axis_names
from guardband.pinn.geometry.smooth import both, nearest, trimmed

FACES: dict[int, tuple[tuple[str, str], ...]] = {
    1: (("left", "right"),),
    2: (("left", "right"), ("bottom", "top")),
    3: (("left", "right"), ("front", "back"), ("bottom", "top")),
}
"""The names of the lower and the upper face of each axis."""


@dataclass(frozen=True, init=False)
class Box(Domain):
    """An axis-aligned box of any dimension.

    Parameters
    ----------
    lower, upper
        The lower and the upper corner, one number for each axis; plain numbers for an interval.
    names
        The names of the axes; x, y, z by default.
    name
        One name for all faces, for example if the box is a hole; by default each face has its own name.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.geometry.Box((-1, -1), (1, 1)).grid(3).shape
    torch.Size([9, 2])
    >>> pinn.geometry.Box((0, 0, 0), (1, 1, 1)).parts
    ('left', 'right', 'front', 'back', 'bottom', 'top')
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    named: tuple[str, ...] = field(default=(), repr=False)
    name: str | None = field(default=None, repr=False)

    def __init__(
        self,
        lower: float | Sequence[float],
        upper: float | Sequence[float],
        *,
        names: Sequence[str] = (),
        name: str | None = None,
    ) -> None:
        for end, given in (("lower", lower), ("upper", upper)):
            object.__setattr__(self, end, tuple(np.atleast_1d(np.asarray(given, dtype=float)).tolist()))
        object.__setattr__(self, "named", tuple(names))
        object.__setattr__(self, "name", name)
        if len(self.lower) != len(self.upper) or not all(
            -math.inf < a < b < math.inf for a, b in zip(self.lower, self.upper, strict=True)
        ):
            raise ValueError(
                f"`lower` should lie below `upper` on every axis, got {self.lower} and {self.upper}."
            )
        if self.named and (len(set(self.named)) != self.d or not all(isinstance(n, str) for n in self.named)):
            raise ValueError(f"`names` should be {self.d} distinct names, one per axis, got {self.named}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.named or axis_names(self.d)

    @property
    def measure(self) -> float:
        """The length, area or volume."""
        return math.prod(2 * half for half in self.reach)

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie in the box."""
        lower, upper = x.new_tensor(self.lower), x.new_tensor(self.upper)
        return ((lower <= x) & (x <= upper)).all(1)

    def uniform(
        self,
        n: int,
        generator: torch.Generator | int | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return n independent points, uniform in the box."""
        n, generator = count(n), as_generator(generator, seed)
        return self.stretched(torch.rand(n, self.d, generator=generator, dtype=dtype))

    @property
    def faces(self) -> tuple[tuple[str, str], ...]:
        """The names of the lower and the upper face of each axis."""
        if self.name is not None:
            return ((self.name, self.name),) * self.d
        return FACES.get(self.d) or tuple((f"{name}-", f"{name}+") for name in self.names)

    def pieces(self) -> list[Piece]:
        """Return the two faces of each axis."""
        return [self._face(axis, side, self.faces[axis][side]) for axis in range(self.d) for side in (0, 1)]

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return the product of the distances to the planes of the faces, or the distance to the faces."""
        ends = [(axis, side) for axis in range(self.d) for side in (0, 1) if self.faces[axis][side] in on]
        if not anywhere:
            factors = [self._within(x, axis, side) / (2 * self.reach[axis]) for axis, side in ends]
            return torch.stack(factors).prod(0)
        faces = []
        for axis, side in ends:
            others = [self._across(x, other) for other in range(self.d) if other != axis]
            plane = self._within(x, axis, side)
            faces.append(trimmed(plane, both(*others)) if others else plane.abs())
        return nearest(*faces)

    def depth(self, x: Tensor) -> Tensor:
        """Return a function that is positive inside."""
        return both(*(self._across(x, axis) for axis in range(self.d)))

    def _within(self, x: Tensor, axis: int, side: int) -> Tensor:
        """The signed distance inward from one end of an axis, (n, 1)."""
        at = x[:, axis : axis + 1]
        return at - self.lower[axis] if side == 0 else self.upper[axis] - at

    def _across(self, x: Tensor, axis: int) -> Tensor:
        """A function (n, 1), positive between the ends of an axis and about the distance near them."""
        return self._within(x, axis, 0) * self._within(x, axis, 1) / (2 * self.reach[axis])

    def _face(self, axis: int, side: int, name: str) -> Piece:
        others = [other for other in range(self.d) if other != axis]
        ends = torch.tensor(self.lower, dtype=torch.float64)
        wide = torch.tensor([2 * self.reach[other] for other in others], dtype=torch.float64)
        ends[axis] = (self.lower, self.upper)[side][axis]
        outward = torch.zeros(self.d, dtype=torch.float64)
        outward[axis] = 2.0 * side - 1

        def place(unit: Tensor) -> Placed:
            points = ends.expand(len(unit), self.d).clone()
            points[:, others] += unit * wide
            return points, outward.expand(len(unit), self.d)

        return Piece(name, self.d - 1, math.prod(2 * self.reach[other] for other in others), place)


class Segment(Box):
    """An interval, with the boundary parts `left` and `right`.

    Parameters
    ----------
    start, end
        The ends.
    names
        The name of the axis, as a sequence of one; x by default.
    name
        One name for both ends.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.geometry.Segment(0, 2).boundary(2).points.tolist()
    [[0.0], [2.0]]
    """

    def __init__(
        self, start: float, end: float, *, names: Sequence[str] = (), name: str | None = None
    ) -> None:
        super().__init__(start, end, names=names, name=name)


class Rectangle(Box):
    """A rectangle, with the boundary parts `left`, `right`, `bottom` and `top`.

    Parameters
    ----------
    lower, upper
        The lower left and the upper right corner.
    names
        The names of both axes; x and y by default.
    name
        One name for all sides, for example if the rectangle is a hole.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.geometry.Rectangle((0, 0), (2, 1), names=("x", "z")).names
    ('x', 'z')
    """

    def __init__(
        self,
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        names: Sequence[str] = (),
        name: str | None = None,
    ) -> None:
        super().__init__(lower, upper, names=names, name=name)
        if self.d != 2:
            raise ValueError(f"A Rectangle has two axes, got {self.d}; pinn.geometry.Box takes any number.")
