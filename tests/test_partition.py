"""Partition: parts share no row and no group, and have the requested sizes and the type of the input."""

import pickle
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.stats import binom

import guardband as gb
from guardband.conformal.rank import allow_infinite
from guardband.testing import untouched
from wings import torch


def data(n: int = 100) -> gb.Observations:
    return gb.Observations(np.arange(2.0 * n).reshape(n, 2), -np.arange(float(n)))


def test_parts_share_no_row_and_have_the_sizes_asked_for() -> None:
    parts = gb.partition(data(), train=0.5, choose=0.1, calibrate=0.3, test=0.1)
    assert [len(part) for part in parts] == [50, 10, 30, 10]
    assert sorted(np.concatenate(list(parts.indices.values()))) == list(range(100))
    for name, indices in parts.indices.items():
        part = getattr(parts, name)
        assert (part.x == data().x[indices]).all() and (part.y == data().y[indices]).all()
        assert (np.diff(indices) > 0).all() and not indices.flags.writeable
    assert repr(parts) == "Parts(50 train, 10 choose, 30 calibrate, 10 test)"


def test_whole_numbers_are_rows_and_the_rest_is_left_out() -> None:
    parts = gb.partition(data(), calibrate=19, test=1)
    calibrate, test = parts
    assert (len(calibrate), len(test), parts.train, parts.choose) == (19, 1, None, None)
    assert repr(parts) == "Parts(19 calibrate, 1 test; 80 left out)"
    assert len(gb.partition(data(), train=1.0).train) == 100 and len(gb.partition(data(), train=1).train) == 1


@pytest.mark.parametrize("n", [7, 10, 11, 99, 1000])
def test_shares_are_met_to_the_row(n: int) -> None:
    shares = (0.15, 0.35, 0.3, 0.2)
    parts = gb.partition(data(n), train=shares[0], choose=shares[1], calibrate=shares[2], test=shares[3])
    sizes = [len(part) for part in parts]
    assert sum(sizes) == n
    assert max(abs(size - share * n) for size, share in zip(sizes, shares, strict=True)) < 1
    thirds = gb.partition(data(n), train=1 / 3, calibrate=1 / 3, test=1 / 3)
    assert sum(map(len, thirds)) == n


def test_the_seed_decides_and_every_row_is_as_likely() -> None:
    """Each of 20 rows is in a half of 10 in 151 to 249 of 400 cases, except with probability 1e-4."""
    first, same, other = (gb.partition(data(), train=0.5, seed=seed).indices["train"] for seed in (1, 1, 2))
    assert (first == same).all() and (first != other).any()
    counts = np.zeros(20, int)
    for seed in range(400):
        counts[gb.partition(data(20), calibrate=10, seed=seed).indices["calibrate"]] += 1
    assert counts.min() > 150 and counts.max() < 250


def test_groups_stay_whole() -> None:
    g = np.random.default_rng(0)
    for seed in range(50):
        sensors = g.integers(int(g.integers(3, 40)), size=200)
        try:
            parts = gb.partition(data(200), train=0.6, calibrate=0.3, test=0.1, groups=sensors, seed=seed)
        except ValueError as error:
            assert "3 parts need at least as many groups" in str(error)
            continue
        seen = [set(labels.tolist()) for labels in parts.groups.values() if labels is not None]
        assert len(set.union(*seen)) == sum(map(len, seen)) == len(np.unique(sensors))
        assert sum(map(len, parts)) == 200
        for name, indices in parts.indices.items():
            assert (sensors[indices] == parts.groups[name]).all()


def test_each_part_gets_its_share_of_the_groups_whatever_their_sizes() -> None:
    g = np.random.default_rng(0)
    for seed in range(50):
        sensors = np.repeat(np.arange(60), g.integers(1, 9, size=60))
        parts = gb.partition(
            data(len(sensors)), train=0.5, calibrate=0.25, test=0.25, groups=sensors, seed=seed
        )
        counts = {name: len(np.unique(of)) for name, of in parts.groups.items() if of is not None}
        assert max(abs(counts["train"] - 30), abs(counts["calibrate"] - 15)) <= 1
    even = gb.partition(
        data(60), train=0.5, calibrate=0.3, test=0.2, groups=[f"run {i // 3}" for i in range(60)]
    )
    assert [len(part) for part in even] == [30, 18, 12]
    assert repr(even) == "Parts(30 train in 10 groups, 18 calibrate in 6 groups, 12 test in 4 groups)"


def one_large_group() -> np.ndarray:
    """218 rows in 19 groups, one of which has 200."""
    return np.repeat(np.arange(19), [200, *[1] * 18])


def test_the_number_of_groups_does_not_depend_on_where_a_large_one_falls() -> None:
    """In 0.2 there were 1 to 18 calibration groups, depending on the place of the large one."""
    options = {"calibrate": 0.5, "test": 0.5, "groups": one_large_group()}
    made = [gb.partition(data(218), **options, seed=seed) for seed in range(20)]
    counts = [[len(np.unique(of)) for of in parts.groups.values() if of is not None] for parts in made]
    assert all(count == counts[0] for count in counts) and sorted(counts[0]) == [9, 10]


def covered_groups(sets: int) -> int:
    """The number of sets in which a reading of a random test group is covered at 80 % by `Clustered`.

    The large group is ten times as noisy as the others.
    """
    draw, covered, groups = np.random.default_rng(4), 0, one_large_group()
    for seed in range(sets):
        y = np.where(groups == 0, 10.0, 1.0) * draw.normal(size=len(groups))
        parts = gb.partition((y, y), calibrate=0.2, test=0.8, groups=groups, seed=seed)
        cal, test = parts.indices["calibrate"], parts.indices["test"]
        options = {"groups": groups[cal], "calibrator": gb.Clustered()}
        made = gb.calibrate_arrays(np.zeros(len(cal)), y[cal], **options)
        row = draw.choice(test[groups[test] == draw.choice(np.unique(groups[test]))])
        with allow_infinite():
            covered += int(made.contains(gb.Prediction(None, [0.0]), [y[row]], 0.8)[0])
    return covered


@pytest.mark.parametrize("sets", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_new_groups_are_covered_where_one_is_large(sets: int) -> None:
    """One-sided against Binomial(sets, .8) at 1e-3; the cut by rows of 0.2 covered 742 of 1000."""
    assert binom.cdf(covered_groups(sets), sets, 0.8) > 1e-3


def test_one_large_group_leaves_the_others_a_group_each() -> None:
    sensors = ["large"] * 90 + ["a"] * 5 + ["b"] * 5
    for seed in range(20):
        parts = gb.partition(data(), train=0.2, calibrate=0.5, test=0.3, groups=sensors, seed=seed)
        assert sorted(len(part) for part in parts) == [5, 5, 90]


def test_groups_of_all_sizes_are_as_likely_in_each_part() -> None:
    """The largest of ten groups is in the calibration half in 151 to 249 of 400 cases."""
    sensors = np.repeat(np.arange(10), [30, *[3] * 9])
    found = 0
    for seed in range(400):
        parts = gb.partition(data(57), calibrate=0.5, test=0.5, groups=sensors, seed=seed)
        found += 0 in parts.indices["calibrate"]
    assert 150 < found < 250


def test_kinds_are_kept() -> None:
    tensors = gb.Observations(torch.arange(10.0), torch.zeros(10))
    part = gb.partition(tensors, train=0.5, test=0.5).test
    assert isinstance(part, gb.Observations) and part.x.dtype == torch.float32
    frame = pandas.DataFrame({"t": np.arange(10.0), "x": np.arange(10.0)}, index=list("abcdefghij"))
    x, y = gb.partition((frame, pandas.Series(range(10))), calibrate=4).calibrate
    assert list(x.columns) == ["t", "x"] and len(y) == 4 and x["t"].tolist() == y.tolist()
    x, y = gb.partition((torch.arange(10), list(range(10))), test=3).test
    assert isinstance(x, torch.Tensor) and y.tolist() == x.tolist() and y.ndim == 1
    fields = gb.partition((np.zeros((10, 4)), np.zeros((10, 50, 2))), test=3).test
    assert fields[1].shape == (3, 50, 2)


def test_parts_go_where_they_belong() -> None:
    x = np.random.default_rng(0).uniform(size=(200, 1))
    groups = np.arange(200) // 4
    parts = gb.partition((x, np.sin(x)), train=0.4, calibrate=0.4, test=0.2, groups=groups)
    model = gb.predictors.MeanOnly(np.zeros_like, training_data=gb.Observations(*parts.train))
    made = gb.calibrate(model, *parts.calibrate, calibrator=gb.Clustered(), groups=parts.groups["calibrate"])
    assert gb.evaluate(made, *parts.test, level=0.8).n_test == len(parts.test[0])


def test_nothing_global_is_touched_and_parts_can_be_sent() -> None:
    with untouched():
        parts = gb.partition(data(), train=0.5, test=0.5)
    sent = pickle.loads(pickle.dumps(parts))
    assert repr(sent) == repr(parts) and (sent.test.x == parts.test.x).all()
    assert parts.groups == {"train": None, "test": None}


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"train": 0.7, "test": 0.4}, "Fractions should sum to at most 1, got 1.1"),
        ({"train": 50.0}, "pass integers, such as 50 instead of 50.0"),
        ({"train": 80, "test": 40}, "120 rows were requested, but there are 100"),
        ({"train": 0.7, "test": 20}, "all fractions or all numbers of rows, got train=0.7, test=20"),
        ({"train": 0.99, "test": 0.001}, "`test`, a fraction of 0.001 of 100 rows, would get no row"),
        ({}, "the size of at least one part: train, choose, calibrate, test"),
        ({"train": -0.5}, "`train` should be a fraction such as 0.3, or a number of rows, got -0.5"),
        ({"train": True}, "`train` should be a fraction such as 0.3, or a number of rows, got True"),
        ({"train": float("nan")}, "`train` should be a fraction"),
        ({"train": "half"}, "`train` should be a fraction"),
        ({"train": 0.5, "test": 0.5, "groups": np.zeros(100, int)}, "2 parts need at least as many groups, "),
        ({"train": 0.5, "groups": np.zeros(99, int)}, "one label per row"),
    ],
)
def test_what_cannot_be_done_is_said(sizes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gb.partition(data(), **sizes)


def test_what_is_not_a_pair_is_named() -> None:
    for wrong in (np.zeros((10, 2)), (np.zeros(3),), None, data().x):
        with pytest.raises(TypeError, match=r"should be gb.Observations\(x, y\) or a pair \(x, y\), got"):
            gb.partition(wrong, train=1)
    with pytest.raises(ValueError, match="should pair up, got 3 and 4 rows"):
        gb.partition((np.zeros(3), np.zeros(4)), train=1)
    with pytest.raises(ValueError, match="would get no row"):
        gb.partition((np.zeros(0), np.zeros(0)), train=0.5)
