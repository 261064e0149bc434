"""A network with many draws of its weights, whose spread is the scale."""

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
"""The largest number of activations in memory: draws times points times the widest layer."""


class StackedWeights(Predictor):
    """A network with stacked weights (draws, ...), the base of Monte Carlo predictors."""

    net: nn.Module
    stacked: dict[str, Tensor]
    training_data: Observations | None

    def __init__(
        self, net: nn.Module, stacked: Mapping[str, Tensor], training_data: Observations | None = None
    ) -> None:
        self.net = copy.deepcopy(net).eval()
        self.stacked, self.training_data = dict(stacked), training_data

    def __call__(self, x: Array) -> Prediction:
        """Mean and standard deviation over the draws, with memory independent of the number of draws."""
        parts = [torch.std_mean(doubled(part), dim=0) for part in self._parts(x)]
        spread, mean = (torch.cat(found) for found in zip(*parts, strict=True))
        return Prediction(x, like(x, mean), like(x, spread))

    def outputs(self, x: Array) -> Tensor:
        """Return the outputs of each draw.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The outputs, shape (draws, n, m).
        """
        return torch.cat(list(self._parts(x)), dim=1)

    def __len__(self) -> int:
        return len(next(iter(self.stacked.values())))

    @abstractmethod
    def __repr__(self) -> str:
        """The kind and the number of draws."""

    def _parts(self, x: Array) -> Iterator[Tensor]:
        """The outputs of each draw, for a few points at a time."""
        points = to_torch(x).to(next(self.net.parameters()))
        widest = max(p.shape[0] for p in self.net.parameters())
        net = own_modules(self.net).eval()  # `functional_call` replaces its weights
        with torch.no_grad():
            for part in points.split(max(1, AT_ONCE // (len(self) * widest))):
                yield vmap(lambda weights, part=part: functional_call(net, weights, (part,)))(self.stacked)


@kept
class Draws(StackedWeights):
    """A network with given draws of its weights, which returns the mean with the standard deviation as scale.

    The draws are stored, so the predictor is a fixed function.

    Parameters
    ----------
    net
        The network.
    stacked
        Draws of some parameters by name, each of shape (draws, ...). All draws share the other parameters.
    training_data
        The training observations of the network.

    Notes
    -----
    Cost: one evaluation of the network per point and draw.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> net = torch.nn.Linear(1, 1)
    >>> draws = pinn.predictors.Draws(net, {"bias": torch.tensor([[1.0], [2.0], [3.0]])})
    >>> draws(torch.zeros(1, 1)).mean, draws(torch.zeros(1, 1)).scale
    (tensor([[2.]]), tensor([[1.]]))
    """

    net: nn.Module
    stacked: dict[str, Tensor]

    def __repr__(self) -> str:
        return f"Draws({len(self)} draws)"
