"""Quantiles: two models, or one with two answers, that say between which ends y lies most of the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from guardband.base.arrays import Array, rows
from guardband.base.kept import kept
from guardband.conformal.quantiles import QuantilePrediction
from guardband.predictors.models import Model, call_model
from guardband.values import Observations, Predictor
from guardband.values.frames import is_frame, numbers


@kept
@dataclass(frozen=True, eq=False)
class Quantiles(Predictor):
    """A model of a lower quantile and one of an upper, or one model that answers both, (n, 2).

    Models are torch modules, objects with `predict` such as the quantile regressors of scikit-learn and
    LightGBM, or functions of x (n, d). For a band at 90 % the natural pair is trained at 0.05 and 0.95; any
    pair will do, for any level, since calibration moves both ends by what is needed (`gb.CQR`).
    Cost: one evaluation of each model per point.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> x = draw.uniform(size=200)
    >>> y = x * draw.normal(size=200)  # more noise to the right
    >>> calibrated = gb.calibrate(gb.Quantiles(lambda x: -2 * x, lambda x: 2 * x), x, y)
    >>> calibrated([0.1, 0.9], level=0.9).width.ravel().round(1)
    array([0.3, 3.5])
    """

    takes_frames: ClassVar[bool] = True
    lower: Model
    upper: Model | None = None
    training_data: Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.lower, list | tuple):
            raise TypeError(
                f"Models are given one by one, gb.Quantiles(lower, upper), got a {type(self.lower).__name__}."
            )

    def __call__(self, x: Array) -> QuantilePrediction:
        """Both quantiles at x; the mean lies halfway."""
        at = numbers(x) if is_frame(x) else x
        lower = call_model(self.lower, x)
        if self.upper is None:
            return QuantilePrediction(at, *_two(rows(lower, "the model's output")))
        return QuantilePrediction(at, lower, call_model(self.upper, x))


def _two(both: Array) -> tuple[Array, Array]:
    """The two columns of an answer."""
    if both.ndim != 2 or both.shape[1] != 2:
        raise ValueError(
            "One model of two quantiles should answer (n, 2), the lower one first, got shape "
            f"{tuple(both.shape)}. Give two models, gb.Quantiles(lower, upper), or a function that returns "
            "gb.conformal.QuantilePrediction(x, lower, upper)."
        )
    return both[:, :1], both[:, 1:]
