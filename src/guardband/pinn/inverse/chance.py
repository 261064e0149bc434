"""Chance: signs and permutations of readings, and how large the misses are compared with their variants.

If misses keep their law when some of them change sign, or places, those that were seen are among the q
largest of m variants with probability q / m at most. Ties count as larger variants, so they never reject.

The sign patterns are closed under products. This makes q / m exact at every fixed seed: a group of patterns
gives the same set of variants whichever of them was seen. Permutations are drawn anew for each data set, from
a hash of the seed and the readings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from guardband.conformal.rank import Level, exact

LEAST, FIRST, MOST, HIGHEST = 7, 5, 10, 16
"""Powers of two: at least 2^7 variants, up to 2^10 so that 5 are rejected, up to 2^16 so that 1 is."""

DIGITS = 11
"""Statistics that agree to so many digits of the length of the misses are equal but for rounding."""


def ranks(level: Level, units: int | None = None) -> tuple[int, int]:
    """m, a power of two, and q = floor(m (1 - level)): rejecting the q largest of m keeps the level.

    The level that is kept, at least 1 - q / m, is the one asked or slightly more. With the signs of so many
    `units` there are 2^(units - 1) patterns whose statistics differ; where q is 0 nothing is ever rejected.

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
    """The fewest units whose signs can reject anything at a level: 2^(units - 1) (1 - level) is 1 or more.

    >>> units_needed(0.95), units_needed(0.9)
    (6, 5)
    """
    units = 1
    while ranks(level, units)[1] < 1:
        units += 1
    return units


@dataclass(frozen=True)
class Chance(ABC):
    """The variants with which misses are compared, for n readings of m outputs; fixed by the seed."""

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
        return ((others >= seen).sum(axis=1) >= q) | (seen[:, 0] <= 0)  # what is 0 is never large


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
    """Patterns (n, count) that are closed under products, the first without a change; count is a power of 2.

    The sign of reading g under pattern i is (-1)^popcount(i & column_g), a row of a Hadamard matrix. Column 0
    keeps out the pattern that changes all signs; the powers of two make all patterns different. With at most
    `count` readings, all columns are different.
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
