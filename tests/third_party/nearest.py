"""A threshold for each part of the domain, written outside of the package.

A part consists of the points nearest to one of several centers, which are fixed before calibration. In each
part separately, a new measurement lies in the band with probability at least the level.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import guardband as gb
from guardband.conformal import CoverageLaw, Size, quantile, rank
from guardband.conformal.base import no_confidence, no_groups, points_of

ALIKE = "it makes groups of the places itself."


@gb.kept
@dataclass(frozen=True)
class NearestCenter(gb.conformal.Calibrator):
    """Split conformal prediction in each part of the domain; `centers` must not depend on the data."""

    centers: tuple[tuple[float, ...], ...]

    @property
    def promise(self) -> str:
        return (
            "If in each part of the domain (the places nearest to one of the centers) the calibration points "
            "and a new one are exchangeable, a new measurement there lies in the band with probability at "
            "least the level, in every part by itself."
        )

    @classmethod
    def for_files(cls, *, x: Any, queries: Any, training_data: Any) -> "NearestCenter":
        if training_data is None:
            raise ValueError("--calibrator nearestcenter takes its centers from --training-data FILE.")
        rows = training_data.x[:: max(1, len(training_data) // 3)][:3]
        return cls(tuple(tuple(row) for row in np.asarray(rows, dtype=float).tolist()))

    def threshold(
        self, scores: Any, prediction: gb.Prediction, *, groups: Any = None, confidence: Any = None
    ) -> "NearestThreshold":
        no_groups(groups, "NearestCenter()", ALIKE)
        no_confidence(confidence, "NearestCenter()")
        cell = nearest(self.centers, prediction)
        return NearestThreshold(self, tuple(np.sort(scores[cell == i]) for i in range(len(self.centers))))


@dataclass(frozen=True, eq=False)
class NearestThreshold(gb.conformal.Threshold):
    """The sorted scores of each part."""

    cells: NearestCenter
    scores: tuple[np.ndarray, ...]

    def __call__(self, prediction: gb.Prediction, level: Any, groups: Any = None) -> np.ndarray:
        no_groups(groups, "NearestCenter()", ALIKE)
        q = np.array([quantile(scores, level) for scores in self.scores])
        return q[nearest(self.cells.centers, prediction)]

    def laws_for(self, prediction: gb.Prediction, level: Any, groups: Any = None) -> Any:
        """Return the law of each part, with the number of new points in it."""
        counts = np.bincount(nearest(self.cells.centers, prediction), minlength=len(self.scores))
        sizes = [(len(scores), int(m)) for scores, m in zip(self.scores, counts, strict=True) if m]
        return [(CoverageLaw(rank(n, level), n), m) for n, m in sizes]

    def size(self, level: Any) -> Size:
        smallest = min(map(len, self.scores))
        return Size(
            smallest, gb.conformal.points_needed(level), "calibration points in the part with the fewest"
        )


def nearest(centers: tuple[tuple[float, ...], ...], prediction: gb.Prediction) -> np.ndarray:
    """The number of the center nearest to each point."""
    x, at = points_of(prediction, "NearestCenter()"), np.array(centers, dtype=float)
    if x.shape[1:] != at.shape[1:]:
        raise ValueError(
            f"`centers` should have {x.shape[1]} coordinates like the points, got {at.shape[1]}."
        )
    return ((x[:, None] - at) ** 2).sum(axis=2).argmin(axis=1)
