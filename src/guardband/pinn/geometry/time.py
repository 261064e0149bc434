"""Time: alone, or `space * Time(a, b)`, whose boundary is that of space at all times, start and end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import as_generator, count, of_any_points
from guardband.pinn.geometry.domain import Domain, Piece, Placed


@dataclass(frozen=True)
class Time(Domain):
    """From a start to an end: alone, as for an ordinary differential equation, or multiplied with a shape.

    >>> from guardband import pinn
    >>> pinn.geometry.Time(0, 5).parts
    ('start', 'end')
    >>> rod = pinn.geometry.Segment(0, 1) * pinn.geometry.Time(0, 2)
    >>> rod.names, rod.parts, rod.walls
    (('x', 't'), ('left', 'right', 'start', 'end'), ('left', 'right'))
    """

    start: float
    end: float
    name: str = "t"

    def __post_init__(self) -> None:
        if not -math.inf < self.start < self.end < math.inf:
            raise ValueError(f"Time should have a start before its end, got {self.start} and {self.end}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the axis."""
        return (self.name,)

    @computed
    def lower(self) -> tuple[float, ...]:
        """The start."""
        return (float(self.start),)

    @computed
    def upper(self) -> tuple[float, ...]:
        """The end."""
        return (float(self.end),)

    @property
    def space(self) -> tuple[int, ...]:
        """No axis of space."""
        return ()

    @property
    def walls(self) -> tuple[str, ...]:
        """No boundary in space."""
        return ()

    @property
    def measure(self) -> float:
        """The length of time."""
        return self.end - self.start

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Whether points lie between start and end."""
        return ((self.start <= x) & (x <= self.end)).all(1)

    def pieces(self) -> list[Piece]:
        """The start and the end."""
        return [self._end("start", self.start, -1.0), self._end("end", self.end, 1.0)]

    def _end(self, name: str, t: float, sign: float) -> Piece:
        def place(unit: Tensor) -> Placed:
            return unit.new_full((len(unit), 1), t), unit.new_full((len(unit), 1), sign)

        return Piece(name, 0, 1.0, place)

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """The time from the start, to the end, or both multiplied; as shares of the whole."""
        since, until = x[:, -1:] - self.start, self.end - x[:, -1:]
        factors = [part for name, part in (("start", since), ("end", until)) if name in on]
        return torch.stack(factors).prod(0) / self.measure ** len(factors)


@dataclass(frozen=True)
class TimeSpan(Domain):
    """A shape at all times from a start to an end; time is the last axis. Made by `shape * Time(a, b)`.

    >>> from guardband import pinn
    >>> (pinn.Disk((0, 0), 1.0) * pinn.Time(0, 2)).names
    ('x', 'y', 't')
    """

    shape: Domain
    time: Time

    def __post_init__(self) -> None:
        _check_factors(self.shape, self.time)
        if self.time.name in self.shape.names:
            raise ValueError(
                f"There is an axis {self.time.name!r} already: Time(a, b, name=...) takes another."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, time being the last."""
        return (*self.shape.names, self.time.name)

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return (*self.shape.lower, float(self.time.start))

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return (*self.shape.upper, float(self.time.end))

    @property
    def space(self) -> tuple[int, ...]:
        """The axes of space."""
        return self.shape.space

    @property
    def walls(self) -> tuple[str, ...]:
        """The parts of the boundary in space, at all times."""
        return self.shape.walls

    @property
    def measure(self) -> float:
        """The measure of the shape times the length of time."""
        return self.shape.measure * (self.time.end - self.time.start)

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Whether points lie in the shape and in time."""
        t = x[:, -1]
        return self.shape.contains(x[:, :-1]) & (self.time.start <= t) & (t <= self.time.end)

    def uniform(
        self,
        n: int,
        generator: torch.Generator | int | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """n independent points of the shape, each at a time of its own."""
        n, generator = count(n), as_generator(generator, seed)
        x = self.shape.uniform(n, generator, dtype=dtype)
        t = torch.rand(len(x), 1, generator=generator, dtype=x.dtype)
        return torch.cat([x, self.time.start + t * self.time.measure], dim=1)

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """That of the shape, times the share of time since the start or to the end."""
        walls = [name for name in on if name in self.shape.parts]
        ends = [name for name in on if name not in walls]
        factors = [self.shape.smooth_distance(x[:, :-1], walls, anywhere=anywhere)] if walls else []
        return torch.stack([*factors, *([self.time.smooth_distance(x, ends)] if ends else [])]).prod(0)

    def in_plane(self, axes: Sequence[str]) -> Domain | None:
        """The shape itself over two axes, where time is none of them."""
        if self.d == 2:
            return self
        return None if self.time.name in axes else self.shape.in_plane(axes)

    def pieces(self) -> list[Piece]:
        """The pieces of the shape at all times, and the shape at the start and at the end."""
        length = self.time.end - self.time.start
        walls = [self._wall(piece, length) for piece in self.shape.made]
        return [*walls, self._end("start", self.time.start, -1.0), self._end("end", self.time.end, 1.0)]

    def _wall(self, piece: Piece, length: float) -> Piece:
        def place(unit: Tensor) -> Placed:
            points, normals = piece.place(unit[:, :-1])
            t = self.time.start + length * unit[:, -1:]
            return torch.cat([points, t], dim=1), torch.cat([normals, torch.zeros_like(t)], dim=1)

        def side(points: Tensor, normals: Tensor) -> Tensor:
            assert piece.side is not None
            return piece.side(points[:, :-1], normals[:, :-1])

        hidden = None if piece.side is None else side
        return Piece(piece.name, piece.dimension + 1, piece.whole * length, place, hidden)

    def _end(self, name: str, t: float, sign: float) -> Piece:
        shape = self.shape
        box = math.prod(b - a for a, b in zip(shape.lower, shape.upper, strict=True))

        def place(unit: Tensor) -> Placed:
            points = shape.stretched(unit)
            at = points.new_full((len(points), 1), t)
            normals = torch.zeros(len(points), shape.d + 1, dtype=points.dtype)
            normals[:, -1] = sign
            return torch.cat([points, at], dim=1), normals

        def side(points: Tensor, _: Tensor) -> Tensor:
            return shape.contains(points[:, :-1]).double()

        return Piece(name, shape.d, box, place, side)


def _check_factors(shape: Domain, time: object) -> None:
    """Refuse what is not a shape in space times time."""
    said = f"{type(shape).__name__} * {type(time).__name__}"
    if not isinstance(time, Domain):
        raise TypeError(
            f"A shape is multiplied with time alone, pinn.Segment(0, 1) * pinn.Time(0, 5), got {said}. A "
            "larger shape has other ends: pinn.Segment(0, 2)."
        )
    if len(shape.space) < shape.d:
        raise TypeError(
            f"The first factor should be a shape in space, pinn.Segment(0, 1) * pinn.Time(0, 5), got {said}: "
            f"{type(shape).__name__} has a time axis already."
        )
    if not isinstance(time, Time):
        raise TypeError(
            f"A shape is multiplied with time alone, pinn.Segment(0, 1) * pinn.Time(0, 5), got {said}. With "
            "more axes of space it is a pinn.Rectangle((0, 0), (1, 1)) or a pinn.Box."
        )
