"""New rows that agree with known rows more often than chance explains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from guardband.base.arrays import flat
from guardband.leaks.digits import DIGITS, Rounding
from guardband.leaks.distances import Distances, binomial_tail, share_bound
from guardband.leaks.tables import Compared
from guardband.leaks.units import HAIR, Units, in_roundings, in_spreads, in_steps

WARN, REFUSE = 5e-3, 1e-6
"""The probabilities of agreement by chance below which rows cause a warning or are refused."""

NEAR = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3)
"""The distances that are tried, in units of the spread of each column."""

FEW = 3
"""The minimum number of near rows for a refusal."""

QUICK = 50_000
"""The maximum number of differences for the direct comparison of small tables."""

Verdict = Literal["refuse", "warn", "fine"]


@dataclass(frozen=True, eq=False)
class Suspicion:
    """Rows that agree with known rows, the probability of this by chance, and the excess over chance."""

    copied: np.ndarray
    chance: float
    sure: bool = False
    more: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """Whether to refuse these rows, to warn, or neither."""
        if self.chance > WARN:
            return "fine"
        return "refuse" if self.sure and self.chance <= REFUSE else "warn"

    @property
    def weight(self) -> tuple[int, float]:
        """The sort key by severity."""
        return ("fine", "warn", "refuse").index(self.verdict), -self.chance


def equal(compared: Compared) -> Suspicion:
    """Rows that equal known rows: copies, unless known rows are repeated as often."""
    if not compared.same.any():
        return Suspicion(compared.same, 1.0)
    close, at_known = compared.same & compared.informative, compared.same_x & compared.informative
    if not close.any():
        return Suspicion(close, 1.0)
    steps = in_steps(compared)
    repeated = (compared.repeated, len(compared.known_x))
    chance = share_bound(*repeated) if compared.repeated else 0.0
    if len(compared.known_x) > FEW:
        coarse = compared.continuous == 0
        metric = Distances(compared, steps if coarse else in_spreads(compared))
        chance = max(
            chance, min(metric.by_chance(0.5 if coarse else metric.last_bit), share_bound(*repeated))
        )
    drawn = binomial_tail(close, compared.informative, chance)
    again, sure = 0.0, True
    if (compared.steps_y != 0).all():
        metric = Distances(compared, (Units.of(np.ones(compared.x.shape[1])), steps[1]))
        again, sure = metric.agree_again(0.5, at_known, close, compared.place, certain=True)
    found = max(drawn, binomial_tail(close, at_known, again))
    if found > WARN and close.sum() >= FEW and compared.stepless:
        # Continuous readings do not repeat by chance: rows were copied before the split.
        return Suspicion(close, WARN)
    if close.all() and close.sum() >= FEW and drawn <= REFUSE < found:  # y is too coarse for a decision
        return Suspicion(close, min(found, WARN))
    return Suspicion(close, found, sure)


def nearly(compared: Compared) -> Iterator[Suspicion]:
    """Rows that are near known rows but not equal, for each kind of perturbation and rounding."""
    if len(compared.known_x) <= FEW or compared.same.all():
        return
    by_spread = Distances(compared, in_spreads(compared))
    for near in NEAR if (by_spread.nearest <= NEAR[-1]).any() else ():
        among = ~compared.same if near <= HAIR else ~compared.same_x
        yield _near(by_spread, near, among, certain=near <= HAIR)
    for rounding, among in _roundings(compared):
        metric = Distances(compared, in_roundings(compared, rounding), rounding)
        yield _near(metric, 1 + 1e-6, among, certain=False)


def _near(metric: Distances, near: float, among: np.ndarray, *, certain: bool) -> Suspicion:
    """Rows this near to known rows in x and y, and the probability of this by chance."""
    close = (metric.nearest <= near) & among
    if not close.any():
        return Suspicion(close, 1.0)
    chance = metric.by_chance(near)
    drawn = binomial_tail(close, among, chance)
    if drawn > WARN:
        return Suspicion(close, drawn)
    distance, place = metric.places
    at_known = (distance <= near) & among
    mostly_at = 2 * (close & metric.compared.same_x).sum() > close.sum()
    certain_then = certain or (metric.rounding is not None and not mostly_at)
    again, sure = metric.agree_again(near, at_known, close, place, certain=certain_then)
    if mostly_at and not certain and 2 * close.sum() < at_known.sum():
        sure = False
    found = max(drawn, binomial_tail(close, at_known, again))
    more = float(close.sum() - chance * among.sum())
    return Suspicion(close, found, sure and bool(close.sum() >= FEW), more)


def _roundings(compared: Compared) -> Iterator[tuple[Rounding, np.ndarray]]:
    """The roundings that new rows, but not known rows, may have undergone, and the rows with few digits."""
    for significant in (True, False):
        before = 0
        if _digits(compared, Rounding(DIGITS[-1], significant)).sum() < FEW:
            continue
        for digits in DIGITS:
            rounding = Rounding(digits, significant)
            among = _digits(compared, rounding)
            count = int(among.sum())
            if count >= FEW and count > 1.1 * before and 2 * _share(compared, rounding) < 1:
                yield rounding, among
            before = count


def _digits(compared: Compared, rounding: Rounding) -> np.ndarray:
    """The new rows with no more digits than rounding leaves, except those that equal known rows."""
    in_x, in_y = compared.precision
    return rounding.has(compared.x, in_x) & rounding.has(compared.y, in_y) & ~compared.same


def _share(compared: Compared, rounding: Rounding) -> float:
    """The fraction of known rows with no more digits than rounding leaves."""
    in_x, in_y = compared.precision
    x, y = compared.known_x[compared.sample], compared.known_y[compared.sample]
    return float((rounding.has(x, in_x) & rounding.has(y, in_y)).mean())


def nothing_in_common(
    known: Sequence[np.ndarray], new: Sequence[np.ndarray], precision: tuple[float, float]
) -> bool:
    """Whether small tables have no equal inputs, near rows or rounded rows, by a fast direct comparison.

    This holds for most tables. The spread of a column (half its range) is less than 2.2 standard deviations.
    """
    columns = [
        (old, fresh, eps)
        for a, b, eps in zip(known, new, precision, strict=True)
        for old, fresh in zip(flat(a).astype(float).T, flat(b).astype(float).T, strict=True)
    ]
    if len(known[0]) * len(new[0]) * len(columns) > QUICK:
        return False
    near = same_place = np.ones((len(new[0]), len(known[0])), bool)
    for number, (old, fresh, eps) in enumerate(columns):
        with np.errstate(over="ignore", invalid="ignore"):
            spread, apart = old.std(), np.abs(fresh[:, None] - old)
        dust = 4 * eps * np.abs(old).max()
        if not dust < 1e-4 * spread < math.inf:  # nearly constant, or an overflow
            return False
        near = near & (apart <= 2.2 * NEAR[-1] * spread)
        if number < math.prod(known[0].shape[1:]):
            same_place = same_place & (apart <= dust)
    rounded = any(_rounded(new, precision, significant) for significant in (True, False))
    return not (near.any() or same_place.any() or rounded)


def _rounded(new: Sequence[np.ndarray], precision: tuple[float, float], significant: bool) -> bool:
    """Whether more than a few rows have few digits."""
    rounding, (x, y) = Rounding(DIGITS[-1], significant), map(flat, new)
    short = rounding.has(y, precision[1])
    return bool(short.sum() >= FEW and rounding.has(x[short], precision[0]).sum() >= FEW)
