"""`RandomlyLocalized`: larger weights for calibration points near the new point, without any training.

Weights by the distance to the new point itself would not be valid, since the new point always lies at the
center of its own kernel. The method first draws a point from the kernel around the new point and centers the
weights there, so the new point and the calibration points are treated symmetrically. (Hore and Barber 2023)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from guardband.base.arrays import Array, ArrayLike
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Threshold, no_confidence, no_groups, point_array, points_of
from guardband.conformal.hashed import FRESH, FROZEN, key, uniform
from guardband.conformal.rank import Level, checked_scores
from guardband.conformal.weighted import scores_at_ranks, weighted_rank
from guardband.values import Observations, Prediction


# Files written by version 0.2 lack `fresh` and keep the draws of that version.
@kept(made=lambda parts: RandomlyLocalized(**{"fresh": False, **parts}))
@dataclass(frozen=True, eq=False)
class RandomlyLocalized(Calibrator):
    """Randomly localized conformal prediction: exact marginal coverage, approximate local coverage.

    Parameters
    ----------
    bandwidth
        Bandwidth of the kernel, in the units of x.
    inputs
        Points from which the bandwidth is chosen if `bandwidth` is omitted, such as the training inputs. Do
        not pass the calibration points.
    effective
        Effective number of calibration points at a typical point, from which the bandwidth is chosen. A small
        number gives a more local band that is more often infinite: 95 % requires at least 19.
    kernel
        "gauss" or "box".
    seed
        Seed of the randomized centers. The center drawn for x is a function of the seed, the calibration
        scores and x. The band is therefore a fixed function, and each calibration set has its own draws.
    fresh
        Whether draws depend on the calibration scores; False for calibrations saved by version 0.2.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x, zero = np.linspace(0, 1, 500), np.zeros_like
    >>> calibrated = gb.calibrate(
    ...     zero, x, x, calibrator=gb.conformal.RandomlyLocalized(bandwidth=0.1)
    ... )
    >>> left, right = calibrated([0.2, 0.8], level=0.9).width.ravel()
    >>> bool(right > left)
    True
    """

    bandwidth: float | None = None
    inputs: ArrayLike = None
    effective: float = 50.0
    kernel: Literal["gauss", "box"] = "gauss"
    seed: int = 0
    fresh: bool = True

    @property
    def promise(self) -> str:
        """The guarantee on average over the draws."""
        return f"{super().promise} {FRESH if self.fresh else FROZEN}"

    def __post_init__(self) -> None:
        if (self.bandwidth is None) == (self.inputs is None):
            raise ValueError("RandomlyLocalized() needs either a `bandwidth` or `inputs` to choose it from.")
        if self.bandwidth is not None and not 0 < self.bandwidth < np.inf:
            raise ValueError(f"`bandwidth` should be a positive length, got {self.bandwidth}.")
        if self.inputs is not None:
            object.__setattr__(self, "inputs", point_array(self.inputs))
        if self.kernel not in ("gauss", "box"):
            raise ValueError(f"`kernel` should be 'gauss' or 'box', got {self.kernel!r}.")

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> RandomlyLocalized:
        """Create a calibrator whose bandwidth is chosen from the training points."""
        if training_data is None:
            raise ValueError(
                "--calibrator randomlylocalized chooses its bandwidth from training rows. Pass "
                "--training-data FILE."
            )
        return cls(inputs=training_data.x)

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> RandomlyLocalizedThreshold:
        """Sort the scores with their points."""
        no_groups(groups, "RandomlyLocalized()", "it weights points by their positions.")
        no_confidence(confidence, "RandomlyLocalized()")
        scores, x = checked_scores(scores), points_of(prediction, "RandomlyLocalized()")
        if self.inputs is not None and point_array(self.inputs).shape[1] != x.shape[1]:
            raise ValueError(
                f"`inputs` should have {x.shape[1]} coordinates like the calibration points, got "
                f"{point_array(self.inputs).shape[1]}."
            )
        order = np.argsort(scores, kind="stable")
        bandwidth = self.bandwidth if self.bandwidth is not None else self._choose_bandwidth(len(x))
        return RandomlyLocalizedThreshold(
            scores[order], x[order], bandwidth, self.kernel, self.seed, self.fresh
        )

    def _choose_bandwidth(self, n: int) -> float:
        """The bandwidth at which the effective number of n points is `effective`, by bisection."""
        x = point_array(self.inputs)
        target = min(self.effective / n, 1.0) * len(x)
        extent = float(np.ptp(x, axis=0).max()) or 1.0
        low, high = 1e-6 * extent, 1e3 * extent
        for _ in range(60):
            middle = np.sqrt(low * high)
            weights = np.exp(_log_kernel(x, x[:200], middle, self.kernel))
            counted = np.median(weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1))
            low, high = (middle, high) if counted < target else (low, middle)
        return float(high)


@dataclass(frozen=True, eq=False)
class RandomlyLocalizedThreshold(Threshold):
    """The sorted calibration scores and their points, and the kernel."""

    scores: np.ndarray
    x: np.ndarray
    bandwidth: float
    kernel: str
    seed: int
    fresh: bool = True

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Return the weighted quantile around a randomly drawn center for each new point, (n,)."""
        no_groups(groups, "RandomlyLocalized()", "it weights points by their positions.")
        x = points_of(prediction, "RandomlyLocalized()")
        parts = [self._ranks(x[start : start + 1000], level) for start in range(0, len(x), 1000)]
        return scores_at_ranks(
            self.scores,
            np.concatenate(parts) if parts else np.empty(0, dtype=int),
            "too few calibration points are near. Use a larger `bandwidth` or `effective`, or more "
            "calibration points.",
        )

    def _ranks(self, x: np.ndarray, level: Level) -> np.ndarray:
        centers = self.centers(x)
        others = _log_kernel(self.x, centers, self.bandwidth, self.kernel)
        own = _log_kernel_pairs(x, centers, self.bandwidth, self.kernel)
        top = np.maximum(others.max(axis=1, initial=-np.inf), own)
        return weighted_rank(np.exp(others - top[:, None]), np.exp(own - top), level)

    def centers(self, x: np.ndarray) -> np.ndarray:
        """The centers drawn from the kernels around x."""
        from scipy.special import ndtri

        own = key(self.seed, self.scores) if self.fresh else np.int64(self.seed).tobytes()
        chance = np.stack([uniform(own, row, len(row)) for row in x]) if len(x) else x
        step = ndtri(chance) if self.kernel == "gauss" else 2 * chance - 1
        return x + self.bandwidth * step


def _log_kernel(points: np.ndarray, centers: np.ndarray, bandwidth: float, kernel: str) -> np.ndarray:
    """The logarithm of the kernel, (centers, points)."""
    return _log_kernel_pairs(points[None], centers[:, None], bandwidth, kernel)


def _log_kernel_pairs(a: np.ndarray, b: np.ndarray, bandwidth: float, kernel: str) -> np.ndarray:
    away = (a - b) / bandwidth
    if kernel == "gauss":
        return -0.5 * (away**2).sum(axis=-1)
    return np.where((abs(away) <= 1).all(axis=-1), 0.0, -np.inf)
