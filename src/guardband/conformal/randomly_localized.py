"""RandomlyLocalized: calibration points near the query count most, without any training.

Weighing by the distance to the query itself would not be valid: the query would always sit at the top of its
own kernel. So a nearby point is drawn from the kernel around the query first, and weights are centered there;
then query and calibration points are treated alike. (Hore and Barber 2023)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from guardband.base.arrays import Array, ArrayLike
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Threshold, no_confidence, no_groups, places, places_of
from guardband.conformal.hashed import FRESH, FROZEN, key, uniform
from guardband.conformal.rank import Level, checked
from guardband.conformal.weighted import bounded, weighted_rank
from guardband.values import Observations, Prediction


def _made(parts: dict[str, Any]) -> RandomlyLocalized:
    """A saved one; what 0.2 has saved keeps the draws of 0.2."""
    return RandomlyLocalized(**{"fresh": False, **parts})


@kept(made=_made)
@dataclass(frozen=True, eq=False)
class RandomlyLocalized(Calibrator):
    """Randomly localized conformal prediction: exact on average, approximately right at every place.

    Give the `bandwidth` of the kernel, in the units of x, or `inputs` (such as the training inputs, never
    the calibration ones): the bandwidth is then chosen so that about `effective` calibration points count at
    a typical place. Few of them make a local band, and one that is often infinite: at 95 %, 19 must count.
    The drawn point is a function of `seed`, the calibration scores and x: the band is a fixed function, and
    each calibration set has draws of its own. With `fresh=False` the scores do not enter, as in 0.2.

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
        """Coverage on average over the draws."""
        return f"{super().promise} {FRESH if self.fresh else FROZEN}"

    def __post_init__(self) -> None:
        if (self.bandwidth is None) == (self.inputs is None):
            raise ValueError("RandomlyLocalized() needs either a `bandwidth` or `inputs` to choose it from.")
        if self.bandwidth is not None and not 0 < self.bandwidth < np.inf:
            raise ValueError(f"`bandwidth` should be a positive length, got {self.bandwidth}.")
        if self.inputs is not None:
            object.__setattr__(self, "inputs", places(self.inputs))
        if self.kernel not in ("gauss", "box"):
            raise ValueError(f"`kernel` should be 'gauss' or 'box', got {self.kernel!r}.")

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> RandomlyLocalized:
        """With a bandwidth chosen from the training points."""
        if training_data is None:
            raise ValueError(
                "--calibrator randomlylocalized chooses its bandwidth from training rows: "
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
        no_groups(groups, "RandomlyLocalized()", "it weighs points by their places.")
        no_confidence(confidence, "RandomlyLocalized()")
        scores, x = checked(scores), places_of(prediction, "RandomlyLocalized()")
        if self.inputs is not None and places(self.inputs).shape[1] != x.shape[1]:
            raise ValueError(
                f"`inputs` should have {x.shape[1]} coordinates like the calibration points, got "
                f"{places(self.inputs).shape[1]}."
            )
        order = np.argsort(scores, kind="stable")
        bandwidth = self.bandwidth if self.bandwidth is not None else self._choose(len(x))
        return RandomlyLocalizedThreshold(
            scores[order], x[order], bandwidth, self.kernel, self.seed, self.fresh
        )

    def _choose(self, n: int) -> float:
        """The bandwidth at which so many of n points count, by halving."""
        x = places(self.inputs)
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
        """Per query the weighted quantile around a point drawn near it, (n,)."""
        no_groups(groups, "RandomlyLocalized()", "it weighs points by their places.")
        x = places_of(prediction, "RandomlyLocalized()")
        parts = [self._ranks(x[start : start + 1000], level) for start in range(0, len(x), 1000)]
        return bounded(
            self.scores,
            np.concatenate(parts) if parts else np.empty(0, dtype=int),
            "too few calibration points are near. Take a larger `bandwidth` or `effective`, or more "
            "calibration points.",
        )

    def _ranks(self, x: np.ndarray, level: Level) -> np.ndarray:
        near = self.near(x)
        others = _log_kernel(self.x, near, self.bandwidth, self.kernel)
        own = _log_kernel_pairs(x, near, self.bandwidth, self.kernel)
        top = np.maximum(others.max(axis=1, initial=-np.inf), own)
        return weighted_rank(np.exp(others - top[:, None]), np.exp(own - top), level)

    def near(self, x: np.ndarray) -> np.ndarray:
        """The points drawn from the kernels around x."""
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
