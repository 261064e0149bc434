"""Scales that follow the size of a surrogate's errors, each a predictor around another one.

A scale is fixed before calibration, so the guarantee holds for any scale; a good scale makes the band narrow.
It is learned from fields that are not used for calibration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter1d

from guardband.base.arrays import Array, ArrayLike, copy, like, to_numpy
from guardband.base.computed import computed
from guardband.base.kept import kept
from guardband.surrogates.growth import fitted_growth, powers, sizes
from guardband.values import Observations, Prediction, Predictor
from guardband.values.labeled import field_pair

FLOOR = 0.05
"""The scale at a node is at least this share of the mean scale of its field."""


class FieldScale(Predictor):
    """A predictor that keeps the mean of another one and replaces its scale."""

    predictor: Predictor

    @computed
    def training_data(self) -> Observations | None:
        """The training data of the inner predictor."""
        return self.predictor.training_data


@kept
@dataclass(frozen=True, eq=False)
class ConstantScale(FieldScale):
    """The same scale at every node of every field: the baseline of constant width.

    Parameters
    ----------
    predictor
        Predictor that gives the mean.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> inner = gb.predictors.MeanOnly(lambda x: x)
    >>> gb.surrogates.ConstantScale(inner)(np.zeros((2, 5, 1))).scale.max()
    np.float64(1.0)
    """

    predictor: Predictor

    def __call__(self, x: Array) -> Prediction:
        """Return the mean with a scale of 1."""
        found = self.predictor(x)
        return Prediction(found.x, found.mean, like(found.mean, np.ones(tuple(found.mean.shape))))


@kept
@dataclass(frozen=True, eq=False)
class SizeScale(FieldScale):
    """A power of the size of the input, its root mean square: larger inputs have larger errors.

    Parameters
    ----------
    predictor
        Predictor that gives the mean.
    power
        Power of the size; `fitted` learns it.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.array([1.0, 2.0, 4.0]).reshape(3, 1, 1) * np.ones((3, 5, 1))
    >>> inner = gb.predictors.MeanOnly(lambda x: 0 * x)
    >>> shape = gb.surrogates.SizeScale.fitted(inner, x, x**2)
    >>> round(shape.power, 2), shape(x).scale[:, 0, 0].round(2).tolist()
    (2.0, [1.0, 4.0, 16.0])
    """

    predictor: Predictor
    power: float

    @classmethod
    def fitted(
        cls, predictor: Predictor, x: ArrayLike, y: ArrayLike, *, prediction: Prediction | None = None
    ) -> SizeScale:
        """Fit the power to the largest error of each field, by least squares in logarithms.

        Parameters
        ----------
        predictor
            Predictor that gives the mean.
        x, y
            Input fields and targets that the predictor was not trained on.
        prediction
            Predictions of these fields, if they are already computed.

        Returns
        -------
        SizeScale
            The predictor with the fitted scale.
        """
        x, y, mean = residual_data(predictor, x, y, prediction)
        largest = abs(y - mean).reshape(len(y), -1).max(axis=1)
        return cls(predictor, fitted_growth(sizes(x), largest[:, None])[1])

    def __call__(self, x: Array) -> Prediction:
        """Return the mean with size^power as the scale at all nodes."""
        found = self.predictor(x)
        scale = powers(x, self.power).reshape(-1, *[1] * (found.mean.ndim - 1))
        whole = np.broadcast_to(scale, tuple(found.mean.shape)).copy()
        return Prediction(found.x, found.mean, like(found.mean, whole))


@kept
@dataclass(frozen=True, eq=False)
class SmoothedScale(FieldScale):
    """The scale of an ensemble or another predictor, averaged over neighboring nodes.

    The spread of a few members at a single node is noisy; averaging over neighbors reduces the noise. The
    result is a root mean square, and at least a twentieth of the mean scale of its field.

    Parameters
    ----------
    predictor
        Predictor that gives the mean and a scale.
    neighbors
        Number of nodes along each axis of the field over which the scale is averaged.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> members = [lambda x: x, lambda x: x + np.eye(5)[2][:, None]]
    >>> ensemble = gb.predictors.Ensemble(members)
    >>> smoothed = gb.surrogates.SmoothedScale(ensemble, 3)
    >>> smoothed(np.zeros((1, 5, 1))).scale.ravel().round(2).tolist()
    [0.01, 0.41, 0.41, 0.41, 0.01]
    """

    predictor: Predictor
    neighbors: int = 5

    def __call__(self, x: Array) -> Prediction:
        """Return the mean with the averaged scale."""
        found = self.predictor(x)
        if found.scale is None:
            raise ValueError(
                "There is no scale to smooth, since this predictor returns none. Use gb.predictors.Ensemble "
                "with several trained networks, or pinn.predictors.Dropout."
            )
        squares = np.asarray(to_numpy(found.scale), dtype=float) ** 2
        for axis in range(1, squares.ndim - 1):
            squares = uniform_filter1d(squares, self.neighbors, axis=axis, mode="nearest")
        scale = np.sqrt(np.maximum(squares, 0))
        axes = tuple(range(1, scale.ndim))
        scale = np.maximum(scale, FLOOR * scale.mean(axis=axes, keepdims=True))
        return Prediction(found.x, found.mean, like(found.mean, scale))


def residual_data(
    predictor: Predictor, x: ArrayLike, y: ArrayLike, prediction: Prediction | None
) -> tuple[Array, np.ndarray, np.ndarray]:
    """Inputs, targets and predicted means of held-out fields; shapes are checked."""
    seen = Observations(*field_pair(x, y))
    found = predictor(copy(seen.x)) if prediction is None else prediction
    if tuple(found.mean.shape) != tuple(seen.y.shape):
        raise ValueError(
            f"`y` should have the shape of the predictions, {tuple(found.mean.shape)}, got "
            f"{tuple(seen.y.shape)}."
        )
    return seen.x, to_numpy(seen.y).astype(float), to_numpy(found.mean).astype(float)
