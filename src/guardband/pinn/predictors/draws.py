"""Draws: one network with many sets of weights; where they disagree, it is unsure."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from guardband.base.arrays import Array, like, to_torch
from guardband.base.kept import kept
from guardband.pinn.networks.modules import doubled, own_modules
from guardband.values import Observations, Prediction, Predictor

AT_ONCE = 2_000_000
"""How many activations are held at a time: draws times points times the widest layer."""


class StackedWeights(Predictor):
    """What `Draws`, `Dropout`, `MeanFieldVI` and `HMC` share: a network with stacked weights (draws, ...)."""

    net: nn.Module
    stacked: dict[str, Tensor]
    training_data: Observations | None

    def __init__(
        self, net: nn.Module, stacked: Mapping[str, Tensor], training_data: Observations | None = None
    ) -> None:
        self.net = copy.deepcopy(net).eval()
        self.stacked, self.training_data = dict(stacked), training_data

    def __call__(self, x: Array) -> Prediction:
        """Mean and standard deviation over the draws; memory does not grow with their number."""
        parts = [torch.std_mean(doubled(part), dim=0) for part in self._parts(x)]
        spread, mean = (torch.cat(found) for found in zip(*parts, strict=True))
        return Prediction(x, like(x, mean), like(x, spread))

    def outputs(self, x: Array) -> Tensor:
        """What each draw says at x: (draws, n, m)."""
        return torch.cat(list(self._parts(x)), dim=1)

    def __len__(self) -> int:
        return len(next(iter(self.stacked.values())))

    @abstractmethod
    def __repr__(self) -> str:
        """How many draws, and of what kind."""

    def _parts(self, x: Array) -> Iterator[Tensor]:
        """What each draw says at a few points at a time."""
        points = to_torch(x).to(next(self.net.parameters()))
        widest = max(p.shape[0] for p in self.net.parameters())
        net = own_modules(self.net).eval()  # weights are exchanged in it
        with torch.no_grad():
            for part in points.split(max(1, AT_ONCE // (len(self) * widest))):
                yield vmap(lambda weights, part=part: functional_call(net, weights, (part,)))(self.stacked)


@kept
class Draws(StackedWeights):
    """A network with stacked weights (draws, ...): the mean over them, and their standard deviation as scale.

    Parameters that are not in `stacked` are shared by all draws. The draws are kept, so the predictor is a
    fixed function.
    Cost: as many evaluations of the network per point as there are draws.

    >>> import torch
    >>> from guardband import pinn
    >>> net = torch.nn.Linear(1, 1)
    >>> draws = pinn.predictors.Draws(net, {"bias": torch.tensor([[1.0], [2.0], [3.0]])})
    >>> draws(torch.zeros(1, 1)).mean, draws(torch.zeros(1, 1)).scale
    (tensor([[2.]]), tensor([[1.]]))
    """

    def __repr__(self) -> str:
        return f"Draws({len(self)} draws)"
