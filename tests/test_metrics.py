from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.metrics import acd, coverage, interval_score, relative_l2, sharpness
from wings import torch

BAND = gb.Band([0.0, 1.0, 2.0, 3.0], [0.0] * 4, [-1.0] * 4, [1.0, 1.0, 1.0, 3.0], 0.9)
Y = [0.0, 2.0, 0.5, 4.0]


def test_the_definitions() -> None:
    assert coverage(BAND, Y) == 0.5
    assert sharpness(BAND) == 2.5
    assert interval_score(BAND, Y) == pytest.approx(2.5 + 20 * (1 + 1) / 4)
    assert interval_score(BAND, [-3.0, 0, 0, 0]) == pytest.approx(2.5 + 20 * 2 / 4)
    assert acd([0.5] * 19) == pytest.approx(np.mean(abs(0.5 - np.arange(1, 20) / 20)))


def test_by_region_as_a_mask_or_a_function_of_x() -> None:
    left = [True, True, False, False]
    assert coverage(BAND, Y, region=left) == coverage(BAND, Y, region=lambda x: x[:, 0] < 1.5) == 0.5
    assert sharpness(BAND, region=np.array(left)) == 2 and sharpness(BAND, region=torch.tensor(left)) == 2
    assert interval_score(BAND, Y, region=lambda x: x < 0.5) == 2
    assert np.isnan(coverage(BAND, Y, region=[False] * 4))
    with pytest.raises(ValueError, match="A region should be 4 booleans, got int64"):
        coverage(BAND, Y, region=[0, 1])
    with pytest.raises(ValueError, match=r"needs the points x\. Pass a mask instead"):
        coverage(gb.Band(None, [0.0], [0.0], [0.0], 0.9), [0.0], region=lambda x: x > 0)


def test_a_joint_band_counts_rows() -> None:
    two = gb.Band(None, np.zeros((2, 2)), -np.ones((2, 2)), np.ones((2, 2)), 0.9)
    assert coverage(two, [[0.0, 0.0], [0.0, 2.0]]) == 0.5


def test_relative_l2() -> None:
    assert relative_l2([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert np.isnan(relative_l2([1.0], [0.0]))
    with pytest.raises(ValueError, match="differ in shape"):
        relative_l2([1.0], [1.0, 2.0])


def test_an_infinite_band_has_infinite_sharpness() -> None:
    assert sharpness(gb.Band(None, [0.0], [-np.inf], [np.inf], 0.9)) == np.inf


def world(n: int, seed: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=n)
    return x, np.sin(x) + spread * (0.1 + x) * generator.normal(size=n)


MODEL = gb.predictors.Given(np.sin, lambda x: 0.1 + x)


def test_an_evaluation_says_what_it_saw_and_prints_as_a_table() -> None:
    calibrated = gb.calibrate(MODEL, *world(100, 0))
    evaluation = gb.evaluate(calibrated, *world(1000, 1), regions={"left": lambda x: x[:, 0] < 0.5})
    names = [(row.name, row.region) for row in evaluation.rows]
    assert names == [
        (name, region)
        for name in ("this band", "constant width", "before calibration")
        for region in ("", "left")
    ]
    text = str(evaluation)
    for part in (
        "100 calibration, 1000 test points",
        "Relative L2",
        "ACD of a perfectly valid band",
        "Consistent",
    ):
        assert part in text
    assert evaluation.coverage == evaluation.rows[0].coverage and evaluation.sharpness > 0
    assert evaluation.interval_score > evaluation.sharpness and 0 < evaluation.acd < 0.2
    assert evaluation.acd_floor is not None and evaluation.acd_floor.low < evaluation.acd_floor.mean
    assert evaluation.ranges is not None and evaluation.ranges.shape == (19, 2)
    # The scale is the true one here: the band adapts, the constant width does not.
    assert evaluation.rows[0].interval_score < evaluation.rows[2].interval_score


def test_shifted_test_points_are_called_out() -> None:
    calibrated = gb.calibrate(MODEL, *world(100, 0))
    harder = gb.evaluate(calibrated, *world(1000, 1, spread=3))
    assert harder.verdict.startswith("NOT consistent with the guarantee") and "harder" in harder.verdict
    assert harder.consistent is False
    easier = gb.evaluate(calibrated, *world(1000, 2, spread=0.1), level=0.5)
    assert easier.verdict.startswith("Covers more than the law allows")


def test_ties_may_cover_more() -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), np.zeros(20), np.ones(20))
    assert gb.evaluate(calibrated, np.zeros(100), np.ones(100), level=0.5).verdict.startswith("Consistent")


def test_an_infinite_band_proves_nothing() -> None:
    calibrated = gb.calibrate(MODEL, *world(10, 0))
    evaluation = gb.evaluate(calibrated, *world(50, 1), level=0.95)
    assert "infinite" in evaluation.verdict and evaluation.sharpness == np.inf


def test_groups_travel_through_an_evaluation() -> None:
    x, y = world(100, 0)
    calibrated = gb.calibrate(MODEL, x, y, calibrator=gb.Grouped(), groups=x > 0.5)
    x, y = world(400, 1)
    evaluation = gb.evaluate(calibrated, x, y, groups=x > 0.5)
    assert evaluation.verdict.startswith("Consistent") and evaluation.acd_floor is not None


def test_a_calibrator_without_an_exact_law_says_so() -> None:
    x, y = world(100, 0)
    calibrated = gb.calibrate(MODEL, x, y, calibrator=gb.Clustered(), groups=np.arange(100) // 2)
    evaluation = gb.evaluate(calibrated, *world(50, 1))
    assert "no exact law" in evaluation.verdict
    assert evaluation.acd_floor is None and evaluation.ranges is None
    assert "perfectly valid" not in str(evaluation)


def test_the_rival_of_constant_width_makes_the_same_promise() -> None:
    model = gb.predictors.MeanOnly(np.sin)
    x, y = world(200, 0)
    labels = np.arange(200) // 4
    settings: list[dict[str, Any]] = [
        dict(confidence=0.99),
        dict(calibrator=gb.Clustered(), groups=labels),
        dict(calibrator=gb.Grouped(), groups=x > 0.5),
    ]
    for options in settings:
        calibrated = gb.calibrate(model, x, y, **options)
        x_test, y_test = world(100, 1)
        groups = x_test > 0.5 if isinstance(calibrated.calibrator, gb.Grouped) else None
        rows = gb.evaluate(calibrated, x_test, y_test, groups=groups).rows
        assert [row.name for row in rows] == ["this band"]
        rival = calibrated.constant_width()
        assert rival is not None and rival.promise == calibrated.promise


def test_arrays_alone_can_be_evaluated() -> None:
    x, y = world(100, 0)
    calibrated = gb.calibrate_arrays(np.sin(x), y, 0.1 + x)
    x, y = world(500, 1)
    evaluation = gb.evaluate(calibrated, gb.Prediction(None, np.sin(x), 0.1 + x), y)
    assert evaluation.verdict.startswith("Consistent") and repr(evaluation) == str(evaluation)


def test_testing_on_calibration_points_is_called_out() -> None:
    x, y = world(50, 0)
    with pytest.warns(UserWarning, match="50 of 50 test points are calibration points") as caught:
        gb.evaluate(gb.calibrate(MODEL, x, y), x, y)
    assert caught[0].filename == __file__


def test_half_precision_neither_overflows_nor_broadcasts() -> None:
    big = np.full(2000, 20.0, dtype=np.float16)
    assert relative_l2(big, big + np.float16(2)) == pytest.approx(1 / 11, rel=1e-3)
    with pytest.raises(ValueError, match=r"`y` should have the shape of the band, \(4, 1\), got \(1, 1\)"):
        interval_score(BAND, [3.0])


def test_the_truth_is_another_target() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.uniform(size=100), generator.normal(size=100)
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), x, y)
    new, truth = generator.uniform(size=200), np.zeros(200)
    plain = gb.evaluate(calibrated, new, truth, target="truth")
    assert plain.coverage == 1 and "does not extend to the truth" in plain.verdict and plain.acd_floor is None
    declared = gb.evaluate(calibrated, new, truth, target="truth", median_zero=True)
    assert "at least 0.9 = 1 - 2 (1 - level)" in declared.verdict
    with pytest.raises(ValueError, match="'measurement' or 'truth'"):
        gb.evaluate(calibrated, new, truth, target="noise")  # type: ignore[arg-type]


def test_before_calibration_the_noise_is_added_where_the_score_knows_it() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.uniform(size=300), 0.5 * generator.normal(size=300)
    sure = gb.predictors.Given(np.zeros_like, lambda x: 0 * x + 1e-3)
    made = gb.calibrate(sure, x[:100], y[:100], score=gb.conformal.Total(0.5))
    assert gb.evaluate(made, x[100:], y[100:]).rows[-1].coverage == pytest.approx(0.95, abs=0.05)
    with pytest.raises(TypeError, match=r"result of `gb\.calibrate`, got Given"):
        gb.evaluate(sure, x, y)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"result of `gb\.calibrate`, got Given"):
        gb.check(sure, x)  # type: ignore[arg-type]


def normal(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 1))


def three_values(n: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.sign(generator.normal(size=(n, 1))) * (generator.uniform(size=(n, 1)) < 0.7)


def test_tied_scores_are_not_held_against_the_band() -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), np.arange(200.0), three_values(200, 0))
    evaluation = gb.evaluate(calibrated, np.arange(500.0) + 0.5, three_values(500, 1))
    assert evaluation.ties and "if no scores tied; here some do" in str(evaluation)
    assert "Over all levels" not in str(evaluation) and evaluation.verdict.startswith("Consistent")


def test_one_tie_excuses_nothing() -> None:
    y = normal(200, 0)
    y[1] = y[0]
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), np.arange(200.0), y)
    easy = gb.evaluate(calibrated, np.arange(500.0) + 0.5, normal(500, 1) / 10, level=0.5)
    assert easy.verdict.startswith("Covers more than the law allows")


def test_ties_are_looked_for_in_each_group() -> None:
    groups = ["a"] * 200 + ["b"] * 200
    y = np.vstack([three_values(200, 0), normal(200, 1)])
    zero = gb.predictors.MeanOnly(np.zeros_like)
    calibrated = gb.calibrate(zero, np.arange(400.0), y, calibrator=gb.Grouped(), groups=groups)
    assert gb.evaluate(calibrated, np.arange(400.0) + 0.5, y, groups=groups).ties
    assert not gb.evaluate(calibrated, np.arange(200.0) + 0.5, y[200:], groups=groups[200:]).ties


def test_nothing_to_evaluate_is_refused() -> None:
    zero = gb.predictors.MeanOnly(np.zeros_like)
    calibrated = gb.calibrate(zero, np.arange(20.0), np.arange(20.0))
    with pytest.raises(ValueError, match="at least one test point"):
        gb.evaluate(calibrated, np.empty((0, 1)), np.empty((0, 1)))
    sharded = gb.conformal.calibrate_shards(zero, [np.arange(20.0)], [0.9], x=[0.5])
    with pytest.raises(ValueError, match="one of the `levels` of this calibration"):
        gb.evaluate(sharded, [0.5], [0.5])
    with pytest.raises(ValueError, match="`n_test` should be at least 1"):
        gb.metrics.acd_floor(10, 0)


def test_reuse_is_noticed_in_spite_of_a_repeated_row() -> None:
    x, y = np.arange(50.0), normal(50, 0)[:, 0]
    x, y = np.append(x, x[0]), np.append(y, y[0])
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), x, y)
    with pytest.warns(UserWarning, match="51 of 51 test points are calibration points"):
        gb.evaluate(calibrated, x, y)
