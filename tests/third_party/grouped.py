"""A threshold for each sensor, written outside of the package.

The promise: if the readings of a sensor and its next one are exchangeable, the next one lies in the band with
probability at least the level, separately at each sensor. Readings of a new sensor are refused.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import guardband as gb
from guardband.conformal import CoverageLaw, Size, Traits, quantile, rank
from guardband.conformal.base import no_confidence


@gb.kept
@dataclass(frozen=True)
class SensorWise(gb.conformal.Calibrator):
    """Split conformal prediction, separately at each sensor."""

    @property
    def promise(self) -> str:
        return (
            "If at each sensor the calibration readings and a new one are exchangeable, the new reading lies "
            "in the band with probability at least the level, at every sensor by itself."
        )

    def threshold(
        self, scores: Any, prediction: gb.Prediction, *, groups: Any = None, confidence: Any = None
    ) -> "SensorThreshold":
        if groups is None:
            raise ValueError("SensorWise() needs `groups=`, the sensor of each point.")
        no_confidence(confidence, "SensorWise()")
        sensors = dict.fromkeys(groups.tolist())  # in order of appearance
        return SensorThreshold({name: np.sort(scores[groups == name]) for name in sensors})


@dataclass(frozen=True, eq=False)
class SensorThreshold(gb.conformal.Threshold):
    """The sorted scores of each sensor."""

    scores: dict[Any, np.ndarray]
    traits: ClassVar[Traits] = Traits(needs_groups=True)

    def __call__(self, prediction: gb.Prediction, level: Any, groups: Any = None) -> np.ndarray:
        mine = {name: quantile(scores, level) for name, scores in self._of(groups).items()}
        return np.array([mine[name] for name in groups.tolist()])

    def laws(self, level: Any, m: int, groups: Any = None) -> Any:
        sizes = {name: len(scores) for name, scores in self._of(groups).items()}
        return [(CoverageLaw(rank(n, level), n), int((groups == name).sum())) for name, n in sizes.items()]

    def size(self, level: Any) -> Size:
        smallest = min(map(len, self.scores.values()))
        return Size(smallest, gb.conformal.points_needed(level), "readings of the sensor with the fewest")

    def _of(self, groups: Any) -> dict[Any, np.ndarray]:
        if groups is None:
            raise ValueError("SensorWise() needs `groups=`, the sensor of each point, at every query too.")
        new = [name for name in dict.fromkeys(groups.tolist()) if name not in self.scores]
        if new:
            raise ValueError(f"The sensor {new[0]!r} was not calibrated; readings of it promise nothing.")
        return {name: self.scores[name] for name in dict.fromkeys(groups.tolist())}
