"""Networks: multilayer perceptrons that know their domain, and hard constraints around them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from guardband.kept import kept
from guardband.pinn.activations import ACTIVATIONS
from guardband.problems import Box
from guardband.problems.conditions import Function


class MLP(nn.Module):
    """x -> (x - center) / reach -> linear, activation, ..., linear. Made by `mlp`.

    `features` is the penultimate layer. Dropout masks come from the network's own generator, never
    from the global one; they are drawn in training mode only.

    >>> import torch
    >>> import guardband as gb
    >>> net = gb.mlp(2, [32, 16])
    >>> net.sizes, net.features(torch.zeros(5, 2)).shape
    ((2, 32, 16, 1), torch.Size([5, 16]))
    """

    sizes: tuple[int, ...]
    activation: Function
    dropout: float
    where: Literal["last", "all"]
    generator: torch.Generator
    layers: nn.ModuleList
    center: Tensor
    reach: Tensor

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Function = torch.tanh,
        dropout: float = 0.0,
        where: Literal["last", "all"] = "last",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` should lie in [0, 1), got {dropout}.")
        self.sizes, self.activation, self.dropout, self.where = tuple(sizes), activation, dropout, where
        self.generator = torch.Generator().manual_seed(seed)
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList(nn.utils.skip_init(nn.Linear, n_in, n_out) for n_in, n_out in pairs)
        self.register_buffer("center", torch.zeros(sizes[0]))
        self.register_buffer("reach", torch.ones(sizes[0]))
        self._initialize()

    def forward(self, x: Tensor) -> Tensor:
        """The outputs (n, m) at points x (n, d)."""
        return self.linears[-1](self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """The penultimate layer (n, width): what the last, linear layer sees."""
        h = (x - self.center) / self.reach
        # Without gradients tanh works in place: one pass through memory less.
        in_place = self.activation is torch.tanh and not torch.is_grad_enabled()
        for i, layer in enumerate(self.linears[:-1]):
            h = layer(h).tanh_() if in_place else self.activation(layer(h))
            mask = self.draw_mask(i, h)
            h = h if mask is None else h * mask
        return h

    @property
    def linears(self) -> list[nn.Linear]:
        """The linear layers in order."""
        return list(self.layers)  # type: ignore[arg-type]

    def draw_mask(self, layer: int, like: Tensor) -> Tensor | None:
        """A dropout mask for the activations of a hidden layer, (n, width), or None if it has none."""
        last = len(self.layers) - 2
        if not self.training or self.dropout == 0 or (self.where == "last" and layer != last):
            return None
        keep = torch.rand(like.shape, generator=self.generator, dtype=torch.float32) >= self.dropout
        return keep.to(like) / (1 - self.dropout)

    def set_domain(self, domain: Box) -> None:
        """Scale the inputs so that the domain becomes [-1, 1] on every axis."""
        self.center.copy_(torch.tensor(domain.center))
        self.reach.copy_(torch.tensor(domain.reach))

    @torch.no_grad()
    def _initialize(self) -> None:
        """Xavier-uniform weights with the gain of tanh, biases uniform in +-1 / sqrt(fan in)."""
        for layer in self.linears:
            n_out, n_in = layer.weight.shape
            bound = 5 / 3 * math.sqrt(6 / (n_in + n_out))
            layer.weight.uniform_(-bound, bound, generator=self.generator)
            layer.bias.uniform_(-1 / math.sqrt(n_in), 1 / math.sqrt(n_in), generator=self.generator)


def mlp(
    d: int,
    widths: Sequence[int],
    *,
    outputs: int = 1,
    activation: Function = torch.tanh,
    dropout: float = 0.0,
    where: Literal["last", "all"] = "last",
    seed: int = 0,
) -> MLP:
    """A multilayer perceptron from d inputs through hidden widths to so many outputs.

    `activation` is a smooth function such as `torch.tanh`, `torch.sin` or `torch.nn.functional.gelu`.
    `dropout` acts on the last hidden layer only, unless `where="all"` (which usually ruins a PINN's fit).

    >>> import torch
    >>> import guardband as gb
    >>> gb.mlp(2, [16, 16])(torch.zeros(5, 2)).shape
    torch.Size([5, 1])
    """
    if isinstance(widths, int):
        raise TypeError(
            f"`widths` should list the hidden layers, such as [{widths}, {widths}], got {widths}."
        )
    return MLP([d, *widths, outputs], activation, dropout, where, seed)


LARGEST = 100_000
"""The widest layer of a network that is made of a file."""


def _parts(net: MLP) -> dict[str, Any] | None:
    if net.activation not in ACTIVATIONS:
        return None  # a function of somebody's own
    settings = {"sizes": list(net.sizes), "dropout": net.dropout, "where": net.where}
    return {**settings, "activation": net.activation.__name__, "weights": dict(net.state_dict())}


def _made(parts: dict[str, Any]) -> MLP:
    sizes, weights = parts["sizes"], parts["weights"]
    if not all(isinstance(size, int) and 0 < size <= LARGEST for size in sizes):
        raise ValueError(f"Layers should have 1 to {LARGEST} neurons, got {str(sizes)[:80]}.")
    if sum(a * b for a, b in itertools.pairwise(sizes)) > sum(w.numel() for w in weights.values()):
        raise ValueError("Layers should be as large as their weights, these are larger.")
    known = {function.__name__: function for function in ACTIVATIONS}
    net = MLP(sizes, known[parts["activation"]], parts["dropout"], parts["where"])
    net.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    return net.eval()


kept(parts=_parts, made=_made)(MLP)


class Constrained(nn.Module):
    """u = lift(x) + bubble(x) net(x): conditions met exactly, whatever the weights.

    `lift` meets the conditions and `bubble` vanishes where they hold (to second order where they speak of
    derivatives); a problem may bring both: `Constrained(net, problem.lift, problem.bubble)`.

    >>> import torch
    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> net = gb.Constrained(gb.mlp(1, [16, 16]), problem.lift, problem.bubble)
    >>> bool((net(torch.tensor([[0.0], [1.0]])) == 0).all())
    True
    """

    net: nn.Module
    lift: Function
    bubble: Function

    def __init__(self, net: nn.Module, lift: Function, bubble: Function) -> None:
        super().__init__()
        self.net, self.lift, self.bubble = net, lift, bubble

    def forward(self, x: Tensor) -> Tensor:
        """The outputs (n, m) at points x (n, d)."""
        return self.lift(x) + self.bubble(x) * self.net(x)

    def features(self, x: Tensor) -> Tensor:
        """The penultimate layer of the network inside."""
        return self.net.features(x)  # type: ignore[operator]
