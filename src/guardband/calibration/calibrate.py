"""Calibrate a trained model on held-out measurements."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeGuard

import numpy as np

from guardband.base.arrays import Array, ArrayLike, Model, copy, finite, kind_of, rows, to_numpy
from guardband.base.engine import On
from guardband.base.lazy import is_made_by
from guardband.conformal import Calibrator, Scaled, Score, ScoreCalibrated, Split
from guardband.conformal.base import FOR_ARRAYS, FOR_STORES, NO_SCORES, Groups, refuse_options
from guardband.conformal.noise import NoiseLaw
from guardband.conformal.predict import VALIDATION, copy_of, name_of, predict, validation_data_of
from guardband.conformal.rank import Level
from guardband.conformal.score_calibrated import calibrate_prediction
from guardband.conformal.scores import Side
from guardband.conformal.sides import sided
from guardband.conformal.truth import truth_calibration
from guardband.conformal.whole.simultaneous import Simultaneous
from guardband.leaks import refuse_leaks
from guardband.predictors import MeanOnly, Outputs, PredictionFunction
from guardband.predictors.models import evaluating, is_module
from guardband.values import Names, Observations, Prediction, Predictor
from guardband.values.frames import Columns, Frame, is_frame, on_axes, take
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

REPEATED = 8
"""The model is evaluated twice at this many points, to check that it is deterministic."""

ROUNDING = {True: 1e-6, False: 1e-3}
"""Tolerated difference of two evaluations, relative to the output's spread: float64, lower precision."""

BATCH_SPREAD, BATCH_VALUE = 1e-3, 1e-4
"""Tolerated difference between batches, relative to the spread of the output and to the value itself."""


def calibrate(
    model: Model,
    x_cal: ArrayLike | StoredFields,
    y_cal: ArrayLike | None = None,
    *,
    score: Score | None = None,
    side: Side | tuple[Side, ...] = "both",
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
    """Calibrate a model on held-out data.

    The result gives prediction bands with a finite-sample coverage guarantee, at any level:
    `calibrated(x, level=0.95)`. Calibration compares predictions with targets and never looks inside the
    model.

    Parameters
    ----------
    model
        The trained model: a predictor (anything that returns a `Prediction`), a torch module, an object with
        a method `predict`, such as a fitted scikit-learn regressor, or a function of x.
    x_cal
        Calibration points, shape (n, d), which must not be training points. The columns of a DataFrame are
        matched by name from then on, and a model that was fitted on a DataFrame receives one.
        `gb.StoredFields` replace `x_cal` and `y_cal`; see Notes.
    y_cal
        Targets measured at `x_cal`, shape (n, m). For whole fields, one row is one field: an array of shape
        (N, points, m), or a `gb.Fields` or xarray `DataArray`, whose axes have names.
    score
        How errors are measured. The default is `Scaled()`, or `CQR()` for a predictor of quantiles. With a
        score of whole fields, such as `Simultaneous()`, the guarantee applies to the whole field.
    side
        "upper" or "lower" for a one-sided bound, "both" for an interval, or one of these for each output;
        see `conformal.OneSided`.
    calibrator
        How the threshold is computed from the scores, by default `Split()`.
    groups
        One label per calibration point, for calibrators that use groups.
    confidence
        The probability, over calibration sets, that the coverage is at least `level`, for a level fixed
        beforehand. By default the coverage is guaranteed on average over calibration sets.
    outputs
        Names or indices of the outputs that `y_cal` contains, if not all outputs of the model were measured.
        The band then covers only these outputs.
    target
        "measurement" for a band that covers new measurements with their noise, or "truth" for a band that
        covers the noise-free truth. The truth requires `noise` and `confidence`.
    noise
        The distribution of the measurement noise, such as `gb.conformal.GaussianNoise(0.05)`, for
        `target="truth"`. `gb.conformal.Truth` states the assumptions.
    names
        Names for the columns of an array `x_cal`, shown in tables and reports.
        `pinn.problems.Names(axes, outputs)` also names the outputs.
    scores
        Path of the Zarr store to which the score of each stored field is written.
    chunk
        Number of stored fields held in memory at a time.
    batch
        Number of stored fields passed to the model at once. By default the fastest of several numbers is
        chosen. It is saved with the scores, so that a resumed run gives the same results.
    on
        Where stored fields are evaluated; see `FieldBand.to_zarr`.
    progress
        Whether to show a progress bar for stored fields.

    Returns
    -------
    ScoreCalibrated
        The calibrated model. `calibrated(x, level)` returns a `Band`.

    Notes
    -----
    The guarantee holds if the calibration points and the new points are exchangeable: sampled in the same
    way, in the same region and with the same noise. It is void if the model, the score or the level was
    chosen by looking at the calibration points.

    Some settings belong to other objects. The level (1 - alpha for a miss rate alpha) is an argument of the
    result. Training data belong to the predictor: `gb.predictors.MeanOnly(model, training_data=...)`.
    `joint` and `units` belong to the score: `gb.Scaled(joint=False)`, `gb.Absolute(units=...)`.

    With `gb.StoredFields` the result is the same as for fields in memory, with exact ranks at all levels, and
    the default score is `gb.Simultaneous()`. The result contains the scores but no field, so `gb.check`
    cannot compare locations. `scores` is required; an interrupted run resumes when called again with the same
    path. A store with scores of a different model is refused. Scores of different fields are detected by
    comparing sixteen of them, so use a new path if the data change. Only the first few fields are compared
    with the training fields of the predictor, so make sure that the others are not training fields.

    Examples
    --------
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
    if is_made_by(x_cal, "guardband.fields.stored", "StoredFields"):
        array_options = {"y_cal": y_cal, "calibrator": calibrator, "groups": groups, "outputs": outputs}
        array_options |= {"noise": noise, "names": names, "target": target if target == "truth" else None}
        refuse_options(array_options, FOR_STORES)
        if scores is None:
            raise TypeError(NO_SCORES)
        from guardband.calibration.stored import calibrate_fields

        in_memory = partial(calibrate, model, score=score or Simultaneous(), side=side, confidence=confidence)
        return calibrate_fields(in_memory, x_cal, scores, chunk=chunk, batch=batch, on=on, progress=progress)
    refuse_options({"scores": scores, "chunk": chunk, "batch": batch, "on": on}, FOR_ARRAYS)
    if y_cal is None:
        raise TypeError("`y_cal` is missing. Pass the targets that were measured at `x_cal`.")
    if target == "truth":
        if side != "both":
            raise ValueError("A one-sided bound is on a measurement: leave out `side`, or target='truth'.")
        score, calibrator = truth_calibration(noise, score, calibrator)
    elif noise is not None:
        raise ValueError(
            "`noise` requires a band for the truth, target='truth'. For a band for measurements whose scale "
            "describes only the model, use score=gb.conformal.Total(noise=...)."
        )
    refuse_unpaired(x_cal=x_cal, y_cal=y_cal, groups=groups)
    columns = Columns.of(x_cal) if is_frame(x_cal) else None
    x, places = (x_cal, None) if columns is not None else opened(x_cal, "x_cal")
    y_cal = like_inputs(y_cal, places)
    y, measured, grid = opened_targets(y_cal, "y_cal")
    # The calibration data are copied, since the caller may change the arrays later.
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
    calibrated = calibrate_prediction(
        predictor,
        prediction,
        y,
        score=sided(score or prediction.own_score or Scaled(), side),
        calibrator=calibrator or Split(),
        groups=groups,
        confidence=confidence,
        columns=columns,
        grid=grid,
        axes={name: axes for name, axes in (("x", places), ("y", measured)) if axes is not None},
        names=names,
    )
    caution = calibrated.score.caution(prediction, y)
    if caution is not None:
        warnings.warn(caution, stacklevel=2)
    return calibrated


def as_predictor(model: Model, x: Array | Frame) -> Predictor:
    """Wrap a model as a predictor, if it is not one already; x (n, d) is used to try functions."""
    if isinstance(model, Predictor):
        return model
    if isinstance(model, str | os.PathLike):
        raise TypeError(
            f"`model` should be a model, got the path {os.fspath(model)!r}. Load it first: "
            "gb.adapters.from_onnx(path), torch.load, joblib.load, ..."
        )
    if isinstance(model, type):
        raise TypeError(
            f"`model` should be a fitted {model.__name__}, got the class itself. Create and fit one first."
        )
    if getattr(model, "__name__", None) == "predict":  # a bound method of a model
        _refuse_labels(getattr(model, "__self__", None))
    if callable(model) and not hasattr(model, "predict"):
        return PredictionFunction(model) if _returns_prediction(model, x) else MeanOnly(model)
    if is_module(model):
        return MeanOnly(model)
    if not hasattr(model, "predict"):
        raise TypeError(
            "`model` should be a predictor, a torch module, an object with `predict` or a function of x, "
            f"got {type(model).__name__}."
        )
    _refuse_labels(model)
    return MeanOnly(model)


def _refuse_labels(model: Model) -> None:
    """Refuse classifiers and clusterers, whose labels are not numbers."""
    kind = getattr(model, "_estimator_type", None)
    if hasattr(model, "cluster_centers_") or hasattr(model, "labels_") or kind == "clusterer":
        raise TypeError(f"{type(model).__name__} predicts cluster labels, but a band requires numbers.")
    if hasattr(model, "classes_") or kind == "classifier":
        raise TypeError(
            f"{type(model).__name__} is a classifier, but a band requires numbers. Wrap the quantity of "
            "interest, such as a probability, in a function: lambda x: model.predict_proba(x)[:, 1]."
        )


def _returns_prediction(model: Model, x: Array | Frame) -> TypeGuard[Callable[[Array], Prediction]]:
    """Whether a function returns `Prediction` objects; a module that fails on numpy arrays does not."""
    few = copy_of(take(x, slice(2)) if is_frame(x) else x[:2])
    if not is_module(model):
        return isinstance(model(few), Prediction)
    with evaluating(model), sys.modules["torch"].no_grad(), suppress(Exception):
        return isinstance(model(few), Prediction)
    return False


def _refuse_randomness(predictor: Predictor, x: Array | Frame, prediction: Prediction) -> None:
    """Refuse a predictor that is random or depends on the batch; its band would not match its scores."""
    some = slice(min(REPEATED, max(1, len(x) // 2)))
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
                f"{abs(a - b).max():.3g}. A predictor should be a fixed function. Switch dropout off, or "
                "draw once and reuse the draws, as pinn.predictors.Dropout does."
            )
        in_batch = whole[some]
        if (abs(a - in_batch) > BATCH_SPREAD * spread + BATCH_VALUE * abs(in_batch)).any():
            raise ValueError(
                f"The prediction of {name_of(predictor)} at a point depends on the other points: its {name} "
                f"differs by up to {abs(a - in_batch).max():.3g} if fewer points are passed. A predictor "
                "should treat each row independently and keep the order, without batch statistics or sorting."
            )


def _refuse_missing_outputs(predictor: Predictor, prediction: Prediction, y: Array) -> None:
    """Refuse targets with fewer outputs than the model, unless `outputs` names them."""
    had, given = tuple(prediction.mean.shape), tuple(y.shape)
    if len(had) == len(given) == 2 and given[1] < had[1]:
        known = predictor.field_names
        some = tuple(range(given[1])) if known is None else known.outputs[: given[1]]
        raise ValueError(
            f"`y_cal` should have the shape of the predictions, got {given} and {had}. If only some "
            f"outputs were measured, name them: gb.calibrate(..., outputs={some!r})."
        )


def _used(predictor: Predictor, calibrator: Calibrator | None) -> Mapping[str, Observations]:
    """The observations from which the predictor and the calibrator learn, by their role."""
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
    """Refuse training observations whose columns differ in name or order from those of x_cal and y_cal."""
    for what, data in used.items():
        words = None if measured is None else measured.words
        if words and data.outputs and {*words} == {*data.outputs} and words != tuple(data.outputs):
            raise ValueError(
                f"The {what} rows have the outputs {', '.join(data.outputs)}, but `y_cal` has "
                f"{', '.join(map(str, words))}. Pass both in the same order."
            )
        if columns is not None and data.names not in (None, columns.numeric):
            theirs, ours = (", ".join(map(str, names)) for names in (data.names or (), columns.numeric))
            raise ValueError(
                f"The {what} rows have the columns {theirs}, but the numeric columns of `x_cal` are {ours}. "
                "Pass the same columns in the same order."
            )
