"""Models as functions of arrays: a torch module or any function, called without leaving a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch

from guardband.arrays import Array, copy, floats, like, rows, to_torch

Model: TypeAlias = torch.nn.Module | Callable[[Array], Array]
"""A torch module, or any function from x (n, d) to outputs (n, m)."""


def evaluate(model: Model, x: Array) -> Array:
    """model(x), as the kind of array x is.

    A torch module is called in eval mode, without gradients, on its own device and in its own
    dtype; the mode it was in is restored, and the answer comes back in the dtype and on the device
    of x. Any other function is handed a copy of x, always (n, d), and may answer with any array. A
    module that differentiates inside its own `forward` needs gradients: wrap it in a function.
    """
    x = rows(x, "x")
    given = copy(x)  # a model that works in place must not change the caller's points
    if isinstance(model, torch.nn.Module):
        parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
        given = to_torch(given)
        with evaluating(model), torch.no_grad():
            output = model(given if parameter is None else given.to(parameter))
    else:
        output = model(given)
    if isinstance(output, tuple | list):
        raise TypeError(
            f"A model should return one array, this one returned a {type(output).__name__}. Wrap it in a "
            "function that picks the part you want; a mean and a scale go to Given(mean, scale)."
        )
    return like(x, floats(output, "the model's output"))


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
