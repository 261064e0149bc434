"""Extrapolation: alarms in at most 1 % of cases for one distribution, and nearly always outside it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from guardband.checks.extrapolation import RATE, Extrapolation, energy_test, extrapolates
from wings import torch

Generator = np.random.Generator


def clusters(g: Generator, d: int) -> tuple[Callable[[int], np.ndarray], np.ndarray]:
    centres = g.uniform(-3, 3, size=(4, d))

    def draw(n: int) -> np.ndarray:
        return centres[g.integers(4, size=n)] + 0.1 * g.normal(size=(n, d))

    return draw, np.sqrt(centres.var(axis=0) + 0.01)


def correlated(g: Generator, d: int) -> tuple[Callable[[int], np.ndarray], np.ndarray]:
    """Points near a line, with a different unit for each column."""
    units = 10.0 ** g.uniform(-6, 6, size=d)

    def draw(n: int) -> np.ndarray:
        return (0.98 * g.normal(size=(n, 1)) + 0.2 * g.normal(size=(n, d))) * units

    return draw, np.sqrt(0.98**2 + 0.2**2) * units


KINDS: dict[str, Callable[[Generator, int], tuple[Callable[[int], np.ndarray], np.ndarray]]] = {
    "uniform": lambda g, d: (lambda n: g.uniform(size=(n, d)), np.full(d, 12**-0.5)),
    "Gaussian": lambda g, d: (lambda n: g.normal(size=(n, d)), np.ones(d)),
    "exponential": lambda g, d: (lambda n: g.exponential(size=(n, d)), np.ones(d)),
    "t3": lambda g, d: (lambda n: g.standard_t(3, size=(n, d)), np.full(d, 3**0.5)),
    "clusters": clusters,
    "correlated": correlated,
}
"""How points are drawn, and the spread of each column."""


def alarms(kind: str, n: int, d: int, m: int, trials: int, shifted: int) -> np.ndarray:
    """Alarms for queries that are not shifted, shifted along an axis, and in a random direction."""
    g, counts = np.random.default_rng([list(KINDS).index(kind), n, d, m]), np.zeros(3, int)
    for trial in range(trials):
        draw, spread = KINDS[kind](g, d)
        sites, queries = draw(n), draw(m)
        axis, direction = np.eye(d)[g.integers(d)] * g.choice([-1, 1]), g.normal(size=d)
        moves = [0 * axis, axis, direction / np.linalg.norm(direction)][: 3 if trial < shifted else 1]
        for i, move in enumerate(moves):
            counts[i] += extrapolates(sites, queries + 2 * spread * move, seed=trial).alarm
    return counts


@pytest.mark.slow
def test_points_drawn_alike_raise_no_alarm_and_moved_ones_do() -> None:
    """At a rate of 1 %, 15 or more alarms of 432 have probability 1e-4, and so do 9 misses of 144."""
    cases = [(kind, n, d) for kind in KINDS for n in (19, 50) for d in (1, 2, 3)]
    counts = np.sum([alarms(*case, m=100, trials=12, shifted=4) for case in cases], axis=0)
    assert counts[0] <= 14 and (144 - counts[1:] <= 8).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [19, 50, 200])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_alarm_rates(kind: str, n: int, d: int) -> None:
    """At most 2 % of 1000 trials, and at least 99 % if shifted; the promised rate is 1 %."""
    counts = alarms(kind, n, d, 100, 1000, 1000)
    print(f"{kind}, n={n}, d={d}: {counts[0]} false alarms of 1000, {counts[1]} and {counts[2]} true ones")
    assert counts[0] <= 20 and (counts[1:] >= 990).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [1, 5, 1000])
def test_alarm_rates_with_few_and_many_queries(kind: str, m: int) -> None:
    for n, d in ((10, 1), (19, 2), (200, 3)):
        count = alarms(kind, n, d, m, 1000, 0)[0]
        print(f"{kind}, n={n}, d={d}, m={m}: {count} false alarms of 1000")
        assert count <= 20


@pytest.mark.parametrize("m", [1, 5, 1000])
def test_few_and_many_queries(m: int) -> None:
    """At a rate of 1 %, 10 or more of 200 have probability 1e-4."""
    assert sum(alarms(kind, 30, d, m, 25, 0)[0] for kind in list(KINDS)[:4] for d in (1, 2)) <= 9


def sites_of(n: int = 50, d: int = 2) -> np.ndarray:
    return np.random.default_rng(0).uniform(size=(n, d))


def test_one_query_far_away_is_noticed() -> None:
    sites = sites_of(19)
    assert extrapolates(sites, np.array([[30.0, 0.5]])).alarm
    assert not extrapolates(sites, np.array([[0.5, 0.5]])).alarm


def test_a_few_far_queries_among_many_are_noticed() -> None:
    sites = sites_of(200)
    queries = np.random.default_rng(1).uniform(size=(100, 2))
    assert not extrapolates(sites, queries).alarm
    queries[:10] += 3
    found = extrapolates(sites, queries)
    assert found.alarm and found.share == 0.1


def test_a_hole_is_outside_too() -> None:
    g = np.random.default_rng(0)
    angle = g.uniform(0, 2 * np.pi, size=200)
    ring = np.c_[np.cos(angle), np.sin(angle)]
    assert extrapolates(ring, 0.1 * g.normal(size=(50, 2))).alarm


def test_the_middle_is_not_outside() -> None:
    """Queries may come from fewer places: that is a shift, but not extrapolation."""
    g = np.random.default_rng(0)
    assert not extrapolates(g.normal(size=(200, 2)), 0.3 * g.normal(size=(100, 2))).alarm


def test_hundred_thousand_queries() -> None:
    g = np.random.default_rng(0)
    sites, queries = g.normal(size=(200, 3)), g.normal(size=(100_000, 3))
    assert not extrapolates(sites, queries).alarm
    assert extrapolates(sites, queries + 1.5).alarm


def test_units_and_kinds_do_not_matter() -> None:
    sites, queries = sites_of(), sites_of(100) + np.array([0.8, 0.0])
    found = extrapolates(sites, queries)
    assert found.alarm
    for unit in ([1e-6, 1e6], [1e-300, 1.0], [1e300, 1.0]):
        other = extrapolates(sites * unit, queries * unit)
        assert (other.alarm, other.share) == (found.alarm, found.share)
        assert other.ratio == pytest.approx(found.ratio)
    assert extrapolates(torch.tensor(sites), torch.tensor(queries)) == found
    assert extrapolates(1e6 + sites, 1e6 + queries).alarm
    assert not extrapolates(1e6 + sites, 1e6 + sites_of(100)).alarm


def test_columns_that_do_not_change_between_sites() -> None:
    still, same, other = (np.full((50, 1), value) for value in (0.1, 0.1, 0.2))
    sites, queries = sites_of(50, 1), np.random.default_rng(1).uniform(size=(50, 1))
    assert not extrapolates(np.hstack([sites, still]), np.hstack([queries, same + 1e-17])).alarm
    assert extrapolates(np.hstack([sites, still]), np.hstack([queries, other])).alarm


def test_sensors_and_whole_numbers() -> None:
    """Repeated places count once, and queries at them are not far."""
    g = np.random.default_rng(0)
    sensors = g.uniform(size=(12, 2))
    assert not extrapolates(np.repeat(sensors, 20, axis=0), sensors[g.integers(12, size=100)]).alarm
    counts, more = g.poisson(5, size=(50, 1)), g.poisson(5, size=(1000, 1))
    assert not extrapolates(counts, more).alarm
    assert extrapolates(counts, more + 20).alarm


def test_whole_fields_are_points() -> None:
    g = np.random.default_rng(0)
    fields = g.normal(size=(100, 40, 2))
    assert not extrapolates(fields[:50], fields[50:]).alarm
    assert extrapolates(fields[:50], fields[50:] + 2).alarm


def test_what_cannot_be_told() -> None:
    for sites in (np.ones((1, 2)), np.ones((20, 2))):
        found = extrapolates(sites, np.zeros((3, 2)))
        assert not found.known and not found.alarm and "points coincide" in str(found)
    assert extrapolates(np.array([[0.0], [1.0]]), np.array([[0.5]])).known


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="should have 2 coordinates like the calibration points, got 3"):
        extrapolates(np.zeros((5, 2)), np.zeros((5, 3)))
    with pytest.raises(ValueError, match="each contain at least one point, got 5 and 0"):
        extrapolates(np.zeros((5, 2)), np.zeros((0, 2)))
    with pytest.raises(ValueError, match="`queries` should be finite, but row 0 is NaN"):
        extrapolates(np.zeros((5, 2)), np.full((1, 2), np.nan))


def test_the_sentence_and_the_seed() -> None:
    found = extrapolates(sites_of(), sites_of() + 1)
    assert "% of the queries are farther from every calibration point" in str(found)
    inside = str(Extrapolation(0.0, 1.25, 0.001))
    assert "from the others, but on average queries are 1.25 " in inside
    assert "0 %" not in inside
    assert found == extrapolates(sites_of(), sites_of() + 1) and found.p <= RATE
    assert Extrapolation(0.0, 1.0, 0.5).alarm is False
    with ThreadPoolExecutor(8) as threads:
        results = set(threads.map(lambda _: extrapolates(sites_of(), sites_of() + 0.3), range(16)))
    assert len(results) == 1


def test_the_energy_test_is_exact_under_permutation() -> None:
    """Of 300 p-values, 32 or more below 0.05 have probability 1e-4, and so have 3 or fewer."""
    g = np.random.default_rng(3)
    values = [energy_test(g.normal(size=(20, 1)), g.normal(size=(15, 1)), g) for _ in range(300)]
    assert 4 <= np.sum(np.array(values) <= 0.05) <= 31
