"""Least squares: the coefficients that fit the measurements best, and which of them are identifiable."""

from __future__ import annotations

import numpy as np

from guardband.pinn.inverse.design import Design

STARTS = 6
"""The number of starting points, taken from the best values of the coarse grid."""

STEPS = 40
"""The largest number of Gauss-Newton steps."""

VALUES = 9
"""The number of values at which one coefficient is fixed while the others are refitted."""

ERRORS = 2.0
"""Changes below this number of standard errors of the noise are undetectable."""

ALONE, OTHERS = 201, 31
"""The number of values along one coefficient: if it is the only coefficient, and if others are refitted."""


def least_squares(
    design: Design, y: np.ndarray, *, start: np.ndarray | None = None, fixed: int | None = None
) -> tuple[np.ndarray, float]:
    """The best coefficients (p,) within their ranges, and their sum of squares.

    With `fixed`, one coefficient keeps its value at the `start`.
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
    """The result, theta and sums of squares, of Gauss-Newton steps for each row of theta (k, p) and y (k, N).

    A coefficient at an end of its range stays there while the sum of squares decreases beyond it.
    """
    wide, lower, upper = design.upper - design.lower, design.lower, design.upper
    theta, p = theta.copy(), design.p
    residuals = y - design.values(theta)
    squares, damping = np.square(residuals).sum(axis=1), np.full(len(theta), 1e-3)
    going = np.arange(len(theta))
    for _ in range(STEPS):
        slopes = design.slopes(theta[going])
        gradient = (np.swapaxes(slopes, 1, 2) @ residuals[going, :, None])[:, :, 0]
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
        theta[accepted], residuals[accepted], squares[accepted] = trial[better], off[better], now[better]
        damping[going] = np.where(better, damping[going] / 5, damping[going] * 10)
        done = (better & (small | gained)) | (~better & (small | (damping[going] > 1e8)))
        going = going[~done]
        if not len(going):
            break
    return theta, squares


def misfit_along(
    design: Design, y: np.ndarray, estimate: np.ndarray, j: int, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a coefficient from low to high, and the root mean square of the residuals at each value.

    The other coefficients are refitted, from the estimate and from the best nearby value of a coarse grid.
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
    """The correlation matrix (p, p) of the least-squares estimates, from (J^T J)^-1 at the estimate.

    Coefficients with correlation 1 or -1 can only change together; an unidentifiable coefficient has
    correlation 0.
    """
    slopes = design.slopes(estimate[None])[0]
    length = np.linalg.norm(slopes, axis=0)
    slopes = slopes / np.where(length > 0, length, 1.0)
    inverse = np.linalg.inv(slopes.T @ slopes + 1e-9 * np.eye(design.p))
    spread = np.sqrt(np.diag(inverse))
    return np.clip(inverse / np.outer(spread, spread), -1.0, 1.0)


def informed(design: Design, y: np.ndarray, estimate: np.ndarray, delta: float) -> dict[str, bool]:
    """For each coefficient, whether moving it across its range changes the measurements detectably."""
    enough = delta + ERRORS * noise_sd(design, y, estimate)
    seen = (changes(design, estimate) > enough) & ~confounded(design, estimate, enough)
    return dict(zip(design.solved.names, map(bool, seen), strict=True))


def confounded(design: Design, estimate: np.ndarray, enough: float) -> np.ndarray:
    """Whether each coefficient, such as a factor of a product, is identifiable only with others, (p,).

    According to the derivatives at the estimate, such a coefficient changes the measurements detectably
    across its range, but not if the others compensate. Within their ranges the others may not be able to
    compensate fully, so that both still have intervals.
    """
    slopes = design.slopes(estimate[None])[0]
    found = []
    for j in range(design.p):
        alone, others = slopes[:, j], np.delete(slopes, j, axis=1)
        left = alone - others @ np.linalg.lstsq(others, alone, rcond=1e-9)[0]
        found.append(np.linalg.norm(alone) > enough >= np.linalg.norm(left))
    return np.array(found)


def noise_sd(design: Design, y: np.ndarray, estimate: np.ndarray) -> float:
    """The standard deviation of the noise, estimated from the least-squares residuals."""
    residuals = y - design.values(estimate[None])[0]
    return float(np.sqrt(np.square(residuals).sum() / max(1, len(y) - design.p)))


def changes(design: Design, estimate: np.ndarray) -> np.ndarray:
    """The change of the measurements by each coefficient across its range, with the others refitted, (p,)."""
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
    """For each fixed value of a coefficient, the best-fitting nearby point of the coarse grid."""
    wide = design.upper[j] - design.lower[j]
    squares = np.square(design.coarse_values - goal).sum(axis=1)
    away = np.abs(design.coarse[:, j] - held[:, None]) > 0.2 * wide
    return design.coarse[np.where(away, np.inf, squares).argmin(axis=1)]
