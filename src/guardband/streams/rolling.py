"""RollingWindow: the plain quantile of the last scores, the honest baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.conformal.rank import rank
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.settings import positive, window_of
from guardband.streams.window import LastScores


@kept
@dataclass(frozen=True, repr=False)
class RollingWindow(StreamMethod):
    """The exact conformal quantile of the last `window` scores, by default 20 / (1 - level) of them.

    Where scores are exchangeable it is split conformal prediction, with its level. Where they drift it lags
    behind, nothing corrects it, and nothing is promised: the yardstick for methods that look at their misses.

    >>> import numpy as np
    >>> import guardband as gb
    >>> tracker = gb.streams.RollingWindow(window=9).start(np.arange(1.0, 10.0), level=0.9)
    >>> tracker.threshold
    9.0
    """

    window: int | None = None

    def __post_init__(self) -> None:
        positive(self.window, "window", whole=True)

    def start(self, scores: np.ndarray, level: Fraction | float) -> RollingTracker:
        """Begin with the last of the calibration scores."""
        return RollingTracker(LastScores(scores, window_of(self.window, level)), level)

    def bound(self, level: Fraction | float, steps: int) -> float | None:
        """None: under drift there is none."""
        return None

    def promise(self, level: Fraction | float) -> str:
        """Coverage of exchangeable scores only."""
        size = window_of(self.window, level)
        return (
            f"If the last {size} scores and the next one are exchangeable, the next reading lies in its band "
            "with probability at least the level. Under drift nothing is promised, not even in the long run."
        )


class RollingTracker(Tracker):
    """The last scores."""

    last: LastScores
    level: Fraction | float
    _rank: int

    def __init__(self, last: LastScores, level: Fraction | float) -> None:
        self.last, self.level = last, level
        self._rank = rank(last.size, level)

    @property
    def threshold(self) -> float:
        """The k-th smallest; infinite while there are too few."""
        n = len(self.last.ascending)
        k = self._rank if n == self.last.size else math.ceil((n + 1) * Fraction(self.level))
        return self.last.kth(k)

    def update(self, score: float) -> None:
        """The newest score replaces the oldest."""
        self.last.add(score)

    def state(self) -> State:
        """The scores in their order."""
        return {"last": self.last.in_order()}

    def restore(self, state: State) -> None:
        """The same scores."""
        self.last = LastScores(state["last"], self.last.size)
