"""Constant: a model alone, with no idea of its own uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field

from guardband.arrays import Array
from guardband.models import Model, evaluate
from guardband.values import Observations, Prediction


@dataclass(frozen=True, eq=False)
class Constant:
    """Any trained model, equally unsure everywhere: calibration gives a band of constant width.

    `model` is a torch module or a function from x (n, d) to outputs (n, m). With homoskedastic noise
    nothing beats this width, so it always stands beside cleverer scales. Give `train`, the
    observations the model was trained on, and calibration will refuse points it has seen; the result
    of `fit` brings its own.
    Cost: one evaluation of the model per point.

    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.predictors.Constant(np.sin)(np.array([[0.0]])).mean
    array([[0.]])
    """

    model: Model
    train: Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        known = getattr(self.model, "train", None)
        if self.train is None and isinstance(known, Observations):
            object.__setattr__(self, "train", known)

    def __call__(self, x: Array) -> Prediction:
        """The model's output as the mean, and no scale."""
        return Prediction(x, evaluate(self.model, x))

    def at_training(self, x_train: Array) -> Prediction:
        """The prediction at training points; there is no scale that would need leaving one out."""
        return self(x_train)
