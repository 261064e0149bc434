"""Distance: a scale that grows with the distance to the training data."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from guardband.base.arrays import Array, ArrayLike, finite, like, rows, to_numpy
from guardband.base.kept import kept
from guardband.predictors.models import Model, call_model
from guardband.values import Observations, Prediction, Predictor

if TYPE_CHECKING:
    from scipy.spatial import KDTree


@dataclass(frozen=True, eq=False)
class FarFromData(Predictor):
    """A predictor whose scale is a distance to the training points, found with a k-d tree."""

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
            raise ValueError("Distance needs training points. Pass `x_train`, or the result of `fit`.")
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
        """Return the model's output, with the distance to the training data as its scale."""
        return self._predict(x, left_out=False)

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points as if each had been left out: a point is not its own neighbor."""
        return self._predict(x_train, left_out=True)

    def _predict(self, x: Array, left_out: bool) -> Prediction:
        mean = call_model(self.model, x)
        scale = like(mean, self._distances(to_numpy(x), left_out)[:, None])
        return Prediction(x, mean, scale * self._units(mean) + 0 * mean)

    def _units(self, mean: Array) -> Array | float:
        """One factor per output, the spread of its training targets: outputs may differ in unit."""
        m = mean.shape[-1]
        if m == 1 or self.training_data is None or self.training_data.y.shape[-1] != m:
            return 1.0
        spread = np.nanstd(to_numpy(self.training_data.y).astype(float).reshape(-1, m), axis=0)
        return like(mean, np.where(spread > 0, spread, 1.0))

    @abstractmethod
    def _distances(self, x: np.ndarray, left_out: bool) -> np.ndarray:
        """The distance of each x from the training data, shape (n,)."""

    @cached_property
    def _tree(self) -> KDTree:
        return tree_of(np.asarray(self.x_train))


@kept
@dataclass(frozen=True, eq=False)
class Distance(FarFromData):
    """A model whose scale is the root mean square distance to the nearest training points.

    Parameters
    ----------
    model
        The result of `pinn.fit`, which carries its training points, or any other model.
    x_train
        Training points, shape (n, d), or `Observations`. Needed if the model does not carry them.
    n_neighbors
        Number of nearest training points (K in arXiv:2509.13717).
    training_data
        Observations that the model was trained on, by default those that the model carries.

    Notes
    -----
    Distances are in the units of x, so rescale coordinates of different kinds first. The cost per point is
    one evaluation of the model and one search in a k-d tree. Nothing else is trained.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> predictor = gb.predictors.Distance(np.sin, [0.0, 0.2, 0.4], n_neighbors=2)
    >>> near, far = predictor(np.array([[0.1], [2.0]])).scale
    >>> bool(far > 10 * near)
    True
    """

    def _distances(self, x: np.ndarray, left_out: bool) -> np.ndarray:
        distances, _ = nearest_of(self._tree, x, self.n_neighbors, left_out)
        return root_mean_square(distances)


def tree_of(points: np.ndarray) -> KDTree:
    """A k-d tree of points (n, d)."""
    from scipy.spatial import KDTree

    return KDTree(points)


def nearest_of(tree: KDTree, x: np.ndarray, k: int, left_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices of the k nearest points, each (n, k); with `left_out`, x itself is excluded."""
    if not 1 <= k < tree.n:  # a forged file may hold any number
        raise ValueError(f"{k} neighbors cannot be found among {tree.n} points.")
    found = tree.query(x, k + 1, workers=int(os.environ.get("OMP_NUM_THREADS") or -1))
    distances, nearest = (np.asarray(part) for part in found)
    drop = left_out & (distances[:, :1] == 0)
    return np.where(drop, distances[:, 1:], distances[:, :-1]), np.where(
        drop, nearest[:, 1:], nearest[:, :-1]
    )


def root_mean_square(distances: np.ndarray) -> np.ndarray:
    """The root mean square over the neighbors, (n,)."""
    return np.sqrt(np.mean(distances**2, axis=1))
