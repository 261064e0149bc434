"""Exact ranks: which of the sorted calibration scores bounds a new score.

For n exchangeable scores, a new score is at most the k-th smallest with probability at least `level` if k =
ceil((n + 1) level). If k > n there is no such score and the bound is infinite. Floating-point arithmetic can
give the wrong k (it gives ceil((19 + 1) * (1 - 0.95)) = 2), so a level is the decimal number that the user
wrote, stored as a fraction.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from guardband.base.arrays import Array, ArrayLike, is_tensor, namespace, to_numpy
from guardband.base.limits import DIGITS, shown

Level: TypeAlias = float | str | Decimal | Fraction
"""A level strictly between 0 and 1, interpreted as the decimal number that was written."""


class InfiniteBandWarning(UserWarning):
    """The calibration set is too small for the requested level, so the band is infinite.

    Examples
    --------
    >>> import warnings
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 5, [1, 2, 3, 4, 5])  # 95 % needs 19
    >>> with warnings.catch_warnings(
    ...     action="ignore", category=gb.conformal.InfiniteBandWarning
    ... ):
    ...     band = calibrated.band(gb.Prediction(None, [0.0]), level=0.95)
    >>> float(band.upper[0, 0])
    inf
    """


def exact(level: Level, name: str = "level") -> Fraction:
    """The decimal number that the user wrote, as a fraction strictly between 0 and 1.

    Strings, decimals and fractions are exact. A float is interpreted as the decimal number of at most 12
    digits that has its value. If no such number exists, it is a simple fraction such as 2/3 that agrees to
    the last bit, and otherwise the nearest decimal number of 12 digits. A scalar of lower precision is
    interpreted as its shortest decimal number, or as such a fraction.

    Examples
    --------
    >>> import numpy as np
    >>> (
    ...     exact(0.95),
    ...     exact("0.95"),
    ...     exact(np.float32(0.95)),
    ...     exact((np.arange(1, 20) * 0.05)[18]),
    ... )
    (Fraction(19, 20), Fraction(19, 20), Fraction(19, 20), Fraction(19, 20))
    >>> exact(2 / 3), exact(np.float32(6 / 7))
    (Fraction(2, 3), Fraction(6, 7))
    """
    if type(level) in (float, str):
        return _exact(level, name)
    return _exact.__wrapped__(level, name)


@lru_cache(maxsize=1024)
def _exact(level: Level, name: str) -> Fraction:
    """`exact` with a cache for floats and strings, since a sweep requests the same levels repeatedly."""
    value = _fraction(level, name)
    if not 0 < value < 1:
        hint = f" Did you mean {float(value / 100):g}?" if 1 < value < 100 else ""
        raise ValueError(f"`{name}` should lie strictly between 0 and 1, got {level}.{hint}")
    return value


def half_miscoverage(level: Level) -> Fraction:
    """The level with half of the miscoverage, (1 + level) / 2, for two bounds that must hold together.

    Examples
    --------
    >>> half_miscoverage(0.9)
    Fraction(19, 20)
    """
    return (1 + exact(level)) / 2


def rank(n: int, level: Level) -> int:
    """Return k = ceil((n + 1) level), the rank of the threshold among n sorted scores.

    Parameters
    ----------
    n
        Number of calibration scores.
    level
        Requested coverage, strictly between 0 and 1.

    Returns
    -------
    int
        The rank, counted from 1; n + 1 represents an infinite threshold.

    Examples
    --------
    >>> from guardband.conformal import rank
    >>> rank(100, 0.95), rank(19, 0.95), rank(18, 0.95)
    (96, 19, 19)
    """
    return math.ceil((n + 1) * exact(level))


def confident_rank(n: int, level: Level, confidence: Level) -> int:
    """Return the smallest k with P(Beta(k, n+1-k) < level) <= 1 - confidence.

    The k-th smallest score then covers at least `level` of all new points with probability `confidence` over
    calibration sets (training-conditional or PAC coverage), not only on average over calibration sets.

    Parameters
    ----------
    n
        Number of calibration scores.
    level
        Requested coverage, strictly between 0 and 1.
    confidence
        Probability over calibration sets, strictly between 0 and 1.

    Returns
    -------
    int
        The rank, counted from 1; n + 1 if no rank satisfies the condition.

    Notes
    -----
    P(Beta(k, n+1-k) < level) = P(Binomial(n, level) >= k), a binomial tail. Reference: Vovk (2012).

    Examples
    --------
    >>> from guardband.conformal import confident_rank
    >>> confident_rank(100, 0.95, 0.9)
    99
    """
    level, delta = exact(level), 1 - exact(confidence, "confidence")
    low, high = 0, n + 1  # the tail exceeds delta at `low` but not at `high`
    while high - low > 1:
        middle = (low + high) // 2
        if _binomial_tail_at_most(n, middle, level, delta):
            high = middle
        else:
            low = middle
    return high


def points_needed(level: Level, confidence: Level | None = None) -> int:
    """Return the number of calibration points that a finite band needs: 9 at 90 %, 19 at 95 %, 99 at 99 %.

    Parameters
    ----------
    level
        Requested coverage, strictly between 0 and 1.
    confidence
        Probability over calibration sets. With a confidence, the result is the smallest n with
        level^n <= 1 - confidence.

    Returns
    -------
    int
        The number of points.

    Examples
    --------
    >>> import guardband as gb
    >>> (
    ...     gb.conformal.points_needed(0.9),
    ...     gb.conformal.points_needed(0.95),
    ...     gb.conformal.points_needed(0.99),
    ...     gb.conformal.points_needed(0.95, 0.9),
    ... )
    (9, 19, 99, 45)
    """
    level = exact(level)
    if confidence is None:
        return math.ceil(level / (1 - level))
    if float(level) == 1:
        raise ValueError(f"`level` should be farther from 1 if a confidence is given, got {level}.")
    delta = 1 - exact(confidence, "confidence")
    n = max(1, math.floor(math.log(delta) / math.log(level)) - 1)
    while not _binomial_tail_at_most(n, n, level, delta):
        n += 1
    return n


def quantile(scores: ArrayLike, level: Level, *, confidence: Level | None = None) -> float:
    """Return the exact conformal quantile of n scores: the k-th smallest, or infinity if k > n.

    Parameters
    ----------
    scores
        Calibration scores, shape (n,).
    level
        Requested coverage, strictly between 0 and 1.
    confidence
        Probability over calibration sets with which the coverage is guaranteed; None for a guarantee on
        average.

    Returns
    -------
    float
        The threshold.

    Examples
    --------
    >>> from guardband.conformal import quantile
    >>> quantile([3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0, 6.0], 0.9)
    9.0
    """
    ascending = np.sort(checked_scores(scores))
    return kth(ascending, rank_for(len(ascending), level, confidence))


def checked_scores(scores: ArrayLike) -> np.ndarray:
    """Scores (n,) as float64, validated: one number per point, possibly infinite, never NaN."""
    scores = np.asarray(to_numpy(scores), dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(
            f"`scores` should be one number per point, got shape {scores.shape}. Several outputs share one "
            "score per point, their maximum; a threshold for each output (joint=False) requires Split()."
        )
    wrong = np.isnan(scores)
    if wrong.any():
        raise ValueError(f"`scores` should be numbers, but row {int(wrong.argmax())} is NaN.")
    return scores


def rank_for(n: int, level: Level, confidence: Level | None) -> int:
    """`rank`, or `confident_rank` if a confidence is given, with a cache for floats and strings."""
    if type(level) in (float, str):
        return _rank_for(n, level, confidence)
    return _rank_for.__wrapped__(n, level, confidence)


@lru_cache(maxsize=1024)
def _rank_for(n: int, level: Level, confidence: Level | None) -> int:
    return rank(n, level) if confidence is None else confident_rank(n, level, confidence)


def kth(ascending: np.ndarray, k: int) -> float:
    """The k-th smallest of sorted scores (k counts from 1), infinite if k exceeds their number."""
    return float(ascending[k - 1]) if k <= len(ascending) else math.inf


INFINITE_SCORES = (
    "too many calibration scores are infinite: the scale is 0 at points with nonzero error. "
    "Use a scale that is positive everywhere, such as score=Total(noise=...)."
)


_SUPPRESSED: ContextVar[bool] = ContextVar("_SUPPRESSED", default=False)


@contextmanager
def allow_infinite() -> Iterator[None]:
    """Suppress warnings about infinite bands in this block and thread; warning filters are global."""
    before = _SUPPRESSED.set(True)
    try:
        yield
    finally:
        _SUPPRESSED.reset(before)


def warn_infinite(reason: str) -> None:
    """Warn at the caller's line that a band is infinite, with the reason and the remedy."""
    if _SUPPRESSED.get():
        return
    frame, depth = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("guardband"):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"The band is infinite: {reason}", InfiniteBandWarning, stacklevel=depth)


SIMPLE = 1000
"""The largest denominator of a fraction that a float may represent."""


def _fraction(level: ArrayLike, name: str) -> Fraction:
    if is_tensor(level) and level.ndim == 0 and level.dtype == namespace(level).bfloat16:
        return _of_bfloat16(level)
    if (is_tensor(level) or isinstance(level, np.ndarray)) and level.ndim == 0:
        level = to_numpy(level)[()]
    if isinstance(level, bool | np.bool_):
        raise TypeError(f"`{name}` should be a number between 0 and 1, got {level}.")
    try:
        if isinstance(level, str | Decimal | Fraction):
            return parse_exact(level)
        if isinstance(level, np.floating) and level.itemsize < 8:
            decimals = str(level).partition(".")[2].rstrip("0")
            short = len(decimals) < np.finfo(level.dtype).precision
            return (None if short else _simple(level)) or Fraction(str(level))
        if isinstance(level, float | int | np.floating | np.integer):
            value = float(level)
            decimal = f"{value:.12g}"
            simple = None if float(decimal) == value else _simple(np.float64(value))
            return simple or Fraction(decimal)
    except (ValueError, OverflowError, ArithmeticError) as error:
        text = f"`{name}` should be a number strictly between 0 and 1, got {shown(level)}."
        raise ValueError(text) from error
    raise TypeError(f"`{name}` should be one number between 0 and 1, got {type(level).__name__}.")


def parse_exact(number: str | Decimal | Fraction) -> Fraction:
    """The exact value of a decimal number or a quotient such as 2/3, with a limited number of digits.

    Examples
    --------
    >>> parse_exact("0.95"), parse_exact("2/3")
    (Fraction(19, 20), Fraction(2, 3))
    """
    if isinstance(number, str):
        if len(number) > 2 * DIGITS + 2:
            raise ValueError("A level has too many digits.")
        number = Fraction(number) if "/" in number else Decimal(number)
    if isinstance(number, Decimal):
        _, digits, exponent = number.as_tuple()
        if not isinstance(exponent, int) or len(digits) > DIGITS or abs(exponent) > DIGITS:
            raise ValueError("A level has too many digits.")
    number = Fraction(number)
    if max(abs(number.numerator), number.denominator) >= 10 ** (2 * DIGITS):
        raise ValueError("A level has too many digits.")
    return number


def _simple(value: np.floating) -> Fraction | None:
    """A fraction with a small denominator within one ulp, or None."""
    digits = np.finfo(value.dtype).precision
    most = min(SIMPLE, round(10 ** (digits / 2)))  # a larger bound would match every number
    near = Fraction(float(value)).limit_denominator(most)
    return near if abs(near - Fraction(float(value))) <= Fraction(float(np.spacing(value))) else None


def _of_bfloat16(level: Array) -> Fraction:
    """The shortest decimal number with this value in bfloat16, assumed to be the number that was written."""
    for digits in (1, 2, 3, 4):
        decimal = f"{float(level):.{digits}g}"
        if level.new_tensor(float(decimal)) == level:
            return Fraction(decimal)
    return Fraction(float(level))


def _binomial_tail_at_most(n: int, k: int, p: Fraction, bound: Fraction) -> bool:
    """Whether P(Binomial(n, p) >= k) <= bound, exactly, even if the two sides are nearly equal."""
    from scipy.special import betainc

    tail = float(betainc(k, n - k + 1, float(p)))
    if abs(tail - bound) > 1e-9 * bound:
        return tail < bound
    if n > 20_000:  # an exact sum would take minutes, and the larger rank is safe
        return False
    a, b = p.numerator, p.denominator
    # With p = a / b, in integers: sum over j >= k of C(n, j) a^j (b - a)^(n - j) <= bound b^n.
    term, total = math.comb(n, k) * a**k * (b - a) ** (n - k), 0
    for j in range(k, n + 1):
        total += term
        term = term * (n - j) * a // ((j + 1) * (b - a)) if j < n else 0
    return total <= bound * b**n
