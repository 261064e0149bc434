"""AdaptiveLevel: the level of the next band rises after a miss and falls slightly otherwise.

Let a_1 = 1 - level, and a_(t+1) = a_t + step (1 - level - missed_t). The threshold at t is the quantile of
the most recent scores at 1 - a_t: infinite if a_t <= 0, and the band is empty if a_t >= 1. Hence a_t stays in
[-step, 1 + step], which bounds the sum of all moves: the share of T readings outside their bands differs from
1 - level by at most (max(level, 1 - level) + step) / (step T), for any readings. (Gibbs and Candes 2021)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.scores import LastScores
from guardband.streams.settings import positive, step_of, window_of


@kept
@dataclass(frozen=True, repr=False)
class AdaptiveLevel(StreamMethod):
    """Adaptive conformal inference with a fixed step, the default method of streams.

    Parameters
    ----------
    step
        Change of the level per reading, by default (1 - level) / 20. A large step follows drift quickly, but
        makes widths unsteady and some bands infinite; a small step lags behind.
    window
        Number of most recent scores whose quantile is the threshold, by default 20 / (1 - level).

    Notes
    -----
    The share of misses is bounded for any sequence of scores, which need not be bounded (`bound`).

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> tracker = gb.streams.AdaptiveLevel(step=0.05).start(np.arange(1.0, 20.0), level=0.9)
    >>> before = tracker.threshold
    >>> tracker.update(100.0)  # a miss raises the level of the next band
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
                f"`step` should be below 1, got {self.step}, since the level moves by it. Try 0.005."
            )

    def start(self, scores: np.ndarray, level: Fraction | float) -> AdaptiveTracker:
        """Start at the requested level with the most recent calibration scores."""
        last = LastScores(scores, window_of(self.window, level))
        return AdaptiveTracker(last, float(1 - Fraction(level)), step_of(self.step, level))

    def bound(self, level: Fraction | float, steps: int) -> float:
        """The bound (max(level, 1 - level) + step) / (step T)."""
        step, share = step_of(self.step, level), float(level)
        return (max(share, 1 - share) + step) / (step * steps)

    def promise(self, level: Fraction | float) -> str:
        """A sentence on the long-run share of misses, for any readings."""
        step, share = step_of(self.step, level), float(level)
        return (
            "Among T consecutive readings, whatever they are, the share outside their bands differs from "
            f"{1 - share:g} by at most {(max(share, 1 - share) + step) / step:.4g} / T. Some bands may be "
            "infinite or empty. This is a long-run frequency, not a probability for a single reading."
        )


class AdaptiveTracker(Tracker):
    """The most recent scores, and the current a_t."""

    last: LastScores
    target: float
    step: float
    alpha: float

    def __init__(self, last: LastScores, target: float, step: float) -> None:
        self.last, self.target, self.step = last, target, step
        self.alpha = target

    @property
    def threshold(self) -> float:
        """The quantile of the most recent scores at the current level 1 - a_t."""
        return self.last.kth(math.ceil((len(self.last.ascending) + 1) * (1 - self.alpha) - 1e-9))

    def update(self, score: float) -> None:
        """Lower a_t after a miss, raise it after a hit, and add the score to the window."""
        self.alpha += self.step * (self.target - (score > self.threshold))
        self.last.add(score)

    def state(self) -> State:
        """The scores in order of arrival, and a_t under the name that snapshots use."""
        return {"last": self.last.in_order(), "asked": self.alpha}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self.last = LastScores(state["last"], self.last.size)
        self.alpha = float(state["asked"])
