"""Monte Carlo dropout: the spread of a network over random masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from guardband.base.arrays import Array, to_torch
from guardband.base.kept import kept
from guardband.export.modules import Spread, answer, network_of
from guardband.pinn.networks.traits import traits_of
from guardband.pinn.predictors import draws as stacks
from guardband.pinn.predictors.draws import StackedWeights
from guardband.pinn.predictors.masks import Masks, Silenced, balanced
from guardband.values import Observations


@kept
class Dropout(StackedWeights):
    """Monte Carlo dropout with fixed masks.

    In each draw the same neurons are dropped at all points, and each neuron is dropped in the same number of
    draws. If dropout acts only on the last hidden layer, the mean is that of the network without dropout.

    Parameters
    ----------
    model
        A network trained with dropout: the result of `pinn.fit` with `pinn.mlp(..., dropout=0.05)`, or any
        torch module that contains `torch.nn.Dropout` layers. Other dropout, such as
        `torch.nn.functional.dropout` or dropout inside an attention layer, is switched off.
    draws
        The number of masks.
    seed
        The seed of the masks.
    training_data
        The training observations of the network; by default those of `model`.

    Notes
    -----
    Cost: one training run with dropout. Each point takes `draws` evaluations, which involve only the last
    layer if dropout acts on the last hidden layer of an `mlp` or a `torch.nn.Sequential`.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> predictor = pinn.predictors.Dropout(pinn.mlp(1, [16, 16], dropout=0.1))
    >>> predictor(np.zeros((3, 1))).scale.shape
    (3, 1)
    """

    masks: Masks | None = None

    def __init__(
        self, model: Any, *, draws: int = 100, seed: int = 0, training_data: Observations | None = None
    ) -> None:
        net = model if isinstance(model, nn.Module) else getattr(model, "net", None)
        if not isinstance(net, nn.Module):
            raise TypeError(
                f"`model` should be a network or the result of `fit`, got {type(model).__name__}."
            )
        if draws < 2:
            raise ValueError(f"`draws` should be at least 2, got {draws}.")
        known = getattr(model, "training_data", None)
        if training_data is None and isinstance(known, Observations):
            training_data = known
        stacked, generator = {}, torch.Generator().manual_seed(seed)
        for name, (linear, p) in traits_of(net).dropped().items():
            weight = linear.weight.detach()
            stacked[name] = weight * balanced(p, draws, linear.in_features, generator).to(weight)[:, None]
        super().__init__(net, stacked, training_data)
        self.held_out: Observations | None = getattr(model, "held_out", None)
        if not stacked:
            self.masks = Masks.of(net, draws, seed)

    def __len__(self) -> int:
        return super().__len__() if self.masks is None else self.masks.draws

    def _parts(self, x: Array) -> Iterator[Tensor]:
        if self.masks is None:
            yield from super()._parts(x)
            return
        silenced = Silenced(self.net, self.masks)
        parameters = [p for p in self.net.parameters() if p.is_floating_point()]
        points = to_torch(x).to(parameters[0]) if parameters else to_torch(x)
        widest = max((max(p.shape, default=1) for p in parameters), default=1)
        with torch.no_grad():
            for part in points.split(max(1, stacks.AT_ONCE // (len(self) * widest))):
                yield silenced(part)

    def __repr__(self) -> str:
        return f"Dropout({len(self)} draws)"

    def as_module(self) -> nn.Module:
        """Return a torch module that evaluates all draws in one batch, for export.

        Returns
        -------
        nn.Module
            A module from x to mean and scale, without vmap.
        """
        return Spread(_Stacked(self) if self.masks is None else _Masked(self.net, self.masks))


class _Stacked(nn.Module):
    """The outputs of a network with stacked weights, (draws, n, m)."""

    def __init__(self, predictor: Dropout) -> None:
        super().__init__()
        self.net = network_of(predictor.net)
        for name, weight in predictor.stacked.items():
            owner = name.removesuffix(".weight")
            bias: Any = self.net.get_submodule(owner).bias
            self.net.set_submodule(owner, _StackedLinear(weight.cpu(), bias))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, (draws, n, m)."""
        return answer(self.net, x).double()


class _StackedLinear(nn.Module):
    """A linear layer with weights (draws, out, in): (n, in) or (draws, n, in) -> (draws, n, out)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.mT.contiguous(), requires_grad=False)
        self.bias = bias

    def forward(self, h: Tensor) -> Tensor:
        """The outputs of all draws."""
        h = h @ self.weight
        return h if self.bias is None else h + self.bias


class _Masked(nn.Module):
    """The outputs of a network under masks, (draws, n, m)."""

    def __init__(self, net: nn.Module, masks: Masks) -> None:
        super().__init__()
        self.net = Silenced(network_of(net), masks)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, (draws, n, m)."""
        parameter = next((p for p in self.net.parameters() if p.is_floating_point()), x)
        return self.net(x.to(parameter.dtype)).double()
