"""Scores: how badly a prediction missed, and the set of all targets that miss no more.

A score is large where y lies far from the prediction. Calibration finds the threshold q that a new score
exceeds only rarely; the set at x is then all y whose score is at most q, `contains(prediction, y, q)`. Where
that set is a box, `band` gives its ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from statistics import NormalDist
from typing import Any, Self

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

ULPS = 4
"""By how many units in the last place a mean and a threshold are rounded outwards."""

APART = 100.0
"""Outputs whose spreads differ by more than this factor hardly share a unit."""


class Score(ABC):
    """One number per row: how badly y missed the prediction. A fixed function of both; it may be negative.

    With `joint=False` it is one number per row and part (n, k), and every part has its own threshold.

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
    """The named axes of whole fields, for scores that look at them."""

    def on(self, grid: FieldGrid) -> Self:
        """The same for fields on this grid; most scores take all that belongs to a row alike."""
        return self

    def derived(self, y: Array) -> Array:
        """What of targets the band is about: all of it, for most; derived numbers, for some."""
        return y

    def remarks(self, prediction: Prediction, y: Array, q: float | Array) -> list[str]:
        """Sentences that belong beside the coverage of these targets; most have none."""
        return []

    @property
    def is_distance(self) -> bool:
        """Whether it is |y - mean| itself, in the units of y."""
        return False

    @property
    def is_box(self) -> bool:
        """Whether its sets are an interval for each output; False unless a score says so.

        If a box misses the truth, noise of median zero that is independent of the box keeps the reading
        outside with probability 1/2 at least: the truth lies on one side of the box in some output, and the
        noise is as likely to lead away from the box as back. So the truth is missed at most twice as often as
        a reading.
        """
        return False

    @property
    def is_elementwise(self) -> bool:
        """Whether a row's score and band use elementwise arithmetic on that row only.

        Rows computed together then have the same bits as rows computed one by one.
        """
        return False

    @property
    def plain(self) -> Score:
        """The score of a rival of constant width, in the same units."""
        return Absolute(joint=self.joint)

    def __repr__(self) -> str:
        parts = fields(self) if is_dataclass(self) else ()  # only what was chosen
        chosen = [f"{p.name}={getattr(self, p.name)!r}" for p in parts if getattr(self, p.name) != p.default]
        return f"{type(self).__name__}({', '.join(chosen)})"

    @abstractmethod
    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """The scores (n,) of targets y (n, m)."""

    def contains(self, prediction: Prediction, y: Array, q: float | Array) -> np.ndarray:
        """Which targets score at most q, one number or one per row (n,): (n,) booleans, or (n, k)."""
        return to_numpy(self(prediction, y)) <= to_numpy(q)

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Any:
        """All targets whose score is at most q, as a value; only some scores have sets that can be shown."""
        raise TypeError(
            f"The set of {type(self).__name__}() is no box, so it has no ends. Ask which targets it holds: "
            "calibrated.contains(x, y, level)."
        )

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """The same with what it has to learn off the calibration set, such as units; most have nothing."""
        return self

    @property
    def scope(self) -> str:
        """A sentence for the promise, where there is more to say of its sets; most have nothing."""
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
        """The threshold that a `Learned` makes of its scores; a score that needs several asks it for each."""
        return learned.threshold(scores, prediction, groups=groups, confidence=confidence)

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """What should be known before these targets are calibrated on, in a sentence; None if nothing."""
        return None

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """The band that the predictor's own scale would promise, were it Gaussian; None without a scale."""
        return None if prediction.scale is None else raw_band(prediction, level)


class Symmetric(Score):
    """max_j |y_j - mean_j| / unit_j, and the band mean +- q unit.

    Several outputs make one score, their maximum, so the band is joint: all outputs lie inside at once with
    the probability asked. With `joint=False` each output has a score and a threshold of its own. A unit of
    zero is a claim of certainty: missing at all then scores infinity, and hitting exactly scores zero.

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
        """It is: mean +- q unit."""
        return True

    @abstractmethod
    def unit(self, prediction: Prediction) -> Array | float:
        """The miss that scores 1, (n, m), (m,) or a number, in the units of the mean."""

    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """The scores (n,) of targets y (n, m), or (n, m) where they are not joint."""
        scores = self.each(prediction, y)
        if not self.joint:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else namespace(scores).amax(scores, -1)

    def each(self, prediction: Prediction, y: Array) -> Array:
        """The miss of every number of a row over its unit, side by side: (n, everything)."""
        if tuple(y.shape) != tuple(prediction.mean.shape):
            y = rows(y, "y")  # (n,) beside (n, 1) would broadcast to (n, n)
            if y.shape != prediction.mean.shape:
                raise ValueError(
                    f"`y` should have the shape of the predictions, {tuple(prediction.mean.shape)}, "
                    f"got {tuple(y.shape)}."
                )
        miss = abs(y - prediction.mean)
        # A quotient below the smallest normal number has lost its digits; no miss scores less.
        smallest = limits_of(prediction.mean).tiny
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            scores = at_least(miss / self.unit(prediction), smallest)
        scores[miss == 0] = 0.0
        return flat(scores)  # NaN stays NaN: it is in no set

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
        return Band.around(prediction, lower, upper, level)


@dataclass(frozen=True, repr=False)
class _Plain(Symmetric):
    """What `Absolute` and `Scaled` share: a unit per output, given or learned, where nothing else has one."""

    units: ArrayLike = field(default=None, metadata={"neutral": None})
    joint: bool = field(default=True, metadata={"neutral": True})

    def __post_init__(self) -> None:
        if not isinstance(self.joint, bool):
            raise TypeError(f"`joint` should be True or False, got {self.joint!r}.")
        if self.units is not None:
            object.__setattr__(self, "units", _sizes(self.units, "units", "positive numbers, one per output"))

    @property
    def is_elementwise(self) -> bool:
        """Units are the same in every row."""
        return True

    @property
    def plain(self) -> Score:
        """Constant width in these units."""
        return Absolute(self.units, self.joint)

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """With several outputs and no unit, the spread of each over the training targets is its unit."""
        m = prediction.mean.shape[-1]
        if not self._lacks_units(prediction) or training_data is None or training_data.y.shape[-1] != m:
            return self
        spread = np.nanstd(to_numpy(training_data.y).astype(float).reshape(-1, m), axis=0)
        return replace(self, units=tuple(np.where(spread > 0, spread, 1.0).tolist()))

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """A warning where outputs of very different size share one width."""
        if not (self.joint and self._lacks_units(prediction)):
            return None
        spread = np.ptp(to_numpy(y).astype(float).reshape(-1, y.shape[-1]), axis=0)
        spread = spread[spread > 0]
        if not len(spread) or spread.max() <= APART * spread.min():
            return None
        return (
            f"The outputs differ in size by a factor of {spread.max() / spread.min():.2g}, and "
            f"no unit of theirs is known, so all get one width. Give {type(self).__name__}(units=[...]), one "
            "per output; or the predictor's `training_data`, whose spread then is the unit; or "
            f"{type(self).__name__}(joint=False), for a threshold and a promise for each output by itself."
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
class Absolute(_Plain):
    """|y - mean|: a band of constant width, the yardstick for every cleverer one.

    Several outputs are measured in `units`, one per output: by default the spread of each over the
    predictor's training data, where those are known.

    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1.0] * 9
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Absolute())
    >>> calibrated.band(
    ...     gb.Prediction(None, [0.0, 0.0], [1.0, 2.0]), level=0.9
    ... ).upper.ravel().round(6)
    array([9., 9.])
    """

    def unit(self, prediction: Prediction) -> Array | float:
        """One unit of the output, everywhere."""
        return self._unit(prediction)

    @property
    def is_distance(self) -> bool:
        """It is, where no unit was given."""
        return self.units is None and self.joint


@kept
@dataclass(frozen=True, repr=False)
class Scaled(_Plain):
    """|y - mean| / scale: wide where the predictor is unsure. Without a scale, constant width in `units`.

    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [1.0] * 9
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, y, scale, score=gb.Scaled())
    >>> calibrated.band(
    ...     gb.Prediction(None, [0.0, 0.0], [1.0, 2.0]), level=0.9
    ... ).upper.ravel().round(6)
    array([ 9., 18.])
    """

    def unit(self, prediction: Prediction) -> Array | float:
        """The scale, or the unit of the output where the predictor has none."""
        return self._unit(prediction) if prediction.scale is None else prediction.scale

    def _lacks_units(self, prediction: Prediction) -> bool:
        return prediction.scale is None and super()._lacks_units(prediction)


@kept
@dataclass(frozen=True, repr=False)
class Total(Symmetric):
    """|y - mean| / sqrt(scale^2 + noise^2): for noisy targets and a scale that knows only the model.

    An epistemic scale (ensembles, Laplace, posterior samples) goes to zero where data are plenty,
    but the measurement noise does not. `noise` is its standard deviation, one number or one per output.

    >>> import guardband as gb
    >>> y, scale = [1, 2, 3, 4, 5, 6, 7, 8, 9], [0.0] * 9  # the model is sure of itself
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
        object.__setattr__(self, "noise", _sizes(self.noise, "noise", "a standard deviation >= 0", zero=True))

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

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """The noise belongs to what the scale promises; it is added before calibration too."""
        return None if prediction.scale is None else raw_band(prediction, level, score=self)


def raw_band(prediction: Prediction, level: Level = 0.95, *, score: Symmetric | None = None) -> Band:
    """mean +- z scale, the band before calibration: what the scale would promise if it were Gaussian.

    It carries no guarantee; it is shown beside calibrated bands to see what calibration changed. Each output
    by itself would be covered at the level, all of them together less often. With `score=Total(noise)` the
    noise is added to the scale.

    >>> import guardband as gb
    >>> gb.conformal.raw_band(gb.Prediction(None, [0.0], [1.0]), level=0.95).upper.round(2)
    array([[1.96]])
    """
    if prediction.scale is None:
        raise ValueError(
            "There is no band before calibration: this predictor has no scale of its own. "
            "Calibrate it, or use a predictor that has one."
        )
    level = float(exact(level))
    return (score or Scaled()).band(prediction, NormalDist().inv_cdf((1 + level) / 2), level)


def _sizes(given: Any, name: str, what: str, *, zero: bool = False) -> float | tuple[float, ...]:
    """One number or one per output, checked to be finite and positive, or not negative."""
    index = getattr(given, "index", ())  # that of a Series; lists have a method of this name
    if not callable(index) and any(isinstance(label, str) for label in index):
        raise TypeError(f"`{name}` goes by the order of the outputs, and this Series by names: .to_numpy().")
    sizes = to_numpy(floats(given, name))
    if sizes.ndim > 1 or not (np.isfinite(sizes) & (sizes >= 0 if zero else sizes > 0)).all():
        raise ValueError(f"`{name}` should be {what}, got {given}.")
    return tuple(sizes.tolist()) if sizes.ndim else float(sizes)


def _times(unit: Array | float, q: Array, prediction: Prediction) -> Array | float:
    """q unit, infinite where q is, whatever the unit; q is (), (n,) or (n, m), rounded up by some ulp."""
    limits = limits_of(prediction.mean)
    grown = 1 + ULPS * limits.eps
    if isinstance(q, float) or np.ndim(q) == 0:
        q = float(q) * grown
        return unit * q if q <= limits.max else float("inf")
    mean = prediction.mean
    q = kind_of(mean, q)
    shape = (-1, *[1] * (mean.ndim - 1)) if q.ndim == 1 else (len(q), *mean.shape[1:])
    q = q.reshape(shape) * grown
    xp = namespace(mean)
    infinite = q > limits.max
    half = like(mean, xp.where(infinite, xp.zeros_like(q), q)) * unit
    return xp.where(infinite, like(mean, np.asarray(np.inf)), half)
