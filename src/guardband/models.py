"""Models as functions of arrays: a torch module or any function, called without leaving a trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from guardband.arrays import Array, copy, floats, like, rows, to_torch
from guardband.frames import all_numbers, is_frame, only_numbers, ordered

Model: TypeAlias = Any
"""A torch module, an object with `.predict`, or any function from x (n, d) to outputs (n, m)."""


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
    if isinstance(model, torch.nn.Module):
        parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
        given = to_torch(given)
        with evaluating(model), torch.no_grad():
            output = model(given if parameter is None else given.to(parameter))
    else:
        output = getattr(model, "predict", model)(given)
    if isinstance(output, tuple | list):
        raise TypeError(
            f"A model should return one array, this one returned a {type(output).__name__}. Wrap it in a "
            "function that picks the part you want; a mean and a scale go to Given(mean, scale)."
        )
    return like(x, floats(output, "the model's output"))


def _call_on_frame(model: Model, frame: Any) -> Array:
    fitted_on: Any = getattr(model, "feature_names_in_", None)
    wants_numbers = isinstance(model, torch.nn.Module) or (
        hasattr(model, "predict") and fitted_on is None and all_numbers(frame)
    )
    if not wants_numbers:
        if fitted_on is not None:
            frame = ordered(frame, fitted_on)
        return floats(
            getattr(model, "predict", model)(frame.copy() if hasattr(frame, "copy") else frame),
            "the model's output",
        )
    return call_model(model, only_numbers(frame, "A torch module"))


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode for the length of a block; afterwards every submodule is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    busy = any(training for _, training in modes)
    if busy:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes if busy else ():
            module.training = training
