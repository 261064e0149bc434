"""Evaluate a calibrated band on test points."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

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
from guardband.evaluation.verdicts import (
    law_verdict,
    measured_band_and_truth,
    same_scores,
    tied,
    truth_band_verdict,
)
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
    """Evaluate a calibrated band on test points, and test whether the coverage agrees with the guarantee.

    The band is compared with two baselines: a band of constant width, calibrated on the same points if they
    are known, and the band before calibration, if the predictor has a scale.

    Parameters
    ----------
    calibrated
        The calibrated model, as returned by `gb.calibrate`.
    x
        Test points, shape (n, d), that were used neither for training nor for calibration. Pass a
        `Prediction` instead if the calibration was computed from arrays. `gb.StoredFields` replace `x` and
        `y`; see Notes.
    y
        Targets measured at `x`, shape (n, m).
    level
        The coverage at which the band is evaluated.
    levels
        The levels of the coverage curve.
    groups
        One label per test point, for calibrations with groups.
    regions
        Regions to evaluate separately, by name: boolean masks of shape (n,) or functions of x that return
        such masks.
    target
        "measurement" if `y` are measurements, or "truth" if they are the noise-free solution.
    median_zero
        With `target="truth"`, declare that the noise of a new reading is independent of the training and
        calibration points and has median zero at every point. For bands with an interval per output, a
        weaker guarantee for the truth then follows.
    scores
        Path of the Zarr store to which the results for each stored field are written.
    chunk
        Number of stored fields held in memory at a time.
    batch, on, progress
        As in `gb.calibrate`.

    Returns
    -------
    Evaluation
        Coverage, width and scores of all bands, and the verdict. It prints as a table.

    Notes
    -----
    The guarantee applies to measurements, unless the band was calibrated with `target="truth"`.

    The tests of coverage by ranges assume that the test points are independent of each other. Noise that is
    correlated along an input raises alarms.

    For `gb.StoredFields`, the coverage, the mean width and the relative error are the same as for fields in
    memory; the baselines and the interval score are omitted. `scores` is required. If more than a tenth of
    the fields were used for calibration, equal scores reveal this, and a warning is issued.

    Examples
    --------
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
        raise ValueError("`median_zero` describes the noise around the truth, so it requires target='truth'.")
    if regions is not None and not isinstance(regions, Mapping):
        raise TypeError(f"`regions` should be a dict of names and regions, got {type(regions).__name__}.")
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`evaluate` takes the result of `gb.calibrate`, got {type(calibrated).__name__}.")
    if is_made_by(x, "guardband.fields.stored", "StoredFields"):
        array_options = {"y": y, "groups": groups, "regions": regions}
        refuse_options(array_options | {"target": target if target == "truth" else None}, FOR_STORES)
        if scores is None:
            raise TypeError(NO_SCORES)
        from guardband.evaluation.stored import evaluate_fields

        return evaluate_fields(
            calibrated,
            cast("StoredFields", x),
            scores,
            level=level,
            levels=levels,
            chunk=chunk,
            batch=batch,
            on=on,
            progress=progress,
        )
    refuse_options({"scores": scores, "chunk": chunk, "batch": batch, "on": on}, FOR_ARRAYS)
    if y is None:
        raise TypeError("`y` is missing. Pass the targets that were measured at `x`.")
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
    with allow_infinite():  # sharpness and the verdict report infinite bands
        contenders = list(contenders_of(calibrated, prediction, y, level, levels, groups))
        target_y = calibrated.derived(y)
        table = [row for one in contenders for row in one.rows(target_y, {"": None, **chosen}, levels)]
        mine = [row for row in table if not row.region and row.name.startswith(THIS)]
        laws = None
        if target == calibrated.about == "measurement":
            laws = _all_or_none(calibrated.laws_for(prediction, at, groups) for at in levels)
        if calibrated.about == "truth":
            consistent, verdict = truth_band_verdict(calibrated, level, mine[0], target)
        elif target == "truth":
            consistent, verdict = None, measured_band_and_truth(calibrated, level, mine[0], median_zero)
        else:
            consistent, verdict = law_verdict(calibrated, prediction, level, mine, groups)
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
    """Test rows that were used before, by their former use: calibration, training or held-out rows."""
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
    """Warn about test points that were used for calibration or training, at which coverage is too high."""
    texts = [found.text for _, found in reused(calibrated, prediction.x, y)]
    score = getattr(calibrated, "score", None)
    if score is not None and calibrated.y is not None and len(calibrated.y) == 0:
        text = same_scores(calibrated, to_numpy(score(prediction, y)), "point")
        texts += [text] if text else []
    for text in texts:
        warnings.warn(text, stacklevel=3)
    return texts


def _all_or_none(laws: Iterable[Pieces | None]) -> tuple[Pieces, ...] | None:
    found = list(laws)
    known = tuple(law for law in found if law is not None)
    return known if len(known) == len(found) else None
