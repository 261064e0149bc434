"""Derivatives of networks, by jets if these apply and otherwise by autograd.

Jets carry first and second derivatives (including mixed ones), and third and fourth derivatives along an
axis, through networks of linear layers with known activations. Autograd computes all other mixed derivatives,
higher orders, and derivatives of other networks. Both methods agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeAlias

import torch
from torch import Tensor, nn

from guardband.pinn.networks.jets import Channels, Jet, Layers, Memory, Passes, compiled_passes
from guardband.pinn.networks.traits import traits_of
from guardband.pinn.problems import AutogradField, Field, Names
from guardband.pinn.problems.field import Columns, pick

Residual: TypeAlias = Callable[[Tensor, Field], Tensor]
"""A function of points x and of the field u at these points, which should vanish."""


@dataclass(frozen=True)
class Needs:
    """The derivatives and Laplacians that a residual uses, as tuples of axes.

    >>> Needs(derivatives=frozenset({(0,), (1, 1)})).channels()
    Channels(axes=(0, 1), sums=(((1, 1),),), thirds=(), fourths=())
    """

    derivatives: frozenset[tuple[int, ...]] = frozenset()
    laplacians: frozenset[tuple[int, ...]] = frozenset()

    @property
    def only_value(self) -> bool:
        """Whether no derivative is needed."""
        return not (self.derivatives or self.laplacians)

    def cover(self, other: Needs) -> bool:
        """Whether the jet for these needs also serves other needs, if those are only first derivatives."""
        mine, others = self.channels(), other.channels()
        return mine is not None and others is not None and not others.sums and {*others.axes} <= {*mine.axes}

    def channels(self) -> Channels | None:
        """The jet that carries all derivatives; None if only autograd can compute them."""
        high = {along for along in self.derivatives if len(along) > 2}
        if any(len({*along}) > 1 or len(along) > 4 for along in high):
            return None
        pairs = {along for along in self.derivatives if len(along) == 2}
        pairs |= {(along[0], along[0]) for along in high}
        whole = []
        for over in sorted(
            self.laplacians
        ):  # a Laplacian takes one channel, unless its parts are needed as well
            parts = {(i, i) for i in over}
            if parts & pairs or len(parts) == 1:
                pairs |= parts
            else:
                whole.append(tuple((i, i) for i in over))
        used = {i for along in (*self.derivatives, *self.laplacians) for i in along}
        axes = tuple(sorted(used))
        sums = [*whole, *(((i, j),) for i, j in sorted(pairs))]
        return Channels(
            axes,
            tuple(tuple((axes.index(i), axes.index(j)) for i, j in part) for part in sums),
            tuple(sorted(axes.index(i) for i in {along[0] for along in high})),
            tuple(sorted(axes.index(along[0]) for along in high if len(along) == 4)),
        )


def needs_of(residual: Residual, net: nn.Module, x: Tensor, names: Names | None = None) -> Needs:
    """The derivatives that a residual uses, determined by evaluating it once at two points."""
    field = _Recorder(net, x[:2], names, torch.ones_like(x[:2]))
    training = net.training
    net.eval()
    try:
        residual(field.x.detach(), field)
    finally:
        net.train(training)
    return Needs(frozenset(field.asked - {()}), frozenset(field.asked_laplacians))


def differentiate(
    net: nn.Module, needs: Needs, names: Names | None = None, *, compile: bool = False
) -> Callable[[Tensor], Field]:
    """Return a function that evaluates a network and its derivatives, by jets if possible.

    Parameters
    ----------
    net
        The network.
    needs
        The derivatives that will be used; all other derivatives are computed by autograd.
    names
        The names of axes and outputs.
    compile
        Whether to compile the passes through the layers. The first call for a new shape then takes seconds.

    Returns
    -------
    Callable[[Tensor], Field]
        A function from points (n, d) to the field of the network at these points.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> from guardband.pinn.networks.derivatives import Needs
    >>> laplacian = Needs(laplacians=frozenset({(0, 1)}))
    >>> u = pinn.differentiate(pinn.mlp(2, [16, 16]), laplacian)(torch.zeros(5, 2))
    >>> u.laplacian.shape
    torch.Size([5, 1])
    """
    return differentiate_by(compiled_passes() if compile else None, net, needs, names)


def differentiate_by(
    passes: Passes | None, net: nn.Module, needs: Needs, names: Names | None = None
) -> Callable[[Tensor], Field]:
    """`differentiate` with the given passes through the layers; None means the in-place passes."""
    traits = traits_of(net)
    if traits.inner is not net:
        inner = differentiate_by(passes, traits.inner, needs, names)
        return lambda x: traits.compose(inner(x), x)
    if needs.only_value and passes is None:
        return lambda x: JetField(net, x, net(x)[None], Channels(), names)
    memory = Memory()
    channels = needs.channels()

    def jet_field(x: Tensor) -> Field:
        plan = None if channels is None else layers_of(traits, x)
        if plan is None or channels is None:
            return AutogradField(net, x, names)
        points, layers = plan
        jet = Jet.apply(points, layers, channels, memory, passes, *layers.weights, *layers.biases)
        return JetField(net, x, jet, channels, names)

    return jet_field


class NotCarried(LookupError):
    """A derivative was requested that a jet does not carry, and no network is available to compute it."""


class JetField(Field):
    """A field that reads from a jet (channels, n, m); autograd computes the derivatives not in the jet."""

    def __init__(
        self, net: nn.Module | None, x: Tensor, jet: Tensor, channels: Channels, names: Names | None = None
    ) -> None:
        super().__init__(x, names)
        self._net, self._jet, self._channels = net, jet, channels

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The derivative of some outputs along these axes, (n, m)."""
        position = self._channels.position(axes)
        if position is None:
            return self._by_autograd.partial(axes, columns)
        return pick(self._jet[position], columns)

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The sum of the second derivatives along each of these axes, (n, m)."""
        known = self._channels.axes
        if {*axes} <= {*known}:
            pairs = tuple((known.index(i), known.index(i)) for i in axes)
            position = self._channels.position_of_sum(pairs)
            if position is not None:
                return pick(self._jet[position], columns)
        return super().trace(axes, columns)

    @cached_property
    def _by_autograd(self) -> AutogradField:
        if self._net is None:
            raise NotCarried(
                "This jet does not carry the requested derivative and has no network to compute it."
            )
        if self._net.training and traits_of(self._net).stochastic:
            raise RuntimeError(
                "The first evaluation of the equation did not use this derivative, and dropout masks cannot "
                "be drawn twice. Use the same derivatives at every call."
            )
        return AutogradField(self._net, self.x, self.names)


class ConstrainedField(Field):
    """The field u = lift + bubble * net, differentiated by the product rule."""

    def __init__(
        self,
        inner: Field,
        lift: Callable[[Tensor], Tensor],
        bubble: Callable[[Tensor], Tensor],
        x: Tensor,
    ) -> None:
        super().__init__(x, inner.names)
        self._inner, self._lift, self._bubble = inner, AutogradField(lift, x), AutogradField(bubble, x)

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The derivative of some outputs along these axes, (n, m)."""
        total = _fixed(self._lift.partial(axes), columns)
        for choice in range(2 ** len(axes)):
            masked = tuple(axis for i, axis in enumerate(axes) if choice >> i & 1)
            rest = tuple(axis for i, axis in enumerate(axes) if not choice >> i & 1)
            bubble = _fixed(self._bubble.partial(masked), columns)
            total = total + bubble * self._inner.partial(rest, columns)
        return total

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The sum of the second derivatives along each of these axes, (n, m)."""
        bubble, inner = self._bubble, self._inner
        total = _fixed(self._lift.trace(axes), columns)
        total = total + _fixed(bubble.trace(axes), columns) * inner.partial((), columns)
        for i in axes:
            total = total + 2 * _fixed(bubble.partial((i,)), columns) * inner.partial((i,), columns)
        return total + _fixed(bubble.partial(()), columns) * inner.trace(axes, columns)


def _fixed(values: Tensor, columns: Columns) -> Tensor:
    """Columns of values that do not depend on the weights; a single column applies to all outputs."""
    return (values if values.shape[1] == 1 else pick(values, columns)).detach()


def split(field: Field, *points: Tensor) -> list[Field]:
    """Split a field at several concatenated sets of points into one field per set."""
    if len(points) == 1:
        return [field]
    ends = pairwise(accumulate((len(x) for x in points), initial=0))
    return [_Rows(field, x, slice(*rows)) for x, rows in zip(points, ends, strict=True)]


class _Rows(Field):
    """A field at some of the points of another field."""

    def __init__(self, whole: Field, x: Tensor, rows: slice) -> None:
        super().__init__(x, whole.names)
        self._whole, self._rows = whole, rows

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The derivative of some outputs along these axes, (n, m)."""
        return self._whole.partial(axes, columns)[self._rows]

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The sum of the second derivatives along each of these axes, (n, m)."""
        return self._whole.trace(axes, columns)[self._rows]


class _Recorder(AutogradField):
    """A field that records which derivatives are requested."""

    @cached_property
    def asked(self) -> set[tuple[int, ...]]:
        return set()

    @cached_property
    def asked_laplacians(self) -> set[tuple[int, ...]]:
        return set()

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        self.asked.add(axes)
        return super().partial(axes, columns)

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        self.asked_laplacians.add(axes)
        return torch.stack([AutogradField.partial(self, (i, i), columns) for i in axes]).sum(0)


def layers_of(net: nn.Module, x: Tensor) -> tuple[Tensor, Layers] | None:
    """The points and layers of a network for jets; None if jets do not apply to it."""
    return traits_of(net).as_layers(x)
