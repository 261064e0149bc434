"""`RiskControl`: a bound on the expected loss rather than on the probability of a miss.

A loss measures the harm that a target y causes for a given band. It must not increase as the band grows, and
it must be right-continuous in the threshold q. Let R(q) be the mean loss of n calibration points at threshold
q, and B an upper bound of the loss. The method takes the smallest q with (n R(q) + B) / (n + 1) <= 1 - level.
The expected loss of a new point is then at most 1 - level: the unseen point is counted with the largest
possible loss. (Angelopoulos, Bates, Fisch, Lei and Schuster 2024)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from guardband.base.arrays import Array, flat, kind_of, rows, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, no_confidence, no_groups
from guardband.conformal.rank import Level, checked_scores, exact, warn_infinite
from guardband.conformal.scores import Score
from guardband.values import Band, Prediction, Predictor

Loss: TypeAlias = Callable[[Band, Array], Array]
"""The loss of each row of y (n, ...) given its band: (n,) numbers between 0 and a known maximum."""

HALVINGS = 60
"""Number of bisection steps, enough for the full precision of a float."""


@kept
@dataclass(frozen=True)
class ShareOutside:
    """The share of the values in a row (its outputs, or the nodes of a field) that lie outside the band.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> band = gb.Band(None, [[0.0, 0.0]], [[-1.0, -1.0]], [[1.0, 1.0]], level=0.9)
    >>> gb.conformal.ShareOutside()(band, np.array([[0.5, 3.0]]))
    array([0.5])
    """

    def __call__(self, band: Band, y: Array) -> np.ndarray:
        """Return the share for each row."""
        y = to_numpy(kind_of(band.mean, rows(y, "y")))
        inside = (to_numpy(band.lower) <= y) & (y <= to_numpy(band.upper))
        return 1 - flat(inside).mean(axis=-1)


@kept
@dataclass(frozen=True, eq=False)
class RiskControl(Calibrator):
    """Conformal risk control: the expected loss of a new point is at most 1 - level.

    Use it to bound an average loss, such as the share of a field's nodes outside the band. The guarantee is
    weaker than containing the whole field, and the band is much narrower. Use `Split()` to bound the
    probability that a single measurement is missed.

    Parameters
    ----------
    loss
        A function `loss(band, y)` that returns one number per row, between 0 and `largest` at every point,
        including new points. It must not increase as the band grows, must be right-continuous in the
        threshold (a value at the end of the band counts as inside), and must be 0 for an infinite band. The
        default is the share of values outside the band. Another example is a bounded cost such as
        min(distance / 0.1, 1).
    largest
        Upper bound of the loss.
    targets
        Calibration targets; set by the calibration.
    score
        The score whose bands are evaluated; set by the calibration.

    Notes
    -----
    The band needs largest / (1 - level) - 1 calibration points. At the calibration points, a loss above
    `largest`, one that increases between nine thresholds, and one that is not 0 for an infinite band are
    refused. The remaining conditions are not checked. A user-defined loss is passed again when loading:
    `gb.load(folder, loss=...)`.

    Examples
    --------
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
                f"`largest` should be an upper bound of the loss, a positive number, got {self.largest}. "
                "An unbounded loss can be clipped: np.minimum(loss, 1)."
            )

    @property
    def promise(self) -> str:
        """The bound on the expected loss."""
        return (
            "If the calibration points and a new point are exchangeable (sampled in the same way, in the "
            f"same region and with the same noise), and the loss {_loss_name(self.loss)} never increases "
            f"as the band grows, is right-continuous in the threshold, lies between 0 and {self.largest:g} "
            "at every point, including new ones, and is 0 for an infinite band, the expected loss of a new "
            "measurement is at most 1 - level. Nothing is promised about how often a measurement lies "
            "entirely inside the band."
        )

    def promised(self, level: Level) -> None:
        """Return None: no coverage probability is guaranteed."""
        return None

    def prepared(self, prediction: Prediction, y: Array) -> tuple[Prediction, Array, RiskControl]:
        """Return the same calibrator with the targets, from which losses are computed."""
        return prediction, y, replace(self, targets=y)

    def learn(self, predictor: Predictor | None, score: Score) -> RiskControl:
        """Return the same calibrator with the score, whose bands are evaluated."""
        return replace(self, score=score)

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> RiskThreshold:
        """Return the threshold, after checks that losses do not increase and vanish for infinite bands."""
        no_groups(groups, "RiskControl()", "it treats all points in the same way.")
        no_confidence(confidence, "RiskControl()")
        if self.targets is None or self.score is None:
            raise ValueError("RiskControl() needs the targets. Calibrate with `gb.calibrate`, on points.")
        threshold = RiskThreshold(np.sort(checked_scores(scores)), prediction, self.targets, self)
        threshold.refuse_increasing()
        threshold.refuse_unavoidable()
        return threshold


@dataclass(frozen=True, eq=False)
class RiskThreshold(Threshold):
    """The sorted scores, and the calibration points at which losses are computed."""

    scores: np.ndarray
    prediction: Prediction
    targets: Array
    risk: RiskControl

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """Return the smallest threshold with sufficiently small losses, by bisection, or infinity."""
        no_groups(groups, "RiskControl()", "it treats all points in the same way.")
        size = self.size(level)
        if size.have < size.need:
            warn_infinite(
                f"an expected loss of {float(1 - exact(level)):g}, of at most {self.risk.largest:g}, needs "
                f"{size.need:g} calibration points, but there are {size.have:g}."
            )
            return math.inf
        finite = self.scores[np.isfinite(self.scores)]
        low, high = min(0.0, float(finite.min(initial=0.0))), float(finite.max(initial=0.0))
        if not self._sufficient(high, level):
            warn_infinite("too many calibration scores are infinite.")
            return math.inf
        if self._sufficient(low, level):
            return low
        for _ in range(HALVINGS):
            middle = low / 2 + high / 2
            low, high = (low, middle) if self._sufficient(middle, level) else (middle, high)
        return high

    def size(self, level: Level) -> Size:
        """Return the number of calibration points; the new point counts with the largest loss."""
        need = math.ceil(Fraction(repr(float(self.risk.largest))) / (1 - exact(level)) - 1)
        return Size(len(self.scores), max(1, need))

    def losses(self, q: float, *, checked: bool = True) -> np.ndarray:
        """The loss of each calibration point at a threshold."""
        assert self.risk.score is not None
        band = self.risk.score.band(self.prediction, q, 0.5)
        losses = np.asarray(to_numpy(self.risk.loss(band, self.targets)), dtype=float)
        if losses.shape != (len(self.scores),):
            raise ValueError(
                f"`loss` should return one number per row, shape ({len(self.scores)},), got {losses.shape}."
            )
        wrong = ~((losses >= 0) & (losses <= self.risk.largest))
        if checked and wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"`loss` should lie between 0 and largest={self.risk.largest:g}, but row {row} has "
                f"loss {losses[row]:g}. Clip it, np.minimum(loss, {self.risk.largest:g}), or pass `largest`."
            )
        return losses

    def refuse_increasing(self) -> None:
        """Raise an error if the loss increases with the band; bisection needs a monotone loss."""
        some = np.unique(np.quantile(self.scores, np.linspace(0, 1, 9), method="lower"))
        before = None
        for q in some[np.isfinite(some)]:
            losses = self.losses(float(q))
            if before is not None and (losses > before + 1e-12 * self.risk.largest).any():
                row = int((losses - before).argmax())
                raise ValueError(
                    f"`loss` should not increase with the band, but that of row {row} rises from "
                    f"{before[row]:g} to {losses[row]:g}. Losses that penalize wide bands are not supported."
                )
            before = losses

    def refuse_unavoidable(self) -> None:
        """Raise an error if the loss of an infinite band is not 0; no band could bound it."""
        with np.errstate(invalid="ignore"):  # inf - inf
            losses = self.losses(math.inf, checked=False)
        wrong = ~(losses <= 1e-12 * self.risk.largest)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"`loss` should be 0 for an infinite band, but row {row} then has loss {losses[row]:g}, so "
                "no band is large enough. Subtract the unavoidable loss. If the loss divides by a width, "
                "return 0 for infinite widths."
            )

    def _sufficient(self, q: float, level: Level) -> bool:
        n = len(self.scores)
        return bool(
            self.losses(q).sum() + self.risk.largest <= (n + 1) * float(1 - exact(level)) * (1 + 1e-12)
        )


def _loss_name(loss: Loss) -> str:
    """The name of a loss in a sentence."""
    return getattr(loss, "__name__", repr(loss))
