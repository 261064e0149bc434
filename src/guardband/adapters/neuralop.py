"""Neuraloperator: an operator between fields, such as an FNO, as a predictor of whole fields."""

from __future__ import annotations

import math

from guardband.base.arrays import Array, ArrayLike, floats, namespace
from guardband.predictors import MeanOnly
from guardband.predictors.models import Model, call_model
from guardband.values import Observations


def from_neuralop(
    model: Model, *, on_grid: bool = False, training_data: Observations | None = None
) -> MeanOnly:
    """A trained operator from fields x (N, channels, *grid) to fields, each answer (N, points, m).

    One row is one field, so y_cal is `nodes(fields)`, and so is the y of `training_data`. What is
    exchangeable is fields: `score=gb.Simultaneous()` holds a new field everywhere at once. For one node j
    alone, a probe, calibrate `MeanOnly(lambda x: predictor(x).mean[:, j])` on y[:, j]; for a random node of
    a new field, flatten the rows and let `gb.Clustered()` know which field each came from.

    With `on_grid=True` answers are (N, *grid, m), outputs last, for targets whose axes have names:
    `gb.Fields(np.moveaxis(fields, 1, -1), dims=("x", "y"))`.

    `model` is the torch module itself, of neuralop or of any other library; nothing is imported. If it was
    trained on normalized data, give a function that undoes that.

    >>> import numpy as np
    >>> from guardband.adapters import from_neuralop
    >>> operator = lambda x: np.concatenate([x, x**2], axis=1)  # an FNO goes in just so
    >>> from_neuralop(operator)(np.zeros((5, 1, 8, 8))).mean.shape
    (5, 64, 2)
    """
    turned = _outputs_last if on_grid else nodes
    return MeanOnly(lambda x: turned(call_model(model, _channeled(model, x))), training_data=training_data)


def _channeled(model: Model, x: Array) -> Array:
    """Fields as they are, if they can have the channels of the model."""
    channels = getattr(model, "in_channels", None)
    if x.ndim < 3 or (isinstance(channels, int) and x.shape[1] != channels):
        many = "channels" if channels is None else f"{channels} channels"
        raise ValueError(
            f"The fields that go in should be (N, {many}, *grid), got shape {tuple(x.shape)}. One channel is "
            "x[:, None]; channels that stand last are np.moveaxis(x, -1, 1)."
        )
    return x


def _outputs_last(fields: Array) -> Array:
    return namespace(fields).moveaxis(fields, 1, -1)


def nodes(fields: ArrayLike) -> Array:
    """Fields (N, m, *grid) as rows of nodes (N, points, m), the last axis of the grid running fastest.

    The way back is `values.swapaxes(1, 2).reshape(N, m, *grid)`.

    >>> import numpy as np
    >>> from guardband.adapters import nodes
    >>> nodes(np.zeros((5, 2, 8, 8))).shape
    (5, 64, 2)
    """
    fields = floats(fields, "fields")
    if fields.ndim < 3:
        raise ValueError(
            f"`fields` should be (N, m, *grid), got shape {tuple(fields.shape)}. One output on a line of "
            "nodes is fields[:, None]; a single field is fields[None]."
        )
    n, m, *grid = fields.shape
    return fields.reshape(n, m, math.prod(grid)).swapaxes(1, 2)
