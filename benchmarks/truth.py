"""The truth behind the noise: Allen-Cahn, noise five times the network's error.

    python benchmarks/truth.py [--quick]

One network is trained; its error is measured against the solution, and readings get Gaussian noise of five
times that. Calibrated anew many times at n points each, a band for the truth at 90 % with confidence 0.95
stands beside plain bands of the same confidence: one at 95 %, which covers the truth at 90 % by the factor 2
that any symmetric noise allows, and one at 90 %, which is about measurements. Writes `results/truth.md`.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from claims import claim, finish
from scipy.stats import binom

import guardband as gb
from guardband import files

LEVEL, CONFIDENCE, TIMES = 0.9, 0.95, 5
PLACES = 200_000
"""At how many places the network's error is known, from which calibration sets are drawn."""


def residuals(quick: bool) -> np.ndarray:
    """The truth minus a trained network, at random places."""
    problem = gb.problems.AllenCahn2D()
    recipe = gb.Recipe(steps=300 if quick else 2000, finish=100 if quick else 500)
    torch.set_num_threads(1)
    fitted = gb.fit(problem, gb.mlp(2, [24, 24]), problem.observe(200, noise=0.05), recipe=recipe, seed=0)
    x = problem.domain.uniform(PLACES, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return (problem.solution(x) - fitted(x)).double().numpy()[:, 0]


def half_widths(misses: np.ndarray, n: int, draws: int) -> dict[str, np.ndarray]:
    """For each draw: the half width of each band, and whether the truth's band keeps its promise."""
    generator = np.random.default_rng(n)
    sd = TIMES * float(np.sqrt(np.mean(misses**2)))
    noise, at, size = gb.GaussianNoise(sd), gb.Prediction(None, [0.0]), np.sort(abs(misses))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    misses, draws = residuals(quick), 40 if quick else 400
    needed = float(np.quantile(abs(misses), LEVEL) / (TIMES * np.sqrt(np.mean(misses**2))))
    lines = [
        "# The truth behind the noise",
        "",
        "Made by `python benchmarks/truth.py`: one network for Allen-Cahn in two dimensions, readings with",
        f"Gaussian noise of {TIMES} times its root mean square error, {draws} calibrations at each n. Half",
        f"widths in units of the noise, {LEVEL:.0%} with confidence {CONFIDENCE}; who knew the error would",
        f"need {needed:.2f}. *Plain, halved* is the plain band at 95 % with that confidence, which covers",
        "the truth at 90 % if noise is symmetric; *plain* is the band at 90 %, which is about measurements.",
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
    print("\n".join(lines))
    if not quick:
        files.write_text(Path(__file__).parent.parent / "results" / "truth.md", "\n".join(lines) + "\n")
    finish(claims)


if __name__ == "__main__":
    main()
