"""The jet of a network as one differentiable function, evaluated in tiles of points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from guardband.pinn.networks.jets.channels import Channels
from guardband.pinn.networks.jets.fused import Passes
from guardband.pinn.networks.jets.in_place import Memory, Tape, forward_pass, reverse_pass
from guardband.pinn.networks.jets.layers import Layers

TILE = 2**21
"""The size in bytes of one layer's jet in a tile, which keeps a core busy and fits in its cache."""


class Jet(torch.autograd.Function):
    """The jet of a network as a differentiable function of its weights and biases.

    `Jet.apply(x, layers, channels, memory, passes, *weights, *biases) -> (channels, n, m)`. It can be
    differentiated once; torch raises an error for higher derivatives. `memory` is reused between steps. By
    default the passes work in place.
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
        """The jet, computed in tiles that fit in the cache."""
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
    """The points, with the dropout masks of the same rows, split into parts of about equal size."""
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
