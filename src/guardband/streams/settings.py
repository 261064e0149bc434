"""Settings of methods that follow streams, checked, and what they are by default."""

from __future__ import annotations

import math
from fractions import Fraction

from guardband.conformal.rank import exact

BEYOND = 20
"""How many of the last scores lie beyond the threshold, on average, where nobody chooses the window."""


def window_of(window: int | None, level: Fraction | float) -> int:
    """How many of the last scores count: enough for about 20 beyond the threshold.

    >>> window_of(None, 0.9), window_of(None, 0.99), window_of(300, 0.9)
    (200, 2000, 300)
    """
    return math.ceil(BEYOND / (1 - exact(level))) if window is None else window


def step_of(step: float | None, level: Fraction | float) -> float:
    """How far the level moves at each reading: a twentieth of what may be missed.

    >>> step_of(None, 0.9), step_of(None, 0.99), step_of(0.02, 0.9)
    (0.005, 0.0005, 0.02)
    """
    return float((1 - exact(level)) / 20) if step is None else step


def positive(value: float | None, name: str, *, whole: bool = False) -> None:
    """Refuse what is no positive number."""
    wanted = int if whole else (int, float)
    right = isinstance(value, wanted) and not isinstance(value, bool) and 0 < value < math.inf
    if value is not None and not right:
        kind = "a positive whole number" if whole else "a positive number"
        raise ValueError(f"`{name}` should be {kind}, got {value!r}.")
