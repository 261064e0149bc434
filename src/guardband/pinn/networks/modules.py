"""Copies of networks with the same or new weights, and float64 on devices that support it."""

from __future__ import annotations

import copy
from types import MethodType

import torch
from torch import Tensor, nn


def own_modules(net: nn.Module) -> nn.Module:
    """A copy of a network with separate modules that share its weights.

    `torch.func.functional_call` replaces weights in the modules during a call, which other threads would see.
    Separate modules, constructed as in DataParallel, prevent that.
    """
    return _own(net, {})


def _own(module: nn.Module, made: dict[nn.Module, nn.Module]) -> nn.Module:
    if module in made or isinstance(module, torch.jit.ScriptModule):
        return made.get(module, module)
    copied = made[module] = module.__new__(type(module))
    parts = dict(vars(module))
    for name in ("_parameters", "_buffers"):
        parts[name] = dict(parts[name])
    parts["_modules"] = {name: part and _own(part, made) for name, part in parts["_modules"].items()}
    for name, part in parts.items():
        if isinstance(part, MethodType) and part.__self__ is module:
            parts[name] = MethodType(part.__func__, copied)
    vars(copied).update(parts)
    return copied


def has_float64(device: torch.device) -> bool:
    """Whether a device supports double precision; Apple's mps does not."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except TypeError:
        return False
    return True


def doubled(a: Tensor) -> Tensor:
    """A tensor in float64, on its device or, if that does not support float64, on the CPU."""
    return a.double() if has_float64(a.device) else a.cpu().double()


def restarted(net: nn.Module, seed: int) -> nn.Module:
    """A copy of a network with new random weights, scaled to the root mean square of the old weights."""
    made, before = copy.deepcopy(net), [weight.detach().clone() for weight in net.parameters()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        known = set[int]()
        for module in made.modules():
            generator, reset = (getattr(module, name, None) for name in ("generator", "reset_parameters"))
            if isinstance(generator, torch.Generator):
                generator.manual_seed(seed)
            if callable(reset):
                reset()
                known |= {id(weight) for weight in module.parameters(recurse=False)}
    if not {id(weight) for weight in made.parameters()} <= known:
        raise ValueError(
            f"Some weights of this {type(net).__name__} cannot be redrawn. Define the method "
            "`reset_parameters` in custom modules with weights, or call `fit` for each start."
        )
    with torch.no_grad():
        for weight, old in zip(made.parameters(), before, strict=True):
            size, was = (part.square().mean().sqrt() for part in (weight, old))
            weight.mul_(torch.where((size > 0) & (was > 0), was / size, 1.0))
    return made
