"""Checks: is the guarantee void? What can be seen of it before anybody trusts a number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from guardband.arrays import ArrayLike, flat, shared_rows
from guardband.conformal import Calibrated, Clustered, Grouped, Local, Weighted, points_needed
from guardband.conformal.base import places
from guardband.conformal.clustered import ClusteredThreshold
from guardband.conformal.grouped import GroupedThreshold
from guardband.conformal.rank import Level, exact
from guardband.conformal.weighted import WeightedThreshold
from guardband.values import Observations

SIGNIFICANT = 0.01
"""Below this p-value calibration points and queries are said to come from different places."""

PERMUTATIONS, AT_MOST = 999, 500
"""Permutations of the two-sample test, and how many points of each sample it looks at."""

FEW = 10
"""With fewer queries than this, that no shift was seen says nothing."""

FAR = 0.05
"""The share of queries far from every calibration point above which there is an alarm.

Far is half again as far as the loneliest calibration point is from its nearest neighbour; without the half,
points drawn alike would raise the alarm too often.
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, in a sentence; an alarm if it may void the guarantee.

    `known=False` says that it could not be looked at.
    """

    name: str
    alarm: bool
    text: str
    known: bool = True


@dataclass(frozen=True)
class Findings:
    """What `check` found. Prints as short sentences, alarms first.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.zeros_like), x, np.cos(50 * x))
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
    return "ALARM" if finding.alarm else "ok   " if finding.known else "?    "


def check(calibrated: Calibrated, x: ArrayLike, *, level: Level = 0.95, seed: int = 0) -> Findings:
    """Look for reasons not to trust a calibrated band at queries x (n, d), each with what to do.

    Whether there are enough calibration points, whether training rows are among them, whether they are
    readings of few sensors, whether the queries come from other places, and whether many lie far from all
    calibration points. It sees inputs only: other noise, or another regime at the same places, it cannot see.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> model = gb.predictors.Constant(np.zeros_like)
    >>> calibrated = gb.calibrate(model, draw.uniform(size=100), draw.normal(size=100))
    >>> print(gb.check(calibrated, draw.uniform(2, 3, size=50))["shift"].text.partition(" (")[0])
    The queries come from other places than the calibration points
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`check` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    queries = flat(places(x))
    if len(queries) == 0:
        raise ValueError("`x` should hold at least one query, got none.")
    return Findings(tuple(_findings(calibrated, queries, level, np.random.default_rng(seed))))


def _findings(
    calibrated: Calibrated, queries: np.ndarray, level: Level, generator: np.random.Generator
) -> Iterator[Finding]:
    yield _size(calibrated, level)
    yield _guard(calibrated)
    if calibrated.prediction.x is None:
        yield Finding(
            "places",
            False,
            "The calibration points were not given; their places cannot be checked.",
            known=False,
        )
        return
    sites = flat(places(calibrated.prediction.x))
    if queries.shape[1] != sites.shape[1]:
        raise ValueError(
            f"`x` should have {sites.shape[1]} coordinates like the calibration points, got "
            f"{queries.shape[1]}."
        )
    yield _leak(calibrated, sites)
    yield _sensors(calibrated, sites)
    spread = np.maximum(sites.std(axis=0), 1e-12)
    yield _shift(calibrated, sites / spread, queries / spread, generator)
    yield _far(sites / spread, queries / spread)


def _size(calibrated: Calibrated, level: Level) -> Finding:
    needed = points_needed(level, calibrated.confidence)
    threshold, percent = calibrated.threshold, f"{100 * float(exact(level)):g} %"
    if isinstance(threshold, WeightedThreshold):
        n, worth = len(threshold.scores), threshold.effective
        text = f"{n} calibration points, weighted, are worth {worth:.1f}; {needed} are needed."
        return Finding("size", round(worth, 6) < needed, text)
    if isinstance(threshold, ClusteredThreshold):
        n, what = threshold.clusters, "sensors (groups)"
    elif isinstance(threshold, GroupedThreshold):
        n, what = min(map(len, threshold.scores)), "calibration points in the smallest group"
    else:
        n, what = getattr(threshold, "n", len(calibrated.y)), "calibration points"
    if n < needed:
        text = f"{n} {what} are too few for {percent}: the band is infinite. {needed} are needed."
        return Finding("size", True, text)
    return Finding("size", False, f"{n} {what} are enough for {percent} ({needed} are needed).")


def _guard(calibrated: Calibrated) -> Finding:
    calibrator = calibrated.calibrator
    if isinstance(calibrator, Local) and not calibrator.guarded:
        text = (
            "Nothing guards Local() against an overfitted network; coverage is safe, but the shape may be "
            "poor. Give `held_out` or `refit`."
        )
        return Finding("guard", False, text, known=False)
    if isinstance(calibrator, Local):
        return Finding("guard", False, "Local() was guarded: an overfitted network would have been noticed.")
    return Finding("guard", False, "This calibration learns no shape, so there is nothing to guard.")


def _leak(calibrated: Calibrated, sites: np.ndarray) -> Finding:
    owners = (calibrated.predictor, calibrated.calibrator)
    known = (getattr(owner, "train", None) for owner in owners)
    train = next((data for data in known if isinstance(data, Observations)), None)
    if train is None:
        return Finding(
            "leak", False, "The training points are not known, so a leak cannot be looked for.", False
        )
    same = int(shared_rows([calibrated.prediction.x], [train.x]).sum())
    if same:
        text = (
            f"{same} of {len(sites)} calibration points lie at training inputs. If they are the same "
            "readings, the band is too narrow: hold out others."
        )
        return Finding("leak", True, text)
    return Finding("leak", False, "No calibration point lies at a training input.")


def _sensors(calibrated: Calibrated, sites: np.ndarray) -> Finding:
    if isinstance(calibrated.calibrator, Grouped):
        text = "Each group has its own threshold; readings of different groups are not pooled."
        return Finding("sensors", False, text)
    labels = calibrated.groups if calibrated.groups is not None else sites
    distinct, n = len(np.unique(labels, axis=0)), len(sites)
    if distinct <= n // 2 and not isinstance(calibrated.calibrator, Clustered):
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
    if p < SIGNIFICANT and isinstance(calibrated.calibrator, Weighted):
        text = (
            f"The queries come from other places than the calibration points (energy distance, p = {p:.3g}); "
            "the weights account for it, if they are right."
        )
        return Finding("shift", False, text)
    if p < SIGNIFICANT:
        text = (
            f"The queries come from other places than the calibration points (energy distance, p = {p:.3g}): "
            "the level need not hold. Use Weighted() with the ratio of the densities, or calibrate there."
        )
        return Finding("shift", True, text)
    return Finding(
        "shift", False, f"Calibration points and queries look alike (energy distance, p = {p:.2g})."
    )


def energy_test(a: np.ndarray, b: np.ndarray, generator: np.random.Generator) -> float:
    """The p-value of "both samples come from one distribution", by permutations of the energy distance."""
    from scipy.spatial.distance import cdist

    both = np.vstack([a, b])
    distances = cdist(both, both)
    n, m = len(a), len(b)
    member = np.zeros((PERMUTATIONS + 1, n + m))
    member[0, :n] = 1
    for row in member[1:]:
        row[generator.permutation(n + m)[:n]] = 1
    inner = member @ distances
    within_a = (inner * member).sum(axis=1)
    across = inner.sum(axis=1) - within_a
    within_b = distances.sum() - within_a - 2 * across
    energy = 2 * across / (n * m) - within_a / n**2 - within_b / m**2
    return float(np.mean(energy >= energy[0] - 1e-12 * abs(energy[0])))


def _far(sites: np.ndarray, queries: np.ndarray) -> Finding:
    from scipy.spatial.distance import cdist

    between = cdist(sites, sites)
    np.fill_diagonal(between, np.inf)
    usual = 1.5 * between.min(axis=1).max() if len(sites) > 1 else 0.0
    share = float(np.mean(cdist(queries, sites).min(axis=1) > usual)) if len(queries) else 0.0
    if share > FAR:
        text = (
            f"{share:.0%} of the queries are farther from every calibration point than those are from each "
            "other: there the band extrapolates. Calibrate there, or say so."
        )
        return Finding("far", True, text)
    return Finding("far", False, f"{share:.1%} of the queries lie far from every calibration point.")
