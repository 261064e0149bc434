"""Quantiles: models of a lower and an upper conditional quantile."""

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
    """A predictor from two quantile models, or from one model that returns both quantiles.

    Models are torch modules, objects with `predict` such as the quantile regressors of scikit-learn and
    LightGBM, or functions of points, shape (n, d).

    Parameters
    ----------
    lower
        Model of the lower quantile; without `upper`, a model that returns both quantiles, shape (n, 2).
    upper
        Model of the upper quantile.
    training_data
        Observations that the models were trained on; calibration refuses them.

    Notes
    -----
    The natural pair for a band at 90 % is 0.05 and 0.95. Any other pair is valid at any level, since
    calibration shifts both ends as far as needed (`gb.CQR`).

    Examples
    --------
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
                f"Pass two arguments, gb.Quantiles(lower, upper), got a {type(self.lower).__name__}."
            )

    def __call__(self, x: Array) -> QuantilePrediction:
        """Return both quantiles at x; the mean is halfway between them."""
        at = numbers(x) if is_frame(x) else x
        lower = call_model(self.lower, x)
        if self.upper is None:
            return QuantilePrediction(at, *_two(rows(lower, "the model's output")))
        return QuantilePrediction(at, lower, call_model(self.upper, x))


def _two(both: Array) -> tuple[Array, Array]:
    """The two columns of an output (n, 2)."""
    if both.ndim != 2 or both.shape[1] != 2:
        raise ValueError(
            "A model of both quantiles should return shape (n, 2), the lower quantile first, got shape "
            f"{tuple(both.shape)}. Pass two models, gb.Quantiles(lower, upper), or a function that returns "
            "gb.conformal.QuantilePrediction(x, lower, upper)."
        )
    return both[:, :1], both[:, 1:]
