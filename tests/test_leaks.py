"""Leaks: perturbed and rounded copies are found, and independent rows are accepted."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from guardband.leaks import Copies, find_copies
from wings import torch

Arrays = tuple[Any, Any, Any, Any]
"""Known x and y, new x and y."""


def significant(a: np.ndarray, digits: int = 3) -> np.ndarray:
    unit = 10.0 ** (np.floor(np.log10(np.where(a != 0, abs(a), 1))) + 1 - digits)
    return np.rint(a / unit) * unit


@dataclass
class World:
    """A field over d coordinates, measured with noise, with a different unit for each column, 1e-6 to 1e6."""

    generator: np.random.Generator
    d: int
    lowest: int = -6

    def __post_init__(self) -> None:
        g = self.generator
        self.units_x, self.unit_y = 10.0 ** g.integers(self.lowest, 7, size=self.d), 10.0 ** g.integers(-6, 7)
        self.unit_y = max(self.unit_y, 10.0**self.lowest)
        self.slopes, self.phase = 3 * g.normal(size=(self.d, 1)), g.uniform(0, 6)
        self.noise = float(g.choice([0.03, 0.1, 0.3]))
        self.draw: Callable[..., np.ndarray] = g.uniform if g.uniform() < 0.5 else g.normal

    def measured(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows at places u, given without units."""
        clean = np.sin(u @ self.slopes + self.phase) + 0.5 * u[:, :1]
        return u * self.units_x, (clean + self.noise * self.generator.normal(size=clean.shape)) * self.unit_y

    def rows(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        return self.measured(self.draw(size=(n, self.d)))


def given(g: np.random.Generator, arrays: tuple[np.ndarray, ...], *, double: bool = False) -> Arrays:
    """The arrays in double or single precision, or as tensors."""
    kind = g.integers(1, 3) if double else g.integers(3)
    return tuple([a.astype(np.float32), a, torch.tensor(a)][kind] for a in arrays)  # type: ignore[return-value]


MOVES: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "not at all": lambda g, a: a,
    "1e-9 of each number": lambda g, a: a * (1 + 1e-9 * g.uniform(-1, 1, size=a.shape)),
    "1e-9": lambda g, a: a + 1e-9 * g.uniform(-1, 1, size=a.shape),
    "to three digits": lambda g, a: significant(a),
    "to three decimals": lambda g, a: a.round(3),
}
LOWEST = {"1e-9": -5, "to three decimals": 0}
"""The smallest unit of a column, 10 to this: where columns are smaller, such a move leaves little of them."""


def leaked(how: str, d: int, share: float, trial: int, *, whole_file: bool = False) -> Copies:
    """At least five copies among fresh rows; with `whole_file` the fresh rows are rounded too."""
    g = np.random.default_rng([list(MOVES).index(how), d, int(10 * share), whole_file, trial])
    world = World(g, d, LOWEST.get(how, -6))
    n_known, n = int(g.choice([30, 100, 300, 1000, 2000])), int(g.choice([19, 50, 200, 1000]))
    count = max(5, round(share * n))
    known = world.rows(n_known)
    chosen = g.choice(n_known, count, replace=count > n_known)
    copies = [MOVES[how](g, a[chosen]) for a in known]
    fresh = world.rows(n - count)
    if whole_file:
        fresh = [MOVES[how](g, a) for a in fresh]
    order = g.permutation(n)
    new = [np.vstack([a, b])[order] for a, b in zip(copies, fresh, strict=True)]
    found = find_copies(*given(g, (*known, *new), double="1e-9" in how))
    assert found.verdict != "refuse" or 0.8 * count <= found.exact + found.near <= count + 0.2 * n
    return found


def verdicts(found: list[Copies]) -> Counter[str]:
    return Counter(copies.verdict for copies in found)


@pytest.mark.parametrize("how", MOVES)
@pytest.mark.parametrize("share", [1, 0.3, 0.1])
def test_copies_are_found_however_they_were_moved(how: str, share: float) -> None:
    """All copies are found in 200 trials of `test_all_copies_are_found`."""
    found = verdicts([leaked(how, d, share, trial) for d in (1, 2, 3, 6) for trial in range(2)])
    assert found["fine"] == 0
    if how in ("not at all", "1e-9 of each number"):
        assert found["warn"] == 0


@pytest.mark.long
@pytest.mark.parametrize("how", MOVES)
@pytest.mark.parametrize("share", [1, 0.3, 0.1])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_all_copies_are_found(how: str, share: float, d: int) -> None:
    """Except a few rounded ones on a line, which look like fresh rows once in 200 trials."""
    found = verdicts([leaked(how, d, share, trial) for trial in range(200)])
    print(f"{how}, {share:.0%} copies, d={d}: {found['refuse']} refused, {found['warn']} warned of")
    assert found["fine"] <= (2 if (how, share, d) == ("to three digits", 0.1, 1) else 0)


@pytest.mark.long
@pytest.mark.parametrize("how", ["to three digits", "to three decimals"])
@pytest.mark.parametrize("share", [1, 0.3, 0.1])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_copies_in_a_rounded_file_are_found_where_they_can_be(how: str, share: float, d: int) -> None:
    """In one dimension, fresh rows that are rounded coincide with known rows by chance, like a few copies."""
    found = verdicts([leaked(how, d, share, trial, whole_file=True) for trial in range(200)])
    print(f"{how}, {share:.0%} copies, d={d}: {found['refuse']} refused, {found['warn']} warned of")
    assert found["fine"] <= {(1, 0.1): 50, (1, 0.3): 10, (2, 0.1): 5}.get((d, share), 0)


def coarse(a: np.ndarray, unit: float) -> np.ndarray:
    return np.rint(a / unit) * unit


def again(
    world: World, n_known: int, n: int, coarsely: Callable[[np.ndarray], np.ndarray], readings: int = 1
) -> tuple[np.ndarray, ...]:
    """Fixed sensors, read once or several times, and read again later."""
    g, u = world.generator, world.draw(size=(n_known, world.d))
    chosen = g.choice(n_known, n, replace=n > n_known)
    world.unit_y = 1.0
    (x, y), (x_new, y_new) = world.measured(np.repeat(u, readings, axis=0)), world.measured(u[chosen])
    return x, coarsely(y), x_new, coarsely(y_new)


def on_a_grid(world: World, n_known: int, n: int, values: int) -> tuple[np.ndarray, ...]:
    known, new = (world.generator.integers(values, size=(k, world.d)) / (values - 1) for k in (n_known, n))
    return *world.measured(known), *world.measured(new)


def around_a_grid(world: World, n_known: int, n: int) -> tuple[np.ndarray, ...]:
    """A noise-free solver, known on a regular grid and evaluated between its nodes."""
    world.noise = 0.0
    axis = np.linspace(0, 1, max(2, round(n_known ** (1 / world.d))))
    known = np.stack(np.meshgrid(*[axis] * world.d), -1).reshape(-1, world.d)
    return *world.measured(known), *world.measured(world.generator.uniform(size=(n, world.d)))


def every_other(world: World, n_known: int, n: int) -> tuple[np.ndarray, ...]:
    axis = np.linspace(0, 1, 2 * n_known)[:, None] * np.ones(world.d)
    return *world.measured(axis[::2]), *world.measured(axis[1::2])


def noise_free(world: World, n_known: int, n: int) -> tuple[np.ndarray, ...]:
    world.noise = 0.0
    return *world.rows(n_known), *world.rows(n)


def rounded(world: World, n_known: int, n: int, *, known_too: bool) -> tuple[np.ndarray, ...]:
    known, new = world.rows(n_known), world.rows(n)
    return *(map(significant, known) if known_too else known), *map(significant, new)


def again_rounded(world: World, n_known: int, n: int) -> tuple[np.ndarray, ...]:
    """Sensors read again, with readings saved to three digits."""
    x, y, x_new, y_new = again(world, n_known, n, np.copy)
    return x, y, significant(x_new), significant(y_new)


HONEST: dict[str, Callable[[World, int, int], tuple[np.ndarray, ...]]] = {
    "drawn alike": lambda w, k, n: (*w.rows(k), *w.rows(n)),
    "drawn alike, noise-free": noise_free,
    "between a grid, noise-free": around_a_grid,
    "every other row of a table": every_other,
    "drawn alike, rounded": lambda w, k, n: rounded(w, k, n, known_too=False),
    "drawn alike, all rounded": lambda w, k, n: rounded(w, k, n, known_too=True),
    "101 values": lambda w, k, n: on_a_grid(w, k, n, 101),
    "1001 values": lambda w, k, n: on_a_grid(w, k, n, 1001),
    "sensors again": lambda w, k, n: again(w, k, n, np.copy),
    "sensors again and again": lambda w, k, n: again(w, k, n, np.copy, 5),
    "sensors again, two decimals": lambda w, k, n: again(w, k, n, lambda y: y.round(2)),
    "sensors again, three decimals": lambda w, k, n: again(w, k, n, lambda y: y.round(3)),
    "sensors again, two digits": lambda w, k, n: again(w, k, n, lambda y: significant(y, 2)),
    "sensors again, three digits": lambda w, k, n: again(w, k, n, significant),
    "sensors again and again, two digits": lambda w, k, n: again(w, k, n, lambda y: significant(y, 2), 3),
    "sensors again, of 8 bits": lambda w, k, n: again(w, k, n, lambda y: coarse(y, 4 / 256)),
    "sensors again, of 12 bits": lambda w, k, n: again(w, k, n, lambda y: coarse(y, 4 / 4096)),
    "sensors again, into a rounded file": again_rounded,
}


def honest(kind: str, d: int, trial: int, n: int | None = None) -> Copies:
    g = np.random.default_rng([list(HONEST).index(kind), d, trial, 7])
    world = World(g, d)
    n_known = int(g.choice([30, 100, 300, 1000, 2000]))
    arrays = HONEST[kind](world, n_known, n or int(g.choice([19, 50, 200, 1000])))
    return find_copies(*given(g, arrays))


@pytest.mark.slow
def test_honest_rows_are_let_pass() -> None:
    """At most 2 % warnings and no refusal; at that rate, 18 or more of 324 have probability 1e-4."""
    found = verdicts([honest(kind, d, trial) for kind in HONEST for d in (1, 2, 3) for trial in range(6)])
    assert found["refuse"] == 0 and found["warn"] <= 17


@pytest.mark.parametrize("kind", ["between a grid, noise-free", "every other row of a table"])
def test_fresh_points_between_those_of_a_regular_grid_are_let_pass(kind: str) -> None:
    """They are nearer to known points than these are to each other, which does not show a copy."""
    assert verdicts([honest(kind, 1, trial, 50) for trial in range(8)]) == {"fine": 8}


@pytest.mark.long
@pytest.mark.parametrize("kind", HONEST)
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_honest_rows_are_hardly_ever_warned_of(kind: str, d: int) -> None:
    """No refusal and at most 4 warnings in 200; at most 10 for many readings of two digits or 8 bits."""
    coarse_again = kind in ("sensors again, two digits", "sensors again, of 8 bits")
    for n in (50, None):
        found = verdicts([honest(kind, d, trial, n) for trial in range(200)])
        print(f"{kind}, d={d}, {n or 'any number of'} rows: {found['warn']} of 200 warned of")
        assert found["refuse"] == 0 and found["warn"] <= (10 if coarse_again and n is None else 4)


def data(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(0)
    return g.uniform(size=(n, 2)), g.normal(size=(n, 1))


def fresh(n: int = 50) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(1)
    return g.uniform(size=(n, 2)), g.normal(size=(n, 1))


def mixed(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.vstack([x for x, _ in parts]), np.vstack([y for _, y in parts])


def test_one_row_that_is_known_is_enough() -> None:
    x, y = data()
    found = find_copies(x, y, *mixed(fresh(), (x[7:8], y[7:8])))
    assert (found.verdict, found.exact, found.near, found.first) == ("refuse", 1, 0, 50)
    near = find_copies(x, y, *mixed(fresh(), (x[7:8] + 1e-9, y[7:8])))
    assert (near.verdict, near.exact, near.near, near.first) == ("warn", 0, 1, 50)


def test_exact_and_near_copies_are_counted_apart() -> None:
    x, y = data()
    found = find_copies(x, y, *mixed((x[:4], y[:4]), fresh(), (x[4:10] + 1e-9, y[4:10])))
    assert (found.verdict, found.exact, found.near, found.first, found.places) == ("refuse", 4, 6, 0, 4)
    assert str(found).startswith("10 of 60 calibration points are training points, exactly or nearly, the")


@pytest.mark.parametrize(
    ("points", "known", "end"),
    [
        ("calibration", "training", "so their scores are too small and the band would cover too little."),
        ("held-out", "training", "so their scores are too small and the band would cover too little."),
        ("test", "training", "The network has seen them, so they are covered too easily and prove nothing."),
        ("test", "calibration", "They are covered by construction and prove nothing."),
    ],
)
def test_the_sentence_says_what_follows(points: str, known: str, end: str) -> None:
    x, y = data()
    text = find_copies(x, y, x[:30], y[:30], points=points, known=known).text
    assert (
        text.startswith(f"30 of 30 {points} points are {known} points, the first in row 0. ") and end in text
    )


def test_sentences_on_what_is_fine() -> None:
    x, y = data()
    assert str(find_copies(x, y, *fresh())) == "No calibration point is a training point, exactly or nearly."
    again = find_copies(x, y, x[:50], fresh()[1])
    assert again.places == 50 and "lie at training inputs with different readings" in again.text
    x, y = x.round(1), y.round()
    assert "expected by chance" in find_copies(*mixed((x, y), (x, y)), x[:50], y[:50]).text
    assert "different shape" in find_copies(x, y, x[:, :1], y).text
    assert "different shape" in find_copies(x, y, x, np.hstack([y, y])).text


def test_only_warned_of_where_readings_do_not_tell() -> None:
    """The same places with the same constant reading: fresh, or the same rows."""
    x, _ = data()
    found = find_copies(x, np.ones(100), x[:50], np.ones(50))
    assert (found.verdict, found.exact) == ("warn", 50) and "If they are the same readings: the" in found.text
    assert find_copies(x, np.ones(100), fresh()[0], np.ones(50)).verdict == "fine"


def test_moved_within_tiny_units_is_warned_of() -> None:
    x, y = data()
    moved = 1e-6 * x[:30] + 1e-9 * np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    found = find_copies(1e-6 * x, 1e-6 * y, moved, 1e-6 * y[:30])
    assert (found.verdict, found.near) == ("warn", 30)


def test_dead_sensors_are_no_copies() -> None:
    g, places = np.random.default_rng(0), np.arange(50.0)
    known, new = (np.append(np.zeros(20), g.normal(size=30)) for _ in range(2))
    assert find_copies(places, known, places, new).verdict == "fine"
    assert find_copies(places, known, places, known).verdict == "refuse"


def test_solutions_without_noise() -> None:
    """The same point of a solver is a copy; a point between two nodes is not, however near."""
    x = np.linspace(0, 1, 101)
    assert find_copies(x, np.sin(3 * x), x[::5], np.sin(3 * x[::5])).verdict == "refuse"
    between = (x[1:] + x[:-1]) / 2
    assert find_copies(x, np.sin(3 * x), between, np.sin(3 * between)).verdict == "fine"
    assert find_copies(x[::2], np.sin(3 * x[::2]), x[1::2], np.sin(3 * x[1::2])).verdict == "fine"


def test_repeated_rows_explain_as_many_and_hide_no_leak() -> None:
    x, y = data()
    twice = mixed((x, y), (x, y))
    assert find_copies(*twice, x[:50], y[:50]).verdict == "warn"  # every row occurs twice: copied, then split
    coarse = (x.round(1), y.round())
    assert find_copies(*mixed(coarse, coarse), coarse[0][:50], coarse[1][:50]).verdict == "fine"
    found = find_copies(*mixed((x, y), (x[:1], y[:1])), x, y)
    assert (found.verdict, found.exact) == ("refuse", 100)


def test_whole_numbers() -> None:
    g = np.random.default_rng(0)
    x, x_new = g.integers(10, size=(100, 2)), g.integers(10, size=(50, 2))
    y, y_new = g.integers(5, size=100), g.integers(5, size=50)
    assert find_copies(x, y, x_new, y_new).verdict == "fine"
    assert find_copies(x, y, x[:50], y[:50]).verdict == "refuse"
    assert find_copies(range(30), range(30), range(30), range(30)).verdict == "refuse"


def test_columns_that_never_change() -> None:
    x, y = data()
    still = [np.hstack([a, np.ones((len(a), 1))]) for a in (x, fresh()[0], x[:30] + 1e-9)]
    assert find_copies(still[0], y, still[1], fresh()[1]).verdict == "fine"
    assert find_copies(still[0], y, still[2] + 1e-9, y[:30]).verdict == "refuse"
    one = np.ones((100, 1))
    assert find_copies(one, y, one[:50], fresh()[1]).verdict == "fine"
    assert find_copies(one, y, one[:50], y[:50].round(3)).verdict == "refuse"
    assert find_copies(one, one, one[:5], one[:5]).verdict == "fine"


@pytest.mark.parametrize("n", range(1, 7))
def test_few_known_rows(n: int) -> None:
    x, y = (a[:n] for a in data())
    assert find_copies(x, y, *fresh()).verdict == "fine"
    assert find_copies(x, y, *mixed(fresh(), (x[:1], y[:1]))).verdict == "refuse"


def test_no_rows_at_all() -> None:
    x, y = data()
    for rows, new in ((0, 5), (5, 0), (0, 0)):
        assert find_copies(x[:rows], y[:rows], x[:new], y[:new]).verdict == "fine"


def test_rows_that_are_not_finite_are_left_out() -> None:
    x, y = data()
    x[2], hole = np.inf, fresh()[0]
    hole[3, 0] = np.nan
    assert find_copies(x, y, hole, fresh()[1]).verdict == "fine"
    found = find_copies(x, y, *mixed((hole[:5], y[:5]), (x[10:20], y[10:20])))
    assert (found.n, found.exact, found.first) == (15, 10, 5)


@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e-6, 1e6, 1e300])
def test_units_do_not_matter(unit: float) -> None:
    (x, y), (x_new, y_new) = data(), fresh()
    assert find_copies(x * unit, y * unit, x_new * unit, y_new * unit).verdict == "fine"
    assert find_copies(x * unit, y * unit, x[:30] * unit, y[:30] * unit).verdict == "refuse"


def test_small_differences_of_large_numbers() -> None:
    (x, y), (x_new, y_new) = data(), fresh()
    assert find_copies(1e6 + x, y, 1e6 + x_new, y_new).verdict == "fine"
    assert find_copies(1e6 + x, y, (1e6 + x[:30]) * (1 + 1e-9), y[:30]).verdict == "warn"
    x, y, x_new, y_new = (a.astype(np.float32) for a in (1e6 + x, y, 1e6 + x_new, y_new))
    assert find_copies(x, y, x_new, y_new).verdict == "fine"
    assert find_copies(x, y, x[:30], y[:30]).verdict == "refuse"


def test_kinds_and_precisions_are_compared_in_the_coarser() -> None:
    x, y = data()
    single = torch.tensor(x[:30]).float(), torch.tensor(y[:30]).float()
    assert find_copies(x, y, *single).exact == 30
    assert find_copies(torch.tensor(x, requires_grad=True), y, x[:30], y[:30]).exact == 30
    half_x, half_y, half_new = (torch.tensor(a).bfloat16() for a in (x, y, fresh()[1]))
    assert find_copies(half_x, half_y, half_x[:50], half_new).verdict == "fine"
    assert find_copies(half_x, half_y, half_x[:50], half_y[:50]).verdict == "refuse"
    zero = np.zeros((1, 2)), np.zeros((1, 1))
    assert find_copies(*mixed((x, y), zero), -zero[0], -zero[1]).verdict == "refuse"


def test_whole_fields_are_rows() -> None:
    g = np.random.default_rng(0)
    x, y = g.normal(size=(60, 4)), g.normal(size=(60, 300, 2))
    assert find_copies(x[:40], y[:40], x[40:], y[40:]).verdict == "fine"
    for move in (lambda a: a, lambda a: a + 1e-9, lambda a: a.round(3)):
        found = find_copies(x[:40], y[:40], move(x[20:]), move(y[20:]))
        assert (found.verdict, found.exact + found.near, found.first) == ("refuse", 20, 0)
    waves = np.sin(np.outer(np.arange(1, 5), np.linspace(0, 1, 200)))
    smooth = (x @ waves)[..., None]
    assert find_copies(smooth[:40], smooth[:40] ** 2, smooth[40:], smooth[40:] ** 2).verdict == "fine"


def test_what_does_not_pair_up_is_refused() -> None:
    x, y = data()
    with pytest.raises(ValueError, match="should pair up, got 100, 5, 100, 100 rows"):
        find_copies(x, y[:5], x, y)


def test_threads_agree() -> None:
    x, y = data()
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda _: find_copies(x, y, x[:30] + 1e-9, y[:30]), range(16))
    assert len(set(found)) == 1


def test_many_rows_take_about_a_second() -> None:
    """100 000 known rows and 10 000 new ones; the bound is wide, for a busy machine."""
    from time import process_time

    g = np.random.default_rng(0)
    (x, y), (x_new, y_new) = ((g.uniform(size=(n, 3)), g.normal(size=n)) for n in (100_000, 10_000))
    start = process_time()
    assert find_copies(x, y, x_new, y_new).verdict == "fine"
    assert process_time() - start < 5


def test_known_places_in_small_tables_are_counted() -> None:
    x, y = data()
    assert find_copies(x, y, x, y[::-1]).places == len(x)


def test_numbers_rounded_to_three_decimals_are_found_in_small_tables() -> None:
    """Rounding moves them farther than the distance that counts as near."""
    g = np.random.default_rng(0)
    x, y = 1 + 0.1 * g.uniform(size=(100, 4)), 2 + 0.1 * g.normal(size=(100, 1))
    found = find_copies(x, y, x[:6].round(3), y[:6].round(3))
    assert (found.verdict, found.near) == ("refuse", 6)
