"""Domains: where a problem lives. What is inside, and a boundary of named parts with outward normals.

The boundary is a list of pieces. Each piece is the image of a unit cube under a map that keeps shares of
size, so even, random and quasi-random points on it are the images of such points of the cube; what another
shape hides of it is left out.
"""

from __future__ import annotations

import itertools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor

from guardband.pinn.geometry.arguments import as_generator, count, named_parts, of_any_points

if TYPE_CHECKING:
    from guardband.pinn.geometry.sets import Combination
    from guardband.pinn.geometry.time import Time, TimeSpan

How: TypeAlias = Literal["even", "random", "quasi"]
Placed: TypeAlias = tuple[Tensor, Tensor]
"""Points (n, d) and their outward normals (n, d)."""

PROBES = 2**18
"""Points by which sizes are measured that have no formula; their error is far below one percent."""

STEP = 1e-7
"""How far on either side of its boundary a shape is asked, as a share of its smallest extent."""

NOTHING = "No point was found there: the shape has no inside, or the part of its boundary no size."

ROUNDS = 24
"""Rounds of up to 2^18 points that are tried before a shape is said to be empty."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a boundary: `place` maps the unit cube (n, dimension) to points and outward normals.

    `side`, of points and normals, says 1 where the piece is seen, -1 where it is seen from its other side,
    so that the normal turns around, and 0 where it is hidden.

    >>> import math
    >>> import torch
    >>> from guardband import pinn
    >>> def half_circle(unit):
    ...     angle = math.pi * unit[:, 0]
    ...     normals = torch.stack([angle.cos(), angle.sin()], dim=1)
    ...     return 2 * normals, normals
    >>> arch = pinn.geometry.Piece("arch", 1, 2 * math.pi, half_circle)
    >>> len(arch.points(9, "quasi", seed=0)[0])
    9
    """

    name: str
    dimension: int
    whole: float
    place: Callable[[Tensor], Placed]
    side: Callable[[Tensor, Tensor], Tensor] | None = None

    @cached_property
    def share(self) -> float:
        """How much of it is seen, of 1."""
        if self.side is None:
            return 1.0
        if self.dimension == 0:
            return float(len(self.at(torch.zeros(1, 0, dtype=torch.float64))[0]))
        return len(self.at(next(cubes(PROBES, self.dimension, "quasi", 0)))[0]) / PROBES

    @property
    def size(self) -> float:
        """The length or area that is seen; 1 for a point."""
        return self.whole * self.share

    def at(self, unit: Tensor) -> Placed:
        """What is seen of the images of points of the unit cube."""
        points, normals = self.place(unit)
        if self.side is None:
            return points, normals
        side = self.side(points, normals)
        seen = side != 0
        return points[seen], normals[seen] * side[seen, None]

    def hidden_by(self, side: Callable[[Tensor, Tensor], Tensor]) -> Piece:
        """The same piece, seen only where both it was and `side` says so."""
        before = self.side
        if before is None:
            return replace(self, side=side)

        def both(points: Tensor, normals: Tensor) -> Tensor:
            first = before(points, normals)
            return first * side(points, normals * first[:, None])

        return replace(self, side=both)

    def points(self, n: int, how: How, seed: int) -> Placed:
        """n points that are seen, or about n where they are to be even."""
        if self.dimension == 0:
            return self.at(torch.zeros(1, 0, dtype=torch.float64))
        if how == "even":
            return self.at(even(round(n / max(self.share, 1e-9)), self.dimension))
        found: list[Placed] = []
        total = 0
        for unit in cubes(n, self.dimension, how, seed):
            found.append(self.at(unit))
            total += len(found[-1][0])
            if total >= n:
                break
        points, normals = found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
        return points[:n], normals[:n]

    def lines(self, n: int) -> list[np.ndarray]:
        """What is seen of a piece with one dimension, as lines of n points in all, cut where it is hidden."""
        points, normals = self.place(torch.linspace(0, 1, n, dtype=torch.float64)[:, None])
        at = points.numpy()
        if self.side is None:
            return [at]
        seen = self.side(points, normals).numpy() != 0
        cuts = np.flatnonzero(np.diff(seen)) + 1
        runs = zip(np.split(at, cuts), np.split(seen, cuts), strict=True)
        return [run for run, shown in runs if shown[0] and len(run) > 1]


def even(n: int, dimension: int) -> Tensor:
    """About n points in the middles of the cells of a grid of the unit cube."""
    per_axis = max(1, round(n ** (1 / dimension)))
    axis = (torch.arange(per_axis, dtype=torch.float64) + 0.5) / per_axis
    return torch.cartesian_prod(*[axis] * dimension).reshape(-1, dimension)


def cubes(n: int, dimension: int, how: How, seed: int) -> Iterator[Tensor]:
    """Points of the unit cube, round by round, each of about n or more."""
    draw = _sobol(dimension, seed) if how == "quasi" else _chance(dimension, seed)
    for number in range(ROUNDS):
        yield draw(n if number == 0 else max(n, 1024 << min(number, 8)))
    raise ValueError(NOTHING)


def _sobol(dimension: int, seed: int) -> Callable[[int], Tensor]:
    from scipy.stats.qmc import Sobol

    sequence = Sobol(dimension, rng=np.random.default_rng(seed))
    # In powers of two, by which the sequence is even.
    return lambda n: torch.from_numpy(sequence.random(1 << (n - 1).bit_length()))


def _chance(dimension: int, seed: int) -> Callable[[int], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda n: torch.rand(n, dimension, generator=generator, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Boundary:
    """Points (n, d) of a boundary, outward normals (n, d), the size that each stands for, and its part.

    >>> from guardband import pinn
    >>> edge = pinn.Segment(0, 2).boundary(2)
    >>> edge.points.tolist(), edge.normals.tolist(), edge.parts
    ([[0.0], [2.0]], [[-1.0], [1.0]], ('left', 'right'))
    """

    points: Tensor
    normals: Tensor
    sizes: Tensor
    parts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.points)

    def to(self, like: Tensor) -> Boundary:
        """The same on the device and in the dtype of another tensor."""
        points, normals, sizes = (part.to(like) for part in (self.points, self.normals, self.sizes))
        return Boundary(points, normals, sizes, self.parts)

    def __getitem__(self, rows: slice | Tensor) -> Boundary:
        """Some of the points: a slice, or their numbers."""
        index = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
        parts = tuple(self.parts[i] for i in index)
        return Boundary(self.points[rows], self.normals[rows], self.sizes[rows], parts)


class Domain(ABC):
    """Where a problem lives. A shape of your own says its ends, what it contains, and its boundary.

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
        """Whether points (n, d) lie inside or on the boundary, (n,) booleans."""

    @abstractmethod
    def pieces(self) -> list[Piece]:
        """The boundary, piece by piece; pieces of one name are one part."""

    def __getstate__(self) -> dict[str, Any]:
        """What makes the shape the one that it is; its pieces are made again."""
        return {name: value for name, value in vars(self).items() if name != "made"}

    @cached_property
    def made(self) -> list[Piece]:
        """The pieces of the boundary, made once."""
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
        """The axes of space: all but time."""
        return tuple(range(self.d))

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the boundary."""
        return tuple(dict.fromkeys(piece.name for piece in self.made if piece.size > 0))

    @property
    def walls(self) -> tuple[str, ...]:
        """The parts of the boundary in space, at all times."""
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
        """The middle of each axis."""
        return tuple((a + b) / 2 for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def reach(self) -> tuple[float, ...]:
        """Half the extent along each axis."""
        return tuple((b - a) / 2 for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def step(self) -> float:
        """The smallest distance that is told apart here."""
        largest = max(map(abs, (*self.lower, *self.upper)))
        return max(STEP * 2 * min(self.reach), 32 * sys.float_info.epsilon * largest)

    def interior(self, n: int, how: How = "random", *, seed: int = 0) -> Tensor:
        """n points inside, (n, d) in float64; about n where they are to be even."""
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
        """n independent points inside, uniform, (n, d).

        Randomness comes from a generator or from a seed.
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
        """n points that fill the inside more evenly than chance: a scrambled Sobol sequence."""
        return self.interior(n, "quasi", seed=seed).to(dtype or torch.get_default_dtype())

    def grid(self, counts: int | Sequence[int], *, dtype: torch.dtype | None = None) -> Tensor:
        """What lies inside of an even grid between the ends of the axes, with so many points per axis."""
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
        """Which points (n, d) lie outside, as do their neighbors a thousandth of the extent away."""
        outside = ~self.contains(x)
        for way in itertools.product((-1, 1, 0), repeat=self.d):
            if outside.any():
                step = 2e-3 * x.new_tensor(way) * x.new_tensor(self.reach)
                outside[outside.clone()] = ~self.contains(x[outside] + step)
        return outside

    def in_plane(self, axes: Sequence[str]) -> Domain | None:
        """The shape over two axes, for pictures; None if it has others."""
        return self if self.d == 2 else None

    def outline(self, n: int) -> dict[str, list[np.ndarray]]:
        """The boundary of a shape over two axes in about n points, at least 16 on each piece.

        Each part, by its name, is a list of lines (k, 2).
        """
        if self.d != 2:
            raise ValueError(f"A shape over two axes has an outline, and this one has {self.d}.")
        total = sum(piece.whole for piece in self.made)
        found: dict[str, list[np.ndarray]] = {}
        for piece in self.made:
            found.setdefault(piece.name, []).extend(piece.lines(max(16, round(n * piece.whole / total))))
        return found

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """A smooth function (n, 1) that is 0 on parts of the boundary and positive elsewhere inside.

        It makes conditions hard. With `anywhere` it vanishes nowhere else outside of the shape either, so
        that the shape can be a hole.
        """
        raise TypeError(self._rough())

    def depth(self, x: Tensor) -> Tensor:
        """A smooth function (n, 1): positive inside, 0 on the whole boundary, negative outside."""
        raise TypeError(self._rough())

    def _rough(self) -> str:
        return (
            f"{type(self).__name__} has no smooth distance to its boundary, so its conditions cannot be met "
            "exactly. Let the network learn them, without pinn.Constrained, or make the shape of boxes, "
            "disks, spheres and polygons."
        )

    def boundary(
        self, n: int, on: str | Sequence[str] | None = None, how: How = "random", *, seed: int = 0
    ) -> Boundary:
        """About n points on the parts named, or on the whole boundary: each piece has its share by size."""
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
        """Parts of the boundary that are there, or all."""
        known = self.parts
        wanted = known if on is None else named_parts(on)
        for name in wanted:
            if name not in known:
                raise ValueError(
                    f"There is no part {name!r} of this boundary; its parts are {', '.join(known)}."
                )
        return wanted

    def size(self, on: str | Sequence[str] | None = None) -> float:
        """The length or area of parts of the boundary, or of all of it."""
        wanted = self.part_names(on)
        return sum(piece.size for piece in self.made if piece.name in wanted)

    def stretched(self, unit: Tensor) -> Tensor:
        """The unit cube stretched between the ends of the axes."""
        lower, upper = (torch.tensor(ends, dtype=unit.dtype) for ends in (self.lower, self.upper))
        return lower + unit * (upper - lower)

    def __or__(self, other: Domain) -> Combination:
        from guardband.pinn.geometry.sets import Combination

        return Combination(self, other, "or")

    def __and__(self, other: Domain) -> Combination:
        from guardband.pinn.geometry.sets import Combination

        return Combination(self, other, "and")

    def __sub__(self, other: Domain) -> Combination:
        from guardband.pinn.geometry.sets import Combination

        return Combination(self, other, "without")

    def __mul__(self, time: Time) -> TimeSpan:
        from guardband.pinn.geometry.time import TimeSpan

        return TimeSpan(self, time)


def axis_names(d: int) -> tuple[str, ...]:
    """x, y, z; beyond three, x1, x2, ..."""
    return ("x", "y", "z")[:d] if d <= 3 else tuple(f"x{i + 1}" for i in range(d))


def edge(name: str, start: Sequence[float], end: Sequence[float]) -> Piece:
    """A straight piece of a boundary in two dimensions; the inside is on its left.

    >>> import torch
    >>> from guardband import pinn
    >>> points, normals = pinn.geometry.edge("bottom", (0, 0), (2, 0)).at(
    ...     torch.tensor([[0.5]]).double()
    ... )
    >>> points.tolist(), normals.tolist()
    ([[1.0, 0.0]], [[0.0, -1.0]])
    """
    first, last = (torch.tensor([float(c) for c in point], dtype=torch.float64) for point in (start, end))
    along = last - first
    length = float(along.norm())
    normal = torch.stack([along[1], -along[0]]) / length

    def place(unit: Tensor) -> Placed:
        return first + unit * along, normal.expand(len(unit), 2) + 0.0

    return Piece(name, 1, length, place)
