"""Sets: unions, intersections and differences of shapes, whose exact primitives stay what they are.

Where a piece of one shape is a boundary of the whole is asked on both of its sides: it is, with its normal,
where the whole lies behind it and not before it; with the normal turned around, where it is the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import of_any_points
from guardband.pinn.geometry.domain import Domain, Piece
from guardband.pinn.geometry.smooth import both, either, nearest, trimmed

Ends: TypeAlias = tuple[float, ...]
Choice: TypeAlias = Callable[[float, float], float]


@dataclass(frozen=True)
class Combination(Domain):
    """Two shapes of the same axes as one: `a | b`, `a & b`, `a - b`.

    >>> from guardband import pinn
    >>> inside = pinn.geometry.Disk((0, 0), 1.0, name="inside")
    >>> ring = pinn.geometry.Disk((0, 0), 2.0, name="outside") - inside
    >>> round(ring.measure / 3.14159, 2), ring.parts
    (3.0, ('outside', 'inside'))
    """

    first: Domain
    second: Domain
    how: Literal["or", "and", "without"]

    def __post_init__(self) -> None:
        if self.first.names != self.second.names:
            raise ValueError(
                f"Shapes should have the same axes to be put together, got {', '.join(self.first.names)} and "
                f"{', '.join(self.second.names)}."
            )
        if any(a >= b for a, b in zip(self.lower, self.upper, strict=True)):
            raise ValueError("These shapes have nothing in common, so nothing is left.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.first.names

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return self._ends(self.first.lower, self.second.lower, min, max)

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return self._ends(self.first.upper, self.second.upper, max, min)

    def _ends(self, first: Ends, second: Ends, wide: Choice, narrow: Choice) -> Ends:
        if self.how == "without":
            return first
        pick = wide if self.how == "or" else narrow
        return tuple(pick(a, b) for a, b in zip(first, second, strict=True))

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Whether points lie in the whole."""
        first, second = self.first.contains(x), self.second.contains(x)
        if self.how == "or":
            return first | second
        return first & (second if self.how == "and" else ~second)

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """About the distance to the nearer of the parts of both shapes."""
        found = []
        for shape, other in ((self.first, self.second), (self.second, self.first)):
            mine = [name for name in on if name in shape.parts]
            if not mine:
                continue
            hole = shape is self.second and self.how == "without"
            distance = shape.smooth_distance(x, mine, anywhere=anywhere or hole or self.how == "or")
            if anywhere or self.how == "or":  # what the other shape hides of a part is left out
                within = hole or self.how == "and"
                distance = trimmed(distance, other.depth(x) if within else -other.depth(x))
            found.append(distance)
        return nearest(*found)

    def depth(self, x: Tensor) -> Tensor:
        """Positive in the whole."""
        first, second = self.first.depth(x), self.second.depth(x)
        if self.how == "or":
            return either(first, second)
        return both(first, second if self.how == "and" else -second)

    def pieces(self) -> list[Piece]:
        """What is seen of both boundaries; where they are the same, the first one's."""
        step = min(self.first.step, self.second.step)

        def side(points: Tensor, normals: Tensor) -> Tensor:
            behind, before = self.contains(points - step * normals), self.contains(points + step * normals)
            return behind.double() - before.double()

        def alone(points: Tensor, normals: Tensor) -> Tensor:
            behind, before = (self.first.contains(points + s * step * normals) for s in (-1, 1))
            return side(points, normals) * (behind == before)

        first = [piece.hidden_by(side) for piece in self.first.made]
        return first + [piece.hidden_by(alone) for piece in self.second.made]
