"""Jets: one pass through an MLP that carries the value and its derivatives, and its reverse by hand.

A jet is a tensor (channels, n, width): the value, first derivatives along some axes, sums of second
derivatives, and third and fourth derivatives along an axis. A linear layer acts on all channels by one matrix
product, an activation s by the chain rule:

    value    s(z)
    first    s'(z) z_i
    second   s'(z) z_S + s''(z) sum z_i z_j      z_S: the sum of the derivatives z_ij, (i, j) in S
    third    s'(z) z_3 + 3 s''(z) z_1 z_2 + s'''(z) z_1^3                along one axis
    fourth   s'(z) z_4 + s''(z) (4 z_1 z_3 + 3 z_2^2) + 6 s'''(z) z_1^2 z_2 + s''''(z) z_1^4

Against autograd twice over this moves a fraction of the memory. There are two spellings of the same
formulas: in place in reused memory, which is fastest in eager torch, and without side effects, which
`torch.compile` fuses best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from guardband.pinn.activations import Activation

TILE = 2**21
"""Bytes of one layer's jet that go together: enough to keep a core busy, few enough for its cache."""


Pairs: TypeAlias = tuple[tuple[int, int], ...]


class Channels(NamedTuple):
    """What a jet carries beside the value: first derivatives along axes, sums of second ones, and more.

    `sums` lists pairs of positions in `axes`: (((0, 0), (1, 1)),) is the Laplacian of two axes, (((0, 1),),)
    the mixed derivative. `thirds` and `fourths` are positions whose second derivative is carried too.
    """

    axes: tuple[int, ...] = ()
    sums: tuple[Pairs, ...] = ()
    thirds: tuple[int, ...] = ()
    fourths: tuple[int, ...] = ()

    def __len__(self) -> int:
        return 1 + len(self.axes) + len(self.sums) + len(self.thirds) + len(self.fourths)

    def position(self, axes: tuple[int, ...]) -> int | None:
        """The channel of a derivative along these axes, or None if it is not carried."""
        if not axes:
            return 0
        if not {*axes} <= {*self.axes}:
            return None
        where = tuple(self.axes.index(axis) for axis in axes)
        if len(axes) == 1:
            return 1 + where[0]
        if len(axes) == 2:
            return self.position_of_sum((where,))  # type: ignore[arg-type]
        line = next((line for line in self.lines() if line[0] == 1 + where[0]), None)
        return line[len(axes) - 1] if line and len({*where}) == 1 and len(axes) < 5 else None

    def position_of_sum(self, pairs: Pairs) -> int | None:
        """The channel of a sum of second derivatives, or None if it is not carried."""
        return 1 + len(self.axes) + self.sums.index(pairs) if pairs in self.sums else None

    def lines(self) -> list[tuple[int, int, int, int | None]]:
        """The channels of the first to the third, or to the fourth derivative, along an axis."""
        start = 1 + len(self.axes) + len(self.sums)
        found = []
        for k, p in enumerate(self.thirds):
            second = 1 + len(self.axes) + self.sums.index(((p, p),))
            fourth = start + len(self.thirds) + self.fourths.index(p) if p in self.fourths else None
            found.append((1 + p, second, start + k, fourth))
        return found


class Waves(NamedTuple):
    """Features ahead of the first layer: matrix x + phase (n, k), and in its place a sine for `waves`.

    Angles are in half turns, so that a period is exact in any precision.
    """

    matrix: Tensor
    phase: Tensor
    waves: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """The features (n, k) of points (n, d)."""
        turns = x @ self.matrix.T + self.phase
        return torch.where(self.waves, (torch.pi * turns).sin(), turns)

    def jet(self, x: Tensor, reach: Tensor, channels: Channels) -> Tensor:
        """The features and their derivatives, (channels, n, k)."""
        turns = x @ self.matrix.T + self.phase
        angle, zero = torch.pi * turns, torch.zeros_like(turns)
        sine, cosine = angle.sin(), angle.cos()
        first = torch.where(self.waves, cosine, 1.0)
        second, third = torch.where(self.waves, -sine, zero), torch.where(self.waves, -cosine, zero)
        scale = 1 + (torch.pi - 1) * self.waves.to(x)
        slopes = [scale * self.matrix[:, axis] / reach[axis] for axis in channels.axes]
        jet = [torch.where(self.waves, sine, turns), *(first * slope for slope in slopes)]
        jet += [second * sum(slopes[i] * slopes[j] for i, j in pairs) for pairs in channels.sums]
        jet += [third * slopes[p] ** 3 for p in channels.thirds]
        jet += [-second * slopes[p] ** 4 for p in channels.fourths]
        return torch.stack(jet)


def identity_jet(x: Tensor, reach: Tensor, channels: Channels) -> Tensor:
    """Scaled points (n, d) as the jet (channels, n, d) of what they are themselves."""
    jet = x.new_zeros(len(channels), *x.shape)
    jet[0] = x
    for i, axis in enumerate(channels.axes):
        jet[1 + i, :, axis] = 1 / reach[axis]
    return jet


class Layers(NamedTuple):
    """A network as arithmetic: what is done to x, in order. The reach is folded into the first slopes."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    activations: Sequence[Activation]
    masks: Sequence[Tensor | None]
    reach: Tensor
    features: Waves | None = None


class Block:
    """A jet in memory of its own, with its views."""

    whole: Tensor
    flat: Tensor
    channels: tuple[Tensor, ...]
    value: Tensor
    rest: Tensor

    def __init__(self, whole: Tensor) -> None:
        self.whole, self.flat, self.channels = whole, whole.flatten(0, 1), whole.unbind()
        self.value, self.rest = whole[0], whole[1:]


class Memory:
    """Memory that is taken once and used at every step; asking the system for it anew costs more."""

    def __init__(self) -> None:
        self._free: dict[Any, list[list[Block]]] = {}

    def take(self, like: Tensor, channels: int, n: int, widths: Sequence[int]) -> Blocks:
        """A jet for each hidden layer, not filled; it comes back when nobody holds it any more."""
        key = channels, n, tuple(widths), like.dtype, like.device
        if key not in self._free and len(self._free) == 8:  # whoever asks for ever new sizes keeps none
            self._free = {}
        free = self._free.setdefault(key, [])
        try:
            blocks = free.pop()
        except IndexError:
            blocks = [Block(like.new_empty(channels, n, width)) for width in widths]
        return Blocks(blocks, free)


class Blocks:
    """A jet for each hidden layer, on loan."""

    def __init__(self, blocks: list[Block], free: list[list[Block]]) -> None:
        self._blocks, self._free = blocks, free

    def __getitem__(self, depth: int) -> Block:
        return self._blocks[depth]

    def __del__(self) -> None:
        self._free.append(self._blocks)


class Tape(NamedTuple):
    """What some points leave on their way through the network, for the way back.

    The jets before and after each activation; the activation with its slope and bend, and the products of
    first derivatives.
    """

    before: Blocks
    after: Blocks
    saved: list[tuple[Tensor, Tensor, Tensor, list[Tensor]]]


def forward_pass(x: Tensor, layers: Layers, channels: Channels, tape: Tape) -> Tensor:
    """The jet of the outputs (channels, n, m). x are points (n, d), or the jet of their features."""
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
    """What becomes of the gradients at all points, for weights and for biases.

    `product` takes those of a layer (channels, n, out) and the jet (channels, n, in) that it saw, `total`
    those of its values (n, out).
    """

    product: Callable[[Tensor, Tensor], Tensor]
    total: Callable[[Tensor], Tensor]


SUMMED = Gather(lambda grad, jet: grad.flatten(0, 1).T @ jet.flatten(0, 1), lambda grad: grad.sum(0))
"""One gradient, of the sum over all points."""


def _outer(grad: Tensor, jet: Tensor) -> Tensor:
    """The product of both at each point, (n, out, in), summed over the channels."""
    if len(grad) == 1:
        return grad[0].unsqueeze(2) * jet[0].unsqueeze(1)  # several times as fast as a product of matrices
    return grad.permute(1, 2, 0) @ jet.permute(1, 0, 2)


EACH = Gather(_outer, lambda grad: grad.clone())
"""A gradient for each point."""

APART = Gather(lambda grad, jet: (grad, jet), lambda grad: grad)  # type: ignore[arg-type]
"""No gradients: the factors that they are made of, views of the memory that the passes were given."""


def reverse_pass(
    grad: Tensor,
    x: Tensor,
    layers: Layers,
    channels: Channels,
    tape: Tape,
    backs: Blocks,
    gather: Gather = SUMMED,
) -> list[Tensor]:
    """The gradients in the weights, then in the biases, given that in the output jet."""
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


def bends(
    z: Sequence[Tensor], activation: Activation, slopes: tuple[Tensor, Tensor, Tensor], channels: Channels
) -> list[tuple[int, Tensor]]:
    """What third and fourth derivatives gain from lower ones at an activation, by channel."""
    value, first, second = slopes
    third = activation.third(z[0], value, first, second)
    fourth = activation.higher(z[0], value, first, second, third)[0] if channels.fourths else third
    found = []
    for c1, c2, c3, c4 in channels.lines():
        z1, z2, z3 = z[c1], z[c2], z[c3]
        found.append((c3, z1 * (3 * second * z2 + third * z1 * z1)))
        if c4 is not None:
            curved = second * (4 * z1 * z3 + 3 * z2 * z2)
            found.append((c4, curved + z1 * z1 * (6 * third * z2 + fourth * z1 * z1)))
    return found


def bends_back(
    back: Sequence[Tensor],
    z: Sequence[Tensor],
    activation: Activation,
    slopes: tuple[Tensor, Tensor, Tensor],
    channels: Channels,
) -> list[tuple[int, Tensor]]:
    """What `bends` gives back to lower channels, `back` being the gradients after the activation."""
    value, first, second = slopes
    third = activation.third(z[0], value, first, second)
    fourth, fifth = activation.higher(z[0], value, first, second, third)
    found = []
    for c1, c2, c3, c4 in channels.lines():
        z1, z2, z3, g = z[c1], z[c2], z[c3], back[c3]
        found.append((0, g * z1 * (3 * third * z2 + fourth * z1 * z1)))
        found.append((c1, g * 3 * (second * z2 + third * z1 * z1)))
        found.append((c2, g * 3 * second * z1))
        if c4 is not None:
            g = back[c4]
            curved = third * (4 * z1 * z3 + 3 * z2 * z2)
            found.append((0, g * (curved + z1 * z1 * (6 * fourth * z2 + fifth * z1 * z1))))
            found.append((c1, g * 4 * (second * z3 + z1 * (3 * third * z2 + fourth * z1 * z1))))
            found.append((c2, g * 6 * (second * z2 + third * z1 * z1)))
            found.append((c3, g * 4 * second * z1))
    return found


Saved: TypeAlias = list[tuple[list[Tensor], Tensor, Tensor]]
"""Of each hidden layer: the jet before the activation, its value after it, and the whole jet in rows."""


def fused_forward(x: Tensor, layers: Layers, channels: Channels) -> tuple[list[Tensor], Saved]:
    """`forward_pass` without side effects, a list of channels in place of a stack."""
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
    """A layer's jet, channel by channel, of rows that hold one channel after the other."""
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
    """A pass and its reverse, both without side effects."""

    forward: Callable[..., tuple[list[Tensor], Saved]]
    reverse: Callable[..., list[Tensor]]


FUSED = Passes(fused_forward, fused_reverse)
"""As they are written: to be compiled as a part of something larger."""


@cache
def compiled_passes() -> Passes:
    """Each pass compiled by itself. The first call of each new shape takes seconds."""
    return Passes(torch.compile(fused_forward, dynamic=False), torch.compile(fused_reverse, dynamic=False))


class Jet(torch.autograd.Function):
    """The jet of an MLP as one differentiable function of its weights and biases.

    `Jet.apply(x, layers, channels, memory, passes, *weights, *biases) -> (channels, n, m)`. It can be
    differentiated once; torch says so when asked for more. `memory` is kept between steps. Without `passes`
    it goes in place.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        layers: Layers,
        channels: Channels,
        memory: Memory,
        passes: Passes | None,
        *parameters: Tensor,
    ) -> Tensor:
        """Points in tiles, so that what a tile touches stays in the cache."""
        half = len(parameters) // 2
        layers = layers._replace(
            weights=[p.detach() for p in parameters[:half]], biases=[p.detach() for p in parameters[half:]]
        )
        widths = [len(weight) for weight in layers.weights[:-1]]
        pieces, kept = [], []
        for piece, part in tiles(x, layers, channels):
            n = len(piece)
            if part.features is not None:
                piece = part.features.jet(piece, part.reach, channels)
            if passes is not None:
                outputs, tape = passes.forward(piece, part, channels)
                outputs = torch.stack(outputs)
            else:
                before, after = (memory.take(x, len(channels), n, widths) for _ in range(2))
                tape = Tape(before, after, [])
                outputs = forward_pass(piece, part, channels, tape)
            pieces.append(outputs)
            kept.append((piece, part, tape))
        ctx.kept = kept, channels, memory, passes
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """The gradients of all weights and biases, summed over the tiles."""
        kept, channels, memory, passes = ctx.kept
        (grad,) = grads
        totals: list[Tensor] = []
        start = 0
        for piece, part, tape in kept:
            n = piece.shape[-2]
            outer = grad[:, start : start + n].contiguous()
            start += n
            if passes is not None:
                terms = passes.reverse(list(outer.unbind()), piece, part, channels, tape)
            else:
                widths = [len(weight) for weight in part.weights[:-1]]
                backs = memory.take(piece, len(channels), n, widths)
                terms = reverse_pass(outer, piece, part, channels, tape, backs)
            totals = [a.add_(b) for a, b in zip(totals, terms, strict=True)] if totals else list(terms)
        return (None, None, None, None, None, *totals)


def tiles(x: Tensor, layers: Layers, channels: Channels) -> list[tuple[Tensor, Layers]]:
    """The points and the dropout masks, cut alike, into parts of about the same size."""
    row = len(channels) * max(len(weight) for weight in layers.weights[:-1])
    size = max(256, TILE // (row * x.element_size()))
    count = max(1, -(-len(x) // size))
    size = max(1, -(-len(x) // count))
    return [
        (
            x[s : s + size],
            layers._replace(masks=[None if m is None else m[s : s + size] for m in layers.masks]),
        )
        for s in range(0, max(1, len(x)), size)
    ]
