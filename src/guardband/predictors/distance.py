"""Distance and LatentDistance: unsure where training data are far away."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from guardband.arrays import Array, ArrayLike, finite, like, rows, to_numpy
from guardband.kept import kept
from guardband.models import Model, call_model
from guardband.values import Observations, Prediction, Predictor


@dataclass(frozen=True, eq=False)
class _FarFromData(Predictor):
    """What both distances share: training points, and a tree of them."""

    model: Model
    x_train: ArrayLike | Observations = None
    n_neighbors: int = 20
    training_data: Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.x_train, Observations):
            object.__setattr__(self, "training_data", self.x_train)
            object.__setattr__(self, "x_train", self.x_train.x)
        training_data = (
            self.training_data
            if self.training_data is not None
            else getattr(self.model, "training_data", None)
        )
        training_data = training_data if isinstance(training_data, Observations) else None
        if self.x_train is None and training_data is None:
            raise ValueError("A distance needs training points: give `x_train`, or the result of `fit`.")
        x = training_data.x if self.x_train is None and training_data is not None else self.x_train
        x = to_numpy(finite(rows(x, "x_train"), "x_train"))
        if not 1 <= self.n_neighbors < len(x):
            raise ValueError(
                f"`n_neighbors` should be at least 1 and below the number of training points ({len(x)}), "
                f"got {self.n_neighbors}."
            )
        object.__setattr__(self, "x_train", x)
        object.__setattr__(self, "training_data", training_data)

    def __call__(self, x: Array) -> Prediction:
        """The model's output, and the distance to the training data as its scale."""
        return self._predict(x, left_out=False)

    def at_training(self, x_train: Array) -> Prediction:
        """The prediction at training points as if each had been left out: itself is no neighbor."""
        return self._predict(x_train, left_out=True)

    def _predict(self, x: Array, left_out: bool) -> Prediction:
        mean = call_model(self.model, x)
        scale = like(mean, self._distances(to_numpy(x), left_out)[:, None])
        return Prediction(x, mean, scale * self._units(mean) + 0 * mean)

    def _units(self, mean: Array) -> Array | float:
        """A distance is in units of x: several outputs get units of their own from the training targets."""
        m = mean.shape[-1]
        if m == 1 or self.training_data is None or self.training_data.y.shape[-1] != m:
            return 1.0
        spread = np.nanstd(to_numpy(self.training_data.y).astype(float).reshape(-1, m), axis=0)
        return like(mean, np.where(spread > 0, spread, 1.0))

    @abstractmethod
    def _distances(self, x: np.ndarray, left_out: bool) -> np.ndarray:
        """How far each x is from the training data, (n,)."""

    @cached_property
    def _tree(self) -> Any:
        return _tree_of(np.asarray(self.x_train))


@kept
@dataclass(frozen=True, eq=False)
class Distance(_FarFromData):
    """How far x is from the data: the root mean square distance to the nearest training points.

    `model` is what `fit` returned, which brings its training points, or any model with `x_train` (n, d)
    or `Observations` given. `n_neighbors` is K of the paper. Distances are in the units of x: scale your
    coordinates if they differ in kind.
    Cost: nothing beyond the training; per point one evaluation and a search in a tree.

    >>> import numpy as np
    >>> import guardband as gb
    >>> predictor = gb.predictors.Distance(np.sin, [0.0, 0.2, 0.4], n_neighbors=2)
    >>> near, far = predictor(np.array([[0.1], [2.0]])).scale
    >>> bool(far > 10 * near)
    True
    """

    def _distances(self, x: np.ndarray, left_out: bool) -> np.ndarray:
        distances, _ = _nearest(self._tree, x, self.n_neighbors, left_out)
        return _root_mean_square(distances)


@kept
@dataclass(frozen=True, eq=False)
class LatentDistance(_FarFromData):
    """How differently the network sees x and the data: the distance in its penultimate layer.

    The neighbors are the nearest in `search`: "input" space, as in the paper, or "latent" space.
    `features` is a function or module from x to the penultimate layer; networks made by `mlp` and
    `torch.nn.Sequential` bring their own.
    Cost: nothing beyond the training; per point one evaluation and a search in a tree.

    >>> import numpy as np
    >>> import guardband as gb
    >>> predictor = gb.predictors.LatentDistance(
    ...     gb.mlp(1, [8, 8]), [0.0, 0.2, 0.4], n_neighbors=2
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
            distances, _ = _nearest(self._latent_tree, latent, self.n_neighbors, left_out)
        else:
            _, nearest = _nearest(self._tree, x, self.n_neighbors, left_out)
            distances = np.linalg.norm(self._latent_train[nearest] - latent[:, None], axis=-1)
        return _root_mean_square(distances)

    def _latent(self, x: np.ndarray) -> np.ndarray:
        assert self.features is not None
        return to_numpy(rows(call_model(self.features, x), "features"))

    @cached_property
    def _latent_train(self) -> np.ndarray:
        return self._latent(np.asarray(self.x_train))

    @cached_property
    def _latent_tree(self) -> Any:
        return _tree_of(self._latent_train)


@kept(parts=lambda value: {"net": value.net}, made=lambda parts: Features(parts["net"]))
class Features(torch.nn.Module):
    """The penultimate layer of a network as a module, so that it is called like one."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer (n, width)."""
        return self.net.features(x) if hasattr(self.net, "features") else self.net[:-1](x)  # type: ignore


def penultimate(model: Model) -> torch.nn.Module:
    """The network in a model whose penultimate layer is known, or an error that says how to give it."""
    net = getattr(model, "net", model) if not hasattr(model, "features") else model
    if isinstance(net, torch.nn.Module) and (
        hasattr(net, "features") or isinstance(net, torch.nn.Sequential)
    ):
        return net
    raise ValueError(
        f"The penultimate layer of this {type(model).__name__} is not known. Give it as `features=`, "
        "a function from x (n, d) to that layer (n, width)."
    )


def _tree_of(points: np.ndarray) -> Any:
    from scipy.spatial import cKDTree  # type: ignore[attr-defined]

    return cKDTree(points)


def _nearest(tree: Any, x: np.ndarray, k: int, left_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Distances and positions of the k nearest points, (n, k); of x itself not, if it is to be left out."""
    if not 1 <= k < tree.n:  # a forged file may say anything
        raise ValueError(f"{k} neighbors cannot be found among {tree.n} points.")
    distances, nearest = tree.query(x, k + 1, workers=torch.get_num_threads())
    drop = left_out & (distances[:, :1] == 0)
    return np.where(drop, distances[:, 1:], distances[:, :-1]), np.where(
        drop, nearest[:, 1:], nearest[:, :-1]
    )


def _root_mean_square(distances: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(distances**2, axis=1))
