"""Given: what `fit` was given, looked at before it begins."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from guardband.leaks import find_copies
from guardband.pinn.networks.derivatives import needs_of
from guardband.pinn.networks.modules import has_float64
from guardband.pinn.networks.networks import MLP, inner_of
from guardband.pinn.problems import AutogradField, Problem
from guardband.pinn.problems.base import as_problem
from guardband.pinn.problems.unknown import check_coefficients
from guardband.pinn.training.recipe import Recipe
from guardband.predictors.models import evaluating
from guardband.values import Observations, output_names


def refuse_copies(training_data: Observations | None, held_out: Observations | None) -> None:
    """Readings that were trained on are met too well to be held out."""
    if training_data is None or held_out is None:
        return
    found = find_copies(training_data.x, training_data.y, held_out.x, held_out.y, points="held-out")
    if found.verdict == "refuse":
        raise ValueError(found.text)
    if found.verdict == "warn":
        warnings.warn(found.text, stacklevel=4)


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
        raise TypeError("The problem comes first, then the network: pinn.fit(problem, net, ...).")
    problem = as_problem(problem)
    check_coefficients(problem)
    if not isinstance(net, nn.Module):
        raise TypeError(f"`net` should be a torch module, such as pinn.mlp(problem), got {net!r:.80}.")
    inner, names = inner_of(net), problem.names
    d, m = len(names.axes), len(names.outputs)
    if isinstance(inner, MLP) and (inner.sizes[0], inner.sizes[-1]) != (d, m):
        raise ValueError(
            f"{type(problem).__name__} has {d} coordinates ({', '.join(names.axes)}) and {m} outputs "
            f"({', '.join(names.outputs)}), the network {inner.sizes[0]} and {inner.sizes[-1]}. "
            f"pinn.mlp(problem) fits it; other outputs are said in the problem: outputs = "
            f"{output_names(inner.sizes[-1])!r}."
        )


def check_newton(recipe: Recipe, net: nn.Module, device: torch.device | str | None = None) -> None:
    """Refuse Gauss-Newton steps with dropout, which changes the network, and on devices without float64."""
    inner, place = inner_of(net), next(net.parameters()).device if device is None else torch.device(device)
    if recipe.newton and not has_float64(place):
        raise ValueError(
            f"Gauss-Newton steps need float64, which the device {place} does not have. Train on the CPU, "
            'device="cpu", or by Adam and L-BFGS: recipe=pinn.Recipe().'
        )
    if recipe.newton and isinstance(inner, MLP) and inner.dropout:
        raise ValueError(
            "Gauss-Newton steps need a network that stays the same, and dropout changes it at every look. "
            "Train it by Adam and L-BFGS: recipe=pinn.Recipe()."
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
                "as with ReLU. Take a smooth activation: pinn.mlp(problem) has tanh."
            )
