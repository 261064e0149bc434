"""Inputs that would silently lose their meaning are refused with a message, or kept unchanged."""

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import guardband as gb
from helpers import Later
from wings import pinn, torch

pandas, polars, xarray = Later("pandas"), Later("polars"), Later("xarray")

X = np.random.default_rng(0).uniform(size=(30, 1))
Y = np.sin(X) + 0.1 * np.random.default_rng(1).normal(size=(30, 1))


class Meter(np.ndarray):
    """A quantity with a unit, like those of astropy and pint."""

    unit = "m"


def calibrated() -> Any:
    return gb.calibrate(np.sin, X, Y)


def days(count: int = 30) -> np.ndarray:
    return np.arange("2026-01-01", count, dtype="datetime64[D]")


DATES: dict[str, Callable[[], Any]] = {
    "numpy": days,
    "numpy durations": lambda: days() - days()[0],
    "numpy NaT": lambda: np.full(30, np.datetime64("NaT")),
    "objects": lambda: [datetime.date(2026, 1, 1)] * 30,
    "objects in rows": lambda: np.array([[datetime.datetime(2026, 1, 1)]] * 30, dtype=object),
    "pandas Series": lambda: pandas.Series(days()),
    "pandas index": lambda: pandas.DatetimeIndex(days()),
    "pandas durations": lambda: pandas.Series(days() - days()[0]),
    "pandas NaT": lambda: pandas.Series([pandas.NaT] * 30),
    "pandas frame": lambda: pandas.DataFrame({"t": days()}),
    "pandas frame with numbers": lambda: pandas.DataFrame({"x": X[:, 0], "t": days()}),
    "pandas zoned": lambda: pandas.DataFrame(
        {"x": X[:, 0], "t": pandas.Series(days()).dt.tz_localize("UTC")}
    ),
    "pandas periods": lambda: pandas.DataFrame({"t": pandas.period_range("2026", periods=30, freq="D")}),
    "pandas objects": lambda: pandas.DataFrame({"x": X[:, 0], "t": [datetime.date(2026, 1, 1)] * 30}),
    "polars Series": lambda: polars.Series("t", days().astype("M8[ms]")),
    "polars frame": lambda: polars.DataFrame({"x": X[:, 0], "t": days().astype("M8[ms]")}),
    "polars durations": lambda: polars.DataFrame({"t": (days() - days()[0]).astype("m8[ms]")}),
    "xarray": lambda: xarray.DataArray(days(), dims="point"),
    "xarray columns": lambda: xarray.DataArray((days() - days()[0])[:, None], dims=("point", "column")),
}

CALLS: dict[str, Callable[[Any], Any]] = {
    "calibrate, x": lambda t: gb.calibrate(lambda x: np.zeros(len(x)), t, Y),
    "calibrate, y": lambda t: gb.calibrate(np.sin, X, t),
    "calibrate_arrays": lambda t: gb.calibrate_arrays(Y, t),
    "calibrate_arrays, x": lambda t: gb.calibrate_arrays(Y, Y, x_cal=t),
    "calibrate_cross": lambda t: gb.calibration.calibrate_cross(lambda data: np.sin, (t, Y), folds=3),
    "the call": lambda t: calibrated()(t),
    "contains": lambda t: calibrated().contains(X, t),
    "evaluate": lambda t: gb.evaluate(calibrated(), t, Y),
    "evaluate, y": lambda t: gb.evaluate(calibrated(), X, t),
    "check": lambda t: gb.check(calibrated(), t),
    "band_over": lambda t: gb.band_over(calibrated(), {"t": t}),
    "band_over, points": lambda t: gb.band_over(calibrated(), t),
    "follow": lambda t: gb.Stream(calibrated()).follow(t, Y),
    "coverage": lambda t: gb.metrics.coverage(calibrated()(X), t),
    "relative_l2": lambda t: gb.metrics.relative_l2(Y, t),
    "Observations": lambda t: gb.Observations(t, Y),
    "Observations, y": lambda t: gb.Observations(X, t),
    "Prediction": lambda t: gb.Prediction(t, Y),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", DATES)
def test_dates_are_refused_with_the_remedy(kind: str, call: str) -> None:
    remedy = r"dates or durations.*\(t - t\[0\]\) / np\.timedelta64\(1, \"s\"\)"
    if call in ("band_over", "relative_l2"):  # tables of several columns are refused first
        remedy += "|is read by position here"
    with pytest.raises(TypeError, match=remedy):
        CALLS[call](DATES[kind]())


def test_dates_along_the_axis_of_a_field_are_refused() -> None:
    zeros = np.zeros((30, 4, 1))
    u = xarray.DataArray(zeros, dims=("sample", "t", "x"), coords={"t": days()[:4]})
    for y in (u, u.assign_coords(t=u["t"] - u["t"][0])):
        with pytest.raises(TypeError, match="dates or durations"):
            gb.calibrate(lambda x: np.zeros((len(x), 4, 1, 1)), X, y)


def test_a_regressor_of_sklearn_refuses_dates() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    from guardband.integrations.sklearn import ConformalRegressor

    model = ConformalRegressor(linear.LinearRegression(), calibration_size=0.7)
    for dated in (pandas.DataFrame({"t": days()}), days()[:, None]):
        with pytest.raises(TypeError, match="dates or durations"):
            model.fit(dated, Y)
        with pytest.raises(TypeError, match="dates or durations"):
            model.fit(X, Y).predict_interval(dated, level=0.9)


LARGE: dict[str, Callable[[], Any]] = {
    "int64": lambda: np.arange(30) + 2**53 + 1,
    "negative": lambda: -np.arange(30) - 2**53 - 1,
    "uint64": lambda: np.arange(30, dtype=np.uint64) + np.uint64(2**63),
    "list": lambda: [2**60 + i for i in range(30)],
    "torch": lambda: torch.arange(30) + 2**53 + 1,
    "pandas": lambda: pandas.Series(np.arange(30) + 2**53 + 1),
    "frame": lambda: pandas.DataFrame({"n": np.arange(30) + 2**53 + 1}),
    "polars": lambda: polars.DataFrame({"n": np.arange(30) + 2**53 + 1}),
}


@pytest.mark.parametrize("kind", LARGE)
def test_whole_numbers_that_floats_cannot_hold_are_refused(kind: str) -> None:
    for call in ("calibrate, x", "calibrate, y", "the call", "evaluate", "Observations"):
        with pytest.raises(ValueError, match=r"integers above 2\^53"):
            CALLS[call](LARGE[kind]())
    assert len(gb.calibrate(lambda x: np.zeros(len(x)), np.full(30, 2**53), Y).y) == 30


class Writes(gb.Predictor):
    """A predictor that converts its points to other units in place."""

    def __call__(self, x: Any) -> gb.Prediction:
        x *= 1000.0
        return gb.Prediction(x, 0 * x)


def writes(x: Any) -> Any:
    """A function that does the same."""
    x *= 1000.0
    return gb.Prediction(x, 0 * x)


def in_place(x: Any) -> Any:
    """A model that works in place."""
    x *= 2.0
    return x


@pytest.mark.parametrize("of", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_a_model_cannot_change_points(of: Callable[[Any], Any]) -> None:
    x, y = of(X), of(Y)
    for predictor in (Writes(), writes):
        with pytest.raises(ValueError, match="modifies its input in place"):
            gb.calibrate(predictor, x, y)
    made = gb.calibrate(in_place, x, y)
    new = of(X + 1)
    made(new)
    assert np.array_equal(np.asarray(x), X) and np.array_equal(np.asarray(new), X + 1)
    assert np.array_equal(np.asarray(made.prediction.x), X)


def test_a_model_cannot_change_a_frame() -> None:
    def clears(table: Any) -> Any:
        table["x"] = 0.0
        return gb.Prediction(table, np.zeros(len(table)))

    table = pandas.DataFrame({"x": X[:, 0]})
    with pytest.raises(ValueError, match="modifies its input in place"):
        gb.calibrate(clears, table, Y)
    assert np.array_equal(table["x"], X[:, 0])


def test_functions_of_places_cannot_change_them() -> None:
    def ratio(x: Any) -> Any:
        x *= 0.0
        return 1.0 + x[:, 0]

    def region(x: Any) -> Any:
        x *= 0.0
        return x[:, 0] >= 0

    made = gb.calibrate(np.sin, X, Y, calibrator=gb.Weighted(ratio))
    band = made(X + 1, 0.8)
    gb.metrics.coverage(band, Y, region=region)
    assert np.array_equal(np.asarray(made.prediction.x), X) and np.array_equal(band.x, X + 1)


MASKED = np.ma.array(Y, mask=np.arange(30)[:, None] == 3)
UNFIT: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (lambda: MASKED, "row 3 is masked"),
    "list of masked": (lambda: list(MASKED), "row 3 is masked"),
    "meta": (lambda: torch.zeros(30, 1, device="meta"), "meta device"),
    "sparse": (lambda: torch.tensor(Y).to_sparse(), "dense tensor"),
    "ragged": (lambda: [[1.0]] * 29 + [[1.0, 2.0]], "rows of equal length"),
    "dict": (lambda: {"a": Y[:, 0]}, "got a dict"),
    "units": (lambda: Y.view(Meter), "a Meter with units"),
    "text": (lambda: ["a"] * 30, "real numbers"),
    "complex": (lambda: Y + 1j, "real numbers"),
    "complex torch": (lambda: torch.tensor(Y + 1j), "real numbers"),
    "records": (lambda: np.zeros(30, dtype=[("a", float), ("b", float)]), "is read by position"),
    "nothing": (lambda: None, "real numbers|is missing"),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_what_is_no_array_of_numbers_is_refused_with_a_sentence(kind: str) -> None:
    made, said = UNFIT[kind]
    for call in ("calibrate, y", "calibrate_arrays", "contains", "evaluate, y", "coverage", "relative_l2"):
        with pytest.raises((TypeError, ValueError), match=said):
            CALLS[call](made())
    stream = gb.Stream(calibrated(), level=0.9)
    stream.band(X[:1])
    with pytest.raises((TypeError, ValueError), match="masked"):
        stream.update(np.ma.masked)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint16, bool, ">f8", np.longdouble])
def test_other_dtypes_give_the_bands_of_their_values(dtype: Any) -> None:
    y = (10 * Y).astype(dtype)
    usual = gb.calibrate_arrays(np.zeros((30, 1), np.float32), y.astype(np.float64))
    made = gb.calibrate_arrays(np.zeros((30, 1), np.float32), y)
    prediction = gb.Prediction(None, np.zeros((1, 1), np.float32))
    assert np.allclose(made.band(prediction).upper, usual.band(prediction).upper, rtol=1e-3)


def test_strides_and_empty_queries_change_nothing() -> None:
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    views = (wide, np.asfortranarray(X), X[::-1][::-1], torch.tensor(X).expand(30, 1))

    def model(x: Any) -> Any:
        return 2 * x

    right = gb.calibrate(model, X, Y)(X).upper
    for view in views:
        assert np.array_equal(np.asarray(gb.calibrate(model, view, Y)(view).upper), right)
    assert len(calibrated()(np.empty((0, 1)))) == 0
    with pytest.raises(ValueError, match="one row per point, got the single number"):
        calibrated()(0.5)


def test_masks_of_regions_and_groups_and_levels_are_checked() -> None:
    mask = np.ma.array(X[:, 0] > 0.5, mask=np.arange(30) == 2)
    with pytest.raises(ValueError, match="row 2 is masked"):
        gb.metrics.coverage(calibrated()(X), Y, region=mask)
    with pytest.raises(ValueError, match="`groups` should be complete, but row 2 is masked"):
        gb.calibrate(np.sin, X, Y, calibrator=gb.Grouped(), groups=np.ma.array([0] * 30, mask=mask.mask))
    for levels, said in (([], "got none"), ([0.9, 0.9], "got 0.9, 0.9")):
        with pytest.raises(
            ValueError, match=f"`levels` should be one level or several distinct levels, {said}"
        ):
            gb.band_over(calibrated(), {"x": [0.0, 1.0]}, levels=levels)


@pytest.mark.parametrize("sizes", [(0, [4]), (-1, [4]), (1, [-4]), (1, [0]), (1, [2.5])], ids=str)
def test_a_network_has_whole_sizes(sizes: Any) -> None:
    with pytest.raises(ValueError, match=r"should be positive integers, got (0|-1|-4|2\.5)\."):
        pinn.mlp(*sizes)
    with pytest.raises(ValueError, match="`outputs` should be positive integers"):
        pinn.mlp(1, [4], outputs=0)


def test_series_pair_by_their_labels() -> None:
    x, y = pandas.Series(X[:, 0]), pandas.Series(Y[:, 0])
    mixed = y.sample(frac=1, random_state=0)
    groups = pandas.Series(np.arange(30) % 3).sample(frac=1, random_state=0)
    made = gb.calibrate(np.sin, x, y)
    calls: list[Callable[[], Any]] = [
        lambda: gb.calibrate(np.sin, x, mixed),
        lambda: gb.calibrate(np.sin, x, y, calibrator=gb.Grouped(), groups=groups),
        lambda: gb.calibrate_arrays(x, mixed),
        lambda: gb.calibrate_arrays(x, y, mixed.abs()),
        lambda: gb.calibration.calibrate_cross(lambda data: np.sin, (x, mixed), folds=3),
        lambda: gb.evaluate(made, x, mixed),
        lambda: gb.evaluate(made, x, y, regions={"right": mixed > 0}),
        lambda: made.contains(x, mixed),
        lambda: gb.Stream(made).follow(x, mixed),
        lambda: gb.partition((x, mixed), calibrate=0.5),
        lambda: gb.choose({"sine": np.sin}, calibrate=(x, mixed)),
        lambda: gb.Observations(x, mixed),
        lambda: gb.report(made, x, mixed, path="page.md"),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"labels of .* in a different order. Use \w+\.loc\[\w+\.index\]"
        ):
            call()
    assert np.array_equal(gb.calibrate(np.sin, x[mixed.index], mixed)(X).upper, made(X).upper)


def test_names_of_series_are_known() -> None:
    made = gb.calibrate(np.sin, pandas.Series(X[:, 0], name="x"), pandas.Series(Y[:, 0], name="u"))
    with pytest.raises(ValueError, match="`x` has no column `x`; its columns should be x, got t"):
        made(pandas.Series(X[:, 0], name="t"))
    with pytest.raises(ValueError, match="`y` has no column `u`; its columns should be u, got v"):
        made.contains(X, pandas.Series(Y[:, 0], name="v"))


def test_a_field_goes_by_the_columns_of_the_frame() -> None:
    table = pandas.DataFrame(np.random.default_rng(0).uniform(size=(40, 2)), columns=["a", "b"])
    made = gb.calibrate(lambda t: t["a"] + 10 * t["b"], table, table["a"])
    a, b = np.linspace(0, 1, 3), np.linspace(0, 1, 4)
    right = gb.band_over(made, {"a": a, "b": b}).compute()
    turned = gb.band_over(made, {"b": b, "a": a})
    assert turned.dims == ("a", "b")
    assert all(np.array_equal(turned.compute()[name], values) for name, values in right.items())
    for wrong in ({"a": a, "c": b}, {"c": a, "d": b}, {"a": a}, {"a": a, "b": b, "c": b}):
        with pytest.raises(ValueError, match="`grid` should contain coordinates for a, b, got"):
            gb.band_over(made, wrong)


def test_units_of_arrays_are_those_of_calibration() -> None:
    x = xarray.DataArray(X, dims=("point", "column"), attrs={"units": "m"})
    made = gb.calibrate(np.sin, x, Y)
    assert np.array_equal(made(x).upper, made(X).upper)
    with pytest.raises(ValueError, match="`x` is in km; at calibration it was in m"):
        made(x.assign_attrs(units="km"))


def test_readings_of_a_row_go_by_their_labels() -> None:
    names = ["u", "v"]
    y = pandas.DataFrame(np.random.default_rng(2).normal(size=(30, 2)), columns=names)
    made = gb.calibrate(lambda x: np.hstack([x, 5 * x]), X, y)
    scores = []
    for reading in (y.iloc[0], y.iloc[0][["v", "u"]], y[["v", "u"]].iloc[:1]):
        stream = gb.Stream(made, level=0.8)
        stream.band(X[:1])
        scores.append(stream.update(reading).score)
    assert len({*scores}) == 1


def test_names_are_kept_on_disk(tmp_path: Any) -> None:
    places = {"x": np.arange(3.0), "y": np.arange(3.0)}
    y = gb.Fields(np.random.default_rng(0).normal(size=(20, 3, 3)), ("x", "y"), places)
    made = gb.calibrate(lambda x: np.zeros((len(x), 3, 3, 1)), X[:20], y)
    again = gb.load(gb.save(made, tmp_path), model=lambda x: np.zeros((len(x), 3, 3, 1)))
    for one in (made, again):
        assert np.array_equal(one.contains(X[:20], y), one.contains(X[:20], y.turned(("y", "x"))))
        with pytest.raises(ValueError, match="its nodes along x have different coordinates"):
            one.contains(X[:20], gb.Fields(y.values, ("x", "y"), {"x": np.arange(3.0) + 1}))


def test_rows_are_the_axis_that_has_no_known_name() -> None:
    square = np.random.default_rng(3).uniform(size=(30, 30))
    made = gb.calibrate(lambda x: x[:, :1], xarray.DataArray(square, dims=("place", "sensor")), Y)
    new = xarray.DataArray(square, dims=("query", "sensor"))
    assert np.array_equal(made(new.transpose("sensor", "query")).upper, made(new).upper)
