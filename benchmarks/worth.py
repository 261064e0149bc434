"""Does the equation narrow the band? Bands at 90 % from plain regression and from networks with an equation.

    python benchmarks/worth.py [--quick] [--seeds 20] [--page]

Six problems of the catalogue with noise of standard deviation 0.05, n = 30, 100 and 300 readings in total,
and an equation that is right or has a wrong coefficient. Settings were fixed in advance and are the same for
all.

- kriging, boosting: scikit-learn on one half of the readings, calibrated on the other half, without an
  equation. Kriging uses the true noise level, and its standard deviation is the scale of its band.
- PINN, split: a network trained on the equation and one half, calibrated on the other half.
- equation only: a network trained on the equation alone, calibrated on all n.
- tangent full: that network, updated in its tangent space and calibrated by all n (`pinn.Tangent`).

The network trained on the equation alone is shared by all n of a seed, and its training counts in the CPU
seconds of each. The study resumes from results/data/worth.jsonl, which has a line for each problem, equation
and seed.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
from claims import claim, finish
from ledger import Ledger
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import guardband as gb
from guardband import pinn
from guardband.base import files

LEVEL, SD, SIZES, NEW, SEEDS = 0.9, 0.05, (30, 100, 300), 2000, 20
FLOOR = 2 * SD * float(norm.ppf((1 + LEVEL) / 2))
"""Width of the interval if the solution and the Gaussian noise were known."""
LEDGER = Ledger("worth")

catalogue = pinn.problems
PROBLEMS = {
    "oscillator": (
        catalogue.DampedOscillator(),
        catalogue.DampedOscillator(damping=0.08, frequency=1.02 * 2 * torch.pi),
        "frequency 2 % too high, damping 0.08 instead of 0.05",
    ),
    "heat": (catalogue.Heat1D(), catalogue.Heat1D(diffusivity=0.64), "diffusivity 1.6 times too large"),
    "heat on a disk": (
        catalogue.HeatDisk(),
        catalogue.HeatDisk(diffusivity=0.16),
        "diffusivity 1.6 times too large",
    ),
    "Burgers": (
        catalogue.Burgers1D(viscosity=0.05),
        catalogue.Burgers1D(viscosity=0.08),
        "viscosity 1.6 times too large",
    ),
    "wave": (catalogue.Wave1D(speed=1.0), catalogue.Wave1D(speed=1.03), "speed 3 % too high"),
    "reaction and diffusion": (
        catalogue.ReactionDiffusion1D(),
        catalogue.ReactionDiffusion1D(growth=6.5),
        "growth 1.3 times too large, also in the conditions",
    ),
}
"""The equation that generates the readings, the wrong one, and its error."""

PLAIN = ("kriging", "boosting")
INFORMED = ("PINN, split", "equation only", "tangent full")
MEASURED = ("coverage", "width", "error", "seconds")
EQUATIONS = {"none": PLAIN, "right": INFORMED, "wrong": INFORMED}
Method = Callable[[gb.Observations, np.ndarray], tuple[gb.Band, np.ndarray]]
"""From readings and new locations to the band there and the predicted solution."""


def readings(name: str, n: int, seed: int) -> tuple[gb.Observations, np.ndarray]:
    """n readings at random locations, and the solution there."""
    truth = PROBLEMS[name][0]
    x = truth.domain.uniform(n, torch.Generator().manual_seed(seed), dtype=torch.float64)
    u = truth.solution(x).numpy()
    return gb.Observations(x.numpy(), u + SD * np.random.default_rng(seed).normal(size=u.shape)), u


def halves(data: gb.Observations) -> tuple[gb.Observations, gb.Observations]:
    """One half for training and one for calibration; rows have no order."""
    half = len(data) // 2
    return tuple(gb.Observations(data.x[some], data.y[some]) for some in (slice(half), slice(half, None)))  # type: ignore[return-value]


def kriging(data: gb.Observations, x: np.ndarray) -> tuple[gb.Band, np.ndarray]:
    """A Gaussian process whose length scales, one per input, maximize the likelihood."""
    first, second = halves(data)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(np.ptp(data.x, axis=0) / 4, (1e-2, 1e2))
    noise = (SD / first.y.std()) ** 2  # relative to the spread of the readings, since they are normalized
    process = GaussianProcessRegressor(
        kernel, alpha=noise, normalize_y=True, n_restarts_optimizer=3, random_state=0
    ).fit(first.x, first.y[:, 0])

    def predicted(x: np.ndarray) -> gb.Prediction:
        mean, sd = process.predict(x, return_std=True)
        return gb.Prediction(x, mean, np.hypot(sd, SD))

    prediction = predicted(second.x)
    calibrated = gb.calibrate_arrays(prediction.mean, second.y, prediction.scale)
    new = predicted(x)
    return calibrated.band(new, LEVEL), np.asarray(new.mean)


def boosting(data: gb.Observations, x: np.ndarray) -> tuple[gb.Band, np.ndarray]:
    """Gradient boosting: two hundred trees of depth three."""
    first, second = halves(data)
    model = GradientBoostingRegressor(n_estimators=200, learning_rate=0.05, random_state=0)
    return _split(model.fit(first.x, first.y[:, 0]).predict, second, x)


def _split(
    model: Callable[[np.ndarray], Any], calibration: gb.Observations, x: np.ndarray
) -> tuple[gb.Band, np.ndarray]:
    calibrated = gb.calibrate(model, *calibration, score=gb.Absolute())
    return calibrated(x, LEVEL), np.asarray(model(x)).reshape(-1, 1)


def informed(equation: pinn.Problem, seed: int) -> tuple[dict[str, Method], dict[str, float]]:
    """Methods that use an equation, and the CPU seconds each spends before it sees a reading."""
    likelihood, recipe = pinn.Likelihood(data=SD), pinn.Recipe.by_newton(60, n_interior=400)
    waves = (8, 6.0) if equation.domain.d == 1 else None

    def trained(data: gb.Observations | None = None) -> pinn.Fitted:
        net = pinn.mlp(equation, [24, 24], fourier=waves, seed=seed)
        return pinn.fit(equation, net, data, likelihood=likelihood, recipe=recipe, seed=seed, progress=False)

    def network(data: gb.Observations, x: np.ndarray) -> tuple[gb.Band, np.ndarray]:
        first, second = halves(data)
        return _split(trained(first), second, x)

    def tangent(data: gb.Observations, x: np.ndarray) -> tuple[gb.Band, np.ndarray]:
        calibrated = pinn.Tangent(alone, noise=SD).calibrate(*data)
        return calibrated(x, LEVEL), np.asarray(calibrated.predict(x).mean)

    start = time.process_time()
    alone = trained()
    spent = time.process_time() - start
    methods: list[Method] = [network, lambda data, x: _split(alone, data, x), tangent]
    return dict(zip(INFORMED, methods, strict=True)), dict(zip(INFORMED, (0.0, spent, spent), strict=True))


def cell(name: str, equation: str, seed: int) -> dict[str, Any]:
    """All methods with this equation, on each number of readings."""
    if equation == "none":
        methods: dict[str, Method] = {"kriging": kriging, "boosting": boosting}
        before: dict[str, float] = {method: 0.0 for method in PLAIN}
    else:
        methods, before = informed(PROBLEMS[name][1 if equation == "wrong" else 0], 1 + seed)
    new, truth = readings(name, NEW, 10_000 + seed)
    row: dict[str, Any] = {"problem": name, "equation": equation, "seed": seed}
    for n in SIZES:
        data, _ = readings(name, n, 1000 * n + seed)
        for method, make in methods.items():
            start = time.process_time()
            band, mean = make(data, new.x)
            seconds = before[method] + time.process_time() - start
            row[f"{method}, {n}"] = {
                "coverage": round(float(band.contains(new.y).mean()), 4),
                "width": round(float(np.mean(band.width)) / FLOOR, 4),
                "error": round(float(np.square(mean - truth).mean() ** 0.5) / SD, 4),
                "seconds": round(seconds, 3),
            }
    return row


def mean(rows: list[dict[str, Any]], method: str, n: int, what: str) -> float:
    """The mean over seeds."""
    return float(np.mean([row[f"{method}, {n}"][what] for row in rows]))


def found() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows by problem and equation, for the seeds that all of them have."""
    rows = LEDGER.rows()
    by = {
        (name, equation): {r["seed"]: r for r in rows if (r["problem"], r["equation"]) == (name, equation)}
        for name in PROBLEMS
        for equation in EQUATIONS
    }
    complete = sorted(set.intersection(*(set(some) for some in by.values())))
    return {key: [some[seed] for seed in complete] for key, some in by.items()}


def verdicts(by: dict[tuple[str, str], list[dict[str, Any]]]) -> list[str]:
    """Settings in which plain regression has the narrower band, then those in which the equation has."""
    lost: list[str] = []
    won: list[str] = []
    for equation in ("wrong", "right"):
        for name in PROBLEMS:
            for n in SIZES:
                plain = min((mean(by[name, "none"], m, n, "width"), m) for m in PLAIN)
                with_equation = min((mean(by[name, equation], m, n, "width"), m) for m in INFORMED)
                best, other = sorted([plain, with_equation])
                said = f"{name}, {equation} equation, n = {n}: "
                said += f"{best[1]} {best[0]:.2f}, {other[1]} {other[0]:.2f}"
                (lost if plain < with_equation else won).append(said)
    split = [
        mean(by[name, equation], "PINN, split", n, "width") > mean(by[name, "none"], "kriging", n, "width")
        for name in PROBLEMS
        for equation in ("right", "wrong")
        for n in SIZES
    ]
    total = len(lost) + len(won)
    lines = [f"**Plain regression had the narrower band in {len(lost)} of {total} settings**"]
    lines[0] += ", on average over the seeds:" if lost else "."
    lines += [f"- {said}" for said in lost]
    right = sum("right equation" in said for said in won)
    lines += [
        "",
        f"The equation gave the narrower band in the other {len(won)}: in {right} of {total // 2} with the "
        "right "
        f"equation and in {len(won) - right} of {total // 2} with a wrong one. Compared with kriging, which "
        "uses the "
        f"same halves, the split PINN had the wider band in {sum(split)} of {len(split)}.",
    ]
    return lines


def page(by: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """The Markdown page."""
    seeds = len(next(iter(by.values())))
    lines = ["# Does the equation narrow the band?", ""]
    if seeds < SEEDS:
        lines += [f"So far {seeds} of {SEEDS} seeds: small differences are chance.", ""]
    lines += [*verdicts(by), ""]
    lines += [
        f"Written by `python benchmarks/worth.py`: bands at {LEVEL:.0%} from n readings with Gaussian noise "
        "of",
        f"standard deviation {SD}; means over {seeds} seeds, with {NEW} new readings each. A seed draws "
        "readings",
        f"and initial weights. *Width* is relative to the noise floor, {FLOOR:.4f}, the width needed if the",
        "solution were known. *Error* is the root mean square error of the predicted solution relative to "
        "the",
        "noise. Kriging, boosting and the PINN train on one half of the readings and calibrate on the other;",
        "*equation only* trains without readings and calibrates on all; *tangent full* fits and calibrates "
        "on",
        "all. Kriging and the networks use the true noise level. Training runs take a few seconds each.",
        "All settings: [worth.csv](data/worth.csv).",
        "",
        "Errors in the wrong equations: "
        + "; ".join(f"{name}, {what}" for name, (_, _, what) in PROBLEMS.items())
        + ".",
        "",
        "## Width over the noise floor",
        "",
        "| problem | n | "
        + " | ".join([*PLAIN, *(f"{m}, {e}" for e in ("right", "wrong") for m in INFORMED)])
        + " |",
        "|---" * 10 + "|",
    ]
    for name in PROBLEMS:
        for n in SIZES:
            plain = [mean(by[name, "none"], method, n, "width") for method in PLAIN]
            sides = [
                [mean(by[name, e], method, n, "width") for method in INFORMED] for e in ("right", "wrong")
            ]
            cells = [f"{value:.3g}" for value in plain]
            for side in sides:
                best = min(plain + side)
                cells += [f"**{value:.3g}**" if value == best else f"{value:.3g}" for value in side]
            lines.append(f"| {name} | {n} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "A bold width is the narrowest in its row, compared with kriging, boosting and the networks of the "
        "same",
        "equation.",
        "",
        "## Coverage, error and cost",
        "",
        "Over the problems and n: the lowest mean coverage, the median error and CPU seconds, training "
        "included.",
        "",
        "| method | equation | lowest coverage | median error | largest error | median CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for equation, methods in EQUATIONS.items():
        for method in methods:
            values = {
                what: [mean(by[name, equation], method, n, what) for name in PROBLEMS for n in SIZES]
                for what in ("coverage", "error", "seconds")
            }
            error = values["error"]
            lines.append(
                f"| {method} | {equation} | {min(values['coverage']):.3f} | {np.median(error):.3g} | "
                f"{max(error):.3g} | {np.median(values['seconds']):.3g} |"
            )
    return "\n".join(lines) + "\n"


def flat(by: dict[tuple[str, str], list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The means of all settings as rows of a table."""
    for (name, equation), rows in by.items():
        for method in EQUATIONS[equation]:
            for n in SIZES:
                values = {what: round(mean(rows, method, n, what), 5) for what in MEASURED}
                yield {"problem": name, "equation": equation, "n": n, "method": method, **values}


def write() -> None:
    """Write the page and the table of all settings from the stored rows."""
    files.write_text(LEDGER.page, page(found()))
    LEDGER.write_table(flat(found()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one cell, without writing results")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # kriging warns when a length scale reaches its bound
    if options.quick:
        row = cell("heat", "right", 0)
        finish([claim("width of equation only over the floor", row["equation only, 300"]["width"], "<= 1.2")])
    for seed in [] if options.page else range(options.seeds):
        for name in PROBLEMS:
            for equation in EQUATIONS:
                if not LEDGER.rows(problem=name, equation=equation, seed=seed):
                    LEDGER.add([cell(name, equation, seed)])
        write()
    if options.page:
        write()
    by = found()
    methods = {method: equation for equation, some in EQUATIONS.items() for method in some}
    coverage = [
        float(np.mean([mean(by[name, methods[m]], m, n, "coverage") for name in PROBLEMS for n in SIZES]))
        for m in methods
    ]
    # All problems share their noise, so each seed and n is one draw; over 20 seeds 0.01 is chance.
    complete = len(by["heat", "none"]) >= SEEDS
    claims = [claim("least coverage of a method over all settings", min(coverage), ">= 0.87")]
    finish(claims if complete else [])


if __name__ == "__main__":
    main()
