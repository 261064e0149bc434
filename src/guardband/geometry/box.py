"""Boxes: segments, rectangles and boxes of any dimension, with a named face at either end of each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from guardband.geometry.domain import Domain, Piece, Placed, axis_names

FACES: dict[int, tuple[tuple[str, str], ...]] = {
    1: (("left", "right"),),
    2: (("left", "right"), ("bottom", "top")),
    3: (("left", "right"), ("front", "back"), ("bottom", "top")),
}
"""What the lower and the upper end of each axis are called."""


@dataclass(frozen=True, init=False)
class Box(Domain):
    """All points between `lower` and `upper`, one number per axis; a number alone is an interval's end.

    `names` are those of the axes; with a `name` all faces are one part of that name, as of a hole.

    >>> import guardband as gb
    >>> gb.geometry.Box((-1, -1), (1, 1)).grid(3).shape
    torch.Size([9, 2])
    >>> gb.geometry.Box((0, 0, 0), (1, 1, 1)).parts
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
            raise ValueError(f"`names` should be {self.d} different words, one per axis, got {self.named}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.named or axis_names(self.d)

    @property
    def measure(self) -> float:
        """The length, area or volume."""
        return math.prod(2 * half for half in self.reach)

    def contains(self, x: Tensor) -> Tensor:
        """Whether points lie between the ends of all axes."""
        lower, upper = x.new_tensor(self.lower), x.new_tensor(self.upper)
        return ((lower <= x) & (x <= upper)).all(1)

    def grid(self, counts: int | Sequence[int], *, dtype: torch.dtype | None = None) -> Tensor:
        """An even grid, ends included, with so many points per axis; the last axis runs fastest."""
        counts = [counts] * self.d if isinstance(counts, int) else list(counts)
        axes = [
            torch.linspace(a, b, n, dtype=torch.float64)
            for a, b, n in zip(self.lower, self.upper, counts, strict=True)
        ]
        return torch.cartesian_prod(*axes).reshape(-1, self.d).to(dtype or torch.get_default_dtype())

    def uniform(self, n: int, generator: torch.Generator, *, dtype: torch.dtype | None = None) -> Tensor:
        """n independent points, uniform in the box."""
        return self.stretched(torch.rand(n, self.d, generator=generator, dtype=dtype))

    def quasi(self, n: int, *, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
        """n points that fill the box more evenly than chance: a scrambled Sobol sequence."""
        from scipy.stats.qmc import Sobol

        sequence = Sobol(self.d, rng=np.random.default_rng(seed))
        points = sequence.random_base2(math.ceil(math.log2(max(n, 1))))[:n]
        return self.stretched(torch.from_numpy(points)).to(dtype or torch.get_default_dtype())

    def pieces(self) -> list[Piece]:
        """The two faces of each axis."""
        words = FACES.get(self.d) or tuple((f"{name}-", f"{name}+") for name in self.names)
        if self.name is not None:
            words = ((self.name, self.name),) * self.d
        return [self._face(axis, side, words[axis][side]) for axis in range(self.d) for side in (0, 1)]

    def _face(self, axis: int, side: int, name: str) -> Piece:
        others = [other for other in range(self.d) if other != axis]

        def place(unit: Tensor) -> Placed:
            whole = torch.zeros(len(unit), self.d, dtype=unit.dtype)
            whole[:, others] = unit
            points = self.stretched(whole)
            points[:, axis] = (self.lower, self.upper)[side][axis]
            normals = torch.zeros_like(points)
            normals[:, axis] = 2.0 * side - 1
            return points, normals

        return Piece(name, self.d - 1, math.prod(2 * self.reach[other] for other in others), place)


class Segment(Box):
    """From one number to another, the ends being `left` and `right`.

    >>> import guardband as gb
    >>> gb.geometry.Segment(0, 2).boundary(2).points.tolist()
    [[0.0], [2.0]]
    """

    def __init__(
        self, start: float, end: float, *, names: Sequence[str] = (), name: str | None = None
    ) -> None:
        super().__init__(start, end, names=names, name=name)


class Rectangle(Box):
    """Between two corners of the plane, with the parts `left`, `right`, `bottom` and `top`.

    >>> import guardband as gb
    >>> gb.geometry.Rectangle((0, 0), (2, 1), names=("x", "z")).names
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
            raise ValueError(f"A Rectangle has two axes, got {self.d}; gb.geometry.Box takes any number.")
