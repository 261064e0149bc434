"""Dropout masks for networks of any structure."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from guardband.base.kept import kept
from guardband.pinn.networks.traits import DROPOUT, core_of, traits_of

OTHERS = DROPOUT[1:]
"""Dropout layers that do not drop individual neurons."""


@kept(name="DropoutMasks")
@dataclass(frozen=True, eq=False)
class Masks:
    """Dropout masks for every call of every `torch.nn.Dropout` in a network, with `draws` masks each.

    In each draw all points share the mask. A mask is drawn when the size of its layer is first known, only
    from `seed` and the layer's name, so the order of calls does not matter. It is then stored. `layers` maps
    the names of the layers to their rates.
    """

    layers: dict[str, float]
    draws: int
    seed: int
    drawn: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, net: nn.Module, draws: int, seed: int) -> Masks:
        """The masks of a network; if it cannot have masks, an error explains the reason."""
        kind = type(net).__name__
        layers = {name: part.p for name, part in net.named_modules() if isinstance(part, nn.Dropout)}
        for name, part in net.named_modules():
            if (isinstance(part, OTHERS) and part.p) or _hidden(part):
                raise ValueError(
                    f"`{name}` of this {kind}, a {type(part).__name__}, has dropout of an unsupported kind. "
                    "Use torch.nn.Dropout throughout."
                )
        if not layers:
            raise ValueError(
                f"This {kind} has no layer torch.nn.Dropout. Train a network with `pinn.mlp(..., "
                "dropout=0.05)`, "
                "or with torch.nn.Dropout as a separate layer; torch.nn.functional.dropout cannot be "
                "detected."
            )
        if not any(layers.values()):
            raise ValueError(
                f"Every Dropout of this {kind} has p = 0, so no neuron was ever dropped. Train with p > 0."
            )
        if max(layers.values()) >= 1:
            raise ValueError(f"A Dropout of this {kind} has p = 1, so no neuron is left. Train with p < 1.")
        return cls({name: p for name, p in layers.items() if p}, draws, seed)

    def mask(self, layer: str, call: int, h: Tensor) -> Tensor:
        """The masks (draws, features) of a layer for inputs (rows, features) at the call with this index."""
        features, key = h.shape[1:], f"{layer} {call}"
        if key not in self.drawn:
            digest = hashlib.sha256(f"{self.seed} {key}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            with torch.inference_mode(False):  # the result is reused in other modes
                made = balanced(self.layers[layer], self.draws, features.numel(), generator)
                self.drawn[key] = made.view(self.draws, *features)
        mask = self.drawn[key]
        if h.shape[0] % self.draws or mask.shape[1:] != features:
            raise ValueError(
                f"A Dropout should receive one row per point, all of the same size, but `{layer}` received "
                f"the shape {tuple(h.shape)} for {self.draws} draws, after rows of {tuple(mask.shape[1:])}. "
                "Make points the first dimension of its input."
            )
        return mask.to(h)


def _hidden(part: nn.Module) -> bool:
    """Whether a module has dropout that is not a torch layer."""
    random = core_of(part) is part and traits_of(part).stochastic
    return random and not any(isinstance(layer, DROPOUT) for layer in part.modules())


class Silenced(nn.Module):
    """A network under masks: x (n, d) -> (draws, n, m).

    The layers are copies that share the weights of the original, and masks act on the outputs of the copied
    Dropout layers. A call changes the state of the module, so every thread needs its own instance.
    """

    net: nn.Module
    masks: Masks
    calls: Counter[str]

    def __init__(self, net: nn.Module, masks: Masks) -> None:
        super().__init__()
        weights = {id(parameter): parameter for parameter in net.parameters()}
        self.net, self.masks, self.calls = copy.deepcopy(net, weights).eval(), masks, Counter[str]()
        for name in masks.layers:
            self.net.get_submodule(name).register_forward_hook(partial(self._silence, name))

    def _silence(self, name: str, layer: nn.Module, _: object, h: Tensor) -> Tensor:
        mask = self.masks.mask(name, self.calls[name], h)[:, None]
        self.calls[name] += 1
        parts = h.unflatten(0, (len(mask), -1))  # the rows of the draws are concatenated
        return (parts.mul_(mask) if getattr(layer, "inplace", False) else parts * mask).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, (draws, n, m)."""
        self.calls.clear()
        u = self.net(x.repeat(self.masks.draws, *[1] * (x.ndim - 1)))
        kind = type(self.net).__name__
        if not isinstance(u, Tensor):
            raise TypeError(
                f"A model should return one array, but this {kind} returned a {type(u).__name__}. Wrap it "
                "in a module that selects the relevant part."
            )
        if not self.calls:
            raise ValueError(
                f"No Dropout of this {kind} was used in its forward pass, so all draws are the same. Call "
                "the Dropout layer in `forward`."
            )
        return (u[:, None] if u.ndim == 1 else u).unflatten(0, (self.masks.draws, -1))


def balanced(p: float, draws: int, width: int, generator: torch.Generator) -> Tensor:
    """Masks (draws, width) that drop every neuron equally often, so that their mean is 1."""
    silent = min(max(1, round(p * draws)), draws - 1)
    order = torch.rand(draws, width, generator=generator, dtype=torch.float32).argsort(dim=0)
    return (order >= silent).to(torch.float32) / (1 - silent / draws)
