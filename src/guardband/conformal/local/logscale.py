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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from guardband.kept import kept

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Lengths over which the scale may vary, in half-widths of the data; all alike before any data."""

MEAN, SIZE = (-2.0, 1.5), (1.5, 0.4)
"""Prior of the mean of h (normal) and of its standard deviation (log-normal): median and spread."""


@kept
@dataclass(frozen=True)
class LogScale:
    """Learn where residuals are large by a Gaussian process of their log scale, sampled from its posterior.

    `draws` are kept of a chain that is 20 times longer, after a warm-up of a thousand steps; `quantile` of
    the draws is the shape. Beyond `inducing` training rows, that many of them stand for all.
    Cost: about two seconds for 300 rows, growing as rows times inducing points; per point as many
    multiplications as draws times inducing points.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> shape = gb.LogScale(draws=10).fit(x, np.where(x[:, 0] < 0.5, 0.1, 1.0))
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
        scores = scores / scores.max()  # a shape has no size, and squares must not overflow
        chain = _Chain([kernel(inside) for kernel in kernels], scores, generator)
        kept = [chain.step(20) for _ in range(50 + self.draws)][-self.draws :]
        return LogScaleShape(center, reach, kernels, kept, self.quantile)


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

    def as_module(self, level: float) -> nn.Module:
        """The same as a torch module, at every level."""
        return _LogScaleModule(self)

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


class _LogScaleModule(nn.Module):
    """`LogScaleShape` with features and weights multiplied out: one matrix per length of the kernel."""

    def __init__(self, shape: LogScaleShape) -> None:
        from scipy.linalg import solve_triangular

        super().__init__()
        draws = sorted(shape.draws, key=lambda draw: draw.kernel)
        self.center, self.reach = _double(shape.center), _double(shape.reach)
        self.mean, self.size, self.floor = _double([(d.mean, d.size, d.floor) for d in draws]).T
        self.points = _double(shape.kernels[0].points)  # the kernels differ in length alone
        self.rates, self.weights = [], nn.ParameterList()
        for number in sorted({draw.kernel for draw in draws}):
            kernel = shape.kernels[number]
            weights = np.stack([draw.weights for draw in draws if draw.kernel == number], axis=1)
            self.rates.append(3**0.5 / kernel.length)
            self.weights.append(_double(solve_triangular(kernel.factor.T, weights)))
        place = shape.quantile * (len(draws) - 1)
        self.top, self.share = len(draws) - int(place), place - int(place)

    def forward(self, x: Tensor) -> Tensor:
        """The shape (n,) at x (n, d)."""
        apart = ((x - self.center) / self.reach)[:, None] - self.points
        distance = apart.square().sum(2).sqrt()
        reaches = [rate * distance for rate in self.rates]
        pairs = zip(reaches, self.weights, strict=True)
        smooth = torch.cat([((1 + r) * torch.exp(-r)) @ weights for r, weights in pairs], dim=1)
        h = self.mean + self.size * smooth
        logs = self.floor + h.clamp(min=0) + torch.log1p(torch.exp(-h.abs()))
        highest = torch.topk(logs, self.top, dim=1).values
        low, high = highest[:, self.top - 1], highest[:, max(self.top - 2, 0)]
        return torch.exp(low + self.share * (high - low))


class _Chain:
    """A Markov chain over bumps: elliptical slice sampling of w, Metropolis steps for the rest.

    The floor has a flat prior and is integrated out; it is drawn as its most probable value.
    """

    def __init__(
        self, features: Sequence[np.ndarray], scores: np.ndarray, generator: np.random.Generator
    ) -> None:
        self.features, self.generator = features, generator
        self.squares = scores**2
        self.kernel, self.mean, self.size = len(features) // 2, MEAN[0], SIZE[0]
        self.weights = np.zeros(features[0].shape[1])
        self.smooth = np.zeros(len(scores))
        self.fit = self._fit(self.mean, self.size, self.smooth)

    def step(self, times: int) -> LogScaleDraw:
        """Move so many times, and give the state."""
        for _ in range(times):
            self._move_weights()
            self._move_prior()
            self._move_prior()
            self._move_length()
        bumps = np.logaddexp(0, self.mean + self.size * self.smooth)
        floor = 0.5 * math.log((self.squares * np.exp(-2 * bumps)).mean())
        return LogScaleDraw(self.kernel, self.mean, self.size, self.weights, floor)

    def _fit(self, mean: float, size: float, smooth: np.ndarray) -> float:
        """The log-likelihood of half-normal scores, the floor integrated out."""
        bumps = np.logaddexp(0, mean + size * smooth)
        return -bumps.sum() - 0.5 * len(bumps) * math.log((self.squares * np.exp(-2 * bumps)).sum())

    def _move_weights(self) -> None:
        """Murray, Adams and MacKay (2010): never refused, nothing to tune."""
        other = self.generator.normal(size=len(self.weights))
        smooth = self.features[self.kernel] @ other
        bar = self.fit + math.log(self.generator.uniform())
        angle = self.generator.uniform(0, 2 * math.pi)
        low, high = angle - 2 * math.pi, angle
        while True:
            moved = math.cos(angle) * self.smooth + math.sin(angle) * smooth
            fit = self._fit(self.mean, self.size, moved)
            if fit > bar:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = self.generator.uniform(low, high)
        self.weights = math.cos(angle) * self.weights + math.sin(angle) * other
        self.smooth, self.fit = moved, fit

    def _move_prior(self) -> None:
        mean = self.mean + 0.5 * self.generator.normal()
        size = self.size * math.exp(0.2 * self.generator.normal())
        fit = self._fit(mean, size, self.smooth)
        gain = fit - self.fit + _log_prior(mean, size) - _log_prior(self.mean, self.size)
        if math.log(self.generator.uniform()) < gain:
            self.mean, self.size, self.fit = mean, size, fit

    def _move_length(self) -> None:
        kernel = self.kernel + (1 if self.generator.uniform() < 0.5 else -1)
        if 0 <= kernel < len(self.features):
            smooth = self.features[kernel] @ self.weights
            fit = self._fit(self.mean, self.size, smooth)
            if math.log(self.generator.uniform()) < fit - self.fit:
                self.kernel, self.smooth, self.fit = kernel, smooth, fit


def _double(a: Any) -> Tensor:
    return torch.tensor(a, dtype=torch.float64)


def _log_prior(mean: float, size: float) -> float:
    a, b = (mean - MEAN[0]) / MEAN[1], math.log(size / SIZE[0]) / SIZE[1]
    return -0.5 * (a * a + b * b)
