"""Units: columns measured in their spreads, in their steps, or in what rounding moves them by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.leaks.digits import Rounding, exponents
from guardband.leaks.tables import Compared

HAIR = 1e-6
"""Nearer than this, in spreads, no fresh noise brings readings together."""


@dataclass(frozen=True, eq=False)
class Units:
    """Coordinates of columns in units of their own.

    In a floating column each decade is 9 long and numbers in it are evenly spaced, as their digits are;
    `least` is its first decade.
    """

    unit: np.ndarray
    floating: np.ndarray
    least: np.ndarray

    @classmethod
    def of(cls, unit: np.ndarray, floating: np.ndarray | None = None, *values: np.ndarray) -> Units:
        """Units of this size; floating columns begin at the least of the values."""
        if floating is None or not floating.any():
            return cls(unit, np.zeros(len(unit), bool), np.zeros(len(unit)))
        both = np.vstack(values)
        least = np.where(both != 0, exponents(both), np.inf).min(axis=0)
        return cls(unit, floating, np.where(np.isfinite(least), least, 0.0))

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """The coordinates of a, (n, columns)."""
        if not self.floating.any():
            return a / self.unit
        decade = exponents(a)
        digits = np.sign(a) * (9 * (decade - self.least) + np.abs(a) / 10.0**decade)
        return np.where(self.floating, digits, a) / self.unit

    def size(self, a: np.ndarray) -> np.ndarray:
        """How large one unit is at each number."""
        return np.where(self.floating, 10.0 ** exponents(a), 1.0) * self.unit


def in_spreads(compared: Compared) -> tuple[Units, Units]:
    """Units of each column's own spread, that of the middle half of the known rows."""
    in_x, in_y = compared.precision
    return (
        Units.of(_spread(compared.known_x[compared.sample], compared.x, in_x)),
        Units.of(_spread(compared.known_y[compared.sample], compared.y, in_y)),
    )


def _spread(known: np.ndarray, new: np.ndarray, eps: float) -> np.ndarray:
    low, high = np.quantile(known, [0.25, 0.75], axis=0)
    spread = np.where(high > low, (high - low) / 1.35, known.std(axis=0))
    size, moved = np.abs(known).max(axis=0), np.abs(new - known[0]).max(axis=0)
    never = np.where(moved <= HAIR * size.clip(1), size.clip(1), moved)  # of columns that do not change
    return np.where(spread > 4 * eps * size, spread, never)


def in_steps(compared: Compared) -> tuple[Units, Units]:
    """Units in which one step of a coarse column is 1."""
    return (
        _stepped(compared.steps_x, compared.known_x, compared.x),
        _stepped(compared.steps_y, compared.known_y, compared.y),
    )


def _stepped(steps: np.ndarray, *values: np.ndarray) -> Units:
    unit = np.where(steps < 0, 10.0 ** (1 + steps.clip(max=0)), np.where(steps > 0, steps, 1.0))
    return Units.of(unit, steps < 0, *values)


def in_roundings(compared: Compared, rounding: Rounding) -> tuple[Units, Units]:
    """Units such that rounding moves nothing by more than 1."""
    in_x, in_y = compared.precision
    return (
        _rounded(rounding, in_x, compared.known_x, compared.x),
        _rounded(rounding, in_y, compared.known_y, compared.y),
    )


def _rounded(rounding: Rounding, eps: float, *values: np.ndarray) -> Units:
    size = np.abs(np.vstack(values)).max(axis=0, initial=0.0)
    if not rounding.significant:
        return Units.of(0.5 * 10.0**-rounding.digits + 4 * eps * size)
    half = 0.5 * 10.0 ** (1 - rounding.digits) + 40 * eps
    return Units.of(np.full(len(size), half), np.ones(len(size), bool), *values)
