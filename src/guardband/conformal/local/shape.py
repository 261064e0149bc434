"""The shape of a local band: a fixed function of x once it is learned, and the threshold that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Learned, Pieces, Size, Threshold, no_groups, places_of
from guardband.conformal.laws import LEVELS
from guardband.conformal.rank import Level, checked, exact
from guardband.conformal.split import Split, SplitThreshold
from guardband.values import Observations, Prediction

FOLDS = 5
"""Into how many parts the training rows are cut to compare shapes, or to refit."""

TOLERANCE = 0.05
"""By how much a flat shape must win, in held-out log score, to be taken.

A shape that was not needed costs a little width; a noisy region that was missed costs coverage there.
"""


class Shape(Protocol):
    """A fixed function of x: how large residuals are there, up to a factor."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The shape (n,) > 0 at x (n, d)."""
        ...


class Learner(Protocol):
    """A way to learn a shape from residuals.

    A costly one may have an attribute `rough`, a quicker learner of nearly the same shape, which stands for
    it where it is compared with a flat one.
    """

    def fit(self, x: np.ndarray, scores: np.ndarray) -> Any:
        """A `Shape`, or a function of x and a level, from scores (n,) >= 0 at x (n, d)."""
        ...


@kept
@dataclass(frozen=True)
class Flat:
    """The same everywhere: constant width, the shape that every other one has to beat."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Ones."""
        return np.ones(len(x))


@kept
@dataclass(frozen=True, eq=False)
class LocalShape(Learned):
    """A shape learned from observations `seen`, for points of d coordinates, `watched` by a guard."""

    shape: Any
    d: int | None
    watched: bool = False
    seen: Mapping[str, Observations] = field(default_factory=dict)

    @property
    def guarded(self) -> bool:
        """Whether an overfitted network would have been noticed."""
        return self.watched

    @property
    def used(self) -> Mapping[str, Observations]:
        """The observations it came from."""
        return self.seen

    @property
    def plain(self) -> Calibrator:
        """Split: what a rival of constant width is calibrated by."""
        return Split()

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
        x = places_of(prediction, "Local()")
        if self.d not in (None, x.shape[1]):
            raise ValueError(
                f"`training_data` should have {x.shape[1]} coordinates like the calibration points, "
                f"got {self.d}."
            )
        return LocalThreshold(self.shape, checked(scores), x, confidence)

    def at_points(self, x: np.ndarray) -> LocalShape:
        """The same, with the shape evaluated there once for all."""
        return replace(self, shape=KnownShape(self.shape, x))

    def __repr__(self) -> str:
        shape = repr(self.shape) if isinstance(self.shape, Flat) else type(self.shape).__name__
        return f"LocalShape({shape})"


@dataclass(frozen=True, eq=False)
class LocalThreshold(Threshold):
    """The shape, and the calibration scores with their points."""

    shape: Any
    scores: np.ndarray
    x: np.ndarray
    confidence: Level | None = None
    _sorted: dict[float | None, SplitThreshold] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """The k-th smallest normalized score times the shape at x, (n,)."""
        no_groups(groups, "Local()", "it treats all points alike.")
        q = self.normalized(level)(prediction, level)
        shape = self._at(prediction, level)
        return np.full(len(shape), np.inf) if np.isinf(q) else q * shape

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """One piece: BetaBinomial(m, k, n+1-k), as for any fixed score."""
        return SplitThreshold(self.scores, self.confidence).laws(level, m, groups)

    def size(self, level: Level) -> Size:
        """Each point counts as one."""
        return SplitThreshold(self.scores, self.confidence).size(level)

    def normalized(self, level: Level) -> SplitThreshold:
        """The sorted scores over the shape; the same for all levels, unless the shape depends on them."""
        key = float(exact(level)) if per_level(self.shape) else None
        if key not in self._sorted:
            scores = np.sort(self.scores / at_level(self.shape, level)(self.x))
            self._sorted[key] = SplitThreshold(scores, self.confidence)
        return self._sorted[key]

    def _at(self, prediction: Prediction, level: Level) -> np.ndarray:
        """The shape at the points of a prediction, which remembers it: a sweep over levels pays once."""
        if per_level(self.shape):
            return at_level(self.shape, level)(places_of(prediction, "Local()"))
        owner, values = prediction.remembered.get(id(self.shape), (None, None))
        if owner is not self.shape or values is None:
            values = self.shape(places_of(prediction, "Local()"))
            prediction.remembered[id(self.shape)] = self.shape, values
        return values


class KnownShape:
    """A shape with its values at some points: computed once, then looked up; elsewhere it is evaluated.

    What it returns is what the shape returns, so a threshold made of it is the shape's own.
    """

    shape: Any
    x: np.ndarray
    per_level: bool

    def __init__(self, shape: Any, x: np.ndarray) -> None:
        self.shape, self.x, self.per_level = shape, x, per_level(shape)
        self._row = {name: row for row, name in enumerate(_row_names(x))}
        self._values: dict[tuple[float, ...], np.ndarray] = {}

    def __call__(self, x: np.ndarray, *level: float) -> np.ndarray:
        """The shape (n,) at x (n, d), and at a level if it is another one at each."""
        found = [self._row.get(name, -1) for name in _row_names(x)]
        if -1 in found:
            return self.shape(x, *level)
        if level not in self._values:
            self._values[level] = self.shape(self.x, *level)
        return self._values[level][found]


def _row_names(x: np.ndarray) -> list[bytes]:
    """The bytes of each point."""
    return np.ascontiguousarray(x).view(np.dtype((np.void, x.itemsize * x.shape[1]))).ravel().tolist()


def best_shape(learner: Learner, x: np.ndarray, scores: np.ndarray) -> Any:
    """What the learner makes of all rows, or a flat shape where the held-out log score prefers that."""
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
    """The mean negative log-likelihood of half-normal scores of this shape, its size being the best one.

    A difference of 0.01 is a per cent of width.
    """
    normalized = scores / shape
    most = normalized.max()  # squares must not overflow
    return float(np.log(shape).mean() + np.log(most) + 0.5 * np.log(np.mean((normalized / most) ** 2)))


def at_level(shape: Any, level: Level) -> Shape:
    """The shape at a level, as a function of x."""
    if per_level(shape):
        return lambda x: shape(x, float(exact(level)))
    return shape


def per_level(shape: Any) -> bool:
    """Whether a shape is another one at each level."""
    return getattr(shape, "per_level", False)


def folds(n: int) -> np.ndarray:
    """The part each of n rows belongs to, always the same."""
    return np.random.default_rng(0).permutation(n) % FOLDS
