"""Least squares: the coefficients whose solution is nearest to the readings, from several starts."""

from __future__ import annotations

import numpy as np

from guardband.pinn.inverse.design import Design

STARTS = 6
"""From so many of the best values of the coarse grid."""

STEPS = 40
"""Gauss-Newton steps, at most."""


def least_squares(
    design: Design, y: np.ndarray, *, start: np.ndarray | None = None, fixed: int | None = None
) -> tuple[np.ndarray, float]:
    """The nearest coefficients (p,) within their ranges, and the sum of squares there.

    With `fixed` one coefficient stays what it is at the `start`.
    """
    if start is None:
        order = np.square(design.coarse_values - y).sum(axis=1).argsort()
        start = design.coarse[order[:STARTS]]
    theta, squares = descent(design, np.tile(y, (len(start), 1)), start, fixed)
    best = int(squares.argmin())
    return theta[best], float(squares[best])


def descent(
    design: Design, y: np.ndarray, theta: np.ndarray, fixed: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Damped Gauss-Newton steps from theta (k, p) towards y (k, N), each alone: theta and sums of squares.

    A coefficient at an end of its range stays there while the squares fall beyond it.
    """
    wide, lower, upper = design.upper - design.lower, design.lower, design.upper
    theta, p = theta.copy(), design.p
    misses = y - design.values(theta)
    squares, damping = np.square(misses).sum(axis=1), np.full(len(theta), 1e-3)
    going = np.arange(len(theta))
    for _ in range(STEPS):
        slopes = design.slopes(theta[going])
        gradient = (np.swapaxes(slopes, 1, 2) @ misses[going, :, None])[:, :, 0]
        outward = np.where(gradient > 0, theta[going] >= upper, theta[going] <= lower)
        free = ~outward
        if fixed is not None:
            free[:, fixed] = False
        gram = (np.swapaxes(slopes, 1, 2) @ slopes) * (free[:, :, None] & free[:, None])
        scale = np.maximum(np.trace(gram, axis1=1, axis2=2), 1e-300)
        diagonal = damping[going, None] * scale[:, None] + ~free * scale[:, None]
        step = np.linalg.solve(gram + diagonal[:, :, None] * np.eye(p), (gradient * free)[:, :, None])[
            :, :, 0
        ]
        trial = np.clip(theta[going] + step * wide, lower, upper)
        off = y[going] - design.values(trial)
        now = np.square(off).sum(axis=1)
        better = now < squares[going]
        small = np.abs(trial - theta[going]).max(axis=1, initial=0.0, where=free) <= 1e-9 * wide.max()
        gained = squares[going] - now <= 1e-12 * squares[going]
        accepted = going[better]
        theta[accepted], misses[accepted], squares[accepted] = trial[better], off[better], now[better]
        damping[going] = np.where(better, damping[going] / 5, damping[going] * 10)
        done = (better & (small | gained)) | (~better & (small | (damping[going] > 1e8)))
        going = going[~done]
        if not len(going):
            break
    return theta, squares
