"""Quantiles: the exact law with one rank, a bound with two; models of other libraries; invalid input."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband import testing
from guardband.conformal.laws import CoverageLaw, tails, total_counts
from guardband.conformal.quantiles import TwoSided
from guardband.conformal.rank import rank
from wings import pinn, torch

FALSE_ALARM = 1e-3 / 8
"""Shared by the eight laws of this file, which together fail by chance for one seed in a thousand."""


def ends(prediction: gb.Prediction) -> gb.conformal.QuantilePrediction:
    """A prediction with a scale as a prediction of two quantiles, the upper one too high."""
    assert prediction.scale is not None
    lower, upper = prediction.mean - prediction.scale, prediction.mean + 2.5 * prediction.scale
    return gb.conformal.QuantilePrediction(prediction.x, lower, upper, prediction.mean)


def readings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 1) and noisy values of a line, with skewed noise that increases to the right."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=(n, 1))
    return x, 1 + 2 * x + (0.05 + x) * (generator.exponential(size=(n, 1)) - 0.7)


# The laws


@pytest.mark.parametrize(
    "options",
    [
        dict(calibrator=gb.Split()),
        dict(calibrator=gb.Split(), outputs=2),
        dict(calibrator=gb.Split(), confidence=0.9),
        dict(calibrator=gb.Grouped(), sampler=testing.two_groups),
    ],
    ids=["split", "two outputs", "confident", "grouped"],
)
def test_with_one_rank_coverage_obeys_its_exact_law(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "score": gb.CQR(),
        "predictions": ends,
        "false_alarm": FALSE_ALARM,
        "draws": 150,
        **options,
    }
    testing.check_calibrator(**given, sizes=[9, 40], seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 2])
def test_with_two_ranks_coverage_is_at_least_the_level(outputs: int) -> None:
    testing.check_calibrator(
        gb.Split(),
        score=gb.CQR(symmetric=False),
        predictions=ends,
        outputs=outputs,
        draws=2000,
        sizes=[30],
        false_alarm=FALSE_ALARM,
        seed=4,
    )


def sides(score: gb.CQR, *, n: int = 39, m: int = 50, draws: int = 400, level: float = 0.8) -> list[int]:
    """The numbers of new points not below and not above their bands, over many calibrations."""
    generator, found = np.random.default_rng(5), [0, 0]
    for _ in range(draws):
        x = generator.uniform(size=n + m)
        y = x + (0.1 + x) * generator.exponential(size=n + m)
        prediction = gb.conformal.QuantilePrediction(x, x, x + 1.5)
        calibrated = gb.calibrate_arrays(prediction.take(slice(n)), y[:n], score=score)
        band = calibrated.band(prediction.take(slice(n, None)), level)
        found[0] += int((y[n:] >= band.lower[:, 0]).sum())
        found[1] += int((y[n:] <= band.upper[:, 0]).sum())
    return found


def test_with_two_ranks_each_end_obeys_an_exact_law_of_its_own() -> None:
    """Each count, not below and not above, is BetaBinomial with the rank at 1 - (1 - level) / 2."""
    law = total_counts([(CoverageLaw(rank(39, "0.9"), 39), 50)], repeats=400)
    for count in sides(gb.CQR(symmetric=False)):
        assert min(tails(law, count)) > FALSE_ALARM / 2


class Greedy(gb.CQR):
    """Two ranks, each at the level: the miscoverages of both sides add up."""

    def threshold(self, learned: Any, scores: Any, prediction: Any, **options: Any) -> Any:
        made = [learned.threshold(side, prediction, **options) for side in scores.T]

        class Whole(TwoSided):
            def __call__(self, prediction: Any, level: Any, groups: Any = None) -> np.ndarray:
                parts = (self.below, self.above)
                return np.stack([np.atleast_1d(side(prediction, level, groups)) for side in parts], axis=1)

        return Whole(*made)


class Clipped(gb.CQR):
    """Scores clipped at 0: ends that are too far out are not moved inwards."""

    def __call__(self, prediction: Any, y: Any) -> Any:
        return super().__call__(prediction, y).clip(min=0)


class Forgetful(gb.CQR):
    """Another set at prediction: around the mean."""

    def band(self, prediction: Any, q: Any, level: float) -> gb.Band:
        around = gb.conformal.QuantilePrediction(prediction.x, prediction.mean, prediction.mean)
        return gb.CQR().band(around, q, level)


@pytest.mark.parametrize(
    ("mutant", "direction"),
    [(Greedy(symmetric=False), "low"), (Clipped(), "high"), (Forgetful(), "low")],
    ids=["both at the level", "clipped", "another set at prediction"],
)
def test_planted_faults_are_caught(mutant: gb.CQR, direction: str) -> None:
    with pytest.raises(AssertionError, match=f"coverage is too {direction}"):
        testing.check_calibrator(
            gb.Split(),
            score=mutant,
            predictions=ends,
            worlds=[testing.HOMOSKEDASTIC],
            sizes=[40],
            draws=2000 if not mutant.symmetric else 200,
            false_alarm=FALSE_ALARM,
            seed=4,
        )


# The score and its sets


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_score_is_as_scores_are(outputs: int) -> None:
    testing.check_score(gb.CQR(), outputs=outputs, predictions=ends)
    testing.check_score(gb.CQR(), outputs=outputs, nodes=5, predictions=ends)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", [gb.CQR(), gb.CQR(symmetric=False), gb.CQR(joint=False)], ids=repr)
def test_what_scores_at_most_the_threshold_lies_in_the_band(score: gb.CQR, dtype: type) -> None:
    """At every level and for large means, where differences of floats are coarse."""
    generator = np.random.default_rng(6)
    for size in (1.0, 1e6, 1e-20):
        lower = (size * generator.normal(size=(60, 2))).astype(dtype)
        upper = (lower + generator.normal(size=(60, 2))).astype(dtype)
        y = (lower + 2 * generator.normal(size=(60, 2))).astype(dtype)
        prediction = gb.conformal.QuantilePrediction(None, lower, upper)
        with pytest.warns(UserWarning, match="quantiles cross at"):
            calibrated = gb.calibrate_arrays(prediction, y, score=score)
        for level in (0.05, 0.5, 0.9):
            inside = calibrated.contains(prediction, y, level)
            inside = inside if inside.ndim == 1 else inside.all(axis=1)
            assert calibrated.band(prediction, level).contains(y)[inside].all()
            if score == gb.CQR():
                assert inside.sum() >= rank(60, level)


def test_the_band_is_the_rank_of_the_scores_moved_outwards() -> None:
    generator = np.random.default_rng(7)
    lower, upper, y = np.zeros(19), np.ones(19), generator.normal(size=19) * 3
    prediction = gb.conformal.QuantilePrediction(None, lower, upper)
    below, above = np.sort(-y), np.sort(y - 1)
    both = np.sort(np.maximum(-y, y - 1))
    one = gb.calibrate_arrays(prediction, y).band(prediction.take([0]), 0.8)
    two = gb.calibrate_arrays(prediction, y, score=gb.CQR(symmetric=False)).band(prediction.take([0]), 0.8)
    assert one.lower.item() == pytest.approx(-both[15]) and one.upper.item() == pytest.approx(1 + both[15])
    assert two.lower.item() == pytest.approx(-below[17]) and two.upper.item() == pytest.approx(1 + above[17])


def test_two_ranks_need_twice_the_points_and_halve_what_a_confidence_leaves() -> None:
    prediction = gb.conformal.QuantilePrediction(None, np.zeros(100), np.ones(100))
    y = np.random.default_rng(8).normal(size=100)
    score = gb.CQR(symmetric=False)
    calibrated = gb.calibrate_arrays(prediction, y, score=score)
    assert calibrated.size(0.9) == gb.conformal.Size(100, 19) and calibrated.laws(0.9, 5) is None
    few = gb.calibrate_arrays(prediction.take(slice(18)), y[:18], score=score)
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="19 calibration points, but there are 18"):
        assert few.band(prediction, 0.9).upper.max() == math.inf
    sure = gb.calibrate_arrays(prediction, y, score=score, confidence=0.9)
    half = gb.conformal.confident_rank(100, 0.95, 0.95)
    assert sure.band(prediction, 0.9).upper[0, 0] == pytest.approx(1 + np.sort(y - 1)[half - 1])
    assert sure.size(0.9) == gb.conformal.Size(100, gb.conformal.points_needed(0.95, 0.95))


def test_two_ranks_go_with_every_calibrator() -> None:
    x, y = readings(200, 0)
    pair, score = gb.Quantiles(lambda x: 1 + x, lambda x: 1 + 3 * x), gb.CQR(symmetric=False)
    sensor = np.where(x[:, 0] < 0.5, "left", "right")
    grouped = gb.calibrate(pair, x, y, score=score, calibrator=gb.Grouped(), groups=sensor)
    assert grouped.needs_groups and not grouped.answers_shift and not grouped.covers_new_groups
    left = gb.calibrate(pair, x[sensor == "left"], y[sensor == "left"], score=score)
    band = grouped(x[:5], 0.8, groups=["left"] * 5)
    assert np.array_equal(band.upper, left(x[:5], 0.8).upper)
    weighted = gb.calibrate(pair, x, y, score=score, calibrator=gb.Weighted(lambda x: 1 + 0 * x[:, 0]))
    assert weighted.answers_shift
    plain = gb.calibrate(pair, x, y, score=score)
    assert np.array_equal(weighted(x[:5], 0.8).lower, plain(x[:5], 0.8).lower)
    with pytest.raises(ValueError, match="Local"):
        gb.calibrate(pair, x, y, score=gb.CQR(), calibrator=gb.Local(gb.Observations(x + 0.3, y)))


def test_crossed_quantiles_are_told_and_exchanged_ones_refused() -> None:
    x, y = readings(60, 1)
    with pytest.warns(UserWarning, match=r"cross at \d+ of 60 calibration points.*np.minimum"):
        crossed = gb.calibrate(gb.Quantiles(lambda x: 3 * x, lambda x: 1 + x), x, y)
    testing.check_calibrated(crossed, *readings(60, 2))
    with pytest.raises(ValueError, match="lies above the upper one at every calibration point"):
        gb.calibrate(gb.Quantiles(lambda x: 9 + x, lambda x: x), x, y)


def test_an_empty_band_is_said_to_be_empty() -> None:
    x = np.linspace(0, 1, 60)
    wide = gb.Quantiles(lambda x: -1 - 9 * x, lambda x: 1 + 9 * x)
    calibrated = gb.calibrate(wide, x, 0.01 * np.cos(50 * x))
    band = calibrated([0.0, 1.0], level=0.5)
    assert band.empty.tolist() == [True, False] and "1 of them empty" in repr(band)
    assert not calibrated.contains([0.0], [0.0], level=0.5).any()
    assert "the set is empty, and the miss counts" in calibrated.promise
    evaluation = gb.evaluate(calibrated, x + 0.001, 0 * x, level=0.5)
    assert "The band is empty at" in str(evaluation)


def test_the_promise_of_each_end_is_said() -> None:
    x, y = readings(60, 1)
    pair = gb.Quantiles(lambda x: x, lambda x: 1 + 3 * x)
    assert "below the band with probability" not in gb.calibrate(pair, x, y).promise
    two = gb.calibrate(pair, x, y, score=gb.CQR(symmetric=False))
    assert "It lies below the band with probability at most (1 - level)/2" in two.promise
    said = str(gb.evaluate(two, *readings(80, 2), level=0.8))
    assert "promises 0.8 on average; there is no exact law for one" in said


# Models


@pytest.mark.slow
def test_models_of_two_quantiles_of_other_libraries() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    lightgbm = pytest.importorskip("lightgbm")
    x, y = readings(500, 0)
    x_cal, y_cal = readings(200, 1)
    boosted = [
        ensemble.GradientBoostingRegressor(loss="quantile", alpha=a, n_estimators=30).fit(x, y[:, 0])
        for a in (0.05, 0.95)
    ]
    light = [
        lightgbm.LGBMRegressor(objective="quantile", alpha=a, n_estimators=30, verbose=-1).fit(x, y[:, 0])
        for a in (0.05, 0.95)
    ]
    for pair in (boosted, light):
        predictor = gb.Quantiles(*pair, training_data=gb.Observations(x, y))
        calibrated = gb.calibrate(predictor, x_cal, y_cal)
        assert calibrated.score == gb.CQR()
        evaluation = gb.evaluate(calibrated, *readings(400, 2), level=0.9)
        assert evaluation.consistent and "constant width" in str(evaluation)
        with pytest.raises(ValueError, match="training"):
            gb.calibrate(predictor, x, y)


def test_a_frame_goes_to_the_models_by_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = readings(60, 0)
    frame = pandas.DataFrame({"a": x[:, 0], "b": 1 + x[:, 0]})
    pair = gb.Quantiles(lambda f: f["a"] - 1, lambda f: f["b"] + 2)
    calibrated = gb.calibrate(pair, frame, y)
    turned = calibrated(frame[["b", "a"]], 0.8)
    assert np.array_equal(turned.upper, calibrated(frame, 0.8).upper) and turned.x.shape == (60, 2)


@pytest.mark.slow
def test_one_network_with_two_outputs_is_a_pair(tmp_path: Path) -> None:
    x, y = readings(80, 0)
    net = pinn.mlp(1, [8], outputs=2)
    with torch.no_grad():
        list(net.parameters())[-1].copy_(torch.tensor([-3.0, 3.0]))
    pair = gb.Quantiles(net)
    testing.check_predictor(pair, x)
    testing.check_predictor(pair, torch.tensor(x))
    calibrated = gb.calibrate(pair, x, y)
    again = gb.load(gb.save(calibrated, tmp_path / "band"))
    assert np.array_equal(again(x, 0.8).lower, calibrated(x, 0.8).lower) and repr(again) == repr(calibrated)
    onnxruntime = pytest.importorskip("onnxruntime")
    path = gb.export_onnx(calibrated, tmp_path / "band.onnx", level=0.9)
    given = onnxruntime.InferenceSession(path).run(["mean", "lower", "upper"], {"x": x.astype(np.float32)})
    band = calibrated(x, level=0.9)
    for end, values in zip(("mean", "lower", "upper"), given, strict=True):
        assert np.allclose(values, getattr(band, end), rtol=1e-4, atol=1e-4), end


@pytest.mark.parametrize("score", [gb.CQR(), gb.CQR(symmetric=False), gb.CQR(joint=False)], ids=repr)
def test_saved_and_loaded_it_gives_the_same_band(score: gb.CQR, tmp_path: Path) -> None:
    x, y = readings(80, 0)
    pair = gb.Quantiles(pinn.mlp(1, [8]), lambda x: 2 + x)
    calibrated = gb.calibrate(pair, x, y, score=score, confidence=0.8)
    again = gb.load(gb.save(calibrated, tmp_path / "band"), upper=pair.upper)
    assert repr(again) == repr(calibrated) and again.promise == calibrated.promise
    for end in ("lower", "upper"):
        assert np.array_equal(getattr(again(x, 0.7), end), getattr(calibrated(x, 0.7), end))
    with pytest.raises(gb.store.ArtifactError, match="is not the one that was saved"):
        gb.load(tmp_path / "band", upper=lambda x: 3 + x)


def test_some_outputs_of_a_pair_can_be_calibrated() -> None:
    x, y = readings(80, 0)
    both = gb.Quantiles(lambda x: np.hstack([x, -x]), lambda x: np.hstack([1 + 3 * x, x]))
    one = gb.calibrate(both, x, y, outputs=0, score=gb.CQR(symmetric=False))
    alone = gb.calibrate(gb.Quantiles(lambda x: x, lambda x: 1 + 3 * x), x, y, score=gb.CQR(symmetric=False))
    assert np.array_equal(one(x, 0.8).upper, alone(x, 0.8).upper)


# Invalid input


def test_what_makes_no_sense_is_refused_with_the_cure() -> None:
    x, y = readings(40, 0)
    with pytest.raises(TypeError, match=r"CQR\(\) needs a model of two quantiles.*gb.Quantiles"):
        gb.calibrate(np.sin, x, y, score=gb.CQR())
    with pytest.raises(ValueError, match=r"Calibrate each output separately"):
        gb.CQR(symmetric=False, joint=False)
    with pytest.raises(TypeError, match=r"`symmetric` should be True or False, got 1"):
        gb.CQR(symmetric=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"return shape \(n, 2\), the lower quantile first"):
        gb.calibrate(gb.Quantiles(np.sin), x, y)
    with pytest.raises(ValueError, match=r"`upper` should have the shape of `lower`, \(2, 1\)"):
        gb.conformal.QuantilePrediction(None, [0.0, 1.0], [1.0])
    with pytest.raises(ValueError, match=r"`x` and `lower` should have the same number of rows"):
        gb.conformal.QuantilePrediction([0.0], [0.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"`upper` should be finite, but row 1 is infinite"):
        gb.conformal.QuantilePrediction(None, [0.0, 1.0], [1.0, math.inf])
    prediction = gb.conformal.QuantilePrediction(None, [0.0], [1.0])
    with pytest.raises(ValueError, match=r"`y` should have the shape of the predictions, \(1, 1\)"):
        gb.CQR()(prediction, np.zeros((2, 1)))
    calibrated = gb.calibrate_arrays(gb.conformal.QuantilePrediction(None, [0.0] * 9, [1.0] * 9), [0.5] * 9)
    with pytest.raises(TypeError, match="At calibration the prediction was a QuantilePrediction"):
        calibrated.band(gb.Prediction(None, [0.0]), 0.5)


def test_outputs_of_different_size_are_told() -> None:
    y = np.random.default_rng(0).normal(size=(30, 2)) * [1, 1e4]
    prediction = gb.conformal.QuantilePrediction(None, -abs(y), abs(y))
    with pytest.warns(UserWarning, match=r"differ in size by a factor of more than 100.*joint=False"):
        gb.calibrate_arrays(prediction, y)
    alone = gb.calibrate_arrays(prediction, y, score=gb.CQR(joint=False))
    assert alone.band(prediction, 0.5).contains(y).shape == (30,)


def test_models_in_a_list_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Pass two arguments, gb\.Quantiles\(lower, upper\), got a list"):
        gb.Quantiles([np.sin, np.cos])


def test_one_model_may_answer_both_quantiles() -> None:
    both = gb.Quantiles(lambda x: np.hstack([x - 1, x + 1]))
    x = np.arange(4.0)[:, None]
    assert np.array_equal(both(x).lower, x - 1) and np.array_equal(both(x).upper, x + 1)
