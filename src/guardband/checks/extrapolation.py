"""Extrapolation: whether queries lie farther out than chance allows, with a stated rate of false alarms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.base.arrays import ArrayLike, finite, flat, rows, to_numpy
from guardband.conformal.laws import CoverageLaw, tails

RATE = 0.01
"""How often queries drawn like the calibration points raise an alarm, at most."""

LONELY, ALONE, APART = 0.2, 0.3, 0.5
"""The parts of that rate which the three reasons for an alarm get; see `extrapolates`."""

MUCH = 5
"""Times farther than the loneliest calibration point: what even a single query is called far for."""

OUTSIDE = 1.03
"""Queries lie outside if they are so many times farther from calibration points than those are apart."""

CLOSE = 1e-3
"""What is closer than this, in spreads, is not told apart from what is that close."""

PERMUTATIONS, AT_MOST = 999, 500
"""Permutations of the two-sample test, and how many points of each sample it looks at."""

COLUMNS, ROWS = 20, 2000
"""With more columns than this a tree does not help; then so many rows of each sample are compared."""


COMPONENTS, EXPLAINED = 8, 0.99
"""How many principal components of whole fields are looked at: fewer where they explain this much."""


@dataclass(frozen=True)
class Extrapolation:
    """Whether queries lie outside the calibration points, and by how much. Prints as a sentence.

    `share` is that of the queries which are farther from every calibration point than the loneliest of those
    is from the others. `ratio` is how many times farther queries are from calibration points, on average,
    than those are from each other. `p` is how often queries drawn alike look so far out; at most 0.01 is an
    `alarm`. `known=False` says that there are too few places to tell.

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
        """Whether so many queries are so far out that points drawn alike hardly ever are."""
        return self.p <= RATE

    def __str__(self) -> str:
        if not self.known:
            return "The calibration points lie at one place, so how far is far cannot be told."
        far = _percent(self.share)
        if not self.alarm:
            return f"No more queries lie far out than chance allows: {far} (p = {self.p:.2g})."
        beyond = (
            f"{far} of the queries are farther from every calibration point than the loneliest of those is "
            "from the others; on average queries"
            if self.share > 0
            else "No query is farther from every calibration point than the loneliest of those is from the "
            "others, but on average queries"
        )
        return (
            f"{beyond} are {self.ratio:.3g} times as far from calibration points as those are from each "
            f"other (p = {self.p:.2g}). There the band extrapolates: calibrate there, or say so."
        )


def extrapolates(sites: ArrayLike, queries: ArrayLike, *, seed: int = 0) -> Extrapolation:
    """Whether queries (m, d) lie farther out than chance allows, given calibration points (n, d).

    If both are drawn alike, independently, there is an alarm in at most 1 % of cases. There are three
    reasons for one. (1) Too many queries are farther from every calibration point than the loneliest of
    those, by the Beta-binomial law of the largest of n scores; distances that two points share, because they
    are each other's nearest, count once. (2) Most queries are five times that far; this assumes that
    distances have a finite variance, and is what can be said of one query. (3) The samples differ, by the
    energy distance with exact permutations, and queries are on average 1.03 times farther from calibration
    points than those are apart. Columns are measured by their spread, so units do not matter.

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
            "There should be at least one calibration point and one query, got "
            f"{len(sites)} and {len(queries)}."
        )
    generator = np.random.default_rng(seed)
    sites, queries = _scaled(sites, queries)
    places = np.unique(sites, axis=0)
    if len(places) < 2:
        return Extrapolation(0.0, 1.0, 1.0, known=False)
    distances, lonely, n = _nearest(places, queries, generator)
    far, much = (int((distances > times * lonely).sum()) for times in (1, MUCH))
    m = len(distances)
    p = _as_many(n, m, far) / LONELY
    if 2 * much > m:
        p = min(p, _as_many_thinned(n, m, much) / ALONE)
    a, b = (part[generator.permutation(len(part))[:AT_MOST]] for part in (sites, queries))
    ratio = _times_apart(a, b)
    if ratio >= OUTSIDE:
        p = min(p, energy_test(a, b, generator) / APART)
    return Extrapolation(far / m, ratio, min(1.0, p))


def energy_test(a: np.ndarray, b: np.ndarray, generator: np.random.Generator) -> float:
    """The p-value of "both samples come from one distribution", by permutations of the energy distance.

    Columns are measured by their spread over both samples, which no permutation changes: it is exact.
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
    """Rows of many columns by their coordinates along the leading principal components of both samples.

    Of all rows together: whose sample a row is in does not matter, so a test by permutations stays exact.

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
    """A share in percent, to two digits, or three where two would be a power of ten.

    >>> _percent(1.0), _percent(0.996), _percent(0.034), _percent(0.0)
    ('100 %', '99.6 %', '3.4 %', '0 %')
    """
    return f"{100 * share:.{2 if share < 0.995 else 3}g} %"


def _points(a: ArrayLike, name: str) -> np.ndarray:
    return flat(np.asarray(to_numpy(finite(rows(a, name), name)), dtype=float))


def _scaled(sites: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both in units of the spread of the calibration points; where those do not differ, in tiny units."""
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
    """How far queries are from the places, and the loneliest place from the others; how much that counts.

    Places that are each other's nearest share one distance, so of n there are fewer.
    """
    from scipy.spatial import cKDTree  # type: ignore[attr-defined]

    if places.shape[1] > COLUMNS:
        places, queries = (a[generator.permutation(len(a))[:ROWS]] for a in (places, queries))
    tree = cKDTree(places)
    between, nearest = tree.query(places, 2)
    itself = nearest[:, 0] == np.arange(len(places))
    other = np.where(itself, nearest[:, 1], nearest[:, 0])
    pairs = int((other[other] == np.arange(len(places))).sum()) // 2
    return tree.query(queries)[0], float(between[:, 1].max()), len(places) - pairs


def _as_many(n: int, m: int, far: int) -> float:
    """The probability that of m queries so many lie beyond the largest of n distances."""
    return tails(CoverageLaw(n, n).counts(m), m - far)[0]


def _as_many_thinned(n: int, m: int, far: int) -> float:
    """The same of 5 times the largest distance: at most 1 in 25 of what lies beyond 1 times lies there."""
    from scipy.special import bdtrc

    quantiles = (np.arange(2000) + 0.5) / 2000
    beyond = 1 - (1 - quantiles) ** (1 / n)  # Beta(1, n), what the largest of n leaves
    return float(np.mean(bdtrc(far - 1, m, beyond / MUCH**2)))


def _times_apart(a: np.ndarray, b: np.ndarray) -> float:
    """How many times farther b is from a than a from itself: geometric means over different places.

    They are less moved by one outlier than plain means are.
    """
    from scipy.spatial.distance import cdist, pdist

    across, within = (distances[distances > 0] for distances in (cdist(b, a), pdist(a)))
    if len(across) == 0 or len(within) == 0:
        return 0.0
    return float(np.exp(np.log(across.clip(CLOSE)).mean() - np.log(within.clip(CLOSE)).mean()))
