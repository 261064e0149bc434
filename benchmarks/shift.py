"""Crowded sensors: nine in ten in the quiet half of the domain, queries everywhere.

    python benchmarks/shift.py

Each of 2000 independent experiments has 100 calibration points and one query at 95 %. The methods are plain
conformal prediction, weights by the true density ratio, and weights by ratios estimated from 300 other
sensors and 300 other queries. Counts are tested one-sided against Binomial(2000, 0.95). Writes
`results/shift.md`.
"""

import warnings
from pathlib import Path

import numpy as np
from scipy.stats import binom

import guardband as gb
from guardband.base import files

DRAWS, N, LEVEL = 2000, 100, 0.95
ZERO = gb.predictors.MeanOnly(lambda x: 0 * x[:, :1])


def crowded(generator: np.random.Generator, n: int) -> np.ndarray:
    right = generator.uniform(size=n) < 0.1
    return generator.uniform(size=(n, 2)) * [0.5, 1.0] + np.where(right, 0.5, 0.0)[:, None] * [1.0, 0.0]


def measure(generator: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.where(x[:, :1] > 0.5, 0.15, 0.05) * generator.normal(size=(len(x), 1))


def true_ratio(x: np.ndarray) -> np.ndarray:
    return np.where(x[:, 0] > 0.5, 1 / 0.2, 1 / 1.8)


def main() -> None:
    generator = np.random.default_rng(0)
    sensors, queries = crowded(generator, 300), generator.uniform(size=(300, 2))
    calibrators = {
        "plain": gb.Split(),
        "true ratio": gb.Weighted(true_ratio),
        "estimated ratio, logistic": gb.Weighted(gb.conformal.density_ratio(sensors, queries)),
        "estimated ratio, kernel": gb.Weighted(gb.conformal.density_ratio(sensors, queries, method="kernel")),
    }
    covered = dict.fromkeys(calibrators, 0)
    infinite = dict.fromkeys(calibrators, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.conformal.InfiniteBandWarning)
        for _ in range(DRAWS):
            x, new = crowded(generator, N), generator.uniform(size=(1, 2))
            y, y_new = measure(generator, x), measure(generator, new)
            for name, calibrator in calibrators.items():
                band = gb.calibrate(ZERO, x, y, calibrator=calibrator)(new, LEVEL)
                covered[name] += int(band.contains(y_new)[0])
                infinite[name] += int(np.isinf(band.upper).any())
    lines = [
        "# Crowded sensors",
        "",
        f"Written by `python benchmarks/shift.py`: {DRAWS} independent experiments at level 0.95, each with "
        f"{N} calibration points, nine in ten of them in the quiet half, and one query anywhere.",
        "",
        "| method | coverage | p (one-sided) | infinite |",
        "|---|---|---|---|",
    ]
    for name, count in covered.items():
        p = float(binom.cdf(count, DRAWS, LEVEL))
        lines.append(f"| {name} | {count / DRAWS:.3f} | {p:.2g} | {infinite[name] / DRAWS:.1%} |")
    print("\n".join(lines))
    files.write_text(Path(__file__).parent.parent / "results" / "shift.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
