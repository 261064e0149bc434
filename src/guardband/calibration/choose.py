"""Choosing: which of several bands, without spending the guarantee on the choice."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from guardband.calibration.calibrate import calibrate as calibrate_on
from guardband.calibration.partition import Rows, pair_of, taken
from guardband.conformal import Calibrated
from guardband.conformal.chosen import Chosen, bonferroni_level
from guardband.conformal.rank import InfiniteBandWarning, Level, exact
from guardband.leaks import refuse_leaks
from guardband.metrics import interval_score, sharpness
from guardband.values import Band, Observations

FOLDS = 5
"""Into how many parts the rows for choosing are cut: each is judged by bands calibrated on the others."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What `choose` picked: its name, the calibrated band, and what each candidate scored; less is better.

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
    """Pick one of several candidates honestly: on rows of their own, or at the price of a wider band.

    A candidate is a model, or a tuple (model, score, calibrator) with None for what is left at its default.
    Rows are `Observations` or pairs (x, y), parts that `gb.partition` made. With `choose`, candidates are
    compared there by their interval score at `level`, cross-validated, and the winner is calibrated on
    `calibrate` with its whole promise. Without, all K candidates are calibrated on the same rows, each at
    1 - (1 - level)/K, or with confidence 1 - (1 - confidence)/K, and the narrowest at `level` is taken: its
    promise holds whichever it is, and it is wider than one chosen on rows of their own.

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
        return _together(named, x, y, level, confidence)
    seen_x, seen_y = pair_of(choose)
    refuse_leaks({"choosing": Observations(seen_x, seen_y)}, Observations(x, y).x, Observations(x, y).y)
    scores = {name: _judged(one, seen_x, seen_y, level) for name, one in named.items()}
    best = min(scores, key=lambda name: scores[name])
    made = _calibrated(named[best], x, y, confidence)
    return Choice(best, made, scores, "interval score on rows of their own")


def _candidate(one: Any) -> tuple[Any, Any, Any]:
    parts = one if isinstance(one, tuple) else (one,)
    if not 1 <= len(parts) <= 3:
        raise TypeError(
            f"A candidate is a model or a tuple (model, score, calibrator), got {len(parts)} parts."
        )
    return (*parts, *[None] * (3 - len(parts)))  # type: ignore[return-value]


def _calibrated(one: tuple[Any, Any, Any], x: Any, y: Any, confidence: Level | None) -> Calibrated:
    model, score, calibrator = one
    return calibrate_on(model, x, y, score=score, calibrator=calibrator, confidence=confidence)


def _judged(one: tuple[Any, Any, Any], x: Any, y: Any, level: Level) -> float:
    """The interval score on rows that the band was not calibrated on, each row once."""
    if len(x) < FOLDS:
        raise ValueError(f"`choose` should hold at least {FOLDS} rows, got {len(x)}.")
    fold = np.random.default_rng(0).permutation(len(x)) % FOLDS
    total = 0.0
    for k in range(FOLDS):
        rest, part = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        made = _calibrated(one, taken(x, rest), taken(y, rest), None)
        _refuse_few(made, level, "`choose`", len(x), FOLDS / (FOLDS - 1))
        total += len(part) * interval_score(_box(made, taken(x, part), level), taken(y, part))
    return total / len(x)


def _together(
    named: Mapping[str, tuple[Any, Any, Any]], x: Any, y: Any, level: Level, confidence: Level | None
) -> Choice:
    """The narrowest of all, each asked for so much more that all hold together."""
    among = len(named)
    sure = None if confidence is None else bonferroni_level(confidence, among)
    made = {name: Chosen(_calibrated(one, x, y, sure), among) for name, one in named.items()}
    for one in made.values():
        _refuse_few(one, level, f"Choosing among {among} on the calibration points", len(x))
    widths = {name: sharpness(_box(one, x, level)) for name, one in made.items()}
    best = min(widths, key=lambda name: widths[name])
    return Choice(best, made[best], widths, f"mean width, each of {among} asked for more")


def _box(made: Calibrated, x: Any, level: Level) -> Band:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        band = made(x, level)
    if not isinstance(band, Band):
        raise TypeError(f"Candidates are compared by the width of bands; {made.name} gives {band!r}.")
    return band


def _refuse_few(made: Calibrated, level: Level, what: str, n: int, more: float = 1.0) -> None:
    """Infinite bands cannot be compared."""
    size = made.size(level)
    if size is not None and size.have < size.need:
        need = math.ceil(size.need * more)
        raise ValueError(
            f"{what} needs {need} rows at level {float(exact(level)):g}, there are {n}. "
            "Give more rows, ask for a lower level, or bring fewer candidates."
        )
