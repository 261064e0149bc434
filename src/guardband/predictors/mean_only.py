"""MeanOnly: a model without a scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.predictors.models import Model, call_model, columns_of
from guardband.values import Observations, Prediction, Predictor
from guardband.values.frames import Columns, is_frame, numbers


@kept
@dataclass(frozen=True, eq=False)
class MeanOnly(Predictor):
    """Any trained model as a predictor without a scale: calibration gives a band of constant width.

    No scale beats a constant one if the noise is homoscedastic, so this is the baseline for all others.

    Parameters
    ----------
    model
        Torch module, object with `predict` such as a scikit-learn regressor, or function from points, shape
        (n, d), to outputs, shape (n, m).
    training_data
        Observations that the model was trained on; calibration refuses these points. The result of `pinn.fit`
        carries its own.

    Examples
    --------
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
        """Return the model's output as the mean, without a scale."""
        return Prediction(numbers(x) if is_frame(x) else x, call_model(self.model, x))

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points, passed as a frame if the model was fitted to one with known names."""
        names = None if self.training_data is None else self.training_data.names
        if names is None or columns_of(self.model) is None or is_frame(x_train):
            return super().at_training(x_train)
        return self(Columns(names, names).framed(x_train))

    @property
    def estimator(self) -> Model | None:
        """The model, if it has the methods that all scikit-learn estimators have."""
        return self.model if hasattr(self.model, "predict") and hasattr(self.model, "get_params") else None
