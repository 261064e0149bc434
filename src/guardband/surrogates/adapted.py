"""Adapted: the best of several shapes, selected on fields that neither fit a shape nor calibrate the band."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from guardband.base.arrays import Array, ArrayLike, copy, to_numpy
from guardband.base.kept import kept
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level
from guardband.surrogates.scales import ConstantScale, SizeScale, SmoothedScale
from guardband.values import Observations, Prediction, Predictor
from guardband.values.labeled import field_pair

GAIN = 0.03
"""A shape is selected only if its band is narrower than the constant one by more than this fraction."""

Shape: TypeAlias = Callable[..., Predictor]
"""`shape(predictor, x, y, prediction=...)` fits a shape to fields, as `SizeScale.fitted` does."""

FEWEST = 8
"""Smallest number of fields that a shape is learned from."""


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Adapted(Predictor):
    """A predictor with the shape that gave the narrowest band on held-out fields.

    Calibration refuses all fields from which a shape was learned or selected.

    Parameters
    ----------
    predictor
        Predictor with the selected shape.
    chosen
        Name of the selected shape.
    widths
        Width of each shape on the fields used for selection, relative to the constant shape.
    held_out
        Fields from which the shapes were learned and selected; None if cross-fitted predictions of
        training fields were used instead.
    training_data
        Fields that the model was trained on.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> inner = gb.predictors.MeanOnly(np.sin)
    >>> gb.surrogates.Adapted(inner, "size", {"constant": 1.0, "size": 0.4})
    Adapted(size; widths over that of constant: constant 1.00, size 0.40)
    """

    predictor: Predictor
    chosen: str
    widths: dict[str, float]
    held_out: Observations | None = None
    training_data: Observations | None = field(default=None, kw_only=True)

    def __call__(self, x: Array) -> Prediction:
        """Predict with the selected shape."""
        return self.predictor(x)

    @property
    def learned_shape(self) -> str:
        """A sentence on the selected shape and the data used for the selection."""
        data = "cross-fitted predictions of training fields"
        if self.held_out is not None:
            data = f"{len(self.held_out)} fields, none of which the model should have been trained on"
        if self.chosen == "constant":
            return f"Shapes were tried on {data}; constant width was taken, so there is nothing to guard."
        return f"The shape ({self.chosen}) was learned and chosen before calibration, on {data}."

    def remarks(self, calibrated: Calibrated, prediction: Prediction, level: Level) -> list[str]:
        """A sentence on the selected shape."""
        return [f"The shape was chosen on fields of its own: {self.chosen}."]

    def __repr__(self) -> str:
        widths = ", ".join(f"{name} {width:.2f}" for name, width in self.widths.items())
        return f"Adapted({self.chosen}; widths over that of constant: {widths})"


def adapted(
    predictor: Predictor,
    x: ArrayLike,
    y: ArrayLike,
    *,
    prediction: Prediction | None = None,
    shapes: Mapping[str, Shape] | None = None,
    seed: int = 0,
) -> Adapted:
    """Return the predictor with a shape that follows its errors.

    Two thirds of the fields fit the shapes: a power of the size of the input, the predictor's own scale
    smoothed over neighbors, if it has one, and user-defined `shapes`. The other third selects one of them,
    or the constant shape unless another is narrower by more than 3 %. `pinn.surrogates.adapted` adds a second
    network.

    Parameters
    ----------
    predictor
        Predictor whose errors the shape follows.
    x, y
        Input fields and targets that the predictor was not trained on, unless `prediction` is given.
    prediction
        Cross-fitted predictions of training fields, by `cross_fitted`, if there are too few other fields.
    shapes
        Further shapes by name: functions `shape(predictor, x, y, prediction=...)` that return a predictor.
    seed
        Seed of the split into fitting and selection.

    Returns
    -------
    Adapted
        The predictor with the selected shape.

    Notes
    -----
    A shape changes the widths, not the guarantee, which remains marginal: `gb.evaluate` reports coverage by
    quartile of the input's size.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> size = np.exp(draw.normal(size=(60, 1, 1)))
    >>> x = size * draw.normal(size=(60, 16, 1))
    >>> inner = gb.predictors.MeanOnly(lambda x: 0 * x)
    >>> shaped = gb.surrogates.adapted(inner, x, x + 0.1 * size * draw.normal(size=x.shape))
    >>> shaped.chosen, list(shaped.widths)
    ('size', ['constant', 'size'])
    """
    seen = Observations(*field_pair(x, y))
    if len(seen) < FEWEST:
        raise ValueError(f"Learning and selecting a shape needs at least {FEWEST} fields, got {len(seen)}.")
    order = np.random.default_rng(seed).permutation(len(seen))
    fit, select = order[len(seen) // 3 :], order[: len(seen) // 3]
    predicted = predictor(copy(seen.x)) if prediction is None else prediction
    fitted = _shapes(predictor, seen, predicted, fit, shapes or {})
    scaled = {name: shape(seen.x[select]) for name, shape in fitted.items()}
    errors = abs(to_numpy(seen.y[select]).astype(float) - to_numpy(predicted.take(select).mean))
    logs = {name: _log_width(errors, to_numpy(found.scale).astype(float)) for name, found in scaled.items()}
    widths = {name: float(np.exp(value - logs["constant"])) for name, value in logs.items()}
    best = min(widths, key=lambda name: widths[name])
    chosen = best if widths[best] < 1 - GAIN else "constant"
    held_out = seen if prediction is None else None
    return Adapted(fitted[chosen], chosen, widths, held_out, training_data=predictor.training_data)


def cross_fitted(
    refit: Callable[[Array, Array], Predictor], x: ArrayLike, y: ArrayLike, *, folds: int = 3, seed: int = 0
) -> Prediction:
    """Predict training fields, each by a model that was trained without it.

    Parameters
    ----------
    refit
        Function `refit(x, y)` that trains a model on some of the fields and returns a predictor.
    x, y
        Training fields and their targets.
    folds
        Number of folds.
    seed
        Seed of the assignment of fields to folds.

    Returns
    -------
    Prediction
        The predicted means of all fields, without a scale.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.arange(12.0).reshape(6, 2, 1)
    >>> def refit(x, y):
    ...     return gb.predictors.MeanOnly(lambda new: new + (y - x).mean())
    >>> gb.surrogates.cross_fitted(refit, x, x + 1).mean.ravel()[:3]
    array([1., 2., 3.])
    """
    seen = Observations(*field_pair(x, y))
    if not 2 <= folds <= len(seen):
        raise ValueError(f"`folds` should be from 2 to the number of fields, {len(seen)}, got {folds}.")
    fold = np.random.default_rng(seed).permutation(len(seen)) % folds
    mean = np.empty(tuple(seen.y.shape))
    for k in range(folds):
        rest, part = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        mean[part] = to_numpy(refit(seen.x[rest], seen.y[rest])(seen.x[part]).mean)
    return Prediction(seen.x, mean)


def _shapes(
    predictor: Predictor,
    seen: Observations,
    prediction: Prediction,
    fit: np.ndarray,
    others: Mapping[str, Shape],
) -> Mapping[str, Predictor]:
    """The predictor with each shape, fitted to the rows `fit`."""
    x, y, some = seen.x[fit], seen.y[fit], prediction.take(fit)
    fitted: dict[str, Predictor] = {"constant": ConstantScale(predictor)}
    for name, shape in {"size": SizeScale.fitted, **others}.items():
        fitted[name] = shape(predictor, x, y, prediction=some)
    if prediction.scale is not None:
        fitted["smoothed"] = SmoothedScale(predictor)
    return fitted


def _log_width(errors: np.ndarray, scale: np.ndarray) -> float:
    """The logarithm of the mean width on these fields, averaged over the levels above one half."""
    with np.errstate(divide="ignore"):
        scores = np.sort((errors / scale).reshape(len(errors), -1).max(axis=1))
        upper = np.log(np.maximum(scores[len(scores) // 2 :], np.finfo(float).tiny))
    return float(upper.mean() + np.log(scale.mean()))
