"""Tests of whether queries lie outside the calibration points, with a known false-alarm rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.base.arrays import ArrayLike, finite, flat, rows, to_numpy
from guardband.conformal.laws import CoverageLaw, tails

RATE = 0.01
"""The maximum false-alarm rate for queries with the distribution of the calibration points."""

LONELY, ALONE, APART = 0.2, 0.3, 0.5
"""The fractions of the rate for the three criteria of an alarm; see `extrapolates`."""

MUCH = 5
"""A single query is far if its distance is this multiple of that of the most isolated calibration point."""

OUTSIDE = 1.03
"""The minimum ratio of distances to calibration points to distances between them, for the third criterion."""

CLOSE = 1e-3
"""A lower bound for distances, in spreads; smaller distances are treated as equal."""

PERMUTATIONS, AT_MOST = 999, 500
"""Permutations of the two-sample test, and the maximum number of points of each sample."""

COLUMNS, ROWS = 20, 2000
"""The number of columns beyond which a tree is not faster, and the number of rows then compared."""


COMPONENTS, EXPLAINED = 8, 0.99
"""The maximum number of principal components of whole fields, and the explained variance that suffices."""


@dataclass(frozen=True)
class Extrapolation:
    """Whether queries lie outside the calibration points, and how far; it prints as a sentence.

    `share` is the fraction of queries that are farther from every calibration point than the most isolated
    calibration point is from the others. `ratio` is the mean distance of queries from calibration points,
    relative to the mean distance between calibration points. `p` is the p-value for queries with the same
    distribution; there is an `alarm` if it is at most 0.01. `known=False` marks a calibration set with too
    few distinct points.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> print(extrapolates(draw.normal(size=(50, 2)), draw.normal(size=(100, 2))))
    No more queries lie far out than chance allows: 1 % (p = 1).
    """

    share: float
    ratio: float
    p: float
    known: bool = True

    @property
    def alarm(self) -> bool:
        """Whether the queries are farther out than chance allows."""
        return self.p <= RATE

    def __str__(self) -> str:
        if not self.known:
            return "All calibration points coincide, so distances cannot be compared."
        far = _percent(self.share)
        if not self.alarm:
            return f"No more queries lie far out than chance allows: {far} (p = {self.p:.2g})."
        beyond = (
            f"{far} of the queries are farther from every calibration point than the most isolated "
            "calibration point is from the others; on average queries"
            if self.share > 0
            else "No query is farther from every calibration point than the most isolated "
            "calibration point is from the others, but on average queries"
        )
        return (
            f"{beyond} are {self.ratio:.3g} times as far from calibration points as those are from each "
            f"other (p = {self.p:.2g}). The band extrapolates at such queries. Calibrate near them, or "
            "report the extrapolation."
        )


def extrapolates(sites: ArrayLike, queries: ArrayLike, *, seed: int = 0) -> Extrapolation:
    """Test whether queries (m, d) lie farther out than chance allows, given calibration points (n, d).

    For independent samples of one distribution, the test raises an alarm in at most 1 % of cases. An alarm
    has one of three criteria:

    1. Too many queries are farther from every calibration point than the most isolated calibration point is
       from the others, by the beta-binomial law of the largest of n scores. A distance shared by two points
       that are each other's nearest neighbors counts once.
    2. Most queries are five times as far. This criterion works for a single query and assumes that
       distances have a finite variance.
    3. The samples differ, by the energy distance with exact permutations, and queries are on average at least
       1.03 times farther from calibration points than these are from each other.

    Columns are scaled by their spread, so units do not matter.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> found = extrapolates(
    ...     draw.uniform(size=(50, 2)), draw.uniform(size=(100, 2)) + [2, 0]
    ... )
    >>> found.alarm, found.share, round(found.ratio, 1)
    (True, 1.0, 4.6)
    """
    sites, queries = (_points(part, name) for part, name in ((sites, "sites"), (queries, "queries")))
    if sites.shape[1] != queries.shape[1]:
        raise ValueError(
            f"`queries` should have {sites.shape[1]} coordinates like the calibration points, got "
            f"{queries.shape[1]}."
        )
    if len(sites) == 0 or len(queries) == 0:
        raise ValueError(
            "`sites` and `queries` should each contain at least one point, got "
            f"{len(sites)} and {len(queries)}."
        )
    generator = np.random.default_rng(seed)
    sites, queries = _scaled(sites, queries)
    places = np.unique(sites, axis=0)
    if len(places) < 2:
        return Extrapolation(0.0, 1.0, 1.0, known=False)
    distances, isolated, n = _nearest(places, queries, generator)
    far, much = (int((distances > times * isolated).sum()) for times in (1, MUCH))
    m = len(distances)
    p = _beyond_largest(n, m, far) / LONELY
    if 2 * much > m:
        p = min(p, _far_beyond_largest(n, m, much) / ALONE)
    a, b = (part[generator.permutation(len(part))[:AT_MOST]] for part in (sites, queries))
    ratio = _distance_ratio(a, b)
    if ratio >= OUTSIDE:
        p = min(p, energy_test(a, b, generator) / APART)
    return Extrapolation(far / m, ratio, min(1.0, p))


def energy_test(a: np.ndarray, b: np.ndarray, generator: np.random.Generator) -> float:
    """The p-value of equal distributions, by permutations of the energy distance.

    Columns are scaled by their spread over both samples, which permutations do not change, so the test is
    exact.
    """
    from scipy.spatial.distance import cdist

    both = np.vstack([a, b])
    both = both / _spread(both)
    distances = cdist(both, both)
    n, m = len(a), len(b)
    member = np.zeros((PERMUTATIONS + 1, n + m))
    member[0, :n] = 1
    chosen = generator.random((PERMUTATIONS, n + m)).argpartition(n - 1, axis=1)[:, :n]
    np.put_along_axis(member[1:], chosen, 1, axis=1)
    inner = member @ distances
    within_a = (inner * member).sum(axis=1)
    across = inner.sum(axis=1) - within_a
    within_b = distances.sum() - within_a - 2 * across
    energy = 2 * across / (n * m) - within_a / n**2 - within_b / m**2
    return float(np.mean(energy >= energy[0] - 1e-12 * abs(energy[0])))


def leading(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of rows along the leading principal components of both samples together.

    The components do not depend on which sample a row belongs to, so permutation tests remain exact.

    >>> draw = np.random.default_rng(0)
    >>> waves = draw.normal(size=(30, 2)) @ draw.normal(size=(2, 500))
    >>> [part.shape for part in leading(waves[:20], waves[20:])]
    [(20, 2), (10, 2)]
    """
    both = np.vstack([a, b])
    size = np.abs(both).max(initial=0.0)
    both = (both - both.mean(axis=0)) / (size if size > 0 else 1.0)
    squares, directions = np.linalg.eigh(both @ both.T)  # far fewer rows than columns
    squares, directions = squares[::-1].clip(0.0), directions[:, ::-1]
    enough = np.searchsorted(np.cumsum(squares), EXPLAINED * squares.sum())
    count = min(COMPONENTS, 1 + int(enough), len(both))
    found = directions[:, :count] * np.sqrt(squares[:count])
    return found[: len(a)], found[len(a) :]


def _percent(share: float) -> str:
    """A share in percent with two significant digits, or three if two would round up to 100 %.

    >>> _percent(1.0), _percent(0.996), _percent(0.034), _percent(0.0)
    ('100 %', '99.6 %', '3.4 %', '0 %')
    """
    return f"{100 * share:.{2 if share < 0.995 else 3}g} %"


def _points(a: ArrayLike, name: str) -> np.ndarray:
    return flat(np.asarray(to_numpy(finite(rows(a, name), name)), dtype=float))


def _scaled(sites: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both samples in units of the spread of the calibration points; if it is zero, in tiny units."""
    size = np.abs(np.vstack([sites, queries])).max(axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    sites, queries = sites / size, queries / size
    middle, unit = sites.mean(axis=0), sites.std(axis=0)
    unit = np.where(unit > 1e-12, unit, 1e-9)
    return (sites - middle) / unit, (queries - middle) / unit


def _spread(points: np.ndarray) -> np.ndarray:
    spread = points.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _nearest(
    places: np.ndarray, queries: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, float, int]:
    """Distances of queries to the sites, that of the most isolated site, and the number of distances.

    Sites that are each other's nearest neighbors share one distance, so there are fewer distances than
    sites.
    """
    from scipy.spatial import KDTree

    if places.shape[1] > COLUMNS:
        places, queries = (a[generator.permutation(len(a))[:ROWS]] for a in (places, queries))
    tree = KDTree(places)
    between, nearest = (np.asarray(part) for part in tree.query(places, 2))
    itself = nearest[:, 0] == np.arange(len(places))
    other = np.where(itself, nearest[:, 1], nearest[:, 0])
    pairs = int((other[other] == np.arange(len(places))).sum()) // 2
    return np.asarray(tree.query(queries)[0]), float(between[:, 1].max()), len(places) - pairs


def _beyond_largest(n: int, m: int, far: int) -> float:
    """The probability that at least `far` of m queries lie beyond the largest of n distances."""
    return tails(CoverageLaw(n, n).counts(m), m - far)[0]


def _far_beyond_largest(n: int, m: int, far: int) -> float:
    """The same for 5 times this distance, which is exceeded with at most 1/25 of the probability."""
    from scipy.special import bdtrc

    quantiles = (np.arange(2000) + 0.5) / 2000
    beyond = 1 - (1 - quantiles) ** (1 / n)  # Beta(1, n), the probability beyond the largest of n
    return float(np.mean(bdtrc(far - 1, m, beyond / MUCH**2)))


def _distance_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """The mean distance of b from a relative to that within a, over distinct points.

    Geometric means are less sensitive to outliers than arithmetic means.
    """
    from scipy.spatial.distance import cdist, pdist

    across, within = (distances[distances > 0] for distances in (cdist(b, a), pdist(a)))
    if len(across) == 0 or len(within) == 0:
        return 0.0
    return float(np.exp(np.log(across.clip(CLOSE)).mean() - np.log(within.clip(CLOSE)).mean()))
