"""Laws: how often a valid band covers, exactly, for this many calibration and test points.

A band calibrated on n points with rank k covers a random share of all new points, and that share
follows Beta(k, n+1-k): with 100 points at 95 % it has mean .9505 and standard deviation .0215. Of m
test points a BetaBinomial(m, k, n+1-k) number is covered. For continuous scores nothing else enters,
neither the network nor the data; with tied scores coverage can only be higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from guardband.conformal.rank import Level, exact

LEVELS: tuple[str, ...] = tuple(f"0.{5 * i:02d}" for i in range(1, 20))
"""The 19 levels 0.05, 0.10, ..., 0.95 of a coverage curve, as decimals.

>>> import guardband as gb
>>> len(gb.conformal.LEVELS), gb.conformal.LEVELS[0], gb.conformal.LEVELS[-1]
(19, '0.05', '0.95')
"""


@dataclass(frozen=True)
class CoverageLaw:
    """The coverage of a band that took the k-th of n calibration scores: Beta(k, n+1-k).

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
        """Whether the rank lies beyond the last score, so that the band covers everything."""
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
        """The central interval that holds the coverage with probability `mass`."""
        from scipy.special import betaincinv

        if self.infinite:
            return 1.0, 1.0
        tail = (1 - mass) / 2
        a, b = self.k, self.n + 1 - self.k
        return float(betaincinv(a, b, tail)), float(betaincinv(a, b, 1 - tail))

    def below(self, level: Level) -> float:
        """The probability that the coverage falls below a level."""
        from scipy.special import betainc

        p = float(exact(level))
        return 0.0 if self.infinite else float(betainc(self.k, self.n + 1 - self.k, p))

    def counts(self, m: int) -> np.ndarray:
        """The probabilities of 0, 1, ..., m covered points among m: BetaBinomial(m, k, n+1-k)."""
        from scipy.special import betaln

        j = np.arange(m + 1)
        if self.infinite:
            return (j == m).astype(float)
        a, b = self.k, self.n + 1 - self.k
        log_choose = -betaln(m - j + 1, j + 1) - np.log(m + 1)
        return np.exp(log_choose + betaln(a + j, b + m - j) - betaln(a, b))

    def count_range(self, m: int, mass: float = 0.99) -> tuple[int, int]:
        """How many of m test points a valid band covers, with probability at least `mass`."""
        return central_range(self.counts(m), mass)


def total_counts(pieces: Sequence[tuple[CoverageLaw, int]], repeats: int = 1) -> np.ndarray:
    """The probabilities of all covered points over independent pieces, each (law, test points).

    The whole may be repeated with fresh calibration sets; the sum is taken by Fourier transform.

    >>> total_counts([(CoverageLaw(1, 1), 1)], repeats=2).round(3)
    array([0.25, 0.5 , 0.25])
    """
    if repeats == 1 and len(pieces) == 1:
        law, m = pieces[0]
        return law.counts(m)
    size = repeats * sum(m for _, m in pieces) + 1
    length = 1 << (size - 1).bit_length()  # a power of two, which transforms are fast for
    transform = np.ones(length // 2 + 1, dtype=complex)
    for law, m in pieces:
        transform *= np.fft.rfft(law.counts(m), length)
    return np.fft.irfft(transform**repeats, length)[:size].clip(min=0)


def central_range(probabilities: np.ndarray, mass: float) -> tuple[int, int]:
    """The central range of counts that leaves at most (1 - mass) / 2 on each side."""
    tail = (1 - mass) / 2
    below = np.cumsum(probabilities)
    above = np.cumsum(probabilities[::-1])
    last = len(probabilities) - 1
    return int((below <= tail).sum()), last - int((above <= tail).sum())


def tails(probabilities: np.ndarray, count: int) -> tuple[float, float]:
    """The probabilities of at most, and of at least, so many covered points."""
    return float(probabilities[: count + 1].sum()), float(probabilities[count:].sum())


def expected_deviation(pieces: Sequence[tuple[CoverageLaw, int]], level: Level) -> float:
    """E |coverage on m test points - level| of a perfectly valid band: not zero, and exact."""
    probabilities = total_counts(pieces)
    m = len(probabilities) - 1
    deviation = np.abs(np.arange(m + 1) / m - float(exact(level)))
    return float(probabilities @ deviation)


def simulated_deviations(
    sizes: Sequence[tuple[Sequence[int], int, int]], levels: Sequence[Level]
) -> np.ndarray:
    """Draws of the average coverage deviation over levels of a perfectly valid band.

    20 000 of them, fewer (but at least 2000) where there are many pieces.
    `sizes` lists the independent pieces: the ranks for the levels in ascending order, n, and the
    number of test points. Ranks of uniform scores have Dirichlet gaps, so no score is ever drawn.
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
