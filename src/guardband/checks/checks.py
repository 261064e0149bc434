"""Check for reasons why the guarantee of a calibration may be void or useless."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from guardband.base.arrays import Array, ArrayLike, Model, flat, rows, to_numpy
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
"""The p-value below which a shift between calibration points and queries is reported."""

AT_MOST = 500
"""The maximum number of points of each sample in the two-sample test."""

FEW = 10
"""The minimum number of queries from which the absence of a shift is reported."""

WORSE, ENOUGH = 1.2, 20
"""The smallest error, in spreads of the readings, of a useless model, and the minimum number of rows."""

HALF = 0.5
"""The level at which calibration misses are compared; their order is the same at all levels."""

PARTS = ("training", "calibration", "queries")
"""The parts whose trajectories may be labeled, in the order of their use."""


@dataclass(frozen=True)
class Finding:
    """The result of one check; an alarm if the guarantee may be void or useless.

    `known=False` marks a check that was not possible. A `note` deserves attention but does not affect the
    guarantee.
    """

    name: str
    alarm: bool
    text: str
    known: bool = True
    note: bool = False


@dataclass(frozen=True)
class Findings:
    """The result of `check`, which prints as short sentences, alarms first.

    Attributes
    ----------
    findings
        The findings, each with the attributes `name`, `text` and `alarm`. `findings[name]` returns one of
        them.

    Examples
    --------
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
        """Findings that may void the guarantee or make it useless."""
        return tuple(finding for finding in self.findings if finding.alarm)

    @property
    def ok(self) -> bool:
        """Whether there are no alarms."""
        return not self.alarms

    def __getitem__(self, name: str) -> Finding:
        """The finding with this name."""
        known = {finding.name: finding for finding in self.findings}
        if name not in known:
            raise KeyError(f"Unknown finding {name!r}; the findings are {', '.join(known)}.")
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
    """Check for reasons not to trust a calibrated band at new points.

    Each alarm states the problem and a remedy. Only the inputs of the queries are known, so a change of the
    noise or of the regime at the same inputs cannot be detected.

    Parameters
    ----------
    calibrated
        The calibrated model, as returned by `gb.calibrate`.
    x
        Queries: the points at which the band will be used, shape (n, d), or whole fields.
    level
        The coverage for which the number of calibration points is checked.
    runs
        Trajectory labels, one per row, by the part of the data: "training", "calibration" and "queries", or
        some of these.
    seed
        Seed of the permutation tests.

    Returns
    -------
    Findings
        The findings, which print as sentences. `findings.ok` is true if there are no alarms.

    Notes
    -----
    The checks are:

    - Are there enough calibration points for the level?
    - Are there training rows among the calibration points?
    - Do the calibration points come from only a few sensors?
    - Do the queries come from different locations than the calibration points (energy distance)?
    - Do many queries lie far from all calibration points?
    - Is the error of the model on the calibration points larger than that of a constant?
    - Does the size of the misses depend on an input or on the predicted value?
    - Did the training of a PINN converge?

    The tests of locations and of misses assume that points are independent of each other.

    Whole fields are compared along the leading principal components of their inputs. Their grids should be
    the same, and no trajectory should have pieces in two parts of the data. Pieces that overlap or touch are
    recognized by the states that they share; for other pieces, pass `runs`.

    Examples
    --------
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
        raise TypeError(f"`check` takes the result of `gb.calibrate`, got {type(calibrated).__name__}.")
    grid = x.grid if isinstance(x, Fields) else None
    x = _places(calibrated, x)
    queries = None if x is None else np.asarray(to_numpy(rows(x, "x")), dtype=float)
    if queries is not None and len(queries) == 0:
        raise ValueError("`x` should hold at least one query, got none.")
    task = _Task(queries, grid, level, runs or {}, np.random.default_rng(seed))
    found = tuple(_findings(calibrated, task))
    return Findings(tuple(map(_of_fields, found)) if _whole(calibrated) else found)


def _places(calibrated: Calibrated, x: ArrayLike) -> ArrayLike | None:
    """The numbers of queries, with named columns in the order of calibration; None if there are none."""
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
    """The finding with the word "point" replaced by "field", for whole fields."""
    text = re.sub(r"\b((?:[Cc]alibration|training|held-out) )point", r"\1field", finding.text)
    return replace(finding, text=text)


@dataclass(frozen=True, eq=False)
class _Task:
    """The queries, and the arguments of `check`."""

    queries: np.ndarray | None
    grid: FieldGrid | None
    level: Level
    runs: Mapping[str, Groups]
    generator: np.random.Generator


def _training(calibrated: Calibrated) -> Iterator[Finding]:
    """The verdict on the training of a PINN; without convergence the band is valid but too wide."""
    for one in _held(calibrated):
        if getattr(one, "problem", None) is not None and hasattr(type(one), "verdict"):
            try:
                found = one.verdict
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                text = f"No verdict on the training is available: {error}"
                yield Finding("training", False, text, known=False)
                return
            doubted = found.word != "converged"
            text = "The training has converged."
            if doubted:
                wide = "may be" if found.word == "suspicious" else "is"
                text = (
                    f"The training is {found.word}; a band around it is valid, but {wide} wider than needed."
                )
            yield Finding("training", False, f"{text} {found.because}", note=doubted)
            return


def _error(calibrated: Calibrated) -> Iterator[Finding]:
    """An alarm if the error of the model is larger than that of the mean of the readings."""
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
            f"mean of their readings by {spread[j]:.3g}: a constant predicts better. The band is valid, but "
            "too wide to be useful. Check the model, its units and the order of its columns."
        )
        yield Finding("error", True, text)


def _uneven(calibrated: Calibrated) -> Iterator[Finding]:
    """A note if the size of calibration misses depends on an input or on the predicted value.

    Scores divided by their threshold are exchangeable if the threshold is a rank of them times a shape that
    was learned from other data. These are the thresholds with an exact law; others adapt to the calibration
    points.
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
            f"{' '.join(map(str, alarms))} The promise is an average over points, and coverage may be "
            f"lower in such ranges; gb.Local() can make it more even. ({len(found)} tests on the calibration "
            "points, with 1 % false alarms over all of them if the points are independent.)"
        )
        yield Finding("evenness", False, text, note=True)


def _held(calibrated: Calibrated) -> list[Model]:
    """The models inside the predictor of a band."""
    predictor = getattr(calibrated, "predictor", None)
    return list(predictor.held()) if isinstance(predictor, Predictor) else []


def _findings(calibrated: Calibrated, task: _Task) -> Iterator[Finding]:
    yield _size(calibrated, task.level)
    yield _guard(calibrated)
    yield from _training(calibrated)
    yield from _error(calibrated)
    yield from _uneven(calibrated)
    x = None if calibrated.prediction is None else calibrated.prediction.x
    if whole := _whole(calibrated):
        yield _trajectories(calibrated, task)
    if x is None or task.queries is None or not len(x):
        text = "The calibration points are not known, so their locations cannot be checked."
        yield Finding("places", False, text, known=False)
        return
    if whole:
        resolution = _resolution(calibrated, x, task)
        yield resolution
        if resolution.alarm:
            return
    sites, queries = flat(np.asarray(to_numpy(x), dtype=float)), flat(task.queries)
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
        text = "Every row has missing numbers, so locations cannot be compared."
        yield Finding("places", False, text, known=False)
        return
    if whole and sites.shape[1] > COMPONENTS:
        sites, queries = leading(*(_some(part, task.generator) for part in (sites, queries)))
    spread = np.maximum(sites.std(axis=0), 1e-12)
    yield _shift(calibrated, sites / spread, queries / spread, task.generator)
    yield _far(sites, queries)


def _whole(calibrated: Calibrated) -> bool:
    """Whether rows are whole fields."""
    return calibrated.prediction is not None and calibrated.prediction.mean.ndim > 2


def _some(part: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return part[generator.permutation(len(part))[:AT_MOST]]


def _trajectories(calibrated: Calibrated, task: _Task) -> Finding:
    """Pieces of a trajectory are dependent: they void the guarantee in two parts, and count once in one."""
    for name in task.runs:
        if name not in PARTS:
            raise ValueError(f"`runs` should name trajectories of {', '.join(PARTS)}, got {name!r}.")
    found, fields = _pieces(calibrated, task), "calibration fields"
    n = len(found["calibration"]) if "calibration" in found else calibrated.n
    for known, new in (("training", "calibration"), ("training", "queries"), ("calibration", "queries")):
        if known in found and new in found and (many := shared_states(found[known], found[new])).any():
            what = fields if new == "calibration" else "queries"
            harm = "scores are too small" if new == "calibration" else "they are not new trajectories"
            text = (
                f"{many.sum()} of {len(many)} {what} are pieces of trajectories that also contain {known} "
                f"fields, so {harm}. Put each trajectory into one part: gb.partition(..., groups=run)."
            )
            return Finding("trajectories", True, text)
    within = shared_states(found.get("calibration", []), found.get("calibration", []))
    if within.sum() > n / 2 and not calibrated.covers_new_groups:
        text = (
            f"{within.sum()} of {n} {fields} share their trajectory with other {fields}. The pieces of a "
            "trajectory count as one field: keep one piece of each trajectory, or use Clustered() with "
            "trajectories as groups."
        )
        return Finding("trajectories", True, text)
    if set(task.runs) == set(PARTS):
        return Finding(
            "trajectories", False, "According to the labels, no trajectory has pieces in two parts."
        )
    text = "No two parts share a state; pieces that do not touch are found only with labels (`runs`)."
    return Finding("trajectories", False, text)


def _pieces(calibrated: Calibrated, task: _Task) -> dict[str, list[set[int]]]:
    """The trajectory label of each row of each part, or else the states that it passes through, as hashes."""
    given: dict[str, tuple[Array, Array | None]] = {"queries": (task.queries, None)}
    if calibrated.prediction is not None and len(calibrated.prediction):
        given["calibration"] = (calibrated.prediction.x, calibrated.y)
    if (known := calibrated.used.get("training")) is not None:
        given["training"] = (known.x, known.y)
    given = {name: (x, y) for name, (x, y) in given.items() if x is not None}
    if task.runs:
        sizes = {name: len(x) for name, (x, _) in given.items()} | {"calibration": calibrated.n}
        return {
            name: [{hash(run)} for run in group_labels(runs, sizes.get(name, len(runs))).tolist()]
            for name, runs in task.runs.items()
        }
    time = None if calibrated.grid is None else calibrated.grid.time
    return without_common({name: states_of(x, y, time) for name, (x, y) in given.items()})


def _resolution(calibrated: Calibrated, x: Array, task: _Task) -> Finding:
    """The guarantee for whole fields applies only to the nodes of the calibration grid."""
    assert task.queries is not None
    difference = ""
    functions = max(x.ndim, task.queries.ndim) > 2  # inputs that are coefficients have no grid
    if functions and task.queries.shape[1:] != tuple(x.shape[1:]):
        expected, given = (" x ".join(map(str, shape[1:])) for shape in (x.shape, task.queries.shape))
        difference = f"each is {given}, not {expected}"
    elif task.grid is not None and calibrated.grid is not None:
        names = [name for name in calibrated.grid.dims if name in task.grid.dims]
        difference = calibrated.grid.along(names).differs(task.grid.along(names))
    if not difference:
        return Finding("resolution", False, "The queries are on the grid of the calibration fields.")
    text = (
        f"The queries are on a different grid from the calibration fields: {difference}. The promise "
        "applies to the nodes of calibration. Interpolate the queries to that grid, or calibrate on this one."
    )
    return Finding("resolution", True, text)


def _columns(calibrated: Calibrated, sites: np.ndarray, queries: np.ndarray) -> Iterator[Finding]:
    """The columns and rows of x that the other checks ignore, if any."""
    columns = calibrated.columns
    text = ""
    if columns is not None and len(columns.numeric) < len(columns.names):
        others = [str(name) for name in columns.names if name not in columns.numeric]
        text = f"Locations are compared only in the numeric columns, which exclude {', '.join(others)}. "
    missing = int((~np.isfinite(sites)).any(axis=1).sum()), int((~np.isfinite(queries)).any(axis=1).sum())
    if any(missing):
        text += (
            f"{missing[0]} calibration rows and {missing[1]} queries have missing numbers and are omitted."
        )
    if text:
        yield Finding("columns", False, text.strip(), known=False)


def _size(calibrated: Calibrated, level: Level) -> Finding:
    size, percent = calibrated.size(level), f"{100 * float(exact(level)):g} %"
    if size is None:
        text = f"{calibrated.name} does not state how many points a finite band needs."
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
        return Finding("guard", False, "This calibration learns no shape, so no guard is needed.")
    if calibrated.guarded:
        return Finding("guard", False, "The guard would have noticed an overfitted network.")
    text = (
        f"Nothing guards {calibrated.name} against an overfitted network. Coverage is safe, but the shape "
        "may be poor. Pass `held_out` or `refit`."
    )
    return Finding("guard", False, text, known=False)


def _leak(calibrated: Calibrated) -> Finding:
    if calibrated.leaves_out:
        text = (
            "Readings serve for fitting and calibration, but each was left out of the fit that predicts it."
        )
        return Finding("leak", False, text)
    known = calibrated.used.get("training")
    models = _held(calibrated)
    if known is None and models and not any(getattr(one, "saw_data", True) for one in models):
        return Finding("leak", False, "pinn.fit used the equation alone, so there are no training points.")
    if known is None:
        text = "The training points are not known, so leaks cannot be detected."
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
            f"{n} calibration readings come from only {distinct} locations. Readings of one sensor share its "
            f"bias, so they count as {distinct}, not {n}: use Clustered() with the sensors as groups."
        )
        return Finding("sensors", True, text)
    return Finding(
        "sensors", False, f"The {n} calibration readings come from {distinct} different locations."
    )


def _shift(
    calibrated: Calibrated, sites: np.ndarray, queries: np.ndarray, generator: np.random.Generator
) -> Finding:
    p = energy_test(_some(sites, generator), _some(queries, generator), generator)
    if p >= SIGNIFICANT and len(queries) < FEW:
        text = f"{len(queries)} queries are too few to test whether they come from the same locations."
        return Finding("shift", False, text, known=False)
    if p >= SIGNIFICANT:
        text = f"Calibration points and queries look alike (energy distance, p = {p:.2g})."
        return Finding("shift", False, text)
    seen = f"The queries come from other places than the calibration points (energy distance, p = {p:.3g})"
    if calibrated.answers_shift:
        text = f"{seen}; {calibrated.name} accounts for this shift if the assumptions of its promise hold."
        return Finding("shift", False, text)
    cure = "Use Weighted() with the ratio of the densities, or calibrate there."
    text = f"{seen}: the level need not hold. {cure}"
    return Finding("shift", True, text)


def _far(sites: np.ndarray, queries: np.ndarray) -> Finding:
    found = extrapolates(sites, queries)
    return Finding("far", found.alarm, str(found), known=found.known)
