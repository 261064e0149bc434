"""Suspicions: new rows that agree with known ones, unless chance explains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from guardband.leaks.chances import at_most, tail
from guardband.leaks.digits import DIGITS, Rounding
from guardband.leaks.ruler import Ruler
from guardband.leaks.tables import Compared
from guardband.leaks.units import HAIR, Units, in_roundings, in_spreads, in_steps

WARN, REFUSE = 5e-3, 1e-6
"""Chances that honest rows look so much like known ones, below which there is a warning, or a refusal."""

NEAR = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3)
"""How near is near, in spreads of each column: all these are tried."""

FEW = 3
"""Fewer rows than this that are near, but not the same, are no reason to refuse."""

Verdict = Literal["refuse", "warn", "fine"]


@dataclass(frozen=True, eq=False)
class Suspicion:
    """Rows that agree with known ones, how often so many do by chance, and how many more they are."""

    copied: np.ndarray
    chance: float
    sure: bool = False
    more: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """What to do about them."""
        if self.chance > WARN:
            return "fine"
        return "refuse" if self.sure and self.chance <= REFUSE else "warn"

    @property
    def weight(self) -> tuple[int, float]:
        """What makes one suspicion graver than another."""
        return ("fine", "warn", "refuse").index(self.verdict), -self.chance


def equal(compared: Compared) -> Suspicion:
    """Rows that are equal to known ones: copies, unless known rows repeat themselves as often."""
    if not compared.same.any():
        return Suspicion(compared.same, 1.0)
    close, at_known = compared.same & compared.telling, compared.same_x & compared.telling
    if not close.any():
        return Suspicion(close, 1.0)
    steps = in_steps(compared)
    repeated = (compared.repeated, len(compared.known_x))
    chance = at_most(*repeated) if compared.repeated else 0.0
    if len(compared.known_x) > FEW:
        coarse = compared.continuous == 0
        ruler = Ruler(compared, steps if coarse else in_spreads(compared))
        chance = max(chance, min(ruler.by_chance(0.5 if coarse else ruler.last_bit), at_most(*repeated)))
    drawn = tail(close, compared.telling, chance)
    again, sure = 0.0, True
    if (compared.steps_y != 0).all():
        ruler = Ruler(compared, (Units.of(np.ones(compared.x.shape[1])), steps[1]))
        again, sure = ruler.agree_again(0.5, at_known, close, compared.place, certain=True)
    found = max(drawn, tail(close, at_known, again))
    if found > WARN and close.sum() >= FEW and compared.stepless:
        # Readings without steps do not repeat by chance: rows were copied before they were split.
        return Suspicion(close, WARN)
    if close.all() and close.sum() >= FEW and drawn <= REFUSE < found:  # all known, and y does not tell why
        return Suspicion(close, min(found, WARN))
    return Suspicion(close, found, sure)


def nearly(compared: Compared) -> Iterator[Suspicion]:
    """Rows that are not equal to known ones but near, for all that may have moved them."""
    if len(compared.known_x) <= FEW or compared.same.all():
        return
    by_spread = Ruler(compared, in_spreads(compared))
    for near in NEAR if (by_spread.nearest <= NEAR[-1]).any() else ():
        among = ~compared.same if near <= HAIR else ~compared.same_x
        yield _near(by_spread, near, among, certain=near <= HAIR)
    for rounding, among in _roundings(compared):
        ruler = Ruler(compared, in_roundings(compared, rounding), rounding)
        yield _near(ruler, 1 + 1e-6, among, certain=False)


def _near(ruler: Ruler, near: float, among: np.ndarray, *, certain: bool) -> Suspicion:
    """Rows so near to known ones in x and y, unless they lie there, or agree there, by chance."""
    close = (ruler.nearest <= near) & among
    if not close.any():
        return Suspicion(close, 1.0)
    chance = ruler.by_chance(near)
    drawn = tail(close, among, chance)
    if drawn > WARN:
        return Suspicion(close, drawn)
    distance, place = ruler.places
    at_known = (distance <= near) & among
    mostly_at = 2 * (close & ruler.compared.same_x).sum() > close.sum()
    certain_then = certain or (ruler.rounding is not None and not mostly_at)
    again, sure = ruler.agree_again(near, at_known, close, place, certain=certain_then)
    if mostly_at and not certain and 2 * close.sum() < at_known.sum():
        sure = False
    found = max(drawn, tail(close, at_known, again))
    more = float(close.sum() - chance * among.sum())
    return Suspicion(close, found, sure and bool(close.sum() >= FEW), more)


def _roundings(compared: Compared) -> Iterator[tuple[Rounding, np.ndarray]]:
    """How new rows may have been rounded, where known rows are not, and which rows have so few digits."""
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
    """Which new rows are written with no more digits than rounding leaves, and are not known as they are."""
    in_x, in_y = compared.precision
    return rounding.has(compared.x, in_x) & rounding.has(compared.y, in_y) & ~compared.same


def _share(compared: Compared, rounding: Rounding) -> float:
    """The share of known rows that are written so."""
    in_x, in_y = compared.precision
    x, y = compared.known_x[compared.sample], compared.known_y[compared.sample]
    return float((rounding.has(x, in_x) & rounding.has(y, in_y)).mean())
