"""Adapted: the best of several shapes, chosen on fields that neither fit a shape nor calibrate the band."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from guardband.base.arrays import Array, ArrayLike, copy, to_numpy
from guardband.base.kept import kept
from guardband.surrogates.scales import ConstantScale, SizeScale, SmoothedScale
from guardband.values import Observations, Prediction, Predictor
from guardband.values.labeled import field_pair

GAIN = 0.03
"""A shape should promise a band narrower by this share than the constant one, or that is taken."""

Shape: TypeAlias = Callable[..., Predictor]
"""`shape(predictor, x, y, prediction=...)` fits a shape to fields, as `SizeScale.fitted` does."""

LEAST = 8
"""With fewer fields than this nothing is learned."""


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Adapted(Predictor):
    """A predictor with the shape that held-out fields preferred, and what they said of each.

    `widths` are the widths that each shape promised on the fields that chose, relative to the constant one.
    Calibration refuses all fields that a shape was learned or chosen by.

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
        """What the predictor with the chosen shape believes."""
        return self.predictor(x)

    @property
    def learned_shape(self) -> str:
        """Which shape was chosen, and on what."""
        data = "cross-fitted predictions of training fields"
        if self.held_out is not None:
            data = f"{len(self.held_out)} fields, which should be none that the model was trained on"
        if self.chosen == "constant":
            return f"Shapes were tried on {data}; constant width was taken, so there is nothing to guard."
        return f"The shape ({self.chosen}) was learned and chosen before calibration, on {data}."

    def remarks(self, calibrated: Any, prediction: Prediction, level: Any) -> list[str]:
        """Which shape was chosen."""
        return [f"The shape was chosen on fields of its own: {self.chosen}."]

    def __repr__(self) -> str:
        said = ", ".join(f"{name} {width:.2f}" for name, width in self.widths.items())
        return f"Adapted({self.chosen}; widths over that of constant: {said})"


def adapted(
    predictor: Predictor,
    x: ArrayLike,
    y: ArrayLike,
    *,
    prediction: Prediction | None = None,
    shapes: Mapping[str, Shape] | None = None,
    seed: int = 0,
) -> Adapted:
    """The predictor with a shape that follows its errors, learned from fields x, y it was not trained on.

    Two thirds of the fields fit the shapes: a power of the size of the input, `shapes` of your own by name,
    and the predictor's own scale smoothed over neighbors, if it has one. `pinn.surrogates.adapted` adds a
    second network. The others choose, and the constant shape is
    taken unless one is narrower by more than 3 %. A shape changes widths, not the promise; and adaptive is
    not conditional: `gb.evaluate` shows coverage by quarters of the input's size. Where fields are dear,
    `prediction` holds cross-fitted predictions of training fields, by `cross_fitted`.

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
    if len(seen) < LEAST:
        raise ValueError(f"A shape is learned and chosen by {LEAST} fields or more, got {len(seen)}.")
    order = np.random.default_rng(seed).permutation(len(seen))
    fit, choose = order[len(seen) // 3 :], order[: len(seen) // 3]
    made = predictor(copy(seen.x)) if prediction is None else prediction
    fitted = _shapes(predictor, seen, made, fit, shapes or {})
    some = made.take(choose)
    asked = {name: shape(seen.x[choose]) for name, shape in fitted.items()}
    miss = abs(to_numpy(seen.y[choose]).astype(float) - to_numpy(some.mean))
    logs = {name: _log_width(miss, to_numpy(found.scale).astype(float)) for name, found in asked.items()}
    widths = {name: float(np.exp(value - logs["constant"])) for name, value in logs.items()}
    best = min(widths, key=lambda name: widths[name])
    chosen = best if widths[best] < 1 - GAIN else "constant"
    held_out = seen if prediction is None else None
    return Adapted(fitted[chosen], chosen, widths, held_out, training_data=predictor.training_data)


def cross_fitted(
    refit: Callable[[Any, Any], Predictor], x: ArrayLike, y: ArrayLike, *, folds: int = 3, seed: int = 0
) -> Prediction:
    """Predictions of training fields, each by a model that `refit(x, y)` trained without them.

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
    predictor: Predictor, seen: Observations, made: Prediction, fit: np.ndarray, others: Mapping[str, Shape]
) -> Mapping[str, Predictor]:
    x, y, some = seen.x[fit], seen.y[fit], made.take(fit)
    fitted: dict[str, Predictor] = {"constant": ConstantScale(predictor)}
    for name, shape in {"size": SizeScale.fitted, **others}.items():
        fitted[name] = shape(predictor, x, y, prediction=some)
    if made.scale is not None:
        fitted["smoothed"] = SmoothedScale(predictor)
    return fitted


def _log_width(miss: np.ndarray, scale: np.ndarray) -> float:
    """The logarithm of the mean width over the levels from a half up, as the fields that choose see it."""
    with np.errstate(divide="ignore"):
        scores = np.sort((miss / scale).reshape(len(miss), -1).max(axis=1))
        upper = np.log(np.maximum(scores[len(scores) // 2 :], np.finfo(float).tiny))
    return float(upper.mean() + np.log(scale.mean()))
