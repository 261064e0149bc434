"""RiskControl: not how often a reading is missed, but how much is lost on average.

A loss says how bad it is that y lies where it does, given a band. It never rises as the band grows, and it is
right-continuous in the threshold q. With n calibration points, of mean loss R(q) at threshold q, and no loss
above B, take the smallest q with (n R(q) + B) / (n + 1) <= 1 - level. The expected loss of a new point is
then at most 1 - level: the one point that is not yet seen is counted as if it lost all. (Angelopoulos, Bates,
Fisch, Lei and Schuster 2024)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from guardband.base.arrays import Array, flat, kind_of, rows, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, no_confidence, no_groups
from guardband.conformal.rank import Level, checked, exact, warn_infinite
from guardband.conformal.scores import Score
from guardband.values import Band, Prediction, Predictor

Loss: TypeAlias = Callable[[Band, Array], Array]
"""What each row of y (n, ...) loses, given its band: (n,) numbers, from 0 to a known largest one."""

HALVINGS = 60
"""How often the range of thresholds is halved: to the last digits of a float."""


@kept
@dataclass(frozen=True)
class ShareOutside:
    """The share of a row's values that lie outside of the band: of its outputs, or of a field's nodes.

    >>> import numpy as np
    >>> import guardband as gb
    >>> band = gb.Band(None, [[0.0, 0.0]], [[-1.0, -1.0]], [[1.0, 1.0]], level=0.9)
    >>> gb.conformal.ShareOutside()(band, np.array([[0.5, 3.0]]))
    array([0.5])
    """

    def __call__(self, band: Band, y: Array) -> np.ndarray:
        """The share in each row."""
        y = to_numpy(kind_of(band.mean, rows(y, "y")))
        inside = (to_numpy(band.lower) <= y) & (y <= to_numpy(band.upper))
        return 1 - flat(inside).mean(axis=-1)


@kept
@dataclass(frozen=True, eq=False)
class RiskControl(Calibrator):
    """Conformal risk control: the expected loss of a new point is at most 1 - level.

    `loss(band, y)` gives a number per row, from 0 to `largest` at every point, new ones too. It never rises
    as the band grows, and it is right-continuous in the threshold: a value at the end of the band counts as
    inside. At the calibration points a loss that is larger, that rises between nine thresholds, or that is
    not 0 for an infinite band is refused; the rest you vouch for. By default it is the share of values
    outside: "at 90 %, a tenth of a field's nodes lie outside on average" is a weaker promise than that a
    field lies wholly inside, and a much narrower band. A bounded cost, such as min(distance / 0.1, 1), is
    another. A function of your own is passed again at load: `gb.load(folder, loss=...)`. It needs
    largest / (1 - level) - 1 points. Not for those who have to know how often a single reading is missed:
    that is `Split()`.

    >>> import numpy as np
    >>> import guardband as gb
    >>> y = np.random.default_rng(0).normal(size=(200, 10))  # ten outputs
    >>> at = gb.Prediction(None, np.zeros((1, 10)))
    >>> risk, split = (
    ...     gb.calibrate_arrays(np.zeros((200, 10)), y, calibrator=c).band(at, level=0.9)
    ...     for c in (gb.RiskControl(), gb.Split())
    ... )
    >>> # a tenth of the outputs, or any of them
    >>> risk.upper[0, 0].round(1), split.upper[0, 0].round(1)
    (np.float64(1.6), np.float64(2.6))
    """

    loss: Loss = field(default_factory=ShareOutside)
    largest: float = 1.0
    targets: Array | None = field(default=None, repr=False)
    score: Score | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise TypeError(f"`loss` should be a function (band, y) -> (n,) numbers, got {self.loss!r}.")
        if not 0 < self.largest < math.inf:
            raise ValueError(
                f"`largest` should be the largest loss there can be, a positive number, got {self.largest}. "
                "A loss without a bound can be cut: np.minimum(loss, 1)."
            )

    @property
    def promise(self) -> str:
        """A bound on the expected loss."""
        return (
            "If the calibration points and a new point are exchangeable (drawn alike, from the same places "
            f"with the same noise), and the loss {_named(self.loss)} never rises as the band grows, is "
            f"right-continuous in the threshold, lies between 0 and {self.largest:g} at every point, new "
            "ones too, and is 0 for an infinite band, the expected loss of a new measurement is at most "
            "1 - level. Nothing is promised of how often a "
            "measurement lies wholly inside the band."
        )

    def promised(self, level: Level) -> None:
        """None: no probability of lying inside is promised."""
        return None

    def prepared(self, prediction: Prediction, y: Array) -> tuple[Prediction, Array, RiskControl]:
        """The same with the targets, which losses are computed from."""
        return prediction, y, replace(self, targets=y)

    def learn(self, predictor: Predictor | None, score: Score) -> RiskControl:
        """The same with the score, whose bands are judged."""
        return replace(self, score=score)

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> RiskThreshold:
        """Losses at every threshold are a call away; checked is that they fall, to 0 for infinite bands."""
        no_groups(groups, "RiskControl()", "it treats all points alike.")
        no_confidence(confidence, "RiskControl()")
        if self.targets is None or self.score is None:
            raise ValueError("RiskControl() needs the targets: calibrate by `gb.calibrate`, on points.")
        made = RiskThreshold(np.sort(checked(scores)), prediction, self.targets, self)
        made.refuse_growing()
        made.refuse_more_than_nothing()
        return made


@dataclass(frozen=True, eq=False)
class RiskThreshold(Threshold):
    """The sorted scores, and the points whose losses are counted."""

    scores: np.ndarray
    prediction: Prediction
    targets: Array
    risk: RiskControl

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """The smallest threshold whose losses are small enough, by halving; infinite if n is too small."""
        no_groups(groups, "RiskControl()", "it treats all points alike.")
        size = self.size(level)
        if size.have < size.need:
            warn_infinite(
                f"an expected loss of {float(1 - exact(level)):g}, of at most {self.risk.largest:g}, needs "
                f"{size.need:g} calibration points, there are {size.have:g}."
            )
            return math.inf
        finite = self.scores[np.isfinite(self.scores)]
        low, high = min(0.0, float(finite.min(initial=0.0))), float(finite.max(initial=0.0))
        if not self._enough(high, level):
            warn_infinite("too many calibration scores are infinite.")
            return math.inf
        if self._enough(low, level):
            return low
        for _ in range(HALVINGS):
            middle = low / 2 + high / 2
            low, high = (low, middle) if self._enough(middle, level) else (middle, high)
        return high

    def size(self, level: Level) -> Size:
        """Each point counts as one, and the new one as if it lost all."""
        need = math.ceil(Fraction(repr(float(self.risk.largest))) / (1 - exact(level)) - 1)
        return Size(len(self.scores), max(1, need))

    def losses(self, q: float, *, checked: bool = True) -> np.ndarray:
        """What each calibration point loses at a threshold."""
        assert self.risk.score is not None
        band = self.risk.score.band(self.prediction, q, 0.5)
        losses = np.asarray(to_numpy(self.risk.loss(band, self.targets)), dtype=float)
        if losses.shape != (len(self.scores),):
            raise ValueError(
                f"`loss` should give one number per row, ({len(self.scores)},), got shape {losses.shape}."
            )
        wrong = ~((losses >= 0) & (losses <= self.risk.largest))
        if checked and wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"`loss` should lie between 0 and largest={self.risk.largest:g}, but row {row} loses "
                f"{losses[row]:g}. Cut it, np.minimum(loss, {self.risk.largest:g}), or give a `largest`."
            )
        return losses

    def refuse_growing(self) -> None:
        """A loss that grows with the band anywhere has no smallest band that is good enough."""
        some = np.unique(np.quantile(self.scores, np.linspace(0, 1, 9), method="lower"))
        before = None
        for q in some[np.isfinite(some)]:
            losses = self.losses(float(q))
            if before is not None and (losses > before + 1e-12 * self.risk.largest).any():
                row = int((losses - before).argmax())
                raise ValueError(
                    f"`loss` should fall as the band grows, but that of row {row} rises from {before[row]:g} "
                    f"to {losses[row]:g}. Losses that punish wide bands have no place here."
                )
            before = losses

    def refuse_more_than_nothing(self) -> None:
        """A loss that an infinite band does not take to 0 cannot be bounded by any band."""
        with np.errstate(invalid="ignore"):  # infinity less infinity
            losses = self.losses(math.inf, checked=False)
        wrong = ~(losses <= 1e-12 * self.risk.largest)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"`loss` should be 0 where the band is infinite, but row {row} loses {losses[row]:g} there: "
                "no band would be large enough. Subtract what is lost anyway; where a width divides, return "
                "0 for infinite ones."
            )

    def _enough(self, q: float, level: Level) -> bool:
        n = len(self.scores)
        return bool(
            self.losses(q).sum() + self.risk.largest <= (n + 1) * float(1 - exact(level)) * (1 + 1e-12)
        )


def _named(loss: Any) -> str:
    """A loss in a sentence."""
    return getattr(loss, "__name__", repr(loss))
