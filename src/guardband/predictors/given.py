"""Given: a mean and a scale that the user already has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.predictors.models import Model, call_model
from guardband.values import Observations, Prediction, Predictor
from guardband.values.frames import is_frame, numbers


@kept
@dataclass(frozen=True, eq=False)
class Given(Predictor):
    """Your own mean and your own uncertainty: two torch modules or functions of x (n, d).

    `scale` says where the error is likely to be large, (n, m) and >= 0, in the units of the mean; a
    Gaussian process's standard deviation, a second network, an error estimator. Its size does not
    matter, calibration sets it. Both must be fixed functions: no fresh randomness at each call.
    Cost: one evaluation of each per point.

    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.predictors.Given(np.sin, lambda x: 0.1 + x**2)(np.array([[0.0]])).scale
    array([[0.1]])
    """

    takes_frames: ClassVar[bool] = True
    mean: Model
    scale: Model
    training_data: Observations | None = field(default=None, kw_only=True)

    def __call__(self, x: Array) -> Prediction:
        """Both functions at x."""
        at = numbers(x) if is_frame(x) else x
        return Prediction(at, call_model(self.mean, x), call_model(self.scale, x))
