"""Saved classes: a class declares its parts, and a file names classes only."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base.kept import attributes, classes_of, kind_named, kind_of


@gb.kept
@dataclass(frozen=True)
class Thrifty(gb.conformal.Calibrator):
    """A user-defined calibrator with settings."""

    share: float = 0.5

    def threshold(self, scores: Any, prediction: gb.Prediction, **options: Any) -> Any:
        return gb.Split().threshold(scores, prediction, **options)


@gb.kept
class StraightLine(gb.Predictor):
    """A user-defined predictor."""

    def __init__(self, slope: float, model: Any = None) -> None:
        self.slope, self.model = slope, model

    def __call__(self, x: np.ndarray) -> gb.Prediction:
        more = 0 if self.model is None else self.model(x)
        return gb.Prediction(x, self.slope * x + more, 1 + self.doubled * x**2)

    @cached_property
    def doubled(self) -> float:
        return 2 * self.slope


@gb.kept(name="anonymous", parts=lambda value: None)
@dataclass(frozen=True)
class Unspeakable(gb.conformal.Symmetric):
    """A score that cannot be saved."""

    def unit(self, prediction: gb.Prediction) -> Any:
        return 2.0


X = np.linspace(0, 1, 40)[:, None]


def test_what_is_marked_is_saved_and_loaded(tmp_path: Path) -> None:
    made = gb.calibrate(StraightLine(3.0), X, np.cos(9 * X), calibrator=Thrifty(0.25))
    again = gb.load(gb.save(made, tmp_path))
    assert again.calibrator == Thrifty(0.25)  # type: ignore[attr-defined]
    assert again.predictor.slope == 3.0  # type: ignore[attr-defined]
    assert np.array_equal(again(X).upper, made(X).upper)
    assert classes_of(gb.conformal.Calibrator)["Thrifty"] is Thrifty


def test_what_is_not_kept_is_passed_again(tmp_path: Path) -> None:
    made = gb.calibrate(StraightLine(3.0, np.sin), X, np.cos(9 * X), score=Unspeakable())
    gb.save(made, tmp_path)
    assert gb.store.manifest(tmp_path)["passed_at_load"] == ["model", "score"]
    with pytest.raises(
        gb.store.ArtifactError, match=r"without score. Load it with gb.load\(folder, score=...\)"
    ):
        gb.load(tmp_path, model=np.sin)
    again = gb.load(tmp_path, model=np.sin, score=Unspeakable())
    assert np.array_equal(again(X).upper, made(X).upper)
    with pytest.raises(gb.store.ArtifactError, match="The `model` passed is not the one"):
        gb.load(tmp_path, model=np.cos, score=Unspeakable())
    with pytest.raises(gb.store.ArtifactError, match="The calibration is not the one that was saved"):
        gb.load(tmp_path, model=np.sin, score=gb.Absolute())


def test_a_subclass_is_not_kept_unless_it_says_so(tmp_path: Path) -> None:
    class Steeper(StraightLine):
        pass

    assert kind_of(Steeper(1.0)) is None
    gb.save(gb.calibrate(Steeper(1.0), X, np.cos(9 * X)), tmp_path)
    assert gb.store.manifest(tmp_path)["passed_at_load"] == ["predictor"]
    assert gb.load(tmp_path, predictor=Steeper(1.0))
    with pytest.raises(gb.store.ArtifactError, match="predictor"):
        gb.load(tmp_path, predictor=Steeper(2.0))


def test_names_are_taken_once_but_a_class_may_be_defined_again() -> None:
    with pytest.raises(ValueError, match=r"already kept as 'Split'. .* @gb.kept\(name=...\)"):

        @gb.kept
        class Split:
            pass

    for share in (1, 2):

        @gb.kept
        class Redefined:
            value = share

    assert kind_named("Redefined").cls.value == 2


def test_a_kind_that_is_not_defined_says_what_to_import() -> None:
    with pytest.raises(LookupError, match=r"'Nowhere' is a kind .* import its module before loading"):
        kind_named("Nowhere")


def test_cached_properties_are_not_kept() -> None:
    line = StraightLine(2.0)
    assert line.doubled == 4.0 and attributes(line) == {"slope": 2.0, "model": None}


def test_a_calibration_that_says_nothing_cannot_be_saved(tmp_path: Path) -> None:
    class Mine(gb.Calibrated):
        promise = "none"  # type: ignore[assignment]

        def predict(self, x: Any) -> gb.Prediction:
            return gb.Prediction(x, x)

        def band(self, prediction: gb.Prediction, level: Any = 0.95, *, groups: Any = None) -> gb.Band:
            return gb.Band(prediction.x, prediction.mean, prediction.mean, prediction.mean, 0.95)

    with pytest.raises(TypeError, match=r"Mine does not define how it is saved. .* @gb.kept"):
        gb.save(Mine(), tmp_path)


@gb.kept
@dataclass(frozen=True, eq=False)
class Everywhere(gb.Calibrated):
    """A calibration without score and threshold, with a given width."""

    half: float

    def predict(self, x: Any) -> gb.Prediction:
        return gb.Prediction(np.reshape(x, (-1, 1)), np.reshape(x, (-1, 1)))

    def band(self, prediction: gb.Prediction, level: Any = 0.95, *, groups: Any = None) -> gb.Band:
        ends = prediction.mean - self.half, prediction.mean + self.half
        return gb.Band(prediction.x, prediction.mean, *ends, float(level))

    @property
    def promise(self) -> str:
        return "None whatever."

    def fingerprint(self) -> dict[str, np.ndarray]:
        return {"half": np.array([self.half])}


def test_a_calibration_of_another_kind_goes_everywhere(tmp_path: Path) -> None:
    made, x = Everywhere(2.0), np.linspace(0, 1, 30)
    again = gb.load(gb.save(made, tmp_path / "band"))
    assert np.array_equal(again(x).upper, made(x).upper)
    found = gb.evaluate(made, x, x + np.linspace(-1, 3, 30))
    assert found.coverage == pytest.approx(22 / 30, abs=0.04) and found.consistent is None
    assert [row.name for row in found.rows] == ["this band"] and found.n_cal == 0
    page = gb.report(made, x, x, path=tmp_path / "page.md").read_text()
    assert "None whatever." in page
    with pytest.raises(TypeError, match="Everywhere cannot be exported"):
        gb.export_onnx(made, tmp_path / "band.onnx")
