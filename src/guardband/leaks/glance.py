"""The first look: most small tables are seen at once to have nothing in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from guardband.base.arrays import flat
from guardband.leaks.digits import DIGITS, Rounding
from guardband.leaks.suspicions import FEW, NEAR

QUICK = 50_000
"""Numbers that are compared with each other at once, where tables are small."""


def far(known: Sequence[np.ndarray], new: Sequence[np.ndarray], precision: tuple[float, float]) -> bool:
    """Whether small tables are seen at once to have nothing in common: no place, no near row, no rounded one.

    Most have not. A column's spread is less than 2.2 of its standard deviations, whatever it holds.
    """
    columns = [
        (old, fresh, eps)
        for a, b, eps in zip(known, new, precision, strict=True)
        for old, fresh in zip(flat(a).astype(float).T, flat(b).astype(float).T, strict=True)
    ]
    if len(known[0]) * len(new[0]) * len(columns) > QUICK:
        return False
    near = there = np.ones((len(new[0]), len(known[0])), bool)
    for number, (old, fresh, eps) in enumerate(columns):
        with np.errstate(over="ignore", invalid="ignore"):
            spread, apart = old.std(), np.abs(fresh[:, None] - old)
        dust = 4 * eps * np.abs(old).max()
        if not dust < 1e-4 * spread < math.inf:  # hardly more than one number, or beyond all measure
            return False
        near = near & (apart <= 2.2 * NEAR[-1] * spread)
        if number < math.prod(known[0].shape[1:]):
            there = there & (apart <= dust)
    return not (near.any() or there.any() or any(_rounded(new, precision, kind) for kind in (True, False)))


def _rounded(new: Sequence[np.ndarray], precision: tuple[float, float], significant: bool) -> bool:
    """Whether more than a few rows are written with few digits."""
    rounding, (x, y) = Rounding(DIGITS[-1], significant), map(flat, new)
    short = rounding.has(y, precision[1])
    return bool(short.sum() >= FEW and rounding.has(x[short], precision[0]).sum() >= FEW)
