"""Scores: their values, their bands and their laws."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal.laws import CoverageLaw, tails, total_counts
from guardband.conformal.rank import quantile, rank
from guardband.conformal.scores import Score, Symmetric
from guardband.testing import check_score
from wings import torch

SCORES = [
    gb.Absolute(),
    gb.Scaled(),
    gb.conformal.Total(0.1),
    gb.conformal.Total(0),
    gb.Absolute(units=3.0),
    gb.Absolute(joint=False),
    gb.Scaled(joint=False),
    gb.conformal.Total(0.1, joint=False),
]


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_every_score_obeys_the_laws(score: Score, outputs: int) -> None:
    check_score(score, outputs=outputs)


def test_the_formulas() -> None:
    prediction = gb.Prediction(None, [[1.0, 2.0]], [[0.3, 3.0]])
    y = np.array([[2.0, 8.0]])
    assert gb.Absolute()(prediction, y) == pytest.approx([6.0])
    assert gb.Scaled()(prediction, y) == pytest.approx([1 / 0.3])
    assert gb.conformal.Total(0.4)(prediction, y) == pytest.approx([2.0])
    assert gb.conformal.Total((0.4, 4.0))(prediction, y) == pytest.approx([2.0])
    assert gb.conformal.Total([0.0, 4.0]).noise == (0.0, 4.0)


def test_without_a_scale_scaled_is_absolute_and_total_is_a_constant_width() -> None:
    bare = gb.Prediction(None, [1.0, 2.0])
    y = np.array([[2.0], [5.0]])
    assert gb.Scaled()(bare, y).tolist() == gb.Absolute()(bare, y).tolist() == [1.0, 3.0]
    assert gb.conformal.Total(0.5)(bare, y).tolist() == [2.0, 6.0]
    assert gb.conformal.Total(0.5).band(bare, 4.0, 0.9).width == pytest.approx(np.full((2, 1), 4.0))


def test_a_certain_predictor_that_misses_scores_infinity() -> None:
    certain = gb.Prediction(None, [1.0, 1.0], [0.0, 0.0])
    y = np.array([[1.0], [1.0 + 1e-9]])
    assert gb.Scaled()(certain, y).tolist() == [0.0, np.inf]
    band = gb.Scaled().band(certain, 5.0, 0.9)
    assert band.contains(y).tolist() == [True, False]
    assert not np.isnan(gb.Scaled().band(certain, np.inf, 0.9).width).any()


def test_a_field_is_one_row_with_one_score() -> None:
    prediction = gb.Prediction(None, np.zeros((3, 4, 2)), np.ones((3, 4, 2)))
    y = np.arange(24.0).reshape(3, 4, 2)
    assert gb.Scaled()(prediction, y).tolist() == [7.0, 15.0, 23.0]
    band = gb.Scaled().band(prediction, np.array([7.0, 1.0, np.inf]), 0.9)
    assert band.contains(y).tolist() == [True, False, True]


def test_huge_thresholds_overflow_to_infinity_and_never_to_nan() -> None:
    for dtype, huge in ((np.float64, 1e308), (np.float32, 1e38)):
        prediction = gb.Prediction(None, np.array([1e30, 0.0], dtype), np.array([1e10, 0.0], dtype))
        for q in (huge, np.full(2, huge), 1e308, np.full(2, 1e308)):
            band = gb.Scaled().band(prediction, q, 0.9)
            assert band.upper[0] == np.inf and band.lower[0] == -np.inf
            assert not np.isnan(band.upper).any() and not np.isnan(band.lower).any()


def test_the_band_keeps_the_dtype_and_the_memory_of_the_prediction() -> None:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        prediction = gb.Prediction(None, torch.ones(4, 1, dtype=dtype), torch.ones(4, 1, dtype=dtype))
        band = gb.conformal.Total(0.1).band(prediction, 2.0, 0.9)
        assert band.lower.dtype == band.upper.dtype == dtype
        assert bool((prediction.mean == 1).all()) and bool((prediction.scale == 1).all())


def test_a_score_of_your_own_is_three_lines() -> None:
    class Relative(Symmetric):
        def unit(self, prediction: gb.Prediction) -> np.ndarray:
            return abs(prediction.mean)

    check_score(Relative())


@pytest.mark.parametrize("noise", [-0.1, np.nan, np.inf, [0.1, -1.0], [[0.1]]])
def test_noise_should_be_a_standard_deviation(noise: float) -> None:
    with pytest.raises(ValueError, match="`noise` should be a standard deviation >= 0, got"):
        gb.conformal.Total(noise)


def test_noise_per_output_should_fit_the_outputs() -> None:
    with pytest.raises(ValueError, match=r"one number or one per output \(1\), got 2"):
        gb.conformal.Total((0.1, 0.2))(gb.Prediction(None, [1.0], [1.0]), np.zeros((1, 1)))


def test_the_raw_band_needs_a_scale() -> None:
    band = gb.conformal.raw_band(gb.Prediction(None, [0.0], [2.0]), "0.95")
    assert band.upper.item() == pytest.approx(2 * 1.959963985, rel=1e-8) and band.level == 0.95
    with pytest.raises(ValueError, match="This predictor has no scale, so it has no band before calibration"):
        gb.conformal.raw_band(gb.Prediction(None, [0.0]))


def test_a_score_never_broadcasts() -> None:
    prediction = gb.Prediction(None, [0.0, 0.0])
    assert gb.Scaled()(prediction, np.array([3.0, 1.0])).tolist() == [3.0, 1.0]
    with pytest.raises(ValueError, match=r"the shape of the predictions, \(2, 1\), got \(3, 1\)"):
        gb.Scaled()(prediction, np.ones(3))


def test_nan_is_in_no_set() -> None:
    prediction, y = gb.Prediction(None, np.zeros((3, 2))), np.array([[0.0, np.nan], [0.0, 0.0], [np.nan] * 2])
    for score in (gb.Absolute(), gb.Scaled(), gb.conformal.Total(1.0)):
        for q in (1.0, np.inf):
            assert score.contains(prediction, y, q).tolist() == [False, True, False]
    in_torch = gb.Prediction(None, torch.zeros(3, 2))
    assert gb.Scaled().contains(in_torch, torch.tensor(y), 1.0).tolist() == [False, True, False]
    made = gb.calibrate_arrays(np.zeros(30), np.arange(30.0))
    assert made.contains(gb.Prediction(None, [0.0, 0.0]), [np.nan, 1.0], 0.9).tolist() == [False, True]


@gb.kept
@dataclass(frozen=True, repr=False)
class SignedMiss(Score):
    """y - mean: one-sided, and negative for half of all targets."""

    def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
        return (y - prediction.mean)[:, 0]

    def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.Band:
        mean = prediction.mean
        q = np.asarray(q, mean.dtype).reshape(-1, 1)
        upper = mean + q + 4 * np.finfo(mean.dtype).eps * (abs(q) + abs(mean))
        return gb.Band(prediction.x, prediction.mean, np.full_like(upper, -np.inf), upper, level)


def test_scores_may_be_negative(tmp_path: Path) -> None:
    check_score(SignedMiss())
    y = np.linspace(-5, 1, 99)
    made = gb.calibrate_arrays(np.zeros(99), y, score=SignedMiss())
    assert made.threshold(made.prediction, 0.5) == quantile(y, 0.5) == y[49] < 0
    assert made.band(made.prediction, 0.5).contains(y).sum() == 50
    again = gb.load(gb.save(made, tmp_path))
    assert np.array_equal(again.band(made.prediction, 0.5).upper, made.band(made.prediction, 0.5).upper)
    with pytest.raises(ValueError, match="`scores` should be numbers, but row 0 is NaN"):
        quantile([np.nan, 1.0], 0.5)
    with pytest.raises(ValueError, match=r"learns from scores >= 0, one per row, which SignedMiss\(\)"):
        gb.calibrate(
            np.zeros_like, y, y, score=SignedMiss(), calibrator=gb.Local(gb.Observations(y + 0.03, y))
        )


def root_mean_square(difference: Any) -> Any:
    return (difference**2).mean(axis=(1, 2)) ** 0.5


@gb.kept
@dataclass(frozen=True, repr=False)
class InTheMean(Score):
    """The root mean square over a field: its sets are balls, not boxes."""

    def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
        return root_mean_square(y - prediction.mean)

    def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.values.NormBand:
        return gb.values.NormBand(prediction.x, prediction.mean, q, root_mean_square, level)


@dataclass(frozen=True, repr=False)
class Shapeless(InTheMean):
    """A score whose sets have no ends."""

    band = Score.band  # type: ignore[assignment]


def test_a_ball_is_a_set_too(tmp_path: Path) -> None:
    check_score(InTheMean(), nodes=5)
    check_score(InTheMean(), nodes=5, outputs=2)
    check_score(Shapeless(), nodes=5)
    fields = np.random.default_rng(0).normal(size=(150, 5, 1))
    for score in (InTheMean(), Shapeless()):
        made = gb.calibrate_arrays(0 * fields[:99], fields[:99], score=score)
        new = gb.Prediction(None, 0 * fields[99:])
        inside = made.contains(new, fields[99:], 0.9)
        found = gb.evaluate(made, new, fields[99:], level=0.9)
        assert found.coverage == inside.mean() and found.consistent is not None
        assert np.isnan(found.interval_score) and [row.name for row in found.rows][1:] == ["constant width"]
        if isinstance(score, Shapeless):
            assert np.isnan(found.sharpness)
            with pytest.raises(TypeError, match=r"set of Shapeless\(\) is not a box, .* calibrated.contains"):
                made.band(new, 0.9)
            continue
        ball = made.band(new, 0.9)
        assert isinstance(ball, gb.values.NormBand) and np.array_equal(ball.contains(fields[99:]), inside)
        assert found.sharpness == pytest.approx(2 * ball.radius[0])
        assert np.array_equal(gb.load(gb.save(made, tmp_path)).band(new, 0.9).radius, ball.radius)


SIZES = np.array([1.0, 1e5])
"""Two outputs, one a hundred thousand times as large as the other."""


def two_outputs(n: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = generator.uniform(size=(n, 1))
    return x, SIZES * (np.sin(3 * x) + 0.1 * generator.normal(size=(n, 2)))


def flat_model(training_data: gb.Observations | None = None) -> gb.predictors.MeanOnly:
    return gb.predictors.MeanOnly(lambda x: 0 * x + 0 * SIZES, training_data=training_data)


def test_each_output_has_the_unit_that_its_training_data_show() -> None:
    generator = np.random.default_rng(0)
    train = gb.Observations(*two_outputs(200, generator))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gb.calibrate(flat_model(train), *two_outputs(99, generator))
    spread = train.y.std(axis=0)
    width = made([0.5], 0.9).width[0]
    assert width / width[0] == pytest.approx(spread / spread[0])
    assert made.score == gb.Scaled(units=spread)
    found = gb.evaluate(made, *two_outputs(100, generator), level=0.9)
    assert found.rows[0].name == "this band"
    assert found.rows[0].widths == pytest.approx(width) and "y1 " in str(found)
    given = gb.calibrate(flat_model(), train.x, train.y, score=gb.Absolute(units=SIZES))([0.5], 0.9).width[0]
    assert given / given[0] == pytest.approx(SIZES)


def test_outputs_of_very_different_size_without_a_unit_are_a_warning() -> None:
    x, y = two_outputs(99, np.random.default_rng(0))
    with pytest.warns(
        UserWarning, match=r"by a factor of 9.9e\+04, .* Scaled\(units=\[...\]\).*joint=False"
    ) as seen:
        made = gb.calibrate(flat_model(), x, y)
    assert seen[0].filename == __file__
    assert np.ptp(made(x, 0.9).width) == pytest.approx(0, abs=1e-6)
    with pytest.warns(UserWarning, match=r"Absolute\(units="):
        gb.calibrate_arrays(0 * y, y, score=gb.Absolute())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gb.calibrate_arrays(0 * y, y, 1 + abs(y))  # a scale is a unit
        gb.calibrate_arrays(0 * y, y, score=gb.Scaled(units=SIZES))
        gb.calibrate_arrays(0 * y, y, score=gb.Scaled(joint=False))
        gb.calibrate_arrays(0 * y, y * [1, 0])  # one output is constant
        gb.calibrate_arrays(0 * y, y / SIZES)


@pytest.mark.parametrize("units", [0.0, -1.0, [1.0, 0.0], [1.0, np.nan], [[1.0]], np.inf])
def test_units_should_be_positive(units: Any) -> None:
    with pytest.raises(ValueError, match="`units` should be positive numbers, one per output, got"):
        gb.Scaled(units=units)


def test_there_should_be_as_many_units_as_outputs() -> None:
    with pytest.raises(ValueError, match=r"`units` should be one number or one per output \(2\), got 3"):
        gb.calibrate_arrays(np.zeros((9, 2)), np.ones((9, 2)), score=gb.Absolute(units=[1, 2, 3]))


@pytest.mark.parametrize("joint", [True, False])
def test_outputs_with_units_obey_the_exact_law(joint: bool) -> None:
    """Joint: all outputs of a row simultaneously; otherwise each output separately."""
    generator, draws, n, m, level = np.random.default_rng(0), 300, 30, 40, 0.8
    train = gb.Observations(*two_outputs(100, generator))
    covered: Any = 0
    for _ in range(draws):
        x, y = two_outputs(n + m, generator)
        made = gb.calibrate(flat_model(train), x[:n], y[:n], score=gb.Scaled(joint=joint))
        covered += made.contains(x[n:], y[n:], level).sum(axis=0)
    law = total_counts([(CoverageLaw(rank(n, level), n), m)], repeats=draws)
    for count in np.atleast_1d(covered):
        assert min(tails(law, int(count))) > 1e-3 / 4
    assert made.joint is joint and np.shape(covered) == (() if joint else (2,))  # type: ignore


def test_each_output_by_itself_has_its_own_threshold_law_and_verdict() -> None:
    generator = np.random.default_rng(1)
    x, y = two_outputs(99, generator)
    made = gb.calibrate(flat_model(), x, y, score=gb.Absolute(joint=False))
    band = made(x[:3], 0.9)
    for j in range(2):
        assert band.upper[:, j] == pytest.approx(quantile(abs(y[:, j]), 0.9))
        assert (made.contains(x, y, 0.9)[:, j]).sum() == 90
    assert "each output separately, not for all jointly" in made.promise
    found = gb.evaluate(made, *two_outputs(200, generator), level=0.9)
    own = [row for row in found.rows if row.name.startswith("this band")]
    assert [row.name for row in own] == [f"this band, y{j}" for j in range(2)]
    assert [row.sharpness for row in own] == pytest.approx(band.width[0])
    assert (
        own[1].widths == pytest.approx((band.width[0, 1],)) and own[0].interval_score < own[1].interval_score
    )
    assert found.consistent and [line[:3] for line in found.verdict.splitlines()] == ["y0:", "y1:"]
    missed = gb.evaluate(made, x + 1e-9, y + np.array([0.0, 1e9]), level=0.9)
    assert missed.consistent is False and "y1: NOT consistent" in missed.verdict
    with pytest.raises(ValueError, match=r"a threshold for each output \(joint=False\) requires Split\(\)"):
        gb.calibrate(
            flat_model(), x, y, score=gb.Absolute(joint=False), calibrator=gb.Grouped(), groups=["a"] * 99
        )


def test_before_calibration_each_output_by_itself_is_counted_by_itself() -> None:
    draw = np.random.default_rng(2).normal
    y = draw(size=(300, 2)) * [1.0, 3.0]
    made = gb.calibrate_arrays(0 * y[:99], y[:99], 1 + 0 * y[:99], score=gb.Scaled(joint=False))
    found = gb.evaluate(made, gb.Prediction(None, 0 * y[99:], 1 + 0 * y[99:]), y[99:], level=0.9)
    raw = {row.name: row.coverage for row in found.rows if row.name.startswith("before")}
    assert raw["before calibration, y0"] > 0.8 and raw["before calibration, y1"] < 0.6


def test_outputs_of_a_scale_of_zero_that_miss_are_infinite_with_a_warning() -> None:
    y, scale = np.ones((30, 2)), np.tile([1.0, 0.0], (30, 1))
    made = gb.calibrate_arrays(0 * y, y, scale, score=gb.Scaled(joint=False))
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="too many calibration scores are infinite"):
        band = made.band(made.prediction, 0.9)
    assert np.isfinite(band.upper[:, 0]).all() and np.isinf(band.upper[:, 1]).all()


# Simultaneous bands: whole fields, with the exact law.

NODES = np.linspace(0, 1, 30)


def fields(generator: np.random.Generator, n: int) -> np.ndarray:
    """Random curves (n, 30, 1), with larger errors to the right."""
    waves = generator.normal(size=(n, 3, 1)) * np.sin(np.outer([1, 2, 3], 3 * NODES))
    return (waves.sum(axis=1) * NODES)[..., None]


@pytest.mark.parametrize("shaped", [False, True])
def test_whole_fields_obey_the_exact_law(shaped: bool) -> None:
    generator, draws, n, m = np.random.default_rng(0), 400, 30, 20
    score = gb.Simultaneous.fitted(fields(generator, 50)) if shaped else gb.Simultaneous()
    for level in (0.5, 0.8, 0.9):
        covered = 0
        for _ in range(draws):
            y = fields(generator, n + m)
            calibrated = gb.calibrate_arrays(0 * y[:n], y[:n], score=score)
            covered += int(calibrated.band(gb.Prediction(None, 0 * y[n:]), level).contains(y[n:]).sum())
        law = total_counts([(CoverageLaw(rank(n, level), n), m)], repeats=draws)
        assert min(tails(law, covered)) > 1e-3 / 12


def test_a_shape_fitted_on_the_calibration_fields_undercovers() -> None:
    generator, draws, n = np.random.default_rng(1), 2000, 10
    covered = 0
    for _ in range(draws):
        y = np.concatenate([fields(generator, n) * 1.0, fields(generator, 1)])
        y = y + 0.5 * generator.normal(size=y.shape)
        score = gb.Simultaneous.fitted(y[:n])
        band = gb.calibrate_arrays(0 * y[:n], y[:n], score=score).band(gb.Prediction(None, 0 * y[n:]), 0.8)
        covered += int(band.contains(y[n:])[0])
    assert covered / draws < 0.76  # three standard errors below 0.8 is 0.773


def test_the_shape_follows_the_misses() -> None:
    shape = gb.Simultaneous.fitted(fields(np.random.default_rng(0), 100)).shape
    assert shape.shape == (30, 1) and shape[-1] > 3 * shape[3] and shape.min() >= 0.01 * shape.max()
    y = torch.tensor(fields(np.random.default_rng(2), 40))
    band = gb.calibrate_arrays(0 * y, y, score=gb.Simultaneous(shape)).band(gb.Prediction(None, 0 * y), 0.9)
    assert isinstance(band.upper, torch.Tensor) and (band.width[:, -1] > 3 * band.width[:, 3]).all()


def test_errors_teach() -> None:
    with pytest.raises(ValueError, match="no second field"):
        gb.calibrate_arrays(np.zeros(20), np.ones(20), score=gb.Simultaneous())
    with pytest.raises(ValueError, match=r"fit the fields, \(30, 1\)"):
        gb.calibrate_arrays(np.zeros((9, 30, 1)), np.ones((9, 30, 1)), score=gb.Simultaneous(np.ones(7)))
    with pytest.raises(ValueError, match="two fields or more"):
        gb.Simultaneous.fitted(np.ones((1, 5, 1)))
    with pytest.raises(ValueError, match="positive"):
        gb.Simultaneous(np.zeros(5))
