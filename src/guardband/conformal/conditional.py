"""Conditional: the level holds for every reweighting of places by chosen features, not only on average.

The threshold at x is a quantile regression of the scores on features f(x), in which the new point takes part
with the score it would need: so nothing is lost to estimation. With eta in [-(1 - level), level] the dual
variable of the new point and u drawn uniformly from that interval, the set is all scores with eta < u. Then
E[g(x) (covered - level)] = 0 for every g in the span of the features, exactly. With the indicators of groups
that is the level in each of them, overlapping ones too; with a density ratio in the span it is the level
after that shift. (Gibbs, Cherian and Candes 2023)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from guardband.base.arrays import Array, rows, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, Traits, no_confidence, no_groups, places_of
from guardband.conformal.hashed import FRESH, FROZEN, key, uniform
from guardband.conformal.rank import Level, checked, exact, points_needed, warn_infinite
from guardband.values import Prediction


def _made(parts: dict[str, Any]) -> Conditional:
    """A saved one; what 0.2 has saved keeps the draws of 0.2."""
    return Conditional(**{"fresh": False, **parts})


@kept(made=_made)
@dataclass(frozen=True, eq=False)
class Conditional(Calibrator):
    """Conditional conformal prediction over `features`, a function from x (n, d) to numbers (n, p).

    A constant is always among them. Each query is a linear program over all calibration points: some
    milliseconds at some hundreds of them, so it is for thousands of queries, not for millions. It wants many
    more points than features: with few, bands are infinite or empty now and then. Do not use it where groups
    do not overlap (`Grouped()` is exact and fast), or to learn a width from place to place (`Local()`). The
    draw u is a function of `seed`, the calibration scores and x, so the band is a fixed function.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.random.default_rng(0).uniform(size=400)
    >>> y = (0.1 + x) * np.random.default_rng(1).normal(size=400)  # noisier to the right
    >>> def features(x):
    ...     return np.hstack([x, x < 0.5])
    >>> calibrated = gb.calibrate(np.zeros_like, x, y, calibrator=gb.Conditional(features))
    >>> left, right = calibrated([0.1, 0.9], level=0.9).width.ravel()
    >>> bool(right > 2 * left)
    True
    """

    features: Callable[[np.ndarray], Any]
    seed: int = 0
    fresh: bool = True

    def __post_init__(self) -> None:
        if not callable(self.features):
            raise TypeError(
                "`features` should be a function from x (n, d) to numbers (n, p), such as lambda x: x < 0.5, "
                f"got {type(self.features).__name__}."
            )

    @property
    def promise(self) -> str:
        """Coverage under every reweighting in the span."""
        return (
            f"{super().promise} This holds moreover for every reweighting of places by a nonnegative "
            "combination of the features and a constant: within each group that is a feature, and after a "
            f"shift whose density ratio is one. {FRESH if self.fresh else FROZEN} A band may be infinite or "
            "empty for its draw."
        )

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> ConditionalThreshold:
        """Keep scores and features; the regression is made for each query."""
        no_groups(groups, "Conditional()", "give the groups as features of x, or use Grouped().")
        no_confidence(confidence, "Conditional()")
        scores, x = checked(scores), places_of(prediction, "Conditional()")
        if not np.isfinite(scores).all():
            raise ValueError(
                f"`scores` should be finite for a regression, but row {int((~np.isfinite(scores)).argmax())} "
                "is infinite. Use a scale that is positive everywhere."
            )
        return ConditionalThreshold(scores, _columns(self.features, x), self)


@dataclass(frozen=True, eq=False)
class ConditionalThreshold(Threshold):
    """The calibration scores (n,) and their features (n, p), a constant first."""

    scores: np.ndarray
    columns: np.ndarray
    settings: Conditional
    traits: ClassVar[Traits] = Traits(answers_shift=True)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Per query the score at which its dual variable reaches the draw, (n,)."""
        no_groups(groups, "Conditional()", "give the groups as features of x, or use Grouped().")
        x = places_of(prediction, "Conditional()")
        columns = _columns(self.settings.features, x)
        if columns.shape[1] != self.columns.shape[1]:
            raise ValueError(
                f"`features` should give {self.columns.shape[1] - 1} numbers per point, as at calibration, "
                f"got {columns.shape[1] - 1}."
            )
        alpha = float(1 - exact(level))
        draws = [float(uniform(self._key, row)[0]) - alpha for row in x]
        pairs = zip(columns, draws, strict=True)
        found = np.array([self._reached(at, u, alpha) for at, u in pairs], dtype=float)
        if (found == math.inf).any():
            warn_infinite(
                "at some queries there are too few calibration points with such features. Take fewer "
                "features, or more calibration points."
            )
        return found

    @cached_property
    def _key(self) -> bytes:
        settings = self.settings
        if settings.fresh:
            return key(settings.seed, np.sort(self.scores))
        return b"conditional" + np.int64(settings.seed).tobytes()

    def _reached(self, at: np.ndarray, u: float, alpha: float) -> float:
        """f(x) beta, where beta solves the regression with the new point's dual variable held at u.

        The dual: the largest sum of eta_i s_i with eta_i in [-alpha, 1 - alpha] and sum eta_i f_i = -u f(x);
        beta are its multipliers. If no such eta exists the score is unbounded, up or down as u says.
        """
        from scipy.optimize import linprog

        solved = linprog(
            -self.scores, A_eq=self.columns.T, b_eq=-u * at, bounds=(-alpha, 1 - alpha), method="highs"
        )
        if solved.status == 2:
            return math.copysign(math.inf, u)
        if solved.status != 0:
            raise RuntimeError(
                f"The regression of scores on features was not solved: {solved.message} Bring the features "
                "to one size."
            )
        return float(at @ -solved.eqlin.marginals)

    def size(self, level: Level) -> Size:
        """As many points as groups of their own would need: a rule, since it depends on the features."""
        return Size(len(self.scores), points_needed(level) * int(np.linalg.matrix_rank(self.columns)))


def _columns(features: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """A constant and the features, (n, 1 + p), each checked."""
    found = np.asarray(to_numpy(rows(features(x), "features")), dtype=float)
    if found.ndim != 2 or len(found) != len(x):
        raise ValueError(f"`features` should give one row per point, ({len(x)}, p), got shape {found.shape}.")
    if not np.isfinite(found).all():
        row = int((~np.isfinite(found)).any(axis=1).argmax())
        raise ValueError(f"`features` should be finite, but those of row {row} are not.")
    return np.hstack([np.ones((len(x), 1)), found])
