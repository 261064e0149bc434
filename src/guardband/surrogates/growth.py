"""Growth of errors with the size of the input and with the step, fitted by least squares in logarithms."""

from __future__ import annotations

import numpy as np

from guardband.base.arrays import Array, to_numpy

SMALLEST = 1e-6
"""Errors and sizes are at least this share of the largest one."""

LARGEST_POWER = 4.0
"""Upper limit of the fitted power of the size."""


def sizes(x: Array) -> np.ndarray:
    """The root mean square of each input, shape (n,)."""
    values = np.asarray(to_numpy(x), dtype=float).reshape(len(x), -1)
    return np.sqrt(np.mean(values**2, axis=1))


def fitted_growth(size: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, float]:
    """Fit errors (n, steps) by growth (steps,) times size^power; the power is 0 if all sizes are similar."""
    logs = np.log(np.maximum(errors, SMALLEST * max(float(errors.max()), np.finfo(float).tiny)))
    log_size = np.log(np.maximum(size, SMALLEST * max(float(size.max()), np.finfo(float).tiny)))
    spread = log_size - log_size.mean()
    variance = float(np.mean(spread**2))
    if variance < 1e-4 or len(size) < 3:
        return np.exp(logs.mean(axis=0)), 0.0
    slopes = spread @ (logs - logs.mean(axis=0)) / (len(log_size) * variance)
    power = float(np.clip(slopes.mean(), 0.0, LARGEST_POWER))
    return np.exp(np.mean(logs - power * log_size[:, None], axis=0)), power


def powers(x: Array, power: float) -> np.ndarray:
    """size^power of each input, shape (n,); the size is at least the smallest normal float32."""
    return np.maximum(sizes(x), np.finfo(np.float32).tiny) ** power
