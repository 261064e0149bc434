"""Calibrate on whole fields that stay on disk, with a few in memory at a time.

The threshold is computed from the scores of all fields, exactly as for fields in memory.
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
"""The model is tried on at most this many fields, in memory, before the others are read."""


def calibrate_fields(
    in_memory: Callable[[ArrayLike, ArrayLike], ScoreCalibrated],
    fields: StoredFields,
    scores: str | os.PathLike[str],
    *,
    chunk: int | None,
    batch: int | None,
    on: On,
    progress: bool,
) -> ScoreCalibrated:
    """Return the result of `in_memory(x, y)` for all fields of a store.

    The first fields are calibrated on in memory, which validates the model and the options.
    """
    if len(fields) == 0:
        raise ValueError("`fields` should hold at least one field, got none.")
    nodes = math.prod(fields.targets(slice(1)).shape)
    some = slice(min(FIRST, max(2, NODES_AT_ONCE // nodes), len(fields)))
    y = fields.targets(some)
    x, axes = fields.named_inputs(some)
    first = in_memory(x, y)
    first = replace(first, axes={**first.axes, "x": axes})
    refuse_several(first)
    size = chunk or fields.chunk(nodes_of(first))
    work = StoredScores(first, {"field": numbered(fields)}, (), chunk=size, fields=fields)
    computed = scored(work, scores, batch, on, progress)
    empty = first.prediction.take(slice(0))
    threshold = first.score.threshold(first.learned, computed[SCORE], empty, confidence=first.confidence)
    return replace(first, threshold=threshold, prediction=empty, y=first.y[:0])
