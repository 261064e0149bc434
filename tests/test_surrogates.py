"""Surrogates: rollouts and adapted shapes obey the exact law, and are narrow where errors are small."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal import CoverageLaw, rank
from guardband.conformal.laws import tails, total_counts
from guardband.surrogates import (
    Adapted,
    ConstantScale,
    SizeScale,
    SmoothedScale,
    cross_fitted,
    horizon,
)
from wings import pinn, torch

NODES, STEPS = 12, 6


def step(u: Any) -> Any:
    """A surrogate of one step."""
    return 0.95 * u


def trajectories(generator: np.random.Generator, n: int, steps: int = STEPS) -> tuple[np.ndarray, gb.Fields]:
    """States of very different sizes and their trajectories, along which errors grow."""
    size = np.exp(generator.normal(size=(n, 1, 1)))
    x = size * generator.normal(size=(n, NODES, 1))
    state, found = x, []
    for _ in range(steps):
        state = 0.95 * state + 0.02 * size * generator.normal(size=state.shape)
        found.append(state)
    return x, gb.Fields(np.stack(found, axis=1), dims=("t", "x"))


def test_rollouts_obey_the_exact_law_and_are_narrower_with_a_shape() -> None:
    generator, draws, n, m = np.random.default_rng(0), 200, 19, 10
    rollout = gb.Rollout(step, STEPS)
    shaped = rollout.shaped(*trajectories(generator, 50))
    assert (np.diff(shaped.growth) > 0).all() and abs(shaped.power - 1) < 0.1  # type: ignore[arg-type]
    covered, widths = {0: 0, 1: 0}, {0: 0.0, 1: 0.0}
    for _ in range(draws):
        x, y = trajectories(generator, n + m)
        for which, predictor in enumerate((rollout, shaped)):
            made = gb.calibrate(predictor, x[:n], y[:n], score=gb.Simultaneous())
            covered[which] += int(made.contains(x[n:], y[n:], 0.9).sum())
            widths[which] += gb.metrics.sharpness(made(x[n:], 0.9))
    law = total_counts([(CoverageLaw(rank(n, 0.9), n), m)], repeats=draws)
    assert all(min(tails(law, count)) > 1e-3 / 4 for count in covered.values())
    assert widths[1] < widths[0] / 2


def test_other_grids_and_more_steps_are_refused() -> None:
    x, y = trajectories(np.random.default_rng(1), 30)
    made = gb.calibrate(gb.Rollout(step, STEPS), x, y, score=gb.Simultaneous())
    longer = gb.Rollout(step, STEPS + 1)(x + 1)
    with pytest.raises(ValueError, match="nodes and steps used at calibration"):
        made.band(longer, 0.9)
    with pytest.raises(ValueError, match=r"shape of the calibration points, \(n, 12, 1\)"):
        made(np.zeros((2, 13, 1)), 0.9)
    with pytest.raises(ValueError, match="7 nodes along t, not 6"):
        gb.evaluate(made, x + 1, trajectories(np.random.default_rng(1), 30, STEPS + 1)[1])
    with pytest.raises(ValueError, match="Which axes of the fields"):
        gb.calibrate(gb.Rollout(step, STEPS), x, y.values, score=gb.Simultaneous())


def test_the_horizon_is_where_the_mean_of_known_trajectories_says_more() -> None:
    generator = np.random.default_rng(2)
    x = generator.normal(size=(200, NODES, 1))
    decay = 0.8 ** np.arange(1, STEPS + 1)  # the truth decays, the surrogate does not
    y = gb.Fields(decay.reshape(-1, 1, 1) * x[:, None], dims=("t", "x"))
    rollout = gb.Rollout(lambda u: u, STEPS).shaped(x[:60], y[:60])
    made = gb.calibrate(rollout, x[60:150], y[60:150], score=gb.Simultaneous())
    found = horizon(made, made.predict(x[150:]), 0.9)
    assert found is not None and found.step is not None
    wider = found.widths > found.rival
    assert not wider[: found.step - 1].any() and wider[found.step - 1] and 2 <= found.step <= 5
    assert f"From step {found.step} on" in str(gb.evaluate(made, x[150:], y[150:], level=0.9))
    good = gb.Rollout(lambda u: 0.8 * u + 1e-3, STEPS).shaped(x[:60], y[:60])
    made = gb.calibrate(good, x[60:150], y[60:150], score=gb.Share(0.1))
    assert "At all 6 steps" in str(gb.evaluate(made, x[150:], y[150:], level=0.9))
    bare = gb.calibrate(gb.Rollout(step, STEPS), x[60:150], y[60:150], score=gb.Simultaneous())
    assert horizon(bare, bare.predict(x[150:]), 0.9) is None
    ball = gb.calibrate(good, x[60:150], y[60:150], score=gb.Norm())
    assert horizon(ball, ball.predict(x[150:]), 0.9) is None


def test_calibration_refuses_the_trajectories_that_gave_the_shape() -> None:
    x, y = trajectories(np.random.default_rng(3), 60)
    rollout = gb.Rollout(step, STEPS).shaped(x[:30], y[:30])
    with pytest.raises(ValueError, match="validation"):
        gb.calibrate(rollout, x[:40], y[:40], score=gb.Simultaneous())


def test_rollouts_refuse_what_is_wrong() -> None:
    x, y = trajectories(np.random.default_rng(4), 10)
    with pytest.raises(ValueError, match="positive integer"):
        gb.Rollout(step, 0)
    with pytest.raises(ValueError, match=r"same shape.*at step 1"):
        gb.Rollout(lambda u: u[:, :5], 2)(x)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="no longer finite at step 2"):
        gb.Rollout(lambda u: u * 1e200, 9)(1 + abs(x))
    with pytest.raises(ValueError, match="without the initial state"):
        gb.Rollout(step, STEPS + 1).shaped(x, y)
    with pytest.raises(ValueError, match="two trajectories"):
        gb.Rollout(step, STEPS).shaped(x[:1], y[:1])


def test_a_rollout_is_a_predictor_in_torch_and_numpy_and_is_kept(tmp_path: Path) -> None:
    x, y = trajectories(np.random.default_rng(5), 40)
    rollout = gb.Rollout(step, STEPS).shaped(x[:20], y[:20])
    inside = rollout(torch.tensor(x))
    assert torch.is_tensor(inside.scale) and np.allclose(inside.scale.numpy(), np.asarray(rollout(x).scale))
    made = gb.calibrate(rollout, x[20:], y[20:], score=gb.Simultaneous())
    again = gb.load(gb.save(made, tmp_path / "band"), step_model=step)
    assert np.array_equal(again(x[:3] + 1, 0.8).upper, made(x[:3] + 1, 0.8).upper)
    assert "size^" in repr(again.predictor)  # type: ignore[attr-defined]


# Adapted shapes.


def fields(
    generator: np.random.Generator, n: int, nodes: tuple[int, ...] = (24,)
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of very different sizes; the error of the mean 0 is large where the input is large."""
    size = np.exp(generator.normal(size=(n, *[1] * len(nodes), 1)))
    smooth = np.cumsum(generator.normal(size=(n, *nodes, 1)), axis=1) / np.sqrt(nodes[0])
    x = size * smooth
    return x, (0.1 * size + abs(x)) * generator.normal(size=x.shape)


ZERO = gb.predictors.MeanOnly(lambda x: 0 * x)


@pytest.mark.slow
def test_the_adapted_shape_is_narrower_and_keeps_the_law() -> None:
    generator, draws, n, m = np.random.default_rng(6), 100, 19, 10
    shape = pinn.surrogates.adapted(ZERO, *fields(generator, 300), steps=400)
    assert shape.chosen == "network" and shape.widths["network"] < shape.widths["size"] < 0.9
    covered, widths = 0, [0.0, 0.0]
    for _ in range(draws):
        x, y = fields(generator, n + m)
        made = gb.calibrate(shape, x[:n], y[:n], score=gb.Simultaneous())
        covered += int(made.contains(x[n:], y[n:], 0.9).sum())
        widths[0] += gb.metrics.sharpness(made(x[n:], 0.9))
        flat = made.constant_width()
        assert flat is not None
        widths[1] += gb.metrics.sharpness(flat.band(gb.Prediction(None, 0 * x[n:]), 0.9))
    law = total_counts([(CoverageLaw(rank(n, 0.9), n), m)], repeats=draws)
    assert min(tails(law, covered)) > 1e-3 and widths[0] < 0.6 * widths[1]


def test_where_nothing_is_to_be_learned_the_constant_shape_is_taken() -> None:
    generator = np.random.default_rng(7)
    x, y = generator.normal(size=(2, 150, 16, 1))
    shape = pinn.surrogates.adapted(ZERO, x, y, steps=150)
    assert shape.chosen == "constant" and shape.widths["constant"] == 1.0
    with pytest.raises(ValueError, match="at least 8 fields"):
        pinn.surrogates.adapted(ZERO, x[:4], y[:4])


def test_shapes_are_fixed_functions_and_kept(tmp_path: Path) -> None:
    generator = np.random.default_rng(8)
    x, y = fields(generator, 60)
    first, second = (
        pinn.surrogates.NetworkScale.fitted(ZERO, x[:40], y[:40], steps=20)(x[40:]).parts for _ in range(2)
    )
    assert np.array_equal(first["scale"], second["scale"])
    shape = pinn.surrogates.adapted(ZERO, x[:40], y[:40], steps=20)
    made = gb.calibrate(shape, x[40:], y[40:], score=gb.Simultaneous())
    kept = gb.load(gb.save(made, tmp_path / "band"), model=ZERO.model)
    assert np.array_equal(kept(x[:3] + 1, 0.8).upper, made(x[:3] + 1, 0.8).upper)
    assert "chosen on fields of its own" in str(gb.evaluate(made, *fields(generator, 30), level=0.8))
    with pytest.raises(ValueError, match="validation"):
        gb.calibrate(shape, x[:40], y[:40], score=gb.Simultaneous())


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [((2, 9), (9, 2)), ((6, 7, 1), (6, 7, 1)), ((1, 6, 7), (42, 1)), ((3,), (9, 1)), ((5, 1), (4, 5, 1))],
)
def test_the_second_network_takes_inputs_of_any_layout(
    inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(9)
    x, y = generator.normal(size=(20, *inputs)), generator.normal(size=(20, *outputs))
    model = gb.predictors.MeanOnly(lambda a: np.ones((len(a), *outputs)))
    scale = pinn.surrogates.NetworkScale.fitted(model, x, y, steps=3)(x.astype("float32")).parts["scale"]
    assert scale.shape == y.shape and scale.dtype == np.float32 and (scale > 0).all()


def test_rounding_of_inputs_of_one_size_is_not_blown_up() -> None:
    generator = np.random.default_rng(13)
    x, y = generator.normal(size=(2, 60, 24, 1))
    x = (x / np.sqrt(np.mean(x**2, axis=1, keepdims=True))).astype("float32")
    shape = pinn.surrogates.NetworkScale.fitted(ZERO, x, y, steps=50)
    whole, few = shape(x).parts["scale"], shape(x[:7] * np.float32(1 + 1e-6)).parts["scale"]
    assert np.allclose(few, whole[:7], rtol=1e-4)


def test_an_ensemble_is_smoothed_over_neighbors() -> None:
    generator = np.random.default_rng(10)
    noise = generator.normal(size=(3, 9, 8, 1))
    ensemble = gb.predictors.Ensemble([lambda x, part=part: x + part for part in noise])
    raw, smooth = ensemble(np.zeros((2, 9, 8, 1))), SmoothedScale(ensemble)(np.zeros((2, 9, 8, 1)))
    assert smooth.scale.std() < 0.5 * raw.scale.std()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="no scale to smooth"):
        SmoothedScale(ZERO)(np.zeros((2, 9, 1)))
    x = np.zeros((30, 9, 8, 1))
    assert (
        "smoothed" in pinn.surrogates.adapted(ensemble, x, x + generator.normal(size=x.shape), steps=2).widths
    )


def test_cross_fitting_predicts_each_field_by_a_model_without_it() -> None:
    x, y = fields(np.random.default_rng(11), 30)
    seen: list[int] = []

    def refit(some: Any, targets: Any) -> gb.Predictor:
        seen.append(len(some))
        known = {row.tobytes() for row in some}
        return gb.predictors.MeanOnly(
            lambda a: np.stack([np.full((24, 1), row.tobytes() in known) for row in a])
        )

    found = cross_fitted(refit, x, y, folds=3)
    assert seen == [20, 20, 20] and not found.mean.any()
    assert SizeScale.fitted(ZERO, x, y, prediction=found).power > 0.5
    assert pinn.surrogates.adapted(ZERO, x, y, prediction=found, steps=2).held_out is None
    with pytest.raises(ValueError, match="from 2 to the number"):
        cross_fitted(refit, x, y, folds=99)
    with pytest.raises(ValueError, match="shape of the predictions"):
        SizeScale.fitted(ZERO, x, y[:, :5])


def test_a_band_around_an_infinite_rival_has_no_warning() -> None:
    x, y = trajectories(np.random.default_rng(12), 30)
    rollout = gb.Rollout(step, STEPS).shaped(x[:20], y[:20])
    made = gb.calibrate(rollout, x[20:], y[20:], score=gb.Simultaneous())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert horizon(made, made.predict(x[:3] + 1), 0.99) is not None


def test_a_constant_shape_that_leaves_large_inputs_uncovered_is_flagged() -> None:
    """Errors grow with the input, and the selected shape does not."""
    generator = np.random.default_rng(40)
    size = np.exp(0.7 * generator.normal(size=(320, 1, 1)))
    x = size * generator.normal(size=(320, 8, 1))
    y = x + 0.1 * size * generator.normal(size=x.shape)
    shape = Adapted(ConstantScale(gb.predictors.MeanOnly(lambda x: x)), "constant", {"constant": 1.0})
    calibrated = gb.calibrate(shape, x[:120], y[:120], score=gb.Simultaneous())
    evaluation = gb.evaluate(calibrated, x[120:], y[120:], level=0.9)
    worst = min(evaluation.by_range.ranges, key=lambda one: one.coverage)
    assert worst.feature == "size of the input" and worst.alarm and worst.coverage < 0.8
    assert "a shape learned from more fields and gb.Grouped()" in str(evaluation)
    assert gb.check(calibrated, x[120:])["evenness"].note
