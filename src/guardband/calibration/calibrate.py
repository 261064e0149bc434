"""Calibrate: the door. Any trained model and held-out measurements go in, a guarantee comes out."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from guardband.base.arrays import ArrayLike, copy, finite, kind_of, rows, to_numpy
from guardband.base.engine import On
from guardband.base.lazy import is_made_by
from guardband.conformal import Calibrator, Scaled, Score, ScoreCalibrated, Split
from guardband.conformal.base import FOR_ARRAYS, FOR_STORES, NO_SCORES, Groups, refuse_options
from guardband.conformal.noise import NoiseLaw
from guardband.conformal.predict import VALIDATION, copy_of, name_of, predict, validation_data_of
from guardband.conformal.rank import Level
from guardband.conformal.score_calibrated import calibrate_prediction
from guardband.conformal.truth import truth_calibration
from guardband.conformal.whole.simultaneous import Simultaneous
from guardband.leaks import refuse_leaks
from guardband.predictors import MeanOnly, Outputs, PredictionFunction
from guardband.predictors.models import evaluating, is_module
from guardband.values import Names, Observations, Prediction, Predictor
from guardband.values.frames import Columns, is_frame, on_axes, take
from guardband.values.labeled import (
    Axes,
    like_inputs,
    matched,
    opened,
    opened_targets,
    refuse_unpaired,
    several,
)

if TYPE_CHECKING:
    from guardband.fields import StoredFields

TWICE = 8
"""At how many points a model is asked twice, to see that it answers the same."""

ROUNDING = {True: 1e-6, False: 1e-3}
"""By how much of the output's spread two answers may differ: in float64, and in lower precision."""

TOGETHER, HALF = 1e-3, 1e-4
"""By how much an answer may change with the points beside it: of the spread, and of itself, by rounding."""


def calibrate(
    model: Any,
    x_cal: ArrayLike | StoredFields,
    y_cal: ArrayLike | None = None,
    *,
    score: Score | None = None,
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
    outputs: str | int | Sequence[str | int] | None = None,
    target: Literal["measurement", "truth"] = "measurement",
    noise: NoiseLaw | None = None,
    names: Names | Sequence[str] | None = None,
    scores: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    on: On = None,
    progress: bool = True,
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

    Settings that belong elsewhere: a level is asked of the result, `calibrated(x, level=0.95)` (1 - alpha for
    a rate of misses alpha); training data belong to the predictor, `gb.predictors.MeanOnly(model,
    training_data=...)`; `joint` and `units` to the score, `gb.Scaled(joint=False)`, `gb.Absolute(units=...)`.

    Whole fields are one row each: y_cal (N, points, m), or a `gb.Fields`, or an xarray `DataArray`, which
    name their axes; with a score of whole fields, such as `Simultaneous()`, the promise is about all of one.

    `names` are those of the columns of x, where it is an array; `pinn.problems.Names(axes, outputs)` names
    the outputs too. Tables and reports show them.

    With `target="truth"` the band is about the noise-free truth, and needs the law of the noise, such as
    `noise=gb.conformal.GaussianNoise(0.05)`, and a confidence; `gb.conformal.Truth` says what it assumes.

    `gb.StoredFields` take the place of x_cal and y_cal: fields in a store, a `chunk` of them in memory at a
    time. The result is that for the same fields in memory, by default with `gb.Simultaneous()`: all levels,
    exact ranks. It keeps scores and no field, so `gb.check` cannot compare places. The score of each field is
    written to a Zarr store at the path `scores`, and a run that was killed goes on there when called again.
    Scores of another model are refused, and those of other fields by a look at sixteen of them: give data
    that have changed a path of their own. `batch` is how many fields the model is asked at once; it is kept,
    so that results do not depend on who computed them. `on` says where, as for `FieldBand.to_zarr`. Of
    training fields that the model knows, only copies among the first few are noticed: see that the fields are
    others.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> y = np.sin(3 * x) + 0.1 * np.cos(50 * x)
    >>> calibrated = gb.calibrate(lambda x: np.sin(3 * x), x, y)
    >>> calibrated([0.2, 0.4], level=0.9)
    Band(level=0.9, 2 points)
    """
    if target not in ("measurement", "truth"):
        raise ValueError(f"`target` should be 'measurement' or 'truth', got {target!r}.")
    of_stores: dict[str, Any] = {"scores": scores, "chunk": chunk, "batch": batch, "on": on}
    if is_made_by(x_cal, "guardband.fields.stored", "StoredFields"):
        of_arrays = {"y_cal": y_cal, "calibrator": calibrator, "groups": groups, "outputs": outputs}
        of_arrays |= {"noise": noise, "names": names, "target": target if target == "truth" else None}
        refuse_options(of_arrays, FOR_STORES)
        if scores is None:
            raise TypeError(NO_SCORES)
        from guardband.calibration.stored import calibrate_fields

        first = partial(calibrate, model, score=score or Simultaneous(), confidence=confidence)
        fields: Any = x_cal
        return calibrate_fields(first, fields, **of_stores, progress=progress)
    refuse_options(of_stores, FOR_ARRAYS)
    if y_cal is None:
        raise TypeError("`y_cal` is missing: the targets that were measured at `x_cal`.")
    if target == "truth":
        score, calibrator = truth_calibration(noise, score, calibrator)
    elif noise is not None:
        raise ValueError(
            "`noise` is for a band about the truth: target='truth'. For one about measurements around a "
            "scale that knows only the model, use score=gb.conformal.Total(noise=...)."
        )
    refuse_unpaired(x_cal=x_cal, y_cal=y_cal, groups=groups)
    columns = Columns.of(x_cal) if is_frame(x_cal) else None
    x, places = (x_cal, None) if columns is not None else opened(x_cal, "x_cal")
    y_cal = like_inputs(y_cal, places)
    y, measured, grid = opened_targets(y_cal, "y_cal")
    # What was calibrated on stays, whatever becomes of the caller's arrays.
    x = copy_of(x) if columns is not None else copy(finite(rows(x, "x_cal"), "x_cal"))
    y = finite(rows(y, "y_cal"), "y_cal")
    if len(y) == 0:
        raise ValueError("`y_cal` should hold at least one calibration point, got none.")
    if len(x) != len(y):
        raise ValueError(f"`x_cal` and `y_cal` should pair up, got {len(x)} and {len(y)} rows.")
    predictor = as_predictor(model, x)
    if predictor.field_names is not None:
        axes = Axes.of_columns(predictor.field_names.axes)
        if columns is not None:
            x = on_axes(x, predictor.field_names.axes)
            columns = Columns.of(x)
        elif places is not None and places.words is not None:
            x, places = matched(x, places, axes, "x_cal"), axes
    prediction = predict(predictor, x)
    if outputs is not None:
        predictor = Outputs.named(predictor, outputs, prediction.mean.shape[-1])
        prediction = predict(predictor, x)
    if predictor.field_names is not None and (named := several(measured)) is not None and named.words:
        known = Axes.of_columns(predictor.field_names.outputs)
        y, measured = matched(y, named, known, "y_cal"), known
    _refuse_randomness(predictor, x, prediction)
    y = copy(kind_of(prediction.mean, y))
    if outputs is None:
        _refuse_missing_outputs(predictor, prediction, y)
    if prediction.x is not None and (caution := predictor.caution(prediction.x)) is not None:
        warnings.warn(caution, stacklevel=2)
    used = _used(predictor, calibrator)
    _refuse_other_columns(used, columns, measured)
    refuse_leaks(used, prediction.x, y)
    made = calibrate_prediction(
        predictor,
        prediction,
        y,
        score=score or prediction.own_score or Scaled(),
        calibrator=calibrator or Split(),
        groups=groups,
        confidence=confidence,
        columns=columns,
        grid=grid,
        axes={name: axes for name, axes in (("x", places), ("y", measured)) if axes is not None},
        names=names,
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
    if is_module(model):
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
    few = copy_of(take(x, slice(2)) if is_frame(x) else x[:2])
    if not is_module(model):
        return isinstance(model(few), Prediction)
    with evaluating(model), sys.modules["torch"].no_grad(), suppress(Exception):
        return isinstance(model(few), Prediction)
    return False


def _refuse_randomness(predictor: Predictor, x: Any, prediction: Prediction) -> None:
    """A predictor that draws anew at every call is no fixed function: its scores are not its band's."""
    some = slice(min(TWICE, max(1, len(x) // 2)))
    few = take(x, some) if is_frame(x) else x[some]
    first, second = predict(predictor, few), predict(predictor, few)
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
                "draw once and keep the draws, as pinn.predictors.Dropout does."
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
    watched = validation_data_of(predictor)
    return used if watched is None else used | {VALIDATION: watched}


def _refuse_other_columns(
    used: Mapping[str, Observations], columns: Columns | None, measured: Axes | None
) -> None:
    """Rows that are compared or learned from have the columns of x_cal and y_cal in the same order."""
    for what, data in used.items():
        words = None if measured is None else measured.words
        if words and data.outputs and {*words} == {*data.outputs} and words != tuple(data.outputs):
            raise ValueError(
                f"The {what} rows have the outputs {', '.join(data.outputs)}, and `y_cal` has "
                f"{', '.join(map(str, words))}: give both in one order."
            )
        if columns is not None and data.names not in (None, columns.numeric):
            theirs, ours = (", ".join(map(str, names)) for names in (data.names or (), columns.numeric))
            raise ValueError(
                f"The {what} rows have the columns {theirs}, those of `x_cal` that hold numbers are {ours}: "
                "give both the same, in one order."
            )
