"""Local conformal prediction: exact for any shape, wide where errors are large, aware of overfitting."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import guardband as gb
from guardband.conformal import Local, LogScale, OverfittedWarning
from guardband.conformal.local.sampler import MEAN, SIZE, Sampler
from guardband.conformal.local.shape import Flat, LocalShape, LocalThreshold, best_shape, log_score
from guardband.testing import HETEROSKEDASTIC, check_calibrator
from helpers import Shaped
from wings import pinn, torch

QUICK = LogScale(draws=10)


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on [-1, 1] and targets around zero, ten times noisier in the middle."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-1, 1, size=(n, 1))
    return x, np.where(abs(x) < 0.25, 1.0, 0.1) * generator.normal(size=(n, 1))


TRAIN = gb.Observations(*noisy(300, 0))
ZERO = gb.predictors.MeanOnly(np.zeros_like)


def steep(x: np.ndarray) -> np.ndarray:
    return 0.1 + x[:, 0] ** 2


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_any_shape_obeys_the_exact_law(confidence: float | None) -> None:
    check_calibrator(Shaped(steep), worlds=[HETEROSKEDASTIC], confidence=confidence, sizes=(9, 30, 100))


@pytest.mark.slow
def test_a_shape_per_level_obeys_the_exact_law() -> None:
    shape = pinn.PinballNetwork(per_level=True, steps=40).fit(*learned())
    check_calibrator(Shaped(shape), worlds=[HETEROSKEDASTIC], sizes=(19, 100), draws=200)


def learned() -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(TRAIN.x), abs(np.asarray(TRAIN.y))[:, 0]


def test_an_unclipped_shape_is_caught() -> None:
    class Unclipped(LocalShape):
        """The error of the paper's code: a shape that may be negative and is clipped only at prediction."""

        def threshold(self, scores: Any, prediction: Any, **options: Any) -> LocalThreshold:
            made = super().threshold(scores, prediction, **options)

            class Clipped(LocalThreshold):
                def __call__(self, prediction: Any, level: Any, groups: Any = None) -> np.ndarray:
                    return np.maximum(super().__call__(prediction, level, groups), 0)

            return Clipped(made.shape, made.scores, made.x)

    def crossing(x: np.ndarray) -> np.ndarray:
        return np.where(x[:, 0] < 0.1, -1.0, 1.0)

    with pytest.raises(AssertionError, match="coverage is too low"):
        check_calibrator(Shaped(crossing, Unclipped), worlds=[HETEROSKEDASTIC], sizes=[100])


def test_a_shape_fitted_on_the_calibration_set_is_caught() -> None:
    class Leaking(LocalShape):
        def threshold(self, scores: Any, prediction: Any, **options: Any) -> LocalThreshold:
            x = np.asarray(prediction.x)

            def nearest(new: np.ndarray) -> np.ndarray:
                near = abs(new[:, None, 0] - x[None, :, 0]).argmin(axis=1)
                return np.asarray(scores)[near] + 1e-3

            return LocalThreshold(nearest, np.asarray(scores), x)

    with pytest.raises(AssertionError, match="coverage is too low"):
        check_calibrator(Shaped(steep, Leaking), worlds=[HETEROSKEDASTIC], sizes=[30])


@pytest.mark.slow("learner1")
@pytest.mark.parametrize("learner", [LogScale(), pinn.PinballNetwork()])
def test_the_shape_is_large_where_the_noise_is(learner: Any) -> None:
    shape = learner.fit(*learned())
    inside, outside = shape(np.array([[0.0]])), shape(np.array([[0.7], [-0.7]]))
    assert (inside > 3 * outside).all() and (shape(np.array([[-5.0], [5.0]])) > 0).all()


@pytest.mark.slow
def test_bands_are_nested_and_follow_the_noise() -> None:
    calibrated = gb.calibrate(ZERO, *noisy(200, 1), calibrator=Local(TRAIN, QUICK))
    x, y = noisy(3000, 2)
    widths = [calibrated(x, level).width for level in (0.5, 0.8, 0.9, 0.95)]
    assert all((a <= b).all() for a, b in pairwise(widths))
    middle = (abs(x) < 0.25)[:, 0]
    evaluation = gb.evaluate(calibrated, x, y, regions={"middle": middle})
    ours, constant = evaluation.rows[1], evaluation.rows[3]
    assert ours.coverage > 0.88 > constant.coverage and evaluation.sharpness < evaluation.rows[2].sharpness
    assert "LocalShape(LogScaleShape)" in repr(calibrated) and "Consistent" in evaluation.verdict


def test_tensors_give_tensors() -> None:
    x, y = (torch.tensor(part) for part in noisy(100, 1))
    band = gb.calibrate(gb.predictors.MeanOnly(lambda x: 0 * x), x, y, calibrator=Local(TRAIN, QUICK))(
        x + 0.1
    )
    assert isinstance(band.upper, torch.Tensor) and band.upper.dtype == torch.float64


def test_even_noise_stays_nearly_even() -> None:
    x, _ = learned()
    even = abs(np.random.default_rng(3).normal(size=300))
    shape = best_shape(LogScale(), x, even)(x)
    assert shape.max() < 1.7 * shape.min()


def test_a_shape_that_does_harm_is_replaced_by_a_flat_one() -> None:
    class Wild:
        def fit(self, x: np.ndarray, scores: np.ndarray) -> Any:
            return lambda x: np.exp(3 * np.sin(1000 * x[:, 0]))

    assert isinstance(best_shape(Wild(), *learned()), Flat)
    assert isinstance(best_shape(QUICK, np.zeros((5, 1)), np.ones(5)), Flat)
    assert isinstance(best_shape(QUICK, np.zeros((50, 1)), np.zeros(50)), Flat)
    with pytest.raises(ValueError, match="training scores are infinite"):
        best_shape(QUICK, np.zeros((50, 1)), np.full(50, np.inf))


def test_the_log_score_is_in_units_of_width() -> None:
    scores = abs(np.random.default_rng(0).normal(size=1000))
    assert log_score(np.full(1000, 7.0), scores) == pytest.approx(log_score(np.ones(1000), scores))


def test_many_rows_are_carried_by_inducing_points() -> None:
    x, y = noisy(900, 5)
    shape = LogScale(draws=5, inducing=60).fit(x, abs(y)[:, 0])
    assert shape.kernels[0].points.shape == (60, 1) and (shape(x) > 0).all()


@pytest.mark.slow("0.0-learner0", "0.5-learner0", "0.9-learner0")
@pytest.mark.parametrize("learner", [QUICK, pinn.PinballNetwork(steps=40)])
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.7, 0.9, 0.99, 1.0])
def test_residuals_that_are_zero_are_small_ones(learner: Any, zeros: float) -> None:
    """A model that interpolates, or rounded readings: most residuals are exactly 0."""
    x, scores = learned()
    scores = np.where(np.random.default_rng(4).uniform(size=len(scores)) < zeros, 0, scores)
    for shape in (learner.fit(x, scores)(x), best_shape(learner, x, scores)(x)):
        assert np.isfinite(shape).all() and (shape > 0).all()


def test_a_shape_has_no_size() -> None:
    x, scores = learned()
    shape = QUICK.fit(x, scores)(x)
    for unit in (1e-150, 1e150):
        assert QUICK.fit(x, unit * scores)(x) == pytest.approx(shape)
        assert log_score(shape, unit * scores) - np.log(unit) == pytest.approx(log_score(shape, scores))


class Overfitted:
    """A predictor that has memorized its training data."""

    def __call__(self, x: np.ndarray) -> gb.Prediction:
        nearest = abs(x - np.asarray(TRAIN.x).T).argmin(axis=1)
        known = abs(x - np.asarray(TRAIN.x).T).min(axis=1) < 1e-12
        return gb.Prediction(x, np.where(known[:, None], 0.9 * np.asarray(TRAIN.y)[nearest], 0.0))


@pytest.mark.parametrize("way", ["held out", "refit"])
def test_an_overfitted_network_falls_back_to_plain_conformal_prediction(way: str) -> None:
    ways: dict[str, dict[str, Any]] = {
        "held out": {"held_out": gb.Observations(*noisy(60, 7))},
        "refit": {"refit": lambda train: ZERO},
    }
    local = Local(TRAIN, QUICK, **ways[way])
    with pytest.warns(OverfittedWarning, match="residuals at training points are 0.1"):
        calibrated = gb.calibrate(Overfitted(), *noisy(100, 1), calibrator=local)
    plain = gb.calibrate(Overfitted(), *noisy(100, 1))
    x, _ = noisy(50, 9)
    assert np.array_equal(calibrated(x).width, plain(x).width) and local.guarded
    assert not Local(TRAIN).guarded


@pytest.mark.slow
def test_a_network_trained_too_long_is_no_wider_than_plain_conformal_prediction() -> None:
    x, y = (torch.tensor(part).float() for part in noisy(40, 11))
    net = pinn.mlp(1, [64, 64], activation=lambda z: torch.sin(12 * z))
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(1500):
        optimiser.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        optimiser.step()
    train, held_out = gb.Observations(x, y), gb.Observations(*noisy(60, 7))
    known, fresh = (
        np.median(abs(net(torch.as_tensor(seen.x).float()).detach().numpy() - np.asarray(seen.y)))
        for seen in (train, held_out)
    )
    assert known < 0.5 * fresh
    predictor, local = gb.predictors.MeanOnly(net), Local(train, QUICK, held_out=held_out)
    with pytest.warns(OverfittedWarning):
        band = gb.calibrate(predictor, *noisy(100, 1), calibrator=local)(noisy(50, 9)[0])
    assert np.array_equal(band.width, gb.calibrate(predictor, *noisy(100, 1))(noisy(50, 9)[0]).width)


@pytest.mark.slow
def test_a_good_network_passes_the_guard() -> None:
    for local in (
        Local(TRAIN, QUICK, held_out=gb.Observations(*noisy(200, 7))),
        Local(TRAIN, QUICK, refit=lambda _: ZERO),
    ):
        assert not isinstance(local.learn(ZERO, gb.Scaled()).shape, Flat)


@pytest.mark.slow
def test_arrays_alone_will_do() -> None:
    x, y = noisy(100, 1)
    zero = gb.Prediction(TRAIN.x, np.zeros_like(TRAIN.y))
    calibrated = gb.calibrate_arrays(0 * y, y, x_cal=x, calibrator=Local(TRAIN, QUICK, prediction=zero))
    assert calibrated.band(gb.Prediction(x, 0 * y), 0.9).contains(y).mean() >= 0.9
    with pytest.raises(ValueError, match="uses the positions of points"):
        calibrated.band(gb.Prediction(None, 0 * y))
    with pytest.raises(ValueError, match="Local\\(training_data, prediction="):
        gb.calibrate_arrays(0 * y, y, x_cal=x, calibrator=Local(TRAIN, QUICK))
    fresh = gb.Observations(*noisy(30, 7))
    with pytest.raises(ValueError, match="give `held_out_prediction`"):
        gb.calibrate_arrays(
            0 * y, y, x_cal=x, calibrator=Local(TRAIN, QUICK, held_out=fresh, prediction=zero)
        )


def test_errors_teach() -> None:
    with pytest.raises(ValueError, match="held-out rows are training rows"):
        Local(TRAIN, held_out=TRAIN).learn(ZERO, gb.Scaled())
    with pytest.raises(ValueError, match="300 of 300 calibration points are training points"):
        gb.calibrate(ZERO, TRAIN.x, TRAIN.y, calibrator=Local(TRAIN))
    fresh = gb.Observations(*noisy(30, 7))
    with pytest.raises(ValueError, match="30 of 30 calibration points are held-out points"):
        gb.calibrate(ZERO, fresh.x, fresh.y, calibrator=Local(TRAIN, held_out=fresh))
    with pytest.raises(TypeError, match=r"gb.Observations\(x, y\)"):
        Local(TRAIN.x)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"`training_data` should have 2 coordinates like the .* points, got 1"
    ):
        LocalShape(steep, 1).threshold(np.ones(3), gb.Prediction(np.zeros((3, 2)), np.zeros(3)))
    with pytest.raises(ValueError, match="`calibrate` calls `learn` first"):
        Local(TRAIN).threshold(np.ones(3), gb.Prediction(np.zeros((3, 1)), np.zeros(3)))
    with pytest.raises(ValueError, match="treats all points alike"):
        gb.calibrate(ZERO, *noisy(20, 1), calibrator=Shaped(steep), groups=np.zeros(20, int))
    with pytest.warns(gb.conformal.InfiniteBandWarning):
        band = gb.calibrate(ZERO, *noisy(9, 1), calibrator=Shaped(steep))(np.zeros((1, 1)), 0.95)
    assert np.isinf(band.upper).all()


@pytest.mark.slow
def test_a_pinball_network_is_monotone_in_the_level() -> None:
    for per_level in (False, True):
        shape = pinn.PinballNetwork(per_level=per_level, steps=60).fit(*learned())
        x = np.linspace(-1, 1, 50)[:, None]
        levels = [shape(x, level) for level in (0.01, 0.05, 0.33, 0.5, 0.95, 0.99)]
        assert all((a <= b).all() for a, b in pairwise(levels)) and (levels[0] > 0).all()
    alone = pinn.PinballNetwork(levels=(0.9,), steps=20).fit(*learned())
    assert np.array_equal(alone(x, 0.9), alone(x, 0.5))
    calibrated = gb.calibrate(ZERO, *noisy(100, 1), calibrator=Local(TRAIN, pinn.PinballNetwork(steps=40)))
    assert calibrated([0.1], 0.9).width > 0


@pytest.mark.filterwarnings("ignore::guardband.conformal.OverfittedWarning")
@pytest.mark.parametrize("m", [20, 50])
def test_a_network_that_learned_nothing_is_not_called_overfitted(m: int) -> None:
    """Noise of two sizes: medians of a few points jump between them, but ranks do not."""
    generator = np.random.default_rng(0)

    def draw(n: int) -> gb.Observations:
        x = generator.uniform(size=(n, 1))
        return gb.Observations(x, np.where(x < 0.5, 0.05, 1.0) * generator.normal(size=(n, 1)))

    fell_back = 0
    for _ in range(100):
        local = Local(draw(300), learner=Never(), held_out=draw(m))
        fell_back += isinstance(local.learn(ZERO, gb.Absolute()).shape, Flat)
    assert fell_back <= 5


class Never:
    """A fast learner whose shape is not flat."""

    def fit(self, x: np.ndarray, scores: np.ndarray) -> Any:
        return lambda x: np.where(x[:, 0] < 0.5, 0.05, 1.0)


def test_few_positive_residuals_make_a_flat_shape() -> None:
    scores = np.zeros(40)
    scores[3] = 1.0
    assert isinstance(best_shape(QUICK, np.linspace(0, 1, 40)[:, None], scores), Flat)


def test_huge_scores_make_the_same_shape() -> None:
    x, scores = np.linspace(-1, 1, 60)[:, None], abs(noisy(60, 3)[1][:, 0])
    small, huge = (QUICK.fit(x, scores * factor)(x) for factor in (1.0, 2.0**600))
    assert np.allclose(small, huge)


# The sampler: the gradient is that of the likelihood, and the draws follow the exact posterior

POINTS = np.linspace(-1, 1, 12)
SCORES = np.where(POINTS > 0.3, 3.0, 0.5) * abs(np.random.default_rng(0).normal(size=12))
ROUGH, SMOOTH = np.sign(POINTS - 0.3)[:, None], POINTS[:, None]
"""Two length scales of a kernel, with one feature each."""


def sampler(states: int, seed: int = 0) -> Sampler:
    return Sampler([ROUGH, SMOOTH], SCORES, states, np.random.default_rng(seed))


def log_likelihood(feature: np.ndarray, w: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The log-likelihood of half-normal scores with the floor integrated out, directly from the model."""
    h = MEAN[0] + MEAN[1] * a + SIZE[0] * np.exp(SIZE[1] * b) * w * feature[:, 0]
    logs = np.logaddexp(0, h)
    return -logs.sum(-1) - 0.5 * len(SCORES) * np.log((SCORES**2 * np.exp(-2 * logs)).sum(-1))


def test_the_slope_is_that_of_the_likelihood() -> None:
    states = sampler(6)
    fit, slope = states._likelihood(states.z)
    parts = [
        log_likelihood([ROUGH, SMOOTH][k], *z[:, None]) for k, z in zip(states.kernel, states.z, strict=True)
    ]
    assert fit == pytest.approx(np.array(parts))
    for column in range(3):
        step = 1e-5 * np.eye(3)[column]
        rise = states._likelihood(states.z + step)[0] - states._likelihood(states.z - step)[0]
        assert slope[:, column] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_the_draws_are_of_the_posterior() -> None:
    """Compared with quadrature, at 4000 states: the share of each kernel and the mean of each coordinate."""
    grid = np.linspace(-6, 6, 81)
    w, a, b = (part[..., None] for part in np.meshgrid(grid, grid, grid, indexing="ij"))
    prior = sum(norm.logpdf(part[..., 0]) for part in (w, a, b))
    logs = np.stack([prior + log_likelihood(feature, w, a, b) for feature in (ROUGH, SMOOTH)])
    exact = np.exp(logs - logs.max())
    exact /= exact.sum()
    states = sampler(4000)
    states.anneal()
    states.move(5)
    spread = 4 / np.sqrt(1000)  # the effective sample size is smaller
    assert states.power == 1.0
    assert (states.kernel == 0).mean() == pytest.approx(exact[0].sum(), abs=spread)
    for column, part in enumerate((w, a, b)):
        mean = (exact.sum(0) * part[..., 0]).sum()
        sd = np.sqrt((exact.sum(0) * (part[..., 0] - mean) ** 2).sum())
        assert states.z[:, column].mean() == pytest.approx(mean, abs=spread * sd)
        assert states.z[:, column].std() == pytest.approx(sd, rel=spread)


def test_states_of_a_kernel_stand_together_and_keep_what_they_fit() -> None:
    states = sampler(40)
    states.anneal()
    assert (np.diff(states.kernel) >= 0).all()
    assert states.log_likelihood == pytest.approx(states._likelihood(states.z)[0])
