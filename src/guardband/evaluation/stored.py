"""Evaluate stored fields, with a chunk of them in memory at a time.

The results for each field, such as its score, are kept in a small store, so an interrupted run can resume.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from guardband.base.engine import On
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, allow_infinite, exact
from guardband.evaluation.contenders import by_size
from guardband.evaluation.results import THIS, Evaluation, Row
from guardband.evaluation.verdicts import law_verdict, same_scores
from guardband.fields import reading
from guardband.fields.store import to_store
from guardband.fields.stored import (
    ERROR,
    INPUT,
    SCORE,
    SIZE,
    WIDTH,
    StoredFields,
    StoredScores,
    nodes_of,
    numbered,
)
from guardband.values import Prediction


def evaluate_fields(
    calibrated: Calibrated,
    fields: StoredFields,
    scores: str | os.PathLike[str],
    *,
    level: Level,
    levels: Sequence[Level],
    chunk: int | None,
    batch: int | None,
    on: On,
    progress: bool,
) -> Evaluation:
    """Evaluate stored fields, without baselines or the interval score."""
    threshold: Any = getattr(calibrated, "threshold", None)
    if threshold is None or not hasattr(calibrated, "score"):
        raise TypeError(
            "Stored fields need a score and a threshold. `calibrated` should come from `gb.calibrate`, "
            f"got {type(calibrated).__name__}."
        )
    refuse_several(calibrated)
    size = chunk or fields.chunk(nodes_of(calibrated))
    wanted = (SCORE, WIDTH, ERROR, SIZE, INPUT)
    at = (f"{float(exact(level)):.12g}",)
    work = StoredScores(calibrated, {"field": numbered(fields)}, at, chunk=size, fields=fields, asked=wanted)
    found = scored(work, scores, batch, on, progress)
    levels = tuple(sorted(levels, key=exact))
    n = len(fields)
    with allow_infinite():
        inside = [found[SCORE] <= threshold(calibrated.prediction, one) for one in (level, *levels)]
        width = float(found[WIDTH].mean())
        row = Row(
            name=THIS,
            region="",
            points=n,
            coverage=float(inside[0].mean()),
            sharpness=width,
            interval_score=math.nan,
            widths=(width,),
            levels=levels,
            coverages=tuple(float(each.mean()) for each in inside[1:]),
        )
        fresh = Prediction(None, np.zeros((n, 1)))  # the law depends only on the number of fields
        consistent, verdict = law_verdict(calibrated, fresh, level, [row], None)
        if doubt := same_scores(calibrated, found[SCORE], "field"):
            warnings.warn(doubt, stacklevel=3)
            verdict = doubt if consistent else f"{verdict} {doubt}"
            consistent = None if consistent else consistent
        laws = [calibrated.laws(one, n) for one in levels]
    return Evaluation(
        level=float(exact(level)),
        n_cal=calibrated.n,
        n_test=n,
        relative_l2=math.sqrt(found[ERROR].sum() / found[SIZE].sum()) if found[SIZE].any() else math.nan,
        verdict=verdict,
        consistent=consistent,
        rows=(row,),
        laws=tuple(law for law in laws if law is not None) if None not in laws else None,
        remarks=tuple(by_size(np.sqrt(found[INPUT]), inside[0])),
    )


def scored(
    work: StoredScores, scores: str | os.PathLike[str], batch: int | None, on: On, progress: bool
) -> dict[str, np.ndarray]:
    """The results for all fields, by kind; missing results are computed first."""
    if len(work.fields) == 0:
        raise ValueError("`fields` should hold at least one field, got none.")
    group = reading.open_group(to_store(work, scores, batch, on, progress))
    return {name: group[variable][:] for name, variable in zip(work.asked, work.variables, strict=True)}


def refuse_several(calibrated: Calibrated) -> None:
    """Refuse calibrations with several scores per field or several thresholds."""
    if calibrated.needs_groups or not calibrated.joint:
        raise ValueError(
            f"Stored fields have one score each and one threshold, but {calibrated.name} has several. Use a "
            "score of whole fields, such as gb.Simultaneous(), and Split()."
        )
