import numpy as np
import pytest
import torch

import guardband as gb
from guardband.conformal.scores import Score, Symmetric
from guardband.testing import check_score

SCORES = [gb.Absolute(), gb.Scaled(), gb.Total(0.1), gb.Total(0)]


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_every_score_obeys_the_laws(score: Score, outputs: int) -> None:
    check_score(score, outputs=outputs)


def test_the_formulas() -> None:
    prediction = gb.Prediction(None, [[1.0, 2.0]], [[0.3, 3.0]])
    y = np.array([[2.0, 8.0]])
    assert gb.Absolute()(prediction, y) == pytest.approx([6.0])
    assert gb.Scaled()(prediction, y) == pytest.approx([1 / 0.3])
    assert gb.Total(0.4)(prediction, y) == pytest.approx([2.0])
    assert gb.Total((0.4, 4.0))(prediction, y) == pytest.approx([2.0])
    assert gb.Total([0.0, 4.0]).noise == (0.0, 4.0)


def test_without_a_scale_scaled_is_absolute_and_total_is_a_constant_width() -> None:
    bare = gb.Prediction(None, [1.0, 2.0])
    y = np.array([[2.0], [5.0]])
    assert gb.Scaled()(bare, y).tolist() == gb.Absolute()(bare, y).tolist() == [1.0, 3.0]
    assert gb.Total(0.5)(bare, y).tolist() == [2.0, 6.0]
    assert gb.Total(0.5).band(bare, 4.0, 0.9).width == pytest.approx(np.full((2, 1), 4.0))


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
        band = gb.Total(0.1).band(prediction, 2.0, 0.9)
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
        gb.Total(noise)


def test_noise_per_output_should_fit_the_outputs() -> None:
    with pytest.raises(ValueError, match=r"one number or one per output \(1\), got 2"):
        gb.Total((0.1, 0.2))(gb.Prediction(None, [1.0], [1.0]), np.zeros((1, 1)))


def test_the_raw_band_needs_a_scale() -> None:
    band = gb.raw_band(gb.Prediction(None, [0.0], [2.0]), "0.95")
    assert band.upper.item() == pytest.approx(2 * 1.959963985, rel=1e-8) and band.level == 0.95
    with pytest.raises(ValueError, match="no band before calibration: this predictor has no scale"):
        gb.raw_band(gb.Prediction(None, [0.0]))


def test_a_score_never_broadcasts() -> None:
    prediction = gb.Prediction(None, [0.0, 0.0])
    assert gb.Scaled()(prediction, np.array([3.0, 1.0])).tolist() == [3.0, 1.0]
    with pytest.raises(ValueError, match=r"the shape of the predictions, \(2, 1\), got \(3, 1\)"):
        gb.Scaled()(prediction, np.ones(3))
