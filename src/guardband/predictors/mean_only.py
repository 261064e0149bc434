"""MeanOnly: a model alone, with no idea of its own uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.predictors.models import Model, call_model, columns_of
from guardband.values import Observations, Prediction, Predictor
from guardband.values.frames import Columns, is_frame, numbers


@kept
@dataclass(frozen=True, eq=False)
class MeanOnly(Predictor):
    """Any trained model, equally unsure everywhere: calibration gives a band of constant width.

    `model` is a torch module, an object with `predict` such as a scikit-learn regressor, or a function from
    x (n, d) to outputs (n, m). With homoskedastic noise nothing beats this width, so it always stands beside
    cleverer scales. Give `training_data`, the observations the model was trained on, and calibration will
    refuse points it has seen; the result of `fit` brings its own.
    Cost: one evaluation of the model per point.

    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.predictors.MeanOnly(np.sin)(np.array([[0.0]])).mean
    array([[0.]])
    """

    takes_frames: ClassVar[bool] = True
    model: Model
    training_data: Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        known = getattr(self.model, "training_data", None)
        if self.training_data is None and isinstance(known, Observations):
            object.__setattr__(self, "training_data", known)

    def __call__(self, x: Array) -> Prediction:
        """The model's output as the mean, and no scale."""
        return Prediction(numbers(x) if is_frame(x) else x, call_model(self.model, x))

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points, in a frame where the model was fitted on one and names are known."""
        names = None if self.training_data is None else self.training_data.names
        if names is None or columns_of(self.model) is None or is_frame(x_train):
            return super().at_training(x_train)
        return self(Columns(names, names).framed(x_train))

    @property
    def estimator(self) -> Any:
        """The model, if it has what every estimator of scikit-learn has."""
        return self.model if hasattr(self.model, "predict") and hasattr(self.model, "get_params") else None
