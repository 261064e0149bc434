"""Safety: how far a prediction lies from its limits, in the units of the score."""

from __future__ import annotations

import numpy as np

from guardband.base.arrays import ArrayLike, like, to_numpy
from guardband.conformal import Calibrated
from guardband.decisions.limits import ToleranceLimits
from guardband.values import Prediction
from guardband.values.names import output_names


def outputs_of(calibrated: Calibrated) -> tuple[str, ...]:
    """The names of the outputs of a calibration, numbered if they have none."""
    if calibrated.prediction is None or calibrated.prediction.mean.ndim != 2:
        raise ValueError(
            "Limits apply to the outputs of points, shape (n, m). Reduce fields to quantities first."
        )
    if calibrated.field_names is not None:
        return calibrated.field_names.outputs
    known = calibrated.target_axes
    words = None if known is None else known.words
    return tuple(map(str, words)) if words else output_names(calibrated.prediction.mean.shape[-1])


def predicted(calibrated: Calibrated, x: ArrayLike | Prediction) -> Prediction:
    """A prediction as it is, or the one at points x (n, d)."""
    return x if isinstance(x, Prediction) else calibrated.predict(x)


def safety(calibrated: Calibrated, prediction: Prediction, limits: ToleranceLimits) -> np.ndarray:
    """The signed distance (n,) from each prediction to its nearest limit, in units of the score."""
    shape = prediction.mean.shape
    nearest = np.full(shape[0], np.inf)
    for ends, above in ((limits.upper, True), (limits.lower, False)):
        known = np.isfinite(np.broadcast_to(ends, shape))
        # An output without a limit is compared with its own mean, and then left out.
        at = np.where(known, ends, to_numpy(prediction.mean))
        excess = to_numpy(calibrated.excesses(prediction, like(prediction.mean, at))[above]).astype(float)
        nearest = np.minimum(nearest, np.where(known, excess, np.inf).min(axis=-1))
    return nearest
