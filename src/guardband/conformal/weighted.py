"""`Weighted`: covariate shift between calibration points and new points, corrected by density ratios.

The weight of a calibration point at x is the density of new points divided by that of calibration points,
w(x). The new point has its own weight, at an infinite score. If that weight is large, few calibration points
are comparable and the band is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from guardband.base.arrays import Array, ArrayLike, copy, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import (
    Calibrator,
    Size,
    Threshold,
    Traits,
    no_confidence,
    no_groups,
    point_array,
    points_of,
)
from guardband.conformal.rank import (
    INFINITE_SCORES,
    Level,
    checked_scores,
    exact,
    points_needed,
    warn_infinite,
)
from guardband.values import Observations, Prediction

LARGEST_LOG_RATIO = 50.0
"""Bound on the absolute logarithm of an estimated ratio."""


@kept
@dataclass(frozen=True, eq=False)
class Weighted(Calibrator):
    """Weighted conformal prediction for new points whose x has a different distribution (covariate shift).

    The distribution of y given x must be the same for calibration points and new points. With the true ratio
    and independent points, a new point is covered with probability at least `level`. With an estimated ratio
    (`density_ratio`), this guarantee holds approximately.

    Parameters
    ----------
    ratio
        A function from x (n, d) to nonnegative weights (n,): the density of new points divided by that of
        calibration points, up to a constant factor.

    Notes
    -----
    Reference: Tibshirani, Barber, Candes and Ramdas (2019).

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x, zero = np.linspace(0, 1, 100), np.zeros_like
    >>> plain = gb.calibrate(zero, x, x)
    >>> # queries lie near 1
    >>> shifted = gb.calibrate(zero, x, x, calibrator=gb.Weighted(lambda x: x**4))
    >>> bool(shifted([0.9], level=0.8).width > plain([0.9], level=0.8).width)
    True
    """

    ratio: Callable[[Array], Array]

    def __repr__(self) -> str:
        return f"Weighted({getattr(self.ratio, '__name__', type(self.ratio).__name__)})"

    @property
    def promise(self) -> str:
        """The guarantee under the shift."""
        return (
            "If the calibration points and a new point are drawn independently of each other, the new one "
            "differs from the others only in its location, and `ratio` is the true density ratio up to a "
            "constant factor, a new measurement lies in the band with probability at least the level. With a "
            "ratio estimated without the calibration points the probability is at least the level minus half "
            "the mean absolute error of the estimate, both ratios being scaled to mean 1 over the "
            "distribution of the calibration points; this error is not known."
        )

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> Weighted:
        """Create a calibrator with a ratio estimated from queries and training (or calibration) points."""
        if queries is None:
            raise ValueError(
                "--calibrator weighted needs the points at which bands will be used. Pass --query FILE."
            )
        return cls(density_ratio(x if training_data is None else training_data.x, queries))

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> WeightedThreshold:
        """Sort the scores, each with its weight."""
        no_groups(groups, "Weighted()", "it weights points by their positions.")
        no_confidence(confidence, "Weighted()")
        scores = checked_scores(scores)
        weights = self._weights(prediction)
        order = np.argsort(scores, kind="stable")
        return WeightedThreshold(scores[order], weights[order], self._weights)

    def _weights(self, prediction: Prediction) -> np.ndarray:
        x = points_of(prediction, "Weighted()")
        found = np.asarray(to_numpy(self.ratio(copy(x))), dtype=float)
        weights = found.reshape(-1)
        if len(weights) != len(x):
            raise ValueError(
                f"`ratio` should return one weight per point, shape ({len(x)},), got shape {found.shape}."
            )
        bad = ~(np.isfinite(weights) & (weights >= 0))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"`ratio` should return finite, nonnegative weights, but row {row} is {weights[row]:g}."
            )
        return weights


@dataclass(frozen=True, eq=False)
class WeightedThreshold(Threshold):
    """The sorted calibration scores, their weights, and the function that weights new points."""

    scores: np.ndarray
    weights: np.ndarray
    weight_of: Callable[[Prediction], np.ndarray]
    traits: ClassVar[Traits] = Traits(answers_shift=True)

    @property
    def effective(self) -> float:
        """The effective sample size of the calibration points, (sum w)^2 / sum w^2."""
        largest = self.weights.max(initial=0)
        if largest == 0:
            return 0.0
        shares = self.weights / largest
        return float(shares.sum() ** 2 / (shares**2).sum())

    def shift_weights(self, prediction: Prediction) -> np.ndarray:
        """Return the density ratio at points."""
        return self.weight_of(prediction)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Return for each new point the smallest score with cumulative weight >= `level`, or infinity."""
        no_groups(groups, "Weighted()", "it weights points by their positions.")
        own = self.weight_of(prediction)
        rank = weighted_rank(self.weights[None], own, level)
        return scores_at_ranks(
            self.scores,
            rank,
            "too few calibration points are similar; the effective sample size is "
            f"{self.effective:.0f} of {len(self.scores)}.",
        )

    def size(self, level: Level) -> Size:
        """Return the effective sample size."""
        what = f"calibration points, the effective size of {len(self.scores)} weighted ones,"
        return Size(round(self.effective, 6), points_needed(level), what)


def weighted_rank(weights: np.ndarray, own: np.ndarray, level: Level) -> np.ndarray:
    """The index of the first of n sorted scores whose cumulative weight reaches the level, (m,).

    `weights` is (m, n), or (1, n) if the weights are the same for all new points. The weights `own` (m,) of
    the new points lie at infinity, which is index n. If all weights are zero, the result is infinity. Sums
    that are within rounding of the limit are recomputed as integers, so equal weights give the exact rank.
    """
    fraction, last = exact(level), weights.shape[1]
    largest = weights.max(axis=1, initial=0)
    largest = np.where(largest > 0, largest, 1.0)
    sums = np.zeros((len(weights), last + 1))
    np.cumsum(weights / largest[:, None], axis=1, out=sums[:, 1:])
    total = sums[:, -1] + own / largest
    needed = total * float(fraction)
    if len(weights) == 1:
        rank = np.searchsorted(sums[0, 1:], needed, side="left")
    else:
        rank = (sums[:, 1:] < needed[:, None]).sum(axis=1)
    row = np.arange(len(own)) if len(weights) > 1 else np.zeros(len(own), dtype=int)
    gaps = [abs(sums[row, at] - needed) for at in (rank, np.minimum(rank + 1, last))]
    known: dict[tuple[int, float], int] = {}
    for i in np.flatnonzero((np.minimum(*gaps) <= 1e-9 * total) & (total > 0)):
        key = int(row[i]), float(own[i])
        if key not in known:
            known[key] = _exact_rank(weights[key[0]], key[1], fraction)
        rank[i] = known[key]
    return np.where(total > 0, rank, last)


def _exact_rank(weights: np.ndarray, own: float, level: Fraction) -> int:
    """The same rank in integer arithmetic: floats are integer multiples of a power of two."""
    ratios = [value.as_integer_ratio() for value in (*weights.tolist(), own)]
    unit = max(denominator for _, denominator in ratios)
    *counts, beyond = (numerator * (unit // denominator) for numerator, denominator in ratios)
    needed, carried = (sum(counts) + beyond) * level.numerator, 0
    for rank, count in enumerate(counts):
        carried += count * level.denominator
        if carried >= needed:
            return rank
    return len(counts)


def scores_at_ranks(scores: np.ndarray, rank: np.ndarray, why: str) -> np.ndarray:
    """The sorted scores at these ranks, infinite beyond the last, with a warning that gives the reason."""
    q = np.append(scores, np.inf)[rank]
    beyond = rank == len(scores)
    if beyond.any():
        warn_infinite(f"at {int(beyond.sum())} of {len(q)} points {why}")
    elif np.isinf(q).any():
        warn_infinite(INFINITE_SCORES)
    return q


def density_ratio(
    x_cal: ArrayLike, x_query: ArrayLike, *, method: Literal["logistic", "kernel"] = "logistic"
) -> Callable[[Array], np.ndarray]:
    """Estimate the ratio of the density of new points to that of calibration points, from samples of both.

    Parameters
    ----------
    x_cal
        Points distributed like the calibration points, shape (n, d). They should differ from the calibration
        points themselves, such as training inputs from the same distribution.
    x_query
        Points distributed like the new points, shape (m, d).
    method
        "logistic" trains a classifier that separates the two samples, with the coordinates and their squares
        and products as features. "kernel" divides two kernel density estimates.

    Returns
    -------
    callable
        The ratio as a function from x (n, d) to weights (n,), for `Weighted`.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> ratio = gb.conformal.density_ratio(np.linspace(0, 1, 200), np.linspace(0.5, 1, 200))
    >>> bool(ratio(np.array([[0.9]])) > 2 * ratio(np.array([[0.2]])))
    True
    """
    old, new = point_array(x_cal), point_array(x_query)
    if old.shape[1] != new.shape[1]:
        raise ValueError(
            f"`x_cal` and `x_query` should have the same coordinates, got {old.shape[1]} and {new.shape[1]}."
        )
    if method == "kernel":
        return KernelRatio(old, new)
    if method != "logistic":
        raise ValueError(f"`method` should be 'logistic' or 'kernel', got {method!r}.")
    from scipy.optimize import minimize
    from scipy.special import expit

    center, spread = old.mean(axis=0), np.maximum(old.std(axis=0), 1e-12)
    both = _quadratic((np.vstack([old, new]) - center) / spread)
    label = np.repeat([0.0, 1.0], [len(old), len(new)])

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = both @ w
        gradient = both.T @ (expit(z) - label) + 1e-2 * w
        return float(np.logaddexp(0, z).sum() - label @ z + 5e-3 * w @ w), gradient

    w = minimize(loss, np.zeros(both.shape[1]), jac=True, method="L-BFGS-B").x
    return LogisticRatio(center, spread, w, len(old) / len(new))


@kept
@dataclass(frozen=True, eq=False)
class LogisticRatio:
    """The ratio of a logistic classifier: odds exp(w . (1, z, z z)) with z = (x - center) / spread."""

    center: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    odds: float

    def __call__(self, x: Array) -> np.ndarray:
        """Return the ratio (n,) at x (n, d)."""
        z = (np.asarray(to_numpy(x)) - self.center) / self.spread
        return self.odds * np.exp(
            np.clip(_quadratic(z) @ self.weights, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        )


@kept
@dataclass(frozen=True, eq=False)
class KernelRatio:
    """The ratio of two kernel density estimates."""

    old: np.ndarray
    new: np.ndarray

    def __call__(self, x: Array) -> np.ndarray:
        """Return the ratio (n,) at x (n, d)."""
        below, above = self._densities
        points = np.asarray(to_numpy(x), dtype=float).T
        with np.errstate(invalid="ignore"):
            log_ratio = above(points) - below(points)
        # If both densities vanish, the ratio is unknown, and the largest ratio makes the band infinite.
        return np.exp(
            np.clip(np.nan_to_num(log_ratio, nan=LARGEST_LOG_RATIO), -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        )

    @cached_property
    def _densities(self) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
        from scipy.stats import gaussian_kde

        return gaussian_kde(self.old.T).logpdf, gaussian_kde(self.new.T).logpdf


def _quadratic(x: np.ndarray) -> np.ndarray:
    """One, the coordinates, and all products of two coordinates."""
    i, j = np.triu_indices(x.shape[1])
    return np.hstack([np.ones((len(x), 1)), x, x[:, i] * x[:, j]])
