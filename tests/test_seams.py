"""Interfaces between packages that no other test covers: rare inputs and their messages."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.cli.choices import SCALES
from guardband.cli.models import import_code, predictor_of
from guardband.conformal.score_calibrated import calibrate_prediction
from helpers import Later
from wings import nn, pinn, torch

masks = Later("guardband.pinn.predictors.masks")

DRAW = np.random.default_rng(0)
X, Y = DRAW.uniform(size=(60, 2)), DRAW.normal(size=(60, 1))
SEEN = gb.Observations(X + 5, Y)


def zero(x: np.ndarray) -> np.ndarray:
    return 0 * x[:, :1]


def test_calibrators_are_made_for_files() -> None:
    made = gb.conformal.RandomlyLocalized.for_files(x=X, queries=None, training_data=SEEN)
    assert made.inputs is SEEN.x
    with pytest.raises(ValueError, match=r"its bandwidth from training rows\. Pass --training-data FILE"):
        gb.conformal.RandomlyLocalized.for_files(x=X, queries=None, training_data=None)
    with pytest.raises(ValueError, match="--query has no meaning for Split"):
        gb.Split.for_files(x=X, queries=X, training_data=None)


def test_the_promise_names_what_places_that_repeat_mean() -> None:
    local = gb.conformal.RandomlyLocalized(bandwidth=1.0)
    made = gb.calibrate(zero, np.repeat(X[:12], 5, axis=0), Y, calibrator=local)
    assert "if points repeat" in made.promise and "calibration scores" in made.promise


def test_every_word_for_a_scale_makes_a_predictor_or_says_what_it_needs() -> None:
    problem = pinn.problems.Poisson1D()
    recipe = pinn.Recipe(steps=2, finish=0, n_interior=16)
    net = pinn.mlp(1, [4, 4], dropout=0.1)
    fitted = pinn.fit(problem, net, problem.observe(30), recipe=recipe, progress=False)
    for word in SCALES:
        predictor = fitted if word == "own" else predictor_of(fitted, word, fitted.training_data)
        assert np.isfinite(np.asarray(gb.calibrate(predictor, X[:, :1], Y)([[0.5]], 0.9).mean)).all()
    with pytest.raises(ValueError, match=r"the model should be the result of `pinn\.fit`"):
        predictor_of(np.sin, "laplace", None)
    with pytest.raises(ValueError, match="--scale should be one of"):
        predictor_of(np.sin, "magic", None)


def test_python_of_ones_own_is_run_by_its_path_or_name(tmp_path: Path) -> None:
    (tmp_path / "a_method_of_mine.py").write_text("MADE = 1\n")
    import_code([str(tmp_path / "a_method_of_mine.py"), "json"])
    with pytest.raises(ValueError, match=r"There is no file nowhere\.py"):
        import_code(["nowhere.py"])


def test_a_prediction_will_do_in_place_of_arrays() -> None:
    prediction = gb.Prediction(X, zero(X), 1 + X[:, :1])
    by_arrays = gb.calibrate_arrays(prediction.mean, Y, prediction.scale, x_cal=X)
    made = gb.calibrate_arrays(prediction, Y)
    assert np.array_equal(made.band(prediction).upper, by_arrays.band(prediction).upper)
    with pytest.raises(ValueError, match="at least one calibration point, got none"):
        calibrate_prediction(None, prediction.take(slice(0)), Y[:0], score=gb.Scaled(), calibrator=gb.Split())


def test_shards_know_how_many_coordinates_their_points_have() -> None:
    def predictor(x: np.ndarray) -> gb.Prediction:
        return gb.Prediction(None, np.zeros((len(x), 2)))

    shards = [np.arange(30.0)]
    made = gb.conformal.calibrate_shards(gb.predictors.PredictionFunction(predictor), shards, [0.9], x=X[:3])
    assert made.prediction.x is not None and made.prediction.x.shape == (0, 2)
    assert made.constant_width() is None and made.n == 30


def test_a_local_calibrator_prints_what_it_is_told() -> None:
    assert repr(gb.Local()).startswith("Local(the predictor's training points, LogScale(")
    assert repr(gb.Local(SEEN)).startswith("Local(60 training points") and gb.Local(SEEN).plain == gb.Split()
    with pytest.raises(ValueError, match="which its predictor does not declare"):
        gb.calibrate(zero, X, Y, calibrator=gb.Local())
    assert repr(gb.Simultaneous(np.ones((4, 1)))) == "Simultaneous(shape (4, 1))"


def test_a_distance_is_in_the_units_of_each_output() -> None:
    seen = gb.Observations(X, np.hstack([Y, 1e5 * Y, 0 * Y]))
    scale = gb.predictors.Distance(lambda x: np.zeros((len(x), 3)), seen, n_neighbors=3)(X[:5] + 1).scale
    assert scale is not None and scale[:, 1] / scale[:, 0] == pytest.approx(1e5)
    assert (scale[:, 2] > 0).all()


def test_what_a_graph_or_a_mesh_needs_is_said(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"`export_onnx` expects the result of `gb\.calibrate`, got int"):
        gb.export_onnx(3, tmp_path / "band.onnx")  # type: ignore[arg-type]
    separate = gb.calibrate(pinn.mlp(2, [4], outputs=2), X, np.hstack([Y, Y]), score=gb.Absolute(joint=False))
    with pytest.raises(TypeError, match="one threshold for all outputs, but this has one for each"):
        gb.export_onnx(separate, tmp_path / "band.onnx")


class Branch(nn.Module):
    """Dropout that is not followed by a linear layer."""

    def __init__(self, answer: Any = None) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1)
        self.answer = answer

    def forward(self, x: torch.Tensor) -> Any:
        h = torch.tanh(self.first(x))
        if self.answer == "skipped":
            return self.last(h)
        u = self.last(torch.sin(self.drop(h)))
        return (u, u) if self.answer == "a pair" else u


def test_dropout_anywhere_in_a_module_of_ones_own() -> None:
    predictor = pinn.predictors.Dropout(Branch(), draws=20, training_data=SEEN)
    gb.testing.check_predictor(predictor, X)
    assert predictor.training_data is SEEN and masks.Silenced.__doc__
    with pytest.raises(TypeError, match="should return one array, but this Branch returned a tuple"):
        pinn.predictors.Dropout(Branch("a pair"), draws=4)(X)
    with pytest.raises(ValueError, match="No Dropout of this Branch was used"):
        pinn.predictors.Dropout(Branch("skipped"), draws=4)(X)


def test_rows_without_all_numbers_leave_nothing_to_compare() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.where(np.arange(60) < 60, np.nan, 1.0), "b": X[:, 0]})
    made = gb.calibrate(lambda frame: np.zeros(len(frame)), frame, Y)
    assert "Every row has missing numbers" in gb.check(made, frame)["places"].text
