"""Split: one threshold for everybody, the k-th smallest calibration score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.arrays import Array
from guardband.conformal.base import Calibrator, Pieces, Threshold, no_groups
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.rank import (
    INFINITE_SCORES,
    Level,
    checked,
    exact,
    kth,
    points_needed,
    rank_for,
    warn_infinite,
)
from guardband.values import Prediction


@dataclass(frozen=True)
class Split(Calibrator):
    """Split conformal prediction: q is the k-th smallest of n scores, k = ceil((n+1) level).

    If the calibration points and the new one are exchangeable (drawn alike, in no special order),
    the new one is covered with probability at least `level`, whatever the network and the noise.
    (Papadopoulos et al. 2002; Vovk, Gammerman and Shafer 2005)

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [3, 1, 4, 2, 5, 9, 7, 8, 6], calibrator=gb.Split())
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
        """Sort the scores; every level is then one look-up."""
        no_groups(groups, "Split()", "it treats all points alike. Did you mean Grouped()?")
        return SplitThreshold(np.sort(checked(scores)), confidence)


@dataclass(frozen=True, eq=False)
class SplitThreshold(Threshold):
    """The sorted calibration scores, and the confidence asked if there is one."""

    scores: np.ndarray
    confidence: Level | None = None

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """The k-th smallest score; infinite, with a warning, where n is too small for the level."""
        no_groups(groups, "Split()", "it treats all points alike. Did you mean Grouped()?")
        k = self.rank(level)
        if k > len(self.scores):
            warn_infinite(
                f"{asked(level, self.confidence)} needs {points_needed(level, self.confidence)} "
                f"calibration points, there are {len(self.scores)}."
            )
        elif np.isinf(self.scores[k - 1]):
            warn_infinite(INFINITE_SCORES)
        return kth(self.scores, k)

    def rank(self, level: Level) -> int:
        """Which score is taken, counted from 1; n + 1 for none."""
        return rank_for(len(self.scores), level, self.confidence)

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """One piece: BetaBinomial(m, k, n+1-k)."""
        return [(CoverageLaw(self.rank(level), len(self.scores)), m)]


def asked(level: Level, confidence: Level | None) -> str:
    """The level, and the confidence if any, in words."""
    sure = "" if confidence is None else f" with confidence {float(exact(confidence)):g}"
    return f"level {float(exact(level)):g}{sure}"
