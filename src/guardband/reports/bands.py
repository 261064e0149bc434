"""The report on a band: one page for a person who has to decide whether to trust it.

In the order in which a skeptical reader asks: what is claimed and under which assumption; the verdict of
fresh measurements; what was measured, beside constant width; where it covers; pictures; what would void it;
how much data stand behind it; whose data and which versions; how to make the page again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from guardband.base.arrays import ArrayLike, rows, to_numpy
from guardband.checks.checks import check
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.conformal.base import Groups
from guardband.conformal.rank import Level, exact
from guardband.evaluation import Evaluation, evaluate
from guardband.evaluation.contenders import band_at
from guardband.metrics.bands import Region
from guardband.reports.page import HasSections, Section, origin
from guardband.reports.pictures import names_of, pictures_of, rows_word, words_of
from guardband.reports.provenance import again, fingerprints, how, model_of
from guardband.values import Band, NormBand


def sections(
    calibrated: Calibrated,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    level: Level = 0.95,
    groups: Groups = None,
    regions: Mapping[str, Region] | None = None,
    facts: dict[str, str] | None = None,
    title: str | None = None,
    command: str | None = None,
    verdict: HasSections | None = None,
) -> list[Section]:
    """What the report says, before it is written as HTML or Markdown.

    A `command` is one that makes the page; a `verdict` brings sections of its own.
    """
    given = {"y": y, "groups": groups, "regions": regions, "facts": facts, "title": title, "verdict": verdict}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        prediction = calibrated.predict(x)
        names = names_of(calibrated)
        band = band_at(calibrated, prediction, level, groups)
        if names is not None and isinstance(band, Band) and band.mean.shape[1:] == (len(names.outputs),):
            band = replace(band, names=names)
        found = None
        if y is not None:
            about: Any = calibrated.about
            found = evaluate(
                calibrated, prediction, y, level=level, groups=groups, regions=regions, target=about
            )
        claim, tested = _claim(calibrated, band, level), _verdict(found)
        known = model_of(calibrated) | fingerprints(calibrated, x, y)
        return [
            *((tested, claim) if tested.mark == "fails" else (claim, tested)),
            _measured(calibrated, band, found, y),
            *_ranges(found, rows_word(calibrated)),
            *([] if verdict is None else verdict.report_sections()),
            Section("What it looks like", pictures=pictures_of(calibrated, band, y, level, found, names)),
            _checks(calibrated, x, level, found),
            _data(calibrated, level),
            origin("calibration", repr(calibrated), known | (facts or {}), how(calibrated)),
            again(calibrated, level, given, command),
        ]


def _claim(calibrated: Calibrated, band: Band | NormBand | None, level: Level) -> Section:
    percent = f"{float(100 * exact(level)):g} %"
    promised = calibrated.promised(level)
    what = rows_word(calibrated)
    new = "A new measured field" if what == "fields" else "A new measurement"
    target = f"The truth behind {new.lower()}" if calibrated.about == "truth" else new
    claim = (
        f"{target} lies in this band{_together(calibrated)} with probability at least "
        f"{float(100 * promised):.4g} %, by calibration on {_counted(calibrated, level)}"
        if promised is not None
        else f"No probability is promised for {new.lower()}"
    )
    if promised not in (None, exact(level)):
        claim += f"; the level asked for is {percent}"
    if calibrated.confidence is not None:
        claim += f", with confidence {float(exact(calibrated.confidence)):g} over calibration sets"
    truth = calibrated.about == "truth"
    exempt = truth or promised is None
    other = "new measurements" if truth else "the noise-free truth behind the measurements"
    return Section(
        "What is claimed",
        [
            f"{claim}.",
            f"Under this assumption. {calibrated.promise}{'' if exempt else _average(calibrated, what)}",
            f"Not claimed. Coverage at every single {what[:-1]}; coverage of {what} drawn differently from "
            f"the calibration {what} (other places, other sensors, another regime); coverage of {other}.",
            *_width(band),
        ],
        mark="claim",
    )


def _average(calibrated: Calibrated, what: str) -> str:
    """For which models the claim holds, and over what it is an average."""
    sets = "over calibration sets"
    if calibrated.confidence is not None:
        sets = f"with confidence {float(exact(calibrated.confidence)):g} for the calibration set at hand"
    return (
        f" This holds for {calibrated.holds_for}, any noise and any number of {what}, as an average over new "
        f"{what}{',' if calibrated.confidence is not None else ' and'} {sets}."
    )


def _width(band: Band | NormBand | None) -> Iterable[str]:
    """How wide the set is, and where it says nothing or holds nothing."""
    width = np.empty(0) if band is None else to_numpy(band.width).astype(float)
    finite = width[np.isfinite(width)]
    size = _size(finite, "diameter in its norm" if isinstance(band, NormBand) else "width")
    infinite = float(np.mean(np.isinf(width))) if width.size else 0.0
    if infinite:
        size += f" It is infinite at {infinite:.0%} of the points: too few calibration points to say more."
    empty = float(np.mean(band.empty)) if isinstance(band, Band) else 0.0
    if empty:
        size += f" It is empty at {empty:.0%} of the points: nothing lies in it there."
    if size:
        yield size.strip()


def _verdict(found: Evaluation | None) -> Section:
    """What fresh measurements say of the claim."""
    if found is None:
        said = "No fresh measurements were given, so nothing was measured: the claim is untested."
        return Section("Verdict", [said])
    if found.consistent is False:
        return Section("Verdict: the claim does not hold on these data", [found.verdict], mark="fails")
    if found.doubts:
        return Section("Verdict: these data cannot test the claim", [found.verdict], mark="fails")
    return Section("Verdict", [found.verdict], mark="holds" if found.consistent else "")


def _size(width: np.ndarray, what: str) -> str:
    if not width.size:
        return ""
    low, high = float(width.min()), float(width.max())
    if high - low <= 1e-6 * high:
        return f"Its {what} is {high:.4g} everywhere."
    return f"Its {what} is {width.mean():.4g} on average ({low:.4g} to {high:.4g})."


def _checks(calibrated: Calibrated, x: ArrayLike, level: Level, found: Evaluation | None) -> Section:
    findings = check(calibrated, x, level=level)
    table = [["", "what was looked at", "what was found"], *_against(found)]
    for finding in sorted(findings.findings, key=lambda one: not one.alarm):
        word = "ALARM" if finding.alarm else "note" if finding.note else "fine"
        table.append([word if finding.known else "not known", finding.name, finding.text])
    alarms = [row[1] for row in table if row[0] == "ALARM"]
    unknown = sum(not finding.known for finding in findings.findings)
    verdict = "Something speaks against it; read the alarms." if alarms else "Nothing was found against it."
    if set(alarms) == {"where it covers"}:
        verdict = (
            "Nothing was found against the average that is promised, but it is not kept everywhere alike."
        )
    elif not alarms and unknown:
        verdict = f"Nothing was found against it; {unknown} could not be looked at, marked 'not known'."
    return Section("What would void it", [verdict], table)


def _against(found: Evaluation | None) -> Iterable[list[str]]:
    """What fresh measurements say against the claim, or against themselves."""
    if found is None:
        return
    if found.consistent is False:
        yield ["ALARM", "fresh data", "They are not covered as promised; see what was measured."]
    yield from (["ALARM", "used before", text] for text in found.doubts)
    if alarms := found.by_range.alarms:
        where = f"{len(alarms)} of {found.by_range.tests} tests"
        text = f"Coverage differs between places by more than chance allows, in {where}."
        yield ["ALARM", "where it covers", text]


def _data(calibrated: Calibrated, level: Level) -> Section:
    n, what = calibrated.n, rows_word(calibrated)
    lines = [f"Calibrated on {_counted(calibrated, level)}; {_outputs(calibrated)}."]
    pieces = None
    if calibrated.groups is None:
        pieces = calibrated.laws(level, 1)
    if pieces:
        law = pieces[0][0]
        low, high = law.interval(0.95)
        lines.append(
            f"Every calibration set of this size gives another coverage: with {n} {what} it lies between "
            f"{low:.3f} and {high:.3f} in 95 % of cases, {law.mean:.4f} on average, and falls below "
            f"{float(exact(level)):g} in {law.below(level):.0%} of cases (Beta law, for {what} drawn "
            f"independently of each other). For less scatter take more {what}, or ask for a confidence when "
            "calibrating."
        )
    else:
        lines.append("How coverage scatters over calibration sets has no exact law for this calibration.")
    return Section("How much data stand behind it", lines)


def _counted(calibrated: Calibrated, level: Level) -> str:
    """How many rows there are, and what of them counts where that is something else."""
    n, what, size = calibrated.n, rows_word(calibrated), calibrated.size(level)
    if size is None or size.have == n:
        return f"{n} {what}"
    counted = f"{size.have:.4g} {size.what.replace('points', what).rstrip(',')}"
    if calibrated.covers_new_groups:
        return f"{counted}, which are what counts, with {n} {what} in all"
    return f"{n} {what} ({counted})"


def _outputs(calibrated: Calibrated) -> str:
    m = 1 if calibrated.prediction is None else calibrated.prediction.mean.shape[-1]
    how = "jointly" if calibrated.joint else "each by itself"
    return "one output each" if m == 1 else f"{m} outputs each, covered {how}"


def _together(calibrated: Calibrated) -> str:
    """Whether outputs are covered at once, where there are several."""
    m = 1 if calibrated.prediction is None else calibrated.prediction.mean.shape[-1]
    how = (
        f", {'both' if m == 2 else f'all {m}'} outputs at once,"
        if calibrated.joint
        else f", each of {m} outputs by itself,"
    )
    return "" if m == 1 else how


def _each_output(calibrated: Calibrated, band: Band | NormBand | None, y: Any) -> Iterable[list[str]]:
    """Of a band that covers all outputs at once, how often each is covered, and how wide it is."""
    if not (isinstance(band, Band) and band.boxed and calibrated.joint) or band.mean.shape[-1] == 1:
        return
    fresh = to_numpy(rows(calibrated.targets(y), "y"))
    if fresh.shape != tuple(band.mean.shape):
        return
    width, nodes = to_numpy(band.width).astype(float), tuple(range(1, fresh.ndim - 1))
    between = (to_numpy(band.lower) <= fresh) & (fresh <= to_numpy(band.upper))
    inside = np.asarray(between.all(axis=nodes))
    for j, word in enumerate(words_of(band)):
        covered = f"{inside[:, j].mean():.3f}"
        yield [f"its {word} alone", str(len(fresh)), covered, f"{width[..., j].mean():.4g}", "", ""]


def _measured(
    calibrated: Calibrated, band: Band | NormBand | None, found: Evaluation | None, y: ArrayLike | None
) -> Section:
    if found is None:
        return Section("What was measured", ["Give fresh measurements, y at x, to see them here."])
    table = [["band", rows_word(calibrated), "coverage", "mean width", "interval score", "ACD"]]
    for row in found.rows:
        name = f"{row.name}, {row.region}" if row.region else row.name
        widths = [f"{row.sharpness:.4g}", f"{row.interval_score:.4g}"]
        table.append([name, str(row.points), f"{row.coverage:.3f}", *widths, f"{row.acd:.4f}"])
    table[2:2] = _each_output(calibrated, band, y)
    lines = [
        f"Relative error of the prediction against these measurements (L2): {found.relative_l2:.3g}"
        f"{_yardstick(calibrated, y)}. Coverage alone proves nothing: a model that predicts zero is covered "
        "too, by a wide band. Look at error and width beside it."
    ]
    lines += found.remarks
    if found.of_constant_width:
        lines.append("This band is the one of constant width, so there is no rival beside it.")
    if found.acd_floor is not None:
        floor = found.acd_floor
        lines.append(
            f"A perfectly valid band has an ACD (average coverage deviation) of {floor.mean:.4f} on average "
            f"with these numbers of points, {floor.low:.4f} to {floor.high:.4f} in 95 % of cases."
        )
    return Section("What was measured", lines, table)


def _yardstick(calibrated: Calibrated, y: ArrayLike | None) -> str:
    """What a model that knew the mean of the measurements alone would be off by."""
    fresh = np.asarray(to_numpy(rows(calibrated.targets(y), "y")), dtype=float)
    size, spread = (float(np.linalg.norm(part)) for part in (fresh, fresh - fresh.mean(axis=0)))
    return f"; their mean, at every point, would have {spread / size:.3g}" if size > 0 else ""


def _ranges(found: Evaluation | None, what: str) -> Iterable[Section]:
    """Coverage by range, where fresh points were given and are enough."""
    if found is None or not found.by_range.tests:
        return
    where = found.by_range
    table = [["", "where", what, "coverage", "p"]]
    for one in (*where.ranges, *([] if where.slab is None else [where.slab])):
        name = f"{one.feature}, {one.low:.4g} to {one.high:.4g}"
        table.append([_even(one.alarm), name, str(one.points), f"{one.coverage:.3f}", f"{one.p:.2g}"])
    for one in where.trends:
        name = f"size of misses along {one.feature}"
        table.append([_even(one.alarm), name, str(found.n_test), "", f"{one.p:.2g}"])
    said = str(where) or "Coverage is as even over these ranges as chance allows."
    about = (
        f"The p-value is exact if misses fall on any of the {what} alike and independently, given their "
        "number; noise that is correlated along an input raises alarms. The worst slab was found on half of "
        f"the {what} and is shown on the other half. The size of misses is compared by ranks between the "
        "ranges of a feature."
    )
    yield Section("Where it covers", [" ".join(said.split()), about], table)


def _even(alarm: bool) -> str:
    return "ALARM" if alarm else "even"
