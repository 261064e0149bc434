"""Polygons with holes and named edges, based on shapely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from guardband.base import extras
from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import of_any_points
from guardband.pinn.geometry.boundary import Piece, edge
from guardband.pinn.geometry.domain import Domain
from guardband.pinn.geometry.smooth import nearest, trimmed

Corners: TypeAlias = Sequence[Sequence[float]]


@dataclass(frozen=True, init=False)
class Polygon(Domain):
    """A polygon, possibly with holes.

    Parameters
    ----------
    corners
        The corners in order, shape (k, 2).
    edges
        The name of each edge, starting at the first corner; all edges are named `outside` by default.
    holes
        The corners of each hole, by the name of its boundary part.
    names
        The names of the axes.

    Examples
    --------
    >>> from guardband import pinn
    >>> corners = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    >>> notch = [(0.2, 0.2), (0.4, 0.2), (0.3, 0.4)]
    >>> shape = pinn.geometry.Polygon(corners, holes={"notch": notch})
    >>> round(shape.measure, 2), shape.parts
    (2.98, ('outside', 'notch'))
    """

    corners: tuple[tuple[float, float], ...]
    edges: tuple[str, ...]
    holes: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = field(default=())

    def __init__(
        self,
        corners: Corners,
        *,
        edges: Sequence[str] = (),
        holes: Mapping[str, Corners] | None = None,
        names: Sequence[str] = ("x", "y"),
    ) -> None:
        put = object.__setattr__
        put(self, "corners", _pairs(corners, "corners"))
        put(self, "edges", tuple(edges) or ("outside",) * len(self.corners))
        put(self, "holes", tuple((name, _pairs(hole, name)) for name, hole in (holes or {}).items()))
        put(self, "_names", tuple(names))
        if len(self.edges) != len(self.corners):
            raise ValueError(f"`edges` should name {len(self.corners)} edges, got {len(self.edges)}.")
        if not self._shape.is_valid or self._shape.area == 0:
            why = extras.load("shapely", "geometry").is_valid_reason(self._shape)
            raise ValueError(
                f"These corners do not form a polygon: {why}. Edges should not cross, and holes should lie "
                "inside."
            )

    @cached_property
    def _shape(self) -> Any:
        shapely = extras.load("shapely", "geometry")
        made = shapely.Polygon(self.corners, [hole for _, hole in self.holes])
        shapely.prepare(made)
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.__dict__["_names"]

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return tuple(self._shape.bounds[:2])

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return tuple(self._shape.bounds[2:])

    @property
    def measure(self) -> float:
        """The area."""
        return float(self._shape.area)

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie in the polygon or on its edges."""
        shapely = extras.load("shapely", "geometry")
        at = x.detach().cpu().double().numpy()
        return torch.from_numpy(shapely.intersects_xy(self._shape, at[:, 0], at[:, 1])).to(x.device)

    def pieces(self) -> list[Piece]:
        """Return the edges, with the inside on the left of each."""
        rings = [
            (self.corners, self.edges, 1),
            *((hole, (name,) * len(hole), -1) for name, hole in self.holes),
        ]
        found = []
        for corners, words, turn in rings:
            sides = list(zip(words, corners, (*corners[1:], corners[0]), strict=True))
            if _turning(corners) * turn < 0:
                sides = [(word, end, start) for word, start, end in sides]
            found += [edge(word, start, end) for word, start, end in sides]
        return found

    def smooth_distance(self, x: Tensor, on: Sequence[str], *, anywhere: bool = False) -> Tensor:
        """Return a smooth distance to the edges with these names."""
        rings = [(self.corners, self.edges), *((hole, (name,) * len(hole)) for name, hole in self.holes)]
        found = []
        for corners, words in rings:
            for word, start, end in zip(words, corners, (*corners[1:], corners[0]), strict=True):
                if word in on:
                    found.append(_to_edge(x, x.new_tensor(start), x.new_tensor(end)))
        return nearest(*found)

    def depth(self, x: Tensor) -> Tensor:
        """Return a smooth distance to all edges, negative outside."""
        sign = torch.where(self.contains(x), 1.0, -1.0).to(x)[:, None]
        return sign * self.smooth_distance(x, self.parts)


def _to_edge(x: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """A smooth distance (n, 1) to a line segment."""
    along = end - start
    length = along.norm()
    middle = x - (start + end) / 2
    aside = ((middle[:, 0] * along[1] - middle[:, 1] * along[0]) / length)[:, None]
    return trimmed(aside, ((length / 2) ** 2 - middle.square().sum(1, keepdim=True)) / length)


def _pairs(corners: Corners, name: str) -> tuple[tuple[float, float], ...]:
    found = np.asarray(corners, dtype=float)
    if found.ndim != 2 or found.shape[1] != 2 or not np.isfinite(found).all():
        raise ValueError(f"`{name}` should be pairs of numbers, shape (n, 2), got shape {found.shape}.")
    if len(found) > 1 and (found[0] == found[-1]).all():  # the first corner is repeated at the end
        found = found[:-1]
    if len(found) < 3:
        raise ValueError(f"`{name}` should have at least three corners, got {len(found)}.")
    return tuple((float(a), float(b)) for a, b in found)


def _turning(corners: Sequence[tuple[float, float]]) -> float:
    """Twice the signed area, positive if the corners run counterclockwise."""
    x, y = np.array(corners).T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1))
