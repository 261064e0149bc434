"""Conditions: what u must be on the faces of its domain, and at the start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from guardband.geometry import Box
from guardband.problems.faces import Face, faces_of, points_on, size_of
from guardband.problems.field import Field

Function: TypeAlias = Callable[[Tensor], Tensor]
"""A function from points (n, d) to values (n, m)."""


class Condition(ABC):
    """Something that should vanish on some faces of the domain.

    >>> import guardband as gb
    >>> class Robin(gb.problems.Condition):  # u + du/dn = 0 at the upper end of the first axis
    ...     def faces(self, domain):
    ...         return [gb.problems.Face(axis=0, side=1)]
    ...
    ...     def residual(self, x, u):
    ...         return u.value + u.first(0)
    >>> Robin().points(gb.problems.Box(0, 2), n=10)
    tensor([[2.]])
    """

    @abstractmethod
    def faces(self, domain: Box) -> list[Face]:
        """The faces on which the condition holds."""

    @abstractmethod
    def residual(self, x: Tensor, u: Field) -> Tensor:
        """What should vanish at points x (n, d) of those faces, (n, anything)."""

    def points(self, domain: Box, n: int, generator: torch.Generator | None = None) -> Tensor:
        """About n points on the faces: evenly placed, or at random if a generator is given.

        Each face gets its share by size. A face of a line is one point, whatever n.
        """
        faces = self.faces(domain)
        total = sum(size_of(face, domain) for face in faces)
        counts = [max(1, round(n * size_of(face, domain) / total)) for face in faces]
        return torch.cat(
            [points_on(face, domain, count, generator) for face, count in zip(faces, counts, strict=True)]
        )


def as_function(value: Function | float) -> Function:
    """A number as the function that is this number everywhere."""
    if callable(value):
        return value
    return lambda x: torch.full_like(x[:, :1], float(value))


def as_faces(on: object) -> tuple[Face, ...]:
    """One face or several, checked."""
    faces = (on,) if isinstance(on, Face) else on
    if not isinstance(faces, tuple | list) or not all(isinstance(face, Face) for face in faces):
        raise TypeError(f"`on` should be faces such as gb.problems.Face(axis=0, side=-1), got {on!r}.")
    return tuple(faces)


@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """u = value, a function or a number, on the faces named, or on all of them.

    >>> import guardband as gb
    >>> walls = gb.problems.Dirichlet(0.0)
    >>> walls.points(gb.problems.Box((0, 0), (1, 1)), n=40).shape
    torch.Size([40, 2])
    """

    value: Function | float
    on: Face | tuple[Face, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_function(self.value))
        object.__setattr__(self, "on", as_faces(self.on))

    def faces(self, domain: Box) -> list[Face]:
        """The faces named, or all."""
        return list(as_faces(self.on)) or faces_of(domain)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u - value."""
        return u.value - as_function(self.value)(x)


@dataclass(frozen=True, eq=False)
class Neumann(Condition):
    """du/dn = flux, a function or a number, on one face, n being its outward normal.

    >>> import guardband as gb
    >>> insulated = gb.problems.Neumann(0.0, on=gb.problems.Face(axis=0, side=1))
    >>> insulated.points(gb.problems.Box(0, 2), n=1)
    tensor([[2.]])
    """

    flux: Function | float
    on: Face

    def __post_init__(self) -> None:
        object.__setattr__(self, "flux", as_function(self.flux))
        if len(as_faces(self.on)) != 1 or not isinstance(self.on, Face):
            raise TypeError(f"Neumann() is about one face; write one condition for each, got {self.on!r}.")

    def faces(self, domain: Box) -> list[Face]:
        """The one face."""
        return [self.on]

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """du/dn - flux."""
        return self.on.side * u.first(self.on.axis) - as_function(self.flux)(x)


@dataclass(frozen=True, eq=False)
class Initial(Condition):
    """u = value, and du/dt = velocity if given, at the start of the time axis (the last, by default).

    Both are functions or numbers.

    >>> import torch
    >>> import guardband as gb
    >>> start = gb.problems.Initial(lambda x: torch.sin(torch.pi * x[:, :1]))
    >>> start.faces(gb.problems.Box((0, 0), (1, 5)))  # x in [0, 1], t in [0, 5]
    [Face(axis=1, side=-1)]
    """

    value: Function | float
    velocity: Function | float | None = None
    axis: int = -1

    def faces(self, domain: Box) -> list[Face]:
        """The lower end of the time axis."""
        return [Face(self.axis % domain.d, -1)]

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u - value beside du/dt - velocity."""
        off = u.value - as_function(self.value)(x)
        if self.velocity is None:
            return off
        return torch.cat([off, u.first(self.axis % x.shape[1]) - as_function(self.velocity)(x)], dim=1)
