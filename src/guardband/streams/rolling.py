"""RollingWindow: the quantile of the most recent scores, as a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.conformal.rank import rank
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.scores import LastScores
from guardband.streams.settings import positive, window_of


@kept
@dataclass(frozen=True, repr=False)
class RollingWindow(StreamMethod):
    """The exact conformal quantile of the most recent scores: the baseline for methods that react to misses.

    For exchangeable scores this is split conformal prediction, with its guarantee. Under drift it lags, and
    there is no guarantee.

    Parameters
    ----------
    window
        Number of most recent scores, by default 20 / (1 - level).

    Examples
    --------
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
        """Start with the most recent calibration scores."""
        return RollingTracker(LastScores(scores, window_of(self.window, level)), level)

    def bound(self, level: Fraction | float, steps: int) -> float | None:
        """None, since there is no bound under drift."""
        return None

    def promise(self, level: Fraction | float) -> str:
        """A sentence on the coverage of exchangeable scores."""
        size = window_of(self.window, level)
        return (
            f"If the last {size} scores and the next one are exchangeable, the next reading lies in its band "
            "with probability at least the level. Under drift there is no guarantee, even in the long run."
        )


class RollingTracker(Tracker):
    """The most recent scores."""

    last: LastScores
    level: Fraction | float
    _rank: int

    def __init__(self, last: LastScores, level: Fraction | float) -> None:
        self.last, self.level = last, level
        self._rank = rank(last.size, level)

    @property
    def threshold(self) -> float:
        """The k-th smallest score, infinite while there are too few."""
        n = len(self.last.ascending)
        k = self._rank if n == self.last.size else math.ceil((n + 1) * Fraction(self.level))
        return self.last.kth(k)

    def update(self, score: float) -> None:
        """Replace the oldest score by the newest."""
        self.last.add(score)

    def state(self) -> State:
        """The scores in order of arrival."""
        return {"last": self.last.in_order()}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self.last = LastScores(state["last"], self.last.size)
