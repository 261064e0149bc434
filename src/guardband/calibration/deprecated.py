"""Deprecated functions of version 0.2, to be removed in version 0.4."""

from __future__ import annotations

import os
from typing import Any

from guardband.base.arrays import Model
from guardband.base.engine import takes_old_places
from guardband.calibration.calibrate import calibrate
from guardband.conformal import Calibrated, ScoreCalibrated
from guardband.evaluation import Evaluation, evaluate
from guardband.fields import StoredFields


@takes_old_places
def calibrate_stored(
    model: Model, fields: StoredFields, scores: str | os.PathLike[str], **options: Any
) -> ScoreCalibrated:
    """Call `gb.calibrate(model, fields, scores=...)`; this was its name in version 0.2."""
    return calibrate(model, fields, scores=scores, **options)


@takes_old_places
def evaluate_stored(
    calibrated: Calibrated, fields: StoredFields, scores: str | os.PathLike[str], **options: Any
) -> Evaluation:
    """Call `gb.evaluate(calibrated, fields, scores=...)`; this was its name in version 0.2."""
    return evaluate(calibrated, fields, scores=scores, **options)
