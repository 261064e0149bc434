"""LatentDistance: the distance to the training data in the penultimate layer, as a scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from guardband.base.arrays import rows, to_numpy
from guardband.base.kept import kept
from guardband.predictors.distance import FarFromData, nearest_of, root_mean_square, tree_of
from guardband.predictors.models import Model, call_model


@kept
@dataclass(frozen=True, eq=False)
class LatentDistance(FarFromData):
    """The distance between x and the training data in the penultimate layer of the network.

    Parameters
    ----------
    model
        The result of `pinn.fit`, or any model with `x_train` or `training_data`.
    x_train
        Training points, shape (n, d), or `Observations`; by default those of `model`.
    n_neighbors
        The number of nearest training points.
    training_data
        The training observations of the model.
    search
        The space in which neighbors are searched, "input" (as in the paper, arXiv:2509.13717) or "latent".
    features
        A function or module from x to the penultimate layer. Networks from `pinn.mlp` and
        `torch.nn.Sequential` define this layer.

    Notes
    -----
    Cost: none in addition to training; each point takes one evaluation and a tree search.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> predictor = pinn.predictors.LatentDistance(
    ...     pinn.mlp(1, [8, 8]), [0.0, 0.2, 0.4], n_neighbors=2
    ... )
    >>> predictor(np.array([[0.1], [2.0]])).scale.shape
    (2, 1)
    """

    search: Literal["input", "latent"] = "input"
    features: Model | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search not in ("input", "latent"):
            raise ValueError(f"`search` should be 'input' or 'latent', got {self.search!r}.")
        if self.features is None:
            object.__setattr__(self, "features", Features(penultimate(self.model)))

    def _distances(self, x: np.ndarray, left_out: bool) -> np.ndarray:
        latent = self._latent(x)
        if self.search == "latent":
            distances, _ = nearest_of(self._latent_tree, latent, self.n_neighbors, left_out)
        else:
            _, nearest = nearest_of(self._tree, x, self.n_neighbors, left_out)
            distances = np.linalg.norm(self._latent_train[nearest] - latent[:, None], axis=-1)
        return root_mean_square(distances)

    def _latent(self, x: np.ndarray) -> np.ndarray:
        assert self.features is not None
        return to_numpy(rows(call_model(self.features, x), "features"))

    @cached_property
    def _latent_train(self) -> np.ndarray:
        return self._latent(np.asarray(self.x_train))

    @cached_property
    def _latent_tree(self) -> Any:
        return tree_of(self._latent_train)


@kept(parts=lambda value: {"net": value.net}, made=lambda parts: Features(parts["net"]))
class Features(torch.nn.Module):
    """The penultimate layer of a network as a module."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer, (n, width)."""
        return self.net.features(x) if hasattr(self.net, "features") else self.net[:-1](x)  # type: ignore


def penultimate(model: Model) -> torch.nn.Module:
    """The network of a model with a known penultimate layer; otherwise raise an error with advice."""
    net = getattr(model, "net", model) if not hasattr(model, "features") else model
    if isinstance(net, torch.nn.Module) and (
        hasattr(net, "features") or isinstance(net, torch.nn.Sequential)
    ):
        return net
    raise ValueError(
        f"The penultimate layer of this {type(model).__name__} is unknown. Pass it as `features=`, a "
        "function from x (n, d) to that layer (n, width)."
    )
