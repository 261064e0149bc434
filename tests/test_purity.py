"""No call changes global random state, default dtype, gradient mode, or the mode of a network."""

import matplotlib

matplotlib.use("Agg")

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import guardband as gb
from guardband import files
from guardband.testing import untouched

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.uniform(size=(40, 2)), GENERATOR.normal(size=40)
LABELS = np.arange(40) % 2
NET = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1)).train()
CONSTANT = gb.predictors.Constant(NET)
GIVEN = gb.predictors.Given(NET, lambda x: 1 + x[:, :1])
CALIBRATED = gb.calibrate(GIVEN, X, Y)
BAND = CALIBRATED(X + 1)

CALLS: dict[str, Callable[[], Any]] = {
    "Observations": lambda: gb.Observations(X, Y),
    "Prediction": lambda: gb.Prediction(X, Y),
    "Band": lambda: (BAND.contains(Y), BAND.numpy(), BAND.to_pandas(), BAND.to_xarray(), repr(BAND)),
    "calibrate": lambda: [
        gb.calibrate(CONSTANT, X, Y, score=score)(torch.tensor(X).float(), 0.9)
        for score in (gb.Absolute(), gb.Scaled(), gb.Total(0.1))
    ],
    "calibrate_arrays": lambda: gb.calibrate_arrays(Y, Y),
    "Calibrated": lambda: (CALIBRATED(X), CALIBRATED.predict(X), repr(CALIBRATED)),
    "Split": lambda: gb.calibrate(GIVEN, X, Y, confidence=0.9)(X, 0.8),
    "Grouped": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.Grouped(), groups=LABELS)(
        X, 0.8, groups=LABELS
    ),
    "Clustered": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.Clustered(), groups=np.arange(40))(X, 0.8),
    "Local": lambda: gb.calibrate(
        GIVEN, X, Y, calibrator=gb.Local(gb.Observations(X + 1, Y), gb.LogScale(draws=2))
    )(X, 0.8),
    "check": lambda: str(gb.check(CALIBRATED, X + 0.1)),
    "Simultaneous": lambda: gb.calibrate_arrays(
        np.zeros((9, 5, 1)), np.ones((9, 5, 1)), score=gb.Simultaneous.fitted(np.ones((3, 5, 1)))
    ),
    "Localized": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.Localized(1.0))(X, 0.8),
    "Weighted": lambda: gb.calibrate(
        GIVEN, X, Y, calibrator=gb.Weighted(gb.density_ratio(X + 0.1, X, method="kernel"))
    )(X, 0.8),
    "density_ratio": lambda: gb.density_ratio(X, X + 0.1)(X),
    "LogScale": lambda: gb.LogScale(draws=2).fit(X, abs(Y))(X),
    "PinballNetwork": lambda: gb.PinballNetwork(steps=2).fit(X, abs(Y))(X),
    "save": lambda: gb.save(gb.calibrate_arrays(Y, Y), tempfile.mkdtemp()),
    "load": lambda: gb.load(gb.save(gb.calibrate_arrays(Y, Y), tempfile.mkdtemp())),
    "raw_band": lambda: gb.raw_band(GIVEN(X)),
    "points_needed": lambda: gb.points_needed(0.95, 0.9),
    "evaluate": lambda: str(gb.evaluate(CALIBRATED, X + 1, Y, regions={"left": lambda x: x[:, 0] < 0.5})),
    "conformal": lambda: gb.conformal.quantile(abs(Y), 0.9),
    "metrics": lambda: (gb.metrics.sharpness(BAND), gb.metrics.acd_floor(20, 20)),
    "plot": lambda: (gb.plot.width(BAND), gb.plot.coverage_curve(gb.evaluate(CALIBRATED, X + 1, Y))),
    "fit": lambda: gb.fit(
        gb.problems.Poisson1D(), gb.mlp(1, [4]), recipe=gb.Recipe(steps=5, finish=5), progress=False
    ),
    "mlp": lambda: gb.mlp(2, [4], dropout=0.5)(torch.zeros(3, 2)),
    "Constrained": lambda: gb.Constrained(gb.mlp(2, [4]), torch.sin, torch.cos)(torch.zeros(3, 2)),
    "problems": lambda: gb.problems.AllenCahn2D().observe(5, noise=0.1),
    "pinn": lambda: gb.pinn.paper_likelihood(gb.problems.AllenCahn2D()),
    "predictors": lambda: (CONSTANT(X), GIVEN(torch.tensor(X)), CONSTANT.at_training(X)),
    "testing": lambda: (
        gb.testing.check_predictor(GIVEN, X),
        gb.testing.check_score(gb.Scaled()),
        gb.testing.check_calibrator(gb.Split(), sizes=[9], draws=20),
    ),
}
VALUES = {
    "FieldBand",
    "write_mesh",
    "field",
    "adapters",
    "export_onnx",
    "report",
    "ArtefactError",
    "LEVELS",
    "campaign",
    "studies",
    "Absolute",
    "Scaled",
    "Total",
    "Evaluation",
    "InfiniteBandWarning",
    "Predictor",
    "OverfittedWarning",
    "Findings",
} | {
    "Fitted",
    "Likelihood",
    "Recipe",
    "TrainingDiverged",
}


def test_every_public_name_is_called_here() -> None:
    assert set(gb.__all__) == set(CALLS) | VALUES


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_no_trace(name: str) -> None:
    with untouched(CONSTANT, NET):
        CALLS[name]()


def test_files_leave_no_trace(tmp_path: Path) -> None:
    with untouched():
        files.sha256(files.write_text(tmp_path / "a", "b"))


def test_every_public_function_is_typed() -> None:
    modules = [gb, gb.conformal, gb.metrics, gb.plot, gb.predictors, gb.testing]
    for module in modules:
        for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
            thing = getattr(module, name)
            if not getattr(thing, "__module__", "").startswith("guardband"):
                continue
            functions = [thing] if inspect.isfunction(thing) else []
            if inspect.isclass(thing):
                functions = [
                    f for n, f in vars(thing).items() if inspect.isfunction(f) and not n.startswith("_")
                ]
            for function in functions:
                signature = inspect.signature(function)
                parameters = [p for p in signature.parameters.values() if p.name != "self"]
                assert all(p.annotation is not p.empty for p in parameters), function
                assert signature.return_annotation is not signature.empty, function
