"""Restarts: the same training from other starts, the best of them, and how far they differ."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral

import torch
from torch import Tensor, nn

from guardband.pinn.networks.networks import MLP
from guardband.pinn.training.fitted import Fitted


def best_of(restarts: int, seed: int, net: nn.Module, train: Callable[[nn.Module, int], Fitted]) -> Fitted:
    """The best of some trainings from other starts.

    The best is the one that meets held-out readings best, or without any the one whose error is estimated to
    be smallest. Those that have not converged say nothing on how far solutions differ.
    """
    if not isinstance(restarts, Integral) or restarts < 1:
        raise ValueError(f"`restarts` should be a number of trainings, got {restarts!r:.80}.")
    starts = [net, *(restarted(net, seed + k) for k in range(1, int(restarts)))]
    runs = [train(start, seed + k) for k, start in enumerate(starts)]
    best = min(runs, key=_off)
    sound = [run for run in runs if run is best or run.verdict.word != "not converged"]
    return replace(best, spread=_spread(best, sound))


def restarted(net: nn.Module, seed: int) -> nn.Module:
    """A copy of a network with other random weights, each layer as large as it was."""
    made, before = copy.deepcopy(net), [weight.detach().clone() for weight in net.parameters()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        known = set[int]()
        for module in made.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
                known |= {id(weight) for weight in module.parameters(recurse=False)}
            if isinstance(module, MLP):
                module.generator.manual_seed(seed)
                module.initialize()
    if not {id(weight) for weight in made.parameters()} <= known:
        raise ValueError(
            f"Some weights of this {type(net).__name__} cannot be drawn anew: a module of yours that has "
            "weights needs a method `reset_parameters`. Or train each start by its own `fit`."
        )
    with torch.no_grad():
        for weight, old in zip(made.parameters(), before, strict=True):
            size, was = (part.square().mean().sqrt() for part in (weight, old))
            weight.mul_(torch.where((size > 0) & (was > 0), was / size, 1.0))
    return made


def _off(run: Fitted) -> tuple[float, float]:
    """How far a run is off: on held-out readings, or as it is estimated; then what it misses.

    A run whose error could not be estimated comes after those with an estimate.
    """
    found = run.verdict
    missed = _known(math.hypot(*found.equations.values(), *found.conditions.values()))
    if found.held_out:
        parts = found.held_out.values()
        return max(part.miss / part.size if part.size else part.miss for part in parts), missed
    return max(_known(error) for error in found.error.values()), missed


def _known(number: float) -> float:
    """The number, infinite for NaN."""
    return math.inf if math.isnan(number) else number


def _spread(best: Fitted, runs: Sequence[Fitted]) -> dict[str, float]:
    """How far the others are from the best, relatively, in each output."""
    x = best.problem.domain.uniform(1000, seed=0, dtype=torch.float64)
    values = [torch.as_tensor(run(x)).double() for run in runs]
    mine = torch.as_tensor(best(x)).double()
    apart = torch.stack([_rms(mine - other) for other in values]).amax(dim=0).tolist()
    sizes = best.verdict.size
    return {
        name: off / sizes.get(name, math.nan)
        for name, off in zip(best.problem.names.outputs, apart, strict=True)
    }


def _rms(part: Tensor) -> Tensor:
    return part.square().mean(dim=0).sqrt()
