"""Rounding: numbers written with few digits, significant ones or decimals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.leaks.search import COLUMNS

DIGITS = (2, 3, 4)
"""To how many significant digits, and to how many decimals, rows may have been rounded."""


@dataclass(frozen=True)
class Rounding:
    """Rounding to so many significant digits, or decimals."""

    digits: int
    significant: bool

    def round(self, a: np.ndarray) -> np.ndarray:
        """The numbers, rounded."""
        if not self.significant:
            return np.round(a, self.digits)
        unit = 10.0 ** (exponents(a) + 1 - self.digits)
        return np.rint(a / unit) * unit

    def has(self, a: np.ndarray, eps: float) -> np.ndarray:
        """Which rows are written with no more digits than this."""
        found = np.ones(len(a), bool)
        for columns in (slice(0, COLUMNS), slice(COLUMNS, None)):  # a few columns tell of most rows
            part = a[found, columns]
            found[found] = np.all(np.abs(self.round(part) - part) <= 4 * eps * np.abs(part), axis=1)
        return found


def exponents(a: np.ndarray) -> np.ndarray:
    """The decimal exponent of each number: 2 for 123; 0 for 0."""
    size = np.abs(a)
    return np.floor(np.log10(np.where(size > 0, size, 1.0))).clip(-290, 290)
