"""`Quantity`: intervals for quantities derived from a field, such as a mean, a maximum or a drag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from guardband.base.arrays import Array, ArrayLike, copy, like, to_numpy
from guardband.base.kept import kept
from guardband.conformal.rank import Level
from guardband.conformal.scores import SPREAD_RATIO, Absolute, Score
from guardband.conformal.whole.base import refuse_points, same_shape
from guardband.values import Band, Observations, Prediction
from guardband.values.grids import FieldGrid


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Quantity(Score):
    """The difference of a derived quantity between true and predicted field; the set is an interval.

    Several quantities are covered jointly: all lie in their intervals simultaneously with probability at
    least the level.

    Parameters
    ----------
    function
        A function from fields (N, points, m), or (N, *grid, m), as numpy arrays to one quantity (N,) or
        several (N, k).
    units
        Unit of each quantity, shape (k,), or one number. By default, with several quantities, the spread of
        each over the predictor's training fields, if those are available.
    grid
        The named axes of the fields; set by the calibration.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> fields = np.random.default_rng(0).normal(size=(50, 20, 1))
    >>> largest = gb.Quantity(lambda u: u.max(axis=(1, 2)))
    >>> calibrated = gb.calibrate_arrays(0.9 * fields, fields, score=largest)
    >>> band = calibrated.band(gb.Prediction(None, fields[:1]), level=0.9)
    >>> band.mean.shape, bool(band.lower[0, 0] < fields[0].max() < band.upper[0, 0])
    ((1, 1), True)
    """

    function: Callable[[np.ndarray], ArrayLike]
    units: ArrayLike = None
    grid: FieldGrid | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                "`function` should take fields to numbers, such as lambda u: u.max(axis=(1, 2)), got "
                f"{type(self.function).__name__}."
            )
        object.__setattr__(self, "units", Absolute(self.units).units)

    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """Return the scores (n,) of fields y."""
        same_shape(prediction, y)
        return Absolute(self.units)(self._reduced(prediction), self.derived(y))

    def derived(self, y: Array) -> Array:
        """Return the quantities (n, k) of fields y."""
        values = np.asarray(to_numpy(self.function(copy(to_numpy(y)))), dtype=float)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(y):
            raise ValueError(
                f"`function` should return one number per field, shape ({len(y)},), or k numbers, shape "
                f"({len(y)}, k), got shape {values.shape}. Take all axes but the first: u.max(axis=(1, 2))."
            )
        return like(y, values)

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Band:
        """Return the interval of each quantity around its value for the predicted field."""
        return Absolute(self.units).band(self._reduced(prediction), q, level)

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """Return the score with the spreads over the training fields as units, if it needs units."""
        if training_data is None or training_data.y.shape[1:] != prediction.mean.shape[1:]:
            return self
        if self.units is not None or self.derived(prediction.mean[:1]).shape[1] == 1:
            return self
        spread = to_numpy(self.derived(training_data.y)).astype(float).std(axis=0)
        return replace(self, units=tuple(np.where(spread > 0, spread, 1.0).tolist()))

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """Return a warning if quantities of very different size share one width."""
        spread = np.ptp(to_numpy(self.derived(y)).astype(float), axis=0)
        spread = spread[spread > 0]
        if self.units is not None or not len(spread) or spread.max() <= SPREAD_RATIO * spread.min():
            return None
        return (
            f"The quantities differ in size by a factor of {spread.max() / spread.min():.2g}, and their "
            "units are unknown, so all get one width. Pass one unit for each: "
            "Quantity(function, units=[...])."
        )

    @property
    def plain(self) -> Score:
        """The same score: its intervals have the same width everywhere."""
        return self

    @property
    def scope(self) -> str:
        """The meaning of a point."""
        return (
            "A point here is a whole field, and what lies in the band is what was derived of it, all "
            "quantities at once; nothing is promised of its nodes."
        )

    def before(self, prediction: Prediction, level: Level) -> None:
        """Return None: a scale at nodes does not determine a scale for derived quantities."""
        return None

    def on(self, grid: FieldGrid) -> Self:
        """Return the score for fields with these axes."""
        return replace(self, grid=grid)

    def __repr__(self) -> str:
        return f"Quantity({getattr(self.function, '__name__', type(self.function).__name__)})"

    def _reduced(self, prediction: Prediction) -> Prediction:
        refuse_points(prediction, self.grid)
        return Prediction(prediction.x, self.derived(prediction.mean))
