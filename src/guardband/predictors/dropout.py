"""Dropout: the network with some of its neurons silenced, again and again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from guardband.pinn.networks import MLP, Constrained
from guardband.predictors.draws import Draws


class Dropout(Draws):
    """Monte Carlo dropout: `draws` random masks, drawn once from `seed` and kept.

    `model` was trained with dropout: the result of `fit` on `mlp(..., dropout=0.05)`, or a
    `torch.nn.Sequential` in which every `Dropout` stands before a `Linear`. Silencing a neuron is the same
    as setting its outgoing weights to zero, so a mask is a draw of weights. Every neuron is silent in the
    same number of draws: where dropout acts on the last hidden layer only, the mean is the whole network's.
    Cost: one training with dropout; per point `draws` evaluations, of the last layer only where dropout acts
    on the last hidden layer.

    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.predictors.Dropout(gb.mlp(1, [16, 16], dropout=0.1))(np.zeros((3, 1))).scale.shape
    (3, 1)
    """

    def __init__(self, model: Any, *, draws: int = 100, seed: int = 0) -> None:
        net = model if isinstance(model, nn.Module) else getattr(model, "net", None)
        if not isinstance(net, nn.Module):
            raise TypeError(
                f"`model` should be a network or the result of `fit`, got {type(model).__name__}."
            )
        if draws < 2:
            raise ValueError(f"`draws` should be at least 2, got {draws}.")
        generator = torch.Generator().manual_seed(seed)
        stacked = {}
        for name, (linear, p) in _silenced(net).items():
            weight = linear.weight.detach()
            stacked[name] = weight * _masks(p, draws, linear.in_features, generator).to(weight)[:, None]
        super().__init__(net, stacked, None if isinstance(model, nn.Module) else model.train)


def _masks(p: float, draws: int, width: int, generator: torch.Generator) -> Tensor:
    """Masks (draws, width) in which every neuron is silent equally often: on average nothing is dropped."""
    silent = min(max(1, round(p * draws)), draws - 1)
    order = torch.rand(draws, width, generator=generator).argsort(dim=0)
    return (order >= silent) / (1 - silent / draws)


def _silenced(net: nn.Module) -> dict[str, tuple[nn.Linear, float]]:
    """The linear layers whose inputs are dropped out, by the name of their weights, and how often."""
    if isinstance(net, Constrained):
        return {f"net.{name}": found for name, found in _silenced(net.net).items()}
    if isinstance(net, MLP) and net.dropout:
        layers = range(1, len(net.layers)) if net.where == "all" else [len(net.layers) - 1]
        return {f"layers.{i}.weight": (net.linears[i], net.dropout) for i in layers}
    if isinstance(net, nn.Sequential):
        found = {}
        for i, module in enumerate(net):
            if isinstance(module, nn.Dropout) and module.p > 0:
                after = net[i + 1] if i + 1 < len(net) else None
                if not isinstance(after, nn.Linear):
                    before = "nothing" if after is None else type(after).__name__
                    raise ValueError(
                        f"Dropout in layer {i} should stand directly before a Linear, it stands before "
                        f"{before}. Move it behind the activation."
                    )
                found[f"{i + 1}.weight"] = (after, module.p)
        if found:
            return found
    raise ValueError(
        f"This {type(net).__name__} has no dropout that is known here. Train one with "
        "`gb.mlp(..., dropout=0.05)`, or a torch.nn.Sequential with Dropout before its Linear layers."
    )
