"""Forward and reverse passes without side effects, which `torch.compile` fuses best."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from guardband.pinn.networks.jets.bends import bends, bends_back
from guardband.pinn.networks.jets.channels import Channels
from guardband.pinn.networks.jets.layers import Layers

Saved: TypeAlias = list[tuple[list[Tensor], Tensor, Tensor]]
"""For each hidden layer: the jet before the activation, the value after it, and the whole jet as rows."""


def fused_forward(x: Tensor, layers: Layers, channels: Channels) -> tuple[list[Tensor], Saved]:
    """`forward_pass` without side effects, which returns a list of channels."""
    axes, sums, thirds, fourths = channels
    weight, bias = layers.weights[0], layers.biases[0]
    if x.ndim == 3:
        z = _linear(x.flatten(0, 1), weight, bias, len(x))
    else:
        z = [torch.addmm(bias, x, weight.T)]
        z += [(weight[:, axis] / layers.reach[axis]).expand_as(z[0]) for axis in axes]
        z += [torch.zeros_like(z[0]) for _ in (*sums, *thirds, *fourths)]
    saved = []
    for depth, (activation, mask) in enumerate(zip(layers.activations, layers.masks, strict=True)):
        value, first, second = activation.fused(z[0])
        jet = [value, *(part * first for part in z[1:])]
        for s, pairs in enumerate(sums):
            i, j = pairs[0]
            square = sum((z[1 + i] * z[1 + j] for i, j in pairs[1:]), z[1 + i] * z[1 + j])
            jet[1 + len(axes) + s] = jet[1 + len(axes) + s] + second * square
        if thirds:
            for channel, bend in bends(z, activation, (value, first, second), channels):
                jet[channel] = jet[channel] + bend
        if mask is not None:
            jet = [part * mask for part in jet]
        rows = torch.cat(jet)
        saved.append((z, value, rows))
        z = _linear(rows, layers.weights[depth + 1], layers.biases[depth + 1], len(channels))
    return z, saved


def _linear(rows: Tensor, weight: Tensor, bias: Tensor, channels: int) -> list[Tensor]:
    """The jet after a linear layer as a list of channels, from rows with concatenated channels."""
    value, *rest = (rows @ weight.T).chunk(channels)
    return [value + bias, *rest]


def fused_reverse(
    grad: list[Tensor], x: Tensor, layers: Layers, channels: Channels, saved: Saved
) -> list[Tensor]:
    """`reverse_pass` without side effects."""
    axes, sums, thirds, _ = channels
    weight_grads, bias_grads = [], []
    for depth in reversed(range(len(saved))):
        z, value, rows = saved[depth]
        outer_rows = torch.cat(grad)
        weight_grads.append(outer_rows.T @ rows)
        bias_grads.append(grad[0].sum(0))
        back = (outer_rows @ layers.weights[depth + 1]).chunk(len(channels))
        mask = layers.masks[depth]
        if mask is not None:
            back = [part * mask for part in back]
        activation = layers.activations[depth]
        _, first, second = activation.fused(z[0], value)
        grad = [part * first for part in back]
        for i in range(1, len(channels)):
            grad[0] = grad[0] + second * back[i] * z[i]
        for s, pairs in enumerate(sums):
            outer = back[1 + len(axes) + s]
            third = activation.third(z[0], value, first, second)
            for i, j in pairs:
                grad[0] = grad[0] + outer * third * z[1 + i] * z[1 + j]
                grad[1 + i] = grad[1 + i] + outer * second * z[1 + j]
                grad[1 + j] = grad[1 + j] + outer * second * z[1 + i]
        if thirds:
            for channel, turn in bends_back(back, z, activation, (value, first, second), channels):
                grad[channel] = grad[channel] + turn
    if x.ndim == 3:
        first_weight = torch.cat(grad).T @ x.flatten(0, 1)
    else:
        slopes = {axis: grad[1 + i].sum(0) / layers.reach[axis] for i, axis in enumerate(axes)}
        zero = torch.zeros_like(grad[0][0])
        along = torch.stack([slopes.get(j, zero) for j in range(x.shape[1])], dim=1)
        first_weight = grad[0].T @ x + along
    return [first_weight, *weight_grads[::-1], grad[0].sum(0), *bias_grads[::-1]]


class Passes(NamedTuple):
    """A forward pass and its reverse, both without side effects."""

    forward: Callable[..., tuple[list[Tensor], Saved]]
    reverse: Callable[..., list[Tensor]]


FUSED = Passes(fused_forward, fused_reverse)
"""The uncompiled passes, for compilation as part of a larger graph."""


@cache
def compiled_passes() -> Passes:
    """Each pass compiled separately. The first call for a new shape takes seconds."""
    return Passes(torch.compile(fused_forward, dynamic=False), torch.compile(fused_reverse, dynamic=False))
