"""A sequential Monte Carlo sampler for the posterior of a log scale.

The states start as draws from the prior, and the likelihood is raised to increasing powers up to 1. At each
power the states are resampled by weight and then moved by Markov steps (Del Moral, Doucet and Jasra 2006).
Many states cost little more than one, since they share each matrix product. They also cover all length scales
of the kernel, between which a single chain rarely moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

MEAN, SIZE = (-2.0, 1.5), (1.5, 0.4)
"""Priors of the mean of h (normal: mean, sd) and of its size (log-normal: median, sd of the logarithm)."""

SHARE, LEAPFROG_STEPS, ACCEPTANCE = 0.5, 6, 0.7
"""Effective share of states after each power, leapfrog steps per proposal, target acceptance rate."""


class Sampler:
    """States (kernel, z) of h = mean + size features w; z = (w, a, b) is standard normal under the prior.

    The mean is MEAN[0] + MEAN[1] a and the size SIZE[0] exp(SIZE[1] b). Scores are half-normal with log scale
    floor + softplus(h). The floor has a flat prior and is integrated out. States are sorted by kernel.
    """

    features: Sequence[np.ndarray]
    squares: np.ndarray
    generator: np.random.Generator
    z: np.ndarray
    kernel: np.ndarray
    log_likelihood: np.ndarray
    power: float
    step: float

    def __init__(
        self, features: Sequence[np.ndarray], scores: np.ndarray, states: int, generator: np.random.Generator
    ) -> None:
        self.features, self.squares, self.generator = features, scores**2, generator
        self.z = generator.normal(size=(states, features[0].shape[1] + 2))
        self.kernel = np.sort(generator.integers(len(features), size=states))
        self.power, self.step = 0.0, 0.3
        self.log_likelihood, _ = self._likelihood(self.z)

    def anneal(self) -> None:
        """Raise the power of the likelihood to 1."""
        while self.power < 1:
            self._temper()
            self.move(1)

    def move(self, times: int) -> None:
        """Apply `times` Hamiltonian steps, each followed by a proposal for the length scale."""
        for _ in range(times):
            self._hamiltonian_step()
            self._length_step()

    @property
    def means(self) -> np.ndarray:
        """The mean of each state."""
        return MEAN[0] + MEAN[1] * self.z[:, -2]

    @property
    def sizes(self) -> np.ndarray:
        """The size of each state."""
        return _sizes(self.z)

    @property
    def weights(self) -> np.ndarray:
        """The weights w of each state, (states, points)."""
        return self.z[:, :-2]

    @property
    def floors(self) -> np.ndarray:
        """The maximum-likelihood floor of each state."""
        bumps = np.logaddexp(0, self.means[:, None] + self.sizes[:, None] * self._smooth(self.z))
        return 0.5 * np.log((self.squares * np.exp(-2 * bumps)).mean(axis=1))

    def _temper(self) -> None:
        """Raise the power until the effective sample size is a share SHARE of the states, then resample."""
        low, high = self.power, 1.0
        if self._effective_size(high) < SHARE * len(self.z):
            for _ in range(30):
                middle = (low + high) / 2
                low, high = (
                    (low, middle) if self._effective_size(middle) < SHARE * len(self.z) else (middle, high)
                )
        weights = self._weights(high)
        even = (np.arange(len(self.z)) + self.generator.uniform()) / len(self.z)
        self._select(np.minimum(np.searchsorted(np.cumsum(weights), even), len(self.z) - 1))
        self.power = high

    def _weights(self, power: float) -> np.ndarray:
        """Normalized importance weights for a step to `power`."""
        weights = np.exp((power - self.power) * (self.log_likelihood - self.log_likelihood.max()))
        return weights / weights.sum()

    def _effective_size(self, power: float) -> float:
        """The effective sample size after a step to `power`."""
        return 1 / float((self._weights(power) ** 2).sum())

    def _hamiltonian_step(self) -> None:
        """A Hamiltonian Monte Carlo step whose leapfrog integrator is exact for the Gaussian prior."""
        z, speed = self.z, self.generator.normal(size=self.z.shape)
        before, slope = self._likelihood(z)
        start = self._energy(z, speed, before)
        angle = self.step * self.generator.uniform(0.7, 1.3, size=(len(z), 1))
        cos, sin, kick = np.cos(angle), np.sin(angle), self.power * angle
        fit = before
        for _ in range(LEAPFROG_STEPS):
            speed = speed + kick / 2 * slope
            z, speed = cos * z + sin * speed, cos * speed - sin * z
            fit, slope = self._likelihood(z)
            speed += kick / 2 * slope
        gain = np.minimum(self._energy(z, speed, fit) - start, 0)
        accepted = np.log(self.generator.uniform(size=len(z))) < gain
        self.z = np.where(accepted[:, None], z, self.z)
        self.log_likelihood = np.where(accepted, fit, before)
        self.step = min(self.step * math.exp(0.5 * (np.exp(gain).mean() - ACCEPTANCE)), 1.0)

    def _length_step(self) -> None:
        """A Metropolis step to the next shorter or longer length scale."""
        kernel = self.kernel + self.generator.choice([-1, 1], size=len(self.z))
        inside = (kernel >= 0) & (kernel < len(self.features))
        order = np.argsort(np.where(inside, kernel, self.kernel), kind="stable")
        here, there = self.kernel[order], np.where(inside, kernel, self.kernel)[order]
        self._select(order)
        self.kernel = there
        fit, _ = self._likelihood(self.z)
        accepted = np.log(self.generator.uniform(size=len(fit))) < self.power * (fit - self.log_likelihood)
        self.kernel, self.log_likelihood = (
            np.where(accepted, there, here),
            np.where(accepted, fit, self.log_likelihood),
        )
        self._select(np.argsort(self.kernel, kind="stable"))

    def _select(self, rows: np.ndarray) -> None:
        self.z, self.kernel, self.log_likelihood = self.z[rows], self.kernel[rows], self.log_likelihood[rows]

    def _energy(self, z: np.ndarray, speed: np.ndarray, fit: np.ndarray) -> np.ndarray:
        return self.power * fit - 0.5 * ((z**2).sum(axis=1) + (speed**2).sum(axis=1))

    def _likelihood(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log-likelihood of each state, with the floor integrated out, and its z-gradient."""
        smooth, sizes = self._smooth(z), _sizes(z)[:, None]
        n = smooth.shape[1]
        up = np.exp(np.clip(MEAN[0] + MEAN[1] * z[:, -2:-1] + sizes * smooth, -300, 300))
        down = 1 / (1 + up)  # exp(-bump)
        squares = self.squares * down**2
        total = squares.sum(axis=1, keepdims=True)
        fit = np.log(down).sum(axis=1) - 0.5 * n * np.log(total[:, 0])
        in_h = up * down * (squares * (n / total) - 1)
        slope = np.empty_like(z)
        slope[:, -2] = MEAN[1] * in_h.sum(axis=1)
        in_h *= sizes
        slope[:, -1] = SIZE[1] * (in_h * smooth).sum(axis=1)
        for rows, features in self._by_kernel():
            slope[rows, :-2] = in_h[rows] @ features
        return fit, slope

    def _smooth(self, z: np.ndarray) -> np.ndarray:
        """The process of each state at the points of the scores, before mean and size are applied."""
        return np.vstack([z[rows, :-2] @ features.T for rows, features in self._by_kernel()])

    def _by_kernel(self) -> Iterator[tuple[slice, np.ndarray]]:
        """For each kernel, the slice of states that use it, and its features."""
        ends = np.searchsorted(self.kernel, np.arange(len(self.features) + 1))
        for number, features in enumerate(self.features):
            if ends[number] < ends[number + 1]:
                yield slice(ends[number], ends[number + 1]), features


def _sizes(z: np.ndarray) -> np.ndarray:
    return SIZE[0] * np.exp(np.clip(SIZE[1] * z[:, -1], -9, 9))
