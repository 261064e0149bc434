"""Evaluation: what a band did on fresh points, beside its rivals, and whether the law allows it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from guardband.arrays import Array, ArrayLike, finite, kind_of, rows, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.base import Groups, Pieces, labels
from guardband.conformal.laws import LEVELS, CoverageLaw, central_range, tails, total_counts
from guardband.conformal.rank import InfiniteBandWarning, Level, exact
from guardband.grids import values_on
from guardband.labels import output_words, printed
from guardband.leaks import Copies, find_copies
from guardband.metrics.bands import (
    Floor,
    Region,
    acd,
    floor_of,
    interval_score,
    mean_over,
    relative_l2,
    rows_in,
)
from guardband.ranges import Range as Range
from guardband.ranges import Ranges, by_range, nearest
from guardband.values import Band, NormBand, Prediction

THIS, RIVAL = "this band", "constant width"

MASS = 0.99
"""The share of cases in which a valid band falls inside the ranges shown here."""


@dataclass(frozen=True)
class Row:
    """One line of an evaluation: one band, everywhere or in one region, and its coverage curve.

    `sharpness` is the mean width over all outputs, `widths` that of each output by itself, in its own units.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
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
    widths: tuple[float, ...] = field(repr=False)
    levels: tuple[Level, ...] = field(repr=False)
    coverages: tuple[float, ...] = field(repr=False)

    @property
    def acd(self) -> float:
        """The average coverage deviation over the levels."""
        return acd(self.coverages, self.levels)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a calibrated band did on test points, beside what the law allows. Prints as a table.

    `rows` holds the band itself first, then each region, then its rivals: the constant width, and the band
    before calibration; a band of constant width has no such rival. Where outputs are covered each by itself,
    each has rows of its own. `consistent` says whether the guarantee allows what was seen, None where there
    is no law, nothing to be seen, or rows that were used before; `verdict` says it in words. `laws` are those
    of scores without `ties`; with ties, a valid band may cover more. `empty` counts points where nothing lies
    in the band. `by_range` is coverage by ranges of each input, of the width and of the distance to training
    data; where it differs by more than chance allows, it is printed. `remarks` are sentences that belong
    beside the coverage of whole fields.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
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
    of_constant_width: bool = field(default=False, repr=False)
    outputs: tuple[str, ...] = field(default=(), repr=False)
    empty: int = field(default=0, repr=False)
    by_range: Ranges = field(default=Ranges(), repr=False)
    remarks: tuple[str, ...] = field(default=(), repr=False)

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
            *self._widths(),
            *(["This band is the one of constant width."] if self.of_constant_width else []),
            *([str(self.by_range)] if self.by_range.alarms else []),
            *([f"The band is empty at {self.empty} points, which it misses."] if self.empty else []),
            *self.remarks,
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

    def _widths(self) -> Iterable[str]:
        """The mean width of each output, where there are several."""
        main = self.rows[0]
        if len(main.widths) > 1:
            words = self.outputs or [f"y{j}" for j in range(len(main.widths))]
            each = ", ".join(f"{word} {width:.4g}" for word, width in zip(words, main.widths, strict=True))
            yield f"Mean width of each output, in its own units: {each}"

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

    The guarantee is about measurements, unless it was calibrated with `target="truth"`. With `target="truth"`
    here, y is the noise-free solution, and coverage of it is reported as such; `median_zero=True` declares
    that the noise is independent with median zero, from which a weaker promise for the truth follows.

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
    if calibrated.y is not None and len(calibrated.y) == 0:
        raise ValueError(
            "`evaluate` compares with a constant width calibrated on the same points; scores read from "
            "shards leave none. Use `gb.metrics.coverage` and `gb.metrics.sharpness` of the band."
        )
    prediction = x if isinstance(x, Prediction) else calibrated.predict(x)
    y = kind_of(prediction.mean, finite(rows(values_on(y, calibrated.grid), "y"), "y"))
    if len(y) == 0:
        raise ValueError("`y` should hold at least one test point, got none.")
    groups = None if groups is None else labels(groups, len(y))
    doubts = _warn_of_reuse(calibrated, prediction, y)
    chosen = {name: rows_in(region, prediction) for name, region in (regions or {}).items()}
    levels = tuple(sorted(levels, key=exact))
    with warnings.catch_warnings():
        # Infinite bands are part of the result here: sharpness and the verdict say so.
        warnings.simplefilter("ignore", InfiniteBandWarning)
        contenders = list(_contenders(calibrated, prediction, y, level, levels, groups))
        target_y = calibrated.derived(y)
        table = [row for one in contenders for row in one.rows(target_y, {"": None, **chosen}, levels)]
        mine = [row for row in table if not row.region and row.name.startswith(THIS)]
        laws = None
        if target == calibrated.about == "measurement":
            laws = _all_or_none(calibrated.laws_for(prediction, at, groups) for at in levels)
        if calibrated.about == "truth":
            consistent, verdict = _about_truth(calibrated, level, mine[0], target)
        elif target == "truth":
            consistent, verdict = None, _truth_verdict(calibrated, level, mine[0], median_zero)
        else:
            consistent, verdict = held_against_law(calibrated, prediction, level, mine, groups)
        if doubts:
            verdict = " ".join(doubts if consistent else [verdict, *doubts])
            consistent = None if consistent else consistent
        ties = laws is not None and bool((_excess(calibrated, levels, groups) > 0).any())
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
        ties=ties,
        of_constant_width=contenders[0].alike and _constant(contenders[0].band),
        outputs=output_words(calibrated.field_names),
        by_range=_by_range(calibrated, prediction, contenders[0]),
        empty=int(band.empty.sum()) if isinstance(band := contenders[0].band, Band) else 0,
        remarks=(*remarks, *by_size(_sizes_of(prediction), contenders[0].inside)),
    )


@dataclass(frozen=True, eq=False)
class _Contender:
    """A band to be compared: its set at the level, and who is inside at the level and at all levels."""

    name: str
    band: Band | NormBand | None
    inside: np.ndarray
    curves: np.ndarray
    output: int | None = None
    alike: bool = False  # the same as its rival, which is left out then
    words: tuple[str, ...] = ()  # what outputs are called

    def rows(
        self, y: Array, regions: Mapping[str, np.ndarray | None], levels: tuple[Level, ...]
    ) -> Iterable[Row]:
        """One row for each region; where outputs are covered each by itself, one for each output too."""
        for part in self._parts():
            target = y if part.output is None else y[..., [part.output]]
            for region, chosen in regions.items():
                yield part._row(target, region, chosen, levels)

    def _parts(self) -> Iterable[_Contender]:
        """Itself; or what it says of each output, where that is promised of each by itself."""
        if self.inside.ndim == 1:
            yield self
            return
        for j in range(self.inside.shape[1]):
            name = f"{self.name}, {self.words[j] if self.words else f'y{j}'}"
            named = replace(self, name=name, inside=self.inside[:, j], curves=self.curves[..., j])
            if isinstance(self.band, Band) and self.band.mean.shape[1:] == self.inside.shape[1:]:
                mean, lower, upper = (
                    part[:, [j]] for part in (self.band.mean, self.band.lower, self.band.upper)
                )
                named = replace(named, band=Band(self.band.x, mean, lower, upper, self.band.level), output=j)
            yield named

    def _row(self, y: Array, region: str, chosen: np.ndarray | None, levels: tuple[Level, ...]) -> Row:
        some = slice(None) if chosen is None else chosen
        inside, curves = self.inside[some], self.curves[:, some]
        wide = np.full((1, 1), math.nan) if self.band is None else to_numpy(self.band.width)[some]
        each = wide.reshape(-1, wide.shape[-1])
        return Row(
            name=self.name,
            region=region,
            points=len(inside),
            coverage=mean_over(self.inside, chosen),
            sharpness=float(wide.mean()) if wide.size else math.nan,
            interval_score=interval_score(self.band, y, region=chosen)
            if isinstance(self.band, Band) and self.band.boxed
            else math.nan,
            widths=tuple(each.mean(axis=0).tolist()) if each.size else (math.nan,) * each.shape[1],
            coverages=tuple(curves.mean(axis=1).tolist()) if len(inside) else (math.nan,) * len(levels),
            levels=levels,
        )


def _contenders(
    calibrated: Calibrated,
    prediction: Prediction,
    y: Array,
    level: Level,
    levels: tuple[Level, ...],
    groups: np.ndarray | None,
) -> Iterable[_Contender]:
    """The bands to be compared; constant width only where it is another one."""
    asked = (level, *levels)
    inside = calibrated.contains_at(prediction, y, asked, groups=groups)
    mine = shown(calibrated, prediction, level, groups)
    rival = calibrated.constant_width()
    bare = Prediction(prediction.x, prediction.mean)
    flat = None if rival is None else shown(rival, bare, level, groups)
    alike = mine is not None and type(mine) is type(flat) and _alike(mine, flat)
    name = f"{THIS}, a ball by its diameter" if isinstance(mine, NormBand) else THIS
    words = output_words(calibrated.field_names)
    yield _Contender(name, mine, inside[0], inside[1:], alike=alike, words=words)
    if rival is not None and not alike:
        inside = rival.contains_at(bare, y, asked, groups=groups)
        yield _Contender(RIVAL, flat, inside[0], inside[1:], words=words)
    before = [band for at in asked if isinstance(band := calibrated.before(prediction, at), Band)]
    if len(before) == len(asked):
        lower, upper = (np.stack([to_numpy(end) for end in ends]) for ends in _ends(before))
        inside = np.reshape((lower <= to_numpy(y)) & (to_numpy(y) <= upper), (len(asked), len(y), -1))
        raw = np.asarray(inside.all(axis=2)) if calibrated.joint else inside
        yield _Contender("before calibration", before[0], raw[0], raw[1:], words=words)


def _by_range(calibrated: Calibrated, prediction: Prediction, mine: _Contender) -> Ranges:
    """Coverage by ranges of what is known of a point before y is."""
    inside = mine.inside if mine.inside.ndim == 1 else np.asarray(mine.inside.all(axis=1))
    features, at = dict[str, np.ndarray](), None
    if prediction.x is not None and prediction.x.ndim == 2 and prediction.x.shape[1] > 0:
        at = to_numpy(prediction.x).astype(float)
        names, columns = calibrated.field_names, calibrated.columns
        known = columns.numeric if columns is not None else () if names is None else names.axes
        words = known if len(known) == at.shape[1] else [f"x{j}" for j in range(at.shape[1])]
        features = {printed(str(word)): values for word, values in zip(words, at.T, strict=True)}
        training = calibrated.used.get("training")
        if training is not None and training.x.shape[1:] == at.shape[1:]:
            features["distance to training data"] = nearest(to_numpy(training.x).astype(float), at)
    if isinstance(mine.band, Band):
        width = to_numpy(mine.band.width).astype(float).reshape(len(inside), -1).mean(axis=1)
        if not _constant(mine.band):
            features["width"] = width
    return by_range(inside, features, at)


def _sizes_of(prediction: Prediction) -> np.ndarray | None:
    """How large the input of each whole field is; None for points."""
    if prediction.mean.ndim < 3 or prediction.x is None:
        return None
    return np.sqrt(np.mean(to_numpy(prediction.x).astype(float).reshape(len(prediction), -1) ** 2, axis=1))


def by_size(size: np.ndarray | None, inside: np.ndarray) -> Iterable[str]:
    """Coverage of whole fields by quarters of the size of their inputs: adaptive is not conditional."""
    if size is None or len(size) < 8 or inside.ndim > 1:
        return
    quarters = np.array_split(np.argsort(size, kind="stable"), 4)
    if np.ptp(size) > 0:
        each = ", ".join(f"{inside[rows].mean():.3f}" for rows in quarters)
        yield f"Coverage by quarters of the size of the input, smallest first: {each}"


def _ends(bands: Sequence[Band]) -> tuple[list[Array], list[Array]]:
    return [band.lower for band in bands], [band.upper for band in bands]


def shown(
    calibrated: Calibrated, prediction: Prediction, level: Level, groups: np.ndarray | None
) -> Band | NormBand | None:
    """The set at a level, None where it cannot be shown."""
    try:
        return calibrated.band(prediction, level, groups=groups)
    except TypeError:
        return None


def _constant(band: Band | NormBand | None) -> bool:
    """Whether a band is equally wide everywhere, but for rounding."""
    assert band is not None
    width, mean = (to_numpy(part).astype(float) for part in (band.width, band.mean))
    slack = 1e-6 * width[:1] + 32 * np.finfo(to_numpy(band.mean).dtype).eps * abs(mean).max()
    with np.errstate(invalid="ignore"):
        return bool(((width == width[:1]) | (abs(width - width[:1]) <= slack)).all())


def _alike(a: Band | NormBand, b: Any) -> bool:
    ends = ("lower", "upper") if isinstance(a, Band) else ("radius",)
    return all(np.array_equal(to_numpy(getattr(a, end)), to_numpy(getattr(b, end))) for end in ends)


def reused(calibrated: Calibrated, x: Array | None, y: Array) -> Iterator[tuple[str, Copies]]:
    """What of test rows was used before: for calibration, for training, as held-out rows."""
    if x is None:
        return
    known = {what: (data.x, data.y) for what, data in calibrated.used.items()}
    if calibrated.prediction is not None and calibrated.prediction.x is not None and calibrated.y is not None:
        known = {"calibration": (calibrated.prediction.x, calibrated.y), **known}
    for what, (known_x, known_y) in known.items():
        found = find_copies(known_x, known_y, x, y, points="test", known=what)
        if found.verdict == "refuse":
            yield what, found


def _warn_of_reuse(calibrated: Calibrated, prediction: Prediction, y: Array) -> list[str]:
    """Points that were calibrated on are covered by construction, those trained on too easily."""
    texts = [found.text for _, found in reused(calibrated, prediction.x, y)]
    for text in texts:
        warnings.warn(text, stacklevel=3)
    return texts


def _about_truth(calibrated: Calibrated, level: Level, row: Row, target: str) -> tuple[bool | None, str]:
    """Whether a band for the truth covers it; about measurements it says nothing."""
    from scipy.stats import binom

    m, covered, promised = row.points, round(row.coverage * row.points), calibrated.promised(level)
    if target != "truth" or promised is None:
        return None, (
            f"{covered} of {m} measurements covered. This band is about the noise-free truth and promises "
            "nothing about measurements: evaluate it with target='truth' and noise-free y."
        )
    seen = f"{covered} of {m} noise-free values covered, at least {float(promised):.4g} are promised"
    if calibrated.confidence is None:
        return None, f"{seen} on average; one test set has no exact law to be held against."
    rest = float(1 - exact(calibrated.confidence))
    chance = float(binom.cdf(covered, m, float(promised)))
    seen += f" with confidence {1 - rest:g}"
    if chance > 1 - MASS:
        return True, f"Consistent with the guarantee: {seen}."
    return False, (
        f"NOT consistent with the guarantee: {seen}, and so few are seen in at most "
        f"{100 * min(1.0, rest + chance):.2g} % of cases. Is the noise as it was declared, and were both "
        "drawn alike?"
    )


def _truth_verdict(calibrated: Calibrated, level: Level, row: Row, median_zero: bool) -> str:
    """What can be said of the noise-free truth: nothing without an assumption on the noise."""
    seen = f"{round(row.coverage * row.points)} of {row.points} noise-free values covered. "
    if not median_zero:
        return (
            seen + "The guarantee is about new measurements; about the truth it says nothing unless the "
            "noise is known to have median zero (biased sensors would mislead model and band alike)."
        )
    promised = calibrated.promised(level)
    if promised is None:
        return seen + "No probability is promised for measurements, so none follows for the truth."
    promise = max(Fraction(0), 2 * promised - 1)
    what = "level" if promised == exact(level) else f"{float(promised):.4g}"
    return (
        seen
        + f"With independent noise of median zero, as declared, the truth is covered with probability at "
        f"least {float(promise):g} = 1 - 2 (1 - {what}), and usually far more."
    )


def held_against_law(
    calibrated: Calibrated,
    prediction: Prediction,
    level: Level,
    mine: Sequence[Row],
    groups: np.ndarray | None,
) -> tuple[bool | None, str]:
    """Whether so many covered points are what the guarantee allows, None if it cannot be told; in words."""
    mass = 1 - (1 - MASS) / len(mine)
    found = [_judged(calibrated, prediction, level, row, groups, mass) for row in mine]
    if len(found) == 1:
        return found[0]
    known = [consistent for consistent, _ in found]
    consistent = None if None in known else all(known)
    return consistent, "\n".join(f"y{j}: {text}" for j, (_, text) in enumerate(found))


def _judged(
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
            f"{covered} of {m} covered. {calibrated.name} promises {what}; one test set has no exact law to "
            "be held against."
        )
    if math.isinf(row.sharpness) and covered == m:
        return (
            None,
            "The band is infinite, somewhere or everywhere, and covers everything: it proves nothing.",
        )
    probabilities = total_counts(pieces)
    low, high = central_range(probabilities, mass)
    at_most, at_least = tails(probabilities, covered)
    seen = f"{covered} of {m} covered, a valid band covers {low} to {high} in {100 * mass:.4g} % of cases"
    if covered < low:
        return False, (
            f"NOT consistent with the guarantee: {seen} (p = {at_most:.2g}). The test points are "
            "harder than the calibration points; were both drawn alike?"
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
        f"Covers more than the law allows: {seen} (p = {at_least:.2g}). The band is safe but "
        "wider than needed, and the test points are easier than the calibration points."
    )


def _with_ties(
    calibrated: Calibrated, prediction: Prediction, level: Level, groups: np.ndarray | None
) -> Pieces:
    """The law at best: where scores tie at the threshold, more calibration points than k lie in the band.

    If k' of n do, a new point is covered at most as often as by the (k'+1)-th score of n that do not tie.
    """
    found: list[tuple[CoverageLaw, int]] = []
    groups = groups if calibrated.needs_groups else None
    for mine, (more,) in zip(_parts(groups, groups), _excess(calibrated, (level,), groups).T, strict=True):
        pieces = calibrated.laws_for(prediction.take(mine), level, None if groups is None else groups[mine])
        for law, m in pieces or ():
            k = min(law.k + int(more) + 1, law.n + 1)
            found.append((CoverageLaw(k, law.n) if more > 0 else law, m))
    return found


def _excess(calibrated: Calibrated, levels: Sequence[Level], groups: np.ndarray | None) -> np.ndarray:
    """By how many calibration points more than the ranks say lie in their own sets: (levels, groups)."""
    prediction, y = calibrated.prediction, calibrated.y
    known = calibrated.groups if calibrated.needs_groups else None
    parts = _parts(groups, known)
    if prediction is None or y is None:
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


def _parts(groups: np.ndarray | None, labeled: np.ndarray | None) -> list[Any]:
    """The rows of each group that occurs, among labeled ones; all rows where there are no groups."""
    if groups is None or labeled is None:
        return [slice(None)]
    return [np.flatnonzero(labeled == name) for name in np.unique(groups)]


def _all_or_none(laws: Iterable[Pieces | None]) -> tuple[Pieces, ...] | None:
    known = tuple(law for law in laws)
    return None if any(law is None for law in known) else known  # type: ignore[return-value]


def _title(row: Row) -> str:
    return f"{row.name}, {row.region}" if row.region else row.name


def _line(row: Row, width: int) -> str:
    numbers = f"{row.points:6d}  {row.coverage:8.3f}  {row.sharpness:9.4g}"
    return f"{_title(row):{width}}  {numbers}  {row.interval_score:14.4g}  {row.acd:6.4f}"
