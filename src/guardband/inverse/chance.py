"""Chance: signs and permutations of readings, drawn before any is known, and how large the misses stand.

If misses keep their law when some of them change sign, or places, then those that were seen are among the q
largest of m with probability q / m, exactly: one draw among m that are alike. What is equal is put in a
random order, drawn before as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from guardband.conformal.rank import Level, exact

LEAST, FIRST, MOST = 100, 5, 1000
"""At least so many are compared, so that at least the first few are rejected, if these many are enough."""

DIGITS = 11
"""Statistics that agree to so many digits of the length of the misses are equal but for rounding."""


def ranks(level: Level) -> tuple[int, int]:
    """m and q with q / m = 1 - level, exactly: of m statistics the q largest are rejected.

    >>> ranks(0.95), ranks(0.9), ranks(0.99), ranks("2/3")
    ((100, 5), (100, 10), (500, 5), (102, 34))
    """
    miss = 1 - exact(level)
    q, m = miss.numerator, miss.denominator
    if m > 100 * MOST:
        raise ValueError(f"`level` should have at most five digits here, got {level}.")
    times = -(-LEAST // m)
    if q * times < FIRST and m * -(-FIRST // q) <= MOST:
        times = -(-FIRST // q)
    return m * times, q * times


@dataclass(frozen=True)
class Chance(ABC):
    """Which misses stand beside those that were seen, for n readings of m outputs; fixed by the seed."""

    seed: int
    n: int
    outputs: int
    count: int
    """How many there are in all, those that were seen being the first."""

    centered: bool = False
    """Whether only misses about their mean are compared."""

    @abstractmethod
    def products(self, directions: np.ndarray, misses: np.ndarray) -> np.ndarray:
        """The products (k, r, count) of directions (k, r, N) with all variants of misses (k, N)."""

    @property
    def order(self) -> np.ndarray:
        """The random order of what is equal, (count,)."""
        return _order(self.seed, self.count)

    def statistics(self, directions: np.ndarray, misses: np.ndarray, p: int) -> np.ndarray:
        """How far misses reach along directions, (k, count), as a share of their length.

        The larger of the length of their projection on the first p directions, which are orthonormal, and the
        largest product with any other one. It moves by at most the length of what is added to the misses.
        """
        products = self.products(directions, misses)
        plane = np.sqrt(np.square(products[:, :p]).sum(axis=1))
        found = np.maximum(plane, products[:, p:].max(axis=1, initial=0.0))
        length = np.linalg.norm(misses, axis=1, keepdims=True)  # the same for all variants
        return found / np.where(length > 0, length, 1.0)

    def accepted(
        self, statistics: np.ndarray, misses: np.ndarray, q: int, delta: float | np.ndarray = 0.0
    ) -> np.ndarray:
        """Whether what was seen, the first of each row, is not among the q largest by more than 2 Delta."""
        length = np.linalg.norm(misses, axis=1, keepdims=True)
        guard = 2 * np.broadcast_to(np.asarray(delta, dtype=float).reshape(-1, 1), length.shape)
        guard = guard / np.where(length > 0, length, 1.0)
        seen = np.round(statistics[:, :1] - guard, DIGITS)
        others = np.round(statistics[:, 1:], DIGITS)
        later = self.order[1:] > self.order[0]
        above = (others > seen) | ((others == seen) & later)
        return (above.sum(axis=1) >= q) | (seen[:, 0] <= 0)  # what is 0 is never large


class Signs(Chance):
    """Each reading keeps its sign or changes it; its outputs share one."""

    def products(self, directions: np.ndarray, misses: np.ndarray) -> np.ndarray:
        """By one product of matrices: the sign of a reading can be drawn out of the sum."""
        each = directions * misses[:, None]
        each = each.reshape(*each.shape[:2], self.n, self.outputs).sum(axis=3)
        return (each.reshape(-1, self.n) @ _signs(self.seed, self.n, self.count)).reshape(
            *each.shape[:2], self.count
        )


class Permutations(Chance):
    """The readings change places, each with all its outputs."""

    def products(self, directions: np.ndarray, misses: np.ndarray) -> np.ndarray:
        """With all permutations of the misses."""
        places = _places(self.seed, self.n, self.count)
        moved = misses.reshape(len(misses), self.n, self.outputs)[:, places]
        return directions @ np.swapaxes(moved.reshape(len(misses), self.count, -1), 1, 2)


@lru_cache(maxsize=64)
def _signs(seed: int, n: int, count: int) -> np.ndarray:
    drawn = np.random.default_rng([seed, 1]).integers(0, 2, (n, count)) * 2.0 - 1
    drawn[:, 0] = 1.0
    return drawn


@lru_cache(maxsize=64)
def _places(seed: int, n: int, count: int) -> np.ndarray:
    drawn = np.random.default_rng([seed, 2]).permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    drawn[0] = np.arange(n)
    return drawn


@lru_cache(maxsize=64)
def _order(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng([seed, 3]).permutation(count)
