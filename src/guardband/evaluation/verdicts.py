"""Verdicts: compare the number of covered points with the exact law of a valid band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from guardband.conformal import Calibrated
from guardband.conformal.base import Pieces
from guardband.conformal.laws import CoverageLaw, central_range, tails, total_counts
from guardband.conformal.rank import Level, allow_infinite, exact
from guardband.evaluation.results import MASS, Row
from guardband.values import Prediction
from guardband.values.names import output_words

REUSED = 0.1
"""Test fields count as reused if more than this fraction of them has the score of a calibration field."""


def truth_band_verdict(
    calibrated: Calibrated, level: Level, row: Row, target: str
) -> tuple[bool | None, str]:
    """Whether a band for the truth covers it; there is no verdict on measurements."""
    from scipy.stats import binom

    m, covered, promised = row.points, round(row.coverage * row.points), calibrated.promised(level)
    if target != "truth" or promised is None:
        return None, (
            f"{covered} of {m} measurements covered. This band is for the noise-free truth and promises "
            "nothing about measurements. Evaluate it with target='truth' and noise-free y."
        )
    seen = f"{covered} of {m} noise-free values covered, at least {float(promised):.4g} are promised"
    if calibrated.confidence is None:
        return None, f"{seen} on average; there is no exact law for one test set."
    rest = float(1 - exact(calibrated.confidence))
    chance = float(binom.cdf(covered, m, float(promised)))
    seen += f" with confidence {1 - rest:g}"
    if chance > 1 - MASS:
        return True, f"Consistent with the guarantee: {seen}."
    return False, (
        f"NOT consistent with the guarantee: {seen}, and this few or fewer occur in at most "
        f"{100 * min(1.0, rest + chance):.2g} % of cases. Was the noise declared correctly, and were both "
        "sets sampled independently in the same way?"
    )


def measured_band_and_truth(calibrated: Calibrated, level: Level, row: Row, median_zero: bool) -> str:
    """The promise of a band for measurements about the truth, which needs an assumption on the noise."""
    seen = f"{round(row.coverage * row.points)} of {row.points} noise-free values covered. "
    if not median_zero:
        return (
            seen + "The guarantee applies to new measurements. It does not extend to the truth unless the "
            "noise is known to be independent with median zero (biased sensors would bias model and band)."
        )
    promised = calibrated.promised(level)
    if promised is None:
        return seen + "No probability is promised for measurements, so none follows for the truth."
    if not calibrated.is_box:
        return seen + (
            "The guarantee applies to new measurements. Noise with median zero bounds how often the truth is "
            "missed only if the band is an interval for each output. This band is not, so nothing is "
            "promised about the truth."
        )
    promise = max(Fraction(0), 2 * promised - 1)
    what = "level" if promised == exact(level) else f"{float(promised):.4g}"
    sure = ""
    if calibrated.confidence is not None:
        sure = f", with confidence {float(exact(calibrated.confidence)):g} for the calibration set at hand"
    return (
        seen
        + "With noise of median zero at every point, independent of the training and calibration points, as "
        f"declared, the truth is covered with probability at least {float(promise):g} = "
        f"1 - 2 (1 - {what}){sure}, and usually far more."
    )


def law_verdict(
    calibrated: Calibrated,
    prediction: Prediction,
    level: Level,
    rows: Sequence[Row],
    groups: np.ndarray | None,
) -> tuple[bool | None, str]:
    """Whether the numbers of covered points agree with the guarantee (None if unknown), and why."""
    mass = 1 - (1 - MASS) / len(rows)
    found = [_row_verdict(calibrated, prediction, level, row, groups, mass) for row in rows]
    if len(found) == 1:
        return found[0]
    known = [consistent for consistent, _ in found]
    consistent = None if None in known else all(known)
    words = output_words(calibrated.field_names) or [f"y{j}" for j in range(len(rows))]
    return consistent, "\n".join(f"{word}: {text}" for word, (_, text) in zip(words, found, strict=True))


def _row_verdict(
    calibrated: Calibrated,
    prediction: Prediction,
    level: Level,
    row: Row,
    groups: np.ndarray | None,
    mass: float,
) -> tuple[bool | None, str]:
    m, covered = row.points, round(row.coverage * row.points)
    pieces = calibrated.laws_for(prediction, level, groups)
    if pieces is None:
        promised = calibrated.promised(level)
        what = "no probability" if promised is None else f"{float(promised):.4g} on average"
        return None, (
            f"{covered} of {m} covered. {calibrated.name} promises {what}; there is no exact law for one "
            "test set."
        )
    if math.isinf(row.sharpness) and covered == m:
        return (
            None,
            "The band is infinite at some or all points and covers everything, which proves nothing.",
        )
    probabilities = total_counts(pieces)
    low, high = central_range(probabilities, mass)
    at_most, at_least = tails(probabilities, covered)
    seen = f"{covered} of {m} covered, a valid band covers {low} to {high} in {100 * mass:.4g} % of cases"
    if covered < low:
        return False, (
            f"NOT consistent with the guarantee: {seen} (p = {at_most:.2g}). The test points are "
            "harder than the calibration points; were both sampled in the same way?"
        )
    if covered <= high:
        return True, f"Consistent with the guarantee: {seen}."
    tied = _with_ties(calibrated, prediction, level, groups)
    if covered <= central_range(total_counts(tied), mass)[1]:
        return True, (
            f"Consistent with the guarantee: {covered} of {m} covered, a valid band covers at least "
            f"{low} in {100 * mass:.4g} % of cases; scores tie, so it may cover more."
        )
    return True, (
        f"Covers more than the law allows: {seen} (p = {at_least:.2g}). The test points "
        "are easier than the calibration points, and the band is wider than necessary for them."
    )


def _with_ties(
    calibrated: Calibrated, prediction: Prediction, level: Level, groups: np.ndarray | None
) -> Pieces:
    """The law of the largest possible coverage if scores tie at the threshold.

    With ties, more than k calibration points lie in the band. If k' of n do, a new point is covered at most
    as often as with the (k'+1)-th of n scores without ties as the threshold.
    """
    found: list[tuple[CoverageLaw, int]] = []
    groups = groups if calibrated.needs_groups else None
    for mine, (more,) in zip(_parts(groups, groups), excess(calibrated, (level,), groups).T, strict=True):
        pieces = calibrated.laws_for(prediction.take(mine), level, None if groups is None else groups[mine])
        for law, m in pieces or ():
            k = min(law.k + int(more) + 1, law.n + 1)
            found.append((CoverageLaw(k, law.n) if more > 0 else law, m))
    return found


def excess(calibrated: Calibrated, levels: Sequence[Level], groups: np.ndarray | None) -> np.ndarray:
    """The number of calibration points in their own sets beyond the ranks, shape (levels, groups)."""
    prediction, y = calibrated.prediction, calibrated.y
    known = calibrated.groups if calibrated.needs_groups else None
    parts = _parts(groups, known)
    if prediction is None or y is None or len(y) == 0:
        return np.zeros((len(levels), len(parts)), dtype=int)
    inside = calibrated.contains_at(prediction, y, levels, groups=known)
    inside = inside if inside.ndim == 2 else np.asarray(inside.all(axis=2))
    found = np.zeros((len(levels), len(parts)), dtype=int)
    for j, rows_of in enumerate(parts):
        some, labeled = prediction.take(rows_of), None if known is None else known[rows_of]
        for i, level in enumerate(levels):
            pieces = calibrated.laws_for(some, level, labeled) or ()
            found[i, j] = inside[i, rows_of].sum() - sum(min(law.k, m) for law, m in pieces)
    return found


def same_scores(calibrated: Calibrated, scores: np.ndarray, what: str) -> str:
    """A sentence if test points were used for calibration, as equal scores show; otherwise ""."""
    known = getattr(getattr(calibrated, "threshold", None), "scores", np.empty(0))
    same, repeated = np.isin(scores, known), len(known) - len(np.unique(known))
    if same.mean() <= REUSED or repeated > REUSED / 2 * len(known):
        return ""
    return (
        f"{same.sum()} of {len(scores)} test {what}s have the score of a calibration {what} to the last "
        "digit: they were used for calibration and prove nothing. Test on others."
    )


def tied(calibrated: Calibrated, levels: Sequence[Level], groups: np.ndarray | None) -> bool:
    """Whether scores tie at the threshold of a level."""
    with allow_infinite():
        return bool((excess(calibrated, levels, groups) > 0).any())


def _parts(groups: np.ndarray | None, labeled: np.ndarray | None) -> list[Any]:
    """The rows of each group, found by their labels; all rows if there are no groups."""
    if groups is None or labeled is None:
        return [slice(None)]
    return [np.flatnonzero(labeled == name) for name in np.unique(groups)]
