"""CV+ (Barber, Candes, Ramdas and Tibshirani 2021), written outside of the package.

Every point is used for training and calibration: K models are trained, each without one of K folds, and
R_i is the residual of point i for the model trained without it. The band at x lies between order
statistics of mu_-i(x) - R_i and of mu_-i(x) + R_i. The promise is weaker than the level: at least
1 - 2 alpha - min(2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)), for alpha = 1 - level and equal folds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import guardband as gb
from guardband.base.arrays import kind_of, like, rows, to_numpy
from guardband.conformal.rank import exact


@gb.kept
@dataclass(frozen=True, eq=False)
class FoldPrediction(gb.Prediction):
    """The mean over the models, and the prediction of each: `each` (n, K)."""

    each: Any = None


@gb.kept
@dataclass(frozen=True, eq=False, repr=False)
class CrossCalibrated(gb.Calibrated):
    """K models, with the prediction at each training point by the model trained without it."""

    models: tuple[gb.Predictor, ...]
    fold: np.ndarray
    prediction: FoldPrediction  # type: ignore[assignment]
    y: Any

    def predict(self, x: Any) -> FoldPrediction:
        x = rows(x, "x")
        each = np.stack([to_numpy(model(x).mean)[:, 0] for model in self.models], axis=1)
        return FoldPrediction(x, like(x, each.mean(axis=1, keepdims=True)), each=like(x, each))

    def band(self, prediction: gb.Prediction, level: Any = 0.95, *, groups: Any = None) -> gb.Band:
        if groups is not None:
            raise ValueError("`groups` should not be given to CrossCalibrated: it treats all points alike.")
        if not isinstance(prediction, FoldPrediction):
            raise TypeError(
                "CV+ needs what each of its models says: calibrated.predict(x), got "
                f"{type(prediction).__name__}."
            )
        others = to_numpy(prediction.each).astype(float)[:, self.fold]  # mu_-i(x), (queries, n)
        k, n = math.ceil((self.n + 1) * exact(level)), self.n
        if k > n:
            lower, upper = np.full(len(others), -np.inf), np.full(len(others), np.inf)
        else:
            lower = np.partition(others - self.residuals, n - k, axis=1)[:, n - k]
            upper = np.partition(others + self.residuals, k - 1, axis=1)[:, k - 1]
        low, high = (kind_of(prediction.mean, end[:, None]) for end in (lower, upper))
        return gb.Band(prediction.x, prediction.mean, low, high, float(exact(level)))

    @cached_property
    def residuals(self) -> np.ndarray:
        """|y - mu_-i(x_i)|, (n,)."""
        each = to_numpy(self.prediction.each).astype(float)
        return abs(to_numpy(self.y).astype(float)[:, 0] - each[np.arange(self.n), self.fold])

    @property
    def promise(self) -> str:
        return (
            f"If all {self.n} points and a new one are exchangeable, a new measurement lies in the band with "
            f"probability at least 1 - 2 (1 - level) - {float(self.cost):.4g}; usually it is near the level."
        )

    @property
    def is_box(self) -> bool:
        """An interval is a box."""
        return True

    def promised(self, level: Any) -> Fraction:
        return max(Fraction(0), 1 - 2 * (1 - exact(level)) - self.cost)

    @property
    def cost(self) -> Fraction:
        """The loss of coverage due to folds, in addition to the factor of two."""
        n, k = self.n, len(self.models)
        return min(2 * (1 - Fraction(1, k)) / (Fraction(n, k) + 1), (1 - Fraction(k, n)) / (k + 1))

    def size(self, level: Any) -> gb.conformal.Size:
        return gb.conformal.Size(self.n, gb.conformal.points_needed(level))

    def fingerprint(self) -> dict[str, np.ndarray]:
        assert self.prediction.x is not None
        return {"mean": to_numpy(self.predict(self.prediction.x[:16]).mean), "scores": self.residuals}


@gb.kept
@dataclass(frozen=True)
class Line:
    """A least-squares line, a model that is saved with its calibrations."""

    slope: float
    offset: float

    @classmethod
    def fit(cls, x: Any, y: Any) -> "Line":
        """Fit a line to points x (n, 1) with values y (n, 1)."""
        return cls(*np.polyfit(to_numpy(x)[:, 0], to_numpy(y)[:, 0], 1).tolist())

    def __call__(self, x: Any) -> Any:
        return self.slope * x[:, :1] + self.offset


def cross_calibrate(
    fit: Callable[[Any, Any], Any], x: Any, y: Any, *, folds: int = 5, seed: int = 0
) -> CrossCalibrated:
    """Train a model with `fit(x, y)` without each fold, and keep all models."""
    x, y = rows(x, "x"), rows(y, "y")
    if y.shape[1] != 1:
        raise ValueError(f"CV+ is written for one output here, got {y.shape[1]}.")
    if folds < 2 or len(y) % folds:
        raise ValueError(f"`folds` should be 2 or more and divide the {len(y)} points, got {folds}.")
    fold = np.random.default_rng(seed).permutation(np.arange(len(y)) % folds)
    models = tuple(gb.predictors.MeanOnly(fit(x[fold != k], y[fold != k])) for k in range(folds))
    empty = CrossCalibrated(models, fold, None, y)  # type: ignore[arg-type]
    return CrossCalibrated(models, fold, empty.predict(x), y)
