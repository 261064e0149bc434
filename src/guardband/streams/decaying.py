"""DecayingSteps: the threshold moves up after a miss and down otherwise, by decreasing steps.

q_(t+1) = q_t + step_t (missed_t - (1 - level)), with step_t = step unit t^(-power). If all scores, including
those of the calibration, lie in an interval of length `range`, the share of misses among T readings differs
from 1 - level by at most (range + step_1) / (step_T T). If the scores are independent and identically
distributed, q also converges to the true quantile, unlike with fixed steps. (Angelopoulos, Barber and Bates
2024)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.conformal.rank import rank
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.scores import LastScores
from guardband.streams.settings import positive


@kept
@dataclass(frozen=True, repr=False)
class DecayingSteps(StreamMethod):
    """Quantile tracking with decaying steps, for long streams that hardly drift.

    The width becomes steady, but after many steps the threshold follows a change only slowly. Scores must be
    bounded, and the threshold is always finite.

    Parameters
    ----------
    step
        Size of the first step, relative to the quantile of the calibration scores.
    power
        Exponent of the decay: step t is proportional to t^-power. The theorem for independent readings
        requires a power between 1/2 and 1; the bound for any readings holds for every power below 1.

    Examples
    --------
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
        """Start at the quantile of the calibration scores, which is also the unit of the steps."""
        n = len(scores)
        last = LastScores(scores, max(n, 1))
        q = last.kth(min(n, rank(n, level))) if n else 0.0
        if not np.isfinite(q):
            raise ValueError(
                "DecayingSteps() moves a finite threshold up and down, but too many calibration scores are "
                "infinite. Use AdaptiveLevel(), which uses only ranks."
            )
        unit = abs(q) or float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0)) or 1.0
        return DecayingTracker(q, float(1 - Fraction(level)), self.step * unit, self.power)

    def bound(self, level: Fraction | float, steps: int) -> None:
        """None, since the bound (range + step_1) / (step_T T) needs the range of the scores."""
        return None

    def promise(self, level: Fraction | float) -> str:
        """A sentence on the long-run share of misses, for bounded scores."""
        return (
            "If all scores, those of the calibration included, lie within a bounded range, the share of T "
            f"readings outside their bands differs from {1 - float(level):g} by at most (range + first step) "
            "/ (last step T), where the step falls as "
            f"T^-{self.power:g}. If readings are also independent and identically distributed, the "
            "threshold converges to the true quantile. This is not a probability for a single reading."
        )


class DecayingTracker(Tracker):
    """The threshold, and the number of its steps."""

    q: float
    target: float
    step: float
    power: float
    steps: int

    def __init__(self, q: float, target: float, step: float, power: float) -> None:
        self.q, self.target, self.step, self.power = q, target, step, power
        self.steps = 0

    @property
    def threshold(self) -> float:
        """The current threshold."""
        return self.q

    def update(self, score: float) -> None:
        """Move up after a miss, down otherwise."""
        self.steps += 1
        self.q += self.step * self.steps**-self.power * ((score > self.q) - self.target)

    def state(self) -> State:
        """The threshold, the unit of its steps, and their number, under the names that snapshots use."""
        return {"at": self.q, "step": self.step, "made": self.steps}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self.q, self.step, self.steps = float(state["at"]), float(state["step"]), int(state["made"])
