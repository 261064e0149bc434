"""Four confidence regions for coefficients, two with finite-sample coverage and two asymptotic.

The first two compare the residuals with variants in which signs or positions are changed. If the distribution
of the residuals is invariant under these changes, the actual residuals are among the q largest of m variants
with probability at most q / m. Tied variants count as larger, so ties never lead to rejection.

The sign patterns are closed under products, which makes q / m exact for every fixed seed, since a group of
patterns generates the same set of variants from each of its members. Permutations are drawn separately for
each data set, from a hash of the seed and the measurements.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from guardband.conformal.hashed import key
from guardband.conformal.rank import Level, exact
from guardband.pinn.inverse.design import Design, readings
from guardband.pinn.inverse.family import SolvedFamily
from guardband.pinn.inverse.least_squares import least_squares, noise_sd
from guardband.pinn.inverse.region import ConfidenceRegion, Test, region_of
from guardband.values import Observations

CHUNK = 2**22
"""The largest number of entries in the directions of several values at once."""

LEAST, FIRST, MOST, HIGHEST = 7, 5, 10, 16
"""Exponents of two: at least 2^7 variants, up to 2^10 so that 5 are rejected, and up to 2^16 so that 1 is."""

DIGITS = 11
"""Statistics that agree to this number of digits, relative to the length of the residuals, are tied."""


def sign_perturbed(
    solved: SolvedFamily, data: Observations, *, level: Level = 0.95, delta: float = 0.0, seed: int = 0
) -> ConfidenceRegion:
    """Return a region with finite-sample coverage for independent noise that is symmetric about zero.

    The noise may have any symmetric distribution and need not be identically distributed.

    Parameters
    ----------
    solved
        The solved family.
    data
        The measurements.
    level
        The confidence level, strictly between 0 and 1.
    delta
        The largest error of the solver at the measurements, as the length of a vector (`solved.check`).
    seed
        The seed, which must be chosen before the measurements are seen.

    Returns
    -------
    ConfidenceRegion
        The region.

    Warns
    -----
    UserWarning
        If there are too few measurements to reject any value, which means fewer than 6 at 95 %.

    Notes
    -----
    A value is rejected if the projection of its residuals onto the directions in which the family can change
    the residuals is among the q largest of m sign-changed variants. All outputs of a measurement share one
    sign. The truth is rejected with probability at most q / m for every seed chosen before the measurements
    were seen, and with probability exactly q / m if no statistics are tied. At 95 %, the 6 largest of 128 are
    rejected, which gives a coverage of 95.3 %.

    References: Csaji, Campi and Weyer (2015); for groups of patterns, Hemerik and Goeman (2018).

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.inverse.sign_perturbed(solved, data)
    ConfidenceRegion(sign_perturbed, finite-sample, level=0.95, diffusivity)
    """
    design, y = readings(solved, data)
    m, q = ranks(level, design.n)
    if q == 0:
        warnings.warn(
            f"The signs of {design.n} readings cannot reject any value at level {float(exact(level)):g}, so "
            f"the region is the whole range. At least {units_needed(level)} readings are needed.",
            stacklevel=2,
        )
    perturbation = Signs(_seed(seed), design.n, design.m, m)
    return region_of(
        design, y, SignPerturbed(design, y, perturbation, q, checked_delta(delta)), float(exact(level)), delta
    )


def permuted(
    solved: SolvedFamily, data: Observations, *, level: Level = 0.95, delta: float = 0.0, seed: int = 0
) -> ConfidenceRegion:
    """Return a region with finite-sample coverage for exchangeable noise of any distribution and mean.

    Parameters
    ----------
    solved
        The solved family.
    data
        The measurements.
    level
        The confidence level, strictly between 0 and 1.
    delta
        The largest error of the solver at the measurements, as the length of a vector (`solved.check`).
    seed
        The seed, which must be chosen before the measurements are seen.

    Returns
    -------
    ConfidenceRegion
        The region.

    Notes
    -----
    The method is that of `sign_perturbed`, with permutations of the measurements (each with all its outputs)
    instead of signs. Permutations do not change the mean of the residuals, so the mean is ignored, and a
    constant offset does no harm. Permutations are drawn from a hash of the seed and the measurements, and
    thus differ between data sets. The truth is rejected with probability at most q / m over measurements and
    permutations together.

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.inverse.permuted(solved, data).contains(diffusivity=0.1)
    True
    """
    design, y = readings(solved, data)
    m, q = ranks(level)
    own = int.from_bytes(key(_seed(seed), y), "little")
    perturbation = Permutations(own, design.n, design.m, m, centered=True)
    return region_of(
        design, y, Permuted(design, y, perturbation, q, checked_delta(delta)), float(exact(level)), delta
    )


def wald(solved: SolvedFamily, data: Observations, *, level: Level = 0.95) -> ConfidenceRegion:
    """Return an asymptotic region, an ellipse around the least-squares estimate.

    Parameters
    ----------
    solved
        The solved family.
    data
        The measurements.
    level
        The confidence level, strictly between 0 and 1.

    Returns
    -------
    ConfidenceRegion
        The region.

    Notes
    -----
    For homoscedastic Gaussian noise, the coverage tends to the level as the number of measurements grows; for
    heteroscedastic noise it can be much lower. The error of the solver is ignored.

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.inverse.wald(solved, data)
    ConfidenceRegion(wald, asymptotic, level=0.95, diffusivity)
    """
    design, y = readings(solved, data)
    return region_of(design, y, Wald(design, y, float(exact(level))), float(exact(level)))


def profile(solved: SolvedFamily, data: Observations, *, level: Level = 0.95) -> ConfidenceRegion:
    """Return an asymptotic region based on the likelihood ratio.

    The region contains the values whose sum of squares is close enough to the minimum.

    Parameters
    ----------
    solved
        The solved family.
    data
        The measurements.
    level
        The confidence level, strictly between 0 and 1.

    Returns
    -------
    ConfidenceRegion
        The region.

    Notes
    -----
    For homoscedastic Gaussian noise, the coverage tends to the level as the number of measurements grows, and
    equals it if the family is linear. The error of the solver is ignored.

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.inverse.profile(solved, data).touches_edge
    ()
    """
    design, y = readings(solved, data)
    return region_of(design, y, Profile(design, y, float(exact(level))), float(exact(level)))


@dataclass(frozen=True, eq=False)
class Perturbed(Test):
    """A test that rejects values whose residuals are among the q largest of their variants."""

    design: Design
    y: np.ndarray
    perturbation: Perturbation
    q: int
    delta: float
    asymptotic: ClassVar[bool] = False

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return whether each value is accepted."""
        rows = self.design.p + len(self.design.coarse)
        size = max(1, CHUNK // (rows * len(self.y)))
        parts = [self._some(theta[i : i + size]) for i in range(0, len(theta), size)]
        return np.concatenate(parts)

    def _some(self, theta: np.ndarray) -> np.ndarray:
        values = self.design.values(theta)
        residuals = self.y - values
        directions = self.design.directions(theta, values, centered=self.perturbation.centered)
        found = self.perturbation.statistics(directions, residuals, self.design.p)
        return self.perturbation.accepted(found, residuals, self.q, self.delta)


class SignPerturbed(Perturbed):
    """The test with sign changes."""

    method = "sign_perturbed"
    noise = "the noise of the readings is independent and symmetric about zero"


class Permuted(Perturbed):
    """The test with permutations."""

    method = "permuted"
    noise = "the noise of the readings is exchangeable"


@dataclass(frozen=True, eq=False)
class Asymptotic(Test):
    """A test that compares a sum of squares with a quantile of Fisher's F distribution."""

    design: Design
    y: np.ndarray
    level: float
    asymptotic: ClassVar[bool] = True
    noise: ClassVar[str] = (
        "the noise of the readings is Gaussian and homoscedastic, and their number is large"
    )

    @cached_property
    def best(self) -> tuple[np.ndarray, float]:
        """The least-squares estimate, and its sum of squares."""
        return least_squares(self.design, self.y)

    @cached_property
    def most(self) -> float:
        """The largest accepted increase of the sum of squares, p s^2 F."""
        from scipy.stats import f

        p, spare = self.design.p, len(self.y) - self.design.p
        noise = noise_sd(self.design, self.y, self.best[0])
        return p * noise**2 * float(f.ppf(self.level, p, spare))


class Wald(Asymptotic):
    """The test by (theta - estimate)^T J^T J (theta - estimate)."""

    method = "wald"

    @cached_property
    def slopes(self) -> np.ndarray:
        """The derivatives at the estimate, (N, p)."""
        return self.design.slopes(self.best[0][None])[0]

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return whether each value is accepted."""
        away = (theta - self.best[0]) / (self.design.upper - self.design.lower)
        return np.square(away @ self.slopes.T).sum(axis=1) <= self.most


class Profile(Asymptotic):
    """The test by the sum of squares minus its minimum."""

    method = "profile"

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return whether each value is accepted."""
        return np.square(self.y - self.design.values(theta)).sum(axis=1) - self.best[1] <= self.most


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(
            f"`seed` should be an integer such as 0, chosen before the readings were seen, got {seed!r:.80}."
        )
    return int(seed)


def checked_delta(delta: float) -> float:
    """The error of a solver as a length; refuse negative and infinite values."""
    if not 0 <= float(delta) < np.inf:
        raise ValueError(
            f"`delta` should be the largest error of the solver, a nonnegative number, got {delta!r:.80}."
        )
    return float(delta)


def ranks(level: Level, units: int | None = None) -> tuple[int, int]:
    """The number of variants m, a power of two, and the number of rejected ones, q = floor(m (1 - level)).

    The resulting level 1 - q / m is at least the requested level, and at most slightly larger. The signs of
    `units` measurements form 2^(units - 1) patterns with different statistics. If q is 0, no value is ever
    rejected.

    >>> ranks(0.95), ranks(0.9), ranks(0.99), ranks(0.95, units=6), ranks(0.95, units=5)
    ((128, 6), (128, 12), (512, 5), (32, 1), (16, 0))
    """
    miss = 1 - exact(level)
    if miss * 2**HIGHEST < 1:
        raise ValueError(f"`level` should be at most {1 - 2.0**-HIGHEST:.6f} here, got {level}.")
    power = LEAST
    while miss * 2**power < (FIRST if power < MOST else 1):
        power += 1
    m = 2 ** (power if units is None else min(power, max(units - 1, 0)))
    return m, int(miss * m)


def units_needed(level: Level) -> int:
    """The smallest number of units whose signs can reject a value, with 2^(units - 1) (1 - level) >= 1.

    >>> units_needed(0.95), units_needed(0.9)
    (6, 5)
    """
    units = 1
    while ranks(level, units)[1] < 1:
        units += 1
    return units


@dataclass(frozen=True)
class Perturbation(ABC):
    """The variants of residuals for n measurements of m outputs, fixed by the seed."""

    seed: int
    n: int
    outputs: int
    count: int
    """The number of variants; the first is the actual residuals."""

    centered: bool = False
    """Whether residuals are compared after their mean is subtracted."""

    @abstractmethod
    def products(self, directions: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """The products (k, r, count) of directions (k, r, N) with all variants of residuals (k, N)."""

    def statistics(self, directions: np.ndarray, residuals: np.ndarray, p: int) -> np.ndarray:
        """The projections of all variants onto directions, (k, count), relative to the residuals' length.

        The statistic is the larger of the length of the projection onto the first p directions, which are
        orthonormal, and the largest product with any other direction. It changes by at most the length of a
        perturbation of the residuals.
        """
        products = self.products(directions, residuals)
        plane = np.sqrt(np.square(products[:, :p]).sum(axis=1))
        found = np.maximum(plane, products[:, p:].max(axis=1, initial=0.0))
        length = np.linalg.norm(residuals, axis=1, keepdims=True)  # the same for all variants
        return found / np.where(length > 0, length, 1.0)

    def accepted(
        self, statistics: np.ndarray, residuals: np.ndarray, q: int, delta: float | np.ndarray = 0.0
    ) -> np.ndarray:
        """Whether the first entry of each row is not among the q largest, for a solver error up to delta."""
        length = np.linalg.norm(residuals, axis=1, keepdims=True)
        guard = 2 * np.broadcast_to(np.asarray(delta, dtype=float).reshape(-1, 1), length.shape)
        guard = guard / np.where(length > 0, length, 1.0)
        seen = np.round(statistics[:, :1] - guard, DIGITS)
        others = np.round(statistics[:, 1:], DIGITS)
        return ((others >= seen).sum(axis=1) >= q) | (seen[:, 0] <= 0)  # a statistic of 0 is never large


class Signs(Perturbation):
    """Each measurement keeps or changes its sign; its outputs share one sign."""

    def products(self, directions: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """The products by one matrix multiplication, since the sign of a measurement factors out."""
        each = directions * residuals[:, None]
        each = each.reshape(*each.shape[:2], self.n, self.outputs).sum(axis=3)
        return (each.reshape(-1, self.n) @ _signs(self.seed, self.n, self.count)).reshape(
            *each.shape[:2], self.count
        )


class Permutations(Perturbation):
    """The measurements are permuted, each with all its outputs."""

    def products(self, directions: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """The products with all permutations of the residuals."""
        places = _places(self.seed, self.n, self.count)
        moved = residuals.reshape(len(residuals), self.n, self.outputs)[:, places]
        return directions @ np.swapaxes(moved.reshape(len(residuals), self.count, -1), 1, 2)


@lru_cache(maxsize=64)
def _signs(seed: int, n: int, count: int) -> np.ndarray:
    """Patterns (n, count) that are closed under products; the first is all ones, and count is a power of 2.

    The sign of measurement g in pattern i is (-1)^popcount(i & column_g), a row of a Hadamard matrix. Column
    0 excludes the pattern that changes all signs; the powers of two make all patterns different. With at most
    `count` measurements, all columns are different.
    """
    rng = np.random.default_rng([seed, 1])
    first = np.array([0, *2 ** np.arange(count.bit_length() - 1)])
    columns = np.concatenate([first, rng.permutation(np.setdiff1d(np.arange(count), first))])
    columns = rng.permutation(columns[np.arange(n) % count])
    shared = columns[:, None] & np.arange(count)
    return 1.0 - 2 * (np.bitwise_count(shared) % 2)


@lru_cache(maxsize=64)
def _places(seed: int, n: int, count: int) -> np.ndarray:
    drawn = np.random.default_rng([seed, 2]).permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    drawn[0] = np.arange(n)
    return drawn
