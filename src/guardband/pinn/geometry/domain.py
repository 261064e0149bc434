"""The interface of domains, set operations on them, and products with time.

A domain has an inside and a boundary of named parts with outward normals.
"""

from __future__ import annotations

import itertools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor

from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import as_generator, count, named_parts, of_any_points
from guardband.pinn.geometry.boundary import (
    NOTHING,
    PROBES,
    ROUNDS,
    Boundary,
    How,
    Piece,
    Placed,
    cubes,
    even,
)
from guardband.pinn.geometry.smooth import both, either, nearest, trimmed

STEP = 1e-7
"""The distance from a boundary at which its two sides are tested, as a fraction of the smallest extent."""

Ends: TypeAlias = tuple[float, ...]
Choice: TypeAlias = Callable[[float, float], float]


class Domain(ABC):
    """Base class of domains, which have axes with lower and upper ends, an inside, and a boundary.

    A subclass defines the ends `lower` and `upper` of the axes, `contains`, and the `pieces` of the boundary.
    Domains are combined by `|` (union), `&` (intersection) and `-` (difference), and multiplied by
    `pinn.Time`.

    Attributes
    ----------
    lower, upper
        The lower and the upper end of each axis.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> class Triangle(pinn.geometry.Domain):  # below the line from (1, 0) to (0, 1)
    ...     lower, upper = (0.0, 0.0), (1.0, 1.0)
    ...
    ...     def contains(self, x):
    ...         return (x >= 0).all(1) & (x.sum(1) <= 1)
    ...
    ...     def pieces(self):
    ...         ends = {
    ...             "bottom": ((0, 0), (1, 0)),
    ...             "slope": ((1, 0), (0, 1)),
    ...             "left": ((0, 1), (0, 0)),
    ...         }
    ...         return [pinn.geometry.edge(name, *two) for name, two in ends.items()]
    >>> round(Triangle().measure, 3), Triangle().parts
    (0.5, ('bottom', 'slope', 'left'))
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @abstractmethod
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie inside or on the boundary.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            Booleans, shape (n,).
        """

    @abstractmethod
    def pieces(self) -> list[Piece]:
        """Return the pieces of the boundary; pieces with the same name form one part.

        Returns
        -------
        list[Piece]
            The pieces.
        """

    def __getstate__(self) -> dict[str, object]:
        """Omit the cached pieces, which are rebuilt on demand."""
        return {name: value for name, value in vars(self).items() if name != "made"}

    @cached_property
    def made(self) -> list[Piece]:
        """The pieces of the boundary, cached."""
        return self.pieces()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return axis_names(self.d)

    @property
    def d(self) -> int:
        """The number of axes."""
        return len(self.lower)

    @property
    def space(self) -> tuple[int, ...]:
        """The indices of the spatial axes, which are all axes except time."""
        return tuple(range(self.d))

    @property
    def factors(self) -> tuple[Domain | None, Time | None]:
        """The spatial shape and the time interval of a product; None for a missing factor."""
        return self, None

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the boundary."""
        return tuple(dict.fromkeys(piece.name for piece in self.made if piece.size > 0))

    @property
    def walls(self) -> tuple[str, ...]:
        """The spatial parts of the boundary, at all times."""
        return self.parts

    @property
    def measure(self) -> float:
        """The length, area or volume."""
        box = math.prod(b - a for a, b in zip(self.lower, self.upper, strict=True))
        return box * float(
            self.contains(self.stretched(next(cubes(PROBES, self.d, "quasi", 0)))).double().mean()
        )

    @property
    def center(self) -> tuple[float, ...]:
        """The center of the bounding box."""
        return tuple((a + b) / 2 for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def reach(self) -> tuple[float, ...]:
        """Half the extent along each axis."""
        return tuple((b - a) / 2 for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def step(self) -> float:
        """The smallest length that the domain resolves."""
        largest = max(map(abs, (*self.lower, *self.upper)))
        return max(STEP * 2 * min(self.reach), 32 * sys.float_info.epsilon * largest)

    def interior(self, n: int, how: How = "random", *, seed: int = 0) -> Tensor:
        """Return points inside the domain, in float64.

        Parameters
        ----------
        n
            The number of points, which is approximate for even points.
        how
            "even", "random" or "quasi".
        seed
            The seed of random and quasi-random points.

        Returns
        -------
        Tensor
            The points, shape (n, d).
        """
        n = count(n)
        box = math.prod(b - a for a, b in zip(self.lower, self.upper, strict=True))
        if how == "even":
            x = self.stretched(even(round(n * box / self.measure), self.d))
            return x[self.contains(x)]
        found: list[Tensor] = []
        for unit in cubes(n, self.d, how, seed):
            x = self.stretched(unit)
            found.append(x[self.contains(x)])
            if sum(map(len, found)) >= n:
                break
        return torch.cat(found)[:n]

    def uniform(
        self,
        n: int,
        generator: torch.Generator | int | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Return independent points, uniform in the domain.

        Parameters
        ----------
        n
            The number of points.
        generator
            A generator, or its seed; torch's global generator if both this and `seed` are None.
        seed
            The seed of a new generator.
        dtype
            The dtype of the points; torch's default dtype if None.

        Returns
        -------
        Tensor
            The points, shape (n, d).
        """
        n, generator = count(n), as_generator(generator, seed)
        found: list[Tensor] = []
        for number in range(ROUNDS):
            more = n if number == 0 else max(n, 1024 << min(number, 8))
            x = self.stretched(torch.rand(more, self.d, generator=generator, dtype=dtype))
            found.append(x[self.contains(x)])
            if sum(map(len, found)) >= n:
                return torch.cat(found)[:n]
        raise ValueError(NOTHING)

    def quasi(self, n: int, *, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
        """Return quasi-random points from a scrambled Sobol sequence, which fill the domain evenly.

        Parameters
        ----------
        n
            The number of points.
        seed
            The seed of the scrambling.
        dtype
            The dtype of the points; torch's default dtype if None.

        Returns
        -------
        Tensor
            The points, shape (n, d).
        """
        return self.interior(n, "quasi", seed=seed).to(dtype or torch.get_default_dtype())

    def grid(self, counts: int | Sequence[int], *, dtype: torch.dtype | None = None) -> Tensor:
        """Return the points of a regular grid over the bounding box that lie inside the domain.

        Parameters
        ----------
        counts
            The number of grid points along each axis, or one number for all of them.
        dtype
            The dtype of the points; torch's default dtype if None.

        Returns
        -------
        Tensor
            The points, shape (n, d).
        """
        counts = [count(n) for n in (counts if isinstance(counts, Iterable) else [counts] * self.d)]
        axes = [
            torch.linspace(a, b, n, dtype=torch.float64)
            for a, b, n in zip(self.lower, self.upper, counts, strict=True)
        ]
        x = torch.cartesian_prod(*axes).reshape(-1, self.d)
        return x[self.contains(x)].to(dtype or torch.get_default_dtype())

    @overload
    def clearly_outside(self, x: Tensor) -> Tensor: ...

    @overload
    def clearly_outside(self, x: np.ndarray) -> np.ndarray: ...

    @of_any_points
    def clearly_outside(self, x: Any) -> Any:
        """Return which points lie outside by more than a thousandth of the extent.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor | np.ndarray
            Booleans, shape (n,), of the same kind as x.
        """
        outside = ~self.contains(x)
        for way in itertools.product((-1, 1, 0), repeat=self.d):
            if outside.any():
                step = 2e-3 * x.new_tensor(way) * x.new_tensor(self.reach)
                outside[outside.clone()] = ~self.contains(x[outside] + step)
        return outside

    def in_plane(self, axes: Sequence[str]) -> Domain | None:
        """Return the shape over two axes, for pictures.

        Parameters
        ----------
        axes
            The names of the axes.

        Returns
        -------
        Domain | None
            The shape, or None if its axes differ from these.
        """
        return self if self.d == 2 else None

    def outline(self, n: int) -> dict[str, list[np.ndarray]]:
        """Return the boundary of a two-dimensional shape as lines.

        Parameters
        ----------
        n
            The approximate number of points; each piece has at least 16.

        Returns
        -------
        dict[str, list[np.ndarray]]
            The lines of each part by name, each of shape (k, 2).
        """
        if self.d != 2:
            raise ValueError(f"An outline needs a shape with two axes, got {self.d}.")
        total = sum(piece.whole for piece in self.made)
        found: dict[str, list[np.ndarray]] = {}
        for piece in self.made:
            found.setdefault(piece.name, []).extend(piece.lines(max(16, round(n * piece.whole / total))))
        return found

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return a smooth function that is 0 on parts of the boundary and positive elsewhere inside.

        Hard constraints use it as their distance function. The default implementation raises an error.

        Parameters
        ----------
        x
            Points, shape (n, d).
        on
            The names of the parts.
        anywhere
            Whether the function must be positive outside the shape as well, as required for a hole.

        Returns
        -------
        Tensor
            The values, shape (n, 1).
        """
        raise TypeError(self._rough())

    def depth(self, x: Tensor) -> Tensor:
        """Return a smooth function that is positive inside, 0 on the boundary, and negative outside.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The values, shape (n, 1).
        """
        raise TypeError(self._rough())

    def _rough(self) -> str:
        return (
            f"{type(self).__name__} has no smooth distance to its boundary, so its conditions cannot be met "
            "exactly. Let the network learn them, without pinn.Constrained, or build the shape from boxes, "
            "disks, spheres and polygons."
        )

    def boundary(
        self, n: int, on: str | Sequence[str] | None = None, how: How = "random", *, seed: int = 0
    ) -> Boundary:
        """Return points of the boundary.

        Parameters
        ----------
        n
            The approximate number of points, allocated to the pieces in proportion to their sizes.
        on
            The names of the parts; the whole boundary by default.
        how
            "even", "random" or "quasi".
        seed
            The seed of random and quasi-random points.

        Returns
        -------
        Boundary
            The points with their normals, sizes and parts.
        """
        n, wanted = count(n), self.part_names(on)
        pieces = [piece for piece in self.made if piece.name in wanted and piece.size > 0]
        total = sum(piece.size for piece in pieces)
        points, normals, sizes = [], [], []
        parts: tuple[str, ...] = ()
        for number, piece in enumerate(pieces):
            share = max(1, round(n * piece.size / total))
            at, outward = piece.points(share, how, seed + number)
            points.append(at)
            normals.append(outward)
            sizes += [piece.size / max(1, len(at))] * len(at)
            parts += (piece.name,) * len(at)
        return Boundary(
            torch.cat(points), torch.cat(normals), torch.tensor(sizes, dtype=torch.float64), parts
        )

    def part_names(self, on: str | Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the names of parts of the boundary; refuse names that do not exist.

        Parameters
        ----------
        on
            The names; all parts by default.

        Returns
        -------
        tuple[str, ...]
            The names.
        """
        known = self.parts
        wanted = known if on is None else named_parts(on)
        for name in wanted:
            if name not in known:
                raise ValueError(f"Unknown part {name!r} of the boundary; its parts are {', '.join(known)}.")
        return wanted

    def size(self, on: str | Sequence[str] | None = None) -> float:
        """Return the length or area of parts of the boundary.

        Parameters
        ----------
        on
            The names of the parts; the whole boundary by default.

        Returns
        -------
        float
            The size.
        """
        wanted = self.part_names(on)
        return sum(piece.size for piece in self.made if piece.name in wanted)

    def stretched(self, unit: Tensor) -> Tensor:
        """Map points of the unit cube to the bounding box.

        Parameters
        ----------
        unit
            Points of the unit cube, shape (n, d).

        Returns
        -------
        Tensor
            Points of the bounding box, shape (n, d).
        """
        lower, upper = (torch.tensor(ends, dtype=unit.dtype) for ends in (self.lower, self.upper))
        return lower + unit * (upper - lower)

    def __or__(self, other: Domain) -> Combination:
        return Combination(self, other, "or")

    def __and__(self, other: Domain) -> Combination:
        return Combination(self, other, "and")

    def __sub__(self, other: Domain) -> Combination:
        return Combination(self, other, "without")

    def __mul__(self, time: Time) -> TimeSpan:
        return TimeSpan(self, time)


@dataclass(frozen=True)
class Combination(Domain):
    """The union, intersection or difference of two shapes: `a | b`, `a & b`, `a - b`.

    Parameters
    ----------
    first, second
        The shapes, over the same axes.
    how
        "or", "and" or "without".

    Notes
    -----
    A piece of either shape belongs to the boundary of the result wherever exactly one of its two sides lies
    inside the result. Its normal is reversed wherever it would point inward.

    Examples
    --------
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
                f"Shapes should have the same axes to be combined, got {', '.join(self.first.names)} and "
                f"{', '.join(self.second.names)}."
            )
        if any(a >= b for a, b in zip(self.lower, self.upper, strict=True)):
            raise ValueError("These shapes do not overlap, so their intersection is empty.")

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
        """Return which points lie in the combined shape."""
        first, second = self.first.contains(x), self.second.contains(x)
        if self.how == "or":
            return first | second
        return first & (second if self.how == "and" else ~second)

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return the approximate distance to the nearest of the parts."""
        found = []
        for shape, other in ((self.first, self.second), (self.second, self.first)):
            mine = [name for name in on if name in shape.parts]
            if not mine:
                continue
            hole = shape is self.second and self.how == "without"
            distance = shape.smooth_distance(x, mine, anywhere=anywhere or hole or self.how == "or")
            if anywhere or self.how == "or":  # omit the parts that are hidden by the other shape
                within = hole or self.how == "and"
                distance = trimmed(distance, other.depth(x) if within else -other.depth(x))
            found.append(distance)
        return nearest(*found)

    def depth(self, x: Tensor) -> Tensor:
        """Return a function that is positive in the combined shape."""
        first, second = self.first.depth(x), self.second.depth(x)
        if self.how == "or":
            return either(first, second)
        return both(first, second if self.how == "and" else -second)

    def pieces(self) -> list[Piece]:
        """Return the visible pieces of both boundaries, without duplicates where they coincide."""
        step = min(self.first.step, self.second.step)

        def side(points: Tensor, normals: Tensor) -> Tensor:
            behind, before = self.contains(points - step * normals), self.contains(points + step * normals)
            return behind.double() - before.double()

        def alone(points: Tensor, normals: Tensor) -> Tensor:
            behind, before = (self.first.contains(points + s * step * normals) for s in (-1, 1))
            return side(points, normals) * (behind == before)

        first = [piece.hidden_by(side) for piece in self.first.made]
        return first + [piece.hidden_by(alone) for piece in self.second.made]


@dataclass(frozen=True)
class Time(Domain):
    """A time interval, used alone (for ordinary differential equations) or as a factor of a shape.

    Parameters
    ----------
    start, end
        The ends of the interval, which form the boundary parts `start` and `end`.
    name
        The name of the axis.

    Examples
    --------
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
            raise ValueError(f"The start of Time should lie before its end, got {self.start} and {self.end}.")

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
        """Empty, since the interval has no spatial axis."""
        return ()

    @property
    def factors(self) -> tuple[None, Time]:
        """None for the shape, and this interval."""
        return None, self

    @property
    def walls(self) -> tuple[str, ...]:
        """Empty, since the interval has no spatial boundary."""
        return ()

    @property
    def measure(self) -> float:
        """The length of the interval."""
        return self.end - self.start

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie between start and end."""
        return ((self.start <= x) & (x <= self.end)).all(1)

    def pieces(self) -> list[Piece]:
        """Return the start and the end."""
        return [self._end("start", self.start, -1.0), self._end("end", self.end, 1.0)]

    def _end(self, name: str, t: float, sign: float) -> Piece:
        def place(unit: Tensor) -> Placed:
            return unit.new_full((len(unit), 1), t), unit.new_full((len(unit), 1), sign)

        return Piece(name, 0, 1.0, place)

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return the relative time since the start, the relative time until the end, or their product."""
        since, until = x[:, -1:] - self.start, self.end - x[:, -1:]
        factors = [part for name, part in (("start", since), ("end", until)) if name in on]
        return torch.stack(factors).prod(0) / self.measure ** len(factors)


@dataclass(frozen=True)
class TimeSpan(Domain):
    """A shape times a time interval, `shape * pinn.Time(a, b)`, with time as the last axis.

    Its boundary consists of the parts of the shape's boundary at all times, and of `start` and `end`.

    Parameters
    ----------
    shape
        The shape in space.
    time
        The time interval.

    Examples
    --------
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
                f"The shape already has an axis {self.time.name!r}. Pass a different name, Time(a, b, "
                "name=...)."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, with time last."""
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
    def factors(self) -> tuple[Domain, Time]:
        """The shape and the time."""
        return self.shape, self.time

    @property
    def space(self) -> tuple[int, ...]:
        """The indices of the spatial axes."""
        return self.shape.space

    @property
    def walls(self) -> tuple[str, ...]:
        """The spatial parts of the boundary, at all times."""
        return self.shape.walls

    @property
    def measure(self) -> float:
        """The measure of the shape times the length of the time interval."""
        return self.shape.measure * (self.time.end - self.time.start)

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie in the shape and in the time interval."""
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
        """Return n independent points of the shape, each at an independent time."""
        n, generator = count(n), as_generator(generator, seed)
        x = self.shape.uniform(n, generator, dtype=dtype)
        t = torch.rand(len(x), 1, generator=generator, dtype=x.dtype)
        return torch.cat([x, self.time.start + t * self.time.measure], dim=1)

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return the distance of the shape, multiplied by the distances to start and end."""
        walls = [name for name in on if name in self.shape.parts]
        ends = [name for name in on if name not in walls]
        factors = [self.shape.smooth_distance(x[:, :-1], walls, anywhere=anywhere)] if walls else []
        return torch.stack([*factors, *([self.time.smooth_distance(x, ends)] if ends else [])]).prod(0)

    def in_plane(self, axes: Sequence[str]) -> Domain | None:
        """Return the shape over two axes; None if one of them is time."""
        if self.d == 2:
            return self
        return None if self.time.name in axes else self.shape.in_plane(axes)

    def pieces(self) -> list[Piece]:
        """Return the pieces of the shape's boundary at all times, and the shape at start and end."""
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


def axis_names(d: int) -> tuple[str, ...]:
    """The default names of axes: x, y, z up to three dimensions, then x1, x2, ..."""
    return ("x", "y", "z")[:d] if d <= 3 else tuple(f"x{i + 1}" for i in range(d))


def _check_factors(shape: Domain, time: object) -> None:
    """Refuse products other than a spatial shape times a time interval."""
    product = f"{type(shape).__name__} * {type(time).__name__}"
    factors = getattr(time, "factors", None)
    if factors is None:
        raise TypeError(
            f"A shape can only be multiplied by time, pinn.Segment(0, 1) * pinn.Time(0, 5), got {product}. "
            "For a larger shape, change its ends: pinn.Segment(0, 2)."
        )
    if len(shape.space) < shape.d:
        raise TypeError(
            f"The first factor should be a spatial shape, pinn.Segment(0, 1) * pinn.Time(0, 5), got "
            f"{product}: {type(shape).__name__} already has a time axis."
        )
    if factors[0] is not None:
        raise TypeError(
            f"A shape can only be multiplied by time, pinn.Segment(0, 1) * pinn.Time(0, 5), got {product}. "
            "For more spatial axes, use a pinn.Rectangle((0, 0), (1, 1)) or a pinn.Box."
        )
