"""The exact distribution of the coverage of a valid band, given the numbers of calibration and test points.

A band calibrated on n points with rank k covers a random share of new points. The distribution of this share
is Beta(k, n+1-k). With 100 points at 95 %, its mean is 0.9505 and its standard deviation 0.0215. The number
of covered points among m test points follows BetaBinomial(m, k, n+1-k). For i.i.d. points with continuous
scores, these laws depend neither on the model nor on the data; with ties, coverage can only be higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from guardband.conformal.rank import Level, exact

LEVELS: tuple[str, ...] = tuple(f"0.{5 * i:02d}" for i in range(1, 20))
"""The 19 levels 0.05, 0.10, ..., 0.95 of a coverage curve, as decimal strings.

Examples
--------
>>> import guardband as gb
>>> len(gb.conformal.LEVELS), gb.conformal.LEVELS[0], gb.conformal.LEVELS[-1]
(19, '0.05', '0.95')
"""


@dataclass(frozen=True)
class CoverageLaw:
    """The coverage of a band whose threshold is the k-th smallest of n calibration scores: Beta(k, n+1-k).

    Parameters
    ----------
    k
        Rank of the threshold among the sorted scores, from 1 to n + 1.
    n
        Number of calibration scores.

    Examples
    --------
    >>> from guardband.conformal import CoverageLaw
    >>> law = CoverageLaw(k=96, n=100)
    >>> print(f"{law.mean:.4f} +- {law.sd:.4f}")
    0.9505 +- 0.0215
    >>> law.count_range(100, mass=0.99)
    (85, 100)
    """

    k: int
    n: int

    @property
    def infinite(self) -> bool:
        """Whether the rank exceeds n, so that the band is infinite."""
        return self.k > self.n

    @property
    def mean(self) -> float:
        """The expected coverage, k / (n + 1)."""
        return self.k / (self.n + 1)

    @property
    def sd(self) -> float:
        """The standard deviation of the coverage over calibration sets."""
        return (self.mean * (1 - self.mean) / (self.n + 2)) ** 0.5

    def interval(self, mass: float = 0.99) -> tuple[float, float]:
        """Return the central interval that contains the coverage with a given probability.

        Parameters
        ----------
        mass
            Probability of the interval.

        Returns
        -------
        tuple of float
            Lower and upper end.
        """
        from scipy.special import betaincinv

        if self.infinite:
            return 1.0, 1.0
        tail = (1 - mass) / 2
        a, b = self.k, self.n + 1 - self.k
        return float(betaincinv(a, b, tail)), float(betaincinv(a, b, 1 - tail))

    def below(self, level: Level) -> float:
        """Return the probability that the coverage is below a level.

        Parameters
        ----------
        level
            The level, strictly between 0 and 1.

        Returns
        -------
        float
            The probability over calibration sets.
        """
        from scipy.special import betainc

        p = float(exact(level))
        return 0.0 if self.infinite else float(betainc(self.k, self.n + 1 - self.k, p))

    def counts(self, m: int) -> np.ndarray:
        """Return the probabilities of 0, 1, ..., m covered points among m: BetaBinomial(m, k, n+1-k).

        Parameters
        ----------
        m
            Number of test points.

        Returns
        -------
        np.ndarray
            Probabilities, shape (m + 1,).
        """
        from scipy.special import betaln

        j = np.arange(m + 1)
        if self.infinite:
            return (j == m).astype(float)
        a, b = self.k, self.n + 1 - self.k
        log_choose = -betaln(m - j + 1, j + 1) - np.log(m + 1)
        return np.exp(log_choose + betaln(a + j, b + m - j) - betaln(a, b))

    def count_range(self, m: int, mass: float = 0.99) -> tuple[int, int]:
        """Return the central range of the number of covered test points of a valid band.

        Parameters
        ----------
        m
            Number of test points.
        mass
            Probability of the range; the actual probability is at least this.

        Returns
        -------
        tuple of int
            Smallest and largest number of covered points.
        """
        return central_range(self.counts(m), mass)


def total_counts(pieces: Sequence[tuple[CoverageLaw, int]], repeats: int = 1) -> np.ndarray:
    """The distribution of the number of covered points over independent pieces (law, test points).

    With `repeats`, all pieces are repeated with independent calibration sets. The convolution uses a Fourier
    transform.

    Examples
    --------
    >>> total_counts([(CoverageLaw(1, 1), 1)], repeats=2).round(3)
    array([0.25, 0.5 , 0.25])
    """
    if repeats == 1 and len(pieces) == 1:
        law, m = pieces[0]
        return law.counts(m)
    size = repeats * sum(m for _, m in pieces) + 1
    length = 1 << (size - 1).bit_length()  # transforms are fastest for powers of two
    transform = np.ones(length // 2 + 1, dtype=complex)
    for law, m in pieces:
        transform *= np.fft.rfft(law.counts(m), length)
    return np.fft.irfft(transform**repeats, length)[:size].clip(min=0)


def central_range(probabilities: np.ndarray, mass: float) -> tuple[int, int]:
    """The central range of counts, with a probability of at most (1 - mass) / 2 on each side of it."""
    tail = (1 - mass) / 2
    below = np.cumsum(probabilities)
    above = np.cumsum(probabilities[::-1])
    last = len(probabilities) - 1
    return int((below <= tail).sum()), last - int((above <= tail).sum())


def tails(probabilities: np.ndarray, count: int) -> tuple[float, float]:
    """The probabilities of at most, and of at least, `count` covered points."""
    return float(probabilities[: count + 1].sum()), float(probabilities[count:].sum())


def expected_deviation(pieces: Sequence[tuple[CoverageLaw, int]], level: Level) -> float:
    """E |coverage on m test points - level| of a valid band, which is exact and not zero."""
    probabilities = total_counts(pieces)
    m = len(probabilities) - 1
    deviation = np.abs(np.arange(m + 1) / m - float(exact(level)))
    return float(probabilities @ deviation)


def simulated_deviations(
    sizes: Sequence[tuple[Sequence[int], int, int]], levels: Sequence[Level]
) -> np.ndarray:
    """Draws of the average coverage deviation over levels of a valid band.

    There are 20 000 draws, or fewer (but at least 2000) for many pieces. `sizes` lists the independent
    pieces: the ranks for the levels in ascending order, n, and the number of test points. The gaps between
    ranks of uniform scores follow a Dirichlet distribution, so no scores are simulated.
    """
    generator = np.random.default_rng(0)
    draws = max(2000, 20_000 // len(sizes))
    target = np.array([float(exact(level)) for level in levels])
    covered = np.zeros((draws, len(target)))
    for ranks, n, m in sizes:
        gaps = np.diff([0, *ranks, n + 1])
        shares = generator.gamma(gaps, size=(draws, len(gaps)))
        shares /= shares.sum(axis=1, keepdims=True)
        covered += generator.multinomial(m, shares)[:, :-1].cumsum(axis=1)
    m_all = sum(m for _, _, m in sizes)
    return np.abs(covered / m_all - target).mean(axis=1)
