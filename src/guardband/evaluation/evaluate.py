"""evaluate(): a band on fresh points, beside its rivals, and held against the law."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from guardband.base.arrays import Array, ArrayLike, finite, kind_of, rows, to_numpy
from guardband.base.engine import On
from guardband.base.lazy import is_made_by
from guardband.conformal import Calibrated
from guardband.conformal.base import (
    FOR_ARRAYS,
    FOR_STORES,
    NO_SCORES,
    Groups,
    Pieces,
    group_labels,
    refuse_options,
)
from guardband.conformal.laws import LEVELS
from guardband.conformal.rank import Level, allow_infinite, exact
from guardband.evaluation.contenders import by_size, constant, contenders_of, ranges_of, sizes_of
from guardband.evaluation.results import THIS, Evaluation
from guardband.evaluation.verdicts import about_truth, beside_truth, held_against_law, same_scores, tied
from guardband.leaks import Copies, find_copies
from guardband.metrics.bands import Region, relative_l2, rows_in
from guardband.values import Band, Prediction
from guardband.values.labeled import refuse_unpaired
from guardband.values.names import output_words

if TYPE_CHECKING:
    from guardband.fields import StoredFields


def evaluate(
    calibrated: Calibrated,
    x: ArrayLike | Prediction | StoredFields,
    y: ArrayLike = None,
    *,
    level: Level = 0.95,
    levels: Sequence[Level] = LEVELS,
    groups: Groups = None,
    regions: Mapping[str, Region] | None = None,
    target: Literal["measurement", "truth"] = "measurement",
    median_zero: bool = False,
    scores: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    on: On = None,
    progress: bool = True,
) -> Evaluation:
    """Test a calibrated band on fresh points x (n, d), y (n, m), and say whether the law holds.

    In place of x a `Prediction` already made will do, for calibrations from arrays alone.
    Beside the band stand its constant-width rival, calibrated on the same points if they were kept, and the
    band before calibration if there is one. `regions` maps names to masks or functions of x. The tests of
    coverage by ranges assume test points that are independent of each other: noise that is correlated along
    an input raises alarms.

    The guarantee is about measurements, unless it was calibrated with `target="truth"`. With `target="truth"`
    here, y is the noise-free solution, and coverage of it is reported as such; `median_zero=True` declares
    that the noise of a new reading is independent of the training and calibration points and has median zero
    at every place. For bands that are an interval for each output, a weaker promise for the truth follows.

    `gb.StoredFields` take the place of x and y: fresh fields in a store, a `chunk` of them in memory at
    a time. Coverage is that of the same fields in memory, and so are the mean width and the relative error;
    there are no rivals, and no interval score. The path `scores` is where the numbers of each field are kept;
    `batch`, `on` and `progress` are those of `gb.calibrate`. Fields that were calibrated on are noticed, by
    their scores, where they are more than a tenth.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> model = np.zeros_like
    >>> calibrated = gb.calibrate(model, draw(size=100), draw(size=100))
    >>> evaluation = gb.evaluate(calibrated, draw(size=500), draw(size=500))
    >>> print(evaluation.verdict)
    Consistent with the guarantee: 481 of 500 covered, a valid band covers 436 to 496 in 99 % of cases.
    """
    if target not in ("measurement", "truth"):
        raise ValueError(f"`target` should be 'measurement' or 'truth', got {target!r}.")
    if median_zero and target != "truth":
        raise ValueError("`median_zero` says something of the noise, and so needs target='truth'.")
    if regions is not None and not isinstance(regions, Mapping):
        raise TypeError(f"`regions` should be a dict of names and regions, got {type(regions).__name__}.")
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`evaluate` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    of_stores: dict[str, Any] = {"scores": scores, "chunk": chunk, "batch": batch, "on": on}
    if is_made_by(x, "guardband.fields.stored", "StoredFields"):
        of_arrays = {"y": y, "groups": groups, "regions": regions}
        refuse_options(of_arrays | {"target": target if target == "truth" else None}, FOR_STORES)
        if scores is None:
            raise TypeError(NO_SCORES)
        from guardband.evaluation.stored import evaluate_fields

        fields: Any = x
        return evaluate_fields(calibrated, fields, level=level, levels=levels, **of_stores, progress=progress)
    refuse_options(of_stores, FOR_ARRAYS)
    if y is None:
        raise TypeError("`y` is missing: the targets that were measured at `x`.")
    masks = {name: region for name, region in (regions or {}).items() if not callable(region)}
    refuse_unpaired(x=x, y=y, groups=groups, **masks)
    prediction = x if isinstance(x, Prediction) else calibrated.predict(x)
    y = kind_of(prediction.mean, finite(rows(calibrated.targets(y), "y"), "y"))
    if len(y) == 0:
        raise ValueError("`y` should hold at least one test point, got none.")
    groups = None if groups is None else group_labels(groups, len(y))
    doubts = _warn_of_reuse(calibrated, prediction, y)
    chosen = {name: rows_in(region, prediction) for name, region in (regions or {}).items()}
    levels = tuple(sorted(levels, key=exact))
    with allow_infinite():  # infinite bands are part of the result: sharpness and the verdict say so
        contenders = list(contenders_of(calibrated, prediction, y, level, levels, groups))
        target_y = calibrated.derived(y)
        table = [row for one in contenders for row in one.rows(target_y, {"": None, **chosen}, levels)]
        mine = [row for row in table if not row.region and row.name.startswith(THIS)]
        laws = None
        if target == calibrated.about == "measurement":
            laws = _all_or_none(calibrated.laws_for(prediction, at, groups) for at in levels)
        if calibrated.about == "truth":
            consistent, verdict = about_truth(calibrated, level, mine[0], target)
        elif target == "truth":
            consistent, verdict = None, beside_truth(calibrated, level, mine[0], median_zero)
        else:
            consistent, verdict = held_against_law(calibrated, prediction, level, mine, groups)
        if doubts:
            verdict = " ".join(doubts if consistent else [verdict, *doubts])
            consistent = None if consistent else consistent
        remarks = calibrated.remarks(prediction, y, level, groups if calibrated.needs_groups else None)
    return Evaluation(
        level=float(exact(level)),
        n_cal=calibrated.n,
        n_test=len(y),
        relative_l2=relative_l2(prediction.mean, y),
        verdict=verdict,
        consistent=consistent,
        rows=tuple(table),
        laws=laws,
        of_constant_width=contenders[0].alike and constant(contenders[0].band),
        outputs=output_words(calibrated.field_names),
        empty=int(band.empty.sum()) if isinstance(band := contenders[0].band, Band) else 0,
        remarks=(*remarks, *by_size(sizes_of(prediction), contenders[0].inside)),
        doubts=tuple(doubts),
        find_ranges=ranges_of(calibrated, prediction, contenders[0]),
        find_ties=bool if laws is None else partial(tied, calibrated, levels, groups),
    )


def reused(calibrated: Calibrated, x: Array | None, y: Array) -> Iterator[tuple[str, Copies]]:
    """What of test rows was used before: for calibration, for training, as held-out rows."""
    if x is None:
        return
    known = {what: (data.x, data.y) for what, data in calibrated.used.items()}
    kept = calibrated.prediction
    if kept is not None and kept.x is not None and calibrated.y is not None and len(calibrated.y):
        known = {"calibration": (kept.x, calibrated.y), **known}
    for what, (known_x, known_y) in known.items():
        found = find_copies(known_x, known_y, x, y, points="test", known=what)
        if found.verdict == "refuse":
            yield what, found


def _warn_of_reuse(calibrated: Calibrated, prediction: Prediction, y: Array) -> list[str]:
    """Points that were calibrated on are covered by construction, those trained on too easily."""
    texts = [found.text for _, found in reused(calibrated, prediction.x, y)]
    score = getattr(calibrated, "score", None)
    if score is not None and calibrated.y is not None and len(calibrated.y) == 0:
        text = same_scores(calibrated, to_numpy(score(prediction, y)), "point")
        texts += [text] if text else []
    for text in texts:
        warnings.warn(text, stacklevel=3)
    return texts


def _all_or_none(laws: Iterable[Pieces | None]) -> tuple[Pieces, ...] | None:
    known = tuple(law for law in laws)
    return None if any(law is None for law in known) else known  # type: ignore[return-value]
