"""Out of core: calibrate and evaluate on whole fields that stay on disk, a few in memory at a time.

What is kept of a field is its score, in a small store of its own: a run that was killed goes on where it was,
and the rank is taken of all scores, exactly as in memory.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from guardband import extras
from guardband.calibration import calibrate
from guardband.conformal import ScoreCalibrated
from guardband.conformal.laws import LEVELS
from guardband.conformal.rank import Level, exact, infinite_unsaid
from guardband.conformal.scores import Score
from guardband.conformal.whole.simultaneous import Simultaneous
from guardband.evaluation import Evaluation, Row
from guardband.evaluation.contenders import by_size
from guardband.evaluation.results import THIS
from guardband.evaluation.verdicts import held_against_law
from guardband.fields.stored import (
    ERROR,
    INPUT,
    NODES_AT_ONCE,
    SCORE,
    SIZE,
    WIDTH,
    StoredFields,
    StoredScores,
    nodes_of,
    numbered,
)
from guardband.fields.writing import to_store
from guardband.values import Prediction

REUSED = 0.1
"""If more test fields than this have scores that calibration fields have, they are called the same fields."""

FIRST = 16
"""How many fields, if they are small, the model is tried on before all others are read."""


def calibrate_stored(
    model: Any,
    fields: StoredFields,
    scores: str | os.PathLike[str],
    *,
    score: Score | None = None,
    confidence: Level | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> ScoreCalibrated:
    """Calibrate a model on whole fields in a store, a chunk of them in memory at a time.

    The result is what `gb.calibrate(model, x, y, score=score)` is for the same fields, by default with
    `gb.Simultaneous()`: all levels, exact ranks. It keeps scores and no field, so `gb.check` cannot compare
    places. The score of each field is written to a Zarr store at the path `scores`; a run that was killed
    goes on there when called again. Scores of another model are refused, and those of other fields by a look
    at sixteen of them: give data that have changed a path of their own.

    `chunk` is how many fields are read together and `batch` how many the model is asked at once; both are
    kept, so that results do not depend on who computed them. `workers` are processes here, `scheduler` the
    address of a Dask scheduler, as for `FieldBand.to_zarr`. Of training fields that the model knows, only
    copies among the first few are noticed: see that the fields are others.

    >>> import tempfile
    >>> import numpy as np
    >>> import xarray
    >>> import guardband as gb
    >>> a = np.random.default_rng(0).normal(size=(50, 8, 8))
    >>> u, dims = np.sin(a) + 0.1 * a, ("field", "x", "y")
    >>> data = xarray.Dataset({"a": (dims, a), "u": (dims, u)})
    >>> fields = gb.StoredFields(data, x="a", y="u")
    >>> def model(a):
    ...     return np.sin(a)[..., None]  # (N, *grid, m), as in memory
    >>> gb.calibrate_stored(
    ...     model, fields, tempfile.mkdtemp() + "/scores.zarr", progress=False
    ... )
    Calibrated(MeanOnly, score=Simultaneous(), calibrator=Split(), n=50)
    """
    if len(fields) == 0:
        raise ValueError("`fields` should hold at least one field, got none.")
    nodes = math.prod(fields.targets(slice(1)).shape)
    some = slice(min(FIRST, max(2, NODES_AT_ONCE // nodes), len(fields)))
    y = fields.targets(some)
    first = calibrate(model, fields.inputs(some), y, score=score or Simultaneous(), confidence=confidence)
    _refuse_several(first)
    size = chunk or fields.chunk(nodes_of(first))
    work = StoredScores(first, {"field": numbered(fields)}, (), chunk=size, fields=fields)
    found = _read(to_store(work, scores, batch, workers, scheduler, progress), work)
    nothing = first.prediction.take(slice(0))
    threshold = first.score.threshold(first.learned, found[SCORE], nothing, confidence=first.confidence)
    return replace(first, threshold=threshold, prediction=nothing, y=first.y[:0])


def evaluate_stored(
    calibrated: ScoreCalibrated,
    fields: StoredFields,
    scores: str | os.PathLike[str],
    *,
    level: Level = 0.95,
    levels: Sequence[Level] = LEVELS,
    chunk: int | None = None,
    batch: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> Evaluation:
    """Test a calibrated band on fresh fields in a store, and say whether the law holds.

    Coverage is that of `gb.evaluate` on the same fields, and so are the mean width and the relative error; it
    has no rivals and no interval score. The path `scores` is where the numbers of each field are kept; the
    other arguments are those of `gb.calibrate_stored`. Fields that were calibrated on are noticed where they
    are more than a tenth, by their scores.

    >>> import tempfile
    >>> import numpy as np
    >>> import xarray
    >>> import guardband as gb
    >>> a = np.random.default_rng(0).normal(size=(90, 8, 8))
    >>> u, dims = np.sin(a) + 0.1 * a, ("field", "x", "y")
    >>> data = xarray.Dataset({"a": (dims, a), "u": (dims, u)})
    >>> fields, folder = gb.StoredFields(data, x="a", y="u"), tempfile.mkdtemp()
    >>> model = lambda a: np.sin(a)[..., None]
    >>> made = gb.calibrate_stored(model, fields[:50], f"{folder}/cal.zarr", progress=False)
    >>> print(
    ...     gb.evaluate_stored(
    ...         made, fields[50:], f"{folder}/test.zarr", level=0.9, progress=False
    ...     ).verdict
    ... )
    Consistent with the guarantee: 38 of 40 covered, a valid band covers 28 to 40 in 99 % of cases.
    """
    if not (hasattr(calibrated, "score") and hasattr(calibrated, "threshold")):
        raise TypeError(
            "`evaluate_stored` takes what `gb.calibrate` or `gb.calibrate_stored` returned, a score and a "
            f"threshold, got {type(calibrated).__name__}."
        )
    if len(fields) == 0:
        raise ValueError("`fields` should hold at least one field, got none.")
    _refuse_several(calibrated)
    size = chunk or fields.chunk(nodes_of(calibrated))
    asked = (SCORE, WIDTH, ERROR, SIZE, INPUT)
    at = (f"{float(exact(level)):.12g}",)
    work = StoredScores(calibrated, {"field": numbered(fields)}, at, chunk=size, fields=fields, asked=asked)
    found = _read(to_store(work, scores, batch, workers, scheduler, progress), work)
    levels = tuple(sorted(levels, key=exact))
    n = len(fields)
    with infinite_unsaid():
        inside = [
            found[SCORE] <= calibrated.threshold(calibrated.prediction, one) for one in (level, *levels)
        ]
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
        fresh = Prediction(None, np.zeros((n, 1)))  # the law asks how many there are, and no more
        consistent, verdict = held_against_law(calibrated, fresh, level, [row], None)
        if doubt := _reused(calibrated, found[SCORE]):
            warnings.warn(doubt, stacklevel=2)
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


def _reused(calibrated: ScoreCalibrated, scores: np.ndarray) -> str:
    """A sentence if test fields were calibrated on: their scores are the same to the last digit."""
    known = getattr(calibrated.threshold, "scores", np.empty(0))
    same, repeated = np.isin(scores, known), len(known) - len(np.unique(known))
    if same.mean() <= REUSED or repeated > REUSED / 2 * len(known):
        return ""
    return (
        f"{same.sum()} of {len(scores)} test fields have the score of a calibration field to the last digit: "
        "they were calibrated on, and prove nothing. Test on others."
    )


def _refuse_several(calibrated: ScoreCalibrated) -> None:
    """One number per field, and one threshold for all of them."""
    if calibrated.needs_groups or not calibrated.joint:
        raise ValueError(
            f"Stored fields have one score each and one threshold; {calibrated.name} has several. Use a "
            "score of whole fields, such as gb.Simultaneous(), and Split()."
        )


def _read(folder: Path, work: StoredScores) -> dict[str, np.ndarray]:
    """The numbers of all fields, by what they are."""
    group = extras.load("zarr", "scale").open_group(folder, mode="r")
    return {name: group[variable][:] for name, variable in zip(work.asked, work.variables, strict=True)}
