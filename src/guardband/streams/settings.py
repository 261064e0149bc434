"""Settings of stream methods: defaults and validation."""

from __future__ import annotations

import math
from fractions import Fraction

from guardband.conformal.rank import exact

BEYOND = 20
"""Mean number of scores in the window above the threshold, which sets the default window."""


def window_of(window: int | None, level: Fraction | float) -> int:
    """The size of the window, by default large enough to have about 20 scores above the threshold.

    >>> window_of(None, 0.9), window_of(None, 0.99), window_of(300, 0.9)
    (200, 2000, 300)
    """
    return math.ceil(BEYOND / (1 - exact(level))) if window is None else window


def step_of(step: float | None, level: Fraction | float) -> float:
    """The change of the level per reading, by default a twentieth of 1 - level.

    >>> step_of(None, 0.9), step_of(None, 0.99), step_of(0.02, 0.9)
    (0.005, 0.0005, 0.02)
    """
    return float((1 - exact(level)) / 20) if step is None else step


def positive(value: float | None, name: str, *, whole: bool = False) -> None:
    """Raise a `ValueError` unless a setting is a positive number or None."""
    wanted = int if whole else (int, float)
    right = isinstance(value, wanted) and not isinstance(value, bool) and 0 < value < math.inf
    if value is not None and not right:
        kind = "a positive integer" if whole else "a positive number"
        raise ValueError(f"`{name}` should be {kind}, got {value!r}.")
