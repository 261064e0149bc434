"""Conformalized quantile regression: calibration of a model that predicts a lower and an upper quantile.

The score is the distance of y from the interval between the two quantiles, negative inside. The set moves
both ends by the threshold. With one threshold for both ends, the law of coverage is that of the calibrator.
With one threshold for each end, each allows half of the miscoverage, and only a bound is known. (Romano,
Patterson and Candes 2019)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from guardband.base.arrays import Array, ArrayLike, finite, flat, kind_of, like, namespace, rows, to_numpy
from guardband.base.computed import computed
from guardband.base.kept import kept
from guardband.conformal.base import Learned, Size, Threshold, Traits, traits_of
from guardband.conformal.rank import Level, half_miscoverage
from guardband.conformal.scores import SPREAD_RATIO, ULPS, Score
from guardband.values import MODEL, Band, Observations, Prediction


@kept
@dataclass(frozen=True, eq=False, init=False, repr=False)
class QuantilePrediction(Prediction):
    """The prediction of a quantile model: lower and upper ends and a mean.

    The ends are used unchanged. They need not be accurate and may cross, which `crossed` reports. The default
    score for such predictions is `CQR()`.

    Parameters
    ----------
    x
        Points, shape (n, d), or None.
    lower
        Lower quantile, shape (n, m).
    upper
        Upper quantile, shape (n, m).
    mean
        Point prediction, shape (n, m); by default the midpoint of the two ends.

    Examples
    --------
    >>> import guardband as gb
    >>> prediction = gb.conformal.QuantilePrediction(
    ...     None, lower=[0.0, 5.0], upper=[2.0, 4.0]
    ... )
    >>> prediction
    QuantilePrediction(2 points, ends (2, 1), 1 of them crossed)
    >>> prediction.mean.ravel()
    array([1. , 4.5])
    """

    lower: Array = None
    upper: Array = None
    scale: None = field(default=None, init=False)

    def __init__(
        self, x: ArrayLike | None, lower: ArrayLike, upper: ArrayLike, mean: ArrayLike | None = None
    ) -> None:
        lower = finite(rows(lower, "lower"), "lower", MODEL)
        upper = finite(like(lower, rows(upper, "upper")), "upper", MODEL)
        middle = lower / 2 + upper / 2 if mean is None else finite(rows(mean, "mean"), "mean", MODEL)
        for name, part in (("upper", upper), ("mean", middle)):
            if part.shape != lower.shape:
                raise ValueError(
                    f"`{name}` should have the shape of `lower`, {tuple(lower.shape)}, got "
                    f"{tuple(part.shape)}."
                )
        x = None if x is None else kind_of(lower, rows(x, "x"))
        if x is not None and len(x) != len(lower):
            raise ValueError(
                f"`x` and `lower` should have the same number of rows, got {len(x)} and {len(lower)}."
            )
        vars(self).update(x=x, mean=like(lower, middle), lower=lower, upper=upper)

    @property
    def crossed(self) -> np.ndarray:
        """Whether the lower end exceeds the upper end in any output: booleans (n,)."""
        return flat(to_numpy(self.lower > self.upper)).any(axis=-1)

    @property
    def own_score(self) -> CQR:
        """The default score, `CQR()`."""
        return CQR()

    def __repr__(self) -> str:
        crossed = int(self.crossed.sum())
        note = f", {crossed} of them crossed" if crossed else ""
        return f"QuantilePrediction({len(self)} points, ends {tuple(self.lower.shape)}{note})"


@kept
@dataclass(frozen=True, repr=False)
class CQR(Score):
    """max(lower - y, y - upper): the distance of y from the interval between two quantiles, negative inside.

    The set is [lower - q, upper + q], which is empty if q < -(upper - lower) / 2.

    Parameters
    ----------
    symmetric
        Whether one threshold moves both ends. With `symmetric=False` each end has a threshold at level
        1 - (1 - level)/2, so a new y lies above the band with probability at most (1 - level)/2, and likewise
        below. Coverage then has a lower bound and no exact law, and the band is slightly wider.
    joint
        Whether the outputs share one score, their maximum, and are covered simultaneously; otherwise each
        output has its own threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> y = np.arange(1.0, 20.0)
    >>> ends = gb.conformal.QuantilePrediction(None, lower=[5.0] * 19, upper=[10.0] * 19)
    >>> bands = [
    ...     gb.calibrate_arrays(ends, y, score=score).band(ends.take([0]), level=0.8)
    ...     for score in (gb.CQR(), gb.CQR(symmetric=False))
    ... ]
    >>> [
    ...     (float(band.lower[0, 0].round(6)), float(band.upper[0, 0].round(6)))
    ...     for band in bands
    ... ]
    [(-1.0, 16.0), (2.0, 18.0)]
    """

    symmetric: bool = True
    joint: bool = True

    def __post_init__(self) -> None:
        for name in ("symmetric", "joint"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"`{name}` should be True or False, got {getattr(self, name)!r}.")
        if not (self.symmetric or self.joint):
            raise ValueError(
                "CQR(symmetric=False) has a threshold for each end, and joint=False would require one for "
                "each end of each output. Calibrate each output separately: gb.calibrate(..., outputs=0)."
            )

    @property
    def is_box(self) -> bool:
        """True: an interval for each output, which may be empty."""
        return True

    @property
    def scope(self) -> str:
        """The guarantee for each end separately, and the treatment of empty sets."""
        each_end = (
            ""
            if self.symmetric
            else "It lies below the band with probability at most (1 - level)/2, and likewise above it. "
        )
        return each_end + "If the ends cross, the set is empty, and the miss counts among those allowed."

    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """Return the scores of targets y (n, m): (n,), (n, 2) if per end, or (n, m) if per output."""
        below, above = (flat(excess) for excess in self._excesses(prediction, y))
        xp = namespace(below)
        if not self.symmetric:
            return xp.stack((xp.amax(below, -1), xp.amax(above, -1)), -1)
        outside = xp.maximum(below, above)
        return xp.amax(outside, -1) if self.joint else outside

    def excesses(self, prediction: Prediction, y: Array) -> tuple[Array, Array]:
        """Return how far y lies below the lower quantile and above the upper one."""
        return self._excesses(prediction, y) if self.symmetric else super().excesses(prediction, y)

    def _excesses(self, prediction: Prediction, y: Array) -> tuple[Array, Array]:
        lower, upper = self._ends(prediction)
        y = y if tuple(y.shape) == tuple(lower.shape) else rows(y, "y")
        if y.shape != lower.shape:
            raise ValueError(
                f"`y` should have the shape of the predictions, {tuple(lower.shape)}, got {tuple(y.shape)}."
            )
        return lower - y, y - upper

    def contains(self, prediction: Prediction, y: Array, q: float | Array) -> np.ndarray:
        """Return which targets score at most q at both ends."""
        inside = super().contains(prediction, y, q)
        return inside if self.symmetric else np.asarray(inside.all(axis=-1))

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Band:
        """Return [lower - q, upper + q], rounded outward by a few ulp like the bands of other scores."""
        lower, upper = self._ends(prediction)
        below, above = self._sides(np.asarray(to_numpy(q), dtype=float), lower)
        return Band.around(prediction, _moved(lower, below, -1), _moved(upper, above, 1), level)

    def threshold(
        self,
        learned: Learned,
        scores: np.ndarray,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> Threshold:
        """Return one threshold for both ends, or one for each end with half of the miscoverage."""
        if self.symmetric:
            return learned.threshold(scores, prediction, groups=groups, confidence=confidence)
        each_confidence = None if confidence is None else half_miscoverage(confidence)
        below, above = (
            learned.threshold(s, prediction, groups=groups, confidence=each_confidence) for s in scores.T
        )
        return TwoSided(below, above)

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """Return the score itself; raises an error if the two quantiles are swapped."""
        crossed = self._quantiles(prediction).crossed
        if len(crossed) > 1 and crossed.all():
            raise ValueError(
                "The lower quantile lies above the upper one at every calibration point. Swap them: "
                "gb.Quantiles(lower, upper), gb.conformal.QuantilePrediction(x, lower, upper)."
            )
        return self

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """Return a warning if quantiles cross, or if outputs of very different size share a threshold."""
        crossed = int(self._quantiles(prediction).crossed.sum())
        spread = np.ptp(to_numpy(y).astype(float).reshape(-1, y.shape[-1]), axis=0)
        words = []
        if crossed:
            words.append(
                f"The quantiles cross at {crossed} of {len(prediction)} calibration points. The promise "
                "holds, but bands may be empty at such points. Train the models longer, or sort their "
                "predictions: gb.conformal.QuantilePrediction(x, np.minimum(lower, upper), np.maximum(lower, "
                "upper))."
            )
        if self.joint and spread.max() > SPREAD_RATIO * spread[spread > 0].min(initial=np.inf):
            words.append(
                f"The outputs differ in size by a factor of more than {SPREAD_RATIO:g}, but all ends are "
                "moved by the same number. Rescale them to a common size, or use CQR(joint=False) for a "
                "separate threshold and promise for each output."
            )
        return " ".join(words) or None

    def _ends(self, prediction: Prediction) -> tuple[Array, Array]:
        prediction = self._quantiles(prediction)
        return prediction.lower, prediction.upper

    def _quantiles(self, prediction: Prediction) -> QuantilePrediction:
        if not isinstance(prediction, QuantilePrediction):
            raise TypeError(
                "CQR() needs a model of two quantiles that returns a gb.conformal.QuantilePrediction(x, "
                f"lower, upper), got a {type(prediction).__name__}. Combine two models: "
                "gb.Quantiles(lower, upper)."
            )
        return prediction

    def _sides(self, q: np.ndarray, lower: Array) -> tuple[Array, Array]:
        """The threshold of each end, shaped to be added to (n, ..., m), for all rows or for each row."""
        if not self.symmetric:
            q = np.broadcast_to(q, (len(q) if q.ndim == 2 else 1, 2))
            return tuple(_broadcastable(side, lower) for side in q.T)
        return (_broadcastable(q, lower),) * 2


@dataclass(frozen=True, eq=False)
class TwoSided(Threshold):
    """A threshold for each end, (1, 2) or (n, 2), each with half of the miscoverage."""

    below: Threshold
    above: Threshold
    traits: ClassVar[Traits] = computed(lambda self: traits_of(self.below))

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Return both thresholds in columns."""
        at = half_miscoverage(level)
        sides = [np.atleast_1d(side(prediction, at, groups)) for side in (self.below, self.above)]
        return np.stack(sides, axis=1)

    def count(self) -> int | None:
        """Return the number of scores of each threshold."""
        return self.below.count()

    def size(self, level: Level) -> Size | None:
        """Return the available and required number of points of each threshold."""
        return self.below.size(half_miscoverage(level))


def _broadcastable(q: np.ndarray, ends: Array) -> Array:
    """A threshold of shape (), (n,) or (n, m), shaped to broadcast against (n, ..., m)."""
    if q.ndim == 1:
        q = q.reshape(-1, *[1] * (ends.ndim - 1))
    return like(ends, q)


def _moved(ends: Array, q: Array, sign: int) -> Array:
    """Ends moved outward by q, which may be negative or infinite, and rounded outward by a few ulp."""
    xp = namespace(ends)
    limits = xp.finfo(ends.dtype)
    few = ULPS * float(limits.eps)
    with np.errstate(over="ignore", invalid="ignore"):
        away = abs(ends) * few + float(limits.tiny) + (q + abs(q) * few)
    return ends + sign * away
