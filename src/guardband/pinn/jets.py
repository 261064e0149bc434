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

TILE = 1024
"""How many points go through the network at a time: enough to keep a core busy, few enough for its cache."""


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


class Layers(NamedTuple):
    """A network as arithmetic: what is done to x, in order. The reach is folded into the first slopes."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    activations: Sequence[Activation]
    masks: Sequence[Tensor | None]
    reach: Tensor
    features: Waves | None = None


class Workspace:
    """Memory that is taken once and used at every step; asking the system for it anew costs more.

    It comes from a pool, and goes back when the graph that uses it is gone.
    """

    def __init__(self, pool: list[dict[Any, Tensor]]) -> None:
        self._pool = pool
        self._held = pool.pop() if pool else {}

    def __del__(self) -> None:
        self._pool.append(self._held)

    def take(self, key: Any, like: Tensor, *shape: int) -> Tensor:
        """An uninitialized tensor of this shape, the same one at every call with the same key."""
        held = self._held.get(key)
        if held is None or held.shape != shape or held.dtype != like.dtype or held.device != like.device:
            held = self._held[key] = like.new_empty(shape)
        return held


def forward_pass(
    x: Tensor, layers: Layers, channels: Channels, space: Workspace
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """The jet of the outputs (channels, n, m), and what each hidden layer leaves for the reverse pass.

    x are points (n, d), or the jet of their features (channels, n, k).
    """
    axes, sums, thirds, _ = channels
    n, c = x.shape[-2], len(channels)
    weight = layers.weights[0]
    z = space.take("first", x, c, n, len(weight))
    if x.ndim == 3:
        torch.mm(x.flatten(0, 1), weight.T, out=z.view(c * n, len(weight)))
        z[0] += layers.biases[0]
    else:
        torch.addmm(layers.biases[0], x, weight.T, out=z[0])
        for i, axis in enumerate(axes):
            z[1 + i] = weight[:, axis] / layers.reach[axis]
        z[1 + len(axes) :].zero_()
    saved = []
    for depth, (activation, mask) in enumerate(zip(layers.activations, layers.masks, strict=True)):
        value, first, second = activation.upto_second(z[0])
        jet = space.take(("jet", depth), x, *z.shape)
        jet[0] = value
        torch.mul(z[1:], first, out=jet[1:])
        squares = []
        for s, pairs in enumerate(sums):
            square = z[1 + pairs[0][0]] * z[1 + pairs[0][1]]
            for i, j in pairs[1:]:
                square.addcmul_(z[1 + i], z[1 + j])
            jet[1 + len(axes) + s].addcmul_(second, square)
            squares.append(square)
        if thirds:
            for channel, bend in bends(list(z), activation, (value, first, second), channels):
                jet[channel] += bend
        if mask is not None:
            jet *= mask
        saved.append((z, value, first, second, jet, *squares))
        weight, bias = layers.weights[depth + 1], layers.biases[depth + 1]
        last = depth + 2 == len(layers.weights)
        z = x.new_empty(c, n, len(weight)) if last else space.take(("z", depth), x, c, n, len(weight))
        torch.mm(jet.flatten(0, 1), weight.T, out=z.view(c * n, len(weight)))
        z[0] += bias
    return z, saved


def reverse_pass(
    grad: Tensor,
    x: Tensor,
    layers: Layers,
    channels: Channels,
    saved: Sequence[tuple[Tensor, ...]],
    space: Workspace,
) -> list[Tensor]:
    """The gradients in the weights, then in the biases, given that in the output jet."""
    axes, sums, thirds, _ = channels
    n, c = x.shape[-2], len(channels)
    weight_grads, bias_grads = [], []
    for depth in reversed(range(len(saved))):
        z, value, first, second, jet, *squares = saved[depth]
        weight_grads.append(grad.flatten(0, 1).T @ jet.flatten(0, 1))
        bias_grads.append(grad[0].sum(0))
        back = space.take(("grad", depth % 2, z.shape[2]), x, *z.shape)
        torch.mm(grad.flatten(0, 1), layers.weights[depth + 1], out=back.view(c * n, -1))
        mask = layers.masks[depth]
        if mask is not None:
            back *= mask
        slope = None
        for i in range(1, c):
            slope = back[i] * z[i] if slope is None else slope.addcmul_(back[i], z[i])
        if slope is not None:
            slope *= second
        turns = [back[1 + len(axes) + s] * second for s in range(len(sums))]
        more = []
        if thirds:
            more = bends_back(
                list(back), list(z), layers.activations[depth], (value, first, second), channels
            )
        if sums:
            third = layers.activations[depth].third(z[0], value, first, second)
            for s, square in enumerate(squares):
                slope = torch.addcmul(slope, back[1 + len(axes) + s] * third, square)  # type: ignore[arg-type]
        back *= first
        if slope is not None:
            back[0] += slope
        for turn, pairs in zip(turns, sums, strict=True):
            for i, j in pairs:
                if i == j:
                    back[1 + i].addcmul_(turn, z[1 + i], value=2)
                else:
                    back[1 + i].addcmul_(turn, z[1 + j])
                    back[1 + j].addcmul_(turn, z[1 + i])
        for channel, turn in more:
            back[channel] += turn
        grad = back
    if x.ndim == 3:
        first_weight = grad.flatten(0, 1).T @ x.flatten(0, 1)
    else:
        first_weight = grad[0].T @ x
        for i, axis in enumerate(axes):
            first_weight[:, axis] += grad[1 + i].sum(0) / layers.reach[axis]
    return [first_weight, *weight_grads[::-1], grad[0].sum(0), *bias_grads[::-1]]


def bends(
    z: list[Tensor], activation: Activation, slopes: tuple[Tensor, Tensor, Tensor], channels: Channels
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
    back: list[Tensor],
    z: list[Tensor],
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


def fused_forward(
    x: Tensor, layers: Layers, channels: Channels
) -> tuple[list[Tensor], list[tuple[list[Tensor], Tensor, list[Tensor]]]]:
    """`forward_pass` without side effects, a list of channels in place of a stack."""
    axes, sums, thirds, fourths = channels
    weight = layers.weights[0]
    if x.ndim == 3:
        z = [torch.addmm(layers.biases[0], x[0], weight.T), *(part @ weight.T for part in x[1:])]
    else:
        z = [torch.addmm(layers.biases[0], x, weight.T)]
        z += [(weight[:, axis] / layers.reach[axis]).expand_as(z[0]) for axis in axes]
        z += [torch.zeros_like(z[0]) for _ in (*sums, *thirds, *fourths)]
    saved = []
    for depth, (activation, mask) in enumerate(zip(layers.activations, layers.masks, strict=True)):
        value, first, second = activation.upto_second(z[0])
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
        saved.append((z, value, jet))
        weight, bias = layers.weights[depth + 1], layers.biases[depth + 1]
        z = [torch.addmm(bias, jet[0], weight.T), *(part @ weight.T for part in jet[1:])]
    return z, saved


def fused_reverse(
    grad: list[Tensor],
    x: Tensor,
    layers: Layers,
    channels: Channels,
    saved: Sequence[tuple[list[Tensor], Tensor, list[Tensor]]],
) -> list[Tensor]:
    """`reverse_pass` without side effects."""
    axes, sums, thirds, _ = channels
    weight_grads, bias_grads = [], []
    for depth in reversed(range(len(saved))):
        z, value, jet = saved[depth]
        pairs = zip(grad[1:], jet[1:], strict=True)
        total = grad[0].T @ jet[0]
        for outer, part in pairs:
            total = torch.addmm(total, outer.T, part)
        weight_grads.append(total)
        bias_grads.append(grad[0].sum(0))
        back = [outer @ layers.weights[depth + 1] for outer in grad]
        mask = layers.masks[depth]
        if mask is not None:
            back = [part * mask for part in back]
        activation = layers.activations[depth]
        _, first, second = activation.upto_second(z[0])
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
        first_weight = sum((g.T @ part for g, part in zip(grad[1:], x[1:], strict=True)), grad[0].T @ x[0])
        return [first_weight, *weight_grads[::-1], grad[0].sum(0), *bias_grads[::-1]]
    first_weight = grad[0].T @ x
    slopes = {axis: grad[1 + i].sum(0) / layers.reach[axis] for i, axis in enumerate(axes)}
    zero = torch.zeros_like(grad[0][0])
    first_weight = first_weight + torch.stack([slopes.get(j, zero) for j in range(x.shape[1])], dim=1)
    return [first_weight, *weight_grads[::-1], grad[0].sum(0), *bias_grads[::-1]]


@cache
def compiled_passes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two fused passes, compiled. The first call of each new shape takes seconds."""
    return torch.compile(fused_forward, dynamic=False), torch.compile(fused_reverse, dynamic=False)


class Jet(torch.autograd.Function):
    """The jet of an MLP as one differentiable function of its weights and biases.

    `Jet.apply(x, layers, channels, pool, compile, *weights, *biases) -> (channels, n, m)`. It can be
    differentiated once; torch says so when asked for more. `pool` keeps workspaces between steps.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        layers: Layers,
        channels: Channels,
        pool: list[dict[Any, Tensor]],
        compile: bool,
        *parameters: Tensor,
    ) -> Tensor:
        """Points in chunks, so that what a chunk touches stays in the cache."""
        half = len(parameters) // 2
        layers = layers._replace(
            weights=[p.detach() for p in parameters[:half]], biases=[p.detach() for p in parameters[half:]]
        )
        pieces, kept = [], []
        for piece, part in _chunks(x, layers):
            space = Workspace(pool)
            if part.features is not None:
                piece = part.features.jet(piece, part.reach, channels)
            if compile:
                outputs, saved = compiled_passes()[0](piece, part, channels)
                outputs = torch.stack(outputs)
            else:
                outputs, saved = forward_pass(piece, part, channels, space)
            pieces.append(outputs)
            kept.append((piece, part, saved, space))
        ctx.kept = kept, channels, compile
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """The gradients of all weights and biases, summed over the chunks."""
        kept, channels, compile = ctx.kept
        (grad,) = grads
        totals: list[Tensor] = []
        start = 0
        for piece, part, saved, space in kept:
            outer = grad[:, start : start + piece.shape[-2]].contiguous()
            start += piece.shape[-2]
            if compile:
                terms = compiled_passes()[1](list(outer.unbind()), piece, part, channels, saved)
            else:
                terms = reverse_pass(outer, piece, part, channels, saved, space)
            totals = [a + b for a, b in zip(totals, terms, strict=True)] if totals else list(terms)
        return (None, None, None, None, None, *totals)


def _chunks(x: Tensor, layers: Layers) -> list[tuple[Tensor, Layers]]:
    """The points and the dropout masks, cut alike."""
    starts = range(0, max(1, len(x)), TILE)
    return [
        (
            x[s : s + TILE],
            layers._replace(masks=[None if m is None else m[s : s + TILE] for m in layers.masks]),
        )
        for s in starts
    ]
