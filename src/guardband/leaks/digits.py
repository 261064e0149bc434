"""The resolution of the numbers of a column, and whether they were rounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COLUMNS = 8
"""The number of columns that are compared first; they suffice for most rows."""

DIGITS = (2, 3, 4)
"""The numbers of significant digits, and of decimal places, to which rows may have been rounded."""


@dataclass(frozen=True)
class Rounding:
    """Rounding to a number of significant digits or of decimal places."""

    digits: int
    significant: bool

    def round(self, a: np.ndarray) -> np.ndarray:
        """The rounded numbers."""
        if not self.significant:
            return np.round(a, self.digits)
        unit = 10.0 ** (exponents(a) + 1 - self.digits)
        return np.rint(a / unit) * unit

    def has(self, a: np.ndarray, eps: float) -> np.ndarray:
        """Whether each row has no more digits than the rounding leaves, as booleans."""
        found = np.ones(len(a), bool)
        for columns in (slice(0, COLUMNS), slice(COLUMNS, None)):
            part = a[found, columns]
            found[found] = np.all(np.abs(self.round(part) - part) <= 4 * eps * np.abs(part), axis=1)
        return found


def exponents(a: np.ndarray) -> np.ndarray:
    """The decimal exponent of each number, such as 2 for 123; it is 0 for 0."""
    size = np.abs(a)
    return np.floor(np.log10(np.where(size > 0, size, 1.0))).clip(-290, 290)


def resolution(column: np.ndarray, eps: float) -> float:
    """The resolution of a column: its step, or minus its number of significant digits, or 0 if continuous."""
    if eps > 1e-5:
        return float(np.floor(np.log10(eps)))
    values = np.unique(column)
    size = float(np.abs(values).max())
    if len(values) == 1:
        return max(size, 1.0) if len(column) > 1 else 0.0
    step = _even_step(values, len(column), eps * size)
    for digits in DIGITS:
        if Rounding(digits, True).has(values[:, None], eps).all():
            last = 10.0 ** (exponents(np.array(size)) + 1 - digits)
            return float(-digits) if step < 0.5 * last else step
    return step


def _even_step(values: np.ndarray, n: int, dust: float) -> float:
    """The step between the ascending values of a column; 0 if there is none."""
    gaps, reach = np.diff(values), float(values[-1] - values[0])
    for decimals in range(-9, 10):
        step = 10.0**-decimals
        if reach <= 1e5 * step and dust < 0.01 * step:
            if (np.abs(values - np.rint(values / step) * step) <= 4 * dust).all():
                return step
    if 2 * len(values) <= n:
        return float(gaps.min())
    return _common_step(values - values[0], gaps, dust) if len(values) >= 10 else 0.0


def _common_step(offsets: np.ndarray, gaps: np.ndarray, dust: float) -> float:
    """The common step of all offsets (ascending from 0), such as that of an A/D converter; 0 without one."""
    step = float(gaps.min())
    for gap in np.sort(gaps[gaps <= 20 * step])[:200]:
        rest = abs(gap - round(gap / step) * step)
        while rest > 0.05 * step:
            step, rest = rest, abs(step - round(step / rest) * rest)
        if step <= 20 * dust:
            return 0.0
    limit = 16 * step
    while True:
        near = offsets[(offsets > 0) & (offsets <= limit)]
        if len(near):
            k = np.maximum(np.rint(near / step), 1)
            if (np.abs(near - k * step) > 0.05 * step).any():
                return 0.0
            step = float((near * k).sum() / (k * k).sum())
        if limit > offsets[-1]:
            return step if offsets[-1] <= 1e5 * step else 0.0
        limit *= 4
