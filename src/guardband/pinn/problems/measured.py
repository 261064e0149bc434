"""Measurements of a solution: joined in one table, converted to tensors, and checked against the domain."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import Tensor, nn

from guardband.base.arrays import Array, to_torch
from guardband.pinn.problems.base import Problem
from guardband.values import Observations

TRAINING_DATA = "`training_data` should be gb.Observations(x, y), several of them in a list, or None"


def _described(given: object) -> str:
    """A short description of an argument."""
    shape = getattr(given, "shape", None)
    return f"{given!r:.80}" if shape is None else f"{type(given).__name__} of shape {tuple(shape)}"


def measured(problem: Problem, given: Observations | Sequence[Observations] | None) -> Observations | None:
    """All measurements as one table of all outputs, with NaN for outputs that were not measured."""
    if given is None:
        return None
    sets = [given] if isinstance(given, Observations) else given
    if not isinstance(sets, Sequence) or not sets:
        raise TypeError(f"{TRAINING_DATA}, got {_described(given)}.")
    if len(sets) == 2 and not any(isinstance(part, Observations) for part in sets):
        sets = [Observations(sets[0], sets[1])]
    for part in sets:
        if not isinstance(part, Observations):
            raise TypeError(f"{TRAINING_DATA}, got {_described(part)} among them.")
    sets = [part.on_axes(problem.names.axes) for part in sets]
    whole = len(sets) == 1 and sets[0].outputs is None
    found = sets[0] if whole else Observations.together(sets, problem.names.outputs)
    if (words := outside_of(problem, found.x, "measurements")) is not None:
        warnings.warn(words, stacklevel=4)
    return found


def outside_of(problem: Problem, x: Array, what: str) -> str | None:
    """A warning if points lie outside the domain, for example because of wrong units or swapped columns."""
    x = to_torch(x).detach().cpu().double()
    if x.ndim != 2 or x.shape[1] != problem.domain.d:
        return None  # such points are refused when they are converted to tensors
    outside = problem.domain.clearly_outside(x)
    if not outside.any():
        return None
    first = ", ".join(f"{value:.4g}" for value in x[outside][0].tolist())
    return (
        f"{int(outside.sum())} of {len(x)} {what} lie outside the domain, the first at ({first}). Check "
        f"their units and the order of the columns: {', '.join(problem.names.axes)}."
    )


def tensors_of(problem: Problem, training_data: Observations | None, net: nn.Module) -> tuple[Tensor, Tensor]:
    """Observations as tensors in the dtype of the network; two empty tensors for None."""
    like = next(net.parameters())
    d, outputs = problem.domain.d, problem.names.outputs
    if training_data is None:
        return like.new_zeros(0, d), like.new_zeros(0, len(outputs))
    x, y = (to_torch(part).to(like) for part in training_data)
    if x.shape[1] != d or y.shape[1] != len(outputs):
        raise ValueError(
            f"Observations of this problem should have {d} coordinates and {len(outputs)} outputs "
            f"({', '.join(outputs)}), got x {tuple(x.shape)} and y {tuple(y.shape)}. If only some outputs "
            f"were measured, name them, gb.Observations(x, y, outputs={outputs[:1]!r})."
        )
    return x, y
