"""The base class of scores for whole fields, (N, points, m), or (N, *grid, m) with named axes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np

from guardband.base.arrays import Array, ArrayLike, finite, floats, like, to_numpy
from guardband.conformal.scores import Symmetric
from guardband.values import Prediction
from guardband.values.grids import FieldGrid


class Shaped(Symmetric):
    """|y - mean| / shape at every node, where the shape is given, or else the predictor's scale, or else 1.

    A shape describes where and when errors are large. It must not be computed from the calibration fields.
    """

    shape: np.ndarray | None
    follows_scale: bool

    @abstractmethod
    def on(self, grid: FieldGrid) -> Self:
        """Return the score for fields with these axes."""

    def unit(self, prediction: Prediction) -> Array | float:
        """Return the shape, the same for every field, or the predictor's scale if no shape is given."""
        refuse_points(prediction, self.grid)
        if self.shape is None:
            return 1.0 if prediction.scale is None or not self.follows_scale else prediction.scale
        if self.shape.shape != tuple(prediction.mean.shape[1:]):
            raise ValueError(
                f"`shape` should fit the fields, {tuple(prediction.mean.shape[1:])}, got {self.shape.shape}."
            )
        return like(prediction.mean, np.broadcast_to(self.shape, prediction.mean.shape).copy())


def refuse_points(prediction: Prediction, grid: FieldGrid | None) -> None:
    """Raise an error for points, and for fields with unnamed axes."""
    shape = tuple(prediction.mean.shape)
    if grid is not None and shape[1:-1] != grid.shape:
        raise ValueError(f"Fields on {grid} should be (N, *{grid.shape}, m), got {shape}.")
    if grid is None and len(shape) > 3:
        raise ValueError(
            f"Which axes of the fields {shape} are space, time and outputs? Name them, outputs last: "
            'y_cal=gb.Fields(values, dims=("x", "y")), an axis of time as "t"; or give an xarray DataArray.'
        )
    if len(shape) < 3:
        raise ValueError(
            "A promise about whole fields needs exchangeable fields (N, points, m); these are points, "
            f"{shape}. One network of one equation has no second field to learn from: predict for many "
            "inputs, coefficients or experiments. Fields of one output (N, points) are values[..., None]."
        )


def same_shape(prediction: Prediction, y: Array) -> None:
    """Raise an error for targets that do not have the shape of the predictions."""
    if tuple(y.shape) != tuple(prediction.mean.shape):
        raise ValueError(
            f"`y` should have the shape of the predictions, {tuple(prediction.mean.shape)}, "
            f"got {tuple(y.shape)}."
        )


def positive(values: ArrayLike, name: str, what: str) -> np.ndarray:
    """Numbers > 0, as float64, validated."""
    array = np.asarray(to_numpy(finite(floats(values, name), name)), dtype=float)
    if not array.size or not (array > 0).all():
        least = f"{array.min():g} at one" if array.size else "none"
        raise ValueError(f"`{name}` should be positive at every node, {what}; got {least}.")
    return array


def node_weights(weights: np.ndarray | None, grid: FieldGrid | None, prediction: Prediction) -> np.ndarray:
    """The weight of each node, (points,): as given, else from the cells of the grid, else equal."""
    nodes = tuple(prediction.mean.shape[1:-1])
    if weights is not None:
        if weights.size != np.prod(nodes, dtype=int) or weights.shape not in (nodes, (weights.size,)):
            raise ValueError(f"`weights` should be one number per node, {nodes}, got shape {weights.shape}.")
        return weights.reshape(-1)
    if grid is not None:
        return grid.cells.reshape(-1)
    return np.ones(int(np.prod(nodes, dtype=int)))
