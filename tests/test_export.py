"""An exported ONNX graph gives the band of the library."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

import guardband as gb
from guardband import pinn
from guardband.conformal.local.shape import Flat
from guardband.export import export_onnx
from guardband.export.modules import module_of
from guardband.pinn.predictors import Dropout, LastLayerLaplace
from guardband.pinn.problems import Box, Condition, Field, Problem
from guardband.predictors import Ensemble, Given, MeanOnly
from helpers import Later, Shaped, needs

onnx, onnxruntime = Later("onnx"), Later("onnxruntime")
pytestmark = needs("onnx", "onnxruntime", "onnxscript")

Make = Callable[[int, int], gb.Predictor]
RECIPE = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=8)


@dataclass(frozen=True)
class Decay(Problem):
    """u' + u = 0 along the first axis, for any number of coordinates and outputs."""

    domain: Box  # type: ignore[misc]
    outputs: int  # type: ignore[misc]

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d(0) + u.value

    def conditions(self) -> list[Condition]:
        return []


def measured(n: int, d: int, m: int, seed: int) -> gb.Observations:
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    noise = 0.05 * (1 + 3 * x[:, :1]) * rng.normal(size=(n, m))
    return gb.Observations(x, np.exp(-x.sum(1, keepdims=True)) * (1 + np.arange(m)) + noise)


@cache
def fitted(d: int, m: int, widths: tuple[int, ...] = (12, 4), **options: Any) -> pinn.Fitted:
    net: nn.Module = pinn.mlp(d, widths, outputs=m, activation=options.get("activation", torch.tanh))
    if options.get("hard"):
        net = pinn.Constrained(net, lambda x: torch.ones_like(x[:, :1]), lambda x: x[:, :1])
    problem = Decay(Box((0,) * d, (1,) * d), m)
    return pinn.fit(problem, net, measured(40, d, m, 0), recipe=RECIPE, progress=False)


@cache
def bumpy(d: int) -> Any:
    """The shape that LogScale learns where noise grows along the first axis."""
    x, y = measured(60, d, 1, 1)
    return gb.conformal.LogScale(draws=20).fit(x, abs(y[:, 0] - np.exp(-x.sum(1))))


def quantiles(per_level: bool) -> Any:
    x, y = measured(60, 2, 1, 1)
    learner = pinn.PinballNetwork(steps=40, per_level=per_level)
    return learner.fit(x, abs(y[:, 0] - np.exp(-x.sum(1))))


def calibrated(predictor: gb.Predictor, d: int, m: int, **options: Any) -> gb.conformal.ScoreCalibrated:
    return gb.calibrate(predictor, *measured(100, d, m, 2), **options)


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def assert_same(
    there: gb.Calibrated, path: Path, d: int, level: float = 0.95, kind: type = np.float64
) -> None:
    """The graph gives the library's band at 10^4 points, some outside the domain, and at 1 or 1000 points."""
    graph = session(path)
    x = np.random.default_rng(3).uniform(-0.1, 1.1, size=(10_000, d)).astype(kind)
    band = there(x, level)
    mean, lower, upper = graph.run(["mean", "lower", "upper"], {"x": x})
    assert mean.dtype == lower.dtype == upper.dtype == kind
    assert mean.shape == lower.shape == upper.shape == band.mean.shape
    assert abs(mean - band.mean).max() < 1e-5 * abs(band.mean).max()
    assert (abs(lower - band.lower) / band.width).max() < 1e-5
    assert (abs(upper - band.upper) / band.width).max() < 1e-5
    for n in (1, 1000):
        np.testing.assert_allclose(graph.run(["upper"], {"x": x[:n]})[0], upper[:n], rtol=1e-5, atol=1e-5)


PREDICTORS: dict[str, Make] = {
    "constant": lambda d, m: MeanOnly(pinn.mlp(d, [16, 16], outputs=m)),
    "ensemble": lambda d, m: Ensemble([fitted(d, m), *(pinn.mlp(d, [8], outputs=m, seed=s) for s in (1, 2))]),
    "dropout": lambda d, m: Dropout(pinn.mlp(d, [16, 16], outputs=m, dropout=0.1)),
    "dropout everywhere": lambda d, m: Dropout(
        pinn.mlp(d, [8, 8], outputs=m, dropout=0.1, where="all"), draws=30
    ),
    "dropout in between": lambda d, m: Dropout(
        nn.Sequential(pinn.mlp(d, [8], outputs=8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, m)), draws=20
    ),
    "one layer": lambda d, m: LastLayerLaplace(fitted(d, m, activation=gelu), layers=1),
    "two layers": lambda d, m: LastLayerLaplace(fitted(d, m, (12, 4 if d == 1 else 12), hard=True)),
}


@pytest.mark.slow(
    "constant-Local",
    "ensemble-Local",
    "dropout-Local",
    "dropout everywhere-Local",
    "dropout in between-Local",
    "one layer-Split",
    "one layer-Local",
    "two layers-Split",
    "two layers-Local",
)
@pytest.mark.parametrize("split", [True, False], ids=["Split", "Local"])
@pytest.mark.parametrize("name", PREDICTORS)
def test_a_graph_gives_the_band_of_the_library(name: str, split: bool, tmp_path: Path) -> None:
    number = list(PREDICTORS).index(name)
    turn = number % 2 == 0  # every predictor occurs with one and two inputs and outputs
    d, m = (1, 2) if split == turn else (2, 1)
    calibrator = gb.Split() if split else Shaped(bumpy(d) if turn or d == 1 else Flat())
    there = calibrated(PREDICTORS[name](d, m), d, m, calibrator=calibrator)
    if name == "two layers":  # both formulas of the variance
        assert (there.predictor.posterior.rows is None) == (d == 1)  # type: ignore[union-attr]
    assert_same(there, export_onnx(there, tmp_path / "band.onnx", dtype=torch.float64), d)


@pytest.mark.parametrize(
    ("per_level", "score"),
    [
        (False, gb.conformal.Total(noise=0.1)),
        (True, gb.conformal.Total(noise=(0.1, 0.2))),
    ],
    ids=["one shape", "a shape per level"],
)
def test_every_shape_and_score_can_leave(per_level: bool, score: gb.conformal.Score, tmp_path: Path) -> None:
    shape = quantiles(per_level)
    predictor = Dropout(pinn.mlp(2, [8], outputs=2, dropout=0.2), draws=10)
    there = calibrated(predictor, 2, 2, calibrator=Shaped(shape), score=score)
    assert_same(
        there, export_onnx(there, tmp_path / "band.onnx", level=0.83, dtype=torch.float64), 2, level=0.83
    )


def test_a_graph_can_be_in_single_precision(tmp_path: Path) -> None:
    net = nn.Sequential(
        nn.Linear(2, 8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)
    )
    there = calibrated(Dropout(net.double(), draws=10), 2, 1, score=gb.conformal.Total(noise=0.1))
    path = export_onnx(there, tmp_path / "band.onnx", dtype=torch.float32)
    assert_same(there, path, 2, kind=np.float32)


@pytest.mark.slow("float32-dtype0")
@pytest.mark.parametrize(("kind", "dtype"), [(np.float32, torch.float32), (np.float64, torch.float64)])
def test_the_input_has_the_dtype_of_the_network(kind: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    there = calibrated(MeanOnly(pinn.mlp(2, [8]).to(dtype)), 2, 1)
    assert_same(there, export_onnx(there, tmp_path / "band.onnx"), 2, kind=kind)
    plain = calibrated(MeanOnly(nn.Identity()), 1, 1)  # without weights, x determines the dtype
    assert_same(plain, export_onnx(plain, tmp_path / "plain.onnx"), 1)


@pytest.mark.slow
def test_the_file_says_what_it_is_of(tmp_path: Path) -> None:
    def said(seed: int) -> dict[str, str]:
        there = gb.calibrate(MeanOnly(pinn.mlp(1, [4])), *measured(100, 1, 1, seed))
        found = onnx.load(export_onnx(there, tmp_path / "band.onnx", level=0.9)).metadata_props
        assert {prop.key: prop.value for prop in found}["promise"] == there.promise
        return {prop.key: prop.value for prop in found}

    assert said(0)["sha256"] == said(0)["sha256"] != said(1)["sha256"]
    assert said(0)["level"] == "0.9" and re.fullmatch("[0-9a-f]{64}", said(0)["sha256"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "score",
    [gb.Absolute(), gb.Absolute(units=(1, 3)), gb.Scaled(units=7), gb.conformal.Total(noise=(0.1, 0.3))],
    ids=["absolute", "units", "one unit", "total"],
)
def test_the_ends_are_rounded_outwards_as_in_the_library(
    dtype: torch.dtype, score: gb.conformal.Score
) -> None:
    there = calibrated(MeanOnly(fitted(2, 2)), 2, 2, score=score, calibrator=Shaped(Flat()))
    x = torch.rand(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    band = there(x, 0.9)
    with torch.no_grad():
        graph = there.as_module(0.9)(x)
    assert all(map(torch.equal, graph, (band.mean, band.lower, band.upper)))


def test_a_file_says_what_it_is_and_export_leaves_no_trace(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    net = pinn.mlp(1, [8], dropout=0.1).train()
    there = calibrated(MeanOnly(net), 1, 1, confidence="0.9")
    path = export_onnx(there, tmp_path / "new" / "band.onnx", level="0.85")
    assert capfd.readouterr() == ("", "")
    assert net.training and all(p.requires_grad for p in net.parameters())
    assert [file.name for file in path.parent.iterdir()] == ["band.onnx"]
    about = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert about["level"] == "0.85" and about["guardband"] == gb.__version__
    assert about["guarantee"].startswith("At level 0.85 with confidence 0.9: If the calibration points")
    assert "MeanOnly" in about["calibrated"] and str(Path.cwd()).encode() not in path.read_bytes()


def test_a_score_and_a_threshold_of_your_own_can_leave(tmp_path: Path) -> None:
    """Every object with `as_module` is exported, including those of users."""

    class Doubled(nn.Module):
        def forward(self, mean: Tensor, scale: Tensor | None, q: Tensor | float) -> tuple[Tensor, Tensor]:
            return mean - 2 * q, mean + 2 * q

    class Own(Relative):
        def unit(self, prediction: gb.Prediction) -> float:
            return 2.0

        def as_module(self) -> nn.Module:
            return Doubled()

    there = calibrated(MeanOnly(pinn.mlp(1, [4])), 1, 1, score=Own())
    assert_same(there, export_onnx(there, tmp_path / "band.onnx", dtype=torch.float64), 1)


def test_a_calibration_on_a_frame_can_leave(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    x, y = measured(100, 2, 1, 2)
    there = gb.calibrate(pinn.mlp(2, [8]), pandas.DataFrame(x, columns=["t", "z"]), y)
    assert_same(there, export_onnx(there, tmp_path / "band.onnx", dtype=torch.float64), 2)


class Relative(gb.conformal.Symmetric):
    """A user's score."""

    def unit(self, prediction: gb.Prediction) -> Any:
        return abs(prediction.mean)


class Branching(nn.Module):
    """A different function for rows that are positive on average."""

    def forward(self, x: Tensor) -> Tensor:
        return x if float(x.sum()) > 0 else 2 * x


def mixing() -> gb.Predictor:
    """Softmax over an axis that holds the outputs, but the rows once weights are stacked."""
    layers = (nn.Linear(1, 8), nn.Dropout(0.5), nn.Linear(8, 2), nn.Softmax(dim=1), nn.Linear(2, 1))
    return Dropout(nn.Sequential(*layers))


def kinked() -> gb.Predictor:
    return LastLayerLaplace(fitted(1, 1, activation=torch.relu))


def unlike_mlp() -> gb.Predictor:
    net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    problem = Decay(Box((0,), (1,)), 1)
    return LastLayerLaplace(pinn.fit(problem, net, measured(40, 1, 1, 0), recipe=RECIPE, progress=False))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Given(np.sin, np.cos), "Given cannot be exported: it has no `as_module`"),
        (lambda: lambda x: gb.Prediction(x, x), "PredictionFunction cannot be exported"),
        (
            lambda: MeanOnly(np.sin),
            "model should be a torch module or the result of `pinn.fit`, got <ufunc 'sin'>",
        ),
        (lambda: Ensemble([np.sin, np.cos]), "model should be a torch module"),
        (lambda: MeanOnly(Branching()), "The network could not be traced"),
        (mixing, "would differ from the library's band"),
        (kinked, "one of tanh, sin, sigmoid, softplus, silu, gelu, got"),
        (unlike_mlp, re.escape("should be made by pinn.mlp(...), got Sequential")),
    ],
)
def test_what_cannot_be_a_graph_is_refused(make: Callable[[], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        export_onnx(calibrated(make(), 1, 1), tmp_path / "band.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibrator": gb.Weighted(lambda x: 1 + x[:, 0])}, "WeightedThreshold cannot be exported"),
        ({"calibrator": gb.Grouped(), "groups": [0, 1] * 50}, r"thresholds of Split\(\) and Local\(\) have"),
        ({"score": gb.Absolute(joint=False)}, r"one for each \(joint=False\)"),
        ({"score": Relative()}, r"Relative\(\) cannot be exported: it has no `as_module`"),
        (
            {"calibrator": Shaped(lambda x: 1 + x[:, 0])},
            r"shape function cannot be exported: it has no `as_module`. Shapes learned by LogScale\(\)",
        ),
    ],
)
def test_other_scores_and_calibrators_are_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    there = calibrated(MeanOnly(pinn.mlp(1, [4])), 1, 1, **options)
    with pytest.raises(TypeError, match=message):
        export_onnx(there, tmp_path / "band.onnx")


def test_arrays_have_no_network_to_export(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="made from arrays and has no network"):
        export_onnx(gb.calibrate_arrays(np.zeros(99), np.ones(99)), tmp_path / "band.onnx")


def test_whole_fields_are_refused(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(1, 6), nn.Unflatten(1, (3, 2)))
    x, y = np.linspace(0, 1, 50), np.zeros((50, 3, 2))
    with pytest.raises(TypeError, match=r"fields \(50, 3, 2\)"):
        export_onnx(gb.calibrate(MeanOnly(net), x, y), tmp_path / "band.onnx")
    with pytest.raises(TypeError, match=r"Simultaneous\(\) cannot be exported"):
        module_of(gb.Simultaneous())


def test_an_infinite_band_is_refused_and_the_points_needed_are_named(tmp_path: Path) -> None:
    net = pinn.mlp(1, [4])
    with pytest.raises(ValueError, match=r"level 0.995 needs 199 calibration points, but there are 100"):
        export_onnx(calibrated(MeanOnly(net), 1, 1), tmp_path / "band.onnx", level=0.995)
    with pytest.raises(ValueError, match=r"confidence 0.9 needs 230 calibration points, but there are 100"):
        export_onnx(calibrated(MeanOnly(net), 1, 1, confidence=0.9), tmp_path / "band.onnx", level=0.99)
    sure = calibrated(Ensemble([net, net]), 1, 1)
    with pytest.raises(ValueError, match="too many calibration scores are infinite"):
        export_onnx(sure, tmp_path / "band.onnx")


def test_half_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"should be torch.float64 or torch.float32, got torch.float16"):
        export_onnx(calibrated(MeanOnly(pinn.mlp(1, [4])), 1, 1), tmp_path / "band.onnx", dtype=torch.float16)


@pytest.mark.parametrize("package", ["torch", "onnxscript"])
def test_a_missing_package_is_named(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = calibrated(MeanOnly(np.sin), 1, 1)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "guardband\[export\]"'):
        export_onnx(there, tmp_path / "band.onnx")


@pytest.mark.slow("1-float32")
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2])
def test_an_estimator_of_scikit_learn_can_leave(kind: Any, m: int, tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx")
    ensemble, linear, pipeline, preprocessing = (
        pytest.importorskip(f"sklearn.{part}")
        for part in ("ensemble", "linear_model", "pipeline", "preprocessing")
    )
    train = measured(80, 2, m, 4)
    boosted = ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0)
    inner = pipeline.make_pipeline(preprocessing.StandardScaler(), linear.Ridge() if m == 2 else boosted)
    model = inner.fit(train.x, train.y if m == 2 else train.y[:, 0])
    shaped = gb.Split() if m == 2 else Shaped(bumpy(2))
    there = gb.calibrate(model, *measured(100, 2, m, 2), calibrator=shaped)
    dtype = torch.float32 if kind is np.float32 else torch.float64
    path = export_onnx(there, tmp_path / "band.onnx", level=0.9, dtype=dtype)
    x = measured(200, 2, m, 5).x.astype(kind)
    band, answered = there(x, 0.9), session(path).run(["mean", "lower", "upper"], {"x": x})
    for part, values in zip(("mean", "lower", "upper"), answered, strict=True):
        assert values.dtype == kind and values.shape == band.mean.shape
        assert (abs(values - getattr(band, part)) / band.width).max() < 1e-5


def test_an_estimator_that_skl2onnx_does_not_know_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx")

    base = pytest.importorskip("sklearn.base")

    class Own(base.RegressorMixin, base.BaseEstimator):
        def predict(self, X: Any) -> Any:
            return X[:, 0]

    with pytest.raises(TypeError, match="Own should be an estimator that skl2onnx converts"):
        export_onnx(calibrated(MeanOnly(Own()), 1, 1), tmp_path / "band.onnx")


def test_a_caller_in_javascript_gets_the_same_band(tmp_path: Path) -> None:
    """Runs if Node and onnxruntime-node are installed in the example's folder."""
    example = Path(__file__).parent.parent / "examples" / "onnx_in_javascript"
    if shutil.which("node") is None or not (example / "node_modules").exists():
        pytest.skip("needs node, and `npm install` in examples/onnx_in_javascript")
    there = calibrated(MeanOnly(pinn.mlp(2, [8], outputs=2)), 2, 2)
    x = np.random.default_rng(0).uniform(size=(3, 2)).astype("float32")
    path = export_onnx(there, tmp_path / "band.onnx", level=0.9)
    words = ["node", "band.mjs", str(path), *(str(number) for number in x.ravel())]
    done = subprocess.run(words, cwd=example, check=True, capture_output=True, text=True)
    band = there(x, 0.9)
    for part, values in json.loads(done.stdout).items():
        np.testing.assert_allclose(values, getattr(band, part).ravel(), rtol=1e-5)
