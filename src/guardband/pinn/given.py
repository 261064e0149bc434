"""Given: what `fit` was given, looked at before it begins."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from guardband.arrays import Array, to_torch
from guardband.leaks import find_copies
from guardband.models import evaluating
from guardband.pinn.derivatives import needs_of
from guardband.pinn.networks import MLP, Constrained
from guardband.pinn.recipe import Recipe
from guardband.problems import AutogradField, Problem
from guardband.problems.base import as_problem
from guardband.problems.unknown import check_coefficients
from guardband.values import Observations, output_names


def tensors_of(problem: Problem, training_data: Observations | None, net: nn.Module) -> tuple[Tensor, Tensor]:
    """The observations as tensors like the network's weights; none are two empty ones."""
    like = next(net.parameters())
    d, outputs = problem.domain.d, problem.names.outputs
    if training_data is None:
        return like.new_zeros(0, d), like.new_zeros(0, len(outputs))
    x, y = (to_torch(part).to(like) for part in training_data)
    if x.shape[1] != d or y.shape[1] != len(outputs):
        raise ValueError(
            f"Observations of this problem have {d} coordinates and {len(outputs)} outputs "
            f"({', '.join(outputs)}), got x {tuple(x.shape)} and y {tuple(y.shape)}. Where only some outputs "
            f"were measured, say which: gb.Observations(x, y, outputs={outputs[:1]!r})."
        )
    return x, y


TRAINING_DATA = "`training_data` should be gb.Observations(x, y), several of them in a list, or None"


def _said(given: object) -> str:
    """What was given, in a word or two."""
    shape = getattr(given, "shape", None)
    return f"{given!r:.80}" if shape is None else f"{type(given).__name__} of shape {tuple(shape)}"


def measured(problem: Problem, given: Observations | Sequence[Observations] | None) -> Observations | None:
    """All that was measured as one table of all outputs, NaN where one was not."""
    if given is None:
        return None
    sets = [given] if isinstance(given, Observations) else given
    if not isinstance(sets, Sequence) or not sets:
        raise TypeError(f"{TRAINING_DATA}, got {_said(given)}.")
    if len(sets) == 2 and not any(isinstance(part, Observations) for part in sets):
        sets = [Observations(sets[0], sets[1])]
    for part in sets:
        if not isinstance(part, Observations):
            raise TypeError(f"{TRAINING_DATA}, got {_said(part)} among them.")
    sets = [part.on_axes(problem.names.axes) for part in sets]
    whole = len(sets) == 1 and sets[0].outputs is None
    found = sets[0] if whole else Observations.together(sets, problem.names.outputs)
    warn_outside(problem, found.x, "measurements", stacklevel=4)
    return found


def warn_outside(problem: Problem, x: Array, what: str, stacklevel: int) -> None:
    """Columns in another order and other units put points where the equation does not hold."""
    x = to_torch(x).detach().double().cpu()
    if x.shape[1] != problem.domain.d:
        return  # which is refused where they are made tensors
    outside = problem.domain.clearly_outside(x)
    if outside.any():
        first = ", ".join(f"{value:.4g}" for value in x[outside][0].tolist())
        warnings.warn(
            f"{int(outside.sum())} of {len(x)} {what} lie outside of the domain, the first at "
            f"({first}). Look at their units, and at the order of the columns: "
            f"{', '.join(problem.names.axes)}.",
            stacklevel=stacklevel + 1,
        )


def refuse_copies(training_data: Observations | None, held_out: Observations | None) -> None:
    """Readings that were trained on are met too well to be held out."""
    if training_data is None or held_out is None:
        return
    found = find_copies(training_data.x, training_data.y, held_out.x, held_out.y, points="held-out")
    if found.verdict == "refuse":
        raise ValueError(found.text)
    if found.verdict == "warn":
        warnings.warn(found.text, stacklevel=4)


def inner_of(net: nn.Module) -> nn.Module:
    """The network inside a hard constraint, or the network itself."""
    return net.net if isinstance(net, Constrained) else net


Setting = TypeVar("Setting")


def setting(given: object, kind: type[Setting], name: str, example: str) -> Setting:
    """A setting as it is, or its default."""
    if given is not None and not isinstance(given, kind):
        raise TypeError(f"`{name}` should be {example}, got {given!r:.80}.")
    return kind() if given is None else given


def floats_of(dtype: object) -> torch.dtype | None:
    """The dtype of a network, by torch's name or numpy's.

    >>> floats_of("float64"), floats_of(torch.float32)
    (torch.float64, torch.float32)
    """
    found = dtype
    if dtype is not None and not isinstance(dtype, torch.dtype):
        with suppress(TypeError):
            found = getattr(torch, np.dtype(dtype).name, dtype)  # type: ignore[arg-type]
    if found is not None and not (isinstance(found, torch.dtype) and found.is_floating_point):
        raise TypeError(f"`dtype` should be torch.float32 or torch.float64, got {dtype!r:.80}.")
    return found


def check_pair(problem: Problem, net: nn.Module) -> None:
    """Refuse what is no network, and one by `mlp` with other coordinates or outputs than the problem's."""
    if isinstance(problem, nn.Module) and isinstance(net, Problem):
        raise TypeError("The problem comes first, then the network: gb.fit(problem, net, ...).")
    problem = as_problem(problem)
    check_coefficients(problem)
    if not isinstance(net, nn.Module):
        raise TypeError(f"`net` should be a torch module, such as gb.mlp(problem), got {net!r:.80}.")
    inner, names = inner_of(net), problem.names
    d, m = len(names.axes), len(names.outputs)
    if isinstance(inner, MLP) and (inner.sizes[0], inner.sizes[-1]) != (d, m):
        raise ValueError(
            f"{type(problem).__name__} has {d} coordinates ({', '.join(names.axes)}) and {m} outputs "
            f"({', '.join(names.outputs)}), the network {inner.sizes[0]} and {inner.sizes[-1]}. "
            f"gb.mlp(problem) fits it; other outputs are said in the problem: outputs = "
            f"{output_names(inner.sizes[-1])!r}."
        )


def check_newton(recipe: Recipe, net: nn.Module) -> None:
    """Refuse Gauss-Newton steps of a network with dropout, which is another one at every look."""
    inner = inner_of(net)
    if recipe.newton and isinstance(inner, MLP) and inner.dropout:
        raise ValueError(
            "Gauss-Newton steps need a network that stays the same, and dropout changes it at every look. "
            "Train it by Adam and L-BFGS: recipe=gb.Recipe()."
        )


def check_equation(problem: Problem, net: nn.Module, x: Tensor) -> None:
    """Refuse a residual that no weight changes, and a network without the derivatives that it asks for."""
    x, names, name = x[:16], problem.names, type(problem).__name__
    needs = needs_of(problem.misses, net, x, names)
    with evaluating(net):
        if not problem.misses(x, AutogradField(net, x, names)).requires_grad:
            raise ValueError(
                f"{name}.residual should depend on the field that it is given, and no weight of the network "
                "changes it. Look for .detach(), torch.no_grad() or numpy in it."
            )
        second = [along for along in needs.derivatives if len(along) > 1]
        second += [(axis, axis) for over in needs.laplacians for axis in over]
        field = AutogradField(inner_of(net), x)
        sloped = any(bool(field.partial((axis,)).any()) for axis in range(x.shape[1]))
        if second and sloped and not any(bool(field.partial(along).any()) for along in second):
            raise ValueError(
                f"{name}.residual asks for second derivatives, and those of this network are 0 everywhere, "
                "as with ReLU. Take a smooth activation: gb.mlp(problem) has tanh."
            )
