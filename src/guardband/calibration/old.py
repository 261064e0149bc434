"""Functions of 0.2 that other functions do now; they go away in 0.4."""

from __future__ import annotations

import os
from typing import Any

from guardband.base.engine import takes_old_places
from guardband.calibration.calibrate import calibrate
from guardband.conformal import Calibrated, ScoreCalibrated
from guardband.evaluation import Evaluation, evaluate
from guardband.fields import StoredFields


@takes_old_places
def calibrate_stored(
    model: Any, fields: StoredFields, scores: str | os.PathLike[str], **options: Any
) -> ScoreCalibrated:
    """The name of 0.2 for `gb.calibrate(model, fields, scores=...)`."""
    return calibrate(model, fields, scores=scores, **options)


@takes_old_places
def evaluate_stored(
    calibrated: Calibrated, fields: StoredFields, scores: str | os.PathLike[str], **options: Any
) -> Evaluation:
    """The name of 0.2 for `gb.evaluate(calibrated, fields, scores=...)`."""
    return evaluate(calibrated, fields, scores=scores, **options)
