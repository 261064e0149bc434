"""Rays: a point lies inside a closed surface if a ray upwards crosses it an odd number of times.

Triangles are sorted into the cells of a grid of the plane below them; a point asks those of its cell alone.
"""

from __future__ import annotations

import math

import numpy as np

PAIRS = 2**22
"""Pairs of a point and a triangle that are looked at at a time."""

ASIDE = 1e-10
"""Rays start so far aside, as a share of the extent, that they meet no edge and no corner."""


class Rays:
    """A surface of triangles (m, 3, 3), to be asked."""

    def __init__(self, triangles: np.ndarray) -> None:
        self.first: np.ndarray = triangles[:, 0]
        self.across: np.ndarray = triangles[:, 1:] - triangles[:, :1]  # the two edges from the first corner
        flat = triangles[:, :, :2]
        low, high = flat.min(1), flat.max(1)
        self.origin: np.ndarray = low.min(0)
        self.per_axis: int = max(1, math.isqrt(len(triangles)))
        self.cell: np.ndarray = (high.max(0) - self.origin) / self.per_axis
        from_, to = (self._cell(corner) for corner in (low, high))
        wide = to - from_ + 1
        owner = np.repeat(np.arange(len(triangles)), wide.prod(1))
        number = _counting(wide.prod(1))
        cells = from_[owner] + np.stack([number // wide[owner, 1], number % wide[owner, 1]], axis=1)
        keys = self._key(cells)
        order = np.argsort(keys, kind="stable")
        self.members: np.ndarray = owner[order]
        self.starts: np.ndarray = np.searchsorted(keys[order], np.arange(self.per_axis**2 + 1))

    def _cell(self, points: np.ndarray) -> np.ndarray:
        return ((points[:, :2] - self.origin) / self.cell).astype(int).clip(0, self.per_axis - 1)

    def _key(self, cells: np.ndarray) -> np.ndarray:
        return cells[:, 0] * self.per_axis + cells[:, 1]

    def inside(self, x: np.ndarray) -> np.ndarray:
        """Whether points (n, 3) lie inside, (n,)."""
        x = x + ASIDE * np.array([self.cell[0], math.e / 3 * self.cell[1], 0.0]) * self.per_axis
        keys = self._key(self._cell(x))
        counts = self.starts[keys + 1] - self.starts[keys]
        odd = np.zeros(len(x), dtype=bool)
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(x):  # as many points as have PAIRS triangles, and at least one
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + PAIRS)))
            odd[begin:end] = self._odd(x[begin:end], keys[begin:end], counts[begin:end])
            begin = end
        return odd

    def _odd(self, x: np.ndarray, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        point = np.repeat(np.arange(len(x)), counts)
        triangle = self.members[np.repeat(self.starts[keys], counts) + _counting(counts)]
        (ax, ay, az), (bx, by, bz) = (self.across[triangle, k].T for k in (0, 1))
        px, py, pz = (x[point] - self.first[triangle]).T
        area = ax * by - ay * bx
        with np.errstate(divide="ignore", invalid="ignore"):  # triangles that stand upright are met by no ray
            u, v = (px * by - py * bx) / area, (ax * py - ay * px) / area
            met = (u >= 0) & (v >= 0) & (u + v <= 1) & (u * az + v * bz > pz)
        return np.bincount(point[met], minlength=len(x)) % 2 == 1


def _counting(counts: np.ndarray) -> np.ndarray:
    """0, 1, ... anew for each count."""
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return np.arange(len(starts)) - starts
