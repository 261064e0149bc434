"""Choose among several candidates without losing the guarantee."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike, Model
from guardband.calibration.calibrate import calibrate as calibrate_on
from guardband.calibration.partition import Rows, pair_of, taken
from guardband.conformal import Calibrated, Calibrator, Score
from guardband.conformal.chosen import Chosen, bonferroni_level
from guardband.conformal.rank import InfiniteBandWarning, Level, exact
from guardband.leaks import refuse_leaks
from guardband.metrics import interval_score, sharpness
from guardband.values import Band, Observations

FOLDS = 5
"""Number of folds of the rows for choosing; each fold is scored with bands calibrated on the others."""

Candidate: TypeAlias = tuple[Model, Score | None, Calibrator | None]


@dataclass(frozen=True, eq=False)
class Choice:
    """The result of `choose`.

    Attributes
    ----------
    name
        Name of the chosen candidate.
    calibrated
        The chosen candidate, calibrated.
    scores
        The criterion for each candidate, by name; smaller is better.
    by
        The criterion, in words.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 300)
    >>> y = np.sin(3 * x) + 0.1 * np.cos(50 * x)
    >>> candidates = {"sine": lambda x: np.sin(3 * x), "zero": np.zeros_like}
    >>> gb.choose(candidates, choose=(x[::2], y[::2]), calibrate=(x[1::2], y[1::2])).name
    'sine'
    """

    name: str
    calibrated: Calibrated
    scores: Mapping[str, float]
    by: str

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        lines = [f"Chosen by {self.by}: {self.name}"]
        return "\n".join([*lines, *(f"{name:{width}}  {score:.4g}" for name, score in self.scores.items())])

    __repr__ = __str__


def choose(
    candidates: Mapping[str, Any],
    *,
    calibrate: Rows,
    choose: Rows | None = None,
    level: Level = 0.95,
    confidence: Level | None = None,
) -> Choice:
    """Choose one of several candidates and calibrate it, with a valid guarantee.

    The candidates are compared on separate rows, or on the calibration rows at the price of a wider band.

    Parameters
    ----------
    candidates
        Candidates by name. Each is a model, or a tuple (model, score, calibrator) in which None selects the
        default.
    calibrate
        Rows for calibration: `Observations` or a pair (x, y), such as the parts from `gb.partition`.
    choose
        Separate rows for the comparison. By default the candidates are compared on the calibration rows.
    level
        The coverage at which candidates are compared.
    confidence
        The probability, over calibration sets, that the coverage is at least the level, as in
        `gb.calibrate`.

    Returns
    -------
    Choice
        The chosen candidate, calibrated, and the criterion for each candidate.

    Notes
    -----
    With `choose`, the criterion is the interval score at `level`, by 5-fold cross-validation on these rows.
    The best candidate is then calibrated on the calibration rows and keeps its full guarantee.

    Without `choose`, all K candidates are calibrated on the same rows, each at the level 1 - (1 - level)/K,
    or with the confidence 1 - (1 - confidence)/K, and the one with the narrowest band at `level` is chosen.
    By the union bound the guarantee holds for any choice, but the band is wider than one chosen on separate
    rows.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=400)
    >>> data = gb.Observations(x, np.sin(3 * x) + x * rng.normal(size=400))
    >>> parts = gb.partition(data, choose=0.4, calibrate=0.6)
    >>> def model(x):
    ...     return np.sin(3 * x)
    >>> candidates = {"constant": model, "scaled": gb.predictors.Given(model, lambda x: x)}
    >>> choose, calibrate = parts.choose, parts.calibrate
    >>> print(gb.choose(candidates, choose=choose, calibrate=calibrate, level=0.9))
    Chosen by interval score on rows of their own: scaled
    constant  2.78
    scaled    1.967
    """
    if not isinstance(candidates, Mapping) or not candidates:
        raise TypeError(
            "`candidates` should be a dict of names and models, or tuples (model, score, calibrator), got "
            f"{type(candidates).__name__}."
        )
    named = {str(name): _candidate(one) for name, one in candidates.items()}
    x, y = pair_of(calibrate)
    if choose is None:
        return _narrowest(named, x, y, level, confidence)
    seen_x, seen_y = pair_of(choose)
    refuse_leaks({"choosing": Observations(seen_x, seen_y)}, Observations(x, y).x, Observations(x, y).y)
    scores = {name: _cross_validated(one, seen_x, seen_y, level) for name, one in named.items()}
    best = min(scores, key=lambda name: scores[name])
    calibrated = _calibrated(named[best], x, y, confidence)
    return Choice(best, calibrated, scores, "interval score on rows of their own")


def _candidate(one: Model | tuple[Any, ...]) -> Candidate:
    parts = one if isinstance(one, tuple) else (one,)
    if not 1 <= len(parts) <= 3:
        raise TypeError(
            f"A candidate is a model or a tuple (model, score, calibrator), got {len(parts)} parts."
        )
    model, score, calibrator = (*parts, None, None)[:3]
    return model, score, calibrator


def _calibrated(one: Candidate, x: ArrayLike, y: ArrayLike, confidence: Level | None) -> Calibrated:
    model, score, calibrator = one
    return calibrate_on(model, x, y, score=score, calibrator=calibrator, confidence=confidence)


def _cross_validated(one: Candidate, x: ArrayLike, y: ArrayLike, level: Level) -> float:
    """The mean interval score over all rows, each scored with a band that was not calibrated on it."""
    if len(x) < FOLDS:
        raise ValueError(f"`choose` should hold at least {FOLDS} rows, got {len(x)}.")
    fold = np.random.default_rng(0).permutation(len(x)) % FOLDS
    total = 0.0
    for k in range(FOLDS):
        rest, part = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        calibrated = _calibrated(one, taken(x, rest), taken(y, rest), None)
        _refuse_few(calibrated, level, "`choose`", len(x), FOLDS / (FOLDS - 1))
        total += len(part) * interval_score(_box(calibrated, taken(x, part), level), taken(y, part))
    return total / len(x)


def _narrowest(
    named: Mapping[str, Candidate], x: ArrayLike, y: ArrayLike, level: Level, confidence: Level | None
) -> Choice:
    """Choose the narrowest band, with the level or confidence corrected for the number of candidates."""
    count = len(named)
    corrected = None if confidence is None else bonferroni_level(confidence, count)
    bands = {name: Chosen(_calibrated(one, x, y, corrected), count) for name, one in named.items()}
    for band in bands.values():
        _refuse_few(band, level, f"Choosing among {count} candidates on the calibration points", len(x))
    widths = {name: sharpness(_box(band, x, level)) for name, band in bands.items()}
    best = min(widths, key=lambda name: widths[name])
    return Choice(best, bands[best], widths, f"mean width, corrected for {count} candidates")


def _box(calibrated: Calibrated, x: ArrayLike, level: Level) -> Band:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        band = calibrated(x, level)
    if not isinstance(band, Band):
        raise TypeError(
            f"Candidates are compared by the width of bands, but {calibrated.name} returns {band!r}."
        )
    return band


def _refuse_few(calibrated: Calibrated, level: Level, what: str, n: int, factor: float = 1.0) -> None:
    """Refuse a calibration set that gives infinite bands, since these cannot be compared."""
    size = calibrated.size(level)
    if size is not None and size.have < size.need:
        need = math.ceil(size.need * factor)
        raise ValueError(
            f"{what} needs {need} rows at level {float(exact(level)):g}, but there are {n}. "
            "Pass more rows, request a lower level, or compare fewer candidates."
        )
