"""Comparisons of `benchmarks/surrogates.py`: the places of UQNO's rule, and separately ranked steps."""

import math
import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

RIVALS = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "surrogate_rivals.py"))


def draws(n: int, total: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(n)
    for _ in range(200):
        order = generator.permutation(total)
        yield order[:n], order[n:]


@pytest.mark.parametrize(("n", "fields"), [(50, 6), (200, 20)])
def test_the_places_of_uqno_by_hand(n: int, fields: int) -> None:
    least = math.sqrt(math.log(10) / 2048)  # Hoeffding, 1024 nodes, delta = 0.1
    t = 0.1 / 3 + 2 * least / 3
    assert RIVALS["uqno_places"](n, 1024, 0.1, 0.1) == (math.ceil(1024 * (0.1 - t)), fields)


def test_uqno_takes_a_rank_below_the_exact_one_and_more_nodes_than_it_was_asked_for() -> None:
    ratios = np.sort(abs(np.random.default_rng(0).normal(size=(400, 1024))), axis=1)
    rows = list(RIVALS["compared_with_uqno"](ratios, np.ones(400), draws, 0.1, 0.9, (50,)))
    theirs, exact, ours = rows
    assert theirs["rank"] == 44 and exact["rank"] == ours["rank"] == ours["exact rank"] == 46
    assert theirs["nodes outside"] == 46 and ours["nodes outside"] == 102
    assert theirs["own share"] < 0.9 <= exact["own share"] + 0.02 and ours["coverage"] == ours["own share"]
    assert theirs["width"] > ours["width"] and min(row["p"] for row in rows) > 1e-4


def test_steps_apart_cover_too_few_trajectories_and_bonferroni_needs_many() -> None:
    misses = abs(np.random.default_rng(1).normal(size=(500, 20))) * np.arange(1.0, 21.0)
    grown = np.broadcast_to(np.arange(1.0, 21.0), (500, 20))
    rows = list(RIVALS["by_steps"](misses, misses / grown, grown, draws, 0.9, (50, 200)))
    found = {(row["rule"], row["n"]): row for row in rows}
    for n in (50, 200):
        assert found["steps apart", n]["coverage"] < 0.3
        assert found["one score, step and size", n]["p"] > 1e-4 < found["one score, constant", n]["p"]
    assert found["steps apart, Bonferroni", 50]["widths"] == [None] * 20
    assert found["steps apart, Bonferroni", 200]["coverage"] > 0.85
    assert (
        found["one score, step and size", 200]["widths"][0] < found["one score, constant", 200]["widths"][0]
    )
