"""Conformity scores and the prediction sets that they define.

A score is large if y is far from the prediction. Calibration finds a threshold q that a new score rarely
exceeds. The prediction set at x contains all y with a score of at most q, `contains(prediction, y, q)`. If
this set is a box, `band` returns its ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from guardband.base.arrays import (
    Array,
    ArrayLike,
    at_least,
    flat,
    floats,
    kind_of,
    like,
    limits_of,
    namespace,
    rows,
    to_numpy,
)
from guardband.base.kept import kept
from guardband.conformal.rank import Level, exact
from guardband.values import Band, Observations, Prediction
from guardband.values.grids import FieldGrid

Side: TypeAlias = Literal["upper", "lower", "both", "none"]
"""Where a set ends: "upper" for a bound from above, "lower" from below, "both" for an interval, or "none"."""

ULPS = 4
"""Number of units in the last place by which means and thresholds are rounded outward."""

SPREAD_RATIO = 100.0
"""Ratio of output spreads above which a common unit is questionable."""


class Score(ABC):
    """A measure of the distance of y from the prediction: a fixed function with one number per row.

    Scores may be negative.

    With `joint=False` there is one number per row and output, shape (n, k), and each output has its own
    threshold.

    Attributes
    ----------
    joint
        Whether all outputs share one score and are covered simultaneously.
    grid
        The named axes of whole fields, for scores that depend on them.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import Prediction, Scaled
    >>> score, prediction = Scaled(), Prediction(None, [0.0, 0.0], [1.0, 2.0])
    >>> y = np.array([[3.0], [-3.0]])
    >>> score(prediction, y), score.contains(prediction, y, 1.5)
    (array([3. , 1.5]), array([False,  True]))
    >>> score.band(prediction, 1.5, level=0.9).upper.ravel().round(6)
    array([1.5, 3. ])
    """

    joint: bool = True
    grid: FieldGrid | None = None

    def on(self, grid: FieldGrid) -> Self:
        """Return the score for fields on a grid; most scores do not depend on the axes of a row.

        Parameters
        ----------
        grid
            The named axes of the fields.

        Returns
        -------
        Self
            The score for these fields.
        """
        return self

    def derived(self, y: Array) -> Array:
        """Return the quantities of the targets that the band covers, for most scores the targets themselves.

        Parameters
        ----------
        y
            Targets, shape (n, m) or (N, *grid, m).

        Returns
        -------
        Array
            The covered quantities, one row per row of `y`.
        """
        return y

    def remarks(self, prediction: Prediction, y: Array, q: float | Array) -> list[str]:
        """Return sentences to report with the measured coverage; for most scores there are none.

        Parameters
        ----------
        prediction
            The prediction at the test points.
        y
            Test targets, shape (n, m).
        q
            The threshold, one number or one per row (n,).

        Returns
        -------
        list of str
            The sentences.
        """
        return []

    @property
    def is_distance(self) -> bool:
        """Whether the score is |y - mean| itself, in the units of y."""
        return False

    @property
    def is_box(self) -> bool:
        """Whether the sets are boxes, one interval per output; False by default.

        Suppose that a box misses the truth and that the noise has median zero and is independent of the box.
        The truth lies on one side of the box in some output, and with probability at least 1/2 the noise does
        not move the reading toward the box. The truth is therefore missed at most twice as often as a
        reading.
        """
        return False

    @property
    def two_sided(self) -> Score:
        """The score of both sides, from which shapes are learned: the score itself unless it is one-sided."""
        return self

    def excesses(self, prediction: Prediction, y: Array) -> tuple[Array, Array]:
        """Return how far each target lies below the lower end and above the upper end, in units of the score.

        Parameters
        ----------
        prediction
            The prediction at the points.
        y
            Targets, shape (n, m).

        Returns
        -------
        tuple of Array
            Signed excesses below and above, each of the shape of `y`; a box of threshold q holds what exceeds
            neither end by more than q.

        Raises
        ------
        TypeError
            If the score has no two ends, so no one-sided bound exists.
        """
        raise TypeError(
            f"A one-sided bound needs a score whose sets are intervals with ends of their own, such as "
            f"Scaled() or "
            f"CQR(), and {self!r} is not one."
        )

    @property
    def is_elementwise(self) -> bool:
        """Whether the score and band of a row use only elementwise arithmetic on that row.

        Rows computed together then have the same bits as rows computed one by one.
        """
        return False

    @property
    def plain(self) -> Score:
        """The score of a baseline of constant width, in the same units."""
        return Absolute(joint=self.joint)

    def __repr__(self) -> str:
        parts = fields(self) if is_dataclass(self) else ()  # defaults are omitted
        settings = [
            f"{p.name}={getattr(self, p.name)!r}" for p in parts if getattr(self, p.name) != p.default
        ]
        return f"{type(self).__name__}({', '.join(settings)})"

    @abstractmethod
    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """Return the scores (n,) of targets y (n, m)."""

    def contains(self, prediction: Prediction, y: Array, q: float | Array) -> np.ndarray:
        """Return which targets score at most q.

        Parameters
        ----------
        prediction
            The prediction at the new points.
        y
            Targets, shape (n, m).
        q
            The threshold, one number or one per row (n,).

        Returns
        -------
        np.ndarray
            Booleans, shape (n,), or (n, k) with one score per output.
        """
        return to_numpy(self(prediction, y)) <= to_numpy(q)

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Any:
        """Return the set of all targets that score at most q, for scores whose sets have ends or a radius.

        Parameters
        ----------
        prediction
            The prediction at the new points.
        q
            The threshold, one number or one per row (n,).
        level
            Coverage that the band reports.

        Returns
        -------
        Band or NormBand
            The set of each row.

        Raises
        ------
        TypeError
            If the sets of the score cannot be described by ends or a radius.
        """
        raise TypeError(
            f"The set of {type(self).__name__}() is not a box, so it has no ends. Test membership with "
            "calibrated.contains(x, y, level)."
        )

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """Return the score with settings learned from training data, such as units, if it has any.

        Parameters
        ----------
        training_data
            The training data of the predictor, or None.
        prediction
            The prediction at the calibration points.

        Returns
        -------
        Self
            The score to calibrate with.
        """
        return self

    @property
    def scope(self) -> str:
        """A sentence for the promise that explains the sets; empty for most scores."""
        return ""

    def threshold(
        self,
        learned: Any,
        scores: np.ndarray,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> Any:
        """Return the threshold for given calibration scores; scores with several thresholds override this.

        Parameters
        ----------
        learned
            The calibrator after its training step.
        scores
            Calibration scores, shape (n,) or (n, k).
        prediction
            The prediction at the calibration points.
        groups
            Group label of each calibration point, shape (n,), or None.
        confidence
            Probability over calibration sets with which the coverage is guaranteed, or None.

        Returns
        -------
        Threshold
            The threshold as a function of prediction and level.
        """
        return learned.threshold(scores, prediction, groups=groups, confidence=confidence)

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """Return a warning about the calibration targets.

        Parameters
        ----------
        prediction
            The prediction at the calibration points.
        y
            Calibration targets, shape (n, m).

        Returns
        -------
        str or None
            The warning, or None.
        """
        return None

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """Return the uncalibrated band of the predictor's scale, taken as a Gaussian standard deviation.

        Parameters
        ----------
        prediction
            The prediction at the new points.
        level
            Nominal coverage, strictly between 0 and 1.

        Returns
        -------
        Band or None
            The band without a guarantee; None if the predictor has no scale.
        """
        return None if prediction.scale is None else raw_band(prediction, level)


class Symmetric(Score):
    """max_j |y_j - mean_j| / unit_j, with the band mean +- q unit.

    Several outputs share one score, their maximum, so the band is joint: all outputs lie inside
    simultaneously with probability at least the level. With `joint=False` each output has its own score and
    threshold. A unit of zero means certainty: any error then scores infinity, and an exact prediction scores
    zero.

    Examples
    --------
    >>> import guardband as gb
    >>> class Relative(gb.conformal.Symmetric):
    ...     def unit(self, prediction):
    ...         return abs(prediction.mean)
    >>> calibrated = gb.calibrate_arrays([10.0] * 9, [11.0] * 9, score=Relative())
    >>> calibrated.band(gb.Prediction(None, [20.0]), level=0.9).upper.round(6)
    array([[22.]])
    """

    @property
    def is_box(self) -> bool:
        """True: mean +- q unit."""
        return True

    @abstractmethod
    def unit(self, prediction: Prediction) -> Array | float:
        """Return the error that scores 1, in the units of the mean.

        Parameters
        ----------
        prediction
            The prediction at the points.

        Returns
        -------
        Array or float
            Units, shape (n, m) or (m,), or a number.
        """

    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """Return the scores (n,) of targets y (n, m), or (n, m) if they are not joint."""
        scores = self.each(prediction, y)
        if not self.joint:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else namespace(scores).amax(scores, -1)

    def each(self, prediction: Prediction, y: Array) -> Array:
        """Return the error of each component of a row divided by its unit.

        Parameters
        ----------
        prediction
            The prediction at the points.
        y
            Targets, shape (n, m).

        Returns
        -------
        Array
            Ratios, shape (n, number of components).
        """
        return flat(self._ratio(abs(_paired(y, prediction) - prediction.mean), prediction))

    def excesses(self, prediction: Prediction, y: Array) -> tuple[Array, Array]:
        """Return the signed errors divided by their units, below and above the mean."""
        error = _paired(y, prediction) - prediction.mean
        ratio = self._ratio(abs(error), prediction)
        above = namespace(ratio).where(error < 0, -ratio, ratio)
        return -above, above

    def _ratio(self, miss: Array, prediction: Prediction) -> Array:
        """Sizes of errors divided by their units; NaN remains NaN, which is in no set."""
        # A subnormal quotient has lost digits, so an error scores at least the smallest normal number.
        smallest = limits_of(prediction.mean).tiny
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            scores = at_least(miss / self.unit(prediction), smallest)
        scores[miss == 0] = 0.0
        return scores

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Band:
        """Return all targets that score at most q, one number or one per row (n,).

        The ends are rounded outward by a few ulp, so that a target whose computed score is at most q lies in
        the computed band. At least k of the n calibration points therefore lie in the band.
        """
        low, high = prediction.outward
        with np.errstate(over="ignore", under="ignore"):
            half = _half_width(self.unit(prediction), q, prediction)
            upper = high + half
            # No other reference to a full-size `half` exists, so its memory is reused.
            reusable = getattr(half, "shape", None) == low.shape
            lower = namespace(low).subtract(low, half, out=half) if reusable else low - half
        return Band.around(prediction, lower, upper, level)


@dataclass(frozen=True, repr=False)
class _UnitScore(Symmetric):
    """The common part of `Absolute` and `Scaled`: a unit per output, given or learned."""

    units: ArrayLike = field(default=None, metadata={"neutral": None})
    joint: bool = field(default=True, metadata={"neutral": True})

    def __post_init__(self) -> None:
        if not isinstance(self.joint, bool):
            raise TypeError(f"`joint` should be True or False, got {self.joint!r}.")
        if self.units is not None:
            object.__setattr__(
                self, "units", _positive_numbers(self.units, "units", "positive numbers, one per output")
            )

    @property
    def is_elementwise(self) -> bool:
        """True: units are the same in every row."""
        return True

    @property
    def plain(self) -> Score:
        """Constant width in these units."""
        return Absolute(self.units, self.joint)

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """Return the score with the spreads of the training targets as units, if it needs units."""
        m = prediction.mean.shape[-1]
        if not self._lacks_units(prediction) or training_data is None or training_data.y.shape[-1] != m:
            return self
        spread = np.nanstd(to_numpy(training_data.y).astype(float).reshape(-1, m), axis=0)
        return replace(self, units=tuple(np.where(spread > 0, spread, 1.0).tolist()))

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """Return a warning if outputs of very different size share one width."""
        if not (self.joint and self._lacks_units(prediction)):
            return None
        spread = np.ptp(to_numpy(y).astype(float).reshape(-1, y.shape[-1]), axis=0)
        spread = spread[spread > 0]
        if not len(spread) or spread.max() <= SPREAD_RATIO * spread.min():
            return None
        return (
            f"The outputs differ in size by a factor of {spread.max() / spread.min():.2g}, and "
            f"their units are unknown, so all get one width. Use {type(self).__name__}(units=[...]) with one "
            "unit per output, or pass `training_data` to the predictor to use its spread as the unit, or "
            f"use {type(self).__name__}(joint=False) for a separate threshold and promise for each output."
        )

    def _lacks_units(self, prediction: Prediction) -> bool:
        return self.units is None and prediction.mean.shape[-1] > 1

    def _unit(self, prediction: Prediction) -> Array | float:
        if self.units is None:
            return 1.0
        units = np.asarray(self.units, dtype=float)
        m = prediction.mean.shape[-1]
        if units.ndim and len(units) != m:
            raise ValueError(f"`units` should be one number or one per output ({m}), got {len(units)}.")
        return like(prediction.mean, units)


@kept
@dataclass(frozen=True, repr=False)
class Absolute(_UnitScore):
    """|y - mean|, for bands of constant width, the baseline for other scores.

    Parameters
    ----------
    units
        Unit of each output, shape (m,), or one number. By default, with several outputs, the spread of each
        output over the predictor's training data, if those are available.
    joint
        Whether all outputs share one score, their maximum, and are covered simultaneously; otherwise each
        output has its own threshold.

    Examples
    --------
    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1.0] * 9
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Absolute())
    >>> calibrated.band(
    ...     gb.Prediction(None, [0.0, 0.0], [1.0, 2.0]), level=0.9
    ... ).upper.ravel().round(6)
    array([9., 9.])
    """

    def unit(self, prediction: Prediction) -> Array | float:
        """Return the unit of each output, the same everywhere."""
        return self._unit(prediction)

    @property
    def is_distance(self) -> bool:
        """True if no unit is set."""
        return self.units is None and self.joint


@kept
@dataclass(frozen=True, repr=False)
class Scaled(_UnitScore):
    """|y - mean| / scale, for bands that are wide where the predictor is uncertain.

    Without a scale, the band has constant width in `units`.

    Parameters
    ----------
    units
        Unit of each output, shape (m,), or one number, for predictors without a scale. By default, with
        several outputs, the spread of each output over the predictor's training data, if those are available.
    joint
        Whether all outputs share one score, their maximum, and are covered simultaneously; otherwise each
        output has its own threshold.

    Examples
    --------
    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1.0] * 9
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Scaled())
    >>> calibrated.band(
    ...     gb.Prediction(None, [0.0, 0.0], [1.0, 2.0]), level=0.9
    ... ).upper.ravel().round(6)
    array([ 9., 18.])
    """

    def unit(self, prediction: Prediction) -> Array | float:
        """Return the scale, or the unit of each output if the predictor has no scale."""
        return self._unit(prediction) if prediction.scale is None else prediction.scale

    def _lacks_units(self, prediction: Prediction) -> bool:
        return prediction.scale is None and super()._lacks_units(prediction)


@kept
@dataclass(frozen=True, repr=False)
class Total(Symmetric):
    """|y - mean| / sqrt(scale^2 + noise^2), for noisy targets and a scale that describes only model error.

    An epistemic scale (ensembles, Laplace approximations, posterior samples) goes to zero as data accumulate,
    but measurement noise does not.

    Parameters
    ----------
    noise
        Standard deviation of the noise, one number or one per output.
    joint
        Whether all outputs share one score, their maximum, and are covered simultaneously; otherwise each
        output has its own threshold.

    Examples
    --------
    >>> import guardband as gb
    >>> y, scale = (
    ...     [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ...     [0.0] * 9,
    ... )  # the model reports no uncertainty
    >>> calibrated = gb.calibrate_arrays(
    ...     [0.0] * 9, y, scale, score=gb.conformal.Total(noise=3.0)
    ... )
    >>> calibrated.band(
    ...     gb.Prediction(None, [0.0, 0.0], [0.0, 4.0]), level=0.9
    ... ).upper.ravel().round(6)
    array([ 9., 15.])
    """

    noise: float | Sequence[float]
    joint: bool = field(default=True, metadata={"neutral": True})

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "noise", _positive_numbers(self.noise, "noise", "a standard deviation >= 0", zero=True)
        )

    def unit(self, prediction: Prediction) -> Array | float:
        """Return model and measurement uncertainty, added in quadrature."""
        mean = prediction.mean
        noise = like(mean, np.asarray(self.noise, dtype=float))
        if noise.ndim and noise.shape[0] != mean.shape[-1]:
            raise ValueError(
                f"`noise` should be one number or one per output ({mean.shape[-1]}), got {noise.shape[0]}."
            )
        if prediction.scale is None:
            return noise
        return namespace(mean).hypot(prediction.scale, noise)

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """Return the uncalibrated band of scale and noise; None if the predictor has no scale."""
        return None if prediction.scale is None else raw_band(prediction, level, score=self)


def raw_band(prediction: Prediction, level: Level = 0.95, *, score: Symmetric | None = None) -> Band:
    """Return mean +- z scale, the uncalibrated band of a scale interpreted as a Gaussian standard deviation.

    The band has no guarantee. It is plotted next to calibrated bands to show the effect of calibration. Even
    for a correct scale, only the coverage of each separate output equals the level; joint coverage is lower.

    Parameters
    ----------
    prediction
        The prediction, which must have a scale.
    level
        Nominal coverage of each output, strictly between 0 and 1.
    score
        A score whose `unit` replaces the scale. `Total(noise)` adds the noise.

    Returns
    -------
    Band
        The uncalibrated band.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.conformal.raw_band(gb.Prediction(None, [0.0], [1.0]), level=0.95).upper.round(2)
    array([[1.96]])
    """
    if prediction.scale is None:
        raise ValueError(
            "This predictor has no scale, so it has no band before calibration. "
            "Calibrate it, or use a predictor with a scale."
        )
    level = float(exact(level))
    return (score or Scaled()).band(prediction, NormalDist().inv_cdf((1 + level) / 2), level)


def _positive_numbers(
    values: ArrayLike, name: str, what: str, *, zero: bool = False
) -> float | tuple[float, ...]:
    """One number or one per output, validated to be finite and positive, or nonnegative if `zero`."""
    index = getattr(values, "index", ())  # that of a Series; lists have a method of this name
    if not callable(index) and any(isinstance(label, str) for label in index):
        raise TypeError(
            f"`{name}` follows the order of the outputs, but this Series has names. Pass .to_numpy()."
        )
    sizes = to_numpy(floats(values, name))
    if sizes.ndim > 1 or not (np.isfinite(sizes) & (sizes >= 0 if zero else sizes > 0)).all():
        raise ValueError(f"`{name}` should be {what}, got {values}.")
    return tuple(sizes.tolist()) if sizes.ndim else float(sizes)


def _paired(y: Array, prediction: Prediction) -> Array:
    """Targets in the shape of the predictions."""
    if tuple(y.shape) != tuple(prediction.mean.shape):
        y = rows(y, "y")  # (n,) and (n, 1) would broadcast to (n, n)
        if y.shape != prediction.mean.shape:
            raise ValueError(
                f"`y` should have the shape of the predictions, {tuple(prediction.mean.shape)}, "
                f"got {tuple(y.shape)}."
            )
    return y


def _half_width(unit: Array | float, q: Array, prediction: Prediction) -> Array | float:
    """q unit, rounded up by a few ulp; q is (), (n,) or (n, m); infinity times a unit of 0 is infinity.

    A negative q, of a one-sided bound, is rounded toward 0, and minus infinity is the lowest number.
    """
    limits = limits_of(prediction.mean)
    few = ULPS * limits.eps
    if isinstance(q, float) or np.ndim(q) == 0:
        q = max(float(q) * (1 + few if q >= 0 else 1 - few), -limits.max)
        return unit * q if q <= limits.max else float("inf")
    mean = prediction.mean
    q = kind_of(mean, q)
    shape = (-1, *[1] * (mean.ndim - 1)) if q.ndim == 1 else (len(q), *mean.shape[1:])
    xp = namespace(mean)
    q = q.reshape(shape)
    q = at_least(xp.where(q < 0, q * (1 - few), q * (1 + few)), -limits.max)
    infinite = q > limits.max
    half = like(mean, xp.where(infinite, xp.zeros_like(q), q)) * unit
    return xp.where(infinite, like(mean, np.asarray(np.inf)), half)
