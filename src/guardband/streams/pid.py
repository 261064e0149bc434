"""ConformalPID: a forecast of the quantile, a correction by misses, and an integrator that saturates.

q_t = forecast + proportional + integral. The forecast is the quantile of the last scores. The proportional
part moves by step unit (missed - (1 - level)). The integral part is unit gain tan(pi/2 E/saturation), where E
is the sum of missed - (1 - level) so far: at E >= saturation the band is infinite, at E <= -saturation empty.
So |E| never exceeds saturation + 1, whatever the scores and however bad the other two parts are: of T
readings the share outside differs from 1 - level by at most (saturation + 1) / T. (Angelopoulos, Candes and
Tibshirani 2023, with a saturation that does not grow)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from guardband.base.kept import kept
from guardband.streams.base import State, StreamMethod, Tracker
from guardband.streams.settings import positive
from guardband.streams.window import LastScores


@kept
@dataclass(frozen=True, repr=False)
class ConformalPID(StreamMethod):
    """Conformal PID control: the strongest bound in the long run, and a width that has to follow it.

    `step` and `gain` are shares of the size of the last `window` scores. A small `saturation` keeps the
    number of misses within so many of what it should be, at any time, and makes bands restless.

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
        """Begin with the last of the calibration scores."""
        return PIDTracker(LastScores(scores[np.isfinite(scores)], self.window), Fraction(level), self)

    def bound(self, level: Fraction | float, steps: int) -> float:
        """(saturation + 1) / T."""
        return (self.saturation + 1) / steps

    def promise(self, level: Fraction | float) -> str:
        """A frequency in the long run, for any readings."""
        return (
            "Of T readings that come one after the other, whatever they are, the share outside their bands "
            f"differs from {1 - float(level):g} by at most {self.saturation + 1:g} / T. A band may be "
            "infinite or empty for this now and then. This is a frequency in the long run, no probability "
            "for a single reading."
        )


class PIDTracker(Tracker):
    """The last scores, and by how much more was missed than should be."""

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
        """Forecast, proportional part and integral part together."""
        load = self.excess / self.method.saturation
        if abs(load) >= 1:
            return math.copysign(math.inf, load)
        integral = self.method.gain * self._unit * math.tan(math.pi / 2 * load)
        return self._forecast + self.correction + integral

    def update(self, score: float) -> None:
        """Count the miss, correct by it, and let the score count among the last."""
        off = (score > self.threshold) - (1 - self.level)
        self.correction += self.method.step * self._unit * off
        self.excess += off
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
        """The scores in their order, the correction, and the excess of misses."""
        return {"last": self.last.in_order(), "correction": self.correction, "excess": self.excess}

    def restore(self, state: State) -> None:
        """The same."""
        self.last = LastScores(state["last"], self.last.size)
        self.correction, self.excess = float(state["correction"]), float(state["excess"])
