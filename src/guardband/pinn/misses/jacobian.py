"""Jacobians of misses with respect to the weights, point by point.

If jets apply, the misses are differentiated with respect to the jet of the outputs, and the reverse pass
through the layers keeps the gradients of the points separate instead of summing them. Otherwise each point
has its own copy of the weights, so one backward pass over all points gives one gradient per point, for any
residual and any module that `torch.func` can call. Both methods work in any thread and in any gradient mode
of torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from guardband.pinn.misses.factors import Factors
from guardband.pinn.networks.derivatives import (
    JetField,
    NotCarried,
    Residual,
    layers_of,
    needs_of,
)
from guardband.pinn.networks.jets import (
    APART,
    EACH,
    Channels,
    Layers,
    Memory,
    Tape,
    forward_pass,
    identity_jet,
    reverse_pass,
)
from guardband.pinn.networks.modules import own_modules
from guardband.pinn.networks.traits import composed, core_of, has_derivatives, traits_of
from guardband.pinn.problems import AutogradField, Field, Names

POINTS_AT_ONCE = 128
"""The number of points differentiated together; each point needs memory for about ten copies of the
weights."""


def value(x: Tensor, u: Field) -> Tensor:
    """The residual u itself, whose Jacobian is that of the network's output."""
    return u.value


def jacobian(
    residual: Residual,
    net: nn.Module,
    x: Tensor,
    names: Sequence[str] | None = None,
    *,
    of: Names | None = None,
    normals: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The residual (n, q) at points x (n, d), and its derivatives (n, q, P) with respect to named weights.

    The weights are in the order of `net.named_parameters()`; the default is all of them. `of` contains the
    names of axes and outputs, and `normals` the normals at boundary points.

    Examples
    --------
    >>> net = nn.Linear(2, 1)
    >>> misses, slopes = jacobian(value, net, torch.tensor([[3.0, 4.0]]))
    >>> slopes.tolist()  # of w1 x1 + w2 x2 + b
    [[[3.0, 4.0, 1.0]]]
    """
    return Slopes(residual, net, x, of)(x, normals, names)


class Slopes:
    """The Jacobian of a residual of a network, at any points; the method is chosen once.

    If the residual compares points with each other, every `together` consecutive points form a group; 0 means
    one group of all points with a single miss.
    """

    residual: Residual
    net: nn.Module
    of: Names | None
    together: int

    def __init__(
        self, residual: Residual, net: nn.Module, x: Tensor, of: Names | None = None, together: int = 1
    ) -> None:
        self.residual, self.net, self.of, self.together = residual, net, of, together
        with torch.inference_mode(False), torch.enable_grad():
            self._channels = _carried(residual, own_modules(net), _ordinary(x), of)
        self._memory = Memory()

    def __call__(
        self, x: Tensor, normals: Tensor | None = None, names: Sequence[str] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The residual (n, q) at points x, and its derivatives with respect to named weights, or to all."""
        with torch.inference_mode(False), torch.enable_grad():
            x = _ordinary(x)
            outward = torch.zeros_like(x) if normals is None else _ordinary(normals)
            if self._channels is not None and _all(names, self.net):
                try:
                    return _by_jets(self, self.net, x, self._channels, outward, self._memory)
                except NotCarried:
                    self._channels = None
            net = own_modules(self.net)  # `functional_call` replaces its weights
            size = POINTS_AT_ONCE * self.together or max(1, len(x))
            chunks = zip(x.split(size), outward.split(size), strict=True)
            parts = [_by_copies(self, net, chunk, names, along) for chunk, along in chunks]
        misses, slopes = zip(*parts, strict=True)
        return torch.cat(misses), torch.cat(slopes)

    def factors(self, x: Tensor, normals: Tensor | None = None) -> tuple[Tensor, Factors] | None:
        """The residual (n, q) and its derivatives as factors; None if jets do not apply."""
        with torch.inference_mode(False), torch.enable_grad():
            net, x = own_modules(self.net), _ordinary(x)
            outward = torch.zeros_like(x) if normals is None else _ordinary(normals)
            if self._channels is None:
                return None
            try:
                return _factors(self, net, x, self._channels, outward)
            except NotCarried:
                self._channels = None
                return None


def _all(names: Sequence[str] | None, net: nn.Module) -> bool:
    return names is None or {*names} >= {name for name, _ in net.named_parameters()}


def _carried(residual: Residual, net: nn.Module, x: Tensor, of: Names | None) -> Channels | None:
    """The jet for differentiating this residual of this network; None if jets do not apply."""
    core = core_of(net)
    masked = core.training and traits_of(core).stochastic
    planned = None if masked or not len(x) else layers_of(core, x[:1])
    if planned is None:
        return None
    _, layers = planned
    columns = [*itertools.chain(*zip(layers.weights, layers.biases, strict=True))]
    parameters = [*net.parameters()]
    if len(columns) != len(parameters) or any(a is not b for a, b in zip(columns, parameters, strict=True)):
        return None  # a layer occurs twice, or the parameters are in a different order
    return needs_of(residual, net, x, of).channels()


class _Taped(NamedTuple):
    """The misses of a network, with the intermediate values for the reverse pass."""

    misses: Tensor
    jet: Tensor
    points: Tensor
    layers: Layers
    tape: Tape

    def gradients(self, together: int) -> Iterator[tuple[slice, int, Tensor]]:
        """For each column j and group member: its rows, j, and the jet gradient of the sum of its misses."""
        each = together or 1
        for j, first in itertools.product(range(self.misses.shape[1]), range(each)):
            rows = slice(first, None, each)
            (outer,) = torch.autograd.grad(
                self.misses[rows, j].sum(),
                self.jet,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            yield rows, j, outer.contiguous()


def _taped(
    slopes_of: Slopes,
    net: nn.Module,
    x: Tensor,
    channels: Channels,
    normals: Tensor,
    memory: Memory,
    *,
    as_jet: bool = False,
) -> _Taped:
    """The forward pass; with `as_jet`, the first layer also takes its points as a jet."""
    planned = layers_of(core_of(net), x)
    assert planned is not None
    points, layers = planned
    layers = layers._replace(
        weights=[part.detach() for part in layers.weights], biases=[part.detach() for part in layers.biases]
    )
    if layers.features is not None:
        points = layers.features.jet(points, layers.reach, channels)
    elif as_jet:
        points = identity_jet(points, layers.reach, channels)
    widths = [len(weight) for weight in layers.weights[:-1]]
    before, after = (memory.take(x, len(channels), len(x), widths) for _ in range(2))
    tape = Tape(before, after, [])
    jet = forward_pass(points, layers, channels, tape).requires_grad_()
    field: Field = JetField(None, x, jet, channels, slopes_of.of)
    field = composed(net, field, x)
    field.normals = normals
    return _Taped(slopes_of.residual(x, field), jet, points, layers, tape)


def _by_jets(
    slopes_of: Slopes, net: nn.Module, x: Tensor, channels: Channels, normals: Tensor, memory: Memory
) -> tuple[Tensor, Tensor]:
    """The residual (n, q), and its derivatives with respect to all weights (n, q, P), by jets."""
    taped, together = _taped(slopes_of, net, x, channels, normals, memory), slopes_of.together
    misses, _, points, layers, tape = taped
    widths = [len(weight) for weight in layers.weights[:-1]]
    total = sum(part.numel() for part in (*layers.weights, *layers.biases))
    slopes = x.new_empty(*misses.shape, total)
    for rows, j, outer in taped.gradients(together):
        backs = memory.take(x, len(channels), len(x), widths)
        found = reverse_pass(outer, points, layers, channels, tape, backs, EACH)
        half, start = len(found) // 2, 0
        for part in itertools.chain(*zip(found[:half], found[half:], strict=True)):
            end = start + part[0].numel()
            slopes[rows, j, start:end] = _grouped(part.flatten(1), together)
            start = end
    return misses.detach(), slopes


def _factors(
    slopes_of: Slopes, net: nn.Module, x: Tensor, channels: Channels, normals: Tensor
) -> tuple[Tensor, Factors]:
    """The residual (n, q) and the factors of its derivatives, in memory that is not reused."""
    memory = Memory()
    taped = _taped(slopes_of, net, x, channels, normals, memory, as_jet=True)
    misses, _, points, layers, tape = taped
    widths, found, held = [len(weight) for weight in layers.weights[:-1]], [], []
    for rows, j, outer in taped.gradients(slopes_of.together):
        backs = memory.take(x, len(channels), len(x), widths)
        pairs: Any = reverse_pass(outer, points, layers, channels, tape, backs, APART)
        found.append((rows, j, pairs[: len(layers.weights)]))
        held.append(backs)
    return misses.detach(), Factors(misses.shape, found, slopes_of.together or len(x), (tape, held))


def _grouped(gradients: Tensor, together: int) -> Tensor:
    """The sums of the gradients (n, P) over the points of each group."""
    return gradients if together == 1 else gradients.unflatten(0, (-1, together or len(gradients))).sum(dim=1)


def _by_copies(
    slopes_of: Slopes, net: nn.Module, x: Tensor, names: Sequence[str] | None, normals: Tensor
) -> tuple[Tensor, Tensor]:
    """The residual (n, q), and its derivatives (n, q, P) with respect to the named weights, by copies."""
    weights = {name: _ordinary(p.detach()) for name, p in net.named_parameters()}
    chosen = [name for name in weights if names is None or name in names]
    copies = {name: weights[name].expand(len(x), *weights[name].shape).clone() for name in chosen}
    leaves = [copy.requires_grad_() for copy in copies.values()]
    field = _copied(net, weights, copies, x, slopes_of.of)
    field.normals = normals
    misses, together = slopes_of.residual(x, field), slopes_of.together
    slopes, step = x.new_empty(*misses.shape, sum(weights[name].numel() for name in chosen)), together or 1
    for j, first in itertools.product(range(misses.shape[1]), range(step)):
        gradients = torch.autograd.grad(
            misses[first::step, j].sum(),
            leaves,
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        each = torch.cat([gradient.detach().reshape(len(x), -1) for gradient in gradients], dim=1)
        slopes[first::step, j] = _grouped(each, together)
    return misses.detach(), slopes


def _copied(
    net: nn.Module, weights: dict[str, Tensor], copies: dict[str, Tensor], x: Tensor, of: Names | None
) -> Field:
    """The field of a network in which each point has its own copy of some weights."""
    core = core_of(net)
    if core is net or not has_derivatives(core):
        return AutogradField(_Copies(net, weights, copies), x, of)
    prefix = next(name for name, part in net.named_modules() if part is core) + "."
    own, shared = (
        {name.removeprefix(prefix): part for name, part in found.items() if name.startswith(prefix)}
        for found in (copies, weights)
    )
    return composed(net, AutogradField(_Copies(core, shared, own), x, of), x)


class _Copies:
    """A network in which each point has its own copy of some weights."""

    def __init__(self, net: nn.Module, weights: dict[str, Tensor], copies: dict[str, Tensor]) -> None:
        self._net, self._weights, self._copies = net, weights, copies

    def __call__(self, x: Tensor) -> Tensor:
        def one(own: dict[str, Tensor], x: Tensor) -> Tensor:
            return functional_call(self._net, {**self._weights, **own}, (x[None],))[0]

        return vmap(one)(self._copies, x)

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        """The derivative that the network computes itself, with the copied weights."""
        if traits_of(self._net).known_derivative(x[:1], axes) is None:
            return None
        derivative = _Derivative(self._net, axes)
        weights = {f"net.{name}": part for name, part in self._weights.items()}

        def one(own: dict[str, Tensor], x: Tensor) -> Tensor:
            return functional_call(derivative, {**weights, **own}, (x[None],))[0]

        return vmap(one)({f"net.{name}": part for name, part in self._copies.items()}, x)


class _Derivative(nn.Module):
    """A derivative of a network that computes its own derivatives, as a module."""

    def __init__(self, net: nn.Module, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.net, self._axes = net, axes

    def forward(self, x: Tensor) -> Tensor | None:
        return traits_of(self.net).known_derivative(x, self._axes)


def _ordinary(a: Tensor) -> Tensor:
    """The same values as a tensor that supports autograd; inference-mode tensors are copied."""
    return a.clone() if a.is_inference() else a
