"""The horizon of a rollout: the step from which the mean of known trajectories gives a narrower band."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from guardband.base.arrays import Array, like, to_numpy
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.conformal.rank import Level, exact
from guardband.values import Band, Prediction


@dataclass(frozen=True, eq=False)
class Horizon:
    """A comparison of a band with one around the mean of known trajectories.

    Attributes
    ----------
    level
        Level of both bands.
    step
        First step, counted from 1, at which the band is the wider one; None if there is no such step.
    widths
        Mean widths of the band, shape (steps,).
    rival
        Mean widths of the band around the mean of the known trajectories, shape (steps,). This band has a
        scale by step and is calibrated on the same trajectories.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> print(
    ...     gb.surrogates.Horizon(
    ...         0.9, 3, np.array([1.0, 2.0, 4.0]), np.array([3.0, 3.0, 3.0])
    ...     )
    ... )
    From step 3 on the band is wider than that of the mean of known trajectories.
    """

    level: float
    step: int | None
    widths: np.ndarray
    rival: np.ndarray

    def __str__(self) -> str:
        if self.step is None:
            steps = len(self.widths)
            return f"At all {steps} steps the band is narrower than that of the mean of known trajectories."
        return f"From step {self.step} on the band is wider than that of the mean of known trajectories."


def horizon(calibrated: Calibrated, prediction: Prediction, level: Level = 0.95) -> Horizon | None:
    """Compare a band around trajectories with one around the mean of known trajectories.

    Parameters
    ----------
    calibrated
        Calibrated rollout. The known trajectories are those that its shape was learned from, or the training
        data of its predictor.
    prediction
        Predicted trajectories, for example `calibrated.predict(x)`.
    level
        Requested coverage, strictly between 0 and 1.

    Returns
    -------
    Horizon or None
        The comparison, or None if there are no known trajectories, or if the prediction set is not a band.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.random.default_rng(0).normal(size=(60, 4, 1))
    >>> y = gb.Fields(np.stack([0.9 * x, 0.1 * x], axis=1), dims=("t", "x"))
    >>> rollout = gb.Rollout(lambda u: 0.9 * u, steps=2).shaped(x[:20], y[:20])
    >>> calibrated = gb.calibrate(rollout, x[20:], y[20:], score=gb.Simultaneous())
    >>> gb.surrogates.horizon(calibrated, calibrated.predict(x[:5] + 1), level=0.9).step
    2
    """
    known = [data for data in calibrated.used.values() if data.y.shape[1:] == prediction.mean.shape[1:]]
    y = calibrated.y
    if not known or y is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        band = calibrated.band(prediction, level)
        rival = calibrated.around(_mean_of(np.concatenate([to_numpy(data.y) for data in known]), y))
        if rival is None or not isinstance(band, Band) or band.mean.shape != prediction.mean.shape:
            return None
        assert rival.prediction is not None
        rival_band = rival.band(rival.prediction.take(slice(1)), level)
    widths, rival_widths = _by_step(band), _by_step(rival_band)
    wider = np.flatnonzero(widths > rival_widths)
    return Horizon(float(exact(level)), int(wider[0]) + 1 if len(wider) else None, widths, rival_widths)


def _mean_of(known: np.ndarray, y: Array) -> Prediction:
    """The mean of known trajectories as the prediction of every trajectory in y, with a scale by step."""
    middle = known.astype(float).mean(axis=0)
    largest = abs(known - middle).reshape(len(known), len(middle), -1).max(axis=2)
    by_step = np.maximum(largest.mean(axis=0), 1e-6 * max(float(largest.max()), np.finfo(float).tiny))
    parts = middle, by_step.reshape(-1, *[1] * (y.ndim - 2))
    mean, scale = (like(y, np.broadcast_to(part, tuple(y.shape)).copy()) for part in parts)
    return Prediction(None, mean, scale)


def _by_step(band: Band) -> np.ndarray:
    """The mean width at each step, shape (steps,)."""
    width = np.asarray(to_numpy(band.width), dtype=float)
    return width.reshape(len(width), width.shape[1], -1).mean(axis=(0, 2))
