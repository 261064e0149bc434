"""The sections of the report on a band.

They answer the questions of a skeptical reader: the claim and its assumption; the verdict on fresh
measurements; the measured coverage, compared with constant width; coverage by range; pictures; what would
void the guarantee; the size of the calibration set; provenance; how to reproduce the page.
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
from guardband.reports.provenance import fingerprints, hashing, model_of, reproduction
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
    """Return the sections of the report on a band.

    `command` is the shell command that creates the page, if any.
    """
    arguments = {
        "y": y,
        "groups": groups,
        "regions": regions,
        "facts": facts,
        "title": title,
        "verdict": verdict,
    }
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
            origin("calibration", repr(calibrated), known | (facts or {}), hashing(calibrated)),
            reproduction(calibrated, level, arguments, command),
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
        claim += f"; the requested level is {percent}"
    if calibrated.confidence is not None:
        claim += f", with confidence {float(exact(calibrated.confidence)):g} over calibration sets"
    truth = calibrated.about == "truth"
    exempt = truth or promised is None
    other = "new measurements" if truth else "the noise-free truth behind the measurements"
    return Section(
        "What is claimed",
        [
            f"{claim}.",
            f"Assumption. {calibrated.promise}{'' if exempt else _average(calibrated, what)}",
            f"Not claimed. Coverage at every single {what[:-1]}; coverage of {what} drawn differently from "
            f"the calibration {what} (other locations, other sensors, another regime); coverage of {other}.",
            *_width(band),
        ],
        mark="claim",
    )


def _average(calibrated: Calibrated, what: str) -> str:
    """Return a sentence on the models for which the claim holds, and on the average in it."""
    sets = "over calibration sets"
    if calibrated.confidence is not None:
        sets = f"with confidence {float(exact(calibrated.confidence)):g} for the calibration set at hand"
    return (
        f" This holds for {calibrated.holds_for}, any noise and any number of {what}, as an average over new "
        f"{what}{',' if calibrated.confidence is not None else ' and'} {sets}."
    )


def _width(band: Band | NormBand | None) -> Iterable[str]:
    """Yield a sentence on the width of the set, and on infinite or empty sets."""
    width = np.empty(0) if band is None else to_numpy(band.width).astype(float)
    finite = width[np.isfinite(width)]
    size = _size(finite, "diameter in its norm" if isinstance(band, NormBand) else "width")
    infinite = float(np.mean(np.isinf(width))) if width.size else 0.0
    if infinite:
        size += f" It is infinite at {infinite:.0%} of the points, for lack of calibration points."
    empty = float(np.mean(band.empty)) if isinstance(band, Band) else 0.0
    if empty:
        size += f" It is empty at {empty:.0%} of the points."
    if size:
        yield size.strip()


def _verdict(found: Evaluation | None) -> Section:
    """Return the verdict of fresh measurements on the claim."""
    if found is None:
        return Section("Verdict", ["No fresh measurements were passed: the claim is untested."])
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
    table = [["", "check", "result"], *_alarms(found)]
    for finding in sorted(findings.findings, key=lambda one: not one.alarm):
        word = "ALARM" if finding.alarm else "note" if finding.note else "fine"
        table.append([word if finding.known else "not known", finding.name, finding.text])
    alarms = [row[1] for row in table if row[0] == "ALARM"]
    unknown = sum(not finding.known for finding in findings.findings)
    verdict = "The guarantee is in doubt; read the alarms." if alarms else "No check raised an alarm."
    if set(alarms) == {"where it covers"}:
        verdict = "The promised average is not in doubt, but coverage differs between ranges."
    elif not alarms and unknown:
        verdict = f"No check raised an alarm; {unknown} could not be run, marked 'not known'."
    return Section("What would void it", [verdict], table)


def _alarms(found: Evaluation | None) -> Iterable[list[str]]:
    """Yield the rows of alarms that fresh measurements raise."""
    if found is None:
        return
    if found.consistent is False:
        yield ["ALARM", "fresh data", "They are not covered as promised; see the measured coverage."]
    yield from (["ALARM", "used before", text] for text in found.doubts)
    if alarms := found.by_range.alarms:
        where = f"{len(alarms)} of {found.by_range.tests} tests"
        text = f"Coverage differs between ranges by more than chance allows, in {where}."
        yield ["ALARM", "where it covers", text]


def _data(calibrated: Calibrated, level: Level) -> Section:
    n, what = calibrated.n, rows_word(calibrated)
    lines = [f"Calibrated on {_counted(calibrated, level)}; {_outputs(calibrated)}."]
    pieces = calibrated.laws(level, 1) if calibrated.groups is None else None
    if pieces:
        law = pieces[0][0]
        low, high = law.interval(0.95)
        lines.append(
            f"Coverage varies between calibration sets of this size: with {n} {what} it lies between "
            f"{low:.3f} and {high:.3f} in 95 % of cases, {law.mean:.4f} on average, and falls below "
            f"{float(exact(level)):g} in {law.below(level):.0%} of cases (Beta law, for {what} drawn "
            f"independently of each other). For less variation use more {what}, or calibrate with a "
            "confidence."
        )
    else:
        lines.append("The exact distribution of coverage between calibration sets is not known here.")
    return Section("Size of the calibration set", lines)


def _counted(calibrated: Calibrated, level: Level) -> str:
    """Return the number of rows, and the effective number if it differs."""
    n, what, size = calibrated.n, rows_word(calibrated), calibrated.size(level)
    if size is None or size.have == n:
        return f"{n} {what}"
    counted = f"{size.have:.4g} {size.what.replace('points', what).rstrip(',')}"
    if calibrated.covers_new_groups:
        return f"{counted}, which is the number that matters, with {n} {what} in total"
    return f"{n} {what} ({counted})"


def _outputs(calibrated: Calibrated) -> str:
    m = 1 if calibrated.prediction is None else calibrated.prediction.mean.shape[-1]
    how = "jointly" if calibrated.joint else "separately"
    return "one output each" if m == 1 else f"{m} outputs each, covered {how}"


def _together(calibrated: Calibrated) -> str:
    """Return whether several outputs are covered jointly or separately."""
    m = 1 if calibrated.prediction is None else calibrated.prediction.mean.shape[-1]
    if m == 1:
        return ""
    if calibrated.joint:
        return f", {'both' if m == 2 else f'all {m}'} outputs jointly,"
    return f", each of {m} outputs separately,"


def _each_output(
    calibrated: Calibrated, band: Band | NormBand | None, y: ArrayLike | None
) -> Iterable[list[str]]:
    """Yield the coverage and width of each output of a band that covers all outputs jointly."""
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
        return Section("Measured coverage", ["No fresh measurements were passed. Pass y, measured at x."])
    table = [["band", rows_word(calibrated), "coverage", "mean width", "interval score", "ACD"]]
    for row in found.rows:
        name = f"{row.name}, {row.region}" if row.region else row.name
        widths = [f"{row.sharpness:.4g}", f"{row.interval_score:.4g}"]
        table.append([name, str(row.points), f"{row.coverage:.3f}", *widths, f"{row.acd:.4f}"])
    table[2:2] = _each_output(calibrated, band, y)
    lines = [
        f"Relative error of the prediction against these measurements (L2): {found.relative_l2:.3g}"
        f"{_baseline_error(calibrated, y)}. Coverage alone does not measure the model: a wide band around "
        "zero covers too. Compare error and width as well."
    ]
    lines += found.remarks
    if found.of_constant_width:
        lines.append("This band has constant width, so there is no other band to compare with.")
    if found.acd_floor is not None:
        floor = found.acd_floor
        lines.append(
            f"A valid band has an ACD (average coverage deviation) of {floor.mean:.4f} on average with these "
            f"numbers of points, {floor.low:.4f} to {floor.high:.4f} in 95 % of cases."
        )
    return Section("Measured coverage", lines, table)


def _baseline_error(calibrated: Calibrated, y: ArrayLike | None) -> str:
    """Return the error of a model that predicts the mean of the measurements."""
    fresh = np.asarray(to_numpy(rows(calibrated.targets(y), "y")), dtype=float)
    size, spread = (float(np.linalg.norm(part)) for part in (fresh, fresh - fresh.mean(axis=0)))
    return f"; their mean as a constant prediction has {spread / size:.3g}" if size > 0 else ""


def _ranges(found: Evaluation | None, what: str) -> Iterable[Section]:
    """Yield the coverage by range, if there are enough fresh points."""
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
    summary = str(where) or "Coverage varies between these ranges no more than chance allows."
    about = (
        f"The p-values are exact if, given their number, misses are equally likely at all {what} and "
        "independent; noise that is correlated along an input raises alarms. The worst slab was found on "
        f"half of the {what} and is tested on the other half. The sizes of misses are compared by ranks "
        "between the ranges of a feature."
    )
    yield Section("Where it covers", [" ".join(summary.split()), about], table)


def _even(alarm: bool) -> str:
    return "ALARM" if alarm else "even"
