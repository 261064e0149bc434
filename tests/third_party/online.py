"""Adaptive conformal inference (Gibbs and Candes 2021), written outside of the package.

Readings arrive one after the other and may drift. After each one, the miscoverage level for the past
scores decreases after a miss and increases otherwise. The promise is about the long run: over T readings, the
share that missed differs from 1 - level by at most (max(level, 1 - level) + gamma) / (gamma T), whatever the
readings are. For a single new one no probability is promised.
"""

import bisect
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import guardband as gb
from guardband.base.arrays import kind_of, rows, to_numpy
from guardband.conformal.rank import exact


@gb.kept
@dataclass(frozen=True, eq=False, repr=False)
class Adaptive(gb.Calibrated):
    """The readings so far, as a value; `after(x, y)` returns the next one."""

    predictor: gb.Predictor
    gamma: float
    prediction: gb.Prediction  # type: ignore[assignment]
    y: Any

    def predict(self, x: Any) -> gb.Prediction:
        return self.predictor(rows(x, "x"))

    def band(self, prediction: gb.Prediction, level: Any = 0.95, *, groups: Any = None) -> gb.Band:
        if groups is not None:
            raise ValueError("`groups` should not be given to Adaptive: it follows one stream of readings.")
        q, mean = self.threshold(level), prediction.mean
        return gb.Band(prediction.x, mean, mean - q, mean + q, float(exact(level)))

    @property
    def promise(self) -> str:
        return (
            "Of T readings that come one after the other, whatever they are, the share outside their bands "
            "differs from 1 - level by at most (max(level, 1 - level) + gamma) / (gamma T), where gamma is "
            f"{self.gamma:g}. This is a frequency in the long run, no probability for a single reading."
        )

    def promised(self, level: Any) -> None:
        return None

    @property
    def answers_shift(self) -> bool:
        return True

    def after(self, x: Any, y: Any) -> "Adaptive":
        """Return the calibration after further readings."""
        new = self.predict(x)
        y = np.concatenate([to_numpy(self.y), to_numpy(kind_of(new.mean, rows(y, "y")))])
        return replace(self, prediction=gb.Prediction.joined([self.prediction, new]), y=y)

    def fingerprint(self) -> dict[str, np.ndarray]:
        levels = ("0.5", "0.9", "0.95")
        return {"scores": self.scores, "thresholds": np.array([self.threshold(at) for at in levels])}

    @cached_property
    def scores(self) -> np.ndarray:
        """The largest miss over the outputs of each reading, in order of arrival."""
        miss = abs(to_numpy(self.y).astype(float) - to_numpy(self.prediction.mean).astype(float))
        return miss.max(axis=-1)

    def threshold(self, level: Any) -> float:
        """Return the threshold for the next miss, which may be infinite, or negative (an empty band)."""
        return self._history(level)[0]

    def missed(self, level: Any) -> float:
        """Return the share of past readings outside of their bands."""
        return self._history(level)[1] / len(self.scores)

    def _history(self, level: Any) -> tuple[float, int]:
        target = 1 - float(exact(level))
        asked, missed, ascending = target, 0, list[float]()
        for score in self.scores.tolist():
            wrong = score > _quantile(ascending, asked)
            missed += wrong
            asked += self.gamma * (target - wrong)
            bisect.insort(ascending, score)
        return _quantile(ascending, asked), missed


def _quantile(ascending: list[float], miscoverage: float) -> float:
    if miscoverage >= 1:
        return -math.inf
    k = math.ceil((len(ascending) + 1) * (1 - miscoverage))
    return ascending[k - 1] if 0 < k <= len(ascending) else math.inf


def stream(predictor: gb.Predictor, x: Any, y: Any, *, gamma: float = 0.05) -> Adaptive:
    """Start with readings x (n, d), y (n, m), in the order in which they came."""
    if not 0 < gamma < 1:
        raise ValueError(f"`gamma` should lie strictly between 0 and 1, got {gamma}.")
    prediction = predictor(rows(x, "x"))
    return Adaptive(predictor, gamma, prediction, kind_of(prediction.mean, rows(y, "y")))
