"""Shapes of local bands: functions of x that are fixed before calibration, and their thresholds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Learned, Pieces, Size, Threshold, no_groups, points_of
from guardband.conformal.laws import LEVELS
from guardband.conformal.rank import Level, checked_scores, exact
from guardband.conformal.split import Split, SplitThreshold
from guardband.values import Observations, Prediction

FOLDS = 5
"""Number of folds for the comparison of shapes and for cross-fitting."""

TOLERANCE = 0.05
"""A flat shape is used if its held-out log score is better by more than this.

An unnecessary shape costs a little width, whereas a missed region of large errors costs local coverage.
"""

AnyShape: TypeAlias = Callable[..., np.ndarray]
"""A `Shape`, or a function of x and a level that has an attribute `per_level`."""


class Shape(Protocol):
    """A fixed function of x: the size of the residuals up to a factor."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the shape (n,) > 0 at x (n, d)."""
        ...


class Learner(Protocol):
    """A method that learns a shape from residuals.

    An expensive learner may have an attribute `rough`, a faster learner of nearly the same shape, which
    replaces it in the comparison with a flat shape.
    """

    def fit(self, x: np.ndarray, scores: np.ndarray) -> AnyShape:
        """Return a `Shape`, or a function of x and a level, from scores (n,) >= 0 at x (n, d)."""
        ...


@kept
@dataclass(frozen=True)
class Flat:
    """A constant shape: constant width, which a learned shape has to improve on."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return ones."""
        return np.ones(len(x))


@kept
@dataclass(frozen=True, eq=False)
class LocalShape(Learned):
    """A shape learned from the observations `seen`; `watched` if overfitting would have been detected."""

    shape: AnyShape
    d: int | None
    watched: bool = False
    seen: Mapping[str, Observations] = field(default_factory=dict)

    @property
    def guarded(self) -> bool:
        """Whether overfitting would have been detected."""
        return self.watched

    @property
    def used(self) -> Mapping[str, Observations]:
        """The observations that the shape was learned from."""
        return self.seen

    @property
    def plain(self) -> Calibrator:
        """Split conformal prediction, for a baseline of constant width."""
        return Split()

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> LocalThreshold:
        """Return the threshold for scores that are divided by the shape; every level is then a rank."""
        no_groups(groups, "Local()", "it treats all points alike.")
        x = points_of(prediction, "Local()")
        if self.d not in (None, x.shape[1]):
            raise ValueError(
                f"`training_data` should have {x.shape[1]} coordinates like the calibration points, "
                f"got {self.d}."
            )
        return LocalThreshold(self.shape, checked_scores(scores), x, confidence)

    def at_points(self, x: np.ndarray) -> LocalShape:
        """Return the same shape with its values at x computed once."""
        return replace(self, shape=KnownShape(self.shape, x))

    def __repr__(self) -> str:
        shape = repr(self.shape) if isinstance(self.shape, Flat) else type(self.shape).__name__
        return f"LocalShape({shape})"


@dataclass(frozen=True, eq=False)
class LocalThreshold(Threshold):
    """The shape, and the calibration scores with their points."""

    shape: AnyShape
    scores: np.ndarray
    x: np.ndarray
    confidence: Level | None = None
    _sorted: dict[float | None, SplitThreshold] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Return the k-th smallest normalized score times the shape at x, (n,)."""
        no_groups(groups, "Local()", "it treats all points alike.")
        q = self.normalized(level)(prediction, level)
        shape = self._at(prediction, level)
        return np.full(len(shape), np.inf) if np.isinf(q) else q * shape

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """Return one piece: BetaBinomial(m, k, n+1-k), as for any fixed score."""
        return SplitThreshold(self.scores, self.confidence).laws(level, m, groups)

    def size(self, level: Level) -> Size:
        """Return the number of calibration points."""
        return SplitThreshold(self.scores, self.confidence).size(level)

    def normalized(self, level: Level) -> SplitThreshold:
        """The sorted scores divided by the shape, computed once unless the shape depends on the level."""
        key = float(exact(level)) if per_level(self.shape) else None
        if key not in self._sorted:
            scores = np.sort(self.scores / at_level(self.shape, level)(self.x))
            self._sorted[key] = SplitThreshold(scores, self.confidence)
        return self._sorted[key]

    def _at(self, prediction: Prediction, level: Level) -> np.ndarray:
        """The shape at the points of a prediction, cached with it for sweeps over levels."""
        if per_level(self.shape):
            return at_level(self.shape, level)(points_of(prediction, "Local()"))
        owner, values = prediction.remembered.get(id(self.shape), (None, None))
        if owner is not self.shape or values is None:
            values = self.shape(points_of(prediction, "Local()"))
            prediction.remembered[id(self.shape)] = self.shape, values
        return values


class KnownShape:
    """A shape with cached values at some points; at other points it is evaluated.

    It returns exactly the values of the shape, so thresholds are identical.
    """

    shape: AnyShape
    x: np.ndarray
    per_level: bool

    def __init__(self, shape: AnyShape, x: np.ndarray) -> None:
        self.shape, self.x, self.per_level = shape, x, per_level(shape)
        self._row = {point: row for row, point in enumerate(_row_bytes(x))}
        self._values: dict[tuple[float, ...], np.ndarray] = {}

    def __call__(self, x: np.ndarray, *level: float) -> np.ndarray:
        """Return the shape (n,) at x (n, d), at a level if the shape depends on it."""
        rows = [self._row.get(point, -1) for point in _row_bytes(x)]
        if -1 in rows:
            return self.shape(x, *level)
        if level not in self._values:
            self._values[level] = self.shape(self.x, *level)
        return self._values[level][rows]


def _row_bytes(x: np.ndarray) -> list[bytes]:
    """The bytes of each point."""
    return np.ascontiguousarray(x).view(np.dtype((np.void, x.itemsize * x.shape[1]))).ravel().tolist()


def best_shape(learner: Learner, x: np.ndarray, scores: np.ndarray) -> AnyShape:
    """The shape learned from all rows, or a flat shape if its held-out log score is clearly better."""
    if not np.isfinite(scores).all():
        raise ValueError(
            "Some training scores are infinite: the scale is 0 where the model missed. Use a scale that is "
            "positive everywhere, such as score=Total(noise=...)."
        )
    fold = folds(len(scores))
    if len(scores) < 2 * FOLDS or not all((scores[fold != k] > 0).any() for k in range(FOLDS)):
        return Flat()
    held_out = np.empty((len(LEVELS), len(scores)))
    rough: Learner = getattr(learner, "rough", learner)
    for k in range(FOLDS):
        shape = rough.fit(x[fold != k], scores[fold != k])
        for i, level in enumerate(LEVELS):
            if i and not per_level(shape):
                held_out[i, fold == k] = held_out[0, fold == k]
            else:
                held_out[i, fold == k] = at_level(shape, level)(x[fold == k])
    worse = log_score(np.exp(np.log(held_out).mean(axis=0)), scores) - log_score(np.ones(len(x)), scores)
    return Flat() if worse > TOLERANCE else learner.fit(x, scores)


def log_score(shape: np.ndarray, scores: np.ndarray) -> float:
    """The mean negative log-likelihood of half-normal scores with this shape, at the best overall size.

    A difference of 0.01 corresponds to about one percent of width.
    """
    normalized = scores / shape
    largest = normalized.max()  # squares must not overflow
    return float(np.log(shape).mean() + np.log(largest) + 0.5 * np.log(np.mean((normalized / largest) ** 2)))


def at_level(shape: AnyShape, level: Level) -> Shape:
    """The shape at a level, as a function of x."""
    if per_level(shape):
        return lambda x: shape(x, float(exact(level)))
    return shape


def per_level(shape: AnyShape) -> bool:
    """Whether a shape depends on the level."""
    return getattr(shape, "per_level", False)


def folds(n: int) -> np.ndarray:
    """The fold of each of n rows, always the same."""
    return np.random.default_rng(0).permutation(n) % FOLDS
