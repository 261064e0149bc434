"""A crowd of states, led from the prior of a log scale to its posterior.

The states begin as draws of the prior, and the likelihood is turned on in small powers. At each power, states
that fit badly give way to copies of those that fit well, and then all of them move (sequential Monte Carlo;
Del Moral, Doucet and Jasra 2006). Many states cost little more than one: they share each product of matrices,
and none of them need find its way between the lengths of the kernel, which a single chain seldom does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

MEAN, SIZE = (-2.0, 1.5), (1.5, 0.4)
"""Prior of the mean of h (normal) and of its standard deviation (log-normal): median and spread."""

SHARE, GLIDE, ACCEPTED = 0.5, 6, 0.7
"""States that each power leaves in effect, steps of a glide, and how often a glide should be accepted."""


class Crowd:
    """States (kernel, z) of h = mean + size features w, with z = (w, a, b) standard normal before any data.

    The mean is MEAN[0] + MEAN[1] a, the size SIZE[0] exp(SIZE[1] b). Scores are half-normal with the scale
    floor + softplus(h) in logarithms; the floor has a flat prior and is integrated out. States with the same
    kernel stand together.
    """

    features: Sequence[np.ndarray]
    squares: np.ndarray
    generator: np.random.Generator
    z: np.ndarray
    kernel: np.ndarray
    fit: np.ndarray
    power: float
    step: float

    def __init__(
        self, features: Sequence[np.ndarray], scores: np.ndarray, states: int, generator: np.random.Generator
    ) -> None:
        self.features, self.squares, self.generator = features, scores**2, generator
        self.z = generator.normal(size=(states, features[0].shape[1] + 2))
        self.kernel = np.sort(generator.integers(len(features), size=states))
        self.power, self.step = 0.0, 0.3
        self.fit, _ = self._likelihood(self.z)

    def lead(self) -> None:
        """Turn the likelihood on, to its full power."""
        while self.power < 1:
            self._strengthen()
            self.move(1)

    def move(self, times: int) -> None:
        """Let every state glide, and try another length of the kernel."""
        for _ in range(times):
            self._glide()
            self._change_length()

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
        """The most probable floor of each state."""
        bumps = np.logaddexp(0, self.means[:, None] + self.sizes[:, None] * self._smooth(self.z))
        return 0.5 * np.log((self.squares * np.exp(-2 * bumps)).mean(axis=1))

    def _strengthen(self) -> None:
        """Raise the power until the weights of the states are worth SHARE of them, and draw by weight."""
        low, high = self.power, 1.0
        if self._worth(high) < SHARE * len(self.z):
            for _ in range(30):
                middle = (low + high) / 2
                low, high = (low, middle) if self._worth(middle) < SHARE * len(self.z) else (middle, high)
        weights = self._weights(high)
        even = (np.arange(len(self.z)) + self.generator.uniform()) / len(self.z)
        self._take(np.minimum(np.searchsorted(np.cumsum(weights), even), len(self.z) - 1))
        self.power = high

    def _weights(self, power: float) -> np.ndarray:
        weights = np.exp((power - self.power) * (self.fit - self.fit.max()))
        return weights / weights.sum()

    def _worth(self, power: float) -> float:
        """How many states of equal weight the states are worth (the effective sample size)."""
        return 1 / float((self._weights(power) ** 2).sum())

    def _glide(self) -> None:
        """Hamiltonian Monte Carlo: along circles, where the prior is level, kicked by the likelihood."""
        z, speed = self.z, self.generator.normal(size=self.z.shape)
        before, slope = self._likelihood(z)
        start = self._energy(z, speed, before)
        angle = self.step * self.generator.uniform(0.7, 1.3, size=(len(z), 1))
        cos, sin, kick = np.cos(angle), np.sin(angle), self.power * angle
        fit = before
        for _ in range(GLIDE):
            speed = speed + kick / 2 * slope
            z, speed = cos * z + sin * speed, cos * speed - sin * z
            fit, slope = self._likelihood(z)
            speed += kick / 2 * slope
        gain = np.minimum(self._energy(z, speed, fit) - start, 0)
        accepted = np.log(self.generator.uniform(size=len(z))) < gain
        self.z = np.where(accepted[:, None], z, self.z)
        self.fit = np.where(accepted, fit, before)
        self.step = min(self.step * math.exp(0.5 * (np.exp(gain).mean() - ACCEPTED)), 1.0)

    def _change_length(self) -> None:
        """A Metropolis step to the next shorter or longer kernel."""
        kernel = self.kernel + self.generator.choice([-1, 1], size=len(self.z))
        inside = (kernel >= 0) & (kernel < len(self.features))
        order = np.argsort(np.where(inside, kernel, self.kernel), kind="stable")
        here, there = self.kernel[order], np.where(inside, kernel, self.kernel)[order]
        self._take(order)
        self.kernel = there
        fit, _ = self._likelihood(self.z)
        accepted = np.log(self.generator.uniform(size=len(fit))) < self.power * (fit - self.fit)
        self.kernel, self.fit = np.where(accepted, there, here), np.where(accepted, fit, self.fit)
        self._take(np.argsort(self.kernel, kind="stable"))

    def _take(self, rows: np.ndarray) -> None:
        self.z, self.kernel, self.fit = self.z[rows], self.kernel[rows], self.fit[rows]

    def _energy(self, z: np.ndarray, speed: np.ndarray, fit: np.ndarray) -> np.ndarray:
        return self.power * fit - 0.5 * ((z**2).sum(axis=1) + (speed**2).sum(axis=1))

    def _likelihood(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log-likelihood of each state, the floor integrated out, and its slope in z."""
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
        for rows, features in self._alike():
            slope[rows, :-2] = in_h[rows] @ features
        return fit, slope

    def _smooth(self, z: np.ndarray) -> np.ndarray:
        """The process of each state at the scores' points, before its mean and size."""
        return np.vstack([z[rows, :-2] @ features.T for rows, features in self._alike()])

    def _alike(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The states of each kernel, and its features."""
        ends = np.searchsorted(self.kernel, np.arange(len(self.features) + 1))
        for number, features in enumerate(self.features):
            if ends[number] < ends[number + 1]:
                yield slice(ends[number], ends[number + 1]), features


def _sizes(z: np.ndarray) -> np.ndarray:
    return SIZE[0] * np.exp(np.clip(SIZE[1] * z[:, -1], -9, 9))
