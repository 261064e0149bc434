"""Few points: bands at 90 % from twenty to sixty readings, with a right or a wrong equation.

    python benchmarks/few_points.py [--quick] [--refits 100] [--page]

The problems are the damped oscillator and the heat equation, each with its own coefficients and with wrong
ones (a frequency 2 % too high and a damping of 0.08 instead of 0.05; a diffusivity 1.6 times too large). One
network is trained on each equation alone. The noise is Gaussian or t with 3 degrees of freedom, with standard
deviation 0.05; n readings are drawn 300 times, each time with 150 new readings for testing. The physics scale
is 2 % of the equation's terms.

- equation only: the network unchanged, calibrated on all n.
- split: one half updates the network in its tangent space, the other half calibrates; the equation is
  weighted as for n readings, as in the other methods, or, with its own half, as for the n/2 fitted readings.
- tangent full, tangent jackknife+: all n update the network and calibrate it.
- posterior: the Gaussian band of the same ridge regression (Laplace), without calibration.
- CV+: ten networks per data set of 40, each trained further from the first.

The study resumes from results/data/few_points.jsonl, which has a line for each setting. Writes
results/few_points.md.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
from claims import claim, finish
from ledger import Ledger
from scipy.stats import norm

import guardband as gb
from guardband import pinn
from guardband.base import files

LEVEL, SD, SIZES, REPETITIONS, QUERIES, FOLDS = 0.9, 0.05, (20, 40, 60), 300, 150, 10
BEST = 2 * SD * float(norm.ppf((1 + LEVEL) / 2))
LEDGER = Ledger("few_points")

OSCILLATOR, HEAT = pinn.problems.DampedOscillator(), pinn.problems.Heat1D()
WRONG_OSCILLATOR = pinn.problems.DampedOscillator(damping=0.08, frequency=1.02 * 2 * torch.pi)
CASES = {
    "oscillator": (OSCILLATOR, OSCILLATOR),
    "oscillator, wrong": (OSCILLATOR, WRONG_OSCILLATOR),
    "heat": (HEAT, HEAT),
    "heat, wrong": (HEAT, pinn.problems.Heat1D(diffusivity=1.6 * 0.4)),
}
"""The equation that generates the readings, and the one that is assumed."""

NOISE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "Gaussian": lambda generator, n: SD * generator.normal(size=(n, 1)),
    "t3": lambda generator, n: SD / 3**0.5 * generator.standard_t(3, size=(n, 1)),
}
METHODS = (
    "equation only",
    "split",
    "split with its own half",
    "tangent full",
    "tangent jackknife+",
    "posterior",
)


@cache
def trained(case: str) -> pinn.Fitted:
    """A network trained on the equation alone; five oscillations need Fourier features."""
    problem = CASES[case][1]
    waves = (8, 6.0) if problem.domain.d == 1 else None
    net, recipe = pinn.mlp(problem, [24, 24], fourier=waves), pinn.Recipe.by_newton(60)
    return pinn.fit(problem, net, likelihood=pinn.Likelihood(data=SD), recipe=recipe, progress=False)


def readings(case: str, noise: str, n: int, generator: np.random.Generator) -> gb.Observations:
    """n readings at random locations."""
    problem = CASES[case][0]
    draw = torch.Generator().manual_seed(int(generator.integers(2**31)))
    x = problem.domain.uniform(n, draw, dtype=torch.float64)
    return gb.Observations(x.numpy(), problem.solution(x).numpy() + NOISE[noise](generator, n))


def bands(case: str, data: gb.Observations, x: np.ndarray) -> dict[str, tuple[gb.Band, float]]:
    """The band of each method at x and its CPU seconds, without training and curvature."""
    fitted, n = trained(case), len(data)
    tangent, own = tangent_of(case, n), tangent_of(case, n // 2)
    first, second = (
        gb.Observations(data.x[rows], data.y[rows]) for rows in (slice(n // 2), slice(n // 2, n))
    )

    def split(of: pinn.Tangent) -> gb.Band:
        moved = of.calibrate(*first)
        return gb.calibrate(lambda x: moved.predict(x).mean, *second, score=gb.Absolute())(x, LEVEL)

    def posterior() -> gb.Band:
        made = tangent.calibrate(*data)
        found = made.before(made.predict(x), LEVEL)
        assert found is not None
        return found

    ways: dict[str, Callable[[], gb.Band]] = {
        "equation only": lambda: gb.calibrate(fitted, *data, score=gb.Absolute())(x, LEVEL),
        "split": lambda: split(tangent),
        "split with its own half": lambda: split(own),
        "tangent full": lambda: tangent.calibrate(*data)(x, LEVEL),
        "tangent jackknife+": lambda: tangent.calibrate(*data, kind="jackknife+")(x, LEVEL),
        "posterior": posterior,
    }
    found = {}
    for name, make in ways.items():
        start = time.process_time()
        found[name] = make(), time.process_time() - start
    return found


@cache
def tangent_of(case: str, n: int) -> pinn.Tangent:
    """The tangent space with the equation weighted as n readings, with its curvature computed."""
    made = pinn.Tangent(trained(case), noise=SD, counts=n)
    made.modes(n)
    return made


def setting(case: str, noise: str, n: int, repetitions: int) -> dict[str, Any]:
    """All methods on the same data sets."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for seed in range(repetitions):
        generator = np.random.default_rng([seed, n])
        data, new = (readings(case, noise, count, generator) for count in (n, QUERIES))
        for name, (band, seconds) in bands(case, data, new.x).items():
            found[name].append((float(band.contains(new.y).mean()), float(band.width.mean()), seconds))
    row: dict[str, Any] = {"case": case, "noise": noise, "n": n, "repetitions": repetitions}
    return row | {name: summary(np.array(values)) for name, values in found.items()}


def summary(values: np.ndarray) -> dict[str, float]:
    """Means over repetitions, and the standard error of the first."""
    coverage, width, seconds = values.mean(axis=0)
    error = values[:, 0].std(ddof=1) / len(values) ** 0.5
    return {
        "coverage": round(float(coverage), 4),
        "error": round(float(error), 4),
        "width": round(float(width), 4),
        "seconds": round(float(seconds), 4),
    }


def refitted(case: str, noise: str, seed: int) -> dict[str, Any]:
    """CV+ with ten training runs from the weights of the equation alone, on the same data sets as above."""
    n, generator = 40, np.random.default_rng([seed, 40])
    data, new = (readings(case, noise, count, generator) for count in (n, QUERIES))
    start = time.process_time()

    def fit(observations: gb.Observations) -> pinn.Fitted:
        likelihood, recipe = pinn.Likelihood(data=SD), pinn.Recipe.by_newton(5)
        first = trained(case)
        return pinn.fit(
            first.problem, first, observations, likelihood=likelihood, recipe=recipe, progress=False
        )

    band = gb.calibration.calibrate_cross(fit, data, folds=FOLDS)(new.x, LEVEL)
    return {
        "case": case,
        "noise": noise,
        "n": n,
        "refit": seed,
        "coverage": round(float(band.contains(new.y).mean()), 4),
        "width": round(float(band.width.mean()), 4),
        "seconds": round(time.process_time() - start, 2),
    }


def timed(case: str) -> tuple[float, float]:
    """CPU seconds of 150 queries after one factorization: the minimum and median of 500 calls."""
    generator = np.random.default_rng(0)
    made = tangent_of(case, 40).calibrate(*readings(case, "Gaussian", 40, generator))
    x = readings(case, "Gaussian", QUERIES, generator).x
    times = []
    for _ in range(500):
        start = time.process_time()
        made(x, LEVEL)
        times.append(time.process_time() - start)
    return min(times), float(np.median(times))


def page(settings: list[dict[str, Any]], refits: list[dict[str, Any]], seconds: tuple[float, float]) -> str:
    """The Markdown page."""
    lines = [
        "# Few points",
        "",
        f"Written by `python benchmarks/few_points.py`: prediction bands at level {LEVEL:.0%} over "
        f"{settings[0]['repetitions']} data sets of n readings, each tested on {QUERIES} new readings. The "
        f"noise has standard deviation {SD}; if the solution were known and the noise Gaussian, a width of "
        f"{BEST:.4f} would suffice. The physics scale is 2 % of the equation's terms. A *wrong* equation has "
        "a frequency 2 % too high and a damping of 0.08 instead of 0.05, or a diffusivity 1.6 times too "
        "large. All settings: [few_points.csv](data/few_points.csv).",
        "",
        "- **With the right equation, train on it alone and calibrate on all n**: no other band is narrower.",
        "- With a wrong equation, the tangent methods maintain the nominal coverage and are narrower than a "
        f"split; the posterior band covers {min(row['posterior']['coverage'] for row in settings):.3f} in "
        "the worst setting.",
        "- *Split* weights the equation as for n readings, as the tangent methods do; *with its own half* "
        "weights it as for the n/2 fitted readings, which trusts a wrong equation less. The gain depends on "
        "this weight (last table).",
        "",
        "## Mean width, Gaussian noise",
        "",
        "| case | n | " + " | ".join(METHODS) + " |",
        "|---" * (2 + len(METHODS)) + "|",
    ]
    for row in settings:
        if row["noise"] == "Gaussian":
            cells = [f"{row[name]['width']:.3f}" for name in METHODS]
            lines.append(f"| {row['case']} | {row['n']} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Lowest coverage over n and both noises",
        "",
        "| equation | " + " | ".join(METHODS) + " |",
    ]
    lines.append("|---" * (1 + len(METHODS)) + "|")
    for equation in ("right", "wrong"):
        mine = [row for row in settings if row["case"].endswith("wrong") == (equation == "wrong")]
        cells = [f"{min(row[name]['coverage'] for row in mine):.3f}" for name in METHODS]
        lines.append(f"| {equation} | " + " | ".join(cells) + " |")
    error = max(row[name]["error"] for row in settings for name in METHODS)
    lines += ["", f"Standard errors of coverage are at most {error:.4f}.", "", "## Cost", ""]
    timed = [row for row in settings if row["n"] == 40 and row["noise"] == "Gaussian"]
    spent = [
        f"{name} {1000 * float(np.median([row[name]['seconds'] for row in timed])):.1f}" for name in METHODS
    ]
    lines += [
        f"CPU milliseconds of a band at n = 40, median over the cases: {', '.join(spent)}. {QUERIES} queries "
        f"after one factorization take {1000 * seconds[0]:.1f} ms in the fastest of 500 calls and "
        f"{1000 * seconds[1]:.1f} as the median, on a busy machine.",
        "",
    ]
    if refits:
        lines += [
            f"CV+ with {FOLDS} training runs per data set of 40 readings, on the first of the data sets "
            "above:",
            "",
            "| case | noise | data sets | coverage / width | CPU s each |",
            "|---|---|---|---|---|",
        ]
        for case, noise in dict.fromkeys((row["case"], row["noise"]) for row in refits):
            mine = [row for row in refits if (row["case"], row["noise"]) == (case, noise)]
            coverage, width, cpu = (
                float(np.mean([row[name] for row in mine])) for name in ("coverage", "width", "seconds")
            )
            lines.append(f"| {case} | {noise} | {len(mine)} | {coverage:.3f} / {width:.3f} | {cpu:.1f} |")
        lines.append("")
    lines += ["Tangent full compared with split, n = 40, Gaussian noise:", ""]
    lines += ["| narrower by | same weight | own half |", "|---|---|---|"]
    for case in (case for case in CASES if case.endswith("wrong")):
        row = next(row for row in settings if (row["case"], row["noise"], row["n"]) == (case, "Gaussian", 40))
        gains = [narrower(row, METHODS[1]), narrower(row, METHODS[2])]
        lines.append(f"| {case} | " + " | ".join(f"{gain:.1%}" for gain in gains) + " |")
    return "\n".join(lines) + "\n"


def flat(settings: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The settings as rows of a table, one for each method."""
    for row in settings:
        for name in METHODS:
            yield {key: row[key] for key in ("case", "noise", "n")} | {"method": name} | row[name]


def narrower(row: dict[str, Any], than: str) -> float:
    """The share by which the full tangent band is narrower than another band."""
    return 1 - row["tangent full"]["width"] / row[than]["width"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions, without writing results")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    parser.add_argument("--refits", type=int, default=100, help="data sets for CV+ with new training runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.quick:
        row = setting("heat, wrong", "Gaussian", 20, 20)
        finish([claim("coverage of tangent full", row["tangent full"]["coverage"], ">= 0.8")])
    if options.page:
        (stored,) = _rows("fastest", {})[-1:]
        write((stored["fastest"], stored["median"]))
        return
    wanted = [(case, noise, n) for case in CASES for noise in NOISE for n in SIZES]
    for case, noise, n in wanted:
        if not _settings(case=case, noise=noise, n=n, repetitions=REPETITIONS):
            LEDGER.add([setting(case, noise, n, REPETITIONS)])
    seconds = max(map(timed, ("oscillator", "heat")))
    LEDGER.add([{"queries": QUERIES, "fastest": round(seconds[0], 5), "median": round(seconds[1], 5)}])
    write(seconds)
    for seed in range(options.refits):
        for case in (case for case in CASES if case.endswith("wrong")):
            if not _refits(case=case, noise="Gaussian", refit=seed):
                LEDGER.add([refitted(case, "Gaussian", seed)])
    write(seconds)
    rows = [row for row in _settings() if row["n"] == 40 and row["noise"] == "Gaussian"]
    claims = [
        claim(f"narrower than split at n = 40, {row['case']}", narrower(row, "split"), ">= 0.12")
        for row in rows
        if row["case"].endswith("wrong")
    ]
    least = min(row["tangent full"]["coverage"] for row in _settings())
    claims.append(claim("least coverage of tangent full", least, ">= 0.89"))
    claims.append(claim("CPU seconds of 150 queries, median", seconds[1], "<= 0.005"))
    finish(claims)


def write(seconds: tuple[float, float]) -> None:
    """Write the page and the table from the stored rows."""
    order = list(CASES)
    settings = sorted(_settings(), key=lambda row: (order.index(row["case"]), row["noise"], row["n"]))
    files.write_text(LEDGER.page, page(settings, _refits(), seconds))
    LEDGER.write_table(flat(settings))


def _settings(**having: Any) -> list[dict[str, Any]]:
    return _rows("repetitions", having)


def _refits(**having: Any) -> list[dict[str, Any]]:
    return _rows("refit", having)


def _rows(key: str, having: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that have a key."""
    rows = [row for row in LEDGER.rows() if key in row]
    return [row for row in rows if all(row[name] == value for name, value in having.items())]


if __name__ == "__main__":
    main()
