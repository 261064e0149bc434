"""PredictionFunction: a user's function that returns predictions."""

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
    """A predictor from a function or any other callable that returns a `Prediction`.

    `gb.calibrate` wraps such callables automatically.

    Parameters
    ----------
    function
        Callable from points, shape (n, d), to a `Prediction`. Its attributes `training_data` and
        `at_training` are used if present.
    training_data
        Observations that the function was fitted to, by default those of its attribute.

    Examples
    --------
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
        """Call the function at x (n, d)."""
        return self.function(x)

    def at_training(self, x_train: Array) -> Prediction:
        """Call the function's `at_training` if it has one, otherwise the function itself."""
        return getattr(self.function, "at_training", self.function)(x_train)
