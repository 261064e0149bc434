"""Coverage by ranges of features, and exact tests of whether differences are due to chance.

The guarantee is an average over points. Test points are divided into ranges of each feature: the inputs, the
predicted value, the width of the band and the distance to training data, none of which depends on y.
If misses do not depend on the range and points are independent of each other, the number of misses in a
range is hypergeometric given the total. This gives an exact test without other assumptions about the band.
Noise that is correlated along an input raises false alarms. A slab, which is a range of a linear combination
of inputs, is also tested: the worst slab on half of the points is tested on the other half.

Few points are missed at a high level, so each feature has a second test, a trend, of whether the sizes of
misses have the same distribution in all its ranges. The test compares the means of Klotz scores, which are
the squared normal quantiles of the ranks. Its distribution comes from random tables with the observed
margins, so this test is exact as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.base.limits import NAME, printable
from guardband.conformal import Calibrated
from guardband.values import Prediction

MOST, FEWEST = 4, 20
"""The maximum number of ranges of a feature, and the minimum average number of points in a range."""

FALSE_ALARM = 0.01
"""Bound on the false-alarm rate of all tests together, for even misses at independent points."""

SIZES_OF = ("size of the input", "size of the prediction")
"""The features of whole fields."""

SIZES, TABLES = 20, 400
"""Numbers for a trend: the size classes of misses, and the random tables per test."""

DIRECTIONS, CELLS, THINNEST = 50, 20, 4
"""Numbers for the slab: directions, cells along each direction, and the minimum number of cells in a slab."""


@dataclass(frozen=True)
class Range:
    """Coverage in one range of a feature.

    Attributes
    ----------
    feature
        Name of the feature.
    low, high
        Ends of the range.
    points
        Number of test points in the range.
    covered
        Number of these points that are covered.
    p
        P-value of the hypothesis that misses do not depend on the range.
    alarm
        Whether the coverage differs by more than chance allows.

    Examples
    --------
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
        """Fraction of the points in the range that are covered."""
        return self.covered / self.points if self.points else float("nan")

    def __str__(self) -> str:
        seen = f"{self.covered} of {self.points} covered, {self.coverage:.3f} (p = {self.p:.2g})"
        return f"{self.feature} from {self.low:.4g} to {self.high:.4g}: {seen}"


@dataclass(frozen=True)
class Trend:
    """A test of whether the size of misses depends on a feature.

    Attributes
    ----------
    feature
        Name of the feature.
    low, high
        Ends of the range with the largest misses.
    p
        P-value of the hypothesis that the size of misses does not depend on the feature.
    alarm
        Whether sizes differ by more than chance allows.

    Examples
    --------
    >>> from guardband.evaluation import Trend
    >>> print(Trend("predicted value", 0.5, 1.0, p=1e-4, alarm=True))
    Misses differ along predicted value: they are largest from 0.5 to 1 (p = 0.0001).
    """

    feature: str
    low: float
    high: float
    p: float
    alarm: bool

    def __str__(self) -> str:
        where = f"largest from {self.low:.4g} to {self.high:.4g}"
        return f"Misses differ along {self.feature}: they are {where} (p = {self.p:.2g})."


@dataclass(frozen=True)
class Ranges:
    """Coverage by ranges of features, with exact tests.

    Its string describes the alarms and is empty if there are none.

    Attributes
    ----------
    ranges
        Coverage in each range of each feature.
    slab
        Coverage in the worst slab, a range of a linear combination of inputs; None if there are too few
        points.
    trends
        Tests of whether the size of misses depends on each feature.

    Notes
    -----
    If misses do not depend on the features and points are independent of each other, all tests together raise
    an alarm in at most 1 % of cases.

    Examples
    --------
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
    trends: tuple[Trend, ...] = field(default=())

    @property
    def alarms(self) -> tuple[Range | Trend, ...]:
        """Ranges, slab and trends that differ by more than chance allows."""
        return tuple(one for one in (*self._slabs, *self.trends) if one.alarm)

    def __str__(self) -> str:
        if not self.alarms:
            return ""
        count = f"{len(self.alarms)} of {self.tests} tests {'stands' if len(self.alarms) == 1 else 'stand'}"
        uneven = [one for one in self._slabs if one.alarm]
        what = "Coverage is" if uneven else "The size of misses is"
        lines = [
            f"{what} not the same everywhere: {count} out, by tests with 1 % false alarms if points are "
            "independent"
        ]
        if uneven:
            lines[0] += "; least covered is"
            lines.append(f"  {min(uneven, key=_coverage)}")
        lines += [f"  {one}" for one in strongest(self.trends)]
        whole = any(one.feature in SIZES_OF for one in self.alarms)
        shape = "a shape learned from more fields" if whole else "gb.Local()"
        cure = f"The promise is an average over places; {shape} and gb.Grouped() can make coverage more even."
        return "\n".join([*lines, cure])

    @property
    def tests(self) -> int:
        """Number of tests: one per range, one for the slab, and one per trend."""
        return len(self._slabs) + len(self.trends)

    @property
    def _slabs(self) -> tuple[Range, ...]:
        return self.ranges if self.slab is None else (*self.ranges, self.slab)


def by_range(
    inside: np.ndarray,
    features: Mapping[str, np.ndarray],
    x: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> Ranges:
    """Coverage by ranges of features (n,) and in a slab of inputs x (n, d), from booleans `inside` (n,).

    If `sizes` of misses (n,) are passed, trends are tested too; only the order of the sizes matters.
    """
    cut = {name: parts for name, values in features.items() if (parts := _cut(values))}
    names = list(features)[: 0 if x is None else x.shape[1]]
    slab = None if x is None else _worst_slab(inside, x, names)
    tests = sum(map(len, cut.values())) + (slab is not None) + (0 if sizes is None else len(cut))
    ranges = []
    for name, parts in cut.items():
        for low, high, some in parts:
            p = _p_value(inside, some)
            covered = int(inside[some].sum())
            ranges.append(Range(name, low, high, int(some.sum()), covered, p, p * tests <= FALSE_ALARM))
    if slab is not None:
        name, low, high, held_out, some = slab
        p = _p_value(held_out, some)
        covered = int(held_out[some].sum())
        slab = Range(name, low, high, int(some.sum()), covered, p, alarm=p * tests <= FALSE_ALARM)
    return Ranges(tuple(ranges), slab, () if sizes is None else tuple(_trends(cut, sizes, tests)))


def trends(features: Mapping[str, np.ndarray], sizes: np.ndarray) -> tuple[Trend, ...]:
    """Test for each feature (n,) whether the sizes of misses (n,) depend on it.

    If points are independent of each other, at least one of all tests raises a false alarm in at most 1 % of
    cases.
    """
    cut = {name: parts for name, values in features.items() if (parts := _cut(values))}
    return tuple(_trends(cut, sizes, len(cut)))


def strongest(trends: Iterable[Trend]) -> list[Trend]:
    """The trends that raise an alarm, at most three, in order of their p-values."""
    return sorted((one for one in trends if one.alarm), key=lambda one: one.p)[:3]


def features_of(calibrated: Calibrated, prediction: Prediction) -> tuple[dict[str, np.ndarray], int]:
    """Inputs and predicted values by their names, each (n,), and the number of inputs.

    For whole fields the features are the sizes (root mean square) of input and prediction.
    """
    x, mean = prediction.x, to_numpy(prediction.mean).astype(float)
    if mean.ndim > 2:
        parts = zip(SIZES_OF, (x, mean), strict=True)
        return {name: _size(to_numpy(part).astype(float)) for name, part in parts if part is not None}, 0
    names, columns = calibrated.field_names, calibrated.columns
    inputs = dict[str, np.ndarray]()
    if x is not None and x.ndim == 2 and x.shape[1] > 0:
        known = columns.numeric if columns is not None else () if names is None else names.axes
        known = known if len(known) == x.shape[1] else [f"x{j}" for j in range(x.shape[1])]
        inputs = {
            printable(str(name)[:NAME]): column for name, column in zip(known, _columns(x), strict=True)
        }
    if names is not None and len(names.outputs) == mean.shape[1]:
        outputs = [f"predicted {printable(name[:NAME])}" for name in names.outputs]
    else:
        outputs = (
            [f"predicted y{j}" for j in range(mean.shape[1])] if mean.shape[1] > 1 else ["predicted value"]
        )
    return {**inputs, **dict(zip(outputs, mean.T, strict=True))}, len(inputs)


def by_chance(inside: np.ndarray, drawn: int, false_alarm: float) -> tuple[float, float]:
    """The range of the coverage of randomly drawn points, except with probability `false_alarm`.

    >>> by_chance(np.arange(100) < 90, 25, 0.01)
    (0.76, 1.0)
    """
    from scipy.stats import hypergeom

    law = len(inside), int(inside.sum()), drawn
    ends = hypergeom.ppf([false_alarm / 2, 1 - false_alarm / 2], *law) / drawn
    return float(ends[0]), float(ends[1])


def nearest(known: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The distance of each x (n, d) to the nearest known point, in units of the spread of these points."""
    from scipy.spatial import KDTree

    spread = np.nanstd(known, axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    if not (np.isfinite(known).all() and np.isfinite(x).all()):
        return np.full(len(x), np.nan)
    return KDTree(known / unit).query(x / unit)[0]


def _columns(x: object) -> np.ndarray:
    return to_numpy(x).astype(float).T


def _size(fields: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(fields.reshape(len(fields), -1) ** 2, axis=1))


def _cut(values: np.ndarray) -> list[tuple[float, float, np.ndarray]]:
    """Ranges with the same number of points up to ties: low, high and members; empty if fewer than two."""
    n = len(values)
    pieces = min(MOST, n // FEWEST)
    if pieces < 2 or not np.isfinite(values).all():
        return []
    edges = np.unique(np.quantile(values, np.arange(1, pieces) / pieces, method="lower"))
    which = np.searchsorted(edges, values, side="left")
    parts = [which == i for i in range(len(edges) + 1)]
    parts = [some for some in parts if some.any()]
    return [(float(values[some].min()), float(values[some].max()), some) for some in parts if len(parts) > 1]


def _trends(
    cut: Mapping[str, Sequence[tuple[float, float, np.ndarray]]], sizes: np.ndarray, tests: int
) -> Iterator[Trend]:
    """One trend per feature; features with ranges of the same sizes share one null distribution.

    The seed of the random tables comes from the data. With one seed for all data sets, the Monte Carlo error
    of one draw would determine the false-alarm rate of all of them.
    """
    from scipy.stats import norm, random_table

    edges = np.unique(np.quantile(sizes, np.arange(1, SIZES) / SIZES, method="lower"))
    _, column, columns = np.unique(
        np.searchsorted(edges, sizes, side="left"), return_inverse=True, return_counts=True
    )
    scores = norm.ppf((1 + (np.cumsum(columns) - columns / 2) / len(sizes)) / 2) ** 2
    laws, seed = dict[tuple[int, ...], np.ndarray](), zlib.crc32(column.astype(np.uint8).tobytes())
    for name, parts in cut.items():
        table = np.stack([np.bincount(column[some], minlength=len(columns)) for *_, some in parts])
        rows = table.sum(axis=1)
        if (key := tuple(rows.tolist())) not in laws:
            drawn = random_table(rows, columns).rvs(TABLES * tests, random_state=np.random.default_rng(seed))
            laws[key] = _variance_between(drawn, scores, rows)
        law, observed = laws[key], _variance_between(table, scores, rows)
        p = float((1 + (law >= observed * (1 - 1e-9)).sum()) / (1 + len(law)))
        low, high, _ = parts[int((table @ scores / rows).argmax())]
        yield Trend(name, low, high, p, p * tests <= FALSE_ALARM)


def _variance_between(table: np.ndarray, scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The weighted sum of squares between the mean scores of the rows of a table (..., rows, columns)."""
    means = table @ scores / rows
    middle = (means * rows).sum(axis=-1, keepdims=True) / rows.sum()
    return (rows * (means - middle) ** 2).sum(axis=-1)


def _p_value(inside: np.ndarray, some: np.ndarray) -> float:
    """The two-sided hypergeometric p-value of the number of misses among some points."""
    from scipy.special import gammaln

    n, drawn = len(inside), int(some.sum())
    misses, here = n - int(inside.sum()), drawn - int(inside[some].sum())
    least = max(0, drawn + misses - n)
    k = np.arange(least, min(drawn, misses) + 1)
    parts = np.stack(
        [k, misses - k, drawn - k, n - misses - drawn + k]
    )  # missed and covered, inside and outside
    logs = -gammaln(parts + 1).sum(axis=0)
    law = np.exp(logs - logs.max())
    return min(1.0, 2 * float(min(law[: here - least + 1].sum(), law[here - least :].sum()) / law.sum()))


def _worst_slab(
    inside: np.ndarray, x: np.ndarray, names: Sequence[str]
) -> tuple[str, float, float, np.ndarray, np.ndarray] | None:
    """The worst slab on half of the points: name, ends, and coverage and membership of the other half."""
    n, d = x.shape
    spread = x.std(axis=0) if np.isfinite(x).all() else np.zeros(d)
    if n < 2 * CELLS * THINNEST or not (spread > 0).all():
        return None
    generator = np.random.default_rng(0)
    first = np.zeros(n, dtype=bool)
    first[generator.permutation(n)[: n // 2]] = True
    oblique = generator.normal(size=(DIRECTIONS if d > 1 else 0, d))
    best, found = -1.0, None
    for direction in np.concatenate([np.eye(d), oblique]) / spread:
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
        _slab_name(weights, names),
        float(low),
        float(high),
        inside[~first],
        (low <= along) & (along <= high),
    )


def _slab_name(weights: np.ndarray, names: Sequence[str]) -> str:
    """The linear combination of inputs in words, such as 0.5 x - 1 y."""
    if np.count_nonzero(weights) == 1:
        name = names[int(np.argmax(weights != 0))]
    else:
        parts = [
            f"{'- ' if w < 0 else '+ '}{abs(w):.3g} {one}" for w, one in zip(weights, names, strict=True)
        ]
        name = " ".join(parts).removeprefix("+ ")
    return f"the worst slab, {name}"


def _coverage(one: Range) -> float:
    return one.coverage
