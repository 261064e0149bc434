"""AdaptiveLevel: after a miss the next band is asked at a higher level, otherwise at a slightly lower one.

Let a_1 = 1 - level, and a_(t+1) = a_t + step (1 - level - missed_t). The band at t is the quantile of the
last scores at 1 - a_t: infinite where a_t is 0 or less, empty where it is 1 or more. So a_t never leaves
[-step, 1 + step], and the sum of all moves is bounded: of T readings, whatever they are, the share outside
differs from 1 - level by at most (max(level, 1 - level) + step) / (step T). (Gibbs and Candes 2021)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.settings import positive, step_of, window_of
from guardband.streams.window import LastScores


@kept
@dataclass(frozen=True, repr=False)
class AdaptiveLevel(StreamMethod):
    """Adaptive conformal inference over the last `window` scores, with a fixed `step`; the default.

    A large step follows a drift fast, and makes widths restless and bands infinite now and then; a small one
    lags. By default it is (1 - level) / 20, and the window is 20 / (1 - level). Scores need not be bounded.

    >>> import numpy as np
    >>> import guardband as gb
    >>> tracker = gb.streams.AdaptiveLevel(step=0.05).start(np.arange(1.0, 20.0), level=0.9)
    >>> before = tracker.threshold
    >>> tracker.update(100.0)  # a miss: the next band is asked at a higher level
    >>> before, tracker.threshold
    (18.0, 100.0)
    """

    step: float | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        positive(self.step, "step")
        positive(self.window, "window", whole=True)
        if self.step is not None and self.step >= 1:
            raise ValueError(
                f"`step` should be below 1, since levels move by it, got {self.step}. Try 0.005."
            )

    def start(self, scores: np.ndarray, level: Fraction | float) -> AdaptiveTracker:
        """Begin at the level asked, with the last of the calibration scores."""
        last = LastScores(scores, window_of(self.window, level))
        return AdaptiveTracker(last, float(1 - Fraction(level)), step_of(self.step, level))

    def bound(self, level: Fraction | float, steps: int) -> float:
        """(max(level, 1 - level) + step) / (step T)."""
        step, share = step_of(self.step, level), float(level)
        return (max(share, 1 - share) + step) / (step * steps)

    def promise(self, level: Fraction | float) -> str:
        """A frequency in the long run, for any readings."""
        step, share = step_of(self.step, level), float(level)
        return (
            "Of T readings that come one after the other, whatever they are, the share outside their bands "
            f"differs from {1 - share:g} by at most {(max(share, 1 - share) + step) / step:.4g} / T. A band "
            "may be infinite or empty for this now and then. This is a frequency in the long run, no "
            "probability for a single reading."
        )


class AdaptiveTracker(Tracker):
    """The last scores, and how much may be missed at the moment."""

    last: LastScores
    target: float
    step: float
    asked: float

    def __init__(self, last: LastScores, target: float, step: float) -> None:
        self.last, self.target, self.step = last, target, step
        self.asked = target

    @property
    def threshold(self) -> float:
        """The quantile of the last scores at the level of the moment."""
        return self.last.kth(math.ceil((len(self.last.ascending) + 1) * (1 - self.asked) - 1e-9))

    def update(self, score: float) -> None:
        """Less may be missed after a miss, more after a hit; then the score counts among the last."""
        self.asked += self.step * (self.target - (score > self.threshold))
        self.last.add(score)

    def state(self) -> State:
        """The scores in their order, and the level of the moment."""
        return {"last": self.last.in_order(), "asked": self.asked}

    def restore(self, state: State) -> None:
        """The same."""
        self.last = LastScores(state["last"], self.last.size)
        self.asked = float(state["asked"])
