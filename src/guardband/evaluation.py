"""Evaluation: what a band did on fresh points, beside its rivals, and whether the law allows it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from guardband.arrays import Array, ArrayLike, finite, kind_of, more_than_repeats, rows, shared_rows, to_numpy
from guardband.conformal.base import Groups, Pieces, labels
from guardband.conformal.calibrate import Calibrated, calibrate_arrays
from guardband.conformal.laws import LEVELS, CoverageLaw, central_range, tails, total_counts
from guardband.conformal.rank import InfiniteBandWarning, Level, exact
from guardband.conformal.scores import Absolute, Scaled, Total, raw_band
from guardband.metrics import (
    Floor,
    Region,
    acd,
    coverage,
    floor_of,
    interval_score,
    mask_of,
    mean_over,
    relative_l2,
    sharpness,
)
from guardband.values import Band, Prediction

MASS = 0.99
"""The share of cases in which a valid band falls inside the ranges shown here."""


@dataclass(frozen=True)
class Row:
    """One line of an evaluation: one band, everywhere or in one region, and its coverage curve.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.zeros_like), draw(size=100), draw(size=100))
    >>> regions = {"left": lambda x: x[:, 0] < 0}
    >>> evaluation = gb.evaluate(calibrated, draw(size=50), draw(size=50), regions=regions)
    >>> [(row.name, row.region, row.points) for row in evaluation.rows[:2]]
    [('this band', '', 50), ('this band', 'left', 31)]
    """

    name: str
    region: str
    points: int
    coverage: float
    sharpness: float
    interval_score: float
    levels: tuple[Level, ...] = field(repr=False)
    coverages: tuple[float, ...] = field(repr=False)

    @property
    def acd(self) -> float:
        """The average coverage deviation over the levels."""
        return acd(self.coverages, self.levels)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a calibrated band did on test points, beside what the law allows. Prints as a table.

    `rows` holds the band itself first, then each region, then its rivals: the constant width, and
    the band before calibration. `consistent` says whether the guarantee allows what was seen, None where
    there is no law or nothing to be seen; `verdict` says it in words. `laws` are those of scores without
    `ties`; with ties, a valid band may cover more.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.zeros_like), draw(size=100), draw(size=100))
    >>> evaluation = gb.evaluate(calibrated, draw(size=500), draw(size=500), level=0.9)
    >>> evaluation.coverage, round(evaluation.sharpness, 1), round(evaluation.acd, 2)
    (0.888, 3.0, 0.02)
    """

    level: float
    n_cal: int
    n_test: int
    relative_l2: float
    verdict: str
    consistent: bool | None = field(repr=False)
    rows: tuple[Row, ...]
    laws: tuple[Pieces, ...] | None = field(repr=False)
    ties: bool = field(default=False, repr=False)

    @property
    def coverage(self) -> float:
        """The share of test points covered at the level."""
        return self.rows[0].coverage

    @property
    def sharpness(self) -> float:
        """The mean width at the level."""
        return self.rows[0].sharpness

    @property
    def interval_score(self) -> float:
        """Width and misses in one number; less is better."""
        return self.rows[0].interval_score

    @property
    def acd(self) -> float:
        """The average coverage deviation over the levels; hold it against `acd_floor`."""
        return self.rows[0].acd

    @cached_property
    def acd_floor(self) -> Floor | None:
        """What ACD a perfectly valid band shows with these numbers of points."""
        return None if self.laws is None else floor_of(self.laws, self.rows[0].levels)

    @cached_property
    def ranges(self) -> np.ndarray | None:
        """For each level of the curve, the coverage a valid band shows in 99 % of cases, (levels, 2)."""
        if self.laws is None:
            return None
        counts = [central_range(total_counts(pieces), MASS) for pieces in self.laws]
        return np.array(counts) / self.n_test

    def __str__(self) -> str:
        width = max(len(_title(row)) for row in self.rows)
        lines = [
            f"Band at level {self.level:g}: {self.n_cal} calibration, {self.n_test} test points",
            f"{'':{width}}  points  coverage  sharpness  interval score     ACD",
            *(_line(row, width) for row in self.rows),
            f"Relative L2 error of the mean against these targets: {self.relative_l2:.4g}",
        ]
        if self.acd_floor is not None:
            lines.append(
                f"ACD of a perfectly valid band: {self.acd_floor.mean:.4f} on average, "
                f"{self.acd_floor.low:.4f} to {self.acd_floor.high:.4f} in 95 % of cases"
                + (", if no scores tied; here some do" if self.ties else "")
            )
            if self.acd > 1.5 * self.acd_floor.high and not self.ties:
                lines.append(
                    "Over all levels the band is off: hardly any valid band has an ACD of "
                    f"{self.acd:.4f} by chance."
                )
        return "\n".join([*lines, self.verdict])

    __repr__ = __str__


def evaluate(
    calibrated: Calibrated,
    x: ArrayLike,
    y: ArrayLike,
    *,
    level: Level = 0.95,
    levels: Sequence[Level] = LEVELS,
    groups: Groups = None,
    regions: Mapping[str, Region] | None = None,
    target: Literal["measurement", "truth"] = "measurement",
    median_zero: bool = False,
) -> Evaluation:
    """Test a calibrated band on fresh points x (n, d), y (n, m), and say whether the law holds.

    In place of x a `Prediction` already made will do, for calibrations from arrays alone.
    Beside the band stand its constant-width rival, calibrated on the same points, and the band
    before calibration if there is one. `regions` maps names to masks or functions of x.

    The guarantee is about measurements. With `target="truth"`, y is the noise-free solution, and coverage of
    it is reported as such; `median_zero=True` declares that the noise is independent with median zero, from
    which a weaker promise for the truth follows.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> model = gb.predictors.Constant(np.zeros_like)
    >>> calibrated = gb.calibrate(model, draw(size=100), draw(size=100))
    >>> evaluation = gb.evaluate(calibrated, draw(size=500), draw(size=500))
    >>> print(evaluation.verdict)
    Consistent with the guarantee: 481 of 500 covered, a valid band covers 436 to 496 in 99 % of cases.
    """
    if target not in ("measurement", "truth"):
        raise ValueError(f"`target` should be 'measurement' or 'truth', got {target!r}.")
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`evaluate` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    if len(calibrated.y) == 0:
        raise ValueError(
            "`evaluate` compares with a constant width calibrated on the same points; scores read from "
            "shards leave none. Use `gb.metrics.coverage` and `gb.metrics.sharpness` of the band."
        )
    prediction = x if isinstance(x, Prediction) else calibrated.predict(x)
    y = kind_of(prediction.mean, finite(rows(y, "y"), "y"))
    if len(y) == 0:
        raise ValueError("`y` should hold at least one test point, got none.")
    groups = None if groups is None else labels(groups, len(y))
    _warn_of_reuse(calibrated, prediction, y)
    masks = {name: mask_of(region, prediction) for name, region in (regions or {}).items()}
    levels = sorted(levels, key=exact)
    table: list[Row] = []
    with warnings.catch_warnings():
        # Infinite bands are part of the result here: sharpness and the verdict say so.
        warnings.simplefilter("ignore", InfiniteBandWarning)
        for name, band_at in _contenders(calibrated, prediction, groups).items():
            curves = [to_numpy(band_at(at).contains(y)) for at in levels]
            band = band_at(level)
            for place, mask in {"": None, **masks}.items():
                table.append(
                    Row(
                        name=name,
                        region=place,
                        points=len(y) if mask is None else int(mask.sum()),
                        coverage=coverage(band, y, region=mask),
                        sharpness=sharpness(band, region=mask),
                        interval_score=interval_score(band, y, region=mask),
                        coverages=tuple(mean_over(inside, mask) for inside in curves),
                        levels=tuple(levels),
                    )
                )
    laws = (
        None
        if target == "truth"
        else _all_or_none(calibrated.threshold.laws(at, len(y), groups) for at in levels)
    )
    if target == "truth":
        consistent, verdict = None, _truth_verdict(level, table[0], median_zero)
    else:
        consistent, verdict = _verdict(calibrated, level, table[0], groups)
    return Evaluation(
        level=float(exact(level)),
        n_cal=len(calibrated.y),
        n_test=len(y),
        relative_l2=relative_l2(prediction.mean, y),
        verdict=verdict,
        consistent=consistent,
        rows=tuple(table),
        laws=laws,
        ties=laws is not None
        and any(_with_ties(calibrated, at, law, groups) != law for at, law in zip(levels, laws, strict=True)),
    )


def _contenders(
    calibrated: Calibrated, prediction: Prediction, groups: np.ndarray | None
) -> dict[str, Callable[[Level], Band]]:
    """The bands to be compared, each as a function of the level."""
    contenders = {"this band": lambda at: calibrated.band(prediction, at, groups=groups)}
    rival = calibrate_arrays(
        calibrated.prediction.mean,
        calibrated.y,
        x_cal=calibrated.prediction.x,
        score=Absolute(),
        calibrator=calibrated.calibrator.plain,
        groups=calibrated.groups,
        confidence=calibrated.confidence,
    )
    bare = Prediction(prediction.x, prediction.mean)
    contenders["constant width"] = lambda at: rival.band(bare, at, groups=groups)
    if prediction.scale is not None:
        # With Total() the noise belongs to what the scale promises; it is added before calibration too.
        score = calibrated.score if isinstance(calibrated.score, Total) else Scaled()
        contenders["before calibration"] = lambda at: raw_band(prediction, at, score=score)
    return contenders


def _warn_of_reuse(calibrated: Calibrated, prediction: Prediction, y: Array) -> None:
    """Points that were calibrated on are covered by construction, and prove nothing."""
    x_cal, x = calibrated.prediction.x, prediction.x
    if x_cal is None or x is None:
        return
    same = shared_rows([x, y], [x_cal, calibrated.y])
    if more_than_repeats(same, [x_cal, calibrated.y]):
        warnings.warn(
            f"{int(same.sum())} of {len(y)} test points are calibration points, which are covered by "
            "construction. Test on others.",
            stacklevel=3,
        )


def _truth_verdict(level: Level, row: Row, median_zero: bool) -> str:
    """What can be said of the noise-free truth: nothing without an assumption on the noise."""
    seen = f"{round(row.coverage * row.points)} of {row.points} noise-free values covered. "
    if not median_zero:
        return (
            seen + "The guarantee is about new measurements; about the truth it says nothing unless the "
            "noise is known to have median zero (biased sensors would mislead model and band alike)."
        )
    promise = max(Fraction(0), 2 * exact(level) - 1)
    return (
        seen
        + f"With independent noise of median zero, as declared, the truth is covered with probability at "
        f"least {float(promise):g} = 1 - 2 (1 - level), and usually far more."
    )


def _verdict(
    calibrated: Calibrated, level: Level, row: Row, groups: np.ndarray | None
) -> tuple[bool | None, str]:
    """Whether so many covered points are what the guarantee allows, None if it cannot be told; in words."""
    m, covered = row.points, round(row.coverage * row.points)
    pieces = calibrated.threshold.laws(level, m, groups)
    if pieces is None:
        return None, (
            f"{covered} of {m} covered. {type(calibrated.calibrator).__name__}() promises "
            f"{float(exact(level)):g} on average; one test set has no exact law to be held against."
        )
    if math.isinf(row.sharpness) and covered == m:
        return (
            None,
            "The band is infinite, somewhere or everywhere, and covers everything: it proves nothing.",
        )
    probabilities = total_counts(pieces)
    low, high = central_range(probabilities, MASS)
    at_most, at_least = tails(probabilities, covered)
    seen = f"{covered} of {m} covered, a valid band covers {low} to {high} in 99 % of cases"
    if covered < low:
        return False, (
            f"NOT consistent with the guarantee: {seen} (p = {at_most:.2g}). The test points are "
            "harder than the calibration points; were both drawn alike?"
        )
    tied = _with_ties(calibrated, level, pieces, groups)
    if high < covered <= central_range(total_counts(tied), MASS)[1]:
        return True, (
            f"Consistent with the guarantee: {covered} of {m} covered, a valid band covers at least "
            f"{low} in 99 % of cases; scores tie, so it may cover more."
        )
    if covered > high:
        return True, (
            f"Covers more than the law allows: {seen} (p = {at_least:.2g}). The band is safe but "
            "wider than needed, and the test points are easier than the calibration points."
        )
    return True, f"Consistent with the guarantee: {seen}."


def _with_ties(calibrated: Calibrated, level: Level, pieces: Pieces, groups: np.ndarray | None) -> Pieces:
    """The laws at best: where scores tie at the threshold, more calibration points than k lie in the band.

    If k' of n do, a new point is covered at most as often as by the (k'+1)-th score of n that do not tie.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        band = calibrated.band(calibrated.prediction, level, groups=calibrated.groups)
    inside = to_numpy(band.contains(calibrated.y))
    parts = [inside] if groups is None else [inside[calibrated.groups == name] for name in np.unique(groups)]
    within = [int(part.sum()) for part in parts]
    return [
        (CoverageLaw(k + 1, law.n), m) if k > law.k else (law, m)
        for k, (law, m) in zip(within, pieces, strict=True)
    ]


def _all_or_none(laws: Iterable[Pieces | None]) -> tuple[Pieces, ...] | None:
    known = tuple(law for law in laws)
    return None if any(law is None for law in known) else known  # type: ignore[return-value]


def _title(row: Row) -> str:
    return f"{row.name}, {row.region}" if row.region else row.name


def _line(row: Row, width: int) -> str:
    numbers = f"{row.points:6d}  {row.coverage:8.3f}  {row.sharpness:9.4g}"
    return f"{_title(row):{width}}  {numbers}  {row.interval_score:14.4g}  {row.acd:6.4f}"
