"""Calibrate: the door. Any trained model and held-out measurements go in, a guarantee comes out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import torch

from guardband.arrays import ArrayLike, copy, finite, kind_of, rows, to_numpy
from guardband.conformal import Calibrator, Scaled, Score, ScoreCalibrated, Split
from guardband.conformal.asking import WATCHED, ask, held_out_of, name_of
from guardband.conformal.base import Groups
from guardband.conformal.by_scores import on_scores
from guardband.conformal.noise import NoiseLaw
from guardband.conformal.rank import Level
from guardband.conformal.truth import truth_of
from guardband.frames import Columns, by_outputs, in_order, is_frame, on_axes, take
from guardband.grids import Fields, named
from guardband.leaks import refuse_leaks
from guardband.models import evaluating
from guardband.pinn.given import warn_outside
from guardband.predictors import MeanOnly, Outputs, PredictionFunction
from guardband.problems import Problem
from guardband.values import Observations, Prediction, Predictor

TWICE = 8
"""At how many points a model is asked twice, to see that it answers the same."""

ROUNDING = {True: 1e-6, False: 1e-3}
"""By how much of the output's spread two answers may differ: in float64, and in lower precision."""

TOGETHER, HALF = 1e-3, 1e-4
"""By how much an answer may change with the points beside it: of the spread, and of itself, by rounding."""

ELSEWHERE = {
    "level": "A level is asked of the result, at any time: calibrated(x, level=0.95).",
    "confidence_level": "A level is asked of the result, at any time: calibrated(x, level=0.9).",
    "alpha": "A level, 1 - alpha, is asked of the result: calibrated(x, level=0.95) for alpha = 0.05.",
    "train": "Training data belong to the predictor: gb.predictors.MeanOnly(model, training_data=...).",
    "joint": "It belongs to the score: score=gb.Scaled(joint=False).",
    "units": "They belong to the score: score=gb.Absolute(units=[...]).",
    "training_data": "They belong to the predictor: gb.predictors.MeanOnly(model, training_data=...).",
}
"""What people give to `calibrate` that has its place elsewhere."""


def calibrate(
    model: Any,
    x_cal: ArrayLike,
    y_cal: ArrayLike,
    *,
    score: Score | None = None,
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
    outputs: str | int | Sequence[str | int] | None = None,
    target: Literal["measurement", "truth"] = "measurement",
    noise: NoiseLaw | None = None,
    **misplaced: Any,
) -> ScoreCalibrated:
    """Calibrate a model on points it has not seen: x_cal (n, d) and measured y_cal (n, m).

    `model` is a predictor (anything that returns a `Prediction`), a torch module, an object with `predict`
    such as a fitted scikit-learn regressor, or a function of x. x may be a DataFrame: its columns are known
    by their names from then on, and a model that wants a frame gets one.

    The guarantee holds if these points and the new ones are exchangeable: drawn alike, from the
    same places with the same noise. They must not be training points, nor may the model, the score or the
    level have been chosen by looking at them. What is covered is a new *measurement* y, noise included.

    `score` is how misses are measured, `Scaled()` by default, and `CQR()` for quantiles; `calibrator` how
    the threshold is found, `Split()` by default; `groups` one label per point for calibrators that use them;
    `confidence` asks for "coverage at least `level` with this probability over calibration sets",
    for a level fixed beforehand, instead of on average over them. `outputs` are those that y_cal holds, by
    name or number, where not all outputs of the model were measured: the band is about these alone.

    Whole fields are one row each: y_cal (N, points, m), or a `gb.Fields`, or an xarray `DataArray`, which
    name their axes; with a score of whole fields, such as `Simultaneous()`, the promise is about all of one.

    With `target="truth"` the band is about the noise-free truth, and needs the law of the noise, such as
    `noise=gb.GaussianNoise(0.05)`, and a confidence; `gb.conformal.Truth` says what it assumes.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> y = np.sin(3 * x) + 0.1 * np.cos(50 * x)
    >>> calibrated = gb.calibrate(lambda x: np.sin(3 * x), x, y)
    >>> calibrated([0.2, 0.4], level=0.9)
    Band(level=0.9, 2 points)
    """
    for name in misplaced:
        raise TypeError(f"`calibrate` takes no `{name}`. {ELSEWHERE.get(name, 'See help(gb.calibrate).')}")
    if target not in ("measurement", "truth"):
        raise ValueError(f"`target` should be 'measurement' or 'truth', got {target!r}.")
    if target == "truth":
        score, calibrator = truth_of(noise, score, calibrator)
    elif noise is not None:
        raise ValueError(
            "`noise` is for a band about the truth: target='truth'. For one about measurements around a "
            "scale that knows only the model, use score=gb.Total(noise=...)."
        )
    y_cal, grid = named(y_cal)
    x_cal = x_cal.values if isinstance(x_cal, Fields) else x_cal
    columns = Columns.of(x_cal) if is_frame(x_cal) else None
    # What was calibrated on stays, whatever becomes of the caller's arrays.
    x = x_cal if columns is not None else copy(finite(rows(x_cal, "x_cal"), "x_cal"))
    y = finite(rows(y_cal, "y_cal"), "y_cal")
    if len(y) == 0:
        raise ValueError("`y_cal` should hold at least one calibration point, got none.")
    if columns is not None and not in_order(y_cal, x_cal):
        raise ValueError("The rows of `y_cal` have the labels of `x_cal` in another order: y.loc[x.index].")
    if len(x) != len(y):
        raise ValueError(f"`x_cal` and `y_cal` should pair up, got {len(x)} and {len(y)} rows.")
    predictor = as_predictor(model, x)
    if columns is not None and predictor.field_names is not None:
        x = on_axes(x, predictor.field_names.axes)
        columns = Columns.of(x)
    prediction = ask(predictor, x)
    if outputs is not None:
        predictor = Outputs.named(predictor, outputs, prediction.mean.shape[-1])
        prediction = ask(predictor, x)
    if predictor.field_names is not None:
        y = finite(rows(by_outputs(y_cal, predictor.field_names.outputs), "y_cal"), "y_cal")
    _refuse_randomness(predictor, x, prediction)
    y = copy(kind_of(prediction.mean, y))
    if outputs is None:
        _refuse_missing_outputs(predictor, prediction, y)
    for problem in [getattr(one, "problem", None) for one in predictor.held()]:
        if isinstance(problem, Problem) and prediction.x is not None and prediction.x.ndim == 2:
            warn_outside(problem, prediction.x, "calibration points", stacklevel=2)
    used = _used(predictor, calibrator)
    _refuse_other_columns(used, columns)
    refuse_leaks(used, prediction.x, y)
    made = on_scores(
        predictor,
        prediction,
        y,
        score=score or prediction.own_score or Scaled(),
        calibrator=calibrator or Split(),
        groups=groups,
        confidence=confidence,
        columns=columns,
        grid=grid,
    )
    caution = made.score.caution(prediction, y)
    if caution is not None:
        warnings.warn(caution, stacklevel=2)
    return made


def as_predictor(model: Any, x: Any) -> Predictor:
    """A predictor as it is, anything else that can be asked at x (n, d) as one."""
    if isinstance(model, Predictor):
        return model
    if isinstance(model, str | os.PathLike):
        raise TypeError(
            f"`model` should be a model, got the path {os.fspath(model)!r}. Load it first: "
            "gb.adapters.from_onnx(path), torch.load, joblib.load, ..."
        )
    if isinstance(model, type):
        raise TypeError(
            f"`model` should be a fitted {model.__name__}, got the class itself. Make and fit one first."
        )
    if getattr(model, "__name__", None) == "predict":  # a method of a model
        _refuse_labels(getattr(model, "__self__", None))
    if callable(model) and not hasattr(model, "predict"):
        made: Any = PredictionFunction if _predicts(model, x) else MeanOnly
        return made(model)
    if isinstance(model, torch.nn.Module):
        return MeanOnly(model)
    if not hasattr(model, "predict"):
        raise TypeError(
            "`model` should be a predictor, a torch module, an object with `predict` or a function of x, "
            f"got {type(model).__name__}."
        )
    _refuse_labels(model)
    return MeanOnly(model)


def _refuse_labels(model: Any) -> None:
    """What predicts classes or clusters has no band."""
    kind = getattr(model, "_estimator_type", None)
    if hasattr(model, "cluster_centers_") or hasattr(model, "labels_") or kind == "clusterer":
        raise TypeError(f"{type(model).__name__} gives labels of clusters; a band is for numbers.")
    if hasattr(model, "classes_") or kind == "classifier":
        raise TypeError(
            f"{type(model).__name__} is a classifier; a band is for numbers. Wrap what you want to bound, "
            "such as a probability, in a function: lambda x: model.predict_proba(x)[:, 1]."
        )


def _predicts(model: Any, x: Any) -> bool:
    """Whether a function returns predictions; a network that stumbles over numpy does not."""
    few = take(x, slice(2)) if is_frame(x) else copy(x[:2])
    if not isinstance(model, torch.nn.Module):
        return isinstance(model(few), Prediction)
    with evaluating(model), torch.no_grad(), suppress(Exception):
        return isinstance(model(few), Prediction)
    return False


def _refuse_randomness(predictor: Predictor, x: Any, prediction: Prediction) -> None:
    """A predictor that draws anew at every call is no fixed function: its scores are not its band's."""
    some = slice(min(TWICE, max(1, len(x) // 2)))
    few = take(x, some) if is_frame(x) else x[some]
    first, second = ask(predictor, few), ask(predictor, few)
    for name, values in prediction.parts.items():
        if name not in first.parts or name not in second.parts:
            continue
        whole, a, b = (
            to_numpy(part).astype(float) for part in (values, first.parts[name], second.parts[name])
        )
        spread = whole.std(axis=0)
        wide = str(prediction.mean.dtype).endswith("64")
        if (abs(a - b) > ROUNDING[wide] * spread).any() and not np.array_equal(a, b):
            raise ValueError(
                f"{name_of(predictor)} gave two answers at the same points: its {name} differs by up to "
                f"{abs(a - b).max():.3g}. A predictor should be a fixed function: switch dropout off, or "
                "draw once and keep the draws, as gb.predictors.Dropout does."
            )
        among = whole[some]
        if (abs(a - among) > TOGETHER * spread + HALF * abs(among)).any():
            raise ValueError(
                f"What {name_of(predictor)} answers at a point depends on the points beside it: its {name} "
                f"differs by up to {abs(a - among).max():.3g} when fewer are asked. A predictor should treat "
                "each row by itself, in its order: no statistics of the batch, no sorting."
            )


def _refuse_missing_outputs(predictor: Predictor, prediction: Prediction, y: Any) -> None:
    """Of a model with more outputs than were measured, somebody has to say which were."""
    had, given = tuple(prediction.mean.shape), tuple(y.shape)
    if len(had) == len(given) == 2 and given[1] < had[1]:
        known = predictor.field_names
        some = tuple(range(given[1])) if known is None else known.outputs[: given[1]]
        raise ValueError(
            f"`y_cal` should have the shape of the predictions, got {given} beside {had}. Where not all "
            f"outputs were measured, say which: gb.calibrate(..., outputs={some!r})."
        )


def _used(predictor: Predictor, calibrator: Calibrator | None) -> Mapping[str, Observations]:
    """What predictor and calibrator have learned from, or will."""
    used = dict(calibrator.used) if isinstance(calibrator, Calibrator) else {}
    if predictor.training_data is not None:
        if not isinstance(predictor.training_data, Observations):
            kind = type(predictor.training_data).__name__
            raise TypeError(f"`training_data` should be gb.Observations(x, y), got {kind}.")
        used["training"] = predictor.training_data
    watched = held_out_of(predictor)
    return used if watched is None else used | {WATCHED: watched}


def _refuse_other_columns(used: Mapping[str, Observations], columns: Columns | None) -> None:
    """Rows that are compared, or learned from, should have the columns of x_cal in the same order."""
    for what, data in used.items():
        if columns is not None and data.names not in (None, columns.numeric):
            theirs, ours = (", ".join(map(str, names)) for names in (data.names or (), columns.numeric))
            raise ValueError(
                f"The {what} rows have the columns {theirs}, those of `x_cal` that hold numbers are {ours}: "
                "give both the same, in one order."
            )
