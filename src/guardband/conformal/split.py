"""`Split`: one threshold for all points, the k-th smallest calibration score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Pieces, Size, Threshold, Traits, no_groups
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.rank import (
    INFINITE_SCORES,
    Level,
    checked_scores,
    exact,
    points_needed,
    rank_for,
    warn_infinite,
)
from guardband.values import Prediction


@kept
@dataclass(frozen=True)
class Split(Calibrator):
    """Split conformal prediction: the threshold is the k-th smallest of n scores, k = ceil((n+1) level).

    If the calibration points and a new point are exchangeable, the new point is covered with probability at
    least `level`, for any model and any noise.

    Notes
    -----
    References: Papadopoulos et al. (2002); Vovk, Gammerman and Shafer (2005).

    Examples
    --------
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays(
    ...     [0.0] * 9, [3, 1, 4, 2, 5, 9, 7, 8, 6], calibrator=gb.Split()
    ... )
    >>> calibrated.band(gb.Prediction(None, [0.0]), level=0.8).upper.round(6)
    array([[8.]])
    """

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> SplitThreshold:
        """Sort the scores, so that each level requires only a lookup. Scores (n, k) are sorted by column."""
        no_groups(groups, "Split()", "it treats all points in the same way. Did you mean Grouped()?")
        if np.ndim(scores) == 2:
            parts = [np.sort(checked_scores(part)) for part in np.asarray(scores).T]
            return SplitThreshold(np.stack(parts, axis=1), confidence)
        return SplitThreshold(np.sort(checked_scores(scores)), confidence)


@kept
@dataclass(frozen=True, eq=False)
class SplitThreshold(Threshold):
    """The sorted calibration scores (n,), or (n, k) sorted by column, and the confidence, if any."""

    scores: np.ndarray
    confidence: Level | None = None
    traits: ClassVar[Traits] = Traits(is_elementwise=True)

    def __call__(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> float | np.ndarray:
        """Return the k-th smallest score, or that of each column (1, k); infinite if n is too small."""
        if groups is not None:
            no_groups(groups, "Split()", "it treats all points in the same way. Did you mean Grouped()?")
        n = len(self.scores)
        k = rank_for(n, level, self.confidence)
        if k > n:
            warn_infinite(
                f"{level_text(level, self.confidence)} needs {points_needed(level, self.confidence)} "
                f"calibration points, but there are {n}."
            )
            return math.inf if self.scores.ndim == 1 else np.full((1, self.scores.shape[1]), np.inf)
        q, one = self.scores[k - 1], self.scores.ndim == 1
        if (q if one else q.max()) == math.inf:
            warn_infinite(INFINITE_SCORES)
        return float(q) if one else q[None]

    def count(self) -> int:
        """Return the number of scores, whether or not their points are stored."""
        return len(self.scores)

    def rank(self, level: Level) -> int:
        """The rank of the threshold, counted from 1; n + 1 for an infinite one."""
        return rank_for(len(self.scores), level, self.confidence)

    def size(self, level: Level) -> Size:
        """Return the number of calibration points."""
        return Size(len(self.scores), points_needed(level, self.confidence))

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """Return one piece: BetaBinomial(m, k, n+1-k)."""
        return [(CoverageLaw(self.rank(level), len(self.scores)), m)]


def level_text(level: Level, confidence: Level | None) -> str:
    """The level, and the confidence if any, in words."""
    sure = "" if confidence is None else f" with confidence {float(exact(confidence)):g}"
    return f"level {float(exact(level)):g}{sure}"
