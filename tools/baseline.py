"""A baseline of the files that guardband writes, for comparison with later releases.

    python tools/baseline.py FOLDER

writes, with the installed guardband, saved objects of every kept kind (`saved`), the output and snapshot of
`guardband watch` (`watch`), checkpoints of interrupted training runs (`checkpoints`) and an MLflow model
(`mlflow`), each with its numbers. `tests/test_baseline.py` reads the folder written by version 0.2.0. Names
of guardband are looked up when a case is created, so a rename breaks only its case.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import guardband as gb

TORCH = find_spec("torch") is not None
torch: Any = import_module("torch") if TORCH else None
pinn: Any = import_module("guardband.pinn") if TORCH else None

LEVELS = ("0.5", "0.8")
QUERIES, FOLLOWED = 6, 80
ANSWERS, SNAPSHOT = "answers.npz", "snapshot"
PROBLEMS = """
    Advection1D AllenCahn1D AllenCahn2D Beam Burgers1D Cavity Cylinder DampedOscillator Heat1D HeatDisk
    Helmholtz3D KortewegDeVries Kovasznay KuramotoSivashinsky LotkaVolterra PlateWithHole Poisson1D
    PoissonLShape ReactionDiffusion1D TaylorGreen2D VibratingBeam Wave1D
""".split()


# Functions that are not saved and have to be passed again at load


def line(x: Any) -> Any:
    """A model in plain arithmetic, which gives the same bits on every machine."""
    return 1 + 2 * x[:, :1]


def width(x: Any) -> Any:
    """A scale in plain arithmetic, of points or of fields."""
    return 0.25 + abs(x if x.ndim > 2 else x[:, :1])


def line_and_width(x: Any) -> Any:
    """An upper quantile."""
    return line(x) + width(x)


def prediction(x: Any) -> Any:
    """A function that returns predictions."""
    return gb.Prediction(x, line(x), width(x))


def frame(x: np.ndarray) -> Any:
    """Points (n, 2) as a data frame with a column of categories."""
    import pandas

    where = pandas.Categorical(np.where(x[:, 0] < 0, "left", "right"), categories=["left", "right"])
    return pandas.DataFrame({"a": x[:, 0], "b": x[:, 1], "where": where})


def from_frame(x: Any) -> Any:
    """A prediction from a data frame."""
    return prediction(x[["a", "b"]].to_numpy())


def positive(x: np.ndarray) -> np.ndarray:
    """A feature: whether the first coordinate is positive."""
    return (x[:, :1] > 0).astype(float)


def ratio(x: np.ndarray) -> np.ndarray:
    """A density ratio."""
    return 2 + x[:, 0]


def loss(band: Any, y: Any) -> np.ndarray:
    """The largest distance to the band, at most 1."""
    outside = np.maximum(np.maximum(band.lower - y, y - band.upper), 0)
    return np.minimum(outside.max(axis=1), 1)


def largest(values: np.ndarray) -> np.ndarray:
    """The maximum of each field."""
    return values.reshape(len(values), -1).max(axis=1)


def decay(state: Any) -> Any:
    """A model of fields, and one step of a rollout."""
    return 0.5 * state


def decay_of_inputs(x: np.ndarray) -> np.ndarray:
    """A model of fields (n, nodes, 1) for inputs (n, nodes)."""
    return decay(x)[..., None]


def with_dropout() -> Any:
    """A network with a dropout layer between two activations, with fixed weights."""
    first, last = torch.nn.Linear(1, 6), torch.nn.Linear(6, 1)
    net = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Tanh(), last).double()
    with torch.no_grad():
        for weights in net.parameters():
            weights.copy_(torch.linspace(-1, 1, weights.numel(), dtype=torch.float64).view_as(weights))
    return net.eval()


def own(name: str, kinds: set[str]) -> Any:
    """The argument `name` that loads an object which holds these kinds."""
    known = OWN[name]
    return next(known[kind] for kind in known if kind in kinds) if isinstance(known, dict) else known


OWN: dict[str, Any] = {
    "model": {"SplitThreshold": decay_of_inputs, "FieldGrid": decay, "Calibrated": line},
    "mean": {"FieldGrid": decay, "Calibrated": line},
    "scale": width,
    "lower": line,
    "upper": line_and_width,
    "function": {"Words": from_frame, "Quantity": largest, "PredictionFunction": prediction},
    "features": positive,
    "ratio": ratio,
    "loss": loss,
    "step_model": decay,
    "net": with_dropout() if TORCH else None,
}


# Data and networks


def points(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Points (n, *shape) between -1 and 1, on a line by default."""
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, *(shape or (1,))))


def readings(x: np.ndarray, m: int = 1, seed: int = 1) -> np.ndarray:
    """Noisy values (n, m) of the line, with more noise far from zero."""
    noise = np.random.default_rng(seed).normal(size=(len(x), m))
    return line(x) + (0.1 + 0.5 * abs(x[:, :1])) * noise


def trajectories(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States (n, 4, 1), and three noisy steps from each."""
    x = points(n, 4, 1, seed=seed)
    return x, np.stack([x / 2, x / 4, x / 8], axis=1) + 0.1 * points(n, 3, 4, 1, seed=seed + 100)


def residual_fields() -> tuple[np.ndarray, np.ndarray]:
    """Fields for learning a shape; errors grow with the size of the input."""
    x = points(24, 5, 1, seed=11) * np.linspace(0.1, 4, 24)[:, None, None]
    return x, decay(x) + 0.1 * abs(x) * points(24, 5, 1, seed=12)


def few() -> tuple[np.ndarray, np.ndarray]:
    """A few readings in space and time."""
    x = points(12, 2) / 2 + 0.5
    return x, np.sin(3 * x[:, :1])


def coming(n: int, seed: int = 8) -> tuple[Any, np.ndarray]:
    """The next readings of a stream, which drift, with their predictions; one reading is missing."""
    x = points(n, seed=seed)
    y = readings(x, seed=seed) + np.linspace(0, 2, n)[:, None]
    y[2] = np.nan
    return gb.Prediction(None, line(x)), y


def network(inputs: Any = 1, **options: Any) -> Any:
    """A small network in float64."""
    return pinn.mlp(inputs, [4], **options).double()


def train(problem: Any, data: Any = None, *, steps: int = 3, seed: int = 0, **options: Any) -> Any:
    """A network after a few Gauss-Newton steps."""
    recipe = pinn.Recipe.by_newton(steps, n_interior=16)
    start = network(problem, seed=seed)
    return pinn.fit(problem, start, data, recipe=recipe, seed=seed, progress=False, **options)


@cache
def fitted(seed: int = 0) -> Any:
    """A network fitted to an equation and readings, with others held out."""
    x = (np.arange(10)[:, None] + 0.5) / 10
    data, held_out = gb.Observations(x, 0.1 * x), gb.Observations(x + 0.02, 0.1 * x)
    return train(pinn.problems.Poisson1D(), data, seed=seed, held_out=held_out)


def with_unknown() -> Any:
    """A network fitted together with a coefficient."""
    t = np.linspace(0, 1, 8)[:, None]
    problem = pinn.problems.DampedOscillator(frequency=pinn.Unknown(5.5, 7.0, start=6.0))
    return train(problem, gb.Observations(t, np.cos(6 * t)), steps=2)


def untrained(name: str) -> Any:
    """A problem of the catalogue with a network as initialized."""
    problem = getattr(pinn.problems, name)()
    return pinn.Fitted(network(problem), problem, None, pinn.Likelihood(), pinn.Recipe(), [])


def tangent() -> Any:
    """The tangent space of a network fitted to an equation alone."""
    return pinn.Tangent(train(pinn.problems.Heat1D()), noise=0.05, n_interior=32, n_boundary=16)


def family() -> Any:
    """Heat conduction for a range of diffusivities."""
    return pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))


def solved_by_network() -> Any:
    """A family whose solver is a network."""
    recipe = pinn.Recipe.by_newton(2, n_interior=16)
    return family().fit(network(family().ranged), recipe=recipe, progress=False)


# Calibrations and streams


def band(model: Any = line, *, d: int = 1, m: int = 1, n: int = 30, **options: Any) -> Any:
    """A calibration on points (n, d) and readings (n, m)."""
    x = points(n, d)
    return gb.calibrate(model, x, readings(x, m), **options)


def on_tensors(model: Any, dtype: Any, d: int = 1) -> Any:
    """A calibration on tensors."""
    x = points(30, d)
    return gb.calibrate(model, *(torch.tensor(part, dtype=dtype) for part in (x, readings(x))))


def noisy(name: str) -> Any:
    """A calibration whose scale is a noise model of the library."""
    scale = getattr(pinn.problems.noise, name)()
    return on_tensors(gb.predictors.Given(line, scale), torch.float64, d=2)


def fields(model: Any = decay, *, score: Any = None, placed: bool = True) -> Any:
    """A calibration on fields (n, 5, 1), whose nodes optionally have positions on an axis."""
    x = points(30, 5, 1)
    nodes = {"x": np.linspace(0, 1, 5)} if placed else {}
    y = gb.Fields(decay(x) + 0.1 * points(30, 5, 1, seed=1), dims=("x",), coordinates=nodes)
    return gb.calibrate(model, x, y, score=score or gb.Simultaneous())


def stored_fields() -> Any:
    """A calibration on fields in files, which keeps only their scores."""
    import xarray

    x, y = points(30, 5), decay(points(30, 5)) + 0.1 * points(30, 5, seed=1)
    data = xarray.Dataset({"a": (("field", "x"), x), "u": (("field", "x"), y)})
    with tempfile.TemporaryDirectory() as place:
        source = gb.StoredFields(data, x="a", y="u")
        return gb.calibrate(decay_of_inputs, source, scores=f"{place}/scores.zarr", progress=False)


def rollout(*, shaped: bool) -> Any:
    """A calibration on trajectories, with a learned shape or without."""
    made = gb.Rollout(decay, 3)
    x, y = trajectories(30, 3)
    return gb.calibrate(
        made.shaped(*trajectories(12, 2)) if shaped else made,
        x,
        gb.Fields(y, dims=("t", "x")),
        score=gb.Simultaneous(),
    )


def truth(noise: Any) -> Any:
    """A band for the truth behind noise with a known law."""
    x = points(60)
    y = line(x) + np.random.default_rng(1).normal(size=x.shape)
    return gb.calibrate(line, x, y, target="truth", noise=noise, confidence="0.9")


def local(learner: Any, n: int = 60) -> Any:
    """A local calibration, whose shape is learned from n readings with more noise to the right."""
    x = points(n, seed=4)
    noise = 0.1 * (1.1 + x) ** 3 * np.random.default_rng(5).normal(size=x.shape)
    return band(calibrator=gb.Local(gb.Observations(x, line(x) + noise), learner))


def shifted(method: Any) -> Any:
    """A calibration for queries with another distribution of x."""
    return band(
        calibrator=gb.Weighted(
            gb.conformal.density_ratio(points(20), 0.5 * points(20, seed=2), method=method)
        )
    )


def crossed() -> Any:
    """CV+ of three networks."""
    seeds, x = iter(range(3)), points(30)
    return gb.calibration.calibrate_cross(lambda data: network(seed=next(seeds)), (x, readings(x)), folds=3)


def chosen() -> Any:
    """The better of two networks, selected on the calibration points."""
    x = points(60)
    candidates = {str(seed): network(seed=seed) for seed in range(2)}
    return gb.choose(candidates, calibrate=(x, readings(x))).calibrated


def draws() -> Any:
    """Three networks that differ in their last bias."""
    biases = torch.tensor([[0.0], [0.5], [2.0]], dtype=torch.float64)
    return pinn.predictors.Draws(network(), {"layers.1.bias": biases})


def hmc() -> Any:
    """A few draws by Hamiltonian Monte Carlo."""
    options: dict[str, Any] = {"draws": 6, "warmup": 30, "leapfrog": 4, "n_interior": 8, "n_boundary": 8}
    return pinn.predictors.HMC(fitted(), progress=False, **options)


def constrained(*, hard: bool) -> Any:
    """A network with exact boundary conditions, constructed or by the functions of the problem."""
    problem = pinn.problems.Poisson1D()
    if hard:
        return pinn.Constrained.of(problem, network())
    return pinn.Constrained(network(), problem.lift, problem.bubble)


def stream(method: Any) -> Any:
    """A stream after some readings, with an alarm."""
    calibrated = gb.calibrate_arrays(line(points(30)), readings(points(30)))
    alarm = gb.streams.Alarm(threshold=20, restart=60)
    made = gb.Stream(calibrated, "0.8", method=method, alarm=alarm)
    made.follow(*coming(FOLLOWED, seed=7))
    return made


ARITHMETIC: dict[str, Callable[[], Any]] = {
    "absolute": lambda: band(score=gb.Absolute()),
    "scaled": lambda: band(gb.predictors.Given(line, width), confidence="0.9"),
    "total": lambda: band(gb.predictors.Given(line, width), score=gb.conformal.Total(noise=0.3)),
    "float32": lambda: on_tensors(line, torch.float32),
    "arrays": lambda: gb.calibrate_arrays(points(30), readings(points(30)), abs(points(30, seed=2)) + 1),
    "grouped": lambda: band(calibrator=gb.Grouped(), groups=np.arange(30) % 2),
    "clustered": lambda: band(calibrator=gb.Clustered(), groups=np.arange(30) % 10),
    "own ratio": lambda: band(calibrator=gb.Weighted(ratio)),
    "risk": lambda: band(calibrator=gb.RiskControl()),
    "risk of own loss": lambda: band(calibrator=gb.RiskControl(loss)),
    "bounded noise": lambda: truth(gb.conformal.BoundedNoise(3.0)),
    "quantiles": lambda: band(gb.Quantiles(line, line_and_width)),
    "two ranks": lambda: band(gb.Quantiles(line, line_and_width), score=gb.CQR(symmetric=False)),
    "function": lambda: band(prediction),
    "data frame": lambda: gb.calibrate(from_frame, frame(points(30, 2)), readings(points(30, 2))),
    "local flat": lambda: local(gb.conformal.LogScale(draws=2), n=8),
    "simultaneous": fields,
    "stored fields": stored_fields,
    "share": lambda: fields(score=gb.Share(0.2)),
    "L2": lambda: fields(score=gb.Norm("L2"), placed=False),
    "H1": lambda: fields(score=gb.Norm("H1")),
    "quantity": lambda: fields(score=gb.Quantity(largest)),
    "constant scale": lambda: fields(gb.surrogates.ConstantScale(gb.predictors.MeanOnly(decay))),
    "rollout": lambda: rollout(shaped=False),
    "stream adaptive": lambda: stream(gb.streams.AdaptiveLevel()),
    "stream with settings": lambda: stream(gb.streams.AdaptiveLevel(step=0.1, window=30)),
    "stream rolling": lambda: stream(gb.streams.RollingWindow(window=40)),
}
"""Computed in plain arithmetic: later releases give the same bits."""

NUMERICAL: dict[str, Callable[[], Any]] = {
    "network": lambda: band(network()),
    "network with sines": lambda: band(network(activation=torch.sin)),
    "network with waves": lambda: band(
        network(pinn.problems.Wave1D(), periodic="x", fourier=(2, 1.0)), d=2, score=gb.Absolute()
    ),
    "units": lambda: band(network(outputs=2), m=2, score=gb.Absolute(units=[1, 2], joint=False)),
    "one output": lambda: band(network(outputs=2), outputs=1),
    "constrained": lambda: band(constrained(hard=True)),
    "constrained by problem": lambda: band(constrained(hard=False)),
    "windows": lambda: band(pinn.Windowed([network(2), network(2, seed=1)], [0.5]), d=2),
    "fitted": fitted,
    "unknown": with_unknown,
    "ensemble": lambda: band(gb.predictors.Ensemble([fitted(), fitted(1)])),
    "draws": lambda: band(draws()),
    "dropout": lambda: band(pinn.predictors.Dropout(network(dropout=0.2), draws=5)),
    "dropout masks": lambda: band(pinn.predictors.Dropout(with_dropout(), draws=5)),
    "distance": lambda: band(gb.predictors.Distance(network(), points(8, seed=3), n_neighbors=2)),
    "latent distance": lambda: band(
        pinn.predictors.LatentDistance(network(), points(8, seed=3), n_neighbors=2)
    ),
    "laplace": lambda: band(pinn.predictors.Laplace(fitted(), n_interior=16, n_boundary=8)),
    "laplace last layer": lambda: band(
        pinn.predictors.LastLayerLaplace(fitted(), n_interior=16, n_boundary=8, layers=1)
    ),
    "mean-field VI": lambda: band(pinn.predictors.MeanFieldVI(fitted(), steps=5, draws=4, progress=False)),
    "HMC": lambda: band(hmc()),
    "cross": crossed,
    "chosen": chosen,
    "local log scale": lambda: local(gb.conformal.LogScale(draws=2, inducing=6)),
    "conditional": lambda: band(calibrator=gb.Conditional(positive), n=60),
    "conditional with seed": lambda: band(calibrator=gb.Conditional(positive, seed=3), d=2, n=60),
    "logistic ratio": lambda: shifted("logistic"),
    "kernel ratio": lambda: shifted("kernel"),
    "randomly localized": lambda: band(calibrator=gb.conformal.RandomlyLocalized(inputs=points(30, seed=3))),
    "gaussian noise": lambda: truth(gb.conformal.GaussianNoise(1.0)),
    "laplace noise": lambda: truth(gb.conformal.LaplaceNoise(1.0)),
    "uniform noise": lambda: truth(gb.conformal.UniformNoise(1.5)),
    "size scale": lambda: fields(gb.surrogates.SizeScale(gb.predictors.MeanOnly(decay), 0.7)),
    "smoothed scale": lambda: fields(gb.surrogates.SmoothedScale(gb.predictors.Given(decay, width), 1)),
    "network scale": lambda: fields(
        pinn.surrogates.NetworkScale.fitted(
            gb.predictors.MeanOnly(decay), *residual_fields(), width=4, steps=5
        )
    ),
    "adapted": lambda: fields(
        pinn.surrogates.adapted(gb.predictors.MeanOnly(decay), *residual_fields(), steps=2)
    ),
    "rollout with shape": lambda: rollout(shaped=True),
    "tangent": tangent,
    "tangent full": lambda: tangent().calibrate(*few()),
    "tangent jackknife+": lambda: tangent().calibrate(*few(), kind="jackknife+"),
    "family by network": solved_by_network,
    "family by solution": lambda: family().exact(),
    "stream decaying": lambda: stream(gb.streams.DecayingSteps()),
    "stream PID": lambda: stream(gb.streams.ConformalPID()),
    **{
        f"noise {name}": partial(noisy, name)
        for name in ("Even", "Islands", "NoisyDisk", "Ring", "DiscAndCorner", "Front")
    },
    **{f"problem {name}": partial(untrained, name) for name in PROBLEMS},
}
"""Computed by linear algebra, special functions or networks, whose last digits depend on the machine."""

SINGLE: dict[str, Callable[[], Any]] = {
    "network in float32": lambda: band(pinn.mlp(1, [4])),
    "local pinball": lambda: local(pinn.PinballNetwork(steps=200, widths=(6,), frequencies=4)),
}
"""The same in float32."""


# Numbers of saved objects


def queries(saved: Any) -> np.ndarray:
    """Points for a saved object, shaped like its calibration points or like points of its problem."""
    match type(saved).__name__:
        case "Stream":
            shape = (1,)
        case "Fitted":
            shape = (saved.problem.domain.d,)
        case "Tangent":
            shape = (saved.fitted.problem.domain.d,)
        case "SolvedFamily":
            shape = (len(saved.family.names.axes),)
        case _:
            known = saved.prediction
            shape = tuple((known.mean if known.x is None else known.x).shape[1:])
    return 0.1 + 0.8 * np.random.default_rng(9).uniform(size=(QUERIES, *shape))


def answers(saved: Any, x: np.ndarray) -> np.ndarray:
    """The numbers of a saved object at x: bands at two levels, or its main result."""
    match type(saved).__name__:
        case "Stream":
            found = saved.follow(*coming(FOLLOWED))
            ends = (found.band.lower[:, 0], found.band.upper[:, 0])
            return np.stack([*ends, found.p, found.missed, found.alarm])
        case "Fitted":
            return field_and_residuals(saved, x)
        case "Tangent":
            return answers(saved.calibrate(*few()), x)
        case "SolvedFamily":
            return np.asarray(saved(x, saved.family.corners))
    return np.array([numbers(band_of(saved, x, level)) for level in LEVELS])


def field_and_residuals(saved: Any, x: np.ndarray) -> np.ndarray:
    """A fitted field, and the residuals of its equations."""
    at, problem = torch.from_numpy(x), saved.problem
    residual = problem.residual(at, pinn.problems.AutogradField(saved.net, at, problem.names))
    parts = residual.values() if isinstance(residual, dict) else [residual]
    return np.concatenate([saved(x), *(part.detach().numpy() for part in parts)], axis=1)


def band_of(calibrated: Any, x: np.ndarray, level: str) -> Any:
    """The band at x, of the kind of points that were calibrated."""
    known = calibrated.prediction.x
    if known is None:
        return calibrated.band(gb.Prediction(None, x, abs(x) + 1), level)
    if getattr(calibrated, "columns", None) is not None:
        return calibrated(frame(x), level)
    at = x if isinstance(known, np.ndarray) else torch.from_numpy(x).to(known.dtype)
    return calibrated(at, level, groups=np.arange(len(x)) % 2 if calibrated.needs_groups else None)


def numbers(made: Any) -> np.ndarray:
    """The mean and the ends of a band, or the radius of a ball."""
    parts = ("radius",) if isinstance(made, gb.values.NormBand) else ("mean", "lower", "upper")
    return np.array([np.asarray(getattr(made, part)) for part in parts])


# Runs that are interrupted and resumed

RECIPES: dict[str, dict[str, Any]] = {
    "adam": {"steps": 100, "warmup": 10, "batch": 8, "n_interior": 16, "n_boundary": 4, "finish": 0},
    "newton": {"steps": 0, "newton": 12, "n_interior": 16, "n_boundary": 4, "finish": 0},
}


INTERRUPTED = {"adam": 50, "newton": 5}
"""The last step of each training before it is interrupted."""


def resumable(recipe: str, checkpoint: Path | None = None, callback: Any = None) -> Any:
    """A short training, resumed from its checkpoint if that exists.

    A checkpoint is refused unless the network and the data have the same bits, so both are plain arithmetic.
    """
    problem, x = pinn.problems.Poisson1D(), (np.arange(12)[:, None] + 0.5) / 12
    net = network(problem)
    with torch.no_grad():
        for weights in net.parameters():
            weights.copy_((torch.arange(weights.numel()) / 4 - 0.5).view_as(weights))
    return pinn.fit(
        problem,
        net,
        gb.Observations(x, 3 * x * (1 - x)),
        recipe=pinn.Recipe(**RECIPES[recipe]),
        checkpoint=checkpoint,
        callback=callback,
        progress=False,
    )


def guardband(*words: str | Path) -> None:
    """Run a command in this process."""
    from typer.testing import CliRunner

    from guardband.cli import app

    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output


def watch(folder: Path) -> None:
    """Follow `data.csv` in a folder to its end, resumed from the snapshot if there is one."""
    options = ("--model", "numpy:square", "--level", "0.8", "--every", "20", "--once")
    guardband(
        "watch", folder / "band", "--data", folder / "data.csv", "--out", folder / "out.jsonl", *options
    )


def ask_mlflow(folder: Path, x: np.ndarray) -> np.ndarray:
    """The answer of an MLflow model in a folder, as mean, lower and upper."""
    import mlflow.pyfunc
    import pandas

    model = mlflow.pyfunc.load_model(str(folder))
    return model.predict(pandas.DataFrame(x, columns=["x", "t"])).to_numpy()


# Writing


def write_saved(folder: Path) -> None:
    """All saved objects with their answers, and the snapshots of streams."""
    for cases, rtol in ((ARITHMETIC, 0.0), (NUMERICAL, 1e-9), (SINGLE, 1e-5)):
        for name, make in cases.items():
            made, place = make(), folder / name.replace(" ", "_")
            gb.save(made, place)
            if isinstance(made, gb.Stream):
                (place / SNAPSHOT).write_bytes(made.snapshot())
            x = queries(made)
            np.savez_compressed(place / ANSWERS, x=x, answers=answers(made, x), rtol=rtol)


def write_checkpoints(folder: Path) -> None:
    """The checkpoints of training runs interrupted halfway, and the final fields."""
    folder.mkdir()
    x = np.linspace(0, 1, QUERIES)[:, None]
    for recipe, last in INTERRUPTED.items():

        def interrupt(now: Any, last: int = last) -> None:
            if now.step > last:
                raise KeyboardInterrupt

        with suppress(pinn.TrainingInterrupted):
            resumable(recipe, folder / f"{recipe}.ckpt", interrupt)
        np.savez_compressed(folder / f"{recipe}.npz", x=x, answers=resumable(recipe)(x))


def write_watch(folder: Path) -> None:
    """A calibration of the command line, and what `watch` writes for a part of a file and for all of it."""
    folder.mkdir()
    for name, n, seed in (("cal.csv", 40, 1), ("data.csv", 60, 2)):
        x = points(n, seed=seed)
        rows = np.hstack([x, x**2 + 0.1 * points(n, seed=seed + 10)])
        np.savetxt(folder / name, rows, "%.6f", delimiter=",", header="x,u", comments="")
    calibration = ("--data", folder / "cal.csv", "--targets", "u", "--out", folder / "band")
    guardband("calibrate", "numpy:square", *calibration)
    whole = (folder / "data.csv").read_text()
    (folder / "data.csv").write_text("".join(whole.splitlines(keepends=True)[:41]))
    watch(folder)
    with tempfile.TemporaryDirectory() as place:
        resumed = Path(shutil.copytree(folder, Path(place, "watch")))
        (resumed / "data.csv").write_text(whole)
        watch(resumed)
        shutil.copy(resumed / "out.jsonl", folder / "expected.jsonl")
    (folder / "data.csv").write_text(whole)
    (folder / "cal.csv").unlink()


IDENTITY = ("artifact_path", "model_id", "model_uuid", "run_id", "utc_time_created")
"""Entries of an `MLmodel` file that name a machine's folders, a run or a time."""


def write_mlflow(folder: Path) -> None:
    """The artifacts of a logged model, without the identity of the run, and its answers."""
    os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    import mlflow
    import mlflow.artifacts
    import yaml

    with tempfile.TemporaryDirectory() as place:
        mlflow.set_tracking_uri(Path(place, "runs").as_uri())
        with mlflow.start_run():
            made = gb.integrations.mlflow.log_model(band(network(2), d=2), level=0.8, inputs=["x", "t"])
        mlflow.artifacts.download_artifacts(made.model_uri, dst_path=str(folder))
    (folder / "registered_model_meta").unlink()
    about = yaml.safe_load((folder / "MLmodel").read_text())
    public = {name: value for name, value in about.items() if name not in IDENTITY}
    (folder / "MLmodel").write_text(yaml.safe_dump(public))
    x = points(QUERIES, 2, seed=9)
    np.savez_compressed(folder / ANSWERS, x=x, answers=ask_mlflow(folder, x))


def main(folder: Path) -> None:
    """Write all parts to a folder that does not exist yet."""
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_saved(folder / "saved")
        write_checkpoints(folder / "checkpoints")
        write_watch(folder / "watch")
        write_mlflow(folder / "mlflow")
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1000:.0f} kB, by guardband {gb.__version__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
