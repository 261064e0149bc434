"""Calibrate from arrays: predictions and targets at held-out points, and no model to call."""

from __future__ import annotations

import warnings

from guardband.arrays import ArrayLike, copy, finite, kind_of, rows
from guardband.conformal.base import Calibrator, Groups
from guardband.conformal.by_scores import ScoreCalibrated, on_scores
from guardband.conformal.rank import Level
from guardband.conformal.scores import Scaled, Score
from guardband.conformal.split import Split
from guardband.grids import named, values_on
from guardband.leaks import refuse_leaks
from guardband.values import Prediction


def calibrate_arrays(
    mean_cal: ArrayLike | Prediction,
    y_cal: ArrayLike,
    scale_cal: ArrayLike | None = None,
    *,
    x_cal: ArrayLike | None = None,
    score: Score | None = None,
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
) -> ScoreCalibrated:
    """Calibrate from arrays alone: predictions (n, m) at held-out points, targets, scales if any.

    The result has no model to call; give it predictions with `calibrated.band(Prediction(...))`. In place of
    mean, scale and x a `Prediction` will do. Whole fields on several axes, or in time, name them: `y_cal` is
    then a `gb.Fields`, or an xarray `DataArray`.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.band(gb.Prediction(None, [10.0]), level=0.9).upper.round(6)
    array([[19.]])
    """
    y_cal, grid = named(y_cal)
    if isinstance(mean_cal, Prediction):
        prediction = mean_cal
    else:
        mean_cal = values_on(mean_cal, grid)
        scale = None if scale_cal is None else copy(rows(scale_cal, "scale_cal"))
        x = None if x_cal is None else copy(rows(x_cal, "x_cal"))
        prediction = Prediction(x, copy(rows(mean_cal, "mean_cal")), scale)
    y = copy(kind_of(prediction.mean, finite(rows(y_cal, "y_cal"), "y_cal")))
    if isinstance(calibrator, Calibrator):
        refuse_leaks(calibrator.used, prediction.x, y)
    made = on_scores(
        None,
        prediction,
        y,
        score=score or prediction.own_score or Scaled(),
        calibrator=calibrator or Split(),
        groups=groups,
        confidence=confidence,
        grid=grid,
    )
    caution = made.score.caution(prediction, y)
    if caution is not None:
        warnings.warn(caution, stacklevel=2)
    return made
