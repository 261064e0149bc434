"""Ranges: where a band covers less than elsewhere, and whether chance alone would show that.

The promise is an average over places. Test points are put into ranges of each input, of the band's width and
of the distance to training data, none of which looks at y. If misses do not depend on the range, then given
their total their numbers are hypergeometric: an exact test, with nothing assumed of the band. Beside the
ranges stands a slab, a range of a combination of inputs: the worst one of half of the points, judged by the
other half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

MOST, FEWEST = 4, 20
"""How many ranges a feature is cut into at most, and how many points a range has on average at least."""

FALSE_ALARM = 0.01
"""How often a band that misses everywhere alike raises an alarm, over all ranges and the slab."""

DIRECTIONS, CELLS, THINNEST = 50, 20, 4
"""For the slab: how many combinations of inputs, into how many cells each is cut, how many make a slab."""


@dataclass(frozen=True)
class Range:
    """Where a feature lies between `low` and `high`: how many points, how many covered, how likely that is.

    >>> from guardband.evaluation import Range
    >>> print(Range("x", 0.5, 1.0, points=200, covered=168, p=1e-6, alarm=True))
    x from 0.5 to 1: 168 of 200 covered, 0.840 (p = 1e-06)
    """

    feature: str
    low: float
    high: float
    points: int
    covered: int
    p: float
    alarm: bool

    @property
    def coverage(self) -> float:
        """The share of its points that is covered."""
        return self.covered / self.points if self.points else float("nan")

    def __str__(self) -> str:
        seen = f"{self.covered} of {self.points} covered, {self.coverage:.3f} (p = {self.p:.2g})"
        return f"{self.feature} from {self.low:.4g} to {self.high:.4g}: {seen}"


@dataclass(frozen=True)
class Ranges:
    """Coverage by range, and of the worst slab, None where points are too few to look for one.

    `alarms` are those that are covered less or more than chance allows; a band that misses everywhere alike
    has one in 1 % of cases. `str` says what was found, and nothing where coverage is even.

    >>> import numpy as np
    >>> import guardband as gb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(1500, 1))
    >>> y = np.where(x < 0.8, 0.1, 1.0) * rng.normal(size=x.shape)  # noisy on the right
    >>> calibrated = gb.calibrate(np.zeros_like, x[:500], y[:500])
    >>> found = gb.evaluate(calibrated, x[500:], y[500:], level=0.9).by_range
    >>> [(round(one.low, 1), one.coverage) for one in found.ranges]
    [(0.0, 1.0), (0.2, 1.0), (0.5, 1.0), (0.8, 0.68)]
    """

    ranges: tuple[Range, ...] = field(default=())
    slab: Range | None = None

    @property
    def alarms(self) -> tuple[Range, ...]:
        """The ranges, and the slab, that are covered less or more than chance allows."""
        return tuple(one for one in (*self.ranges, self.slab) if one is not None and one.alarm)

    def __str__(self) -> str:
        if not self.alarms:
            return ""
        count = f"{len(self.alarms)} of {self.tests} ranges {'stands' if len(self.alarms) == 1 else 'stand'}"
        return (
            f"Coverage is not the same everywhere: {count} out, by "
            f"an exact test with 1 % false alarms; least covered is\n  {min(self.alarms, key=_coverage)}\n"
            "The promise is an average over places; gb.Local() and gb.Grouped() make coverage more even."
        )

    @property
    def tests(self) -> int:
        """How many ranges were tested, the slab included."""
        return len(self.ranges) + (self.slab is not None)


def by_range(inside: np.ndarray, features: Mapping[str, np.ndarray], x: np.ndarray | None = None) -> Ranges:
    """Coverage by ranges of features (n,), and of a slab of inputs x (n, d), from who is inside (n,)."""
    cut = [(name, *part) for name, values in features.items() for part in _cut(values)]
    words = list(features)[: 0 if x is None else x.shape[1]]
    slab = None if x is None else _worst_slab(inside, x, words)
    tests = len(cut) + (slab is not None)
    made = []
    for name, low, high, some in cut:
        p = _chance(inside, some)
        covered = int(inside[some].sum())
        made.append(Range(name, low, high, int(some.sum()), covered, p, p * tests <= FALSE_ALARM))
    if slab is not None:
        word, low, high, seen, some = slab
        p = _chance(seen, some)
        slab = Range(
            word, low, high, int(some.sum()), int(seen[some].sum()), p, alarm=p * tests <= FALSE_ALARM
        )
    return Ranges(tuple(made), slab)


def nearest(known: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How far each x (n, d) is from the nearest known point, in units of the spread of those."""
    from scipy.spatial import KDTree

    spread = np.nanstd(known, axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    if not (np.isfinite(known).all() and np.isfinite(x).all()):
        return np.full(len(x), np.nan)
    return KDTree(known / unit).query(x / unit)[0]


def _cut(values: np.ndarray) -> Iterator[tuple[float, float, np.ndarray]]:
    """Ranges of as many points each as ties allow: low, high, and who lies there."""
    n = len(values)
    pieces = min(MOST, n // FEWEST)
    if pieces < 2 or not np.isfinite(values).all():
        return
    edges = np.unique(np.quantile(values, np.arange(1, pieces) / pieces, method="lower"))
    which = np.searchsorted(edges, values, side="left")
    parts = [which == i for i in range(len(edges) + 1)]
    parts = [some for some in parts if some.any()]
    if len(parts) > 1:
        yield from ((float(values[some].min()), float(values[some].max()), some) for some in parts)


def _chance(inside: np.ndarray, some: np.ndarray) -> float:
    """How likely so many misses, or so few, are among some points, if misses fall on any alike."""
    from scipy.special import gammaln

    n, drawn = len(inside), int(some.sum())
    misses, here = n - int(inside.sum()), drawn - int(inside[some].sum())
    least = max(0, drawn + misses - n)
    k = np.arange(least, min(drawn, misses) + 1)
    parts = np.stack([k, misses - k, drawn - k, n - misses - drawn + k])  # missed and covered, here and not
    logs = -gammaln(parts + 1).sum(axis=0)
    law = np.exp(logs - logs.max())
    return min(1.0, 2 * float(min(law[: here - least + 1].sum(), law[here - least :].sum()) / law.sum()))


def _worst_slab(
    inside: np.ndarray, x: np.ndarray, words: Sequence[str]
) -> tuple[str, float, float, np.ndarray, np.ndarray] | None:
    """The slab that is missed most in one half: its name and ends; who is inside in the other, who in it."""
    n, d = x.shape
    spread = x.std(axis=0) if np.isfinite(x).all() else np.zeros(d)
    if n < 2 * CELLS * THINNEST or not (spread > 0).all():
        return None
    generator = np.random.default_rng(0)
    first = np.zeros(n, dtype=bool)
    first[generator.permutation(n)[: n // 2]] = True
    turned = generator.normal(size=(DIRECTIONS if d > 1 else 0, d))
    best, found = -1.0, None
    for direction in np.concatenate([np.eye(d), turned]) / spread:
        along = x @ (direction / np.abs(direction).max())
        ends = np.quantile(along[first], np.arange(CELLS + 1) / CELLS)
        which = np.clip(np.searchsorted(ends, along[first], side="left") - 1, 0, CELLS - 1)
        points, misses = (
            np.concatenate([[0], np.cumsum(np.bincount(which, weights, CELLS))])
            for weights in (None, ~inside[first])
        )
        i, j = np.triu_indices(CELLS + 1, THINNEST)
        rates = (misses[j] - misses[i]) / np.maximum(points[j] - points[i], 1)
        k = int(rates.argmax())
        if rates[k] > best:
            best, found = float(rates[k]), (direction / np.abs(direction).max(), ends[i[k]], ends[j[k]])
    assert found is not None
    weights, low, high = found
    along = x[~first] @ weights
    return (
        _combined(weights, words),
        float(low),
        float(high),
        inside[~first],
        (low <= along) & (along <= high),
    )


def _combined(weights: np.ndarray, words: Sequence[str]) -> str:
    """x, or 0.5 x - 1 y, and that it was chosen on other points."""
    if np.count_nonzero(weights) == 1:
        name = words[int(np.argmax(weights != 0))]
    else:
        parts = [
            f"{'- ' if w < 0 else '+ '}{abs(w):.3g} {word}" for w, word in zip(weights, words, strict=True)
        ]
        name = " ".join(parts).removeprefix("+ ")
    return f"the worst slab, {name}"


def _coverage(one: Range) -> float:
    return one.coverage
