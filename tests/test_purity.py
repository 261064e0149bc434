"""No call changes global random state, default dtype, gradient mode, or the mode of a network."""

import matplotlib

matplotlib.use("Agg")

import inspect
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import guardband as gb
from guardband import lab, pinn
from guardband.base import files
from guardband.testing import untouched
from helpers import Later

xarray, parser, linear_model = Later("xarray"), Later("onnx.parser"), Later("sklearn.linear_model")

X, Y = np.random.default_rng(0).uniform(size=(40, 2)), np.random.default_rng(1).normal(size=40)
LABELS = np.arange(40) % 2
NET = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1)).train()
CONSTANT = gb.predictors.MeanOnly(NET)
GIVEN = gb.predictors.Given(NET, lambda x: 1 + x[:, :1])
QUANTILES = gb.Quantiles(NET, lambda x: 9 + x[:, :1])
CALIBRATED = gb.calibrate(GIVEN, X, Y)
BAND = CALIBRATED(X + 1)
GRID = {"x": np.linspace(0, 1, 4), "y": np.linspace(0, 1, 3)}
GRAPH = '<ir_version: 8, opset_import: ["": 18]> g (float[n, 2] x) => (float[n, 2] y) { y = Exp(x) }'
TRAINING = lab.studies.Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=pinn.Recipe(steps=5, finish=5))


PLATE = pinn.Rectangle((0, 0), (2, 1)) - pinn.Disk((1, 0.5), 0.2, name="hole")


@cache
def alone() -> pinn.Fitted:
    recipe = pinn.Recipe(steps=5, finish=5)
    return pinn.fit(pinn.problems.Poisson1D(), pinn.mlp(1, [4]), recipe=recipe, progress=False)


HEAT = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.1, 0.2))
SOLVED, HEATED = HEAT.exact(), pinn.problems.Heat1D(diffusivity=0.15).observe(12, noise=0.05)


NET_1D = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout(0.5)).train()
FIELDS = gb.Fields(np.ones((9, 5)), dims="x", coordinates={"x": np.linspace(0, 1, 5)})


@cache
def stored() -> gb.StoredFields:
    data = {"u": (("field", "x", "channel"), np.ones((9, 5, 1), "float32"))}
    return gb.StoredFields(xarray.Dataset(data), x="u", y="u")


def folder() -> Path:
    return Path(tempfile.mkdtemp())


def study() -> lab.studies.Study:
    uses = {"laplace": lab.studies.Factory(pinn.predictors.Laplace)}
    return lab.studies.grid("mine", [TRAINING], uses, cal=30, test=30, draws=5)


def on_stored(score: gb.conformal.Score) -> gb.Calibrated:
    return gb.calibrate(NET_1D, stored(), scores=folder() / "s.zarr", score=score, chunk=4, progress=False)


CALLS: dict[str, Callable[[], Any]] = {
    "Observations": lambda: gb.Observations(X, Y),
    "Prediction": lambda: gb.Prediction(X, Y),
    "NormBand": lambda: gb.values.NormBand(X, X, 1.0, lambda d: abs(d).max(axis=1), 0.9).contains(X),
    "Band": lambda: (BAND.contains(Y), BAND.numpy(), BAND.to_pandas(), BAND.to_xarray(), repr(BAND)),
    "calibrate": lambda: [
        gb.calibrate(CONSTANT, X, Y, score=score)(torch.tensor(X).float(), 0.9)
        for score in (gb.Absolute(), gb.Scaled(), gb.conformal.Total(0.1))
    ],
    "calibrate_arrays": lambda: gb.calibrate_arrays(Y, Y),
    "Calibrated": lambda: (CALIBRATED(X), CALIBRATED.predict(X), repr(CALIBRATED)),
    "decide": lambda: gb.decide(CALIBRATED, X, 0.5).to_pandas(),
    "screen": lambda: gb.screen(CALIBRATED, X, 0.5).to_pandas(),
    "Hybrid": lambda: gb.Hybrid(np.sin, np.sin, X, np.sin(X), tolerance=1.0)(X),
    "Split": lambda: gb.calibrate(GIVEN, X, Y, confidence=0.9)(X, 0.8),
    "Grouped": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.Grouped(), groups=LABELS)(
        X, 0.8, groups=LABELS
    ),
    "Clustered": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.Clustered(), groups=np.arange(40))(X, 0.8),
    "Local": lambda: gb.calibrate(
        GIVEN, X, Y, calibrator=gb.Local(gb.Observations(X + 1, Y), gb.conformal.LogScale(draws=2))
    )(X, 0.8),
    "check": lambda: str(gb.check(CALIBRATED, X + 0.1)),
    "Simultaneous": lambda: gb.calibrate_arrays(
        np.zeros((9, 5, 1)), np.ones((9, 5, 1)), score=gb.Simultaneous.fitted(np.ones((3, 5, 1)))
    ),
    "Share": lambda: [
        gb.calibrate_arrays(np.zeros((9, 5, 1)), FIELDS, score=score).band(
            gb.Prediction(None, FIELDS[:2]), 0.9
        )
        for score in (gb.Share(0.1), gb.Norm("L2"), gb.Norm("H1"), gb.Quantity(lambda u: u.max(axis=(1, 2))))
    ],
    "Fields": lambda: (repr(FIELDS), FIELDS.grid.cells, FIELDS[:3]),
    "ShareBand": lambda: gb.conformal.ShareBand(X, X, X - 1, X + 1, 0.9, gamma=0.1).share(X),
    "Rollout": lambda: gb.Rollout(NET_1D, steps=2).shaped(FIELDS, np.ones((9, 2, 5, 1)))(FIELDS.values),
    "datasets": lambda: [
        make(2, nodes=16, folder=None, progress=False) for make in (gb.datasets.burgers, gb.datasets.darcy)
    ],
    "surrogates": lambda: pinn.surrogates.adapted(gb.predictors.MeanOnly(NET_1D), FIELDS, FIELDS, steps=2)(
        FIELDS.values
    ),
    "RandomlyLocalized": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.conformal.RandomlyLocalized(1.0))(
        X, 0.8
    ),
    "Weighted": lambda: gb.calibrate(
        GIVEN, X, Y, calibrator=gb.Weighted(gb.conformal.density_ratio(X + 0.1, X, method="kernel"))
    )(X, 0.8),
    "Conditional": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.Conditional(lambda x: x > 0.5))(X, 0.5),
    "RiskControl": lambda: gb.calibrate(GIVEN, X, Y, calibrator=gb.RiskControl())(X, 0.8),
    "density_ratio": lambda: gb.conformal.density_ratio(X, X + 0.1)(X),
    "LogScale": lambda: gb.conformal.LogScale(draws=2).fit(X, abs(Y))(X),
    "PinballNetwork": lambda: pinn.PinballNetwork(steps=2).fit(X, abs(Y))(X),
    "save": lambda: gb.save(gb.calibrate_arrays(Y, Y), folder()),
    "load": lambda: gb.load(gb.save(gb.calibrate_arrays(Y, Y), folder())),
    "band_over": lambda: gb.band_over(CALIBRATED, GRID, levels=[0.8, 0.9]).to_zarr(
        folder() / "f.zarr", progress=False
    ),
    "FieldBand": lambda: (
        gb.band_over(CALIBRATED, GRID, levels=0.8).compute(),
        gb.band_over(CALIBRATED, GRID, levels=0.8).to_xarray().compute(),
    ),
    "StoredFields": lambda: (
        repr(stored()),
        stored()[2:].inputs(slice(3)),
        stored().targets(slice(3)),
        gb.evaluate(
            on_stored(gb.Share(0.1)), stored(), scores=folder() / "t.zarr", level=0.5, progress=False
        ),
    ),
    "StoredBand": lambda: gb.band_over(on_stored(gb.Simultaneous()), stored(), levels=0.5).compute(),
    "write_mesh": lambda: gb.fields.write_mesh(CALIBRATED(X[:12], 0.8), GRID, folder() / "band.vtu"),
    "export_onnx": lambda: gb.export_onnx(gb.calibrate(CONSTANT, X, Y), folder() / "b.onnx", level=0.9),
    "report": lambda: gb.report(CALIBRATED, X + 1, Y, path=folder() / "band.html"),
    "adapters": lambda: gb.adapters.from_onnx(parser.parse_model(GRAPH).SerializeToString())(X),
    "studies": lambda: (study().cells[0].key, study().name),
    "partition": lambda: list(gb.partition((X, Y), train=0.5, calibrate=0.5)),
    "paper": lambda: (lab.paper.study(seeds=1), lab.paper.likelihood(pinn.problems.AllenCahn2D())),
    "kept": lambda: gb.kept(type("Mine", (), {})),
    "campaign": lambda: lab.campaign.run(study(), folder(), progress=False),
    "CQR": lambda: gb.calibrate(QUANTILES, X, Y, score=gb.CQR(symmetric=False))(X, 0.8),
    "Quantiles": lambda: (QUANTILES(X), gb.calibrate(QUANTILES, X, Y)(torch.tensor(X), 0.8)),
    "QuantilePrediction": lambda: repr(gb.conformal.QuantilePrediction(X, X - 1, X + 1)),
    "GaussianNoise": lambda: [
        gb.calibrate(np.zeros_like, X[:, :1], 9 * Y, target="truth", noise=noise, confidence=0.9)(Y, 0.5)
        for noise in (
            gb.conformal.GaussianNoise(1.0),
            gb.conformal.LaplaceNoise(1.0),
            gb.conformal.UniformNoise(1.0),
            gb.conformal.BoundedNoise(1.0),
        )
    ],
    "streams": lambda: gb.streams.Alarm().start(abs(Y)).update(1.0),
    "Stream": lambda: gb.Stream(CALIBRATED, 0.9).follow(X, Y).band,
    "choose": lambda: gb.choose({"a": CONSTANT, "b": GIVEN}, calibrate=(X, Y), level=0.5),
    "calibrate_cross": lambda: gb.calibration.calibrate_cross(lambda data: NET, (X, Y), folds=4)(X, 0.8),
    "Tangent": lambda: pinn.Tangent(alone(), noise=0.1).calibrate(X[:, :1], Y)(X[:, :1], 0.8),
    "raw_band": lambda: gb.conformal.raw_band(GIVEN(X)),
    "points_needed": lambda: gb.conformal.points_needed(0.95, 0.9),
    "evaluate": lambda: str(gb.evaluate(CALIBRATED, X + 1, Y, regions={"left": lambda x: x[:, 0] < 0.5})),
    "conformal": lambda: gb.conformal.quantile(abs(Y), 0.9),
    "metrics": lambda: (gb.metrics.sharpness(BAND), gb.metrics.acd_floor(20, 20)),
    "plot": lambda: (gb.plot.width(BAND), gb.plot.coverage_curve(gb.evaluate(CALIBRATED, X + 1, Y))),
    "fit": lambda: pinn.fit(
        pinn.problems.Poisson1D(), pinn.mlp(1, [4]), recipe=pinn.Recipe(steps=5, finish=5), progress=False
    ),
    "verdict": lambda: str(pinn.verdict(pinn.problems.Poisson1D(), pinn.mlp(1, [4], dropout=0.5).train())),
    "mlp": lambda: pinn.mlp(2, [4], dropout=0.5)(torch.zeros(3, 2)),
    "Constrained": lambda: pinn.Constrained(pinn.mlp(2, [4]), torch.sin, torch.cos)(torch.zeros(3, 2)),
    "problems": lambda: pinn.problems.AllenCahn2D().observe(5, noise=0.1),
    "geometry": lambda: [
        (shape.interior(9), shape.boundary(9), shape.quasi(9), shape.parts)
        for shape in (PLATE, PLATE * pinn.Time(0, 1), pinn.Sphere((0, 0, 0), 1.0), pinn.Time(0, 1))
    ],
    "Polygon": lambda: pinn.Polygon([(0, 0), (1, 0), (0, 1)]).boundary(9),
    "PointCloud": lambda: pinn.PointCloud(X, {"rim": (X, X + 1)}).interior(9),
    "Dirichlet": lambda: [
        condition.points(PLATE * pinn.Time(0, 1), 9, torch.Generator().manual_seed(0))
        for condition in (pinn.Dirichlet(0.0), pinn.Neumann(0.0), pinn.Robin(1.0), pinn.Periodic("x"))
    ],
    "Unknown": lambda: (
        pinn.fit(
            pinn.problems.Heat1D(diffusivity=pinn.Unknown(0.1, 0.2)),
            pinn.mlp(2, [4]),
            HEATED,
            recipe=pinn.Recipe(steps=5, newton=2, finish=5),
            progress=False,
        ).estimates
    ),
    "Family": lambda: HEAT.fit(recipe=pinn.Recipe.by_newton(2), progress=False),
    "SolvedFamily": lambda: (SOLVED(HEATED.x, [0.1]), SOLVED.check(HEATED.x)),
    "coefficients": lambda: gb.report(pinn.coefficients(SOLVED, HEATED), path=folder() / "page.html"),
    "next_points": lambda: pinn.next_points(SOLVED, HEATED.x, 2),
    "integrations": lambda: (
        gb.integrations.sklearn.ConformalRegressor(linear_model.Ridge())
        .fit(X, Y)
        .predict_interval(X, level=0.8),
        gb.integrations.xarray.DatasetBands(BAND.to_xarray()).band(CALIBRATED, "u", inputs=["x0", "x1"]),
    ),
    "inverse": lambda: pinn.inverse.doubt(SOLVED, HEATED),
    "pinn": lambda: pinn.Prior(0.5),
    "predictors": lambda: (CONSTANT(X), GIVEN(torch.tensor(X)), CONSTANT.at_training(X)),
    "testing": lambda: (
        gb.testing.check_predictor(GIVEN, X),
        gb.testing.check_score(gb.Scaled()),
        gb.testing.check_calibrator(gb.Split(), sizes=[9], draws=20),
    ),
}
VALUES = {
    "LEVELS",
    "Box",
    "Disk",
    "Initial",
    "Mesh",
    "Network",
    "Neumann",
    "Norm",
    "Periodic",
    "PointValue",
    "Problem",
    "Quantity",
    "Rectangle",
    "Robin",
    "Segment",
    "Sphere",
    "Term",
    "Time",
    "Absolute",
    "ArtifactError",
    "ConfidenceRegion",
    "Estimates",
    "BoundedNoise",
    "LaplaceNoise",
    "UniformNoise",
    "Evaluation",
    "Findings",
    "Fitted",
    "InfiniteBandWarning",
    "Likelihood",
    "OverfittedWarning",
    "Predictor",
    "Recipe",
    "Scaled",
    "Total",
    "TrainingDiverged",
    "TrainingInterrupted",
    "Verdict",
}
"""Constants, and classes that the calls make, take or raise."""


def test_every_public_name_is_called_here() -> None:
    assert {*gb.__all__} <= {*CALLS, *VALUES}
    values = [getattr(gb, name) for name in VALUES if name in gb.__all__]
    assert [value for value in values if not isinstance(value, (type, tuple))] == []


@pytest.mark.slow("export_onnx", "report", "geometry", "Dirichlet", "coefficients")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_no_trace(name: str) -> None:
    if name == "integrations":
        assert linear_model.Ridge, "importing scikit-learn, which is no call, draws random numbers"
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
