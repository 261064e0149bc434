"""The truth behind the noise: Allen-Cahn with noise of five times the network's error.

    python benchmarks/truth.py [--quick]

One network is trained and its error is measured with respect to the solution; readings have Gaussian noise of
five times that error. Over many calibrations at n points each, a band for the truth at 90 % with confidence
0.95 is compared with plain bands of the same confidence: one at 95 %, which covers the truth at 90 % by the
factor 2 that holds for any symmetric noise, and one at 90 %, which covers measurements. A second table
declares noise that is too large, around models that are wrong at some locations. Writes `results/truth.md`;
with `--declared` it rewrites only the second table.
"""

import argparse
import textwrap
from pathlib import Path

import numpy as np
import torch
from claims import claim, finish
from scipy.stats import binom

import guardband as gb
from guardband import pinn
from guardband.base import files

LEVEL, CONFIDENCE, TIMES = 0.9, 0.95, 5
PLACES = 200_000
"""Number of locations at which the error of the network is known; calibration sets are drawn from them."""

SHARES, OFF = (0.12, 0.14, 0.16, 0.19, 0.22, 0.26, 0.3, 0.35, 0.4, 0.5), (1.0, 1.5, 2.0, 2.5, 3.0)
"""Shares of locations at which a model is wrong, and its errors there in standard deviations."""

TITLE = "## Noise declared too large"


def residuals(quick: bool) -> np.ndarray:
    """The error of a trained network at random locations."""
    problem = pinn.problems.AllenCahn2D()
    recipe = pinn.Recipe(steps=300 if quick else 2000, finish=100 if quick else 500)
    torch.set_num_threads(1)
    fitted = pinn.fit(problem, pinn.mlp(2, [24, 24]), problem.observe(200, noise=0.05), recipe=recipe, seed=0)
    x = problem.domain.uniform(PLACES, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return (problem.solution(x) - fitted(x)).double().numpy()[:, 0]


def half_widths(misses: np.ndarray, n: int, draws: int) -> dict[str, np.ndarray]:
    """For each draw, the half width of each band, and whether the truth's band keeps its promise."""
    generator = np.random.default_rng(n)
    sd = TIMES * float(np.sqrt(np.mean(misses**2)))
    noise, at, size = gb.conformal.GaussianNoise(sd), gb.Prediction(None, [0.0]), np.sort(abs(misses))
    found: dict[str, list[float]] = {name: [] for name in ("truth", "plain, halved", "plain", "held")}
    for _ in range(draws):
        y = generator.choice(misses, n) + sd * generator.normal(size=n)
        options = {"score": gb.Absolute(), "confidence": CONFIDENCE}
        plain = gb.calibrate_arrays(0 * y, y, **options)
        truth = gb.calibrate_arrays(0 * y, y, **options, calibrator=gb.conformal.Truth(noise))
        t = float(truth.band(at, LEVEL).upper[0, 0])
        found["truth"].append(t / sd)
        found["plain, halved"].append(float(plain.band(at, (1 + LEVEL) / 2).upper[0, 0]) / sd)
        found["plain"].append(float(plain.band(at, LEVEL).upper[0, 0]) / sd)
        found["held"].append(float(np.searchsorted(size, t, side="right") >= LEVEL * len(size)))
    return {name: np.array(values) for name, values in found.items()}


def declared_too_large(times: float, n: int, draws: int) -> dict[str, float]:
    """Noise declared `times` too large: how often it is refused, and the worst coverage of the truth.

    The model is exact except for a share of locations, where it is wrong by some standard deviations. The
    worst of the mixtures is the one with the largest share of such locations at which more than 1 -
    confidence of the calibrations are accepted with bands that miss the truth there.
    """
    generator = np.random.default_rng([n, int(100 * times)])

    def tried(share: float, off: float) -> tuple[float, float]:
        refused = short = 0
        for _ in range(draws):
            y = off * (generator.uniform(size=n) < share) + generator.normal(size=n)
            calibrator = gb.conformal.Truth(gb.conformal.GaussianNoise(times))
            options = {"score": gb.Absolute(), "confidence": CONFIDENCE, "calibrator": calibrator}
            try:
                band = gb.calibrate_arrays(0 * y, y, **options).band(gb.Prediction(None, [0.0]), LEVEL)
            except ValueError:
                refused += 1
            else:
                short += share > 1 - LEVEL and float(band.upper[0, 0]) < off
        return refused / draws, short / draws

    found = {"right": tried(0.0, 0.0)[0], "worst": float("nan"), "coverage": LEVEL}
    for share in SHARES:
        for refused, short in (tried(share, off) for off in OFF):
            if short > 1 - CONFIDENCE + 3 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / draws):
                found |= {"worst": refused, "coverage": 1 - share}
    return found


def table_of_declared(draws: int) -> list[str]:
    """The second table."""
    about = (
        "Written by `python benchmarks/truth.py --declared`: the noise is Gaussian with standard "
        "deviation 1, and the standard deviation in the column *declared* is passed to the calibrator. "
        f"*Refused, model right* is the share of {draws} calibrations of an exact model that are refused. "
        "*Truth covered* and *refused* describe the worst mixture tried: a model that is exact except at a "
        f"share of {SHARES[0]} to {SHARES[-1]} of the locations, where it is off by {OFF[0]:g} to "
        f"{OFF[-1]:g} standard deviations. The promised coverage is at least {LEVEL:.0%} with confidence "
        f"{CONFIDENCE}; *refused* is empty if no mixture broke this promise. The errors of such a model make "
        "up for the missing noise, so the declared noise is usually accepted and the promise is broken."
    )
    lines = [TITLE, "", *textwrap.wrap(about, 95), ""]
    lines += ["| declared | n | refused, model right | truth covered | refused |", "|---|---|---|---|---|"]
    for times in (1.0, 1.05, 1.1, 1.2, 1.5, 2.0):
        for n in (200, 2000):
            found = declared_too_large(times, n, draws)
            worst = "at least 0.9 | " if np.isnan(found["worst"]) else ""
            worst = worst or f"{found['coverage']:.2f} | {found['worst']:.0%}"
            lines.append(f"| {times:g} | {n} | {found['right']:.0%} | {worst} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--declared", action="store_true")
    given = parser.parse_args()
    quick, page = given.quick, Path(__file__).parent.parent / "results" / "truth.md"
    declared = table_of_declared(10 if quick else 100)
    if given.declared:
        print("\n".join(declared))
        before = page.read_text().split(TITLE)[0].rstrip()
        files.write_text(page, "\n".join([before, "", *declared]) + "\n")
        return
    misses, draws = residuals(quick), 40 if quick else 400
    needed = float(np.quantile(abs(misses), LEVEL) / (TIMES * np.sqrt(np.mean(misses**2))))
    lines = [
        "# The truth behind the noise",
        "",
        "Written by `python benchmarks/truth.py`: one network for the two-dimensional Allen-Cahn equation, "
        f"readings with Gaussian noise of {TIMES} times its root mean square error, and {draws} calibrations "
        f"at each n. Half widths are in units of the noise, for level {LEVEL:.0%} with confidence "
        f"{CONFIDENCE}; if the error were known, {needed:.2f} would suffice. *Plain, halved* is the plain "
        "band at 95 % with that confidence, which covers the truth at 90 % for symmetric noise; *plain* is "
        "the band at 90 %, which covers measurements.",
        "",
        "| n | truth | plain, halved | plain | narrower than halved | promise kept |",
        "|---|---|---|---|---|---|",
    ]
    claims = []
    for n in (100, 1000, 5000):
        found = half_widths(misses, n, draws)
        mean = {name: float(values.mean()) for name, values in found.items()}
        narrower, held = 1 - mean["truth"] / mean["plain, halved"], int(found["held"].sum())
        lines.append(
            f"| {n} | {mean['truth']:.2f} | {mean['plain, halved']:.2f} | {mean['plain']:.2f} | "
            f"{narrower:.0%} | {held} of {draws} |"
        )
        least = int(binom.ppf(1e-3, draws, CONFIDENCE))
        claims.append(claim(f"promises kept of {draws} at n = {n}", held, f">= {least}"))
        if n == 5000:
            claims.append(claim("share by which it is narrower at n = 5000", narrower, ">= 0.3"))
    lines += ["", *declared]
    print("\n".join(lines))
    if not quick:
        files.write_text(page, "\n".join(lines) + "\n")
    finish(claims)


if __name__ == "__main__":
    main()
