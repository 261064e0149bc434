"""PredictionFunction: a function of the user's own that returns predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.values import Observations, Prediction, Predictor


@kept
@dataclass(frozen=True, eq=False)
class PredictionFunction(Predictor):
    """A function, or any object that can be called, from x (n, d) to a `Prediction`.

    `gb.calibrate` makes one of what it is given where that is no `Predictor` already. If the object has
    `training_data` or `at_training`, they are used.

    >>> import numpy as np
    >>> import guardband as gb
    >>> predictor = gb.predictors.PredictionFunction(
    ...     lambda x: gb.Prediction(x, np.sin(x), 1 + x**2)
    ... )
    >>> predictor(np.array([[0.0]])).scale
    array([[1.]])
    """

    takes_frames: ClassVar[bool] = True
    function: Callable[[Array], Prediction]
    training_data: Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        known = getattr(self.function, "training_data", None)
        if self.training_data is None and known is not None:
            object.__setattr__(self, "training_data", known)

    def __call__(self, x: Array) -> Prediction:
        """What the function says."""
        return self.function(x)

    def at_training(self, x_train: Array) -> Prediction:
        """What the object says of training points, or what it says of any."""
        return getattr(self.function, "at_training", self.function)(x_train)
