"""Doubt: a test of the equation itself, by the order of the signs of the residuals along each axis.

Where the equation is right, its misses at the true coefficients are noise: as often above as below, in no
order. A wrong equation leaves stretches of one sign. The truth is not known, so the alarm is raised only
where every value of the coefficients is rejected, which a right equation suffers even less often than stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.arrays import to_numpy
from guardband.inverse.design import Design, readings
from guardband.inverse.least_squares import least_squares
from guardband.inverse.solved import SolvedFamily
from guardband.values import Observations

FALSE_ALARMS = 0.01
"""How often a right equation may be doubted, at most."""

FINE = {1: 201, 2: 41, 3: 13, 4: 7}
"""Values of each coefficient at which the test is made."""


@dataclass(frozen=True)
class Doubt:
    """Whether the equation is doubted, and how likely its residuals are at the best value that was found.

    >>> import guardband as gb
    >>> gb.inverse.Doubt(alarm=False, p_value=0.4)
    The residuals along the axes do not speak against the equation (p = 0.4).
    """

    alarm: bool
    p_value: float
    """The largest over all values of the coefficients; Bonferroni over axes, outputs and two tests."""

    def __repr__(self) -> str:
        p = f"p = {self.p_value:.2g}" if self.p_value >= 1e-6 else "p < 1e-6"
        if self.alarm:
            return (
                f"The residuals have an order along the axes at every value of the coefficients ({p}): the "
                "equation, a condition, the solver or the range is wrong, or the noise is not independent."
            )
        return f"The residuals along the axes do not speak against the equation ({p})."


def doubt(solved: SolvedFamily, data: Observations) -> Doubt:
    """Test the equation itself: whether its residuals have an order along the axes, at all coefficients.

    At each value of a grid and at the least-squares one the signs of the residuals are tested along each
    axis: are they as often positive as negative, and do they change as often as in random order? There is an
    alarm where all values are rejected at 1 %, with Bonferroni over axes, outputs and the two tests. For
    noise that is independent with the median zero, a right equation with its truth in the range alarms in at
    most 1 % of data sets, but for what lies between the values of the grid.

    >>> import guardband as gb
    >>> front = gb.problems.ReactionDiffusion1D(diffusion=0.05, growth=2.0)
    >>> solved = gb.Family(type(front), diffusion=(0.01, 0.1), growth=2.0).exact()
    >>> gb.inverse.doubt(solved, front.observe(100, noise=0.05))
    The residuals along the axes do not speak against the equation (p = 1).
    """
    design, y = readings(solved, data)
    p_value = float(p_values(design, y[None])[0])
    return Doubt(p_value <= FALSE_ALARMS, p_value)


def p_values(design: Design, y: np.ndarray) -> np.ndarray:
    """The largest p-value over all values of the coefficients, (k,), for readings y (k, N)."""
    fine = _grid(design)
    values, orders = design.values(fine), _orders(design)
    found = []
    for one in y:
        best = design.values(least_squares(design, one)[0][None])
        signs = one - np.concatenate([values, best]) > 0
        found.append(float(_p(signs.reshape(len(signs), design.n, design.m), orders).max()))
    return np.array(found)


def _grid(design: Design) -> np.ndarray:
    axes = [np.linspace(a, b, FINE[design.p]) for a, b in zip(design.lower, design.upper, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def _orders(design: Design) -> list[np.ndarray]:
    """The readings in order along each axis."""
    x = to_numpy(design.x)
    return [np.argsort(x[:, j], kind="stable") for j in range(x.shape[1])]


def _p(positive: np.ndarray, orders: list[np.ndarray]) -> np.ndarray:
    """The p-value of signs (k, n, m), (k,): the smallest of all tests, times how many there are."""
    n, m = positive.shape[1:]
    tests = m * (len(orders) + 1)
    signs = _binomial(positive.sum(axis=1), n).min(axis=1)
    smallest = signs
    for order in orders:
        changes = (np.diff(positive[:, order], axis=1) != 0).sum(axis=1)
        smallest = np.minimum(smallest, _few(changes, n - 1).min(axis=1))
    return np.minimum(1.0, smallest * tests)


def _binomial(count: np.ndarray, n: int) -> np.ndarray:
    """Two-sided: as many positive signs among n, or farther from half."""
    from scipy.stats import binom

    return np.minimum(1.0, 2 * binom.cdf(np.minimum(count, n - count), n, 0.5))


def _few(count: np.ndarray, n: int) -> np.ndarray:
    """One-sided: so few changes of sign among n neighbors, each being one with probability a half."""
    from scipy.stats import binom

    return binom.cdf(count, n, 0.5)
