"""Comparison with MAPIE on the same arrays: CQR, jackknife+, CV+ and adaptive conformal inference.

    pip install -e ".[peers]" && python benchmarks/peers/by_mapie.py [--quick]

Models are linear, so both libraries train the same ones up to rounding, on the same folds. The ends of the
bands are compared, and every setting in which they differ is listed with its reason. Speeds are CPU seconds,
alternating in one process. Writes results/mapie.md.
"""

import argparse
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from claims import claim, finish
from ledger import RESULTS
from mapie.conformity_scores import AbsoluteConformityScore
from mapie.regression import (
    ConformalizedQuantileRegressor,
    CrossConformalRegressor,
    TimeSeriesRegressor,
)
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, PredefinedSplit

import guardband as gb
from guardband.base import files
from guardband.calibration.cross import assign_folds

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
FEW, SEVERAL = (9, 19, 20, 39, 100), (20, 39, 60, 100)
QUERIES, ROUNDING = 200, 1e-11
"""Number of new points, and the largest difference, relative to the width, attributed to rounding."""
Ends = tuple[np.ndarray, np.ndarray]
Way = Callable[[], Ends]


@dataclass(frozen=True)
class Setting:
    """One comparison: method, size and level, and the computation of each library."""

    method: str
    n: int
    level: float
    theirs: Way
    ours: Way


class Line(RegressorMixin, BaseEstimator):
    """A fixed model, offset + slope x."""

    fitted_, n_features_in_ = True, 1

    def __init__(self, offset: float = 0.0, slope: float = 0.0) -> None:
        self.offset, self.slope = offset, slope

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Line":
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.offset + self.slope * np.asarray(x)[:, 0]


def drawn(n: int, seed: int) -> Ends:
    """x (n, 1) and y (n,): a line with noise that grows with x."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(size=(n, 1))
    return x, x[:, 0] + (0.1 + x[:, 0]) * draw.normal(size=n)


def ends(band: gb.Band) -> Ends:
    """The ends of a band, (n,) each."""
    return np.asarray(band.lower)[:, 0], np.asarray(band.upper)[:, 0]


def of_intervals(said: tuple[np.ndarray, np.ndarray]) -> Ends:
    """The ends of the intervals that MAPIE returns."""
    return said[1][:, 0, 0], said[1][:, 1, 0]


BURST = "spread grows by a half forty times in a row"
LOWER, UPPER, MIDDLE = Line(-0.3, 0.2), Line(0.1, 1.5), Line(0.0, 1.0)


def quantiles(n: int, level: float, *, symmetric: bool) -> Setting:
    """CQR with two given quantile models."""
    (x, y), (new, _) = drawn(n, n), drawn(QUERIES, 1)

    def theirs() -> Ends:
        made = ConformalizedQuantileRegressor([LOWER, UPPER, MIDDLE], confidence_level=level, prefit=True)
        return of_intervals(
            made.conformalize(x, y).predict_interval(
                new, allow_infinite_bounds=True, symmetric_correction=symmetric
            )
        )

    def ours() -> Ends:
        model = gb.Quantiles(LOWER.predict, UPPER.predict)
        return ends(gb.calibrate(model, x, y, score=gb.CQR(symmetric=symmetric))(new, level))

    return Setting("CQR" if symmetric else "CQR, separate ends", n, level, theirs, ours)


def crossed(n: int, level: float, *, folds: int | None) -> Setting:
    """Jackknife+, or CV+ on the same folds."""
    (x, y), (new, _) = drawn(n, n), drawn(QUERIES, 1)
    fold = assign_folds(n, folds, None, 0)

    def theirs() -> Ends:
        cv = LeaveOneOut() if folds is None else PredefinedSplit(fold)
        made = CrossConformalRegressor(LinearRegression(), confidence_level=level, cv=cv, method="plus")
        return of_intervals(made.fit_conformalize(x, y).predict_interval(new, allow_infinite_bounds=True))

    def ours() -> Ends:
        def fit(data: gb.Observations) -> Callable[[np.ndarray], np.ndarray]:
            return LinearRegression().fit(data.x, data.y[:, 0]).predict

        return ends(gb.calibration.calibrate_cross(fit, (x, y), folds=folds)(new, level))

    return Setting("jackknife+" if folds is None else f"CV+, {folds} folds", n, level, theirs, ours)


def adaptive(n: int, level: float, *, steps: int, what: str = "spread grows threefold") -> Setting:
    """Adaptive conformal inference with a rolling window of n scores, reading by reading."""
    (x, y), (new, readings) = drawn(n, n), drawn(steps, 2)
    grown = np.linspace(1, 3, steps)
    if what == BURST:
        grown = 1.5 ** np.clip(np.arange(steps) - steps / 2, 0, 40)
    readings = readings * grown
    step = (1 - level) / 20

    def theirs() -> Ends:
        score = AbsoluteConformityScore(sym=True)
        made = TimeSeriesRegressor(MIDDLE, method="aci", cv="prefit", conformity_score=score).fit(x, y)
        found = np.empty((steps, 2))
        for t in range(steps):
            here, reading = new[t : t + 1], readings[t : t + 1]
            said = made.predict(here, confidence_level=level, allow_infinite_bounds=True)
            found[t] = said[1][0, :, 0]
            made.adapt_conformal_inference(here, reading, gamma=step, confidence_level=level)
            made.update(here, reading)
        return found[:, 0], found[:, 1]

    def ours() -> Ends:
        calibrated = gb.calibrate(MIDDLE.predict, x, y, score=gb.Absolute())
        stream = gb.Stream(calibrated, level, method=gb.streams.AdaptiveLevel(step, n), alarm=None)
        bands = []
        for t in range(steps):
            bands.append(ends(stream.band(new[t : t + 1])))
            stream.update(readings[t])
        lower, upper = np.array(bands)[:, :, 0].T
        return lower, upper

    return Setting(f"ACI, {what}", n, level, theirs, ours)


def settings(quick: bool) -> Iterator[Setting]:
    """All comparisons."""
    for n in FEW[:2] if quick else FEW:
        for level in LEVELS:
            for symmetric in (True, False):
                yield quantiles(n, level, symmetric=symmetric)
    for n in SEVERAL[:1] if quick else SEVERAL:
        for level in LEVELS:
            yield crossed(n, level, folds=None)
            yield crossed(n, level, folds=10)
    steps = 100 if quick else 1000
    for level in (0.8, 0.9, 0.975):
        yield adaptive(200, level, steps=steps)
    yield adaptive(200, 0.9, steps=steps, what=BURST)


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: the largest relative difference of an end, None if MAPIE raises."""

    setting: Setting
    difference: float | None
    words: str
    infinite: bool = False

    @property
    def equal(self) -> bool:
        return self.difference is not None and self.difference <= ROUNDING

    @property
    def reason(self) -> str:
        """The reason for the difference, from MAPIE's source."""
        method, n, level = self.setting.method, self.setting.n, self.setting.level
        refused, missed = self.difference is None, round(1 - level, 10)
        asked = (1 if method == "CQR" else 2) / missed
        if method.startswith("CQR") and refused and n < asked:
            return f"MAPIE requires {asked:.0f} points; {asked - 1:.0f} suffice for a finite band"
        if method.startswith("ACI") and round(missed, 2) != missed:
            return "MAPIE stores 1 - level with two digits and does not find it"
        if method.startswith("ACI") and refused and self.infinite:
            return "MAPIE's symmetric scores have no infinite band, so it stops when the level reaches 1"
        return ""


def compare(setting: Setting) -> Compared:
    """Compare the ends of both bands; infinite ends are equal if both are infinite."""
    ours = np.array(setting.ours())
    try:
        theirs = np.array(setting.theirs())
    except (ValueError, KeyError):
        infinite = float(np.isinf(ours).any(axis=0).mean())
        return Compared(
            setting, None, f"MAPIE raises; {infinite:.0%} of our bands are infinite", infinite > 0
        )
    apart = np.zeros_like(ours)
    np.subtract(ours, theirs, out=apart, where=ours != theirs)
    widths = [float(np.mean(upper - lower)) for lower, upper in (ours, theirs)]
    largest = float(abs(apart).max()) / widths[0]
    return Compared(setting, largest, f"mean width {widths[0]:.3f}, MAPIE's {widths[1]:.3f}")


def speeds(repeats: int) -> list[tuple[str, float, float]]:
    """Median CPU seconds of both libraries over alternating repeats."""
    asked = [
        quantiles(100, 0.9, symmetric=True),
        crossed(40, 0.9, folds=None),
        crossed(100, 0.9, folds=10),
        adaptive(200, 0.9, steps=200),
    ]
    found = []
    for setting in asked:
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        compare(setting)
        for _ in range(repeats):
            for name in times:
                start = time.process_time()
                getattr(setting, name)()
                times[name].append(time.process_time() - start)
        ours, theirs = (float(np.median(times[name])) for name in times)
        found.append((f"{setting.method}, n = {setting.n}", ours, theirs))
    return found


def page(found: list[Compared], times: list[tuple[str, float, float]]) -> str:
    """The Markdown page."""
    equal = [one for one in found if one.equal]
    furthest = max(one.difference or 0.0 for one in equal)
    lines = [
        f"# Comparison with MAPIE {version('mapie')}",
        "",
        "Written by `python benchmarks/peers/by_mapie.py`: both libraries on the same arrays, with the same "
        "models, folds and windows. Differences are between the ends of the bands, relative to the width.",
        "",
        f"- **Equal bands in {len(equal)} of {len(found)} settings**, to {furthest:.1e} of the width. The "
        "remaining difference is rounding: guardband moves ends outward by a few units in the last place, so "
        "that a reading on an end lies in the band.",
        f"- In the other {len(found) - len(equal)}, MAPIE raises an error; each is listed below with its "
        "reason."
        if all(one.equal or one.difference is None for one in found)
        else f"- The other {len(found) - len(equal)} are listed below, each with its reason.",
        "",
        "| method | settings | equal bands | largest difference |",
        "|---|---|---|---|",
    ]
    for method in dict.fromkeys(one.setting.method for one in found):
        mine = [one for one in found if one.setting.method == method]
        same = [one.difference or 0.0 for one in mine if one.equal]
        said = f"{max(same):.1e}" if same else "-"
        lines.append(f"| {method} | {len(mine)} | {len(same)} | {said} |")
    lines += ["", "| not equal | n | level | result | reason |", "|---|---|---|---|---|"]
    for one in (one for one in found if not one.equal):
        what = one.setting
        why = one.reason or "**unknown**"
        lines.append(f"| {what.method} | {what.n} | {what.level} | {one.words} | {why} |")
    lines += [
        "",
        "Defaults also differ. MAPIE's quantile regressor has separate thresholds for the two ends, "
        "guardband's "
        "`CQR()` one for both. MAPIE's adaptive inference has separate thresholds above and below, keeps "
        "1 - level between 0 and 1 (guardband does not, as in the theorem), and counts a reading on an end "
        "as "
        "outside. In this comparison both libraries have the same settings.",
        "",
        "Median CPU milliseconds of one call from models to bands, alternating in one process:",
        "",
        "| method | guardband | MAPIE | MAPIE over guardband |",
        "|---|---|---|---|",
    ]
    for name, ours, theirs in times:
        lines.append(f"| {name} | {1000 * ours:.1f} | {1000 * theirs:.1f} | {theirs / ours:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few settings, without writing results")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")  # infinite bands and crossing quantiles
    found = [compare(setting) for setting in settings(options.quick)]
    times = speeds(3 if options.quick else 30)
    said = page(found, times)
    print(said)
    if not options.quick:
        files.write_text(RESULTS / "mapie.md", said)
    unexplained = sum(not one.equal and not one.reason for one in found)
    finish([claim("settings that differ without a reason", unexplained, "<= 0")])


if __name__ == "__main__":
    main()
