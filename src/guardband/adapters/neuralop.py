"""Neuraloperator: an operator between fields, such as an FNO, as a predictor."""

from __future__ import annotations

import math

from guardband.base.arrays import Array, ArrayLike, floats, namespace
from guardband.predictors import MeanOnly
from guardband.predictors.models import Model, call_model
from guardband.values import Observations


def from_neuralop(
    model: Model, *, on_grid: bool = False, training_data: Observations | None = None
) -> MeanOnly:
    """Return a trained operator as a predictor of whole fields, without a scale.

    Parameters
    ----------
    model
        Torch module of neuralop or any other library, from fields of shape (N, channels, *grid) to fields of
        shape (N, m, *grid). If it was trained on normalized data, pass a function that
        reverses the normalization.
    on_grid
        Return fields of shape (N, *grid, m), for targets with named axes:
        `gb.Fields(np.moveaxis(fields, 1, -1), dims=("x", "y"))`. By default predictions have shape
        (N, points, m), and targets are `nodes(fields)`.
    training_data
        Fields that the model was trained on, with targets in the form used for calibration, which refuses
        these fields.

    Returns
    -------
    MeanOnly
        Predictor with one row per field.

    Notes
    -----
    The exchangeable units are fields. `score=gb.Simultaneous()` covers a new field at all nodes at once. For
    a single node j, calibrate `MeanOnly(lambda x: predictor(x).mean[:, j])` on y[:, j]. For a random node of
    a new field, flatten the rows and pass the field of each row as its group to `gb.Clustered()`.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband.adapters import from_neuralop
    >>> operator = lambda x: np.concatenate([x, x**2], axis=1)  # stands for an FNO
    >>> from_neuralop(operator)(np.zeros((5, 1, 8, 8))).mean.shape
    (5, 64, 2)
    """
    rearranged = _outputs_last if on_grid else nodes
    return MeanOnly(
        lambda x: rearranged(call_model(model, _checked_channels(model, x))), training_data=training_data
    )


def _checked_channels(model: Model, x: Array) -> Array:
    """The fields, if their shape fits the channels of the model; otherwise a `ValueError`."""
    channels = getattr(model, "in_channels", None)
    if x.ndim < 3 or (isinstance(channels, int) and x.shape[1] != channels):
        expected = "channels" if channels is None else f"{channels} channels"
        raise ValueError(
            f"The input fields should be (N, {expected}, *grid), got shape {tuple(x.shape)}. For one "
            "channel, pass x[:, None]; for channels last, use np.moveaxis(x, -1, 1)."
        )
    return x


def _outputs_last(fields: Array) -> Array:
    return namespace(fields).moveaxis(fields, 1, -1)


def nodes(fields: ArrayLike) -> Array:
    """Flatten the grid of fields into nodes, with the last axis varying fastest.

    `values.swapaxes(1, 2).reshape(N, m, *grid)` is the inverse.

    Parameters
    ----------
    fields
        Fields, shape (N, m, *grid).

    Returns
    -------
    Array
        Values at the nodes, shape (N, points, m).

    Examples
    --------
    >>> import numpy as np
    >>> from guardband.adapters import nodes
    >>> nodes(np.zeros((5, 2, 8, 8))).shape
    (5, 64, 2)
    """
    fields = floats(fields, "fields")
    if fields.ndim < 3:
        raise ValueError(
            f"`fields` should be (N, m, *grid), got shape {tuple(fields.shape)}. For one output on a line of "
            "nodes, pass fields[:, None]; for a single field, fields[None]."
        )
    n, m, *grid = fields.shape
    return fields.reshape(n, m, math.prod(grid)).swapaxes(1, 2)
