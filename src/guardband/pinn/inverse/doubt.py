"""A test of the equation itself, based on the order of the residuals' signs along each axis.

If the equation is correct, the residuals at the true coefficients are noise: positive as often as negative,
in random order. A wrong equation produces runs of equal signs. Since the true coefficients are unknown, an
alarm is raised only if all values of the coefficients are rejected.

The box of ranges is divided into cells, and a cell is rejected as a whole. A residual counts as positive
(negative) in a cell only if it is positive (negative) for all coefficients of the cell and all solver errors
up to delta. All other residuals take the signs that are most favorable to the equation, with balanced
positive and negative signs and as many sign changes as possible. For independent noise with median zero
(including atoms), there are fair and independent signs that agree with all counted signs in every cell that
contains the true coefficients, so the p-values of these cells are at least those of such signs. Cells that
are not rejected are halved until none remains (an alarm), until a single value is not rejected, or until
there are too many cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.pinn.inverse.design import Design, readings
from guardband.pinn.inverse.family import SolvedFamily
from guardband.pinn.inverse.least_squares import least_squares
from guardband.pinn.inverse.methods import checked_delta
from guardband.values import Observations

FALSE_ALARMS = 0.01
"""The largest probability of an alarm for a correct equation."""

FIRST = {1: 200, 2: 40, 3: 12, 4: 6}
"""The initial number of cells along each coefficient, by the number of coefficients."""

CELLS = 20_000
"""The largest number of cells; if more are needed, no alarm is raised."""

CHUNK = 2**21
"""The largest number of solution values that are computed at once at the corners of cells."""


@dataclass(frozen=True)
class Doubt:
    """The result of a test of the equation.

    Attributes
    ----------
    alarm
        Whether the equation is rejected at all values of the coefficients.
    p_value
        The largest p-value that was found over the coefficients, with a Bonferroni correction over axes,
        outputs and tests. After an alarm, no value of the coefficients has a larger p-value.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.inverse.Doubt(alarm=False, p_value=0.4)
    The residuals along the axes do not speak against the equation (p = 0.4).
    """

    alarm: bool
    p_value: float

    def __repr__(self) -> str:
        p = f"p = {self.p_value:.2g}" if self.p_value >= 1e-6 else "p < 1e-6"
        if self.alarm:
            return (
                "The residuals have an order along the axes, or too many have one sign, at every value of "
                f"the coefficients ({p}): the equation, a condition, the solver or the range is wrong, or "
                "the noise is not independent with median zero."
            )
        return f"The residuals along the axes do not speak against the equation ({p})."


def doubt(solved: SolvedFamily, data: Observations, *, delta: float = 0.0) -> Doubt:
    """Test the equation itself, based on the order of the residuals along the axes.

    Along each axis, the test checks whether the residuals are positive as often as negative, and whether
    their signs change as often as in random order. An alarm is raised if all coefficients in the range are
    rejected at 1 %, with a Bonferroni correction over axes, outputs and the two tests.

    Parameters
    ----------
    solved
        The solved family.
    data
        The measurements.
    delta
        The largest error of the solver at the measurements, as the length of a vector (`solved.check`).

    Returns
    -------
    Doubt
        The alarm, if any, and the p-value.

    Notes
    -----
    For a correct equation whose true coefficients lie in the range, an alarm occurs in at most 1 % of data
    sets, provided that the noise is independent with median zero (exact zeros included), the error of the
    solver is at most `delta`, and the solution at each measurement is monotone in each coefficient within
    each cell. Coefficients are rejected cell by cell, and cells are halved until they are rejected, up to
    20,000 in total. The initial cells are 1/200 of the range for one coefficient, and 1/40, 1/12 and 1/6 of
    each range for two, three and four coefficients. A turning point within a cell shifts the cell's bound by
    an amount of second order in the cell size. With four coefficients, or a `delta` of about half the noise
    of a measurement, only gross errors are detected.

    Examples
    --------
    >>> from guardband import pinn
    >>> front = pinn.problems.ReactionDiffusion1D(diffusion=0.05, growth=2.0)
    >>> solved = pinn.Family(type(front), diffusion=(0.01, 0.1), growth=2.0).exact()
    >>> pinn.inverse.doubt(solved, front.observe(100, noise=0.05))
    The residuals along the axes do not speak against the equation (p = 0.81).
    """
    design, y = readings(solved, data)
    p_value = float(p_values(design, y[None], checked_delta(delta))[0])
    return Doubt(p_value <= FALSE_ALARMS, p_value)


def p_values(design: Design, y: np.ndarray, delta: float = 0.0) -> np.ndarray:
    """The largest p-value that was found over the coefficients, (k,), for measurements y (k, N)."""
    return np.array([_Search(design, one, delta).p_value for one in y])


@dataclass(frozen=True, eq=False)
class _Search:
    """Branch and bound over the coefficients, for one set of measurements."""

    design: Design
    y: np.ndarray
    delta: float

    @property
    def p_value(self) -> float:
        """The first p-value above 1 % at a single value; otherwise the largest of all cells."""
        best = self.design.values(least_squares(self.design, self.y)[0][None])
        if (found := self._p(best, best)[0]) > FALSE_ALARMS:
            return float(found)
        low, high = _first(self.design)
        rejected, tested = float(found), 0
        while len(low):
            tested += len(low)
            p, axis = np.empty(len(low)), np.empty(len(low), dtype=int)
            for some in self._chunks(len(low)):
                p[some], axis[some], value = self._cells(low[some], high[some])
                if value > FALSE_ALARMS:
                    return value
            kept = p > FALSE_ALARMS
            rejected = max(rejected, float(p[~kept].max(initial=0.0)))
            if tested + 2 * kept.sum() > CELLS:
                return float(p.max())
            low, high = _halved(low[kept], high[kept], axis[kept])
        return rejected

    def _chunks(self, cells: int) -> Iterator[slice]:
        step = max(1, CHUNK // (2**self.design.p * len(self.y)))
        return (slice(i, i + step) for i in range(0, cells, step))

    def _cells(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """The p-value of each cell and its axis for halving, (k,), and the largest p-value of a corner."""
        p, k = self.design.p, len(low)
        ends = np.stack([low, high])
        which = np.array(list(itertools.product((0, 1), repeat=p)))
        corners = ends[which[:, None], np.arange(k)[:, None], np.arange(p)]  # (2^p, k, p)
        single, back = np.unique(corners.reshape(-1, p), axis=0, return_inverse=True)
        found = self.design.values(single)
        values = found[back.reshape(-1)].reshape(len(which), k, -1)
        least, most = values.min(axis=0), values.max(axis=0)
        moved = np.stack(
            [abs(values[which[:, j] == 1] - values[which[:, j] == 0]).max(axis=0) for j in range(p)]
        )
        free = (self.y >= least - self.delta) & (self.y <= most + self.delta)
        shares = moved / np.maximum(moved.sum(axis=0), 1e-300) * free
        return self._p(least, most), shares.sum(axis=2).argmax(axis=0), float(self._p(found, found).max())

    def _p(self, least: np.ndarray, most: np.ndarray) -> np.ndarray:
        """The p-values if the solution lies between two bounds, (k,); possible zeros have any sign."""
        signs = (self.y > most + self.delta).astype(int) - (self.y < least - self.delta)
        return _p(signs.reshape(len(signs), self.design.n, self.design.m), self._orders)

    @cached_property
    def _orders(self) -> list[np.ndarray]:
        """The order of the measurements along each axis."""
        x = to_numpy(self.design.x)
        return [np.argsort(x[:, j], kind="stable") for j in range(x.shape[1])]


def _first(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper ends of the first cells, (k, p) each."""
    edges = [np.linspace(a, b, FIRST[design.p] + 1) for a, b in zip(design.lower, design.upper, strict=True)]
    low, high = (
        np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, design.p)
        for ends in ([edge[:-1] for edge in edges], [edge[1:] for edge in edges])
    )
    return low, high


def _halved(low: np.ndarray, high: np.ndarray, axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The halves of cells (k, p), each along its axis."""
    middle, cut = (low + high) / 2, axis[:, None] == np.arange(low.shape[1])
    return np.concatenate([low, np.where(cut, middle, low)]), np.concatenate(
        [np.where(cut, middle, high), high]
    )


def _p(signs: np.ndarray, orders: list[np.ndarray]) -> np.ndarray:
    """The p-value of signs -1, 0 and 1, (k, n, m): the smallest p-value times the number of tests."""
    n, m = signs.shape[1:]
    tests = m * (len(orders) + 1)
    above, below = (signs > 0).sum(axis=1), (signs < 0).sum(axis=1)
    smallest = _binomial(np.clip(n // 2, above, n - below), n).min(axis=1)
    for order in orders:
        smallest = np.minimum(smallest, _few(_most_changes(signs[:, order]), n - 1).min(axis=1))
    return np.minimum(1.0, smallest * tests)


def _most_changes(signs: np.ndarray) -> np.ndarray:
    """The largest number of sign changes along n measurements, (k, m), if each 0 takes the best sign.

    If every second sign is reversed, a change becomes a repetition, and zeros repeat their predecessors.
    """
    n = signs.shape[1]
    turned = signs * (1 - 2 * (np.arange(n) % 2))[:, None]
    last = np.maximum.accumulate(np.where(turned != 0, np.arange(n)[:, None], 0), axis=1)
    filled = np.take_along_axis(turned, last, axis=1)
    return n - 1 - ((np.diff(filled, axis=1) != 0) & (filled[:, :-1] != 0)).sum(axis=1)


def _binomial(count: np.ndarray, n: int) -> np.ndarray:
    """The two-sided p-value of a number of positive signs among n."""
    return np.minimum(1.0, 2 * _few(np.minimum(count, n - count), n))


def _few(count: np.ndarray, n: int) -> np.ndarray:
    """The one-sided p-value of at most `count` successes among n, each with probability 1/2."""
    return _at_most(n)[count]


@lru_cache(maxsize=8)
def _at_most(n: int) -> np.ndarray:
    from scipy.stats import binom

    return binom.cdf(np.arange(n + 1), n, 0.5)
