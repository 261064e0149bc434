"""Misfit: how far readings are off, along one coefficient at a time, and how coefficients trade off."""

from __future__ import annotations

import numpy as np

from guardband.pinn.inverse.design import Design
from guardband.pinn.inverse.least_squares import descent

ALONE, OTHERS = 201, 31
"""Values at which one coefficient is held, where it is the only one and where others are refitted."""


def misfit(
    design: Design, y: np.ndarray, estimate: np.ndarray, j: int, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a coefficient from low to high, and the root mean square of the residuals at each.

    The other coefficients are refitted, from the estimate and from the best value nearby on a coarse grid.
    """
    if design.p == 1:
        held = np.linspace(low, high, ALONE)
        return held, np.sqrt(np.square(y - design.values(held[:, None])).mean(axis=1))
    held = np.linspace(low, high, OTHERS)
    squares = np.square(design.coarse_values - y).sum(axis=1)
    away = np.abs(design.coarse[:, j] - held[:, None])
    near = np.where(away <= 1.01 * away.min(axis=1, keepdims=True), squares, np.inf).argmin(axis=1)
    starts = np.concatenate([np.tile(estimate, (OTHERS, 1)), design.coarse[near]])
    starts[:, j] = np.tile(held, 2)
    _, found = descent(design, np.tile(y, (len(starts), 1)), starts, fixed=j)
    return held, np.sqrt(found.reshape(2, OTHERS).min(axis=0) / len(y))


def correlation(design: Design, estimate: np.ndarray) -> np.ndarray:
    """The correlation (p, p) of the least-squares estimates, by the slopes there: that of (J^T J)^-1.

    1 or -1 are coefficients that only move together; a coefficient that is not seen at all has none, 0.
    """
    slopes = design.slopes(estimate[None])[0]
    length = np.linalg.norm(slopes, axis=0)
    slopes = slopes / np.where(length > 0, length, 1.0)
    inverse = np.linalg.inv(slopes.T @ slopes + 1e-9 * np.eye(design.p))
    spread = np.sqrt(np.diag(inverse))
    return np.clip(inverse / np.outer(spread, spread), -1.0, 1.0)
