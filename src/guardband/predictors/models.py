"""Models: torch modules, estimators and functions, called in one way and left unchanged."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from guardband.base.arrays import Array, copy, floats, like, namespace, rows, to_torch
from guardband.values.frames import aligned, all_numbers, is_frame, only_numbers, ordered

Model: TypeAlias = Any
"""A torch module, an object with `.predict`, or any function from x (n, d) to outputs (n, m)."""

Frame: TypeAlias = Any
"""A DataFrame of pandas, polars or another library."""


def is_module(model: object) -> bool:
    """Whether a model is a torch module, decided without importing torch."""
    return isinstance(model, getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", ()))


def call_model(model: Model, x: Array) -> Array:
    """Evaluate a model at x and return an array of the kind of x.

    A torch module is called in eval mode, without gradients, on its own device and in its own dtype; its mode
    is restored afterward, and the output is converted to the dtype and device of x. A module that
    differentiates inside `forward` needs gradients, so it must be wrapped in a function. For an object with
    `predict` that method is called. Any other function receives a copy of x, always (n, d), and may return
    any array. If x is a frame, a torch module receives its numbers, a function the frame, and an object with
    `predict` the frame if it was fitted to one or if some columns are not numeric.
    """
    if is_frame(x):
        return _call_on_frame(model, x)
    x = rows(x, "x")
    points = copy(x)  # a model that works in place must not change the caller's points
    if is_module(model):
        parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
        points = to_torch(points)
        with evaluating(model), namespace(points).no_grad():
            output = model(points if parameter is None else points.to(parameter))
    else:
        output = predict_of(model)(points)
    return like(x, _array(output))


def predict_of(model: Model) -> Callable[[Array], object]:
    """The method `predict` of a model, or the model itself if it has none."""
    return getattr(model, "predict", model)


def _array(output: object) -> Array:
    """The output of a model as one array, or a `TypeError`."""
    if isinstance(output, tuple | list):
        raise TypeError(
            f"A model should return one array, but this model returned a {type(output).__name__}. Wrap it in "
            "a function that returns np.asarray(...) of a list, or the part that you need. For a mean and a "
            "scale, use Given(mean, scale)."
        )
    if output is None or hasattr(output, "__next__") or hasattr(output, "__await__"):
        kind = "None: is a `return` missing?" if output is None else f"a {type(output).__name__}."
        raise TypeError(f"A model should return one array, but this model returned {kind}")
    found = floats(output, "the model's output")
    if found.ndim == 0:
        raise TypeError(
            f"A model should return one row per point, but this model returned the number {found}. For "
            "a constant prediction, use lambda x: np.full(len(x), number)."
        )
    return found


def _call_on_frame(model: Model, frame: Frame) -> Array:
    fitted_on = columns_of(model)
    wants_numbers = is_module(model) or (
        hasattr(model, "predict") and fitted_on is None and all_numbers(frame)
    )
    if not wants_numbers:
        if fitted_on is not None:
            frame = ordered(frame, fitted_on)
        output = predict_of(model)(frame.copy() if hasattr(frame, "copy") else frame)
        return _array(aligned(output, frame))
    return call_model(model, only_numbers(frame, "A torch module"))


def columns_of(model: Model) -> Sequence[str | int] | None:
    """The columns that a model was fitted to, in order, from the attribute that its library uses."""
    for name in ("feature_names_in_", "feature_name_", "feature_names_", "feature_name", "feature_names"):
        found = getattr(model, name, None)
        found = found() if callable(found) else found
        if found is not None:
            return cast("Sequence[str | int]", found)
    return None


_MODES: dict[Model, tuple[int, bool]] = {}
_MODES_LOCK = threading.Lock()


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Set eval mode for the duration of a block, then restore the mode of every submodule.

    Blocks in several threads may overlap: the last one to end restores the modes.
    """
    with _MODES_LOCK:
        changed = [module for module in model.modules() if module.training or module in _MODES]
        for module in changed:
            users, before = _MODES.get(module, (0, module.training))
            _MODES[module] = users + 1, before
        if any(module.training for module in changed):
            model.eval()
    try:
        yield
    finally:
        with _MODES_LOCK:
            for module in changed:
                users, before = _MODES.pop(module)
                if users > 1:
                    _MODES[module] = users - 1, before
                else:
                    module.training = before
