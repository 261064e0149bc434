"""Checks: is the guarantee void? What can be seen of it before anybody trusts a number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from guardband.arrays import ArrayLike, flat, rows, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.extrapolation import energy_test, extrapolates
from guardband.frames import Columns, is_frame, numbers
from guardband.leaks import find_copies
from guardband.values import Predictor

SIGNIFICANT = 0.01
"""Below this p-value calibration points and queries are said to come from different places."""

AT_MOST = 500
"""How many points of each sample the two-sample test looks at."""

FEW = 10
"""With fewer queries than this, that no shift was seen says nothing."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, in a sentence; an alarm if it may void the guarantee.

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


def check(calibrated: Calibrated, x: ArrayLike, *, level: Level = 0.95, seed: int = 0) -> Findings:
    """Look for reasons not to trust a calibrated band at queries x (n, d), each with what to do.

    Whether there are enough calibration points, whether training rows are among them, whether they are
    readings of few sensors, whether the queries come from other places, and whether many lie far from all
    calibration points. It sees inputs only: other noise, or another regime at the same places, it cannot see.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> model = np.zeros_like
    >>> calibrated = gb.calibrate(model, draw.uniform(size=100), draw.normal(size=100))
    >>> print(gb.check(calibrated, draw.uniform(2, 3, size=50))["shift"].text.partition(" (")[0])
    The queries come from other places than the calibration points
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`check` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    if is_frame(x):
        columns = calibrated.columns
        x = numbers(x if columns is None else Columns.matched(columns, x)[list(columns.numeric)])
    queries = None if x is None else flat(np.asarray(to_numpy(rows(x, "x")), dtype=float))
    if queries is not None and len(queries) == 0:
        raise ValueError("`x` should hold at least one query, got none.")
    return Findings(tuple(_findings(calibrated, queries, level, np.random.default_rng(seed))))


def _training(calibrated: Calibrated) -> Iterator[Finding]:
    """A word on a training that has not converged: the band around it holds, and is wider than it need be."""
    for one in _held(calibrated):
        if getattr(one, "problem", None) is not None and hasattr(type(one), "verdict"):
            try:
                found = one.verdict
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                text = f"There is no verdict on the training: {error}"
                yield Finding("training", False, text, known=False)
                return
            if found.word != "converged":
                text = (
                    f"The training is {found.word}; a band around it holds, and is wider than it need be. "
                    f"{found.reasons[0]}"
                )
                yield Finding("training", False, text, note=True)
            return


def _held(calibrated: Calibrated) -> list[Any]:
    """The models that a band stands on."""
    predictor = getattr(calibrated, "predictor", None)
    return list(predictor.held()) if isinstance(predictor, Predictor) else []


def _findings(
    calibrated: Calibrated, queries: np.ndarray | None, level: Level, generator: np.random.Generator
) -> Iterator[Finding]:
    yield _size(calibrated, level)
    yield _guard(calibrated)
    yield from _training(calibrated)
    x = None if calibrated.prediction is None else calibrated.prediction.x
    if x is None or queries is None or not len(x):
        text = "The calibration points were not given; their places cannot be checked."
        yield Finding("places", False, text, known=False)
        return
    sites = flat(np.asarray(to_numpy(x), dtype=float))
    if queries.shape[1] != sites.shape[1]:
        raise ValueError(
            f"`x` should have {sites.shape[1]} coordinates like the calibration points, got "
            f"{queries.shape[1]}."
        )
    yield from _columns(calibrated, sites, queries)
    whole = np.isfinite(sites).all(axis=1)
    sites, queries = sites[whole], queries[np.isfinite(queries).all(axis=1)]
    yield _leak(calibrated)
    yield _sensors(calibrated, sites, whole)
    if not len(sites) or not len(queries):
        text = "No row has all its numbers, so places cannot be compared."
        yield Finding("places", False, text, known=False)
        return
    spread = np.maximum(sites.std(axis=0), 1e-12)
    yield _shift(calibrated, sites / spread, queries / spread, generator)
    yield _far(sites, queries)


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
        return Finding("leak", False, "gb.fit used the equation alone, so there are no training points.")
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
    labels = calibrated.groups[whole] if calibrated.groups is not None else sites
    distinct, n = len(np.unique(labels, axis=0)), len(sites)
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
    a, b = (part[generator.permutation(len(part))[:AT_MOST]] for part in (sites, queries))
    p = energy_test(a, b, generator)
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
