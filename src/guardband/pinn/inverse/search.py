"""Search: values inside of a region of three or four coefficients, found along lines, with no guarantee.

A heuristic. What it finds is inside, by the test itself; that it finds all, nobody says: a piece that lies
apart is missed, and ends are too short rather than too long.
"""

from __future__ import annotations

import numpy as np

from guardband.pinn.inverse.grid import Accepts

ROUNDS, LINES, HALVINGS, DRAWN = 6, 48, 10, 512
"""How often lines are drawn, how many at once, how closely their ends are found; random values before."""


def searched(
    accepts: Accepts, lower: np.ndarray, upper: np.ndarray, near: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Values inside, (k, p), none if none is found: from `near` and random ones outwards along lines.

    `steps` (p, p) are rows along which the region is likely long, each about as long as it is wide.
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


def _ends(
    accepts: Accepts, starts: np.ndarray, ways: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """The last values inside along each line: steps are doubled until one is outside, then halved."""

    def at(far: np.ndarray) -> np.ndarray:
        return np.clip(starts + far[:, None] * ways, lower, upper)

    inside, outside = np.zeros(len(starts)), np.full(len(starts), 0.25)
    for _ in range(HALVINGS):
        good = accepts(at(outside))
        inside = np.where(good, outside, inside)
        outside = np.where(good, 2 * outside, outside)
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        good = accepts(at(middle))
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    return at(inside)
