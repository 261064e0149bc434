"""Chances: cautious bounds on how often things happen, from how often they were seen."""

from __future__ import annotations

import numpy as np


def agreement(times: np.ndarray, *, apart: bool = False) -> float:
    """The probability that readings agree, at most, from how many times too far apart pairs of them are.

    Differences are about evenly spread near zero. Where pairs that agree were left out (`apart`) and the
    rest lie hardly farther apart, digits are as coarse as noise, and nearly all may agree.
    """
    from scipy.special import betaincinv

    agree, n = int((times <= 1).sum()), len(times)
    if agree:
        return 1.0 if agree == n else float(betaincinv(agree + 1, n - agree, 0.95))
    count = -(-3 * n // 10)
    reach = float(np.partition(times, count - 1)[count - 1])
    if reach < 3 and apart:
        return 0.95
    share = float(betaincinv(count + 1, n - count, 0.95))
    return min(0.95, share * min(1.0, 1.2 / (reach - 1)))


def at_most(seen: int, of: int) -> float:
    """A bound on the share of which so many were seen; they come in pairs, so half of them count."""
    from scipy.special import betaincinv

    return 1.0 if seen >= of else float(betaincinv(seen / 2 + 1, (of - seen) / 2, 0.99))


def tail(close: np.ndarray, among: np.ndarray, chance: float) -> float:
    """The probability that so many or more are close among these, each by this chance."""
    from scipy.special import bdtrc

    count, n = int(close.sum()), int(among.sum())
    return float(bdtrc(count - 1, n, min(1.0, chance))) if count else 1.0
