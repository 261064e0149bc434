"""Informed: whether readings say anything about a coefficient at all."""

from __future__ import annotations

import numpy as np

from guardband.pinn.inverse.design import Design
from guardband.pinn.inverse.least_squares import descent

VALUES = 9
"""At so many values of its range a coefficient is held, while the others are refitted."""

ERRORS = 2.0
"""Changes below so many standard errors of the noise are not seen."""


def informed(design: Design, y: np.ndarray, estimate: np.ndarray, delta: float) -> dict[str, bool]:
    """For each coefficient, whether moving it across its range changes the readings enough to be seen."""
    enough = delta + ERRORS * noise_of(design, y, estimate)
    seen = (changes(design, estimate) > enough) & ~entangled(design, estimate, enough)
    return dict(zip(design.solved.names, map(bool, seen), strict=True))


def entangled(design: Design, estimate: np.ndarray, enough: float) -> np.ndarray:
    """Which coefficients are seen only together with others, (p,), as the factors of a product are.

    By the slopes at the estimate a whole range of such a one changes readings enough, but not if the others
    follow. Within the ranges they may not be able to follow all the way, so that both have intervals.
    """
    slopes = design.slopes(estimate[None])[0]
    found = []
    for j in range(design.p):
        alone, others = slopes[:, j], np.delete(slopes, j, axis=1)
        left = alone - others @ np.linalg.lstsq(others, alone, rcond=1e-9)[0]
        found.append(np.linalg.norm(alone) > enough >= np.linalg.norm(left))
    return np.array(found)


def noise_of(design: Design, y: np.ndarray, estimate: np.ndarray) -> float:
    """The standard deviation of the noise, by the residuals of least squares."""
    misses = y - design.values(estimate[None])[0]
    return float(np.sqrt(np.square(misses).sum() / max(1, len(y) - design.p)))


def changes(design: Design, estimate: np.ndarray) -> np.ndarray:
    """By how much readings change when each coefficient moves across its range, (p,), the others refitted."""
    goal = design.values(estimate[None])[0]
    found = []
    for j in range(design.p):
        held = np.linspace(design.lower[j], design.upper[j], VALUES)
        starts = np.tile(estimate, (VALUES, 1))
        if design.p > 1:
            starts = np.concatenate([starts, _nearest(design, goal, j, held)])
        starts[:, j] = np.tile(held, len(starts) // VALUES)
        _, squares = descent(design, np.tile(goal, (len(starts), 1)), starts, fixed=j)
        found.append(float(np.sqrt(squares.reshape(-1, VALUES).min(axis=0).max())))
    return np.array(found)


def _nearest(design: Design, goal: np.ndarray, j: int, held: np.ndarray) -> np.ndarray:
    """For each value that a coefficient is held at, the point of the coarse grid near it that fits best."""
    wide = design.upper[j] - design.lower[j]
    squares = np.square(design.coarse_values - goal).sum(axis=1)
    away = np.abs(design.coarse[:, j] - held[:, None]) > 0.2 * wide
    return design.coarse[np.where(away, np.inf, squares).argmin(axis=1)]
