"""Checks: is the guarantee void? What can be seen of it before anybody trusts a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from guardband.base.arrays import Array, ArrayLike, flat, rows, to_numpy
from guardband.checks.extrapolation import COMPONENTS, energy_test, extrapolates, leading
from guardband.conformal import Calibrated
from guardband.conformal.base import Groups, group_labels
from guardband.conformal.rank import Level, exact
from guardband.leaks import find_copies, shared_states, states_of, without_common
from guardband.metrics.ranges import features_of, strongest, trends
from guardband.values import Predictor
from guardband.values.frames import is_frame, numbers, on_axes
from guardband.values.grids import FieldGrid, Fields
from guardband.values.labeled import Axes, arranged, opened, turned
from guardband.values.names import output_words

SIGNIFICANT = 0.01
"""Below this p-value calibration points and queries are said to come from different places."""

AT_MOST = 500
"""How many points of each sample the two-sample test looks at."""

FEW = 10
"""With fewer queries than this, that no shift was seen says nothing."""

WORSE, ENOUGH = 1.2, 20
"""A model that errs by so many times the spread of readings, on so many rows, is said to predict nothing."""

HALF = 0.5
"""At this level calibration misses are compared: their order is the same at all, and it is never infinite."""

PARTS = ("training", "calibration", "queries")
"""The parts whose trajectories may be named, in the order they are used in."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, in a sentence; an alarm if it may void the guarantee, or make it useless.

    `known=False` says that it could not be looked at; a `note` is no reason against the guarantee, and still
    worth a look.
    """

    name: str
    alarm: bool
    text: str
    known: bool = True
    note: bool = False


@dataclass(frozen=True)
class Findings:
    """What `check` found. Prints as short sentences, alarms first.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.zeros_like, x, np.cos(50 * x))
    >>> findings = gb.check(calibrated, x + 5)
    >>> findings.ok, [finding.name for finding in findings.alarms]
    (False, ['shift', 'far'])
    """

    findings: tuple[Finding, ...]

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """What may void the guarantee."""
        return tuple(finding for finding in self.findings if finding.alarm)

    @property
    def ok(self) -> bool:
        """Whether nothing was found against the guarantee."""
        return not self.alarms

    def __getitem__(self, name: str) -> Finding:
        """The finding of this name."""
        known = {finding.name: finding for finding in self.findings}
        if name not in known:
            raise KeyError(f"There is no finding {name!r}; there are {', '.join(known)}.")
        return known[name]

    def __str__(self) -> str:
        ordered = sorted(self.findings, key=lambda finding: not finding.alarm)
        return "\n".join(f"{_mark(finding)}  {finding.text}" for finding in ordered)

    __repr__ = __str__


def _mark(finding: Finding) -> str:
    if finding.alarm or finding.note:
        return "ALARM" if finding.alarm else "note "
    return "ok   " if finding.known else "?    "


def check(
    calibrated: Calibrated,
    x: ArrayLike,
    *,
    level: Level = 0.95,
    runs: Mapping[str, Groups] | None = None,
    seed: int = 0,
) -> Findings:
    """Look for reasons not to trust a calibrated band at queries x (n, d), each with what to do.

    Whether there are enough calibration points, whether training rows are among them, whether they are
    readings of few sensors, whether the queries come from other places, and whether many lie far from all
    calibration points; whether the model errs there by more than one number would, and whether the size of
    its misses depends on an input or on the predicted value. The tests of places and of misses assume points
    that are independent of each other. It sees the inputs of the queries only, so it
    cannot notice other noise or another regime at the same places.

    Whole fields are compared along the leading principal components of their inputs; of their grids it is
    said whether they are the same, and of trajectories whether pieces of one are in two parts. Pieces that
    overlap or touch are known by the states they share; of all others `runs` says which trajectory they
    are of, one label per row: `runs={"training": ..., "calibration": ..., "queries": ...}`, or some of these.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> model = np.zeros_like
    >>> calibrated = gb.calibrate(model, draw.uniform(size=100), draw.normal(size=100))
    >>> shift = gb.check(calibrated, draw.uniform(2, 3, size=50))["shift"]
    >>> print(shift.text.partition(" (")[0])
    The queries come from other places than the calibration points
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`check` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    grid = x.grid if isinstance(x, Fields) else None
    x = _places(calibrated, x)
    queries = None if x is None else np.asarray(to_numpy(rows(x, "x")), dtype=float)
    if queries is not None and len(queries) == 0:
        raise ValueError("`x` should hold at least one query, got none.")
    asked = _Asked(queries, grid, level, runs or {}, np.random.default_rng(seed))
    found = tuple(_findings(calibrated, asked))
    return Findings(tuple(map(_of_fields, found)) if _whole(calibrated) else found)


def _places(calibrated: Calibrated, x: Any) -> Any:
    """The numbers of queries in the order of calibration, by their names where there are any."""
    columns, names, known = calibrated.columns, calibrated.field_names, calibrated.axes.get("x")
    if columns is not None and is_frame(x):
        return numbers(columns.matched(x)[list(columns.numeric)])
    if columns is not None:
        known = Axes.of_columns(columns.numeric)
    elif known is None and names is not None:
        x, known = on_axes(x, names.axes) if is_frame(x) else x, Axes.of_columns(names.axes)
    if known is not None and len(known.dims) == 2:
        return arranged(x, known, "x")
    if is_frame(x):
        return numbers(x)
    values, axes = opened(x, "x", None if known is None else known.dims[0])
    return values if known is None or axes is None else turned(values, axes, known.dims, "x")[0]


def _of_fields(finding: Finding) -> Finding:
    """The same where rows are whole fields, and no points."""
    text = re.sub(r"\b((?:[Cc]alibration|training|held-out) )point", r"\1field", finding.text)
    return replace(finding, text=text)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is to be checked: queries as they were given, and what is known of them."""

    queries: np.ndarray | None
    grid: FieldGrid | None
    level: Level
    runs: Mapping[str, Groups]
    generator: np.random.Generator


def _training(calibrated: Calibrated) -> Iterator[Finding]:
    """The verdict on the training; around one that has not converged the band holds, and is too wide."""
    for one in _held(calibrated):
        if getattr(one, "problem", None) is not None and hasattr(type(one), "verdict"):
            try:
                found = one.verdict
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                text = f"There is no verdict on the training: {error}"
                yield Finding("training", False, text, known=False)
                return
            doubted = found.word != "converged"
            text = "The training has converged."
            if doubted:
                wide = "may be" if found.word == "suspicious" else "is"
                text = (
                    f"The training is {found.word}; a band around it holds, and {wide} wider than it need be."
                )
            yield Finding("training", False, f"{text} {found.because}", note=doubted)
            return


def _error(calibrated: Calibrated) -> Iterator[Finding]:
    """A word on a model that errs by more than the mean of the readings would."""
    if calibrated.prediction is None or calibrated.y is None or len(calibrated.y) < ENOUGH:
        return
    y, mean = (np.asarray(to_numpy(part), dtype=float) for part in (calibrated.y, calibrated.prediction.mean))
    if y.shape != mean.shape or not y.size:
        return
    y, mean = (part.reshape(-1, part.shape[-1]) for part in (y, mean))
    off, spread = np.sqrt(np.square(y - mean).mean(axis=0)), y.std(axis=0)
    worse = off > WORSE * spread + 1e-6 * abs(y).max(axis=0)
    if worse.any():
        j = int(np.argmax(np.where(worse, off / np.maximum(spread, 1e-300), 0.0)))
        words = output_words(calibrated.field_names)
        which = f" in output {words[j] if words else j}" if y.shape[1] > 1 else ""
        text = (
            f"On the calibration points the model errs by {off[j]:.3g}{which} (root mean square), and the "
            f"mean of their readings by {spread[j]:.3g}: one number predicts better. The band is valid, and "
            "too wide to be of use. Look at the model, its units and the order of its columns."
        )
        yield Finding("error", True, text)


def _uneven(calibrated: Calibrated) -> Iterator[Finding]:
    """A note where the size of calibration misses depends on an input or on the predicted value.

    The scores over their threshold are exchangeable where it is a rank of them times a shape that was learned
    elsewhere. These are the thresholds with an exact law; others adapt to the calibration points.
    """
    if calibrated.prediction is None or calibrated.groups is not None or not calibrated.laws(HALF, 1):
        return
    sizes = calibrated.misses(HALF)
    if sizes is None or np.isnan(sizes).any():
        return
    features, _ = features_of(calibrated, calibrated.prediction)
    found = trends(features, sizes)
    if alarms := strongest(found):
        text = (
            f"{' '.join(map(str, alarms))} The promise is an average over places, and coverage may be "
            f"lower there; gb.Local() can make it more even. ({len(found)} tests on the calibration points, "
            "with 1 % false alarms over all of them if the points are independent.)"
        )
        yield Finding("evenness", False, text, note=True)


def _held(calibrated: Calibrated) -> list[Any]:
    """The models that a band stands on."""
    predictor = getattr(calibrated, "predictor", None)
    return list(predictor.held()) if isinstance(predictor, Predictor) else []


def _findings(calibrated: Calibrated, asked: _Asked) -> Iterator[Finding]:
    yield _size(calibrated, asked.level)
    yield _guard(calibrated)
    yield from _training(calibrated)
    yield from _error(calibrated)
    yield from _uneven(calibrated)
    x = None if calibrated.prediction is None else calibrated.prediction.x
    if whole := _whole(calibrated):
        yield _trajectories(calibrated, asked)
    if x is None or asked.queries is None or not len(x):
        text = "The calibration points were not given; their places cannot be checked."
        yield Finding("places", False, text, known=False)
        return
    if whole:
        resolution = _resolution(calibrated, x, asked)
        yield resolution
        if resolution.alarm:
            return
    sites, queries = flat(np.asarray(to_numpy(x), dtype=float)), flat(asked.queries)
    if queries.shape[1] != sites.shape[1]:
        raise ValueError(
            f"`x` should have {sites.shape[1]} coordinates like the calibration points, got "
            f"{queries.shape[1]}."
        )
    yield from _columns(calibrated, sites, queries)
    finite = np.isfinite(sites).all(axis=1)
    sites, queries = sites[finite], queries[np.isfinite(queries).all(axis=1)]
    yield _leak(calibrated)
    yield _sensors(calibrated, sites, finite)
    if not len(sites) or not len(queries):
        text = "No row has all its numbers, so places cannot be compared."
        yield Finding("places", False, text, known=False)
        return
    if whole and sites.shape[1] > COMPONENTS:
        sites, queries = leading(*(_some(part, asked.generator) for part in (sites, queries)))
    spread = np.maximum(sites.std(axis=0), 1e-12)
    yield _shift(calibrated, sites / spread, queries / spread, asked.generator)
    yield _far(sites, queries)


def _whole(calibrated: Calibrated) -> bool:
    """Whether rows are whole fields."""
    return calibrated.prediction is not None and calibrated.prediction.mean.ndim > 2


def _some(part: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return part[generator.permutation(len(part))[:AT_MOST]]


def _trajectories(calibrated: Calibrated, asked: _Asked) -> Finding:
    """Pieces of one trajectory are alike: in two parts they void the guarantee, in one they count as one."""
    for name in asked.runs:
        if name not in PARTS:
            raise ValueError(f"`runs` should name trajectories of {', '.join(PARTS)}, got {name!r}.")
    found, fields = _pieces(calibrated, asked), "calibration fields"
    n = len(found["calibration"]) if "calibration" in found else calibrated.n
    for known, new in (("training", "calibration"), ("training", "queries"), ("calibration", "queries")):
        if known in found and new in found and (many := shared_states(found[known], found[new])).any():
            what = fields if new == "calibration" else "queries"
            harm = "scores are too small" if new == "calibration" else "they are no new trajectories"
            text = (
                f"{many.sum()} of {len(many)} {what} are pieces of trajectories of which {known} fields are "
                f"pieces too, so {harm}. Put each trajectory into one part: gb.partition(..., groups=run)."
            )
            return Finding("trajectories", True, text)
    within = shared_states(found.get("calibration", []), found.get("calibration", []))
    if within.sum() > n / 2 and not calibrated.covers_new_groups:
        text = (
            f"{within.sum()} of {n} {fields} are pieces of trajectories of which others are pieces too. "
            "They count as one: keep one piece of each, or use Clustered() with trajectories as groups."
        )
        return Finding("trajectories", True, text)
    if set(asked.runs) == set(PARTS):
        return Finding("trajectories", False, "No trajectory has pieces in two parts, by its label.")
    text = "No two parts share a state; pieces that do not touch are seen by their labels alone (`runs`)."
    return Finding("trajectories", False, text)


def _pieces(calibrated: Calibrated, asked: _Asked) -> dict[str, list[set[int]]]:
    """What each row of each part passes through: the trajectory that it is of, or else states."""
    given: dict[str, tuple[Any, Any]] = {"queries": (asked.queries, None)}
    if calibrated.prediction is not None and len(calibrated.prediction):
        given["calibration"] = (calibrated.prediction.x, calibrated.y)
    if (known := calibrated.used.get("training")) is not None:
        given["training"] = (known.x, known.y)
    given = {name: (x, y) for name, (x, y) in given.items() if x is not None}
    if asked.runs:
        sizes = {name: len(x) for name, (x, _) in given.items()} | {"calibration": calibrated.n}
        return {
            name: [{hash(run)} for run in group_labels(runs, sizes.get(name, len(runs))).tolist()]
            for name, runs in asked.runs.items()
        }
    time = None if calibrated.grid is None else calibrated.grid.time
    return without_common({name: states_of(x, y, time) for name, (x, y) in given.items()})


def _resolution(calibrated: Calibrated, x: Array, asked: _Asked) -> Finding:
    """A promise about whole fields is about the nodes that were calibrated, and no others."""
    assert asked.queries is not None
    how = ""
    functions = max(x.ndim, asked.queries.ndim) > 2  # and no coefficients, which have no grid
    if functions and asked.queries.shape[1:] != tuple(x.shape[1:]):
        mine, theirs = (" x ".join(map(str, shape[1:])) for shape in (x.shape, asked.queries.shape))
        how = f"each is {theirs}, not {mine}"
    elif asked.grid is not None and calibrated.grid is not None:
        names = [name for name in calibrated.grid.dims if name in asked.grid.dims]
        how = calibrated.grid.along(names).differs(asked.grid.along(names))
    if not how:
        return Finding("resolution", False, "The queries are on the grid of the calibration fields.")
    text = (
        f"The queries are on another grid than the calibration fields: {how}. The promise is about the nodes "
        "that were calibrated: bring the queries to that grid, or calibrate on this one."
    )
    return Finding("resolution", True, text)


def _columns(calibrated: Calibrated, sites: np.ndarray, queries: np.ndarray) -> Iterator[Finding]:
    """What of x the other checks look at, where it is not all."""
    columns = calibrated.columns
    text = ""
    if columns is not None and len(columns.numeric) < len(columns.names):
        others = [str(name) for name in columns.names if name not in columns.numeric]
        text = f"Places are compared by the columns that hold numbers; not by {', '.join(others)}. "
    missing = int((~np.isfinite(sites)).any(axis=1).sum()), int((~np.isfinite(queries)).any(axis=1).sum())
    if any(missing):
        text += f"{missing[0]} calibration rows and {missing[1]} queries lack a number and are left out."
    if text:
        yield Finding("columns", False, text.strip(), known=False)


def _size(calibrated: Calibrated, level: Level) -> Finding:
    size, percent = calibrated.size(level), f"{100 * float(exact(level)):g} %"
    if size is None:
        text = f"{calibrated.name} does not say how many points a finite band needs."
        return Finding("size", False, text, known=False)
    seen = f"{size.have:.4g} {size.what}"
    if size.have < size.need:
        text = f"{seen} are too few for {percent}: the band is infinite. {size.need:g} are needed."
        return Finding("size", True, text)
    return Finding("size", False, f"{seen} are enough for {percent} ({size.need:g} are needed).")


def _guard(calibrated: Calibrated) -> Finding:
    predictor = getattr(calibrated, "predictor", None)
    if calibrated.guarded is None and isinstance(predictor, Predictor) and predictor.learned_shape:
        return Finding("guard", False, predictor.learned_shape)
    if calibrated.guarded is None:
        return Finding("guard", False, "This calibration learns no shape, so there is nothing to guard.")
    if calibrated.guarded:
        return Finding("guard", False, "An overfitted network would have been noticed by the guard.")
    text = (
        f"Nothing guards {calibrated.name} against an overfitted network; coverage is safe, but the shape "
        "may be poor. Give `held_out` or `refit`."
    )
    return Finding("guard", False, text, known=False)


def _leak(calibrated: Calibrated) -> Finding:
    if calibrated.leaves_out:
        text = "Readings fit and calibrate at once; each was left out of what it is held against."
        return Finding("leak", False, text)
    known = calibrated.used.get("training")
    models = _held(calibrated)
    if known is None and models and not any(getattr(one, "saw_data", True) for one in models):
        return Finding("leak", False, "pinn.fit used the equation alone, so there are no training points.")
    if known is None:
        text = "The training points are not known, so a leak cannot be looked for."
        return Finding("leak", False, text, known=False)
    assert calibrated.prediction is not None and calibrated.prediction.x is not None
    found = find_copies(known.x, known.y, calibrated.prediction.x, calibrated.y)
    return Finding("leak", found.verdict != "fine", found.text)


def _sensors(calibrated: Calibrated, sites: np.ndarray, whole: np.ndarray) -> Finding:
    if calibrated.needs_groups:
        text = "Each group has its own threshold; readings of different groups are not pooled."
        return Finding("sensors", False, text)
    sources = calibrated.groups[whole] if calibrated.groups is not None else sites
    distinct, n = len(np.unique(sources, axis=0)), len(sites)
    if _whole(calibrated) and (distinct > n // 2 or calibrated.covers_new_groups):
        return Finding("sensors", False, f"The {n} calibration fields have {distinct} different inputs.")
    if distinct <= n // 2 and not calibrated.covers_new_groups:
        text = (
            f"{n} calibration readings come from {distinct} places only. Readings of one sensor share its "
            f"bias, so they count as {distinct}, not {n}: use Clustered() with the sensors as groups."
        )
        return Finding("sensors", True, text)
    return Finding("sensors", False, f"The {n} calibration readings come from {distinct} different places.")


def _shift(
    calibrated: Calibrated, sites: np.ndarray, queries: np.ndarray, generator: np.random.Generator
) -> Finding:
    p = energy_test(_some(sites, generator), _some(queries, generator), generator)
    if p >= SIGNIFICANT and len(queries) < FEW:
        text = f"{len(queries)} queries are too few to tell whether they come from the same places."
        return Finding("shift", False, text, known=False)
    if p >= SIGNIFICANT:
        text = f"Calibration points and queries look alike (energy distance, p = {p:.2g})."
        return Finding("shift", False, text)
    seen = f"The queries come from other places than the calibration points (energy distance, p = {p:.3g})"
    if calibrated.answers_shift:
        text = f"{seen}; {calibrated.name} accounts for it, if what its promise assumes is right."
        return Finding("shift", False, text)
    cure = "Use Weighted() with the ratio of the densities, or calibrate there."
    text = f"{seen}: the level need not hold. {cure}"
    return Finding("shift", True, text)


def _far(sites: np.ndarray, queries: np.ndarray) -> Finding:
    found = extrapolates(sites, queries)
    return Finding("far", found.alarm, str(found), known=found.known)
