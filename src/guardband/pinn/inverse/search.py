"""Search for the extent of a region: on a grid for one or two coefficients, along lines for more.

The search along lines is a heuristic. The test confirms that the values found are inside, but the search may
miss a separate piece, and the intervals that it finds are too short rather than too long.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

Accepts: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""A function from values (k, p) to whether each lies in the region, (k,)."""

FIRST_GRID = {1: 129, 2: 25}
"""The number of values of each coefficient on the first grid."""

GRID_STEPS = {1: 100, 2: 30}
"""The smallest width of a region along each axis, in steps of the last grid."""

REFINEMENTS = 12
"""The largest number of times that a step is halved."""

ROUNDS, LINES, BISECTIONS, DRAWN = 6, 48, 10, 512
"""The numbers of rounds, lines per round, bisections per end, and random values before the first round."""


@dataclass(frozen=True, eq=False)
class SearchGrid:
    """Values along each axis, and whether each of their combinations is inside the region."""

    axes: tuple[np.ndarray, ...]
    inside: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @property
    def empty(self) -> bool:
        """Whether no value is inside."""
        return not self.inside.any()

    @property
    def pieces(self) -> int:
        """The number of connected pieces."""
        from scipy.ndimage import label

        _, count = cast("tuple[np.ndarray, int]", label(self.inside, np.ones((3,) * self.inside.ndim)))
        return count

    @property
    def share(self) -> float:
        """The share of the box that is inside."""
        weights = np.ones(())
        for axis, low, high in zip(self.axes, self.lower, self.upper, strict=True):
            edges = np.concatenate([axis[:1], (axis[1:] + axis[:-1]) / 2, axis[-1:]])
            weights = weights[..., None] * np.diff(edges) / (high - low)
        return float(weights[self.inside].sum())

    @property
    def values(self) -> np.ndarray:
        """All values inside and their neighbors, (k, p), which enclose the region."""
        near = self.inside | _differs(self.inside)
        return np.stack(
            [axis[where] for axis, where in zip(self.axes, np.nonzero(near), strict=True)], axis=1
        )

    def ends(self, j: int) -> tuple[float, float]:
        """The first values of an axis beyond the region, or the ends of its range."""
        others = tuple(i for i in range(self.inside.ndim) if i != j)
        found = np.flatnonzero(self.inside.any(axis=others))
        if not len(found):
            return float("nan"), float("nan")
        axis = self.axes[j]
        return float(axis[max(0, found[0] - 1)]), float(axis[min(len(axis) - 1, found[-1] + 1)])

    def touches(self, j: int) -> tuple[bool, bool]:
        """Whether the lower and the upper end of a range are inside."""
        slices = [np.take(self.inside, end, axis=j).any() for end in (0, -1)]
        axis = self.axes[j]
        return bool(slices[0] and axis[0] == self.lower[j]), bool(slices[1] and axis[-1] == self.upper[j])


def search_grid(accepts: Accepts, lower: np.ndarray, upper: np.ndarray, near: np.ndarray) -> SearchGrid:
    """Find a region of one or two coefficients; the search is finest around the point `near`.

    The first grid covers the whole box. Steps are halved until the region is many steps wide, and only values
    whose neighbors differ are tested. A piece that lies between the values of the first grid, away from
    `near`, is not found.
    """
    p = len(lower)
    axes = [np.linspace(a, b, FIRST_GRID[p]) for a, b in zip(lower, upper, strict=True)]
    whole = tuple(axes)
    inside = _accepted_at(accepts, axes, np.argwhere(np.ones([len(axis) for axis in axes], dtype=bool)))
    inside = inside.reshape([len(axis) for axis in axes])
    for _ in range(REFINEMENTS):
        axes, inside = _window(axes, inside, near)
        narrow = [_width(inside, j) < GRID_STEPS[p] for j in range(p)]
        if not any(narrow):
            break
        axes, inside, known = _halved(axes, inside, narrow)
        _flood(accepts, axes, inside, known, near)
    if not inside.any():
        return SearchGrid(whole, np.zeros([len(axis) for axis in whole], dtype=bool), lower, upper)
    return SearchGrid(tuple(axes), inside, lower, upper)


def search_lines(
    accepts: Accepts, lower: np.ndarray, upper: np.ndarray, near: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Find values inside, (k, p), along lines that start at `near` and at random values; possibly none.

    The rows of `steps` (p, p) are directions in which the region is probably long, scaled to about its
    length.
    """
    rng, p = np.random.default_rng(0), len(lower)
    tried = np.concatenate([near[None], lower + rng.random((DRAWN, p)) * (upper - lower)])
    found = tried[accepts(tried)]
    for _ in range(ROUNDS if len(found) else 0):
        ends = np.concatenate([found.argmin(axis=0), found.argmax(axis=0)])
        outward = np.concatenate([-steps, steps])
        chosen = rng.integers(0, len(found), LINES)
        starts = np.concatenate([found[ends], found[chosen]])
        ways = np.concatenate([outward, rng.normal(size=(LINES, p)) @ steps])
        found = np.concatenate([found, _ends(accepts, starts, ways, lower, upper)])
    return found


def _accepted_at(accepts: Accepts, axes: Sequence[np.ndarray], where: np.ndarray) -> np.ndarray:
    return accepts(np.stack([axis[where[:, j]] for j, axis in enumerate(axes)], axis=1))


def _place(axes: Sequence[np.ndarray], near: np.ndarray) -> list[int]:
    """The index of the value of each axis that is nearest to a point."""
    return [int(np.abs(axis - value).argmin()) for axis, value in zip(axes, near, strict=True)]


def _width(inside: np.ndarray, j: int) -> int:
    found = np.flatnonzero(inside.any(axis=tuple(i for i in range(inside.ndim) if i != j)))
    return int(found[-1] - found[0]) if len(found) else 0


def _window(
    axes: Sequence[np.ndarray], inside: np.ndarray, near: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """The part of the grid that contains all values inside and the point, with a margin."""
    places, parts = _place(axes, near), []
    for j in range(inside.ndim):
        found = np.flatnonzero(inside.any(axis=tuple(i for i in range(inside.ndim) if i != j)))
        first, last = min([places[j], *found[:1]]), max([places[j], *found[-1:]])
        parts.append(slice(max(0, first - 2), last + 3))
    return [axis[part] for axis, part in zip(axes, parts, strict=True)], inside[tuple(parts)]


def _halved(
    axes: Sequence[np.ndarray], inside: np.ndarray, narrow: Sequence[bool]
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """The grid with half the step along narrow axes; new values are guessed and marked as unknown."""
    known = np.ones_like(inside)
    finer = []
    for j, axis in enumerate(axes):
        if not narrow[j]:
            finer.append(axis)
            continue
        values = np.empty(2 * len(axis) - 1)
        values[::2], values[1::2] = axis, (axis[1:] + axis[:-1]) / 2
        finer.append(values)
        index = np.arange(len(values)) // 2
        inside, known = np.take(inside, index, axis=j), np.take(known, index, axis=j)
        between = [slice(None)] * inside.ndim
        between[j] = slice(1, None, 2)
        known[tuple(between)] = False
    return finer, inside, known


def _flood(
    accepts: Accepts, axes: Sequence[np.ndarray], inside: np.ndarray, known: np.ndarray, near: np.ndarray
) -> None:
    """Test values whose neighbors differ, or that are close to the point, until none remains."""
    close = np.zeros_like(known)
    close[tuple(slice(max(0, i - 1), i + 2) for i in _place(axes, near))] = True
    while True:
        where = np.argwhere((_differs(inside) | close) & ~known)
        if not len(where):
            return
        inside[tuple(where.T)] = _accepted_at(accepts, axes, where)
        known[tuple(where.T)] = True


def _differs(inside: np.ndarray) -> np.ndarray:
    """Whether a neighbor (including diagonal neighbors) is on the other side of the border."""
    padded = np.pad(inside, 1, mode="edge")
    found = np.zeros_like(inside)
    for way in itertools.product((0, 1, 2), repeat=inside.ndim):
        part = tuple(slice(w, w + size) for w, size in zip(way, inside.shape, strict=True))
        found |= padded[part] != inside
    return found


def _ends(
    accepts: Accepts, starts: np.ndarray, ways: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """The last values inside along each line, found by doubling steps and then by bisection."""

    def at(far: np.ndarray) -> np.ndarray:
        return np.clip(starts + far[:, None] * ways, lower, upper)

    inside, outside = np.zeros(len(starts)), np.full(len(starts), 0.25)
    for _ in range(BISECTIONS):
        good = accepts(at(outside))
        inside = np.where(good, outside, inside)
        outside = np.where(good, 2 * outside, outside)
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2
        good = accepts(at(middle))
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    return at(inside)
