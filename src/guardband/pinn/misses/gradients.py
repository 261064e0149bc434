"""The mean squares of a network and the gradient of their weighted sum.

If compiling is worthwhile, a step is one graph: misses, loss and gradient are traced once for each new shape
of points and compiled together. This is faster than compiling them separately, since intermediate results
stay out of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from guardband.pinn.geometry import Boundary
from guardband.pinn.misses.likelihood import Scales
from guardband.pinn.misses.mean_squares import MeanSquares, SquaresModule
from guardband.pinn.misses.points import Points
from guardband.pinn.networks.derivatives import layers_of, needs_of
from guardband.pinn.networks.jets import FUSED, compiled_passes, tiles
from guardband.pinn.networks.traits import core_of, traits_of
from guardband.pinn.problems import Problem

SHAPES = 4
"""The largest number of point shapes with a graph; if the shapes keep changing, nothing is compiled."""

CHECKED = 50
"""The number of steps between comparisons of a graph with the uncompiled loss."""

Graph: TypeAlias = Callable[..., tuple[Tensor, list[Tensor], list[Tensor]]]
"""A function from weights, tensors of points and weights of the terms to squares, misses and gradients."""


class Gradients:
    """The mean squares at points; a call stores the gradient of their weighted sum in the parameters.

    A graph repeats the traced operations. Equations that draw random numbers or branch on values have no
    graph. If an equation changes during training, for example by a user's schedule, its graph is discarded.
    """

    mean_squares: MeanSquares

    def __init__(
        self,
        problem: Problem,
        net: nn.Module,
        sample: Points,
        *,
        scales: Scales | None = None,
        compile: bool = False,
    ) -> None:
        whole = compile and _fits(problem, net, sample)
        passes = compiled_passes() if compile and not whole else None
        self.mean_squares = MeanSquares(problem, net, sample, scales=scales, passes=passes)
        self._whole = SquaresModule(self.mean_squares)
        self._to_trace = MeanSquares(problem, net, sample, scales=scales, passes=FUSED) if whole else None
        self._graphs: dict[tuple[object, ...], Graph] = {}
        self._taken = 0

    def __call__(self, points: Points, weights: Tensor, seen: list[Tensor] | None = None) -> Tensor:
        """The mean squares; the misses are appended to `seen`."""
        parameters: list[Tensor] = [p for p in self._whole.parameters() if p.requires_grad]
        graph = self._graph(points, weights, parameters)
        if graph is None:
            squares = self.mean_squares(points, seen)
            found = torch.autograd.grad(weights @ squares, parameters, allow_unused=True)
        else:
            with torch.no_grad():
                squares, misses, found = graph(parameters, _tensors(points), weights)
            self._check(points, squares)
            if seen is not None:
                seen += misses
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter.grad = gradient
        return squares.detach()

    def _graph(self, points: Points, weights: Tensor, parameters: list[Tensor]) -> Graph | None:
        if self._to_trace is None:
            return None
        tensors = _tensors(points)
        key = tuple(t.shape for t in tensors), weights.dtype
        if key not in self._graphs:
            made = _traced(self._to_trace, points, weights, parameters)
            if made is None or len(self._graphs) == SHAPES:
                self._to_trace = None
                return None
            self._graphs[key] = torch.compile(made, dynamic=False)
        return self._graphs[key]

    def _check(self, points: Points, squares: Tensor) -> None:
        self._taken += 1
        if self._taken % CHECKED == 1:
            with torch.no_grad():
                again = self.mean_squares(points)
            if not torch.allclose(again, squares, rtol=1e-2, equal_nan=True):
                self._to_trace = None


def _fits(problem: Problem, net: nn.Module, sample: Points) -> bool:
    """Whether jets apply, the network has no dropout, and all points fit into one tile.

    If the points need several tiles, it is faster to compile the passes once and call them for each tile.
    """
    if traits_of(net).stochastic:
        return False
    channels = needs_of(problem.misses, net, sample.inside, problem.names).channels()
    planned = layers_of(core_of(net), sample.inside)
    return channels is not None and planned is not None and len(tiles(*planned, channels)) == 1


def _tensors(points: Points) -> list[Tensor]:
    edges = [part for edge in points.edges for part in (edge.points, edge.normals)]
    return [points.x, points.y, points.inside, *edges]


def _traced(
    mean_squares: MeanSquares, points: Points, weights: Tensor, parameters: list[Tensor]
) -> Graph | None:
    """The graph from weights and points to squares, misses and gradients; None if it cannot be traced.

    Tracing uses tensors without values, which detects equations that branch on values.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    whole = SquaresModule(mean_squares)
    names = [name for name, p in whole.named_parameters() if p.requires_grad]

    def step(
        parameters: list[Tensor], tensors: list[Tensor], weights: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        x, y, inside, *rest = tensors
        edges = [
            Boundary(at, normals, edge.sizes, edge.parts)
            for at, normals, edge in zip(rest[::2], rest[1::2], points.edges, strict=True)
        ]
        leaves = [p.detach().requires_grad_() for p in parameters]
        own = dict(zip(names, leaves, strict=True))
        misses: list[Tensor] = []
        with torch.enable_grad():
            squares = torch.func.functional_call(whole, own, (Points(x, y, inside, tuple(edges)), misses))
            found = torch.autograd.grad(weights @ squares, leaves, allow_unused=True, materialize_grads=True)
        return squares.detach(), misses, list(found)

    try:
        with torch.no_grad():
            trace = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)
            graph = trace([p.detach() for p in parameters], _tensors(points), weights)
    except Exception:  # tracing may fail in any way; the equation still works uncompiled
        return None
    random = torch.Tag.nondeterministic_seeded
    drawn = any(random in getattr(node.target, "tags", ()) for node in graph.graph.nodes)
    return None if drawn else graph
