"""`LogScale`: a smooth log scale of the residuals, sampled from its posterior.

The scale is usually constant over most of the domain, with a few regions of larger errors. Its logarithm is
modeled as a floor plus bumps, log s(x) = c + softplus(h(x)), where h is a Gaussian process with a negative
mean, so that the scale is flat between bumps. Given s, residuals are half-normal. The posterior of h and of
its mean, amplitude and length scale is sampled, and the shape is an upper quantile of s over the draws, which
is conservative in regions with few data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from guardband.base.kept import kept
from guardband.conformal.local.sampler import Sampler

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Length scales in half-widths of the data, equally likely under the prior."""

STATES, BURN_IN, THINNING = 50, 6, 3
"""Number of states, moves at the full likelihood before the first draw, and moves between draws."""

SMALLEST = 1e-4
"""Lower bound of scores relative to their median: a residual of 0 means a small scale, not a zero scale."""


@kept
@dataclass(frozen=True)
class LogScale:
    """Learn where residuals are large by a Gaussian process of their log scale, sampled from its posterior.

    Residuals that are exactly 0 are treated as very small ones.

    Parameters
    ----------
    quantile
        The quantile of the scale over posterior draws that gives the shape.
    draws
        Number of posterior draws.
    inducing
        Largest number of inducing points, a random subset of the training points.
    seed
        Seed of the sampler.

    Notes
    -----
    Learning takes about half a second for 300 points and grows as points times inducing points. Evaluation
    takes draws times inducing points multiplications per point.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> shape = gb.conformal.LogScale(draws=10).fit(x, np.where(x[:, 0] < 0.5, 0.1, 1.0))
    >>> quiet, noisy = shape(np.array([[0.2], [0.8]]))
    >>> bool(noisy > 2 * quiet)
    True
    """

    quantile: float = 0.95
    draws: int = 100
    inducing: int = 600
    seed: int = 0

    def fit(self, x: np.ndarray, scores: np.ndarray) -> LogScaleShape:
        """Learn the shape from scores.

        Parameters
        ----------
        x
            Training points, shape (n, d).
        scores
            Scores >= 0 at these points, shape (n,).

        Returns
        -------
        LogScaleShape
            The shape as a function of x.
        """
        generator = np.random.default_rng(self.seed)
        low, high = x.min(axis=0), x.max(axis=0)
        center, reach = (low + high) / 2, np.maximum((high - low) / 2, 1e-12)
        inside = (x - center) / reach
        chosen = inside
        if len(x) > self.inducing:
            chosen = inside[np.sort(generator.choice(len(x), self.inducing, replace=False))]
        kernels = [Kernel(chosen, length) for length in LENGTHS]
        sampler = Sampler([kernel(inside) for kernel in kernels], normalized(scores), self._states, generator)
        sampler.anneal()
        sampler.move(BURN_IN)
        draws: list[LogScaleDraw] = []
        while len(draws) < self.draws:
            sampler.move(THINNING)
            draws += draws_of(sampler)
        even = np.linspace(0, len(draws) - 1, self.draws).round().astype(int)  # states are sorted by kernel
        return LogScaleShape(center, reach, kernels, [draws[i] for i in even], self.quantile)

    @property
    def rough(self) -> LogScale:
        """The same learner with fewer draws, accurate enough for the comparison with a flat shape."""
        return replace(self, draws=min(self.draws, STATES // 2), inducing=min(self.inducing, 150))

    @property
    def _states(self) -> int:
        return min(max(self.draws, STATES // 2), STATES)


def normalized(scores: np.ndarray) -> np.ndarray:
    """Scores scaled to median 1 and clipped, so that their squares do not overflow."""
    positive = scores[scores > 0]
    scores = scores / np.median(positive) if len(positive) else np.ones(len(scores))
    return np.clip(scores, SMALLEST, 1 / SMALLEST**2)


def draws_of(sampler: Sampler) -> list[LogScaleDraw]:
    """The states of a sampler as draws."""
    states = zip(sampler.kernel, sampler.means, sampler.sizes, sampler.weights, sampler.floors, strict=True)
    return [LogScaleDraw(int(k), float(mean), float(size), w, float(c)) for k, mean, size, w, c in states]


@kept
class Kernel:
    """A Matern-3/2 kernel as features: f = features(x) w with w standard normal."""

    points: np.ndarray
    length: float

    def __init__(self, points: np.ndarray, length: float) -> None:
        self.points, self.length = points, length

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the features (n, points)."""
        from scipy.linalg import solve_triangular

        return solve_triangular(self.factor, self._covariance(x).T, lower=True).T

    @cached_property
    def factor(self) -> np.ndarray:
        """The Cholesky factor of the covariance matrix of the points."""
        from scipy.linalg import cholesky

        own = self._covariance(self.points) + 1e-6 * np.eye(len(self.points))
        return cholesky(own, lower=True)

    def _covariance(self, x: np.ndarray) -> np.ndarray:
        from scipy.spatial.distance import cdist

        distance = math.sqrt(3) / self.length * cdist(x, self.points)
        return (1 + distance) * np.exp(-distance)


@kept
@dataclass(frozen=True, eq=False)
class LogScaleDraw:
    """One draw of log s = floor + softplus(mean + size features w), with the index of its kernel."""

    kernel: int
    mean: float
    size: float
    weights: np.ndarray
    floor: float


@kept
@dataclass(frozen=True, eq=False)
class LogScaleShape:
    """An upper quantile of the scale over posterior draws; only the size of the band depends on the level."""

    center: np.ndarray
    reach: np.ndarray
    kernels: Sequence[Kernel]
    draws: Sequence[LogScaleDraw]
    quantile: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the shape (n,) > 0 at x (n, d)."""
        parts = [self._part(x[start : start + 1000]) for start in range(0, len(x), 1000)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _part(self, x: np.ndarray) -> np.ndarray:
        inside = (x - self.center) / self.reach
        logs = []
        for number, kernel in enumerate(self.kernels):
            mine = [draw for draw in self.draws if draw.kernel == number]
            if mine:
                smooth = kernel(inside) @ np.stack([draw.weights for draw in mine], axis=1)
                mean, size, floor = np.array([(draw.mean, draw.size, draw.floor) for draw in mine]).T
                logs.append(floor + np.logaddexp(0, mean + size * smooth))
        return np.exp(np.quantile(np.hstack(logs), self.quantile, axis=1))
