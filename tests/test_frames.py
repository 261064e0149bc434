"""Frames: columns are matched by name in any order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.values.frames import Columns
from wings import torch

pandas = pytest.importorskip("pandas")

DRAW = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {"t": DRAW.uniform(size=60), "depth": DRAW.uniform(size=60), "site": ["a", "b", "c"] * 20}
)
Y = FRAME["t"] + 10 * FRAME["depth"] + DRAW.normal(size=60)
NUMBERS = FRAME[["t", "depth"]]


def of_names(frame: Any) -> Any:
    return frame["t"] + 10 * frame["depth"]


class Fitted:
    """An object with the interface of a scikit-learn regressor."""

    feature_names_in_ = np.array(["t", "depth"])

    def predict(self, frame: Any) -> Any:
        assert list(frame.columns) == ["t", "depth"]
        return of_names(frame).to_numpy()


class FittedOnArrays:
    def predict(self, x: Any) -> Any:
        assert type(x) is np.ndarray
        return x[:, 0] + 10 * x[:, 1]


class Slope(gb.Predictor):
    """A predictor that does not support frames."""

    def __call__(self, x: Any) -> gb.Prediction:
        assert type(x) is np.ndarray
        return gb.Prediction(x, x[:, 0] + 10 * x[:, 1], 1 + x[:, 0])


def linear() -> torch.nn.Module:
    net = torch.nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 10.0]]))
        net.bias.zero_()
    return net


MODELS: dict[str, Callable[[], Any]] = {
    "a function": lambda: of_names,
    "a regressor fitted on a frame": Fitted,
    "a regressor fitted on arrays": FittedOnArrays,
    "a network": linear,
    "two functions": lambda: gb.predictors.Given(of_names, lambda frame: 1 + frame["t"]),
    "a predictor": Slope,
    "a function that predicts": lambda: lambda frame: gb.Prediction(None, of_names(frame)),
}


@pytest.mark.parametrize("name", MODELS)
def test_columns_are_known_by_their_names(name: str) -> None:
    calibrated = gb.calibrate(MODELS[name](), NUMBERS[:50], Y[:50])
    expected = calibrated(NUMBERS[50:], 0.9)
    assert len(expected) == 10 and np.isfinite(expected.upper).all()
    for same in (NUMBERS[50:][["depth", "t"]], FRAME[50:], NUMBERS[50:].to_numpy()):
        assert np.array_equal(calibrated(same, 0.9).upper, expected.upper)
    with pytest.raises(ValueError, match="`x` has no column `depth`, which it had at calibration: t, depth"):
        calibrated(FRAME[["t", "site"]])
    with pytest.raises(ValueError, match="should have the 2 columns t, depth, got 3"):
        calibrated(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="different names, but `t` occurs twice"):
        calibrated(pandas.DataFrame(np.zeros((4, 3)), columns=["t", "depth", "t"]))


def test_columns_that_are_no_numbers_go_to_models_that_take_them() -> None:
    def of_site(frame: Any) -> Any:
        return frame["t"] + (frame["site"] == "a")

    calibrated = gb.calibrate(of_site, FRAME[:50], Y[:50])
    assert calibrated.columns is not None and str(calibrated.columns) == "t, depth, site"
    assert calibrated.columns.numeric == ("t", "depth")
    assert calibrated.prediction.x.shape == (50, 2)  # type: ignore[union-attr]
    assert len(gb.evaluate(calibrated, FRAME[50:], Y[50:]).rows[0].levels) == 19
    for model, who in ((linear(), "A torch module"), (Slope(), "Slope")):
        with pytest.raises(TypeError, match=f"{who} takes numbers, but some columns .* not numeric: site"):
            gb.calibrate(model, FRAME, Y)


def test_names_are_different_and_plain() -> None:
    with pytest.raises(ValueError, match="different names, but `t` occurs twice"):
        gb.calibrate(of_names, pandas.concat([NUMBERS, NUMBERS[["t"]]], axis=1), Y)
    with pytest.raises(TypeError, match="should be strings or integers, got"):
        gb.calibrate(of_names, pandas.DataFrame({1.5: Y}), Y)


def test_a_frame_without_names_has_numbers_for_names() -> None:
    plain = pandas.DataFrame(NUMBERS.to_numpy())
    calibrated = gb.calibrate(lambda frame: frame[0] + 10 * frame[1], plain, Y)
    assert np.array_equal(calibrated(plain[[1, 0]]).upper, calibrated(plain.to_numpy()).upper)


def test_missing_numbers_stay_missing() -> None:
    holes = NUMBERS.assign(t=FRAME["t"].where(FRAME.index > 2)).convert_dtypes()
    calibrated = gb.calibrate(lambda frame: frame["depth"].to_numpy(float), holes, Y)
    assert np.isnan(calibrated.prediction.x[:3, 0]).all()  # type: ignore[index]
    assert np.isfinite(calibrated.prediction.x[3:]).all()  # type: ignore[index]


def test_a_frame_beside_a_calibration_on_arrays_is_an_array() -> None:
    calibrated = gb.calibrate(FittedOnArrays(), NUMBERS.to_numpy(), Y)
    assert np.array_equal(calibrated(NUMBERS).upper, calibrated(NUMBERS.to_numpy()).upper)


def test_what_becomes_of_the_frame_does_not_matter() -> None:
    mine = NUMBERS.copy()
    calibrated = gb.calibrate(of_names, mine, Y)
    before = calibrated.prediction.x.copy()  # type: ignore[union-attr]
    mine.loc[:, "t"] = 7.0
    mine["depth"] *= 3
    assert np.array_equal(calibrated.prediction.x, before)  # type: ignore[arg-type]


def test_names_are_saved_and_the_model_is_checked(tmp_path: Path) -> None:
    calibrated = gb.calibrate(of_names, NUMBERS, Y)
    gb.save(calibrated, tmp_path)
    again = gb.load(tmp_path, model=of_names)
    assert np.array_equal(again(NUMBERS[["depth", "t"]]).upper, calibrated(NUMBERS).upper)
    with pytest.raises(gb.store.ArtifactError, match="not the one that was saved"):
        gb.load(tmp_path, model=lambda frame: frame["t"])


def test_a_model_of_words_is_asked_again_at_load(tmp_path: Path) -> None:
    frame = FRAME.assign(soil=pandas.Categorical(FRAME["site"].map({"a": "sand", "b": None})))

    def of_words(factor: float) -> Any:
        return lambda x: factor * x["t"] + (x["site"] == "a") + (x["soil"] == "sand")

    for seen in (frame, frame[["t", "soil", "site"]]):
        gb.save(gb.calibrate(of_words(1.0), seen, Y), tmp_path / str(len(seen.columns)))
        again = gb.load(tmp_path / str(len(seen.columns)), model=of_words(1.0))
        assert again.columns is not None and again.columns.others[-1].categories in (None, ("sand",))
        with pytest.raises(gb.store.ArtifactError, match="its mean differs at stored points"):
            gb.load(tmp_path / str(len(seen.columns)), model=of_words(2.0))


def test_training_rows_have_the_columns_of_the_calibration_rows() -> None:
    def seen(frame: Any) -> gb.predictors.MeanOnly:
        return gb.predictors.MeanOnly(of_names, training_data=gb.Observations(frame, Y))

    assert gb.Observations(FRAME[["t", "depth"]], Y).names == ("t", "depth")
    with pytest.raises(ValueError, match="60 calibration points are training points"):
        gb.calibrate(seen(FRAME[["t", "depth"]]), FRAME[["t", "depth"]], Y)
    with pytest.raises(
        ValueError, match="rows have the columns depth, t, but the numeric columns of `x_cal`"
    ):
        gb.calibrate(seen(FRAME[["depth", "t"]]), FRAME[["t", "depth"]], Y)
    with pytest.raises(TypeError, match=r"gb.Observations takes numbers, .* not numeric: site"):
        gb.Observations(FRAME, Y)


@pytest.mark.parametrize("kind", ["int", "float"])
def test_numbered_categories_come_back(kind: str) -> None:
    column = pandas.Series(np.arange(20) * 10**9).astype(kind).astype("category")
    frame = pandas.DataFrame({"t": np.arange(20.0), 7: column})
    again = Columns.of(frame).first(frame[["t"]].to_numpy()[:16])
    assert (
        again is not None and (again[7] == frame[7][:16]).all() and str(again[7].dtype) == str(column.dtype)
    )


def test_what_cannot_be_kept_is_not_asked_again() -> None:
    frame = pandas.DataFrame({"t": [1.0, 2.0], "odd": [object(), 2]})
    assert Columns.of(frame).first(frame[["t"]].to_numpy()) is None
    assert [other.values for other in Columns.of(frame).others] == [()]


def test_categories_keep_their_numbers() -> None:
    frame = FRAME.assign(soil=pandas.Categorical(["clay", "sand"] * 30))[["t", "soil"]]
    calibrated = gb.calibrate(lambda x: x["t"] + x["soil"].cat.codes, frame, Y)
    for column in (pandas.Categorical(["sand", "sand"]), ["sand", "sand"]):
        asked = pandas.DataFrame({"t": [0.0, 1.0], "soil": column})
        assert calibrated(asked, 0.9).mean.ravel().tolist() == [1.0, 2.0]
    strange = pandas.DataFrame({"t": [0.0], "soil": pandas.Categorical(["peat"])})
    with pytest.raises(
        ValueError, match="`soil` holds 'peat', which was not a category at calibration: clay"
    ):
        calibrated(strange, 0.9)


def test_rows_are_known_by_their_labels() -> None:
    mixed = NUMBERS.sample(frac=1, random_state=0)
    sorting = gb.calibrate(lambda x: of_names(x).sort_values(), NUMBERS, Y)
    assert np.array_equal(sorting(mixed).mean, gb.calibrate(of_names, NUMBERS, Y)(mixed).mean)
    with pytest.raises(ValueError, match=r"labels of `x_cal` in a different order. Use y.loc\[x.index\]"):
        gb.calibrate(of_names, NUMBERS, Y.sort_values())
    assert len(gb.calibrate(of_names, mixed, Y.loc[mixed.index].to_numpy()).y) == 60


def test_each_library_has_a_name_for_the_columns_it_was_fitted_on() -> None:
    class Booster:
        def feature_name(self) -> list[str]:
            return ["t", "depth"]

        def predict(self, x: Any) -> Any:
            return np.asarray(x)[:, 0] + 10 * np.asarray(x)[:, 1]

    swapped = gb.calibrate(Booster(), NUMBERS[["depth", "t"]], Y)
    assert np.array_equal(swapped(NUMBERS).mean, of_names(NUMBERS).to_numpy()[:, None])


def test_rows_that_lack_a_number_are_known_again() -> None:
    frame = NUMBERS.assign(rain=np.where(np.arange(60) % 2, np.nan, 1.5))
    calibrated = gb.calibrate(of_names, frame[:40], Y[:40])
    with pytest.warns(UserWarning, match="40 of 40 test points are calibration points"):
        found = gb.evaluate(calibrated, frame[:40], Y[:40])
    assert found.consistent is None and "Consistent" not in found.verdict
    assert gb.evaluate(calibrated, frame[40:], Y[40:]).consistent is not None


def test_a_table_that_is_not_computed_yet_is_refused() -> None:
    LazyFrame = type("LazyFrame", (), {})
    with pytest.raises(TypeError, match=r"holds no rows yet. Pass x.collect\(\)"):
        gb.calibrate(of_names, LazyFrame(), Y)


@pytest.mark.parametrize("kind", ["String", "Categorical"])
def test_frames_of_polars_are_frames(kind: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_dict({name: FRAME[name].tolist() for name in FRAME})
    frame = frame.with_columns(frame["site"].cast(getattr(polars, kind)))
    heights = {"a": 1.0, "b": 2.0, "c": 3.0}

    def model(x: Any) -> Any:
        assert isinstance(x, polars.DataFrame) and x.columns == ["t", "depth", "site"]
        return np.array([heights[site] for site in x["site"].to_list()]) + x["t"].to_numpy()

    made = gb.calibrate(model, frame, Y.to_numpy())
    band = made(frame.select("site", "depth", "t"), 0.9)
    assert np.array_equal(band.mean, made(frame, 0.9).mean)
    with pytest.raises(ValueError, match="`x` has no column `site`"):
        made(frame.drop("site"), 0.9)
    gb.save(made, tmp_path)
    assert np.array_equal(gb.load(tmp_path, model=model)(frame, 0.9).upper, made(frame, 0.9).upper)
    heights["b"] = 7.0
    with pytest.raises(gb.store.ArtifactError, match="is not the one that was saved"):
        gb.load(tmp_path, model=model)


def test_arrays_beside_frames_of_polars_get_their_names() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_dict({name: NUMBERS[name].tolist() for name in NUMBERS})
    made = gb.calibrate(lambda x: x["t"].to_numpy() + 10 * x["depth"].to_numpy(), frame, Y.to_numpy())
    assert np.array_equal(made(NUMBERS.to_numpy(), 0.9).mean, made(frame, 0.9).mean)
