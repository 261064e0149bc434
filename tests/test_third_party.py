"""Methods written outside of the package work everywhere without a change in the package.

The files are in `third_party/`, as a user would write them. Operations that make no sense for a method are
refused with an error message.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import cross
import grouped
import guardband as gb
import nearest
import norm
import online
from guardband import tables
from guardband.cli import app
from helpers import needs
from wings import lab, optional, pinn, torch

if TYPE_CHECKING:
    import equation
    import quantiles
    import scale
    from guardband.lab.studies import Cell, Factory, Training
else:
    equation, quantiles, scale = map(optional, ("equation", "quantiles", "scale"))
    Cell, Factory, Training = lab.studies.Cell, lab.studies.Factory, lab.studies.Training

OUTSIDE = Path(__file__).parent / "third_party"

QUICK = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=4)
LOGISTIC = Training(equation.Logistic(), (8,), n=40, noise=0.05, recipe=QUICK)


def readings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 1) and values of a straight line whose noise increases with x."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=(n, 1))
    return x, 1 + 2 * x + (0.05 + 0.2 * x) * generator.normal(size=(n, 1))


def fields(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 2) and fields (n, 12, 1)."""
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(n, 2)), generator.normal(size=(n, 12, 1))


@gb.kept
@dataclass(frozen=True)
class ZeroFields(gb.Predictor):
    """Return fields of twelve nodes, all zero."""

    def __call__(self, x: Any) -> gb.Prediction:
        return gb.Prediction(x, np.zeros((len(x), 12, 1)))


def side(x: Any) -> np.ndarray:
    return np.where(np.asarray(x)[:, 0] < 0.4, "left", "right")


def net(seed: int = 0) -> Any:
    """A network that is saved with its calibration."""
    return pinn.mlp(1, [8], seed=seed)


@dataclass(frozen=True)
class Case:
    """A calibration with a third-party method, and the expected results."""

    module: str
    make: Callable[[], gb.Calibrated]
    fresh: Callable[[], tuple[np.ndarray, np.ndarray]] = field(default=lambda: readings(150, 1))
    groups: Callable[[Any], np.ndarray] | None = None
    over: str = ""  # the error of `band_over`, if it is refused
    export: str = ""  # the error of `export_onnx`, if it is refused

    def labels(self, x: Any) -> np.ndarray | None:
        return None if self.groups is None else self.groups(x)


def _grouped() -> gb.Calibrated:
    x, y = readings(120, 0)
    return gb.calibrate(net(), x, y, calibrator=grouped.SensorWise(), groups=side(x))


def _logistic() -> gb.Calibrated:
    problem = equation.Logistic(rate=1.5)
    fitted = pinn.fit(problem, net(), problem.observe(40, noise=0.05), recipe=QUICK, progress=False)
    return gb.calibrate(fitted, *problem.observe(60, noise=0.05, seed=7))


CASES = {
    "sensor by sensor": Case(
        "grouped",
        _grouped,
        groups=side,
        over=r"SensorWise\(\) needs the group of every point, but a grid has no groups",
        export="SensorThreshold cannot be exported: it has no `as_module`",
    ),
    "cell by cell": Case(
        "nearest",
        lambda: gb.calibrate(net(), *readings(120, 0), calibrator=nearest.NearestCenter(((0.2,), (0.8,)))),
        export="NearestThreshold cannot be exported: it has no `as_module`",
    ),
    "a stream": Case(
        "online",
        lambda: online.stream(gb.predictors.MeanOnly(net()), *readings(80, 0)),
        export="Adaptive cannot be exported: it has no `as_module`",
    ),
    "CV+": Case(
        "cross",
        lambda: cross.cross_calibrate(cross.Line.fit, *readings(40, 0), folds=8),
        export="CrossCalibrated cannot be exported: it has no `as_module`",
    ),
    "quantiles": Case(
        "quantiles",
        lambda: gb.calibrate(
            quantiles.QuantilePair(net(0), net(1)), *readings(120, 0), score=quantiles.Outside()
        ),
    ),
    "a norm": Case(
        "norm",
        lambda: gb.calibrate(ZeroFields(), *fields(60, 0), score=norm.FieldNorm()),
        lambda: fields(40, 1),
        over=r"calibrated on whole fields \(60, 12, 1\)",
        export=r"but these are fields \(60, 12, 1\)",
    ),
    "a scale": Case("scale", lambda: gb.calibrate(scale.Steep(net()), *readings(120, 0))),
    "an equation": Case(
        "equation", _logistic, lambda: (np.linspace(0.1, 3.9, 90)[:, None], np.full((90, 1), 0.5))
    ),
}


@cache
def made(name: str) -> gb.Calibrated:
    return CASES[name].make()


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def ends(prediction: gb.Prediction) -> quantiles.EndsPrediction:
    """Convert a prediction with a scale into one with quantiles."""
    assert prediction.scale is not None
    lower, upper = prediction.mean - prediction.scale, prediction.mean + 2 * prediction.scale
    return quantiles.EndsPrediction(prediction.x, prediction.mean, prediction.scale, lower, upper)


def halves(*asked: Any) -> gb.testing.Draw:
    """Draw equally many points on the left and on the right, without labels."""
    return replace(gb.testing.two_groups(*asked), groups=None, groups_cal=None)


# The laws


@pytest.mark.slow
def test_thresholds_and_calibrators_follow_their_exact_laws() -> None:
    cells = nearest.NearestCenter(((0.25,), (0.75,)))
    for calibrator, sampler in ((grouped.SensorWise(), gb.testing.two_groups), (cells, halves)):
        gb.testing.check_threshold(calibrator, sampler=sampler)
        gb.testing.check_calibrator(calibrator, sampler=sampler, draws=150, sizes=[9, 30])
    gb.testing.check_calibrator(
        gb.Split(), score=quantiles.Outside(), predictions=ends, draws=150, sizes=[9, 30]
    )


def test_a_law_that_changes_from_draw_to_draw_is_not_summed() -> None:
    cells = nearest.NearestCenter(((0.25,), (0.75,)))
    with pytest.raises(AssertionError, match="the law changes between draws"):
        gb.testing.check_calibrator(cells, draws=20, sizes=[30])


def test_scores_predictors_and_the_problem_pass_their_checks() -> None:
    for outputs in (1, 3):
        gb.testing.check_score(quantiles.Outside(), outputs=outputs, predictions=ends)
        gb.testing.check_score(norm.FieldNorm(), outputs=outputs, nodes=7)
    x = np.linspace(0, 3, 40)[:, None]
    for predictor in (
        scale.Steep(np.sin),
        scale.Steep(net()),
        quantiles.QuantilePair(np.sin, lambda x: np.sin(x) + 1),
    ):
        gb.testing.check_predictor(predictor, x)
    gb.testing.check_predictor(scale.Steep(net()), torch.tensor(x))
    pinn.testing.check_problem(equation.Logistic())
    pinn.testing.check_problem(equation.Logistic(rate=0.5, start=0.3))


def test_a_whole_calibration_passes_its_check(name: str) -> None:
    case = CASES[name]
    x, y = case.fresh()
    gb.testing.check_calibrated(made(name), x, y, groups=case.labels(x))


def test_a_stream_misses_as_often_as_promised_whatever_comes() -> None:
    """The bound holds for every sequence, not only with some probability."""
    generator = np.random.default_rng(0)
    drift = np.concatenate([np.linspace(0, 5, 400), np.full(200, -3.0), generator.normal(size=200)])
    adaptive = online.stream(gb.predictors.MeanOnly(np.zeros_like), [0.0], [0.0], gamma=0.05)
    for part in np.split(drift, 8):
        adaptive = adaptive.after(np.zeros(100), part)
    assert adaptive.n == 801
    for level in (0.5, 0.8, 0.9):
        bound = (max(level, 1 - level) + 0.05) / (0.05 * 801)
        assert abs(adaptive.missed(level) - (1 - level)) <= bound


def test_cross_validation_keeps_its_promise_and_comes_near_the_level() -> None:
    """One new point for each of 300 data sets; a valid method fails once in a thousand seeds."""
    covered, draws, promised = 0, 300, 0.0
    for seed in range(draws):
        x, y = readings(21, 100 + seed)
        calibrated = cross.cross_calibrate(cross.Line.fit, x[:20], y[:20], folds=5)
        covered += int(calibrated.contains(x[20:], y[20:], 0.8)[0])
        promised = float(calibrated.promised(0.8))
    assert promised == pytest.approx(1 - 0.4 - min(2 * 0.8 / 5, 0.75 / 6))
    assert binom.cdf(covered, draws, promised) > 1e-3
    assert binom.sf(covered - 1, draws, 0.9) > 1e-3 and covered / draws > 0.7


# Plots and reports


def test_each_is_evaluated_and_checked(name: str) -> None:
    calibrated, case = made(name), CASES[name]
    x, y = case.fresh()
    evaluation = gb.evaluate(calibrated, x, y, level=0.8, groups=case.labels(x))
    assert 0 <= evaluation.coverage <= 1 and evaluation.verdict in str(evaluation)
    assert (evaluation.laws is None) == (name in ("a stream", "CV+"))
    findings = gb.check(calibrated, x, level=0.8)
    assert findings["size"].known is (name != "a stream") and len(str(findings)) > 100


@pytest.mark.slow
def test_what_is_said_of_a_promise_is_what_the_method_promises(tmp_path: Path) -> None:
    x, y = readings(150, 1)
    crossed, adaptive = made("CV+"), made("a stream")
    assert "CrossCalibrated promises 0.7111 on average" in gb.evaluate(crossed, x, y, level=0.9).verdict
    assert "Adaptive promises no probability" in gb.evaluate(adaptive, x, y, level=0.9).verdict
    about_truth = {"level": 0.95, "target": "truth", "median_zero": True}
    assert "0.622222 = 1 - 2 (1 - 0.8111)" in gb.evaluate(crossed, x, y, **about_truth).verdict
    assert "so none follows for the truth" in gb.evaluate(adaptive, x, y, **about_truth).verdict
    page = gb.report(crossed, x, y, path=tmp_path / "cross.md", level=0.9).read_text()
    assert "with probability at least 71.11 %" in page and "the requested level is 90 %" in page
    page = gb.report(adaptive, x, y, path=tmp_path / "stream.md", level=0.9).read_text()
    assert "No probability is promised for a new measurement" in page
    assert "at least 90 %" not in page and "This holds for any model" not in page
    shifted = gb.check(adaptive, x + 3)["shift"]
    assert not shifted.alarm and "Adaptive accounts for it" in shifted.text


def test_only_a_band_of_constant_width_is_called_so() -> None:
    x, y = readings(150, 1)
    assert gb.evaluate(gb.calibrate(net(), *readings(120, 0)), x, y).of_constant_width
    for name, labels in (("sensor by sensor", side(x)), ("cell by cell", None), ("CV+", None)):
        evaluation = gb.evaluate(made(name), x, y, groups=labels)
        assert not evaluation.of_constant_width and "constant width" not in str(evaluation)


def test_the_law_with_ties_is_that_of_each_part() -> None:
    """With a coarse sensor, ties put more points inside than the rank, among new points too."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(200, 1))
    coarse = generator.integers(-1, 2, size=(200, 1)).astype(float)
    zero = gb.predictors.MeanOnly(np.zeros_like)
    cells = nearest.NearestCenter(((0.2,), (0.8,)))
    for calibrator, known, labels in (
        (cells, None, None),
        (grouped.SensorWise(), side(x[:100]), side(x[100:])),
    ):
        calibrated = gb.calibrate(zero, x[:100], coarse[:100], calibrator=calibrator, groups=known)
        evaluation = gb.evaluate(calibrated, x[100:], coarse[100:], level=0.8, groups=labels)
        assert evaluation.ties and "scores tie, so it may cover more" in evaluation.verdict


def test_an_empty_set_is_said_to_be_empty(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 60)
    wide = quantiles.QuantilePair(lambda x: -1 - 9 * x, lambda x: 1 + 9 * x)
    calibrated = gb.calibrate(wide, x, 0.01 * np.cos(50 * x), score=quantiles.Outside())
    band = calibrated([0.0, 1.0], level=0.5)
    assert "1 of them empty" in repr(band) and band.empty.tolist() == [True, False]
    assert band.width[0] == 0 and band.width[1] > 0
    assert not calibrated.contains([0.0], [0.0], level=0.5).any()
    page = gb.report(calibrated, [0.0, 1.0], path=tmp_path / "band.md", level=0.5).read_text()
    assert "It is empty at 50% of the points" in page
    assert gb.metrics.sharpness(band) == band.width.mean() > 0


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_each_has_a_report(name: str, suffix: str, tmp_path: Path) -> None:
    calibrated, case = made(name), CASES[name]
    x, y = case.fresh()
    page = gb.report(calibrated, x, y, path=tmp_path / f"band{suffix}", level=0.8, groups=case.labels(x))
    text = page.read_text()
    assert "Assumption. " in text and "data:image/png" in text and " at 0x" not in text


def test_a_ball_is_measured_by_its_diameter(tmp_path: Path) -> None:
    x, y = fields(40, 1)
    calibrated = made("a norm")
    ball = calibrated(x, level=0.8)
    assert isinstance(ball, gb.values.NormBand)
    assert np.array_equal(ball.contains(y), calibrated.contains(x, y, level=0.8))
    assert "this band, a ball by its diameter" in str(gb.evaluate(calibrated, x, y, level=0.8))
    page = gb.report(calibrated, x, y, path=tmp_path / "ball.md", level=0.8).read_text()
    assert "Its diameter in its norm is" in page


# Saving and loading

READ = """
import json, sys
import numpy as np
import guardband as gb
from guardband import lab
from guardband import pinn
folders, imports = json.loads(sys.argv[1]), sys.argv[2:]
for module in imports:
    __import__(module)
found = {}
for name, (folder, asked) in folders.items():
    try:
        calibrated = gb.load(folder)
        data = np.load(asked)
        groups = data["groups"] if "groups" in data else None
        inside = calibrated.contains(data["x"], data["y"], level=0.8, groups=groups)
        band = calibrated(data["x"], level=0.8, groups=groups)
        ends = [band.radius] if isinstance(band, gb.values.NormBand) else [band.lower, band.upper]
        found[name] = [inside.tolist(), *(end.tolist() for end in ends)]
    except gb.store.ArtifactError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def elsewhere(folders: dict[str, Any], *imports: str) -> dict[str, Any]:
    """Return the output of a new process that imports these modules."""
    path = os.pathsep.join([str(OUTSIDE), str(OUTSIDE.parent), *sys.path])
    words = [sys.executable, "-c", READ, json.dumps(folders), *imports]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_each_is_kept_and_read_by_a_new_process_that_imports_it(tmp_path: Path) -> None:
    folders, here = {}, {}
    for name, case in CASES.items():
        calibrated = made(name)
        x, y = case.fresh()
        groups = case.labels(x)
        band = calibrated(x, level=0.8, groups=groups)
        ends = [band.radius] if isinstance(band, gb.values.NormBand) else [band.lower, band.upper]
        inside = calibrated.contains(x, y, level=0.8, groups=groups)
        here[name] = [inside.tolist(), *(end.tolist() for end in ends)]
        asked = tmp_path / f"{case.module}.npz"
        given: dict[str, Any] = {"x": x, "y": y} | ({} if groups is None else {"groups": groups})
        np.savez(asked, **given)
        folders[name] = [str(gb.save(calibrated, tmp_path / case.module)), str(asked)]
    modules = [case.module for case in CASES.values()]
    there = elsewhere(folders, *modules, "test_third_party")
    for name in CASES:
        assert there[name] == here[name], name
    for name, said in elsewhere(folders).items():
        assert isinstance(said, str) and "import its module before loading" in said, name
        assert "is a kind of object that is not defined here" in said


def test_a_predictor_that_is_not_the_saved_one_is_noticed_by_its_own_parts(tmp_path: Path) -> None:
    pair = quantiles.QuantilePair(np.sin, np.exp)
    x = np.linspace(0, 1, 50)
    calibrated = gb.calibrate(pair, x, np.sin(x), score=quantiles.Outside())
    folder = gb.save(calibrated, tmp_path / "band")
    assert gb.load(folder, low=np.sin, high=np.exp)([0.5]).upper == calibrated([0.5]).upper
    with pytest.raises(gb.store.ArtifactError, match="is not the one that was saved"):
        gb.load(folder, low=np.exp, high=np.sin)  # the same mean with different ends
    with pytest.raises(gb.store.ArtifactError, match="was saved without high and low"):
        gb.load(folder)


def test_a_method_that_is_not_marked_is_passed_again_or_refused(tmp_path: Path) -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Unmarked(online.Adaptive):
        """A method that is missing a required part."""

    before = made("a stream")
    assert isinstance(before, online.Adaptive)
    unmarked = Unmarked(before.predictor, before.gamma, before.prediction, before.y)
    with pytest.raises(TypeError, match=r"Unmarked does not define how it is saved.*@gb\.kept"):
        gb.save(unmarked, tmp_path / "band")
    with pytest.raises(ValueError, match=r"is already kept as 'Steep'.*@gb\.kept\(name=\.\.\.\)"):
        gb.kept(type("Steep", (), {}))


# Over fields, as graphs, in studies


def test_each_covers_a_grid_or_says_why_not(name: str) -> None:
    calibrated, case = made(name), CASES[name]
    names = None if calibrated.field_names is None else calibrated.field_names.axes
    places = np.linspace(0, 1, 30, dtype=np.float32)
    axis = {"x" if names is None else names[0]: places}
    if case.over:
        with pytest.raises(ValueError, match=case.over):
            gb.band_over(calibrated, axis, levels=[0.5, 0.9])
        return
    found = gb.band_over(calibrated, axis, levels=[0.5, 0.9]).compute(batch=7)
    band = calibrated(places, level=0.9)
    for end in ("lower", "upper"):
        assert np.allclose(found[f"{end}_0.9"], getattr(band, end)[:, 0], rtol=1e-4, atol=1e-4)


def test_sets_that_are_no_boxes_are_not_drawn_over_a_grid() -> None:
    @dataclass(frozen=True, repr=False)
    class Length(gb.conformal.Score):
        """The score |y - mean| with a ball as its set."""

        def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
            return ((y - prediction.mean) ** 2).sum(-1) ** 0.5

        def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.values.NormBand:
            return gb.values.NormBand(
                prediction.x, prediction.mean, q, lambda d: (d**2).sum(-1) ** 0.5, level
            )

    calibrated = gb.calibrate(net(), *readings(40, 0), score=Length())
    with pytest.raises(TypeError, match=r"the prediction sets of Split\(\) are not boxes"):
        gb.band_over(calibrated, {"x": np.linspace(0, 1, 5)})


def test_each_is_a_graph_or_says_why_not(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    calibrated, case = made(name), CASES[name]
    if case.export:
        with pytest.raises(TypeError, match=case.export):
            gb.export_onnx(calibrated, tmp_path / "band.onnx")
        return
    path = gb.export_onnx(calibrated, tmp_path / "band.onnx", level=0.9)
    x, _ = case.fresh()
    given = onnxruntime.InferenceSession(path).run(["mean", "lower", "upper"], {"x": x.astype(np.float32)})
    band = calibrated(x, level=0.9)
    for end, values in zip(("mean", "lower", "upper"), given, strict=True):
        assert np.allclose(values, getattr(band, end), rtol=1e-4, atol=1e-4), end


def around(fitted: pinn.Fitted, gap: float) -> quantiles.QuantilePair:
    """Two quantiles around a network."""
    mean = gb.predictors.MeanOnly(fitted)
    return quantiles.QuantilePair(lambda x: mean(x).mean - gap, lambda x: mean(x).mean + gap)


def test_calibrators_predictors_and_the_problem_are_studied(tmp_path: Path) -> None:
    study = lab.studies.grid(
        "outside",
        [LOGISTIC],
        {"steep": Factory(scale.Steep, step=0.1)},
        {
            "split": gb.Split(),
            "cells": nearest.NearestCenter(((1.0,), (3.0,))),
            "sensors": grouped.SensorWise(),
        },
        cal=30,
        test=20,
        draws=20,
    )
    pair = Cell(
        "Logistic", "quantiles", LOGISTIC, Factory(around, gap=0.1), quantiles.Outside(), cal=30, draws=20
    )
    status = lab.campaign.run(replace(study, cells=[*study.cells, pair]), tmp_path, progress=False)
    assert status.done == 3 and len(status.failed) == 1
    (said,) = status.failed.values()
    assert said.startswith("Logistic, steep, sensors, seed 0: ValueError: SensorWise() needs `groups=`")
    found = {result["cell"]["method"]: result for result in lab.campaign.results(tmp_path)}
    assert found["steep, split"]["cell"]["predictor"] == {"use": "scale.Steep", "step": 0.1}
    assert found["steep, split"]["found"]["laws"][-1] == [[30, 30, 20]]
    assert found["steep, cells"]["found"]["laws"] is None  # the number of points in each part is random
    assert found["quantiles"]["found"]["laws"] and found["quantiles"]["found"]["width"] > 0
    rows = (tmp_path / "README.md").read_text().splitlines()
    law = {row.split("|")[1].strip(): row.split("|")[6].strip() for row in rows if row.startswith("| ")}
    assert law["steep, split"] == "holds" and law["steep, cells"] == "-" and law["quantiles"] == "holds"


def crossed(seen: gb.Observations) -> gb.Calibrated:
    """CV+ in place of a calibrator."""
    return cross.cross_calibrate(cross.Line.fit, seen.x, seen.y, folds=4)


def test_a_whole_method_is_no_cell_of_a_study(tmp_path: Path) -> None:
    words = "calibrates one trained network many times.*got CrossCalibrated.*compare it with gb.evaluate"
    constant = Factory(gb.predictors.MeanOnly)
    with pytest.raises(TypeError, match=words):
        lab.studies.grid("mine", [LOGISTIC], {"constant": constant}, {"CV+": made("CV+")})  # type: ignore[dict-item]
    study = lab.studies.grid("mine", [LOGISTIC], {"constant": constant}, {"CV+": Factory(crossed)}, draws=2)
    (said,) = lab.campaign.run(study, tmp_path, progress=False).failed.values()
    assert "TypeError: A study calibrates one trained network" in said
    with pytest.raises(TypeError, match="`predictor` of a cell should be a Factory"):
        lab.studies.grid("mine", [LOGISTIC], {"steep": scale.Steep(net())})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="`score` of a cell should be a score"):
        lab.studies.grid("mine", [LOGISTIC], {"constant": constant}, score=quantiles.Outside)


# The command line

EXAMPLE = Path(__file__).parent.parent / "examples" / "bring_your_model"
MODEL, QUERY, TRAIN = (str(EXAMPLE / name) for name in ("model.onnx", "query.csv", "train.csv"))


def run(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """The example's files with a column for the side of each row."""
    for name in ("calibration", "fresh", "query"):
        table = tables.read(EXAMPLE / f"{name}.csv")
        where = np.where(table.column("x") < 0, "left", "right")
        tables.write(tmp_path / f"{name}.csv", table.with_columns(side=where))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("grouped.py", ["--calibrator", "sensorwise", "--groups", "side"]),
        ("nearest.py", ["--calibrator", "NearestCenter", "--training-data", TRAIN]),
    ],
)
def test_a_calibrator_of_ones_own_on_the_command_line(file: str, words: list[str], labelled: Path) -> None:
    pytest.importorskip("onnxruntime")
    own = ["--import", str(OUTSIDE / file)]
    data, out = ["--data", labelled / "calibration.csv"], labelled / "band"
    asked = ["--inputs", "x,y", "--targets", "u", *words, *own]
    said = run("calibrate", MODEL, *data, *asked, "--out", out)
    assert "lies in the band with probability at least the level" in " ".join(said.split())
    assert "all hashes match" in run("verify", out, *own)
    assert "guarantee" in run("verify", out, "--data", labelled / "fresh.csv", "--level", "0.8", *own)
    bands = labelled / "bands.csv"
    run("predict", out, "--data", labelled / "query.csv", "--out", bands, "--level", "0.8", *own)
    assert "u_upper" in tables.read(bands).names
    page = labelled / "report.html"
    run("report", out, "--data", labelled / "fresh.csv", "--out", page, "--level", "0.8", *own)
    assert "Assumption. " in page.read_text()
    alone = [sys.executable, "-c", "from guardband.cli import app; app()", "verify", str(out)]
    done = subprocess.run(alone, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "pass --import FILE_OR_MODULE on the command line" in " ".join(done.stderr.split())


@needs("torch")
def test_a_score_and_a_predictor_of_ones_own_on_the_command_line(
    labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(labelled)
    monkeypatch.setattr(sys, "path", [str(OUTSIDE), *sys.path])
    Path("own_models.py").write_text(
        "import quantiles, scale\nfrom guardband import pinn\n"
        "pair = quantiles.QuantilePair(pinn.mlp(2, [8], seed=0), pinn.mlp(2, [8], seed=1))\n"
        "steep = scale.Steep(pinn.mlp(2, [8], seed=0))\n"
    )
    asked = ["--data", "calibration.csv", "--inputs", "x,y", "--targets", "u", "--scale", "own"]
    own = ["--import", str(OUTSIDE / "quantiles.py"), "--score", "outside"]
    run("calibrate", "own_models:pair", *asked, *own, "--out", "pair")
    run("verify", "pair", "--data", "fresh.csv", "--import", OUTSIDE / "quantiles.py")
    run("calibrate", "own_models:steep", *asked, "--out", "steep")
    run("predict", "steep", "--data", "query.csv", "--out", "bands.npz", "--import", OUTSIDE / "scale.py")
    assert "EndsPrediction, got Prediction" in run(
        "calibrate", "own_models:steep", *asked, *own, "--out", "none", code=2
    )
    assert "--score should be absolute, " in run(
        "calibrate", "own_models:steep", *asked, "--score", "mine", "--out", "none", code=2
    )
    assert "pass it or --score, not both" in run(
        "calibrate", "own_models:steep", *asked, "--score", "scaled", "--noise", "1", "--out", "none", code=2
    )
    assert "settings without defaults" in run(
        "calibrate", "own_models:steep", *asked, "--score", "total", "--out", "none", code=2
    )


def test_what_cannot_be_named_on_the_command_line_is_refused(labelled: Path) -> None:
    asked = ["--data", labelled / "calibration.csv", "--inputs", "x,y", "--targets", "u"]
    out = ["--out", labelled / "band"]
    words = ["calibrate", MODEL, *asked, *out]
    own = ["--import", OUTSIDE / "nearest.py", "--calibrator", "nearestcenter"]
    assert "takes its centers from --training-data FILE" in run(*words, *own, code=2)
    assert "Mark your own class with @gb.kept and import it with --import" in " ".join(
        run(*words, "--calibrator", "crosscalibrated", code=2).split()
    )
    assert "There is no file nowhere.py" in run(*words, "--import", "nowhere.py", code=2)
    (labelled / "json.py").write_text("")
    taken = run(*words, "--import", labelled / "json.py", code=2)
    assert "A module `json` is already imported" in " ".join(taken.split())
    assert "SensorWise() needs `groups=`" in run(*words, "--calibrator", "sensorwise", code=2)


@needs("torch")
def test_a_study_file_finds_the_methods_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_it.py").write_text((OUTSIDE / "scale.py").read_text().replace("Steep", "Steeper"))
    (tmp_path / "own_study.py").write_text(
        "from guardband import lab, pinn\nfrom beside_it import Steeper\n"
        "recipe = pinn.Recipe(steps=5, finish=0)\n"
        "training = lab.studies.Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=recipe)\n"
        "made = {'steeper': lab.studies.Factory(Steeper)}\n"
        "study = lab.studies.grid('mine', [training], made, cal=30, draws=5)\n"
    )
    assert "1 done" in run("study", "run", tmp_path / "own_study.py", "--out", tmp_path / "study")
