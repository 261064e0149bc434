"""DecayingSteps: the threshold itself moves, up after a miss and down otherwise, by steps that shrink.

q_(t+1) = q_t + step_t (missed_t - (1 - level)), with step_t = step unit t^(-power). If all scores, those of
the calibration included, lie between two numbers that are `range` apart, the share of misses among any T
readings differs from 1 - level by at most (range + step_1) / (step_T T). If they are drawn independently from
one law, q also settles down at the true quantile, which fixed steps never do. (Angelopoulos, Barber and
Bates 2024)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.conformal.rank import rank
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.settings import positive
from guardband.streams.window import LastScores


@kept
@dataclass(frozen=True, repr=False)
class DecayingSteps(StreamMethod):
    """Quantile tracking with steps `step` t^-`power`, in units of the calibration scores.

    For long streams that hardly drift: the width becomes steady. After many steps it follows a change slowly.
    It needs bounded scores, and its threshold is never infinite. A `power` in (1/2, 1) is what the theorem
    for independent readings asks for; the bound for any readings holds for every power below 1.

    >>> import numpy as np
    >>> import guardband as gb
    >>> tracker = gb.streams.DecayingSteps(step=1.0).start(np.arange(1.0, 20.0), level=0.9)
    >>> before = tracker.threshold
    >>> tracker.update(100.0)
    >>> before, round(tracker.threshold, 6)
    (18.0, 34.2)
    """

    step: float = 0.5
    power: float = 0.6

    def __post_init__(self) -> None:
        positive(self.step, "step")
        if not 0 < self.power < 1:
            raise ValueError(f"`power` should lie strictly between 0 and 1, got {self.power}. Try 0.6.")

    def start(self, scores: np.ndarray, level: Fraction | float) -> DecayingTracker:
        """Begin at the quantile of the calibration scores, whose size is the unit of the steps."""
        n = len(scores)
        last = LastScores(scores, max(n, 1))
        at = last.kth(min(n, rank(n, level))) if n else 0.0
        if not np.isfinite(at):
            raise ValueError(
                "DecayingSteps() moves a number up and down, and here too many calibration scores are "
                "infinite. Use AdaptiveLevel(), which looks at ranks alone."
            )
        unit = abs(at) or float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0)) or 1.0
        return DecayingTracker(at, float(1 - Fraction(level)), self.step * unit, self.power)

    def bound(self, level: Fraction | float, steps: int) -> None:
        """None without the range of the scores: it is (range + step_1) / (step_T T)."""
        return None

    def promise(self, level: Fraction | float) -> str:
        """A frequency in the long run, for bounded scores."""
        return (
            "If all scores, those of the calibration included, lie within a bounded range, the share of T "
            f"readings outside their bands differs from {1 - float(level):g} by at most (range + first step) "
            "/ (last step T), where the step falls as "
            f"T^-{self.power:g}. If readings are moreover drawn independently from one law, the "
            "threshold converges to the true one. This is no probability for a single reading."
        )


class DecayingTracker(Tracker):
    """The threshold, and how many steps it has made."""

    at: float
    target: float
    step: float
    power: float
    made: int

    def __init__(self, at: float, target: float, step: float, power: float) -> None:
        self.at, self.target, self.step, self.power = at, target, step, power
        self.made = 0

    @property
    def threshold(self) -> float:
        """The number that moves."""
        return self.at

    def update(self, score: float) -> None:
        """Up after a miss, down otherwise."""
        self.made += 1
        self.at += self.step * self.made**-self.power * ((score > self.at) - self.target)

    def state(self) -> State:
        """The threshold, the unit of its steps, and their number."""
        return {"at": self.at, "step": self.step, "made": self.made}

    def restore(self, state: State) -> None:
        """The same."""
        self.at, self.step, self.made = float(state["at"]), float(state["step"]), int(state["made"])
