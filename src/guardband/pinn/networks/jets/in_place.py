"""Forward and reverse passes in reused memory, which is fastest in eager torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.networks.jets.bends import bends, bends_back
from guardband.pinn.networks.jets.channels import Channels, Pairs
from guardband.pinn.networks.jets.layers import Layers


class Block:
    """A jet in contiguous memory, with views of its parts."""

    whole: Tensor
    flat: Tensor
    channels: tuple[Tensor, ...]
    value: Tensor
    rest: Tensor

    def __init__(self, whole: Tensor) -> None:
        self.whole, self.flat, self.channels = whole, whole.flatten(0, 1), whole.unbind()
        self.value, self.rest = whole[0], whole[1:]


class Memory:
    """Memory that is allocated once and reused at every step, which is cheaper than a new allocation."""

    def __init__(self) -> None:
        self._free: dict[tuple[object, ...], list[list[Block]]] = {}

    def take(self, like: Tensor, channels: int, n: int, widths: Sequence[int]) -> Blocks:
        """Uninitialized jets, one for each hidden layer, whose memory is reused after garbage collection."""
        key = channels, n, tuple(widths), like.dtype, like.device
        if (
            key not in self._free and len(self._free) == 8
        ):  # if the sizes keep changing, it is not worth keeping them
            self._free = {}
        free = self._free.setdefault(key, [])
        try:
            blocks = free.pop()
        except IndexError:
            blocks = [Block(like.new_empty(channels, n, width)) for width in widths]
        return Blocks(blocks, free)


class Blocks:
    """Borrowed jets, one for each hidden layer."""

    def __init__(self, blocks: list[Block], free: list[list[Block]]) -> None:
        self._blocks, self._free = blocks, free

    def __getitem__(self, depth: int) -> Block:
        return self._blocks[depth]

    def __del__(self) -> None:
        self._free.append(self._blocks)


class Tape(NamedTuple):
    """The intermediate values of a forward pass, for the reverse pass.

    `before` and `after` are the jets before and after each activation. `saved` holds the activation with its
    first two derivatives, and the sums of products of first derivatives.
    """

    before: Blocks
    after: Blocks
    saved: list[tuple[Tensor, Tensor, Tensor, list[Tensor]]]


def forward_pass(x: Tensor, layers: Layers, channels: Channels, tape: Tape) -> Tensor:
    """The jet of the outputs (channels, n, m), for points x (n, d) or the jet of their features."""
    axes, sums, thirds, _ = channels
    z, weight = tape.before[0], layers.weights[0]
    if x.ndim == 3:
        torch.mm(x.flatten(0, 1), weight.T, out=z.flat)
        z.value.add_(layers.biases[0])
    else:
        torch.addmm(layers.biases[0], x, weight.T, out=z.value)
        for i, axis in enumerate(axes):
            z.channels[1 + i].copy_(weight[:, axis] / layers.reach[axis])
        z.whole[1 + len(axes) :].zero_()
    for depth, (activation, mask) in enumerate(zip(layers.activations, layers.masks, strict=True)):
        part, jet = z.channels, tape.after[depth]
        value, first, second = activation.upto_second(z.value)
        jet.value.copy_(value)
        torch.mul(z.rest, first, out=jet.rest)
        squares = [_sum_of_products(part, pairs) for pairs in sums]
        for channel, square in enumerate(squares, 1 + len(axes)):
            jet.channels[channel].addcmul_(second, square)
        if thirds:
            for channel, bend in bends(part, activation, (value, first, second), channels):
                jet.channels[channel].add_(bend)
        if mask is not None:
            jet.whole.mul_(mask)
        tape.saved.append((value, first, second, squares))
        weight, bias = layers.weights[depth + 1], layers.biases[depth + 1]
        last = depth + 1 == len(layers.masks)
        z = Block(x.new_empty(*z.whole.shape[:2], len(weight))) if last else tape.before[depth + 1]
        torch.mm(jet.flat, weight.T, out=z.flat)
        z.value.add_(bias)
    return z.whole


def _sum_of_products(z: Sequence[Tensor], pairs: Pairs) -> Tensor:
    i, j = pairs[0]
    total = z[1 + i] * z[1 + j]
    for i, j in pairs[1:]:
        total.addcmul_(z[1 + i], z[1 + j])
    return total


class Gather(NamedTuple):
    """The operations that combine the gradients at the points, for weights and for biases.

    `product` takes the gradients (channels, n, out) after a layer and the jet (channels, n, in) before it;
    `total` takes the gradients (n, out) of the values.
    """

    product: Callable[[Tensor, Tensor], Tensor]
    total: Callable[[Tensor], Tensor]


SUMMED = Gather(lambda grad, jet: grad.flatten(0, 1).T @ jet.flatten(0, 1), lambda grad: grad.sum(0))
"""One gradient, that of the sum over all points."""


def _outer(grad: Tensor, jet: Tensor) -> Tensor:
    """The outer product of gradient and jet at each point, (n, out, in), summed over the channels."""
    if len(grad) == 1:
        return grad[0].unsqueeze(2) * jet[0].unsqueeze(1)  # several times as fast as a batched matrix product
    return grad.permute(1, 2, 0) @ jet.permute(1, 0, 2)


EACH = Gather(_outer, lambda grad: grad.clone())
"""One gradient for each point."""

APART = Gather(lambda grad, jet: (grad, jet), lambda grad: grad)  # type: ignore[arg-type]
"""The factors of the gradients, as views of the memory of the passes."""


def reverse_pass(
    grad: Tensor,
    x: Tensor,
    layers: Layers,
    channels: Channels,
    tape: Tape,
    backs: Blocks,
    gather: Gather = SUMMED,
) -> list[Tensor]:
    """The gradients of the weights and then of the biases, given the gradient of the output jet."""
    axes, sums, thirds, _ = channels
    weight_grads, bias_grads = [], []
    for depth in reversed(range(len(tape.saved))):
        value, first, second, squares = tape.saved[depth]
        z, back, mask = tape.before[depth].channels, backs[depth], layers.masks[depth]
        weight_grads.append(gather.product(grad, tape.after[depth].whole))
        bias_grads.append(gather.total(grad[0]))
        torch.mm(grad.flatten(0, 1), layers.weights[depth + 1], out=back.flat)
        if mask is not None:
            back.whole.mul_(mask)
        part = back.channels
        slope = torch.zeros_like(z[0]) if len(channels) == 1 else part[1] * z[1]
        for i in range(2, len(channels)):
            slope.addcmul_(part[i], z[i])
        activation = layers.activations[depth]
        curved = part[1 + len(axes) : 1 + len(axes) + len(sums)]
        turns, twists, more = [outer * second for outer in curved], [], []
        if sums:
            third = activation.third(z[0], value, first, second)
            twists = [outer * third for outer in curved]
        if thirds:
            more = bends_back(part, z, activation, (value, first, second), channels)
        back.whole.mul_(first)
        back.value.addcmul_(slope, second)
        for turn, twist, square, pairs in zip(turns, twists, squares, sums, strict=True):
            back.value.addcmul_(twist, square)
            for i, j in pairs:
                if i == j:
                    part[1 + i].addcmul_(turn, z[1 + i], value=2)
                else:
                    part[1 + i].addcmul_(turn, z[1 + j])
                    part[1 + j].addcmul_(turn, z[1 + i])
        for channel, bend in more:
            part[channel].add_(bend)
        grad = back.whole
    if x.ndim == 3:
        first_weight = gather.product(grad, x)
    else:
        first_weight = gather.product(grad[:1], x[None])
        for i, axis in enumerate(axes):
            first_weight[..., axis] += gather.total(grad[1 + i]) / layers.reach[axis]
    return [first_weight, *weight_grads[::-1], gather.total(grad[0]), *bias_grads[::-1]]
