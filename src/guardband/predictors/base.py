"""Models as functions of arrays: a torch module or any function, called without leaving a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch

from guardband.arrays import Array, kind_of, like, to_torch

Model: TypeAlias = torch.nn.Module | Callable[[Array], Array]
"""A torch module, or any function from x (n, d) to outputs (n, m)."""


def evaluate(model: Model, x: Array) -> Array:
    """model(x), as the kind of array x is.

    A torch module is called in eval mode, without gradients, on its own device and in its own
    dtype; the mode it was in is restored, and the answer comes back in the dtype and on the device
    of x. Any other function is handed x as it is, and may answer with whatever array it likes.
    """
    if not isinstance(model, torch.nn.Module):
        return kind_of(x, model(x))
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    given = to_torch(x)
    with evaluating(model), torch.no_grad():
        output = model(given if parameter is None else given.to(parameter))
    return like(x, output)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode for the length of a block; afterwards every submodule is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
