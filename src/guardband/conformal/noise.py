"""Noise with a known distribution, or with only a known bound.

A law describes one reading, or the mean of several `readings` at one point. All laws except `BoundedNoise`
are symmetric and unimodal, which the band for the noise-free truth requires.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array, like, to_numpy
from guardband.base.kept import kept
from guardband.values import Prediction


class NoiseLaw(ABC):
    """Noise with a known distribution that is the same everywhere, symmetric about 0 and unimodal.

    A subclass defines `unit`, `above` and `averaged`.

    Attributes
    ----------
    known
        Whether the distribution is known; False if only `bound` is.
    bound
        Largest absolute value of the noise, possibly infinite.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.conformal.GaussianNoise(0.5).beyond(np.array([0.0, 0.5]), 0.0).round(3)
    array([1.   , 0.317])
    """

    known: ClassVar[bool] = True
    bound: float = float("inf")

    @property
    @abstractmethod
    def unit(self) -> float:
        """The unit in which the noise is measured: its standard deviation."""

    @abstractmethod
    def above(self, s: np.ndarray) -> np.ndarray:
        """Return the probability that the noise exceeds s.

        Parameters
        ----------
        s
            Values of any sign and shape.

        Returns
        -------
        np.ndarray
            Probabilities, of the shape of `s`.
        """

    @abstractmethod
    def averaged(self, readings: int) -> NoiseLaw:
        """Return the law of the mean of several independent readings.

        Parameters
        ----------
        readings
            Number of readings.

        Returns
        -------
        NoiseLaw
            The law of their mean.
        """

    def beyond(self, s: np.ndarray, shift: np.ndarray | float) -> np.ndarray:
        """Return the probability that noise centered at `shift` is farther than s from 0.

        Parameters
        ----------
        s
            Distances >= 0.
        shift
            Centers of the noise, >= 0.

        Returns
        -------
        np.ndarray
            The probabilities P(|shift + noise| > s).
        """
        return self.above(s - shift) + self.above(s + shift)


@kept
@dataclass(frozen=True)
class GaussianNoise(NoiseLaw):
    """Gaussian noise with a known standard deviation.

    Parameters
    ----------
    sd
        Standard deviation.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.conformal.GaussianNoise(0.05).averaged(4)
    GaussianNoise(sd=0.025)
    """

    sd: float

    def __post_init__(self) -> None:
        _positive(self.sd, "sd", "the standard deviation of the noise")

    @property
    def unit(self) -> float:
        """The standard deviation."""
        return self.sd

    def above(self, s: np.ndarray) -> np.ndarray:
        """Return the tail of the normal distribution."""
        from scipy.special import ndtr

        return ndtr(-np.asarray(s) / self.sd)

    def averaged(self, readings: int) -> GaussianNoise:
        """Return Gaussian noise with a smaller standard deviation."""
        return GaussianNoise(self.sd / readings**0.5)


@kept
@dataclass(frozen=True)
class LaplaceNoise(NoiseLaw):
    """Laplace noise, with heavier tails than Gaussian noise.

    Parameters
    ----------
    sd
        Standard deviation of one reading.
    readings
        Number of readings that are averaged.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> noise = gb.conformal.LaplaceNoise(0.05)
    >>> noise.above(np.array([0.0, 0.1])).round(4), noise.averaged(4)
    (array([0.5   , 0.0296]), LaplaceNoise(sd=0.05, readings=4))
    """

    sd: float
    readings: int = 1

    def __post_init__(self) -> None:
        _positive(self.sd, "sd", "the standard deviation of the noise")

    @property
    def unit(self) -> float:
        """The standard deviation of the mean."""
        return self.sd / self.readings**0.5

    def averaged(self, readings: int) -> LaplaceNoise:
        """Return the same noise with `readings` times as many readings."""
        return replace(self, readings=self.readings * readings)

    def above(self, s: np.ndarray) -> np.ndarray:
        """Return the tail of the mean of r readings, from a mixture of symmetrized Gamma distributions."""
        from scipy.special import binom, gammaincc

        r, k = self.readings, np.arange(self.readings)
        weights = binom(r - 1 + k, k) / 2.0 ** (r + k)
        z = abs(np.asarray(s, dtype=float))[..., None] * (r * 2**0.5 / self.sd)
        tail = (weights * gammaincc(r - k, z)).sum(axis=-1)
        return np.where(np.asarray(s) >= 0, tail, 1 - tail)


@kept
@dataclass(frozen=True)
class UniformNoise(NoiseLaw):
    """Noise uniform between -`bound` and `bound`, such as rounding errors.

    Parameters
    ----------
    bound
        Half the width of the distribution.
    readings
        Number of readings that are averaged.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> noise = gb.conformal.UniformNoise(0.5)
    >>> (
    ...     noise.above(np.array([0.0, 0.25, 0.5])),
    ...     noise.averaged(2).above(np.array([0.25])).round(4),
    ... )
    (array([0.5 , 0.25, 0.  ]), array([0.125]))
    """

    bound: float
    readings: int = 1

    def __post_init__(self) -> None:
        _positive(self.bound, "bound", "half the width of the uniform distribution")

    @property
    def unit(self) -> float:
        """The standard deviation of the mean."""
        return self.bound / (3 * self.readings) ** 0.5

    def averaged(self, readings: int) -> UniformNoise:
        """Return the same noise with `readings` times as many readings."""
        return replace(self, readings=self.readings * readings)

    def above(self, s: np.ndarray) -> np.ndarray:
        """Return the tail of the mean of r readings, the integral of a cardinal B-spline."""
        r = self.readings
        z = r / 2 - abs(np.asarray(s, dtype=float)) * (
            r / (2 * self.bound)
        )  # distance from the lower end of the support
        parts = [np.nan_to_num(_spline(r)(z - j)) for j in range(r // 2 + 1)]
        tail = np.sum(parts, axis=0)
        return np.where(np.asarray(s) >= 0, tail, 1 - tail)


@kept
@dataclass(frozen=True)
class BoundedNoise(NoiseLaw):
    """Noise with a known bound and an unknown distribution.

    No reading is farther than `bound` from the truth. The noise may be biased and may depend on the point.

    Parameters
    ----------
    bound
        Largest distance of a reading from the truth.

    Examples
    --------
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays(
    ...     [0.0] * 9,
    ...     [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ...     score=gb.Absolute(),
    ...     calibrator=gb.conformal.Truth(gb.conformal.BoundedNoise(0.5)),
    ... )
    >>> calibrated.band(gb.Prediction(None, [0.0]), level=0.9).upper.round(6)
    array([[9.5]])
    """

    known: ClassVar[bool] = False
    bound: float

    def __post_init__(self) -> None:
        _positive(self.bound, "bound", "the largest distance of a reading from the truth")

    @property
    def unit(self) -> float:
        """The bound."""
        return self.bound

    def above(self, s: np.ndarray) -> np.ndarray:
        """Return 0 beyond the bound, and otherwise the trivial bound 1."""
        return np.where(np.asarray(s) >= self.bound, 0.0, 1.0)

    def averaged(self, readings: int) -> BoundedNoise:
        """Return the same noise, since a mean of readings has the same bound."""
        return self


def average_repeats(prediction: Prediction, y: Array) -> tuple[Prediction, Array, int]:
    """Average readings at the same point, in order of first occurrence; also return the number per point."""
    x = to_numpy(prediction.x).reshape(len(y), -1)
    _, first, which, counts = np.unique(x, axis=0, return_index=True, return_inverse=True, return_counts=True)
    least, most = int(counts.min()), int(counts.max())
    if most == 1:
        return prediction, y, 1
    if least < most:
        raise ValueError(
            f"The number of readings per point ranges from {least} to {most}. Readings at the same point are "
            "not independent, and means of different numbers of readings have different distributions. Keep "
            "the same number of readings at each point, for example only the first."
        )
    means = np.zeros((len(first), *y.shape[1:]))
    np.add.at(means, which.reshape(-1), to_numpy(y) / least)
    return prediction.take(first), like(y, means), least


@lru_cache
def _spline(degree: int) -> Callable[[np.ndarray], np.ndarray]:
    """The cardinal B-spline of a degree, supported from 0; NaN outside its support."""
    from scipy.interpolate import BSpline

    return BSpline.basis_element(np.arange(degree + 2.0), extrapolate=False)


def _positive(value: float, name: str, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise ValueError(f"`{name}` should be {what}, a positive number, got {value!r}.")
