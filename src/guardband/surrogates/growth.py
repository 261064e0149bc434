"""How errors grow with the size of the input, and from step to step: a least-squares line in logarithms."""

from __future__ import annotations

import numpy as np

from guardband.base.arrays import Array, to_numpy

SMALLEST = 1e-6
"""Errors and sizes below this share of the largest are taken as it."""

MOST = 4.0
"""No power of the size is steeper than this."""


def sizes(x: Array) -> np.ndarray:
    """The root mean square of each input, (n,)."""
    values = np.asarray(to_numpy(x), dtype=float).reshape(len(x), -1)
    return np.sqrt(np.mean(values**2, axis=1))


def fitted_growth(size: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, float]:
    """Errors (n, steps) as growth (steps,) times size^power: both, the power 0 where sizes are alike."""
    logs = np.log(np.maximum(errors, SMALLEST * max(float(errors.max()), np.finfo(float).tiny)))
    at = np.log(np.maximum(size, SMALLEST * max(float(size.max()), np.finfo(float).tiny)))
    spread = at - at.mean()
    variance = float(np.mean(spread**2))
    if variance < 1e-4 or len(size) < 3:
        return np.exp(logs.mean(axis=0)), 0.0
    slopes = spread @ (logs - logs.mean(axis=0)) / (len(at) * variance)
    power = float(np.clip(slopes.mean(), 0.0, MOST))
    return np.exp(np.mean(logs - power * at[:, None], axis=0)), power


def powers(x: Array, power: float) -> np.ndarray:
    """size^power of each input, (n,), where inputs of size 0 are as the smallest that a float can tell."""
    return np.maximum(sizes(x), np.finfo(np.float32).tiny) ** power
