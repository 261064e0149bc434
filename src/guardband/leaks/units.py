"""Units in which columns are compared: their spread, their step, or their rounding error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.leaks.digits import Rounding, exponents
from guardband.leaks.tables import Compared

HAIR = 1e-6
"""The smallest distance, in spreads, between readings with independent noise."""


@dataclass(frozen=True, eq=False)
class Units:
    """Coordinates of columns, each in its unit.

    In a floating column, each decade has length 9, and the numbers in it are evenly spaced, like their
    digits; `least` is the first decade.
    """

    unit: np.ndarray
    floating: np.ndarray
    least: np.ndarray

    @classmethod
    def of(cls, unit: np.ndarray, floating: np.ndarray | None = None, *values: np.ndarray) -> Units:
        """Units of this size; floating columns start at the smallest of the values."""
        if floating is None or not floating.any():
            return cls(unit, np.zeros(len(unit), bool), np.zeros(len(unit)))
        both = np.vstack(values)
        least = np.where(both != 0, exponents(both), np.inf).min(axis=0)
        return cls(unit, floating, np.where(np.isfinite(least), least, 0.0))

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """The coordinates of `a`, shape (n, columns)."""
        if not self.floating.any():
            return a / self.unit
        decade = exponents(a)
        digits = np.sign(a) * (9 * (decade - self.least) + np.abs(a) / 10.0**decade)
        return np.where(self.floating, digits, a) / self.unit

    def size(self, a: np.ndarray) -> np.ndarray:
        """The size of one unit at each number."""
        return np.where(self.floating, 10.0 ** exponents(a), 1.0) * self.unit


def in_spreads(compared: Compared) -> tuple[Units, Units]:
    """Units of the spread of each column, from the interquartile range of the known rows."""
    in_x, in_y = compared.precision
    return (
        Units.of(_spread(compared.known_x[compared.sample], compared.x, in_x)),
        Units.of(_spread(compared.known_y[compared.sample], compared.y, in_y)),
    )


def _spread(known: np.ndarray, new: np.ndarray, eps: float) -> np.ndarray:
    low, high = np.quantile(known, [0.25, 0.75], axis=0)
    spread = np.where(high > low, (high - low) / 1.35, known.std(axis=0))
    size, moved = np.abs(known).max(axis=0), np.abs(new - known[0]).max(axis=0)
    constant = np.where(moved <= HAIR * size.clip(1), size.clip(1), moved)  # for constant columns
    return np.where(spread > 4 * eps * size, spread, constant)


def in_steps(compared: Compared) -> tuple[Units, Units]:
    """Units in which a step of a coarse column has length 1."""
    return (
        _stepped(compared.steps_x, compared.known_x, compared.x),
        _stepped(compared.steps_y, compared.known_y, compared.y),
    )


def _stepped(steps: np.ndarray, *values: np.ndarray) -> Units:
    unit = np.where(steps < 0, 10.0 ** (1 + steps.clip(max=0)), np.where(steps > 0, steps, 1.0))
    return Units.of(unit, steps < 0, *values)


def in_roundings(compared: Compared, rounding: Rounding) -> tuple[Units, Units]:
    """Units in which the rounding error is at most 1."""
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
