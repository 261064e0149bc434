"""Cross: a band of models that were each trained without some of the readings, so that none is spent.

With K models, each trained without one of K folds, a reading i has a residual R_i of the model that has not
seen it. The band at x runs between order statistics of mu_-i(x) - R_i and of mu_-i(x) + R_i, mu_-i being the
model without the fold of i: jackknife+ where every reading is a fold of its own, CV+ else (Barber, Candes,
Ramdas and Tibshirani 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from guardband.base.arrays import Array, ArrayLike, finite, kind_of, like, namespace, rows, to_numpy
from guardband.base.kept import attributes, kept
from guardband.conformal.asking import ask
from guardband.conformal.base import Groups, Size, Traits, no_groups
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.rank import Level, exact, points_needed, rank, warn_infinite
from guardband.conformal.scores import ULPS
from guardband.values import MODEL, Band, Names, Prediction, Predictor
from guardband.values.frames import PROBES, Columns, is_frame, on_axes, only_numbers
from guardband.values.labeled import Axes, arranged, inputs


@kept
@dataclass(frozen=True, eq=False, repr=False)
class CrossPrediction(Prediction):
    """The mean over the models, and what each of them says: `each` (n, K).

    >>> import guardband as gb
    >>> gb.conformal.CrossPrediction(None, [2.0], each=[[1.0, 3.0]])
    CrossPrediction(1 points, 2 models)
    """

    each: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.each is None or tuple(np.shape(self.each)[:1]) != (len(self),):
            shape = None if self.each is None else tuple(np.shape(self.each))
            raise ValueError(
                f"`each` should hold what each model says at the {len(self)} points, (n, K), got {shape}."
            )
        vars(self).update(each=finite(like(self.mean, rows(self.each, "each")), "each", MODEL))

    def __repr__(self) -> str:
        return f"CrossPrediction({len(self)} points, {self.each.shape[1]} models)"


@kept(parts=lambda value: {k: v for k, v in attributes(value).items() if (k, v) != ("names", None)})
@dataclass(frozen=True, eq=False, repr=False)
class CrossValidated(Calibrated):
    """K models, and which of them has not seen each reading; `gb.calibration.calibrate_cross` makes it.

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
    """Which model has not seen each reading, (n,)."""
    prediction: CrossPrediction  # type: ignore[assignment]
    y: Array
    groups: np.ndarray | None = None
    columns: Columns | None = None
    names: Names | None = None
    """The names of the columns of arrays, if they were given."""

    def predict(self, x: ArrayLike) -> CrossPrediction:
        """What each of the models says at x (n, d), and their mean; columns of a frame go by their names."""
        if self.columns is None and self.field_names is not None:
            names = self.field_names.axes
            x = arranged(on_axes(x, names) if is_frame(x) else x, Axes.of_columns(names), "x")
        x = inputs(x, self.columns, None)
        x = only_numbers(x, self.name) if is_frame(x) else x
        return said_by(self.models, x, self.columns)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Band:
        """Between order statistics of what the models say, minus and plus the residuals."""
        no_groups(groups, f"{self.name} at the call", "all new points are alike.")
        if not isinstance(prediction, CrossPrediction):
            raise TypeError(
                f"{self.name} needs what each of its models says: calibrated.predict(x), got "
                f"{type(prediction).__name__}."
            )
        without = to_numpy(prediction.each).astype(float)[:, self.fold]  # mu_-i(x), (queries, n)
        return between(prediction, without, self.residuals, level, self.shares)

    @cached_property
    def residuals(self) -> np.ndarray:
        """|y - mu_-i|, (n,)."""
        each = to_numpy(self.prediction.each).astype(float)
        return abs(to_numpy(self.y).astype(float)[:, 0] - each[np.arange(len(self.fold)), self.fold])

    @cached_property
    def shares(self) -> Shares | None:
        """How much each reading counts; None where all count alike."""
        return None if self.groups is None else Shares.of(self.groups)

    @property
    def units(self) -> int:
        """How many there are of what is exchangeable: groups, or readings where there are none."""
        return len(self.fold) if self.shares is None else self.shares.groups

    @property
    def promise(self) -> str:
        """A number, with what is assumed, and what is usually seen."""
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
        """Intervals for one output, and with groups a promise about a new one; readings are left out."""
        return Traits(
            covers_new_groups=self.groups is not None,
            is_box=True,
            leaves_out=True,
            holds_for="any model whose training does not depend on the order of its rows",
        )

    def promised(self, level: Level) -> Fraction:
        """1 - 2 (1 - level), less what folds cost; nothing below 0."""
        return max(Fraction(0), 1 - 2 * (1 - exact(level)) - self.cost)

    @property
    def cost(self) -> Fraction:
        """What folds of more than one cost beyond the factor of two.

        min{2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)} for n units in K equal folds. The first is that of a
        mean of p-values, in which a fold counts by its size, so it holds for unequal folds; the second not.
        """
        n, k = self.units, len(self.models)
        mean = 2 * (1 - Fraction(1, k)) / (Fraction(n, k) + 1)
        return min(mean, (1 - Fraction(k, n)) / (k + 1)) if self.equal else mean

    @property
    def equal(self) -> bool:
        """Whether all folds hold equally many units."""
        groups = np.arange(len(self.fold)) if self.groups is None else self.groups
        return len({len(np.unique(groups[self.fold == k])) for k in range(len(self.models))}) == 1

    def size(self, level: Level) -> Size:
        """Readings count, or groups where there are any."""
        what = "readings" if self.groups is None else "groups (sensors)"
        return Size(self.units, points_needed(level), what)

    @property
    def name(self) -> str:
        """Jackknife+ where each unit is a fold of its own, CV+ else."""
        return "Jackknife+" if len(self.models) == self.units else "CV+"

    @property
    def field_names(self) -> Names | None:
        """What axes and outputs are called: by `names`, or by the models."""
        return self.names or self.models[0].field_names

    def with_names(self, names: Names) -> CrossValidated:
        """The same with names for the columns of arrays; itself where names are known."""
        known = self.columns is not None or self.field_names is not None
        return self if known else replace(self, names=names)

    def fingerprint(self) -> dict[str, np.ndarray]:
        """What the models say at some readings, and the residuals."""
        found = {"scores": self.residuals}
        if self.prediction.x is not None:
            found |= {"each": to_numpy(self.predict(self.prediction.x[:PROBES]).each)}
        return found

    def __repr__(self) -> str:
        return f"{self.name}({len(self.models)} models, n={self.n})"


def said_by(models: tuple[Predictor, ...], x: ArrayLike, columns: Columns | None = None) -> CrossPrediction:
    """What each of some models of one output says at x (n, d), and their mean; a network goes by its axes."""
    x = finite(rows(x, "x"), "x")
    answers = [ask(model, x[:, _order(model, columns)]).mean for model in models]
    wrong = next((tuple(answer.shape) for answer in answers if tuple(answer.shape[1:]) != (1,)), None)
    if wrong is not None:
        raise ValueError(
            f"Cross-calibration is about one output, (n, 1), and a model answers {wrong}. Calibrate each "
            "output by itself, with a `fit` that returns a model of one."
        )
    each = np.concatenate([to_numpy(answer) for answer in answers], axis=1)
    kind = kind_of(answers[0], each)
    return CrossPrediction(x, kind.mean(-1)[:, None], each=kind)


def _order(model: Predictor, columns: Columns | None) -> Any:
    """Where the axes of a model stand among columns; all as they are where one of both has no names."""
    names = model.field_names
    if columns is None or names is None or {*columns.names} != {*names.axes}:
        return slice(None)
    return [columns.names.index(axis) for axis in names.axes]


@dataclass(frozen=True, eq=False)
class Shares:
    """How much each reading counts, in whole numbers: all of a group as much as all of any other."""

    weights: np.ndarray
    whole: int
    """What all readings of a group count together."""
    groups: int

    @classmethod
    def of(cls, groups: np.ndarray) -> Shares:
        """One over how many readings a group has, on a common denominator."""
        _, group, readings = np.unique(groups, return_inverse=True, return_counts=True)
        whole = math.lcm(*map(int, readings))
        fits = whole * (len(readings) + 1) < 2**62
        return cls(whole // readings.astype(int if fits else object)[group], whole, len(readings))


ROUNDING = 1e-12
"""By how much of themselves ends are moved outwards, so that what lies at an end lies in the band."""


def between(
    prediction: Prediction, middle: np.ndarray, reach: np.ndarray, level: Level, shares: Shares | None = None
) -> Band:
    """The band between order statistics of n intervals at each point, middle -+ reach, (queries, n).

    From the (n + 1 - k)-th smallest of the lower ends to the k-th smallest of the upper ones,
    k = ceil((n + 1) level); without such a rank it is infinite, with a warning. With shares, n is the number
    of groups, and ranks are masses: the least end up to which they reach n + 1 times the level.
    """
    n = middle.shape[1] if shares is None else shares.groups
    if rank(n, level) > n:
        what = "readings" if shares is None else "groups (sensors)"
        warn_infinite(f"level {float(exact(level)):g} needs {points_needed(level)} {what}, there are {n}.")
        high = np.full(len(middle), np.inf)
        ends = -high, high
    else:
        reach = reach + ROUNDING * (abs(middle) + reach)
        ends = -_reached(reach - middle, level, shares), _reached(middle + reach, level, shares)
    low, high = (_outward(prediction, end, sign) for end, sign in zip(ends, (-1, 1), strict=True))
    return Band.around(prediction, low, high, float(exact(level)))


def _reached(ends: np.ndarray, level: Level, shares: Shares | None) -> np.ndarray:
    """In each row the k-th smallest end, or the least at which the mass of those below is enough."""
    if shares is None:
        k = rank(ends.shape[1], level)
        return np.partition(ends, k - 1, axis=1)[:, k - 1]
    order = np.argsort(ends, axis=1, kind="stable")
    mass = np.cumsum(shares.weights[order], axis=1)
    first = (mass >= math.ceil(exact(level) * (shares.groups + 1) * shares.whole)).argmax(axis=1)
    at = np.arange(len(ends))
    return ends[at, order[at, first]]


def _outward(prediction: Prediction, end: np.ndarray, sign: int) -> Array:
    """An end as the kind of array the mean is, moved outwards by some ulp so that rounding loses no point."""
    limits = namespace(prediction.mean).finfo(prediction.mean.dtype)
    away = ULPS * float(limits.eps) * abs(end) + float(limits.tiny)
    return like(prediction.mean, (end + sign * away)[:, None])
