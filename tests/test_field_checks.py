"""Checks of whole fields: each alarm is raised when it should be, and hardly ever otherwise."""

from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.checks.extrapolation import energy_test, leading
from guardband.conformal import CoverageLaw, rank
from guardband.conformal.laws import tails, total_counts
from guardband.leaks import shared_states, states_of

NODES, STEPS = 24, 4
PLACES = np.linspace(0, 1, NODES)
WAVES = np.array([np.cos(k * np.pi * PLACES) / k for k in range(1, 7)])


def inputs(generator: np.random.Generator, n: int) -> np.ndarray:
    """Smooth random functions (n, nodes, 1)."""
    return (generator.normal(size=(n, 6)) @ WAVES)[..., None]


def step(u: np.ndarray) -> np.ndarray:
    """One step of a flow that decays without coming to rest."""
    return 0.9 * np.roll(u, 1, axis=1) + 0.1 * np.sin(u)


def runs(generator: np.random.Generator, n: int, steps: int) -> np.ndarray:
    """Whole trajectories (n, steps + 1, nodes, 1)."""
    states = [inputs(generator, n)]
    for _ in range(steps):
        states.append(step(states[-1]))
    return np.stack(states, axis=1)


def of(u: np.ndarray, **options: Any) -> gb.Calibrated:
    """A calibration on trajectories, from the first state to all later ones, of a model without change."""

    def model(x: np.ndarray) -> np.ndarray:
        return np.repeat(x[:, None], u.shape[1] - 1, axis=1)

    predictor = gb.predictors.MeanOnly(model, training_data=options.pop("training", None))
    return gb.calibrate(predictor, u[:, 0], trajectories(u), score=gb.Simultaneous(), **options)


def trajectories(u: np.ndarray) -> gb.Fields:
    return gb.Fields(u[:, 1:], dims=("t", "x"), coordinates={"x": PLACES})


def pieces(u: np.ndarray, length: int) -> np.ndarray:
    """Windows of `length` steps, each of which starts at the end of the previous one."""
    starts = range(0, u.shape[1] - length, length)
    return np.concatenate([u[:, start : start + length + 1] for start in starts])


def false_alarms(trials: int) -> float:
    """The rate of alarms for fresh trajectories if training trajectories are known."""
    generator, found = np.random.default_rng(0), 0
    for i in range(trials):
        u = runs(generator, 140, STEPS)
        training = gb.Observations(u[:40, 0], u[:40, 1:])
        made = of(u[40:80], training=training)
        found += not gb.check(made, gb.Fields(u[80:, 0], dims="x", coordinates={"x": PLACES}), seed=i).ok
    return found / trials


def test_fresh_trajectories_raise_no_alarm() -> None:
    assert false_alarms(50) <= 0.1


@pytest.mark.long
def test_at_most_two_false_alarms_in_a_hundred() -> None:
    rate = false_alarms(1000)
    print(f"false alarms of whole fields: {rate:.3f}")
    assert rate <= 0.02


# Number of fields.


def test_too_few_fields_are_counted_as_fields() -> None:
    u = runs(np.random.default_rng(1), 40, STEPS)
    few, enough = (gb.check(of(u[:n]), u[20:, 0], level=0.95)["size"] for n in (18, 19))
    assert few.alarm and few.text.startswith("18 calibration fields are too few for 95 %")
    assert not enough.alarm and enough.text.startswith("19 calibration fields are enough")


def test_nodes_given_as_points_are_readings_of_few_places() -> None:
    """Twenty fields of 24 nodes are not 480 calibration points."""
    y = inputs(np.random.default_rng(2), 20)[..., 0]
    x = np.tile(PLACES, 20)
    found = gb.check(gb.calibrate(np.zeros_like, x, y.ravel()), PLACES + 0.001)["sensors"]
    assert found.alarm and "480 calibration readings come from only 24 locations" in found.text


# Pieces of trajectories.


def test_pieces_in_training_and_calibration_are_seen_by_their_states() -> None:
    u = pieces(runs(np.random.default_rng(3), 30, 3 * STEPS), STEPS)
    order = np.random.default_rng(4).permutation(len(u))
    u, fresh = u[order], runs(np.random.default_rng(5), 40, STEPS)
    training = gb.Observations(u[:45, 0], u[:45, 1:])
    found = gb.check(of(u[45:].astype(np.float32), training=training), fresh[:, 0])["trajectories"]
    assert found.alarm and "of 45 calibration fields are pieces" in found.text
    assert "gb.partition(..., groups=run)" in found.text
    assert not gb.check(of(fresh[:20], training=training), fresh[20:, 0])["trajectories"].alarm


def test_queries_that_go_on_where_calibration_ended_are_seen() -> None:
    u = runs(np.random.default_rng(6), 30, 2 * STEPS)
    made = of(u[:, : STEPS + 1])
    found = gb.check(made, u[:, STEPS])["trajectories"]
    assert found.alarm and found.text.startswith("30 of 30 queries are pieces of trajectories that also")
    assert not gb.check(made, runs(np.random.default_rng(7), 30, 0)[:, 0])["trajectories"].alarm


def test_single_steps_of_one_trajectory_are_its_pieces() -> None:
    """Pairs of a state and the next one, for a model of one step without a time axis."""
    u = runs(np.random.default_rng(8), 10, 10)
    x, y = u[:, :-1].reshape(-1, NODES, 1), u[:, 1:].reshape(-1, NODES, 1)
    made = gb.calibrate(lambda x: 0 * x, x, y, score=gb.Simultaneous())
    found = gb.check(made, inputs(np.random.default_rng(9), 40))["trajectories"]
    assert found.alarm and "100 of 100 calibration fields" in found.text and "Clustered()" in found.text
    groups = np.repeat(np.arange(10), 10)
    options: dict[str, Any] = {"score": gb.Simultaneous(), "calibrator": gb.Clustered(), "groups": groups}
    clustered = gb.calibrate(lambda x: 0 * x, x, y, **options)
    assert not gb.check(clustered, inputs(np.random.default_rng(9), 40), level=0.8)["trajectories"].alarm


def test_pieces_that_do_not_touch_are_known_by_their_labels() -> None:
    long = runs(np.random.default_rng(10), 60, 3 * STEPS)
    u, late = long[:, : STEPS + 1], long[:, 2 * STEPS :]
    made, fresh = of(late[:40], training=gb.Observations(u[:40, 0], u[:40, 1:])), late[40:, 0]
    assert not gb.check(made, fresh)["trajectories"].alarm
    same = {"training": np.arange(40), "calibration": np.arange(40), "queries": np.arange(40, 60)}
    found = gb.check(made, fresh, runs=same)["trajectories"]
    assert found.alarm and found.text.startswith("40 of 40 calibration fields")
    found = gb.check(made, fresh, runs=same | {"training": 100 + np.arange(40)})["trajectories"]
    assert not found.alarm and "According to the labels" in found.text
    twice = {"calibration": np.repeat(np.arange(20), 2)}
    assert "count as one" in gb.check(made, fresh, runs=twice)["trajectories"].text
    with pytest.raises(ValueError, match="`runs` should name trajectories of training, calibration, queries"):
        gb.check(made, fresh, runs={"test": np.arange(40)})
    with pytest.raises(ValueError, match=r"one label per row, shape \(40,\)"):
        gb.check(made, fresh, runs={"calibration": np.arange(39)})


def test_a_common_start_is_no_evidence() -> None:
    u = runs(np.random.default_rng(11), 80, STEPS)
    u[:, 0] = u[0, 0]  # the same start, and different continuations
    made = of(u[:40], training=gb.Observations(u[60:, 0], u[60:, 1:]))
    assert not gb.check(made, u[40:60, 0])["trajectories"].alarm


def test_states_are_compared_whatever_the_order_of_their_axes() -> None:
    u = np.random.default_rng(12).normal(size=(3, 2, 5, 5)).astype(np.float32)  # outputs first
    targets = np.moveaxis(u, 1, -1).astype(float)
    assert shared_states(states_of(0 * u, targets, None), states_of(u, None, None)).all()
    assert not shared_states(states_of(0 * u, None, None), states_of(0 * u, None, None)).any()


# Shift.


def test_inputs_of_another_kind_are_a_shift() -> None:
    generator = np.random.default_rng(13)
    made = of(runs(generator, 60, STEPS))
    shifts = {
        "larger": 2 * inputs(generator, 60),
        "rougher": inputs(generator, 60) + 0.5 * generator.normal(size=(60, NODES, 1)),
        "elsewhere": inputs(generator, 60) + 1.0,
    }
    for name, x in shifts.items():
        assert gb.check(made, x)["shift"].alarm, name
    assert gb.check(made, 5 + inputs(generator, 60))["far"].alarm
    assert gb.check(made, inputs(generator, 60)).ok


def test_the_test_of_shift_is_exact() -> None:
    """p-values of permutations are uniform, tested with the binomial law at 1e-3."""
    from scipy.stats import binom

    generator, trials = np.random.default_rng(14), 300
    values = []
    for _ in range(trials):
        rough = inputs(generator, 50)[..., 0] * np.exp(generator.normal(size=(50, 1)))
        values.append(energy_test(*leading(rough[:30], rough[30:]), generator))
    for level in (0.05, 0.2, 0.5):
        count = int((np.array(values) <= level).sum())
        assert 1e-3 < binom.cdf(count, trials, level) and 1e-3 < binom.sf(count - 1, trials, level)


def test_components_are_those_of_both_samples() -> None:
    a, b = inputs(np.random.default_rng(15), 20)[..., 0], 3 + inputs(np.random.default_rng(16), 20)[..., 0]
    first, second = leading(a, b)
    assert first.shape == second.shape and first.shape[1] <= 6
    between = np.linalg.norm(a[:, None] - b[None], axis=2)
    kept = np.linalg.norm(first[:, None] - second[None], axis=2)
    assert np.allclose(kept / between, (kept / between)[0, 0], rtol=0.1)
    still = leading(np.ones((5, 30)), np.ones((4, 30)))
    assert [part.shape for part in still] == [(5, 1), (4, 1)] and not np.any(still[0])


# Resolution.


def test_another_resolution_is_an_alarm() -> None:
    made = of(runs(np.random.default_rng(17), 40, STEPS))
    coarse = inputs(np.random.default_rng(18), 20)[:, ::2]
    found = gb.check(made, coarse)
    assert found["resolution"].alarm and "each is 12 x 1, not 24 x 1" in found["resolution"].text
    there = inputs(np.random.default_rng(18), 20)
    for nodes, alarm in ((PLACES, False), (2 * PLACES, True)):
        fields = gb.Fields(there, dims="x", coordinates={"x": nodes})
        found = gb.check(made, fields)["resolution"]
        assert found.alarm is alarm and ("nodes along x have different coordinates" in found.text) is alarm
    coefficients = gb.calibrate(
        lambda x: 0 * there[: len(x)], there[:, :2, 0], there, score=gb.Simultaneous()
    )
    with pytest.raises(ValueError, match="should have 2 coordinates"):
        gb.check(coefficients, there[:, :3, 0])


# The mutant: pieces of one trajectory on both sides.

CAL, TEST, DRAWS, WINDOW = 19, 10, 200, 2


def covered(generator: np.random.Generator, mixed: bool) -> int:
    """The coverage of fresh trajectories for a model that has memorized its training pieces.

    The mutant calibrates on other pieces of its training trajectories.
    """
    decay = 0.97 ** np.arange(3 * WINDOW + 1)[:, None, None]
    train, cal, test = (inputs(generator, n)[:, None] * decay for n in (CAL, CAL, TEST))
    known = pieces(train, WINDOW)
    rows = np.concatenate([np.arange(len(train)), 2 * len(train) + np.arange(len(train))])
    known, middle = known[rows], known[len(train) : 2 * len(train)]  # first and last piece; the middle one
    calibration = middle if mixed else cal[:, WINDOW : 2 * WINDOW + 1]

    def nearest(x: np.ndarray) -> np.ndarray:
        """The successor of the nearest known state."""
        far = ((x[:, None] - known[None, :, 0]) ** 2).sum(axis=(2, 3))
        return known[far.argmin(axis=1), 1:]

    made = gb.calibrate(nearest, calibration[:, 0], trajectories(calibration), score=gb.Simultaneous())
    fresh = test[:, WINDOW : 2 * WINDOW + 1]
    return int(made.contains(fresh[:, 0], trajectories(fresh), 0.9).sum())


@pytest.mark.parametrize("mixed", [False, True])
def test_pieces_of_one_trajectory_in_both_parts_are_caught(mixed: bool) -> None:
    law = total_counts([(CoverageLaw(rank(CAL, 0.9), CAL), TEST)], repeats=DRAWS)
    generator = np.random.default_rng(19)
    low, high = tails(law, sum(covered(generator, mixed) for _ in range(DRAWS)))
    assert low < 1e-9 if mixed else min(low, high) > 1e-3
