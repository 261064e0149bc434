"""Exact order statistics of scores in many files, by counting.

Floats are ordered like the integers derived from their bits. The k-th smallest of any number of scores is
therefore found by counting scores with the same leading bits: the first pass counts by the leading sixteen
bits, and each further pass refines the prefixes that contain a required rank. Shards are counted
independently, on any machine, and only counters are transferred.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from guardband.base import files
from guardband.base.arrays import ArrayLike, finite, rows, to_numpy
from guardband.base.limits import STORED
from guardband.conformal.base import Pieces, Size, Threshold, no_groups
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.predict import predict
from guardband.conformal.rank import Level, exact, points_needed, rank, warn_infinite
from guardband.conformal.score_calibrated import ScoreCalibrated
from guardband.conformal.scores import Scaled, Score
from guardband.conformal.split import Split
from guardband.values import Prediction, Predictor
from guardband.values.labeled import opened

T = TypeVar("T")

Shard: TypeAlias = np.ndarray | str | os.PathLike[str] | Callable[[], Iterable[np.ndarray]]
"""Scores: an array, an `.npy` file, or a function that yields arrays."""


class Run(Protocol):
    """A function that maps a function over all shards, such as `map` or the map of a cluster."""

    def __call__(self, function: Callable[[Shard], T], shards: Sequence[Shard], /) -> Iterable[T]:
        """Return the value of the function for each shard, in order."""
        ...


SCORES_AT_ONCE = 2**18
"""Number of scores processed together; they fit in the cache."""

DIGIT = 16
"""Number of bits counted in a pass."""


def order_statistics(shards: Sequence[Shard], ranks: Sequence[int], *, run: Run = map) -> np.ndarray:
    """Return the k-th smallest of all scores for each rank k, exactly.

    The function makes two passes over float32 scores and four over float64 scores. A pass uses 512 KiB of
    counters per shard and distinct prefix.

    Parameters
    ----------
    shards
        The scores: arrays, `.npy` files or functions that yield arrays.
    ranks
        The ranks k, counted from 1.
    run
        How a function is mapped over the shards: `map`, or the map of a cluster.

    Returns
    -------
    np.ndarray
        The order statistics, infinite for ranks beyond the number of scores.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.conformal.order_statistics([np.array([3.0, 1.0]), np.array([2.0])], [1, 3, 4])
    array([ 1.,  3., inf])
    """
    if not ranks:
        return np.empty(0)
    if min(ranks) < 1:
        raise ValueError(f"Ranks are counted from 1, got {min(ranks)}.")
    dtype = np.dtype(np.float32 if set(run(_kind, shards)) == {"float32"} else np.float64)
    open_ranks, values, first = {k: (0, k) for k in ranks}, dict.fromkeys(ranks, math.inf), True
    for shift in range(8 * dtype.itemsize - DIGIT, -1, -DIGIT):
        prefixes = np.unique(np.array([prefix for prefix, _ in open_ranks.values()], dtype=np.uint64))
        counts = _total(run(partial(_count, dtype=dtype, prefixes=prefixes, shift=shift), shards), prefixes)
        if first:
            first, n = False, int(counts.sum())
            open_ranks = {k: state for k, state in open_ranks.items() if k <= n}
        if not open_ranks:
            break
        cumulative = np.cumsum(counts, axis=1)
        for k, (prefix, rest) in open_ranks.items():
            row = cumulative[np.searchsorted(prefixes, np.uint64(prefix))]
            digit = int(np.searchsorted(row, rest))
            open_ranks[k] = (prefix << DIGIT | digit, rest - (int(row[digit - 1]) if digit else 0))
    for k, (key, _) in open_ranks.items():
        values[k] = _value(key, dtype)
    return np.array([values[k] for k in ranks])


def count_scores(shards: Sequence[Shard], *, run: Run = map) -> int:
    """The total number of scores."""
    return sum(run(_length, shards))


def calibrate_shards(
    predictor: Predictor,
    shards: Sequence[Shard],
    levels: Sequence[Level],
    *,
    x: ArrayLike,
    score: Score | None = None,
    run: Run = map,
) -> ScoreCalibrated:
    """Calibrate from scores in many files, for levels that are fixed in advance.

    The result is valid for these levels only, at which it equals `Split()`.

    Parameters
    ----------
    predictor
        The predictor.
    shards
        Scores at calibration points that the predictor has not seen, one per point: arrays, `.npy` files or
        functions that yield arrays.
    levels
        Levels at which bands will be requested.
    x
        A few points, shape (n, d), at which the predictor is evaluated once for the shape of its output.
    score
        The score that the shards contain; by default `Scaled()`.
    run
        How a function is mapped over the shards: `map`, or the map of a cluster.

    Returns
    -------
    ScoreCalibrated
        The calibrated band.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> shards = [np.arange(50.0), np.arange(50.0, 99.0)]
    >>> calibrated = gb.conformal.calibrate_shards(
    ...     gb.predictors.MeanOnly(np.sin), shards, [0.9], x=[0.5]
    ... )
    >>> float(calibrated([0.0], 0.9).upper.round(6).item())
    89.0
    """
    n = count_scores(shards, run=run)
    if n == 0:
        raise ValueError("`shards` should hold at least one score, got none.")
    ranks = {exact(level): rank(n, level) for level in levels}
    thresholds = order_statistics(shards, list(ranks.values()), run=run)
    threshold = ShardThreshold(n, dict(zip(ranks, thresholds.tolist(), strict=True)))
    values, axes = opened([x] if np.isscalar(x) else x, "x")
    points = to_numpy(finite(rows(values, "x"), "x"))
    prediction = predict(predictor, points)
    if prediction.x is None:
        prediction = replace(prediction, x=points)
    empty = prediction.take(slice(0))  # no points, but the right numbers of coordinates and outputs
    return ScoreCalibrated(
        predictor,
        score or Scaled(),
        Split(),
        Split(),
        threshold,
        empty,
        prediction.mean[:0],
        axes={} if axes is None else {"x": axes},
    )


@dataclass(frozen=True, eq=False)
class ShardThreshold(Threshold):
    """The exact thresholds of n scores at the levels fixed in advance."""

    n: int
    thresholds: dict[Fraction, float]

    def count(self) -> int:
        """Return the number of scores, which remain in the shards."""
        return self.n

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """Return the k-th smallest score, for a level fixed in advance."""
        no_groups(groups, "calibrate_shards", "it treats all points in the same way.")
        if exact(level) not in self.thresholds:
            known = ", ".join(f"{float(level):g}" for level in self.thresholds)
            raise ValueError(
                f"`level` should be one of the `levels` of this calibration, {known}, got "
                f"{float(exact(level)):g}. Calibrate again with this level in `levels`."
            )
        q = self.thresholds[exact(level)]
        if math.isinf(q):
            need = points_needed(level)
            warn_infinite(
                f"level {float(exact(level)):g} needs {need} scores, but there are {self.n}."
                if self.n < need
                else "too many scores are infinite."
            )
        return q

    def size(self, level: Level) -> Size:
        """Return the number of scores."""
        return Size(self.n, points_needed(level))

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """Return one piece: BetaBinomial(m, k, n+1-k)."""
        return [(CoverageLaw(rank(self.n, level), self.n), m)]


def _total(parts: Iterable[np.ndarray], prefixes: np.ndarray) -> np.ndarray:
    counts = np.zeros((len(prefixes), 2**DIGIT), dtype=np.int64)
    for part in parts:
        counts += part
    return counts


def _count(shard: Shard, dtype: np.dtype, prefixes: np.ndarray, shift: int) -> np.ndarray:
    """The number of scores that continue each prefix by each digit, (prefixes, 65536)."""
    counts = np.zeros((len(prefixes), 2**DIGIT), dtype=np.int64)
    first = shift == 8 * dtype.itemsize - DIGIT
    leading = np.dtype(f"u{dtype.itemsize}").type(8 * dtype.itemsize - DIGIT)
    wanted = np.zeros(2**DIGIT, dtype=bool)
    if not first:
        wanted[(prefixes >> np.uint64(8 * dtype.itemsize - 2 * DIGIT - shift)).astype(np.intp)] = True
    for chunk in _chunks(shard):
        keys = _keys(chunk, dtype, checked=not first)
        if first:
            counts[0] += np.bincount((keys >> keys.dtype.type(shift)).astype(np.intp), minlength=2**DIGIT)
            continue
        # Selecting by the leading bits first leaves few scores in every pass.
        chosen = np.flatnonzero(wanted[(keys >> leading).astype(np.intp)])
        keys = keys[chosen]
        prefix = keys >> keys.dtype.type(shift + DIGIT)
        place = np.minimum(np.searchsorted(prefixes, prefix), len(prefixes) - 1)
        mine = np.flatnonzero(prefixes[place] == prefix)
        digits = (keys[mine] >> keys.dtype.type(shift)).astype(np.intp) & (2**DIGIT - 1)
        counts += np.bincount(place[mine] * 2**DIGIT + digits, minlength=counts.size).reshape(counts.shape)
    return counts


def _keys(chunk: np.ndarray, dtype: np.dtype, checked: bool) -> np.ndarray:
    """Integers with the same order as the scores; raises an error for NaN.

    The bits of nonnegative floats are ordered like the floats. Negative floats come first, in reversed order.
    """
    scores = np.ascontiguousarray(chunk, dtype=dtype) + dtype.type(0)  # minus zero is zero
    if not checked and np.isnan(scores).any():
        raise ValueError("Scores should be numbers, but one is NaN.")
    bits = scores.view(f"u{dtype.itemsize}")
    number = bits.dtype.type
    top = number(1 << (8 * dtype.itemsize - 1))
    return bits ^ ((number(0) - (bits >> number(8 * dtype.itemsize - 1))) | top)


def _value(key: int, dtype: np.dtype) -> float:
    """The score represented by a key."""
    top = 1 << (8 * dtype.itemsize - 1)
    bits = key ^ top if key & top else ~key & (2 * top - 1)
    return float(np.array([bits], dtype=f"u{dtype.itemsize}").view(dtype)[0])


def _chunks(shard: Shard) -> Iterator[np.ndarray]:
    parts = shard() if callable(shard) else [_array(shard)]
    for part in parts:
        part = np.asarray(part)
        if part.ndim != 1:
            raise ValueError(f"A shard should hold one number per point, got shape {part.shape}.")
        for start in range(0, len(part), SCORES_AT_ONCE):
            yield part[start : start + SCORES_AT_ONCE]


def _array(shard: ArrayLike) -> np.ndarray:
    if isinstance(shard, str | os.PathLike):
        with files.opened(shard, at_most=STORED, follow=True):  # a regular file
            return np.load(shard, mmap_mode="r", allow_pickle=False)
    return np.asarray(to_numpy(shard))


def _kind(shard: Shard) -> str:
    if callable(shard):
        kinds = {str(np.asarray(part).dtype) for part in shard()}
        return kinds.pop() if len(kinds) == 1 else "float64"
    return str(_array(shard).dtype)


def _length(shard: Shard) -> int:
    return sum(len(chunk) for chunk in _chunks(shard)) if callable(shard) else len(_array(shard))
