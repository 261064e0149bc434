from typing import Any

import numpy as np
import pandas
import pytest

import guardband as gb
from guardband.conformal import quantile
from wings import torch

ZERO = gb.predictors.MeanOnly(lambda x: 0 * x)
LABELS = np.array(["wet", "dry"])[np.arange(60) % 2]
X = np.linspace(0, 1, 60)
Y = np.where(LABELS == "wet", 10.0, 1.0) * np.random.default_rng(0).normal(size=60)


def test_each_group_has_its_own_quantile() -> None:
    calibrated = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=LABELS)
    band = calibrated([0.1, 0.2, 0.3], 0.9, groups=["dry", "wet", "dry"])
    wet, dry = (quantile(abs(Y[LABELS == name]), 0.9) for name in ("wet", "dry"))
    assert np.allclose(band.upper[:, 0], [dry, wet, dry], rtol=1e-14)


def test_one_group_is_split() -> None:
    split = gb.calibrate(ZERO, X, Y)
    grouped = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=[7] * 60)
    for level in gb.conformal.LEVELS:
        assert np.array_equal(grouped(X, level, groups=[7] * 60).upper, split(X, level).upper)


@pytest.mark.parametrize(
    "groups",
    [
        LABELS.tolist(),
        LABELS.astype(object),
        pandas.Series(LABELS),
        pandas.Categorical(LABELS),
        torch.tensor(LABELS == "wet"),
        (LABELS == "wet").astype(np.int8),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_labels_come_in_any_container(groups: Any) -> None:
    band = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=groups)(X, 0.9, groups=groups)
    expected = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=LABELS)(X, 0.9, groups=LABELS)
    assert np.array_equal(band.upper, expected.upper)


def test_a_small_group_is_infinite_and_named() -> None:
    groups = np.r_[["small"] * 5, ["large"] * 55]
    calibrated = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=groups)
    with pytest.warns(
        gb.conformal.InfiniteBandWarning, match=r"needs 9 calibration points in each group; .*small \(5\)"
    ):
        band = calibrated(X, 0.9, groups=groups)
    assert np.isinf(band.upper[:5]).all() and np.isfinite(band.upper[5:]).all()
    calibrated(X[:2], 0.9, groups=["large", "large"])


def test_a_confidence_holds_in_each_group() -> None:
    calibrated = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=LABELS, confidence=0.9)
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="with confidence 0.9 needs 45"):
        assert np.isinf(calibrated([0.5], 0.95, groups=["wet"]).upper).all()
    assert np.isfinite(calibrated([0.5], 0.8, groups=["wet"]).upper).all()


@pytest.mark.parametrize(
    ("groups", "error", "text"),
    [
        (
            ["fog"] * 60,
            ValueError,
            r"Group .*fog.* was not in the calibration data, whose groups are 'dry', 'wet'. .* use Clustered",
        ),
        ([1] * 60, ValueError, "Group .*1.* was not in the calibration data"),
        (None, ValueError, r"calibrated with Grouped\(\). Pass `groups=`, one label per row of x"),
        (["wet"], ValueError, r"one label per row, shape \(60,\), got shape \(1,\)"),
        (np.full(60, 0.5), TypeError, "strings or integers, got dtype float64"),
        (["wet"] * 59 + [None], TypeError, "A missing label is not a group"),
    ],
)
def test_unknown_groups_are_errors_that_teach(groups: Any, error: type[Exception], text: str) -> None:
    calibrated = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=LABELS)
    with pytest.raises(error, match=text):
        calibrated(X, groups=groups)


def test_the_string_1_is_not_the_number_1() -> None:
    calibrated = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=[1] * 60)
    with pytest.raises(ValueError, match="was not in the calibration data"):
        calibrated(X, groups=["1"] * 60)


def test_groups_are_needed_at_calibration() -> None:
    with pytest.raises(ValueError, match=r"Grouped\(\) needs `groups=`, one label per calibration point"):
        gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped())


def test_many_unknown_names_are_listed_briefly() -> None:
    calibrated = gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=np.arange(60))
    with pytest.raises(ValueError, match="0, 1, 2, 3, 4, 5, 6, 7 and 52 more"):
        calibrated([0.5], groups=[99])


@pytest.mark.parametrize("mixed", [["a", float("nan")] * 30, [1, "1"] * 30, [0.5] * 60, [None] * 60])
def test_labels_of_mixed_kinds_are_refused(mixed: Any) -> None:
    with pytest.raises(TypeError, match="`groups` should be strings or integers"):
        gb.calibrate(ZERO, X, Y, calibrator=gb.Grouped(), groups=mixed)


def test_large_whole_numbers_stay_apart_across_dtypes() -> None:
    ids = np.repeat(np.array([2**53, 2**53 + 1], dtype=np.uint64), 30)
    y = np.where(np.arange(60) < 30, 1.0, 100.0) * (1 + np.arange(60))
    calibrated = gb.calibrate(ZERO, X, y, calibrator=gb.Grouped(), groups=ids)
    for dtype in (np.uint64, np.int64):
        upper = calibrated([0.0, 0.0], 0.9, groups=np.array([2**53, 2**53 + 1], dtype=dtype)).upper
        assert upper[1] > 50 * upper[0]
    with pytest.raises(TypeError, match="uint64"):
        gb.calibrate(ZERO, X, y, calibrator=gb.Grouped(), groups=np.full(60, 2**63, dtype=np.uint64))
