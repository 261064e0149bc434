"""Calibrate from arrays: predictions and targets at held-out points, and no model to call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from guardband.base.arrays import ArrayLike, copy, finite, kind_of, rows
from guardband.conformal.base import Calibrator, Groups
from guardband.conformal.by_scores import ScoreCalibrated, on_scores
from guardband.conformal.rank import Level
from guardband.conformal.scores import Scaled, Score
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
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
    names: Names | Sequence[str] | None = None,
) -> ScoreCalibrated:
    """Calibrate from arrays alone: predictions (n, m) at held-out points, targets, scales if any.

    The result has no model to call; give it predictions with `calibrated.band(Prediction(...))`. In place of
    mean, scale and x a `Prediction` will do. Whole fields on several axes, or in time, name them: `y_cal` is
    then a `gb.Fields`, or an xarray `DataArray`. `names` are those of the columns of x, for tables and
    reports.

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
    made = on_scores(
        None,
        prediction,
        y,
        score=score or prediction.own_score or Scaled(),
        calibrator=calibrator or Split(),
        groups=groups,
        confidence=confidence,
        grid=grid,
        axes=axes,
        names=names,
    )
    caution = made.score.caution(prediction, y)
    if caution is not None:
        warnings.warn(caution, stacklevel=2)
    return made
