"""Disks and spheres, whose boundary points are exact up to rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import of_any_points
from guardband.pinn.geometry.boundary import Piece, Placed
from guardband.pinn.geometry.domain import Domain


@dataclass(frozen=True)
class _Ball(Domain):
    """The common base of disks and spheres."""

    center_at: tuple[float, ...]
    radius: float
    name: str = "rim"
    dimension: ClassVar[int]

    def __init__(self, center: Sequence[float], radius: float, *, name: str = "rim") -> None:
        object.__setattr__(self, "center_at", tuple(float(c) for c in center))
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "name", name)
        if len(self.center_at) != self.dimension or not 0 < self.radius < math.inf:
            raise ValueError(
                f"{type(self).__name__}(center, radius) should have {self.dimension} coordinates and a "
                f"positive radius, got {self.center_at} and {self.radius}."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.center_at}, {self.radius})"

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return tuple(c - self.radius for c in self.center_at)

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return tuple(c + self.radius for c in self.center_at)

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie within the radius."""
        return (x - x.new_tensor(self.center_at)).square().sum(1) <= self.radius**2

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return the distance to the rim; inside, a paraboloid, which is smooth at the center."""
        if not anywhere:
            return self.depth(x)
        return ((x - x.new_tensor(self.center_at)).norm(dim=1, keepdim=True) - self.radius).abs()

    def depth(self, x: Tensor) -> Tensor:
        """Return (R^2 - r^2) / (2 R)."""
        square = (x - x.new_tensor(self.center_at)).square().sum(1, keepdim=True)
        return (self.radius**2 - square) / (2 * self.radius)

    def _around(self, normals: Tensor) -> Placed:
        return normals.new_tensor(self.center_at) + self.radius * normals, normals


class Disk(_Ball):
    """A disk, whose boundary has one part.

    Parameters
    ----------
    center
        The center, two coordinates.
    radius
        The radius.
    name
        The name of the boundary.

    Examples
    --------
    >>> from guardband import pinn
    >>> hole = pinn.geometry.Disk((0.5, 0.5), 0.2, name="hole")
    >>> plate = pinn.geometry.Rectangle((0, 0), (2, 1)) - hole
    >>> plate.parts
    ('left', 'right', 'bottom', 'top', 'hole')
    """

    dimension = 2

    @property
    def measure(self) -> float:
        """The area."""
        return math.pi * self.radius**2

    def pieces(self) -> list[Piece]:
        """Return the rim."""

        def place(unit: Tensor) -> Placed:
            angle = 2 * math.pi * unit[:, 0]
            return self._around(torch.stack([angle.cos(), angle.sin()], dim=1))

        return [Piece(self.name, 1, 2 * math.pi * self.radius, place)]


class Sphere(_Ball):
    """A ball in three dimensions, whose boundary has one part.

    Parameters
    ----------
    center
        The center, three coordinates.
    radius
        The radius.
    name
        The name of the boundary.

    Examples
    --------
    >>> from guardband import pinn
    >>> round(pinn.geometry.Sphere((0, 0, 0), 1.0).measure, 4)
    4.1888
    """

    dimension = 3

    @property
    def measure(self) -> float:
        """The volume."""
        return 4 / 3 * math.pi * self.radius**3

    def pieces(self) -> list[Piece]:
        """Return the surface, on which slices of equal height have equal area."""

        def place(unit: Tensor) -> Placed:
            height, angle = 2 * unit[:, 0] - 1, 2 * math.pi * unit[:, 1]
            wide = (1 - height.square()).clamp(min=0).sqrt()
            normals = torch.stack([wide * angle.cos(), wide * angle.sin(), height], dim=1)
            return self._around(normals / normals.norm(dim=1, keepdim=True))

        return [Piece(self.name, 2, 4 * math.pi * self.radius**2, place)]
