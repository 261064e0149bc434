"""ConformalPID: a forecast of the quantile, a proportional correction, and an integrator that saturates.

q_t = forecast + proportional + integral. The forecast is the quantile of the most recent scores. The
proportional part moves by step unit (missed - (1 - level)). The integral part is unit gain tan(pi/2
E/saturation), where E is the sum of missed - (1 - level): if E >= saturation the band is infinite, if E <=
-saturation it is empty. Hence |E| <= saturation + 1 for any scores and for any values of the other two parts,
and the share of T readings outside their bands differs from 1 - level by at most (saturation + 1) / T.
(Angelopoulos, Candes and Tibshirani 2023, with a constant saturation)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.scores import LastScores
from guardband.streams.settings import positive


@kept
@dataclass(frozen=True, repr=False)
class ConformalPID(StreamMethod):
    """Conformal PID control: the strongest long-run bound, at the price of less steady widths.

    Parameters
    ----------
    step
        Proportional gain, relative to the quantile of the most recent scores.
    gain
        Integral gain, relative to the quantile of the most recent scores.
    saturation
        Excess or deficit of misses at which the band becomes infinite or empty. A small value bounds the
        excess tightly and makes the widths unsteady.
    window
        Number of most recent scores whose quantile is the forecast.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.streams.ConformalPID().bound(0.9, 1000)
    0.031
    """

    step: float = 0.02
    gain: float = 1.0
    saturation: float = 30.0
    window: int = 300

    def __post_init__(self) -> None:
        for name in ("step", "gain", "saturation"):
            positive(getattr(self, name), name)
        positive(self.window, "window", whole=True)
        if self.saturation < 1:
            raise ValueError(
                f"`saturation` should be at least 1, a single miss, got {self.saturation}. Try 30."
            )

    def start(self, scores: np.ndarray, level: Fraction | float) -> PIDTracker:
        """Start with the most recent calibration scores."""
        return PIDTracker(LastScores(scores[np.isfinite(scores)], self.window), Fraction(level), self)

    def bound(self, level: Fraction | float, steps: int) -> float:
        """The bound (saturation + 1) / T."""
        return (self.saturation + 1) / steps

    def promise(self, level: Fraction | float) -> str:
        """A sentence on the long-run share of misses, for any readings."""
        return (
            "Among T consecutive readings, whatever they are, the share outside their bands differs from "
            f"{1 - float(level):g} by at most {self.saturation + 1:g} / T. Some bands may be infinite or "
            "empty. This is a long-run frequency, not a probability for a single reading."
        )


class PIDTracker(Tracker):
    """The most recent scores, the excess of misses over the expected number, and the correction."""

    last: LastScores
    level: float
    method: ConformalPID
    excess: float
    correction: float

    def __init__(self, last: LastScores, level: Fraction, method: ConformalPID) -> None:
        self.last, self.level, self.method = last, float(level), method
        self.excess, self.correction = 0.0, 0.0

    @property
    def threshold(self) -> float:
        """The sum of forecast, proportional part and integral part."""
        load = self.excess / self.method.saturation
        if abs(load) >= 1:
            return math.copysign(math.inf, load)
        integral = self.method.gain * self._unit * math.tan(math.pi / 2 * load)
        return self._forecast + self.correction + integral

    def update(self, score: float) -> None:
        """Update correction and excess, and add the score to the window."""
        surplus = (score > self.threshold) - (1 - self.level)
        self.correction += self.method.step * self._unit * surplus
        self.excess += surplus
        if math.isfinite(score):
            self.last.add(score)

    @property
    def _forecast(self) -> float:
        n = len(self.last.ascending)
        return self.last.kth(min(n, math.ceil((n + 1) * self.level - 1e-9))) if n else 0.0

    @property
    def _unit(self) -> float:
        return abs(self._forecast) or 1.0

    def state(self) -> State:
        """The scores in order of arrival, the correction, and the excess of misses."""
        return {"last": self.last.in_order(), "correction": self.correction, "excess": self.excess}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self.last = LastScores(state["last"], self.last.size)
        self.correction, self.excess = float(state["correction"]), float(state["excess"])
