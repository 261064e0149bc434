"""Jackknife+ and CV+: a band from models that were each trained without a part of the data.

Every reading serves for both training and calibration. With K models, each trained without one of K folds,
reading i has the residual R_i of the model mu_-i that was trained without its fold. The band at x lies
between order statistics of mu_-i(x) - R_i and of mu_-i(x) + R_i. The method is jackknife+ if every reading is
a fold, and CV+ otherwise. (Barber, Candes, Ramdas and Tibshirani 2021)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from guardband.base.arrays import Array, ArrayLike, finite, kind_of, like, namespace, rows, to_numpy
from guardband.base.kept import attributes, kept
from guardband.conformal.base import Groups, Size, Traits, no_groups
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.predict import predict
from guardband.conformal.rank import Level, exact, points_needed, rank, warn_infinite
from guardband.conformal.scores import ULPS
from guardband.values import MODEL, Band, Names, Prediction, Predictor
from guardband.values.frames import PROBES, Columns, is_frame, on_axes, only_numbers
from guardband.values.labeled import Axes, arranged, inputs


@kept
@dataclass(frozen=True, eq=False, repr=False)
class CrossPrediction(Prediction):
    """The mean of several models, and the prediction of each model.

    Parameters
    ----------
    x
        Points, shape (n, d), or None.
    mean
        Mean over the models, shape (n, 1).
    scale
        Not used; None.
    each
        Prediction of each model, shape (n, K).

    Examples
    --------
    >>> import guardband as gb
    >>> gb.conformal.CrossPrediction(None, [2.0], each=[[1.0, 3.0]])
    CrossPrediction(1 points, 2 models)
    """

    each: Array = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.each is None or tuple(np.shape(self.each)[:1]) != (len(self),):
            shape = None if self.each is None else tuple(np.shape(self.each))
            raise ValueError(
                f"`each` should hold the predictions of each model at {len(self)} points, shape (n, K), "
                f"got {shape}."
            )
        vars(self).update(each=finite(like(self.mean, rows(self.each, "each")), "each", MODEL))

    def __repr__(self) -> str:
        return f"CrossPrediction({len(self)} points, {self.each.shape[1]} models)"


@kept(parts=lambda value: {k: v for k, v in attributes(value).items() if (k, v) != ("names", None)})
@dataclass(frozen=True, eq=False, repr=False)
class CrossValidated(Calibrated):
    """K models and the fold that each was trained without; created by `gb.calibration.calibrate_cross`.

    Parameters
    ----------
    models
        The models, in the order of the folds.
    fold
        For each reading, the index of the model that was trained without it, shape (n,).
    prediction
        The predictions of all models at the readings.
    y
        Targets, shape (n, 1).
    groups
        Group label of each reading, shape (n,), or None.
    columns
        Columns of the frame that the readings came from, or None.
    names
        Names of the columns of arrays, or None.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> def fit(data):
    ...     line = np.polyfit(data.x[:, 0], data.y[:, 0], 1)
    ...     return lambda x: np.polyval(line, x)
    >>> x = np.linspace(0, 1, 40)
    >>> calibrated = gb.calibration.calibrate_cross(
    ...     fit, gb.Observations(x, x + 0.1 * np.cos(50 * x)), folds=10
    ... )
    >>> calibrated
    CV+(10 models, n=40)
    >>> float(calibrated.promised(0.9))
    0.7318181818181818
    """

    models: tuple[Predictor, ...]
    fold: np.ndarray
    prediction: CrossPrediction  # type: ignore[assignment]
    y: Array
    groups: np.ndarray | None = None
    columns: Columns | None = None
    names: Names | None = None

    def predict(self, x: ArrayLike) -> CrossPrediction:
        """Return the prediction of each model at x (n, d) and their mean; frames are matched by name."""
        if self.columns is None and self.field_names is not None:
            names = self.field_names.axes
            x = arranged(on_axes(x, names) if is_frame(x) else x, Axes.of_columns(names), "x")
        x = inputs(x, self.columns, None)
        x = only_numbers(x, self.name) if is_frame(x) else x
        return predict_each(self.models, x, self.columns)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Band:
        """Return the band between order statistics of the predictions minus and plus the residuals."""
        no_groups(groups, f"a band of {self.name}", "it treats all new points in the same way.")
        if not isinstance(prediction, CrossPrediction):
            raise TypeError(
                f"{self.name} needs the predictions of all its models, calibrated.predict(x), got "
                f"{type(prediction).__name__}."
            )
        without = to_numpy(prediction.each).astype(float)[:, self.fold]  # mu_-i(x), (queries, n)
        return band_between(prediction, without, self.residuals, level, self.shares)

    @cached_property
    def residuals(self) -> np.ndarray:
        """The leave-fold-out residuals |y - mu_-i(x_i)|, shape (n,)."""
        each = to_numpy(self.prediction.each).astype(float)
        return abs(to_numpy(self.y).astype(float)[:, 0] - each[np.arange(len(self.fold)), self.fold])

    @cached_property
    def shares(self) -> GroupWeights | None:
        """The weight of each reading; None if all weights are equal."""
        return None if self.groups is None else GroupWeights.of(self.groups)

    @property
    def units(self) -> int:
        """The number of exchangeable units: groups if there are any, otherwise readings."""
        return len(self.fold) if self.shares is None else self.shares.groups

    @property
    def promise(self) -> str:
        """The guaranteed probability as a number, its assumptions, and the typical coverage."""
        what = "readings" if self.groups is None else "groups (sensors), the readings of each,"
        new = "reading" if self.groups is None else "reading of a new group"
        cost = "" if self.cost == 0 else f" - {float(self.cost):.4f}"
        numbers = [f"{max(0.0, float(self.promised(level))):.4g} at level {level}" for level in (0.9, 0.95)]
        return (
            f"If all {self.units} {what} and a new one are exchangeable, training does not depend on their "
            f"order, and its settings were fixed without them or are chosen inside `fit`, a new {new} lies "
            f"in the band with probability at least 1 - 2 (1 - level){cost}, which is "
            f"{' and '.join(numbers)}. Usually it does so about as often as the level says."
        )

    @property
    def traits(self) -> Traits:
        """The traits of intervals for one output, with a guarantee for new groups if there are groups."""
        return Traits(
            covers_new_groups=self.groups is not None,
            is_box=True,
            leaves_out=True,
            holds_for="any model whose training does not depend on the order of its rows",
        )

    def promised(self, level: Level) -> Fraction:
        """Return 1 - 2 (1 - level) minus the cost of the folds, at least 0."""
        return max(Fraction(0), 1 - 2 * (1 - exact(level)) - self.cost)

    @property
    def cost(self) -> Fraction:
        """The loss of guaranteed coverage caused by folds of several units, in addition to the factor of two.

        It is min{2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)} for n units in K equal folds. The first bound
        comes from a mean of p-values weighted by fold size and also holds for unequal folds; the second does
        not.
        """
        n, k = self.units, len(self.models)
        mean = 2 * (1 - Fraction(1, k)) / (Fraction(n, k) + 1)
        return min(mean, (1 - Fraction(k, n)) / (k + 1)) if self.equal else mean

    @property
    def equal(self) -> bool:
        """Whether all folds contain the same number of units."""
        groups = np.arange(len(self.fold)) if self.groups is None else self.groups
        return len({len(np.unique(groups[self.fold == k])) for k in range(len(self.models))}) == 1

    def size(self, level: Level) -> Size:
        """Return the number of groups, or of readings if there are no groups."""
        what = "readings" if self.groups is None else "groups (sensors)"
        return Size(self.units, points_needed(level), what)

    @property
    def name(self) -> str:
        """Jackknife+ if each unit is a fold, otherwise CV+."""
        return "Jackknife+" if len(self.models) == self.units else "CV+"

    @property
    def field_names(self) -> Names | None:
        """Names of axes and outputs: `names`, or those of the models."""
        return self.names or self.models[0].field_names

    def with_names(self, names: Names) -> CrossValidated:
        """Return a copy with names for the columns of arrays; the object itself if names are known."""
        known = self.columns is not None or self.field_names is not None
        return self if known else replace(self, names=names)

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return the predictions of the models at some readings, and the residuals."""
        found = {"scores": self.residuals}
        if self.prediction.x is not None:
            found |= {"each": to_numpy(self.predict(self.prediction.x[:PROBES]).each)}
        return found

    def __repr__(self) -> str:
        return f"{self.name}({len(self.models)} models, n={self.n})"


def predict_each(
    models: tuple[Predictor, ...], x: ArrayLike, columns: Columns | None = None
) -> CrossPrediction:
    """The prediction of each single-output model at x (n, d) and their mean; columns are matched by name."""
    x = finite(rows(x, "x"), "x")
    answers = [predict(model, x[:, _column_order(model, columns)]).mean for model in models]
    wrong = next((tuple(answer.shape) for answer in answers if tuple(answer.shape[1:]) != (1,)), None)
    if wrong is not None:
        raise ValueError(
            f"Cross-calibration supports one output, (n, 1), but a model returned {wrong}. Calibrate each "
            "output separately, with a `fit` that returns a single-output model."
        )
    each = np.concatenate([to_numpy(answer) for answer in answers], axis=1)
    kind = kind_of(answers[0], each)
    return CrossPrediction(x, kind.mean(-1)[:, None], each=kind)


def _column_order(model: Predictor, columns: Columns | None) -> slice | list[int]:
    """The positions of a model's axes among the columns; all columns unchanged if either has no names."""
    names = model.field_names
    if columns is None or names is None or {*columns.names} != {*names.axes}:
        return slice(None)
    return [columns.names.index(axis) for axis in names.axes]


@dataclass(frozen=True, eq=False)
class GroupWeights:
    """Weights of readings as integers, such that all groups have the same total weight."""

    weights: np.ndarray
    whole: int
    """The total weight of a group."""
    groups: int

    @classmethod
    def of(cls, groups: np.ndarray) -> GroupWeights:
        """Weights 1 / (number of readings in the group), on a common denominator."""
        _, group, readings = np.unique(groups, return_inverse=True, return_counts=True)
        whole = math.lcm(*map(int, readings))
        fits = whole * (len(readings) + 1) < 2**62
        return cls(whole // readings.astype(int if fits else object)[group], whole, len(readings))


ROUNDING = 1e-12
"""Relative outward rounding of the ends, so that a target at an end is counted as covered."""


def band_between(
    prediction: Prediction,
    middle: np.ndarray,
    reach: np.ndarray,
    level: Level,
    shares: GroupWeights | None = None,
) -> Band:
    """The band between order statistics of the n intervals [middle - reach, middle + reach] at each point.

    It extends from the (n + 1 - k)-th smallest lower end to the k-th smallest upper end, k = ceil((n + 1)
    level), and is infinite, with a warning, if k > n. With weights, n is the number of groups, and the upper
    end is the smallest at which the cumulative weight reaches (n + 1) level group weights, likewise the lower
    end.
    """
    n = middle.shape[1] if shares is None else shares.groups
    if rank(n, level) > n:
        what = "readings" if shares is None else "groups (sensors)"
        warn_infinite(
            f"level {float(exact(level)):g} needs {points_needed(level)} {what}, but there are {n}."
        )
        high = np.full(len(middle), np.inf)
        ends = -high, high
    else:
        reach = reach + ROUNDING * (abs(middle) + reach)
        ends = (
            -_order_statistic(reach - middle, level, shares),
            _order_statistic(middle + reach, level, shares),
        )
    low, high = (_outward(prediction, end, sign) for end, sign in zip(ends, (-1, 1), strict=True))
    return Band.around(prediction, low, high, float(exact(level)))


def _order_statistic(ends: np.ndarray, level: Level, shares: GroupWeights | None) -> np.ndarray:
    """The k-th smallest end in each row, or the smallest end at which the cumulative weight is sufficient."""
    if shares is None:
        k = rank(ends.shape[1], level)
        return np.partition(ends, k - 1, axis=1)[:, k - 1]
    order = np.argsort(ends, axis=1, kind="stable")
    mass = np.cumsum(shares.weights[order], axis=1)
    first = (mass >= math.ceil(exact(level) * (shares.groups + 1) * shares.whole)).argmax(axis=1)
    at = np.arange(len(ends))
    return ends[at, order[at, first]]


def _outward(prediction: Prediction, end: np.ndarray, sign: int) -> Array:
    """An end as an array of the same kind as the mean, rounded outward by a few ulp."""
    limits = namespace(prediction.mean).finfo(prediction.mean.dtype)
    away = ULPS * float(limits.eps) * abs(end) + float(limits.tiny)
    return like(prediction.mean, (end + sign * away)[:, None])
