from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base.arrays import kind_of, to_torch
from wings import torch


def test_a_single_column_may_come_flat() -> None:
    data = gb.Observations([1, 2, 3], torch.tensor([1.0, 2.0, 3.0]))
    assert data.x.shape == (3, 1) and data.x.dtype == np.float64
    assert tuple(data.y.shape) == (3, 1)
    x, y = data
    assert x is data.x and y is data.y and len(data) == 3


def test_whole_numbers_become_floats_of_the_kind() -> None:
    assert gb.Prediction(None, torch.tensor([1, 2])).mean.dtype == torch.float64
    assert gb.Prediction(None, np.array([True])).mean.dtype == np.float64


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: gb.Observations([1.0], [1.0, 2.0]), ValueError, "same number of rows, got 1 and 2"),
        (
            lambda: gb.Observations(3.0, [1.0]),
            ValueError,
            "one row per point, got the single number 3.0",
        ),
        (
            lambda: gb.Observations(["a"], [1.0]),
            TypeError,
            "`x` should hold real numbers, got dtype <U1",
        ),
        (lambda: gb.Observations([1j], [1.0]), TypeError, "real numbers, got dtype complex128"),
        (
            lambda: gb.Observations(torch.tensor([1j]), [1.0]),
            TypeError,
            "real numbers, got torch.complex64",
        ),
        (lambda: gb.Observations([0.0, np.inf], [1.0, 2.0]), ValueError, "`x` .* row 1 is infinite"),
        (
            lambda: gb.Prediction(None, [0.0, np.nan]),
            ValueError,
            "`mean` should be finite, but row 1 is NaN",
        ),
        (lambda: gb.Prediction([1.0], [0.0, 1.0]), ValueError, "`x` and `mean` .* got 1 and 2"),
        (
            lambda: gb.Prediction(None, [0.0, 1.0], [1.0]),
            ValueError,
            "`scale` and `mean` .* got 1 and 2",
        ),
        (
            lambda: gb.Prediction(None, [0.0], [[1.0, 2.0]]),
            ValueError,
            r"got shapes \(1, 2\) and \(1, 1\)",
        ),
        (
            lambda: gb.Prediction(None, [0.0, 0.0], [1.0, -2.0]),
            ValueError,
            "not be negative, but row 1 is",
        ),
        (lambda: gb.Prediction(None, [0.0], [np.inf]), ValueError, "`scale` should be finite"),
        (lambda: gb.Band(None, [0.0], [0.0, 1.0], [0.0], 0.9), ValueError, "`lower` and `mean`"),
        (lambda: gb.Band([1.0, 2.0], [0.0], [0.0], [0.0], 0.9), ValueError, "`x` and `mean`"),
    ],
)
def test_values_are_checked_where_they_are_born(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_a_band_never_broadcasts_a_flat_target() -> None:
    band = gb.Band(None, np.zeros((3, 1)), -np.ones((3, 1)), np.ones((3, 1)), 0.9)
    assert band.contains(np.array([0.0, 2.0, 0.5])).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="`y` and `band` should have the same number of rows"):
        band.contains(np.zeros(2))
    with pytest.raises(ValueError, match="`y` should have as many outputs as `band`"):
        band.contains(np.zeros((3, 2)))


def test_the_ends_belong_to_the_band_and_nan_to_none() -> None:
    band = gb.Band(None, [0.0] * 4, [-1.0] * 4, [1.0] * 4, 0.9)
    assert band.contains([-1.0, 1.0, np.nextafter(1, 2), np.nan]).tolist() == [True, True, False, False]


def test_a_torch_band_stays_torch_and_compares_with_numpy() -> None:
    ones = torch.ones(2, 1, dtype=torch.float32)
    band = gb.Band(ones, ones, ones - 1, ones + 1, 0.9)
    assert isinstance(band.contains(np.array([1.0, 3.0])), torch.Tensor)
    assert isinstance(band.width, torch.Tensor) and band.width.dtype == torch.float32
    numpy = band.numpy()
    assert isinstance(numpy.lower, np.ndarray) and isinstance(numpy.x, np.ndarray) and len(numpy) == 2
    assert gb.Band(None, ones, ones, ones, 0.9).numpy().x is None


def test_gradients_stop_at_the_door() -> None:
    mean = torch.ones(3, 1, requires_grad=True)
    band = gb.Scaled().band(gb.Prediction(None, mean, mean * 2), 1.0, 0.9)
    assert not band.lower.requires_grad


def test_a_band_goes_to_pandas_and_xarray() -> None:
    x = np.arange(6.0).reshape(3, 2)
    two = np.ones((3, 2))
    band = gb.Band(x, two, two - 1, two + 1, 0.9)
    names = ["x0", "x1", "mean0", "mean1", "lower0", "lower1", "upper0", "upper1"]
    assert list(band.to_pandas().columns) == names
    single = gb.Band(torch.tensor(x), torch.ones(3), torch.zeros(3), torch.ones(3), 0.9)
    assert list(single.to_pandas().columns) == ["x0", "x1", "mean", "lower", "upper"]
    data = band.to_xarray()
    assert data["upper"].dims == ("point", "output") and data.attrs["level"] == 0.9
    assert data.coords["x1"].to_numpy().tolist() == [1.0, 3.0, 5.0]
    field = gb.Band(None, np.ones((2, 3, 1)), np.zeros((2, 3, 1)), np.ones((2, 3, 1)), 0.9)
    assert field.to_xarray()["mean"].dims == ("point", "node", "output")
    with pytest.raises(ValueError, match="For whole fields, use `to_xarray"):
        field.to_pandas()


def test_a_band_says_how_much_of_it_is_infinite() -> None:
    assert repr(gb.Band(None, [0.0], [-1.0], [1.0], 0.95)) == "Band(level=0.95, 1 points)"
    infinite = gb.Band(None, [0.0, 0.0], [-np.inf, 0.0], [np.inf, 0.0], 0.95)
    assert repr(infinite) == "Band(level=0.95, 2 points, 1 of them infinite)"


def test_arrays_change_kind_without_warnings() -> None:
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    assert to_torch(frozen).tolist() == to_torch(np.arange(3.0)[::-1]).tolist()[::-1] == [0, 1, 2]
    assert kind_of(np.zeros(1), torch.ones(1, dtype=torch.bfloat16)).tolist() == [1.0]


def test_masked_rows_are_refused_and_not_read_as_fill_values() -> None:
    masked = np.ma.array([1.0, -9999.0], mask=[False, True])
    with pytest.raises(ValueError, match="`y` should be complete, but row 1 is masked"):
        gb.Observations([1.0, 2.0], masked)
    assert gb.Observations([1.0, 2.0], np.ma.array([1.0, 2.0], mask=False)).y.shape == (2, 1)


def test_foreign_number_formats_become_ordinary_ones() -> None:
    assert gb.Prediction(None, np.array([1.0], dtype=">f8")).mean.dtype == np.dtype("=f8")
    assert gb.Prediction(None, np.array([1.0], dtype=np.longdouble)).mean.dtype == np.float64


def test_values_print_in_one_short_line() -> None:
    assert repr(gb.Observations([1.0], [2.0])) == "Observations(1 points, x (1, 1), y (1, 1))"
    assert repr(gb.Prediction(None, [1.0])) == "Prediction(1 points, mean (1, 1), no scale)"
    assert repr(gb.Prediction(None, [1.0], [1.0])) == "Prediction(1 points, mean (1, 1), with a scale)"
    field = gb.Band(None, np.zeros((3, 5, 1)), np.full((3, 5, 1), -np.inf), np.full((3, 5, 1), np.inf), 0.9)
    assert repr(field) == "Band(level=0.9, 3 points, 3 of them infinite)"


def test_no_points_at_all_are_no_error() -> None:
    empty = np.zeros((0, 2))
    assert gb.Band(None, empty, empty, empty, 0.9).contains(empty).shape == (0,)


def largest(difference: Any) -> Any:
    return abs(difference).reshape(len(difference), -1).max(axis=1)


def test_a_ball_holds_what_is_within_its_radius() -> None:
    mean = np.zeros((3, 4, 1))
    ball = gb.values.NormBand(None, mean, np.array([1.0, 2.0, np.inf]), largest, level=0.9)
    assert repr(ball) == "NormBand(level=0.9, 3 fields, 1 of them infinite)" and len(ball) == 3
    assert ball.contains(mean + 1.5).tolist() == [False, True, True]
    assert ball.contains(mean * np.nan).tolist() == [False] * 3
    assert ball.width.tolist() == [[2.0], [4.0], [np.inf]]
    same = gb.values.NormBand(mean, mean, 1.0, largest, level=0.9)  # one radius for all
    assert same.radius.tolist() == [1.0] * 3 and repr(same) == "NormBand(level=0.9, 3 fields)"
    data = ball.to_xarray()
    assert data["mean"].dims == ("point", "node", "output") and data["radius"].dims == ("point",)
    with pytest.raises(ValueError, match="`y` and `band` should have the same number of rows"):
        ball.contains(mean[:2])
    with pytest.raises(ValueError, match="`x` and `mean`"):
        gb.values.NormBand(mean[:2], mean, 1.0, largest, level=0.9)


def test_a_ball_of_tensors() -> None:
    ball = gb.values.NormBand(
        None, torch.zeros(2, 3), torch.tensor([1.0, 3.0]), lambda d: d.norm(dim=1), level=0.9
    )
    assert ball.contains(np.ones((2, 3))).tolist() == [False, True]


@pytest.mark.parametrize("outputs", [(0,), 0, [None]])
def test_outputs_that_were_measured_have_names(outputs: Any) -> None:
    with pytest.raises(TypeError, match=r"`outputs` should be names, such as \(\"u\", \"p\"\), got"):
        gb.Observations([0.0, 1.0], [2.0, 3.0], outputs=outputs)
