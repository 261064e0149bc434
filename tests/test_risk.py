"""RiskControl: the expected loss of a new point is at most 1 - level, for any monotone loss."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal.rank import allow_infinite
from wings import torch


def cut_distance(band: gb.Band, y: Any) -> np.ndarray:
    """The distance of y from the band, at most 1."""
    outside = np.maximum(band.lower - y, y - band.upper).max(axis=1)
    return np.clip(outside, 0, 1)


def missed(band: gb.Band, y: Any) -> np.ndarray:
    return 1.0 - np.asarray(band.contains(y))


def calibrated(y: Any, loss: Any = None, **options: Any) -> gb.Calibrated:
    risk = gb.RiskControl(**({} if loss is None else {"loss": loss}), **options)
    return gb.calibrate_arrays(0 * y, y, calibrator=risk)


LOSSES = {"share": None, "distance": cut_distance, "missed": missed}


@pytest.mark.slow("share-0.7-400", "share-0.9-400")
@pytest.mark.parametrize("sets", [400, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("level", [0.7, 0.9])
@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_loss_is_at_most_what_was_asked(name: str, level: float, sets: int) -> None:
    """One new point per calibration set, fixed seed; 3.3 standard errors, probability 1 in 2000."""
    draw, loss = np.random.default_rng(0), LOSSES[name] or gb.conformal.ShareOutside()
    losses = []
    for _ in range(sets):
        y = draw.standard_t(3, size=(31, 4)) * 0.7
        made = calibrated(y[:30], loss)
        losses.append(loss(made.band(gb.Prediction(None, 0 * y[30:]), level), y[30:])[0])
    assert np.mean(losses) <= 1 - level + 3.3 * np.std(losses) / math.sqrt(sets)
    assert np.mean(losses) > 0.5 * (1 - level)  # and the bound is nearly attained


def test_a_rule_without_the_new_point_loses_too_much() -> None:
    """A mutant that bounds the mean loss of the calibration points alone by 1 - level."""
    draw, losses = np.random.default_rng(0), []
    for _ in range(2000):
        y = abs(draw.normal(size=11))
        wrong = np.sort(y[:10])[7]  # the smallest q with at most 0.2 of 10 above it
        losses.append(y[10] > wrong)
    assert np.mean(losses) > 0.2 + 3.3 * np.std(losses) / math.sqrt(2000)


@pytest.mark.parametrize("n", [9, 19, 40, 100])
def test_the_loss_of_a_miss_is_split_conformal_prediction(n: int) -> None:
    y = np.random.default_rng(n).normal(size=(n, 1))
    split, risk = gb.calibrate_arrays(0 * y, y), calibrated(y, missed)
    at = gb.Prediction(None, [0.0])
    for level in (0.5, 0.8, 0.9):
        assert np.allclose(split.band(at, level).upper, risk.band(at, level).upper, rtol=1e-12)


def test_fields_have_a_share_of_nodes_outside() -> None:
    fields = np.random.default_rng(0).normal(size=(200, 50, 1))
    score = gb.Simultaneous(np.ones((50, 1)))
    made = gb.calibrate_arrays(0 * fields, fields, score=score, calibrator=gb.RiskControl())
    band = made.band(gb.Prediction(None, np.zeros((1, 50, 1))), 0.9)
    assert abs(float(band.upper.mean()) - 1.645) < 0.1


def test_too_few_points_are_an_infinite_band_and_say_how_many() -> None:
    made = calibrated(np.ones((8, 1)))
    with pytest.warns(
        gb.conformal.InfiniteBandWarning, match=r"loss of 0.1, of at most 1, needs 9 .* there are 8"
    ):
        assert np.isinf(made.band(gb.Prediction(None, [0.0]), 0.9).upper).all()
    assert made.size(0.9).need == 9  # type: ignore[union-attr]
    assert calibrated(np.ones((8, 1)), lambda band, y: 5 * missed(band, y), largest=5).size(0.9).need == 49  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda band, y: 3 * missed(band, y), "should lie between 0 and largest=1, but row"),
        (lambda band, y: missed(band, y) - 1, "should lie between 0 and largest=1"),
        (lambda band, y: missed(band, y) * np.nan, "should lie between 0 and largest=1"),
        (lambda band, y: 1 - missed(band, y), "should not increase with the band, but that of row"),
        (lambda band, y: missed(band, y)[:, None], r"one number per row, shape \(20,\), got \(20, 1\)"),
    ],
)
def test_losses_that_cannot_be_controlled_are_refused(loss: Any, message: str) -> None:
    y = np.random.default_rng(0).normal(size=(20, 1))
    with pytest.raises(ValueError, match=message):
        calibrated(y, loss)


@pytest.mark.parametrize(
    ("loss", "there"),
    [
        (lambda band, y: np.full(len(y), 0.5), "then has loss 0.5, so no band is large enough"),
        (lambda band, y: (band.width / (1 + band.width))[:, 0], "`loss` should"),
        (
            lambda band, y: np.minimum(abs(y - band.mean)[:, 0] / band.width[:, 0], 1) * 0 + 0.2,
            "has loss 0.2",
        ),
        (lambda band, y: np.maximum(0, (y - band.upper) / band.width)[:, 0].clip(max=1), "has loss nan"),
    ],
)
def test_a_loss_that_an_infinite_band_does_not_take_to_zero_is_refused(loss: Any, there: str) -> None:
    """0.2 accepted a constant loss of .5, for which a promised .1 is impossible."""
    y = np.random.default_rng(0).normal(size=(60, 1))
    with pytest.raises(ValueError, match=there):
        calibrated(y, loss)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="`largest` should be an upper bound of the loss"):
        gb.RiskControl(largest=math.inf)
    with pytest.raises(TypeError, match="`loss` should be a function"):
        gb.RiskControl(0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`groups` should not be passed"):
        gb.calibrate_arrays([0.0] * 9, range(9), calibrator=gb.RiskControl(), groups=range(9))
    with pytest.raises(ValueError, match="`confidence` applies to"):
        gb.calibrate_arrays([0.0] * 9, range(9), calibrator=gb.RiskControl(), confidence=0.9)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kinds_and_dtypes(kind: Any, dtype: str) -> None:
    y = kind(np.random.default_rng(0).normal(size=(50, 2)).astype(dtype))
    made = gb.calibrate_arrays(0 * y, y, calibrator=gb.RiskControl())
    band = made.band(gb.Prediction(None, y[:3]), 0.8)
    assert type(band.upper) is type(y) and band.upper.dtype == y.dtype


def test_it_is_saved_and_promises_no_probability(tmp_path: Path) -> None:
    y, at = np.random.default_rng(0).normal(size=(60, 2)), gb.Prediction(None, np.zeros((1, 2)))
    made = calibrated(y)
    again = gb.load(gb.save(made, tmp_path / "a"))
    assert np.array_equal(made.band(at, 0.9).upper, again.band(at, 0.9).upper)
    own = calibrated(y, cut_distance)
    gb.save(own, tmp_path / "b")
    with pytest.raises(gb.store.ArtifactError, match="saved without loss"):
        gb.load(tmp_path / "b")
    again = gb.load(tmp_path / "b", loss=cut_distance)
    assert np.array_equal(own.band(at, 0.9).upper, again.band(at, 0.9).upper)
    assert made.promised(0.9) is None and "the expected loss of a new measurement is at most" in own.promise
    with allow_infinite():
        assert "cut_distance" in own.promise


def test_scores_that_are_infinite_and_losses_that_are_small_at_once() -> None:
    y = np.random.default_rng(0).normal(size=(40, 1))
    at = gb.Prediction(None, [[0.0]])
    nothing = calibrated(y, lambda band, y: 0 * missed(band, y))
    assert nothing.band(at, 0.9).width.item() < 1e-6  # the narrowest band
    with pytest.raises(ValueError, match=r"needs the targets. Calibrate with `gb.calibrate`"):
        gb.RiskControl().threshold(np.arange(20.0), gb.Prediction(None, y))
    scale = np.where(np.arange(40) < 20, 0.0, 1.0)[:, None]  # a scale of 0, so any error scores infinity
    far = gb.calibrate_arrays(0 * y, y, scale, score=gb.Scaled(), calibrator=gb.RiskControl())
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="too many calibration scores are infinite"):
        assert np.isinf(far.band(gb.Prediction(None, [[0.0]], [[1.0]]), 0.9).upper).all()
