"""Boundaries: pieces with outward normals, and points on them.

Each piece is the image of a unit cube under a map that preserves relative sizes, so it takes even, random and
quasi-random points of the cube to even, random and quasi-random points of the piece. Points that are hidden
by another shape are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

How: TypeAlias = Literal["even", "random", "quasi"]
Placed: TypeAlias = tuple[Tensor, Tensor]
"""Points (n, d) and their outward normals (n, d)."""

PROBES = 2**18
"""The number of points used to estimate a size without a formula, with an error far below one percent."""

NOTHING = "No point was found. The shape has an empty interior, or the part of its boundary has size 0."

ROUNDS = 24
"""The number of rounds, of up to 2^18 points each, before a shape counts as empty."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of a boundary, as the image of a unit cube.

    Parameters
    ----------
    name
        The name of the part to which the piece belongs.
    dimension
        The dimension of the piece: 0 for a point, 1 for a curve, 2 for a surface.
    whole
        The length or area of the whole piece.
    place
        A map from the unit cube, shape (n, dimension), to points and outward normals, each of shape (n, d).
    side
        A function of points and normals: 1 where the piece is visible, -1 where it is visible with its normal
        reversed, and 0 where it is hidden. None if the whole piece is visible.

    Examples
    --------
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
        """The visible share of the piece."""
        if self.side is None:
            return 1.0
        if self.dimension == 0:
            return float(len(self.at(torch.zeros(1, 0, dtype=torch.float64))[0]))
        return len(self.at(next(cubes(PROBES, self.dimension, "quasi", 0)))[0]) / PROBES

    @property
    def size(self) -> float:
        """The visible length or area; 1 for a point."""
        return self.whole * self.share

    def at(self, unit: Tensor) -> Placed:
        """Return the visible images of points of the unit cube.

        Parameters
        ----------
        unit
            Points of the unit cube, shape (n, dimension).

        Returns
        -------
        tuple[Tensor, Tensor]
            Points and outward normals, each of shape (k, d) with k <= n.
        """
        points, normals = self.place(unit)
        if self.side is None:
            return points, normals
        side = self.side(points, normals)
        seen = side != 0
        return points[seen], normals[seen] * side[seen, None]

    def hidden_by(self, side: Callable[[Tensor, Tensor], Tensor]) -> Piece:
        """Return the same piece, visible only where `side` allows it as well.

        Parameters
        ----------
        side
            A function of points and normals, with values 1, -1 and 0 as in the constructor.

        Returns
        -------
        Piece
            The piece with both restrictions.
        """
        before = self.side
        if before is None:
            return replace(self, side=side)

        def both(points: Tensor, normals: Tensor) -> Tensor:
            first = before(points, normals)
            return first * side(points, normals * first[:, None])

        return replace(self, side=both)

    def points(self, n: int, how: How, seed: int) -> Placed:
        """Return visible points of the piece.

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
        tuple[Tensor, Tensor]
            Points and outward normals, each of shape (n, d).
        """
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
        """Return the visible part of a curve as lines.

        Parameters
        ----------
        n
            The number of points on the whole piece.

        Returns
        -------
        list[np.ndarray]
            The lines, each of shape (k, d), cut where the piece is hidden.
        """
        points, normals = self.place(torch.linspace(0, 1, n, dtype=torch.float64)[:, None])
        at = points.numpy()
        if self.side is None:
            return [at]
        seen = self.side(points, normals).numpy() != 0
        cuts = np.flatnonzero(np.diff(seen)) + 1
        runs = zip(np.split(at, cuts), np.split(seen, cuts), strict=True)
        return [run for run, shown in runs if shown[0] and len(run) > 1]


def even(n: int, dimension: int) -> Tensor:
    """Approximately n points: the cell centers of a regular grid on the unit cube."""
    per_axis = max(1, round(n ** (1 / dimension)))
    axis = (torch.arange(per_axis, dtype=torch.float64) + 0.5) / per_axis
    return torch.cartesian_prod(*[axis] * dimension).reshape(-1, dimension)


def cubes(n: int, dimension: int, how: How, seed: int) -> Iterator[Tensor]:
    """Points of the unit cube, in rounds of at least n points."""
    draw = _sobol(dimension, seed) if how == "quasi" else _chance(dimension, seed)
    for number in range(ROUNDS):
        yield draw(n if number == 0 else max(n, 1024 << min(number, 8)))
    raise ValueError(NOTHING)


def _sobol(dimension: int, seed: int) -> Callable[[int], Tensor]:
    from scipy.stats.qmc import Sobol

    sequence = Sobol(dimension, rng=np.random.default_rng(seed))
    # A Sobol sequence is balanced only at powers of two.
    return lambda n: torch.from_numpy(sequence.random(1 << (n - 1).bit_length()))


def _chance(dimension: int, seed: int) -> Callable[[int], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda n: torch.rand(n, dimension, generator=generator, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Boundary:
    """Points on a boundary, with their outward normals, sizes and part names.

    Parameters
    ----------
    points
        The points, shape (n, d).
    normals
        The outward unit normals, shape (n, d).
    sizes
        The length or area that each point represents, shape (n,).
    parts
        The name of the part of each point.

    Examples
    --------
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
        """Return the same boundary on the device and in the dtype of a tensor.

        Parameters
        ----------
        like
            The tensor.

        Returns
        -------
        Boundary
            The converted boundary.
        """
        points, normals, sizes = (part.to(like) for part in (self.points, self.normals, self.sizes))
        return Boundary(points, normals, sizes, self.parts)

    def __getitem__(self, rows: slice | Tensor) -> Boundary:
        """Select points by a slice or by indices."""
        index = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
        parts = tuple(self.parts[i] for i in index)
        return Boundary(self.points[rows], self.normals[rows], self.sizes[rows], parts)


def edge(name: str, start: Sequence[float], end: Sequence[float]) -> Piece:
    """Return a straight piece of a two-dimensional boundary, with the inside on its left.

    Parameters
    ----------
    name
        The name of the part.
    start, end
        The end points, two coordinates each.

    Returns
    -------
    Piece
        The edge.

    Examples
    --------
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
