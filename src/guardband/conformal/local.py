"""Local: a threshold that follows the size of the residuals over the domain.

    q(x, level) = k-th smallest of scores / g   times   g(x, level)

The shape g > 0 is learnt from residuals at training points, never from the calibration set, so it is a fixed
function when calibration starts and the exact rank of the normalised scores keeps the guarantee.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from guardband.arrays import Array, shared_rows, to_numpy
from guardband.conformal.base import Calibrator, Pieces, Threshold, no_groups, places, places_of
from guardband.conformal.laws import LEVELS
from guardband.conformal.logscale import LogScale
from guardband.conformal.rank import Level, checked, exact
from guardband.conformal.scores import Score
from guardband.conformal.split import Split, SplitThreshold
from guardband.values import Observations, Prediction, Predictor

FOLDS = 5
"""Into how many parts the training rows are cut to compare shapes, or to refit."""

TOLERANCE = 0.05
"""By how much a flat shape must win, in held-out log score, to be taken.

A shape that was not needed costs a little width; a noisy region that was missed costs coverage there.
"""

OVERFITTED, CHANCE = 0.7, 0.01
"""Training residuals below this share of fresh ones say that the network has learnt its noise.

Unless they are so by chance, which a rank test must call less likely than this.
"""


class Shape(Protocol):
    """A fixed function of x: how large residuals are there, up to a factor."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The shape (n,) > 0 at x (n, d)."""
        ...


class Learner(Protocol):
    """A way to learn a shape from residuals."""

    def fit(self, x: np.ndarray, scores: np.ndarray) -> Any:
        """A `Shape`, or a function of x and a level, from scores (n,) >= 0 at x (n, d)."""
        ...


class OverfittedWarning(UserWarning):
    """The network's training residuals are too small to learn a shape from.

    >>> import warnings
    >>> import numpy as np
    >>> import guardband as gb
    >>> x, model = np.arange(40.0), gb.predictors.Constant(np.sin)
    >>> local = gb.Local(gb.Observations(x, np.sin(x)), held_out=gb.Observations(x + 0.1, np.cos(x)))
    >>> with warnings.catch_warnings(action="ignore", category=gb.OverfittedWarning):
    ...     calibrated = gb.calibrate(model, x + 0.2, np.cos(x), calibrator=local)
    >>> calibrated.calibrator.shape
    Flat()
    """


@dataclass(frozen=True)
class Flat:
    """The same everywhere: constant width, the shape that every other one has to beat."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Ones."""
        return np.ones(len(x))


@dataclass(frozen=True, eq=False)
class Local(Calibrator):
    """Local conformal prediction: wide where residuals are large, narrow elsewhere, covered as asked.

    `train` are the observations the network was trained on. Their scores, each predicted as if it had been
    left out where the predictor can say so, tell the `learner` the shape; a flat one stands beside it, and
    the held-out log score within these rows decides. Coverage is exact for any shape, and the band can be
    asked for at any level. (Algorithm 1 of arXiv:2509.13717, with the exact rank and a positive shape)

    A network that has learnt the noise of its training data has residuals that say nothing. Give `held_out`,
    observations it never saw (nor calibration will), or `refit`, a function that trains a predictor on some
    observations, for residuals by cross-fitting: if training residuals are below 0.7 of those, by more than
    chance, there is a warning, and plain conformal prediction is used instead.

    From arrays alone: `prediction` holds the predictions at the training points.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> x = draw.uniform(size=(2, 100))
    >>> y = np.where(x < 0.5, 0.1, 1.0) * draw.normal(size=x.shape)  # the right half is noisier
    >>> quick = gb.PinballNetwork(steps=40, widths=(16,), learning_rate=0.02)  # the default takes seconds
    >>> local = gb.Local(gb.Observations(x[0], y[0]), learner=quick)
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.zeros_like), x[1], y[1], calibrator=local)
    >>> quiet, noisy = calibrated([0.2, 0.8], level=0.9).width.ravel()
    >>> bool(noisy > 2 * quiet)
    True
    """

    train: Observations
    learner: Learner = field(default_factory=LogScale)
    held_out: Observations | None = None
    refit: Callable[[Observations], Predictor] | None = None
    prediction: Prediction | None = None
    held_out_prediction: Prediction | None = None
    shape: Any = None

    @property
    def plain(self) -> Calibrator:
        """Split: what a rival of constant width is calibrated by."""
        return Split()

    @property
    def guarded(self) -> bool:
        """Whether an overfitted network would be noticed."""
        return self.held_out is not None or self.refit is not None

    def prepared(self, predictor: Predictor | None, score: Score) -> Local:
        """The same with its shape learnt; nothing is done twice."""
        if self.shape is not None:
            return self
        if not isinstance(self.train, Observations):
            raise TypeError(f"`train` should be gb.Observations(x, y), got {type(self.train).__name__}.")
        x = places(self.train.x)
        scores = _scores(score, self._at_training(predictor), self.train)
        fresh = self._fresh(predictor, score)
        if fresh is not None and _clearly_less(scores, fresh):
            ratio = np.median(scores) / np.median(fresh)
            warnings.warn(
                f"The network has overfitted: its residuals at training points are {ratio:.2f} of those at "
                "points it never saw, so they say little about where it errs. Plain conformal prediction is "
                "used instead. Train with more regularisation, or on more data.",
                OverfittedWarning,
                stacklevel=4,
            )
            return replace(self, shape=Flat())
        if self.refit is not None and fresh is not None:
            scores = fresh
        return replace(self, shape=best_shape(self.learner, x, scores))

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> LocalThreshold:
        """Divide the scores by the shape; every level is then a rank."""
        no_groups(groups, "Local()", "it treats all points alike.")
        if self.shape is None:
            raise ValueError("Local() has not seen its training residuals yet; `calibrate` prepares it.")
        x, expected = places_of(prediction, "Local()"), places(self.train.x).shape[1]
        if x.shape[1] != expected:
            raise ValueError(
                f"`train` should have {x.shape[1]} coordinates like the calibration points, got {expected}."
            )
        return LocalThreshold(self.shape, checked(scores), x, confidence)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={type(self.shape).__name__}"
        return f"Local({len(self.train)} training points, {self.learner!r}{shape})"

    def _at_training(self, predictor: Predictor | None) -> Prediction:
        if self.prediction is not None:
            return self.prediction
        if predictor is None:
            raise ValueError(
                "From arrays alone Local() needs to know what was predicted at the training points: "
                "Local(train, prediction=gb.Prediction(x_train, mean, scale))."
            )
        return getattr(predictor, "at_training", predictor)(self.train.x)

    def _fresh(self, predictor: Predictor | None, score: Score) -> np.ndarray | None:
        """Scores at points that the network that predicts them never saw, if there is a way to get them."""
        if self.held_out is not None:
            same = shared_rows([self.held_out.x, self.held_out.y], [self.train.x, self.train.y])
            if same.any():
                raise ValueError(
                    f"{int(same.sum())} of the held-out rows are training rows. Hold out others."
                )
            if self.held_out_prediction is None and predictor is None:
                raise ValueError("From arrays alone, give `held_out_prediction` with `held_out`.")
            made = self.held_out_prediction
            return _scores(score, made if made is not None else predictor(self.held_out.x), self.held_out)  # type: ignore[misc]
        if self.refit is None:
            return None
        fresh = np.empty(len(self.train))
        fold = _folds(len(self.train))
        for k in range(FOLDS):
            rest, part = (
                Observations(self.train.x[mask], self.train.y[mask]) for mask in (fold != k, fold == k)
            )
            fresh[fold == k] = _scores(score, self.refit(rest)(part.x), part)
        return fresh


@dataclass(frozen=True, eq=False)
class LocalThreshold(Threshold):
    """The shape, and the calibration scores with their points."""

    shape: Any
    scores: np.ndarray
    x: np.ndarray
    confidence: Level | None = None
    _sorted: dict[float | None, SplitThreshold] = field(default_factory=dict, init=False, repr=False)
    _last: list[tuple[Prediction, np.ndarray]] = field(default_factory=list, init=False, repr=False)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """The k-th smallest normalised score times the shape at x, (n,)."""
        no_groups(groups, "Local()", "it treats all points alike.")
        q = self._normalised(level)(prediction, level)
        shape = self._shape_at(prediction, level)
        return np.full(len(shape), np.inf) if np.isinf(q) else q * shape

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """One piece: BetaBinomial(m, k, n+1-k), as for any fixed score."""
        return SplitThreshold(self.scores, self.confidence).laws(level, m, groups)

    def _shape_at(self, prediction: Prediction, level: Level) -> np.ndarray:
        """The shape at the prediction's points; a sweep over levels pays for it once."""
        if per_level(self.shape):
            return at_level(self.shape, level)(places_of(prediction, "Local()"))
        if not self._last or self._last[0][0] is not prediction:
            self._last[:] = [(prediction, self.shape(places_of(prediction, "Local()")))]
        return self._last[0][1]

    def _normalised(self, level: Level) -> SplitThreshold:
        """The sorted scores over the shape; the same for all levels, unless the shape depends on them."""
        key = float(exact(level)) if per_level(self.shape) else None
        if key not in self._sorted:
            scores = np.sort(self.scores / at_level(self.shape, level)(self.x))
            self._sorted[key] = SplitThreshold(scores, self.confidence)
        return self._sorted[key]


def best_shape(learner: Learner, x: np.ndarray, scores: np.ndarray) -> Any:
    """What the learner makes of all rows, or a flat shape where the held-out log score prefers that."""
    if not np.isfinite(scores).all():
        raise ValueError(
            "Some training scores are infinite: the scale is 0 where the model missed. Use a scale that is "
            "positive everywhere, such as score=Total(noise=...)."
        )
    fold = _folds(len(scores))
    if len(scores) < 2 * FOLDS or not all((scores[fold != k] > 0).any() for k in range(FOLDS)):
        return Flat()
    held_out = np.empty((len(LEVELS), len(scores)))
    for k in range(FOLDS):
        shape = learner.fit(x[fold != k], scores[fold != k])
        for i, level in enumerate(LEVELS):
            if i and not per_level(shape):
                held_out[i, fold == k] = held_out[0, fold == k]
            else:
                held_out[i, fold == k] = at_level(shape, level)(x[fold == k])
    worse = log_score(np.exp(np.log(held_out).mean(axis=0)), scores) - log_score(np.ones(len(x)), scores)
    return Flat() if worse > TOLERANCE else learner.fit(x, scores)


def log_score(shape: np.ndarray, scores: np.ndarray) -> float:
    """The mean negative log-likelihood of half-normal scores of this shape, its size being the best one.

    A difference of 0.01 is a per cent of width.
    """
    return float(np.log(shape).mean() + 0.5 * np.log(np.mean((scores / shape) ** 2)))


def at_level(shape: Any, level: Level) -> Shape:
    """The shape at a level, as a function of x."""
    if per_level(shape):
        return lambda x: shape(x, float(exact(level)))
    return shape


def per_level(shape: Any) -> bool:
    """Whether a shape is another one at each level."""
    return getattr(shape, "per_level", False)


def _clearly_less(scores: np.ndarray, fresh: np.ndarray) -> bool:
    """Whether training scores are below their share of fresh ones, and not by chance."""
    if np.median(scores) >= OVERFITTED * np.median(fresh):
        return False
    from scipy.stats import mannwhitneyu

    return bool(mannwhitneyu(scores, fresh, alternative="less").pvalue < CHANCE)


def _folds(n: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(n) % FOLDS


def _scores(score: Score, prediction: Prediction, seen: Observations) -> np.ndarray:
    return np.asarray(to_numpy(score(prediction, seen.y)), dtype=float)
