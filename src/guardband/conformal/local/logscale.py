"""LogScale: a smooth picture of where residuals are large, drawn from its posterior.

Most of a domain is quiet, and here and there something happens. So the logarithm of the scale is a floor plus
bumps, log s(x) = c + softplus(h(x)), with h a Gaussian process whose mean lies below zero: between the bumps
the scale is flat, and a homoskedastic field stays one. Given s, residuals are half-normal. The posterior of
h, of its mean, size and length, is sampled, and the shape is an upper quantile of s over the draws: where
little is known it is wide, which is what a band wants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from guardband.base.kept import kept
from guardband.conformal.local.crowd import Crowd

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Lengths over which the scale may vary, in half-widths of the data; all alike before any data."""

STATES, MIXED, APART = 50, 6, 3
"""How many states the sampler moves at once, how often when the data are in, and between those it keeps."""

LEAST = 1e-4
"""Scores below this share of the median count as this share: a residual of 0 says small, not certain."""


@kept
@dataclass(frozen=True)
class LogScale:
    """Learn where residuals are large by a Gaussian process of their log scale, sampled from its posterior.

    `quantile` of the `draws` is the shape. Beyond `inducing` training rows, that many of them stand for all.
    Residuals that are exactly 0 count as very small ones.
    Cost: about half a second for 300 rows, growing as rows times inducing points; per point as many
    multiplications as draws times inducing points.

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
        """The shape that residuals scores (n,) >= 0 at x (n, d) suggest."""
        generator = np.random.default_rng(self.seed)
        low, high = x.min(axis=0), x.max(axis=0)
        center, reach = (low + high) / 2, np.maximum((high - low) / 2, 1e-12)
        inside = (x - center) / reach
        chosen = inside
        if len(x) > self.inducing:
            chosen = inside[np.sort(generator.choice(len(x), self.inducing, replace=False))]
        kernels = [Kernel(chosen, length) for length in LENGTHS]
        crowd = Crowd([kernel(inside) for kernel in kernels], believed(scores), self._states, generator)
        crowd.lead()
        crowd.move(MIXED)
        draws: list[LogScaleDraw] = []
        while len(draws) < self.draws:
            crowd.move(APART)
            draws += drawn(crowd)
        even = np.linspace(0, len(draws) - 1, self.draws).round().astype(int)  # states stand by kernel
        return LogScaleShape(center, reach, kernels, [draws[i] for i in even], self.quantile)

    @property
    def rough(self) -> LogScale:
        """The same with fewer draws: enough to compare it with a flat shape."""
        return replace(self, draws=min(self.draws, STATES // 2), inducing=min(self.inducing, 150))

    @property
    def _states(self) -> int:
        return min(max(self.draws, STATES // 2), STATES)


def believed(scores: np.ndarray) -> np.ndarray:
    """Scores of median about 1 for the sampler: a shape has no size, and squares must not overflow."""
    positive = scores[scores > 0]
    scores = scores / np.median(positive) if len(positive) else np.ones(len(scores))
    return np.clip(scores, LEAST, 1 / LEAST**2)


def drawn(crowd: Crowd) -> list[LogScaleDraw]:
    """The states of a crowd as draws."""
    states = zip(crowd.kernel, crowd.means, crowd.sizes, crowd.weights, crowd.floors, strict=True)
    return [LogScaleDraw(int(k), float(mean), float(size), w, float(c)) for k, mean, size, w, c in states]


@kept
class Kernel:
    """A Matern kernel (smoothness 3/2) as features: f = features(x) w with w standard normal."""

    points: np.ndarray
    length: float

    def __init__(self, points: np.ndarray, length: float) -> None:
        self.points, self.length = points, length

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The features (n, points)."""
        from scipy.linalg import solve_triangular

        return solve_triangular(self.factor, self._covariance(x).T, lower=True).T

    @cached_property
    def factor(self) -> np.ndarray:
        """The Cholesky factor of the covariance of the points."""
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
    """One draw of log s = floor + softplus(mean + size features w), with the kernel of this number."""

    kernel: int
    mean: float
    size: float
    weights: np.ndarray
    floor: float


@kept
@dataclass(frozen=True, eq=False)
class LogScaleShape:
    """An upper quantile of the scale over posterior draws; only its size depends on the level."""

    center: np.ndarray
    reach: np.ndarray
    kernels: Sequence[Kernel]
    draws: Sequence[LogScaleDraw]
    quantile: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The shape (n,) > 0 at x (n, d)."""
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
