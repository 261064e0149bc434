"""Asking a predictor: what it answers, what it is called, and which readings it has seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from guardband.base.arrays import copy, namespace
from guardband.values import Observations, Prediction, Predictor
from guardband.values.frames import is_frame, only_numbers


def training_data_of(predictor: Predictor | None) -> Observations | None:
    """The rows that a predictor was trained on, where it knows them."""
    known = None if predictor is None else predictor.training_data
    if known is not None and not isinstance(known, Observations):
        raise TypeError(f"`training_data` should be gb.Observations(x, y), got {type(known).__name__}.")
    return known


WATCHED = "validation"
"""What readings are called that a training was watched by."""


def held_out_of(predictor: Predictor | None) -> Observations | None:
    """The readings that a training was watched by, where a predictor or what it holds knows them."""
    known = (
        []
        if predictor is None
        else [getattr(one, "held_out", None) for one in (predictor, *predictor.held())]
    )
    return next((data for data in known if isinstance(data, Observations)), None)


def ask(predictor: Predictor, x: Any) -> Prediction:
    """What a predictor answers at x, one row per row of x; it is given a copy, and may not write to it."""
    if is_frame(x) and not predictor.takes_frames:
        x = only_numbers(x, name_of(predictor))
    given = copy_of(x)
    prediction = predictor(given)
    if not same(given, x):
        raise ValueError(
            f"{name_of(predictor)} writes to the points that it is given, so its prediction is about other "
            "points. Let it work on a copy of x."
        )
    if not isinstance(prediction, Prediction):
        raise TypeError(
            f"A predictor should return a Prediction, {name_of(predictor)} returned "
            f"{type(prediction).__name__}."
        )
    if len(prediction.mean) != len(x):
        raise ValueError(
            f"A predictor should return one row per point, {name_of(predictor)} returned "
            f"{len(prediction)} rows for {len(x)} points."
        )
    return prediction


def copy_of(x: Any) -> Any:
    """A copy of points, or of a frame; frames of polars are never written to."""
    return x if is_frame(x) and not hasattr(x, "copy") else x.copy() if is_frame(x) else copy(x)


def same(given: Any, x: Any) -> bool:
    """Whether a copy still holds what it was made of, NaN equal to NaN."""
    if is_frame(x):
        return given is x or given.equals(x)
    if given.shape != x.shape:
        return False
    equal = (given == x).all() if namespace(x) is not np else np.array_equal(given, x)
    return bool(equal) or bool(((given == x) | ((given != given) & (x != x))).all())


def name_of(predictor: object) -> str:
    """A function by its name, anything else by its class's."""
    inner = getattr(predictor, "function", predictor)
    return getattr(inner, "__name__", type(inner).__name__)
