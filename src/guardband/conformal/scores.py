"""Scores: how badly a prediction missed, and the band of all targets that miss less.

A score is large where y lies far from the prediction. Calibration finds the threshold q that a new
score exceeds only rarely; the band at x is then the set of all y whose score is at most q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from guardband.arrays import Array, flat, floats, kind_of, like, namespace, rows, to_numpy
from guardband.conformal.rank import Level, exact
from guardband.values import Band, Prediction


class Score(ABC):
    """One number >= 0 per row: how badly y missed the prediction. A fixed function of both.

    >>> import numpy as np
    >>> from guardband import Prediction, Scaled
    >>> score, prediction = Scaled(), Prediction(None, [0.0, 0.0], [1.0, 2.0])
    >>> score(prediction, np.array([[3.0], [-3.0]]))
    array([3. , 1.5])
    >>> score.band(prediction, 1.5, level=0.9).upper.ravel().round(6)
    array([1.5, 3. ])
    """

    @abstractmethod
    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """The scores (n,) of targets y (n, m)."""

    @abstractmethod
    def band(self, prediction: Prediction, q: float | Array, level: float) -> Band:
        """All targets whose score is at most q, one number or one per row (n,)."""


class Symmetric(Score):
    """max_j |y_j - mean_j| / unit_j, and the band mean +- q unit.

    Several outputs make one score, their maximum, so the band is joint: all outputs lie inside at
    once with the probability asked. A unit of zero is a claim of certainty: missing at all then
    scores infinity, and hitting exactly scores zero.

    >>> import guardband as gb
    >>> class Relative(gb.conformal.Symmetric):
    ...     def unit(self, prediction):
    ...         return abs(prediction.mean)
    >>> calibrated = gb.calibrate_arrays([10.0] * 9, [11.0] * 9, score=Relative())
    >>> calibrated.band(gb.Prediction(None, [20.0]), level=0.9).upper.round(6)
    array([[22.]])
    """

    @abstractmethod
    def unit(self, prediction: Prediction) -> Array | float:
        """The miss that scores 1, (n, m) or a number, in the units of the mean."""

    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """The scores (n,) of targets y (n, m)."""
        if tuple(y.shape) != tuple(prediction.mean.shape):
            y = rows(y, "y")  # (n,) beside (n, 1) would broadcast to (n, n)
            if y.shape != prediction.mean.shape:
                raise ValueError(
                    f"`y` should have the shape of the predictions, {tuple(prediction.mean.shape)}, "
                    f"got {tuple(y.shape)}."
                )
        miss = abs(y - prediction.mean)
        # A quotient below the smallest normal number has lost its digits; no miss scores less.
        smallest = float(_limits(prediction).tiny)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            scores = (miss / self.unit(prediction)).clip(min=smallest)
        xp = namespace(miss)
        scores = xp.where(miss > 0, scores, xp.zeros_like(scores))
        return xp.amax(flat(scores), -1)

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Band:
        """All targets whose score is at most q, one number or one per row (n,).

        The ends are rounded outwards by a few ulp, so that a target whose score is at most q, as
        computed, lies in the band, as computed: at least k of the n calibration points do.
        """
        low, high = prediction.outward
        with np.errstate(over="ignore", under="ignore"):
            half = _times(self.unit(prediction), q, prediction)
            upper = high + half
            # `half` is ours alone: its memory becomes the lower end, which spares a large array.
            ours = getattr(half, "shape", None) == low.shape
            lower = namespace(low).subtract(low, half, out=half) if ours else low - half
        return Band(prediction.x, prediction.mean, lower, upper, level)


@dataclass(frozen=True)
class Absolute(Symmetric):
    """|y - mean|: a band of constant width, the yardstick for every cleverer one.

    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1.0] * 9
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Absolute())
    >>> calibrated.band(gb.Prediction(None, [0.0, 0.0], [1.0, 2.0]), level=0.9).upper.ravel().round(6)
    array([9., 9.])
    """

    def unit(self, prediction: Prediction) -> Array | float:
        """One unit of the output, everywhere."""
        return 1.0


@dataclass(frozen=True)
class Scaled(Symmetric):
    """|y - mean| / scale: wide where the predictor is unsure. Without a scale, constant width.

    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1.0] * 9
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Scaled())
    >>> calibrated.band(gb.Prediction(None, [0.0, 0.0], [1.0, 2.0]), level=0.9).upper.ravel().round(6)
    array([ 9., 18.])
    """

    def unit(self, prediction: Prediction) -> Array | float:
        """The scale, or 1 where the predictor has none."""
        return 1.0 if prediction.scale is None else prediction.scale


@dataclass(frozen=True)
class Total(Symmetric):
    """|y - mean| / sqrt(scale^2 + noise^2): for noisy targets and a scale that knows only the model.

    An epistemic scale (ensembles, Laplace, posterior samples) goes to zero where data are plenty,
    but the measurement noise does not. `noise` is its standard deviation, one number or one per output.

    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [0.0] * 9  # the model is sure of itself
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Total(noise=3.0))
    >>> calibrated.band(gb.Prediction(None, [0.0, 0.0], [0.0, 4.0]), level=0.9).upper.ravel().round(6)
    array([ 9., 15.])
    """

    noise: float | Sequence[float]

    def __post_init__(self) -> None:
        noise = to_numpy(floats(self.noise, "noise"))
        if noise.ndim > 1 or not (np.isfinite(noise) & (noise >= 0)).all():
            raise ValueError(f"`noise` should be a standard deviation >= 0, got {self.noise}.")
        object.__setattr__(self, "noise", tuple(noise.tolist()) if noise.ndim else float(noise))

    def unit(self, prediction: Prediction) -> Array | float:
        """Model and measurement uncertainty, added in quadrature."""
        mean = prediction.mean
        noise = like(mean, np.asarray(self.noise, dtype=float))
        if noise.ndim and noise.shape[0] != mean.shape[-1]:
            raise ValueError(
                f"`noise` should be one number or one per output ({mean.shape[-1]}), got {noise.shape[0]}."
            )
        if prediction.scale is None:
            return noise
        return namespace(mean).hypot(prediction.scale, noise)


def raw_band(prediction: Prediction, level: Level = 0.95, *, score: Symmetric | None = None) -> Band:
    """mean +- z scale, the band before calibration: what the scale would promise if it were Gaussian.

    It carries no guarantee; it is shown beside calibrated bands to see what calibration changed. Each output
    by itself would be covered at the level, all of them together less often. With `score=Total(noise)` the
    noise is added to the scale.

    >>> import guardband as gb
    >>> gb.raw_band(gb.Prediction(None, [0.0], [1.0]), level=0.95).upper.round(2)
    array([[1.96]])
    """
    if prediction.scale is None:
        raise ValueError(
            "There is no band before calibration: this predictor has no scale of its own. "
            "Calibrate it, or use a predictor that has one."
        )
    level = float(exact(level))
    return (score or Scaled()).band(prediction, NormalDist().inv_cdf((1 + level) / 2), level)


def _limits(prediction: Prediction) -> np.finfo:
    return namespace(prediction.mean).finfo(prediction.mean.dtype)


def _times(unit: Array | float, q: float | Array, prediction: Prediction) -> Array | float:
    """q unit, infinite where q is, whatever the unit; q is rounded up by 4 ulp."""
    limits = _limits(prediction)
    grown = 1 + 4 * float(limits.eps)
    if np.ndim(q) == 0:
        q = float(q) * grown
        return unit * q if q <= float(limits.max) else float("inf")
    mean = prediction.mean
    q = kind_of(mean, q).reshape(-1, *[1] * (mean.ndim - 1)) * grown
    xp = namespace(mean)
    infinite = q > float(limits.max)
    half = like(mean, xp.where(infinite, xp.zeros_like(q), q)) * unit
    return xp.where(infinite, like(mean, np.asarray(np.inf)), half)
