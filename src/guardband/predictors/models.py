"""Models as functions of arrays: a torch module or any function, called without leaving a trace."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from guardband.base.arrays import Array, copy, floats, like, namespace, rows, to_torch
from guardband.values.frames import aligned, all_numbers, is_frame, only_numbers, ordered

Model: TypeAlias = Any
"""A torch module, an object with `.predict`, or any function from x (n, d) to outputs (n, m)."""


def is_module(model: object) -> bool:
    """Whether a model is a torch module; torch is not imported, since nothing is one before it is."""
    return isinstance(model, getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", ()))


def call_model(model: Model, x: Array) -> Array:
    """model(x), as the kind of array x is.

    A torch module is called in eval mode, without gradients, on its own device and in its own
    dtype; the mode it was in is restored, and the answer comes back in the dtype and on the device
    of x. What has a `predict` is asked by it. Any other function is passed a copy of x, always (n, d), and
    may answer with any array. A module that differentiates inside its own `forward` needs
    gradients: wrap it in a function. Of a frame, a torch module gets the numbers, a function the frame, and
    a model with `predict` the frame if it was fitted on one or if some columns are no numbers.
    """
    if is_frame(x):
        return _call_on_frame(model, x)
    x = rows(x, "x")
    given = copy(x)  # a model that works in place must not change the caller's points
    if is_module(model):
        parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
        given = to_torch(given)
        with evaluating(model), namespace(given).no_grad():
            output = model(given if parameter is None else given.to(parameter))
    else:
        output = getattr(model, "predict", model)(given)
    return like(x, _array(output))


def _array(output: Any) -> Array:
    """What a model returned, if it is one array."""
    if isinstance(output, tuple | list):
        raise TypeError(
            f"A model should return one array, this one returned a {type(output).__name__}. Wrap it in a "
            "function: np.asarray of a list of numbers, or the part you want; a mean and a scale go to "
            "Given(mean, scale)."
        )
    if output is None or hasattr(output, "__next__") or hasattr(output, "__await__"):
        kind = "None: is a `return` missing?" if output is None else f"a {type(output).__name__}."
        raise TypeError(f"A model should return one array, this one returned {kind}")
    found = floats(output, "the model's output")
    if found.ndim == 0:
        raise TypeError(
            f"A model should return one row per point, this one returned the single number {found}. For the "
            "same answer everywhere: lambda x: np.full(len(x), number)."
        )
    return found


def _call_on_frame(model: Model, frame: Any) -> Array:
    fitted_on = columns_of(model)
    wants_numbers = is_module(model) or (
        hasattr(model, "predict") and fitted_on is None and all_numbers(frame)
    )
    if not wants_numbers:
        if fitted_on is not None:
            frame = ordered(frame, fitted_on)
        output = getattr(model, "predict", model)(frame.copy() if hasattr(frame, "copy") else frame)
        return _array(aligned(output, frame))
    return call_model(model, only_numbers(frame, "A torch module"))


def columns_of(model: Model) -> Any:
    """The columns a model was fitted on, in their order, if it knows them; each library has a word for it."""
    for name in ("feature_names_in_", "feature_name_", "feature_names_", "feature_name", "feature_names"):
        found = getattr(model, name, None)
        found = found() if callable(found) else found
        if found is not None:
            return found
    return None


_MODES: dict[Any, tuple[int, bool]] = {}
_MODES_LOCK = threading.Lock()


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Eval mode for the length of a block; afterwards every submodule is in the mode it was in.

    Blocks of several threads may overlap: the last one to leave restores the modes.
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
