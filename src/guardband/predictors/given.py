"""Given: a mean and a scale supplied by the user."""

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
    """A predictor from your own mean and scale.

    Both must be fixed functions, without new random numbers at each call.

    Parameters
    ----------
    mean
        Torch module or function from points, shape (n, d), to outputs, shape (n, m).
    scale
        Torch module or function of the same points that is large where large errors are likely, such as the
        standard deviation of a Gaussian process or an error estimator: shape (n, m), nonnegative, in the
        units of the mean. Its overall size does not matter, since calibration sets it.
    training_data
        Observations that the models were trained on; calibration refuses them.

    Examples
    --------
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
        """Evaluate both functions at x (n, d)."""
        at = numbers(x) if is_frame(x) else x
        return Prediction(at, call_model(self.mean, x), call_model(self.scale, x))
