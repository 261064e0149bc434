"""Calibrate from arrays: predictions and targets at held-out points, without a model to call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from guardband.base.arrays import ArrayLike, copy, finite, kind_of, rows
from guardband.conformal.base import Calibrator, Groups
from guardband.conformal.rank import Level
from guardband.conformal.score_calibrated import ScoreCalibrated, calibrate_prediction
from guardband.conformal.scores import Scaled, Score, Side
from guardband.conformal.sides import sided
from guardband.conformal.split import Split
from guardband.leaks import refuse_leaks
from guardband.values import Names, Prediction
from guardband.values.labeled import (
    Axes,
    arranged_targets,
    like_inputs,
    opened,
    opened_targets,
    refuse_unpaired,
    several,
)


def calibrate_arrays(
    mean_cal: ArrayLike | Prediction,
    y_cal: ArrayLike,
    scale_cal: ArrayLike | None = None,
    *,
    x_cal: ArrayLike | None = None,
    score: Score | None = None,
    side: Side | tuple[Side, ...] = "both",
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
    names: Names | Sequence[str] | None = None,
) -> ScoreCalibrated:
    """Calibrate from held-out predictions and targets, without a model.

    The result has no model to call. Pass predictions at new points to `calibrated.band(Prediction(...))`.

    Parameters
    ----------
    mean_cal
        Predictions at the calibration points, shape (n, m), or a `Prediction` that replaces mean, scale and
        x.
    y_cal
        Calibration targets, shape (n, m). Pass whole fields with several axes, or with a time axis, as
        `gb.Fields` or an xarray `DataArray`, which name the axes.
    scale_cal
        Scales of the predictions, shape (n, m), if available.
    x_cal
        Calibration points, shape (n, d), for methods that use their positions.
    score
        How errors are measured; by default `Scaled()`, or the score that belongs to the class of the
        prediction.
    side
        "upper" or "lower" for a one-sided bound, "both" for an interval, or one of these for each output;
        see `conformal.OneSided`.
    calibrator
        How scores become a threshold; by default `Split()`.
    groups
        Group label of each calibration point, shape (n,), for calibrators that use groups.
    confidence
        Probability over calibration sets with which the coverage is guaranteed. By default coverage is
        guaranteed on average over calibration sets.
    names
        Names of the columns of x, or a `Names` object that also names the outputs, for tables and reports.

    Returns
    -------
    ScoreCalibrated
        The calibrated band, for any level.

    Examples
    --------
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.band(gb.Prediction(None, [10.0]), level=0.9).upper.round(6)
    array([[19.]])
    """
    refuse_unpaired(mean_cal=mean_cal, y_cal=y_cal, scale_cal=scale_cal, x_cal=x_cal, groups=groups)
    axes: dict[str, Axes] = {}
    if isinstance(mean_cal, Prediction):
        prediction, known = mean_cal, several(mean_cal.targets)
        if prediction.columns is not None:
            axes["x"] = Axes.of_columns(prediction.columns)
    else:
        x_values, places = (None, None) if x_cal is None else opened(x_cal, "x_cal")
        mean, known, _ = opened_targets(like_inputs(mean_cal, places), "mean_cal")
        known = several(known)
        if scale_cal is not None:
            scale_cal = copy(rows(arranged_targets(scale_cal, known, "scale_cal"), "scale_cal"))
        x = None if x_values is None else copy(rows(x_values, "x_cal"))
        prediction = Prediction(x, copy(rows(mean, "mean_cal")), scale_cal)
        axes |= {} if places is None else {"x": places}
    y_cal = like_inputs(y_cal, known or axes.get("x"))
    _, found, grid = opened_targets(y_cal, "y_cal")
    values = arranged_targets(y_cal, known, "y_cal")
    if found is not None:
        axes["y"] = found if several(found) is None or known is None else known
    y = copy(kind_of(prediction.mean, finite(rows(values, "y_cal"), "y_cal")))
    if isinstance(calibrator, Calibrator):
        refuse_leaks(calibrator.used, prediction.x, y)
    calibrated = calibrate_prediction(
        None,
        prediction,
        y,
        score=sided(score or prediction.own_score or Scaled(), side),
        calibrator=calibrator or Split(),
        groups=groups,
        confidence=confidence,
        grid=grid,
        axes=axes,
        names=names,
    )
    caution = calibrated.score.caution(prediction, y)
    if caution is not None:
        warnings.warn(caution, stacklevel=2)
    return calibrated
