"""Derivatives: which way to u and its derivatives is fastest for this network and this equation.

MLPs whose equation asks for first derivatives and for second ones along the axes go by jets; everything else
(mixed derivatives, higher orders, other networks) by autograd. Both give the same numbers to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from torch import Tensor, nn

from guardband.pinn.activations import ACTIVATIONS, function_of
from guardband.pinn.jets import Channels, Jet, Layers
from guardband.pinn.networks import MLP, Constrained
from guardband.problems import AutogradField, Field

Residual: TypeAlias = Callable[[Tensor, Field], Tensor]
"""What should vanish at points x, given the field u there."""


@dataclass(frozen=True)
class Needs:
    """What a residual asked of its field: first derivatives, second ones, the Laplacian, or more."""

    first: frozenset[int] = frozenset()
    second: frozenset[tuple[int, int]] = frozenset()
    laplacian: bool = False
    higher: bool = False

    @property
    def only_value(self) -> bool:
        """Whether no derivative was asked for."""
        return not (self.first or self.second or self.laplacian or self.higher)

    def cover(self, other: Needs, d: int) -> bool:
        """Whether the jet for these carries the first derivatives that are all the other asks for."""
        mine, others = self.channels(d), other.channels(d)
        return mine is not None and others is not None and not others.sums and {*others.axes} <= {*mine.axes}

    def channels(self, d: int) -> Channels | None:
        """The jet that carries all this, or None where only autograd can."""
        if self.higher or any(i != j for i, j in self.second):
            return None
        curved = sorted(i for i, _ in self.second)
        along = range(d) if self.laplacian else curved
        axes = sorted({*self.first, *along})
        if self.laplacian and not curved:
            return Channels(tuple(axes), (tuple(axes.index(i) for i in along),))
        parts = range(d) if self.laplacian else curved
        return Channels(tuple(axes), tuple((axes.index(i),) for i in parts))


def needs_of(residual: Residual, net: nn.Module, x: Tensor) -> Needs:
    """What a residual asks for, found by evaluating it once at a few points x."""
    field = _Recorder(net, x[:2])
    training = net.training
    net.eval()
    try:
        residual(field.x.detach(), field)
    finally:
        net.train(training)
    orders = {axes for axes in field.asked if axes}
    return Needs(
        first=frozenset(axes[0] for axes in orders if len(axes) == 1),
        second=frozenset((axes[0], axes[1]) for axes in orders if len(axes) == 2),
        laplacian=field.asked_laplacian,
        higher=any(len(axes) > 2 for axes in orders),
    )


def differentiate(net: nn.Module, needs: Needs, *, compile: bool = False) -> Callable[[Tensor], Field]:
    """A function from points x (n, d) to the field of the network there, by the fastest way known.

    >>> import torch
    >>> import guardband as gb
    >>> from guardband.pinn.derivatives import Needs
    >>> u = gb.pinn.differentiate(gb.mlp(2, [16, 16]), Needs(laplacian=True))(torch.zeros(5, 2))
    >>> u.laplacian.shape
    torch.Size([5, 1])
    """
    if isinstance(net, Constrained):
        inner = differentiate(net.net, needs, compile=compile)
        return lambda x: ConstrainedField(inner(x), net.lift, net.bubble, x)
    if needs.only_value:
        return lambda x: JetField(net, x, net(x)[None], Channels())
    pool: list[dict[Any, Tensor]] = []

    def jet_field(x: Tensor) -> Field:
        plan, channels = _layers(net, x), needs.channels(x.shape[1])
        if plan is None or channels is None:
            return AutogradField(net, x)
        points, layers = plan
        jet = Jet.apply(points, layers, channels, pool, compile, *layers.weights, *layers.biases)
        return JetField(net, x, jet, channels)

    return jet_field


class JetField(Field):
    """A field read off a jet (channels, n, m); what the jet does not carry comes by autograd."""

    def __init__(self, net: nn.Module, x: Tensor, jet: Tensor, channels: Channels) -> None:
        super().__init__(x)
        self._net, self._jet, self._channels = net, jet, channels

    def derivative(self, *axes: int) -> Tensor:
        """The partial derivative along these axes in turn, (n, m)."""
        known, sums = self._channels
        if not axes:
            return self._jet[0]
        if len(axes) == 1 and axes[0] in known:
            return self._jet[1 + known.index(axes[0])]
        if len(axes) == 2 and axes[0] == axes[1] and axes[0] in known:
            part = (known.index(axes[0]),)
            if part in sums:
                return self._jet[1 + len(known) + sums.index(part)]
        return self._by_autograd.derivative(*axes)

    @property
    def laplacian(self) -> Tensor:
        """The sum of the second derivatives along each axis, (n, m)."""
        known, sums = self._channels
        whole = tuple(range(self.x.shape[1]))
        if known == whole and whole in sums:
            return self._jet[1 + len(known) + sums.index(whole)]
        return super().laplacian

    @cached_property
    def _by_autograd(self) -> AutogradField:
        if getattr(self._net, "dropout", 0) and self._net.training:
            raise RuntimeError(
                "This derivative was not asked for when the equation was first looked at, and dropout "
                "masks cannot be drawn twice. Ask for the same derivatives at every call."
            )
        return AutogradField(self._net, self.x)


class ConstrainedField(Field):
    """u = lift + bubble net, by the product rule."""

    def __init__(
        self,
        inner: Field,
        lift: Callable[[Tensor], Tensor],
        bubble: Callable[[Tensor], Tensor],
        x: Tensor,
    ) -> None:
        super().__init__(x)
        self._inner, self._lift, self._mask = inner, AutogradField(lift, x), AutogradField(bubble, x)

    def derivative(self, *axes: int) -> Tensor:
        """The partial derivative along these axes in turn, (n, m)."""
        total = self._lift.derivative(*axes).detach()
        for choice in range(2 ** len(axes)):
            masked = [axis for i, axis in enumerate(axes) if choice >> i & 1]
            rest = [axis for i, axis in enumerate(axes) if not choice >> i & 1]
            total = total + self._mask.derivative(*masked).detach() * self._inner.derivative(*rest)
        return total

    @property
    def laplacian(self) -> Tensor:
        """The sum of the second derivatives along each axis, (n, m)."""
        bubble, inner = self._mask, self._inner
        cross = sum(bubble.first(i).detach() * inner.first(i) for i in range(self.x.shape[1]))
        mixed = bubble.laplacian.detach() * inner.value + 2 * cross + bubble.value.detach() * inner.laplacian
        return self._lift.laplacian.detach() + mixed


def split(field: Field, *points: Tensor) -> list[Field]:
    """A field at many points as fields at these, in which its own are listed."""
    if len(points) == 1:
        return [field]
    ends = pairwise(accumulate((len(x) for x in points), initial=0))
    return [_Rows(field, x, slice(*rows)) for x, rows in zip(points, ends, strict=True)]


class _Rows(Field):
    """Some of the points of a field."""

    def __init__(self, whole: Field, x: Tensor, rows: slice) -> None:
        super().__init__(x)
        self._whole, self._rows = whole, rows

    def derivative(self, *axes: int) -> Tensor:
        """The partial derivative along these axes in turn, (n, m)."""
        return self._whole.derivative(*axes)[self._rows]

    @property
    def laplacian(self) -> Tensor:
        """The sum of the second derivatives along each axis, (n, m)."""
        return self._whole.laplacian[self._rows]


class _Recorder(AutogradField):
    """A field that notes what it is asked for."""

    def __init__(self, function: Callable[[Tensor], Tensor], x: Tensor) -> None:
        super().__init__(function, x)
        self.asked: set[tuple[int, ...]] = set()
        self.asked_laplacian = False
        self._silent = False

    def derivative(self, *axes: int) -> Tensor:
        if not self._silent:
            self.asked.add(tuple(sorted(axes)))
        self._silent, before = True, self._silent
        try:
            return super().derivative(*axes)
        finally:
            self._silent = before

    @property
    def laplacian(self) -> Tensor:
        self.asked_laplacian = True
        self._silent = True
        try:
            return super().laplacian
        finally:
            self._silent = False


def _layers(net: nn.Module, x: Tensor) -> tuple[Tensor, Layers] | None:
    """A network as points and layers of a jet, or None if it is not an MLP that jets know."""
    if isinstance(net, MLP):
        activation = ACTIVATIONS.get(net.activation)
        if activation is None or len(net.layers) < 2:
            return None
        shapes = [x.new_empty(()).expand(len(x), width) for width in net.sizes[1:-1]]
        masks = [net.draw_mask(i, like) for i, like in enumerate(shapes)]
        weights, biases = zip(*((layer.weight, layer.bias) for layer in net.linears), strict=True)
        layers = Layers(weights, biases, [activation] * len(masks), masks, net.reach)
        return (x - net.center) / net.reach, layers
    if isinstance(net, nn.Sequential) and len(net) % 2 and len(net) > 2:
        linears, functions = list(net)[::2], [function_of(module) for module in list(net)[1::2]]
        if all(isinstance(linear, nn.Linear) and linear.bias is not None for linear in linears):
            activations = [ACTIVATIONS[f] for f in functions if f is not None]
            if len(activations) == len(functions):
                weights, biases = zip(*((layer.weight, layer.bias) for layer in linears), strict=True)
                one = x.new_ones(x.shape[1])
                return x, Layers(weights, biases, activations, [None] * len(activations), one)
    return None
