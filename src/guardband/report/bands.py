"""The report on a band: one page for a person who has to decide whether to trust it.

It says what is promised and under which assumption, what the checks found, how much data stand behind it,
what was measured on fresh points beside constant width, and shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from guardband import plot
from guardband.arrays import ArrayLike, to_numpy
from guardband.checks import check
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.conformal.base import Groups
from guardband.conformal.rank import Level, exact
from guardband.evaluation import Evaluation, evaluate, shown
from guardband.labels import axis_words
from guardband.metrics.bands import Region
from guardband.plot.planes import plane_of
from guardband.report.page import Section, origin, png
from guardband.values import Band, NormBand

MOST_POINTS = 5000
"""How many points are drawn in a picture."""


def sections(
    calibrated: Calibrated,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    level: Level = 0.95,
    groups: Groups = None,
    regions: Mapping[str, Region] | None = None,
    facts: dict[str, str] | None = None,
) -> list[Section]:
    """What the report says, before it is written as HTML or Markdown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        prediction = calibrated.predict(x)
        band = shown(calibrated, prediction, level, groups)
        found = None
        if y is not None:
            about: Any = calibrated.about
            found = evaluate(
                calibrated, prediction, y, level=level, groups=groups, regions=regions, target=about
            )
        return [
            _claim(calibrated, band, level, found),
            _promise(calibrated, level),
            _checks(calibrated, x, level, found),
            _data(calibrated, level),
            _measured(found),
            *_ranges(found),
            _pictures(calibrated, band, y, level, found),
            origin("calibration", repr(calibrated), facts or {}),
        ]


def _claim(
    calibrated: Calibrated, band: Band | NormBand | None, level: Level, found: Evaluation | None
) -> Section:
    percent = f"{float(100 * exact(level)):g} %"
    width = np.empty(0) if band is None else to_numpy(band.width).astype(float)
    finite = width[np.isfinite(width)]
    what = "diameter in its norm" if isinstance(band, NormBand) else "width"
    size = _size(finite, what) if finite.size else ""
    infinite = float(np.mean(np.isinf(width))) if width.size else 0.0
    if infinite:
        size += f" It is infinite at {infinite:.0%} of the points: too few calibration points to say more."
    empty = float(np.mean(band.empty)) if isinstance(band, Band) else 0.0
    if empty:
        size += f" It is empty at {empty:.0%} of the points: nothing lies in it there."
    promised = calibrated.promised(level)
    target = "The truth behind a new measurement" if calibrated.about == "truth" else "A new measurement"
    claim = (
        f"{target} lies in this band with probability at least {float(100 * promised):.4g} %, "
        f"by calibration on {calibrated.n} points. "
        if promised is not None
        else f"No probability is promised for a new measurement. {calibrated.promise} "
    )
    if promised not in (None, exact(level)):
        claim += f"The level asked for is {percent}. "
    if calibrated.confidence is not None:
        claim += f"With confidence {float(exact(calibrated.confidence)):g} over calibration sets. "
    claim += size
    if found is None:
        return Section("The claim", [claim])
    if found.consistent is False:
        return Section("The claim does not hold on these data", [found.verdict, f"The claim was: {claim}"])
    return Section("The claim", [claim, found.verdict])


def _size(width: np.ndarray, what: str) -> str:
    low, high = float(width.min()), float(width.max())
    if high - low <= 1e-6 * high:
        return f"Its {what} is {high:.4g} everywhere."
    return f"Its {what} is {width.mean():.4g} on average ({low:.4g} to {high:.4g})."


def _promise(calibrated: Calibrated, level: Level) -> Section:
    average = (
        " This holds for any model, any noise and any number of points, as an average over new points and "
        "over calibration sets."
    )
    truth = calibrated.about == "truth"
    other = "new measurements" if truth else "the noise-free truth behind the measurements"
    exempt = truth or calibrated.promised(level) is None
    return Section(
        "What is guaranteed, and what is not",
        [
            f"Guaranteed. {calibrated.promise}{'' if exempt else average}",
            "Not guaranteed. Coverage at every single point; coverage of points drawn differently from the "
            f"calibration points (other places, other sensors, another regime); coverage of {other}. "
            "And coverage alone proves nothing: a model that predicts zero is "
            "covered too, by a wide band. Look at width and error beside it.",
        ],
    )


def _checks(calibrated: Calibrated, x: ArrayLike, level: Level, found: Evaluation | None) -> Section:
    if calibrated.prediction is not None and calibrated.prediction.mean.ndim != 2:
        return Section("Is the guarantee void?", ["Whole fields were calibrated; points are not checked."])
    findings = check(calibrated, x, level=level)
    words = {True: "ALARM", False: "fine"}
    rows = [["", "what was looked at", "what was found"]]
    for finding in sorted(findings.findings, key=lambda one: not one.alarm):
        rows.append([words[finding.alarm] if finding.known else "not known", finding.name, finding.text])
    failed = found is not None and found.consistent is False
    if failed:
        rows.insert(1, ["ALARM", "fresh data", "They are not covered as promised; see what was measured."])
    fine = findings.ok and not failed
    unknown = sum(not finding.known for finding in findings.findings)
    verdict = "Nothing was found against it." if fine else "Something speaks against it; read the alarms."
    if fine and unknown:
        verdict = f"Nothing was found against it; {unknown} could not be looked at, marked 'not known'."
    return Section("Is the guarantee void?", [verdict], rows)


def _data(calibrated: Calibrated, level: Level) -> Section:
    n = calibrated.n
    lines = [f"{n} calibration points, {_outputs(calibrated)}."]
    pieces = None
    if calibrated.groups is None:
        pieces = calibrated.laws(level, 1)
    if pieces:
        law = pieces[0][0]
        low, high = law.interval(0.95)
        lines.append(
            f"Every calibration set of this size gives another coverage: with {n} points it lies between "
            f"{low:.3f} and {high:.3f} in 95 % of cases, {law.mean:.4f} on average, and falls below "
            f"{float(exact(level)):g} in {law.below(level):.0%} of cases (Beta law, for points drawn "
            "independently of each other). For less scatter take more points, or ask for a confidence when "
            "calibrating."
        )
    else:
        lines.append("How coverage scatters over calibration sets has no exact law for this calibration.")
    return Section("How much data stand behind it", lines)


def _outputs(calibrated: Calibrated) -> str:
    m = 1 if calibrated.prediction is None else calibrated.prediction.mean.shape[-1]
    how = "jointly" if calibrated.joint else "each by itself"
    return "one output each" if m == 1 else f"{m} outputs each, covered {how}"


def _measured(found: Evaluation | None) -> Section:
    if found is None:
        return Section("What was measured", ["No fresh measurements were given, so nothing was measured."])
    rows = [["band", "points", "coverage", "mean width", "interval score", "ACD"]]
    for row in found.rows:
        name = f"{row.name}, {row.region}" if row.region else row.name
        widths = [f"{row.sharpness:.4g}", f"{row.interval_score:.4g}"]
        rows.append([name, str(row.points), f"{row.coverage:.3f}", *widths, f"{row.acd:.4f}"])
    lines = [f"Relative error of the prediction against these measurements (L2): {found.relative_l2:.3g}."]
    lines += found.remarks
    if found.of_constant_width:
        lines.append("This band is the one of constant width, so there is no rival beside it.")
    if found.acd_floor is not None:
        floor = found.acd_floor
        lines.append(
            f"A perfectly valid band has an ACD (average coverage deviation) of {floor.mean:.4f} on average "
            f"with these numbers of points, {floor.low:.4f} to {floor.high:.4f} in 95 % of cases."
        )
    return Section("What was measured", lines, rows)


def _ranges(found: Evaluation | None) -> Iterable[Section]:
    """Coverage by range, where fresh points were given and are enough."""
    if found is None or not found.by_range.tests:
        return
    where = found.by_range
    rows = [["", "where", "points", "coverage", "p"]]
    for one in (*where.ranges, *([] if where.slab is None else [where.slab])):
        name = f"{one.feature}, {one.low:.4g} to {one.high:.4g}"
        mark = "ALARM" if one.alarm else "even"
        rows.append([mark, name, str(one.points), f"{one.coverage:.3f}", f"{one.p:.2g}"])
    said = str(where) or "Coverage is as even over these ranges as chance allows."
    about = (
        "The p-value is exact if misses fall on any point alike, given their number. The worst slab was "
        "found on half of the points and is shown on the other half."
    )
    yield Section("Where it covers", [" ".join(said.split()), about], rows)


def _pictures(
    calibrated: Calibrated,
    band: Band | NormBand | None,
    y: ArrayLike | None,
    level: Level,
    found: Evaluation | None,
) -> Section:
    drawn: list[tuple[str, Callable[[Any], Any]]] = []
    if isinstance(band, Band) and band.mean.ndim > 2:
        drawn += _one_field(band.one(0))
    if isinstance(band, Band) and band.x is not None and band.x.ndim == 2 and band.mean.ndim == 2:
        x = to_numpy(band.x)
        some = slice(None, None, -(-len(x) // MOST_POINTS))
        mean, lower, upper = (to_numpy(part)[some] for part in (band.mean, band.lower, band.upper))
        some_band = Band(x[some], mean, lower, upper, band.level, band.names)
        if x.shape[1] == 1:
            drawn.append(("The band.", lambda ax: plot.band(some_band, ax=ax)))
        if x.shape[1] == 2 and len(some_band) > 3:
            drawn.append(("How wide the band is.", lambda ax: plot.width(some_band, ax=ax)))
        if x.shape[1] > 2:
            drawn.append(
                ("How wide the band is, over the first coordinate.", lambda ax: _widths(some_band, ax))
            )
    share = calibrated.misses(level)
    if share is not None:
        drawn.append(("How far the calibration points missed.", lambda ax: _misses(share, ax)))
    if found is not None:
        drawn.append(
            (
                "Coverage at every level"
                + ("." if found.laws is None else "; gray is what a valid band shows."),
                lambda ax: plot.coverage_curve(found, ax=ax),
            )
        )
    at = None if calibrated.prediction is None else calibrated.prediction.x
    points = at is not None and at.ndim == 2 and calibrated.prediction.mean.ndim == 2  # type: ignore[union-attr]
    if points:
        drawn.append(("Where the model errs: calibration points.", lambda ax: _residuals(calibrated, ax)))
    return Section("Pictures", pictures=[(caption, png(draw)) for caption, draw in drawn])


def _one_field(band: Band) -> Iterable[tuple[str, Callable[[Any], Any]]]:
    """The first of whole fields, over its one axis or two."""
    assert band.x is not None
    if band.x.shape[1] == 1:
        yield "The band around the first field.", lambda ax: plot.band(band, ax=ax)
    if band.x.shape[1] == 2 and len(band) > 3:
        yield "How wide the band around the first field is.", lambda ax: plot.width(band, ax=ax)


def _widths(band: Band, ax: Any) -> None:
    ax.plot(to_numpy(band.x)[:, 0], to_numpy(band.width)[:, 0], ".", ms=3, color=plot.BLUE, alpha=0.5)  # type: ignore
    ax.set(xlabel=axis_words(band.names, ["x0"])[0], ylabel="width", ylim=(0, None))


FARTHEST = 5.0
"""Misses beyond so many half widths of the band are drawn here."""


def _misses(share: np.ndarray, ax: Any) -> None:
    """Right for every calibrator: each calibration point is held against the threshold at its own place."""
    inside, n = int((share <= 1).sum()), len(share)
    share = np.minimum(share[np.isfinite(share)], FARTHEST)
    if len(share):
        step = 1 / max(3, min(20, len(share) // 8))  # an edge at 1, so that no bar is inside and outside
        ax.hist(share, bins=np.arange(0, share.max() + step, step).tolist(), color=plot.BLUE, alpha=0.6)
        if share.max() == FARTHEST:
            ax.text(
                FARTHEST, 0, f"{FARTHEST:g} or more", ha="right", va="bottom", rotation=90, fontsize="small"
            )
    ax.axvline(1, color=plot.ORANGE, lw=1.6, label=f"the end of the band: {inside} of {n} inside")
    ax.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1))
    ax.set(xlabel="miss, as a share of the band's half width there", ylabel="calibration points")


def _residuals(calibrated: Calibrated, ax: Any) -> None:
    assert calibrated.prediction is not None
    x, names = to_numpy(calibrated.prediction.x), calibrated.field_names
    miss = (to_numpy(calibrated.y) - to_numpy(calibrated.prediction.mean))[:, 0]
    if x.shape[1] == 1:
        ax.plot(x[:, 0], miss, ".", color=plot.GREY, ms=4)
        ax.axhline(0, color=plot.BLUE, lw=1)
        ax.set(xlabel=axis_words(names, ["x"])[0], ylabel="measured - predicted")
        return
    most = float(np.abs(miss).max()) or 1.0
    plane = plane_of(names, None)
    colors: dict[str, Any] = {"cmap": plot.SIGNED, "vmin": -most, "vmax": most, "ec": "black", "lw": 0.3}
    dots = ax.scatter(*plane.turned(x[:, :2]).T, c=miss, s=18, **colors)
    ax.figure.colorbar(dots, ax=ax, label="measured - predicted")
    ax.set(xlabel=plane.words[0], ylabel=plane.words[1])
