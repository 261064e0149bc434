"""`Conditional`: coverage under every reweighting of x by chosen features, not only on average.

The threshold at x comes from a quantile regression of the scores on features f(x); the regression includes
the new point, with a hypothetical score. Let eta in [-(1 - level), level] be the dual variable of the new
point, and u a uniform draw from that interval; the set contains all scores with eta < u. Then
E[g(x) (1{covered} - level)] = 0 for every g in the span of the features, exactly and in finite samples. With
indicators of groups as features, each group is covered at the requested level, even if groups overlap. If the
span contains the density ratio of a covariate shift, coverage is maintained under that shift. (Gibbs, Cherian
and Candes 2023)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array, rows, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, Traits, no_confidence, no_groups, points_of
from guardband.conformal.hashed import FRESH, FROZEN, key, uniform
from guardband.conformal.rank import Level, checked_scores, exact, points_needed, warn_infinite
from guardband.values import Prediction


# Files written by version 0.2 lack `fresh` and keep the draws of that version.
@kept(made=lambda parts: Conditional(**{"fresh": False, **parts}))
@dataclass(frozen=True, eq=False)
class Conditional(Calibrator):
    """Conditional conformal prediction: coverage in groups and under shifts spanned by features of x.

    A constant is always added to the features. Use `Grouped()` for groups that do not overlap, which is exact
    and fast, and `Local()` to learn a width that varies over the domain.

    Parameters
    ----------
    features
        A function from x (n, d) to features (n, p).
    seed
        Seed of the randomized threshold. The draw u is a function of the seed, the calibration scores and x,
        so the band is a fixed function of x.
    fresh
        Whether draws depend on the calibration scores; False for calibrations saved by version 0.2.

    Notes
    -----
    Each new point requires the solution of a linear program over all calibration points, which takes a few
    milliseconds for several hundred of them. The method therefore suits thousands of new points, not
    millions. It needs many more calibration points than features; otherwise bands are occasionally infinite
    or empty.

    Examples
    --------
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

    features: Callable[[np.ndarray], Array]
    seed: int = 0
    fresh: bool = True

    def __post_init__(self) -> None:
        if not callable(self.features):
            raise TypeError(
                "`features` should be a function from x (n, d) to an array (n, p), such as "
                f"lambda x: x < 0.5, got {type(self.features).__name__}."
            )

    @property
    def promise(self) -> str:
        """The guarantee under every reweighting in the span of the features."""
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
        """Store scores and features; the regression is solved for each new point."""
        no_groups(groups, "Conditional()", "pass the groups as features of x, or use Grouped().")
        no_confidence(confidence, "Conditional()")
        scores, x = checked_scores(scores), points_of(prediction, "Conditional()")
        if not np.isfinite(scores).all():
            raise ValueError(
                f"`scores` should be finite for regression, but row {int((~np.isfinite(scores)).argmax())} "
                "is infinite. Use a scale that is positive everywhere."
            )
        return ConditionalThreshold(scores, _feature_matrix(self.features, x), self)


@dataclass(frozen=True, eq=False)
class ConditionalThreshold(Threshold):
    """The calibration scores (n,) and their features (n, 1 + p), a constant first."""

    scores: np.ndarray
    columns: np.ndarray
    settings: Conditional
    traits: ClassVar[Traits] = Traits(answers_shift=True)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Return for each new point the score at which its dual variable reaches the draw, (n,)."""
        no_groups(groups, "Conditional()", "pass the groups as features of x, or use Grouped().")
        x = points_of(prediction, "Conditional()")
        columns = _feature_matrix(self.settings.features, x)
        if columns.shape[1] != self.columns.shape[1]:
            raise ValueError(
                f"`features` should return {self.columns.shape[1] - 1} numbers per point, as at calibration, "
                f"got {columns.shape[1] - 1}."
            )
        alpha = float(1 - exact(level))
        draws = [float(uniform(self._key, row)[0]) - alpha for row in x]
        pairs = zip(columns, draws, strict=True)
        thresholds = np.array([self._boundary_score(at, u, alpha) for at, u in pairs], dtype=float)
        if (thresholds == math.inf).any():
            warn_infinite(
                "too few calibration points have features like those of some new points. Use fewer "
                "features, or more calibration points."
            )
        return thresholds

    @cached_property
    def _key(self) -> bytes:
        settings = self.settings
        if settings.fresh:
            return key(settings.seed, np.sort(self.scores))
        return b"conditional" + np.int64(settings.seed).tobytes()

    def _boundary_score(self, at: np.ndarray, u: float, alpha: float) -> float:
        """f(x) beta, where beta solves the regression with the new point's dual variable fixed at u.

        The dual problem maximizes the sum of eta_i s_i over eta_i in [-alpha, 1 - alpha] subject to sum eta_i
        f_i = -u f(x); beta are its multipliers. If it is infeasible, the score is unbounded, with the sign of
        u.
        """
        from scipy.optimize import linprog

        solved = linprog(
            -self.scores, A_eq=self.columns.T, b_eq=-u * at, bounds=(-alpha, 1 - alpha), method="highs"
        )
        if solved.status == 2:
            return math.copysign(math.inf, u)
        if solved.status != 0:
            raise RuntimeError(
                f"The regression of scores on features failed: {solved.message} Rescale the features to "
                "similar sizes."
            )
        return float(at @ -solved.eqlin.marginals)

    def size(self, level: Level) -> Size:
        """Return the number of points; as a rule of thumb, each feature needs as many as a group."""
        return Size(len(self.scores), points_needed(level) * int(np.linalg.matrix_rank(self.columns)))


def _feature_matrix(features: Callable[[np.ndarray], Array], x: np.ndarray) -> np.ndarray:
    """A constant and the features, (n, 1 + p), validated."""
    found = np.asarray(to_numpy(rows(features(x), "features")), dtype=float)
    if found.ndim != 2 or len(found) != len(x):
        raise ValueError(
            f"`features` should return one row per point, shape ({len(x)}, p), got shape {found.shape}."
        )
    if not np.isfinite(found).all():
        row = int((~np.isfinite(found)).any(axis=1).argmax())
        raise ValueError(f"`features` should be finite, but those of row {row} are not.")
    return np.hstack([np.ones((len(x), 1)), found])
