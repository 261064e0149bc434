"""Out of core: calibrate on whole fields that stay on disk, a few in memory at a time.

The rank is taken of the scores of all fields, exactly as in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace

from guardband.base.arrays import ArrayLike
from guardband.base.engine import On
from guardband.conformal import ScoreCalibrated
from guardband.evaluation.stored import refuse_several, scored
from guardband.fields.stored import NODES_AT_ONCE, SCORE, StoredFields, StoredScores, nodes_of, numbered

FIRST = 16
"""How many fields, if they are small, the model is tried on before all others are read."""


def calibrate_fields(
    calibrated: Callable[[ArrayLike, ArrayLike], ScoreCalibrated],
    fields: StoredFields,
    scores: str | os.PathLike[str],
    *,
    chunk: int | None,
    batch: int | None,
    on: On,
    progress: bool,
) -> ScoreCalibrated:
    """What `calibrated(x, y)` would be for all fields of a store; a few are calibrated on in memory first."""
    if len(fields) == 0:
        raise ValueError("`fields` should hold at least one field, got none.")
    nodes = math.prod(fields.targets(slice(1)).shape)
    some = slice(min(FIRST, max(2, NODES_AT_ONCE // nodes), len(fields)))
    y = fields.targets(some)
    x, axes = fields.named_inputs(some)
    first = calibrated(x, y)
    first = replace(first, axes={**first.axes, "x": axes})
    refuse_several(first)
    size = chunk or fields.chunk(nodes_of(first))
    work = StoredScores(first, {"field": numbered(fields)}, (), chunk=size, fields=fields)
    found = scored(work, scores, batch, on, progress)
    nothing = first.prediction.take(slice(0))
    threshold = first.score.threshold(first.learned, found[SCORE], nothing, confidence=first.confidence)
    return replace(first, threshold=threshold, prediction=nothing, y=first.y[:0])
