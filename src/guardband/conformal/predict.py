"""Evaluate a predictor safely, and find its name and training data."""

from __future__ import annotations

import numpy as np

from guardband.base.arrays import Array, ArrayLike, copy, namespace
from guardband.values import Observations, Prediction, Predictor
from guardband.values.frames import is_frame, only_numbers


def training_data_of(predictor: Predictor | None) -> Observations | None:
    """The training data that a predictor declares, or None."""
    data = None if predictor is None else predictor.training_data
    if data is not None and not isinstance(data, Observations):
        raise TypeError(f"`training_data` should be gb.Observations(x, y), got {type(data).__name__}.")
    return data


VALIDATION = "validation"
"""The role of data that monitored a training run."""


def validation_data_of(predictor: Predictor | None) -> Observations | None:
    """The validation data declared by a predictor or by a model that it wraps, or None."""
    holders = () if predictor is None else (predictor, *predictor.held())
    candidates = (getattr(holder, "held_out", None) for holder in holders)
    return next((data for data in candidates if isinstance(data, Observations)), None)


def predict(predictor: Predictor, x: ArrayLike) -> Prediction:
    """Evaluate a predictor on a copy of x; it must return one row per point and not modify its input."""
    if is_frame(x) and not predictor.takes_frames:
        x = only_numbers(x, name_of(predictor))
    copied = copy_of(x)
    prediction = predictor(copied)
    if not _equal(copied, x):
        raise ValueError(
            f"{name_of(predictor)} modifies its input in place, so its prediction is not for the points of "
            "the input. Copy x in the predictor first."
        )
    if not isinstance(prediction, Prediction):
        raise TypeError(
            f"A predictor should return a Prediction, but {name_of(predictor)} returned "
            f"{type(prediction).__name__}."
        )
    if len(prediction.mean) != len(x):
        raise ValueError(
            f"A predictor should return one row per point, but {name_of(predictor)} returned "
            f"{len(prediction)} rows for {len(x)} points."
        )
    return prediction


def copy_of(x: ArrayLike) -> ArrayLike:
    """A copy of points or of a frame; polars frames are immutable and returned unchanged."""
    return x if is_frame(x) and not hasattr(x, "copy") else x.copy() if is_frame(x) else copy(x)


def _equal(a: Array, b: Array) -> bool:
    """Whether two inputs hold the same values; NaN counts as equal to NaN."""
    if is_frame(b):
        return a is b or a.equals(b)
    if a.shape != b.shape:
        return False
    equal = (a == b).all() if namespace(b) is not np else np.array_equal(a, b)
    return bool(equal) or bool(((a == b) | ((a != a) & (b != b))).all())


def name_of(predictor: object) -> str:
    """The name of a function, or of the class of any other object."""
    inner = getattr(predictor, "function", predictor)
    return getattr(inner, "__name__", type(inner).__name__)
