"""Coverage of a band around the flow past a cylinder, over 200 calibrations.

    python benchmarks/cylinder.py [--recalibrations 200]

150 noisy readings of the velocity train one network, with the Navier-Stokes equations and the conditions; the
pressure is never measured. Each calibration takes 50 fresh readings and is tested on 400 others. For
exchangeable readings the number of covered points follows a Beta-binomial law exactly, whatever the network.
The page `results/cylinder.md` reports the mean with its law, the p-value of all 200 counts under the law, and
the relative L2 error of the network in each output.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from typing import Any

import numpy as np
import torch
from ledger import RESULTS
from scipy import stats

import guardband as gb
from guardband import pinn
from guardband.base import files

torch.set_num_threads(1)
LEVELS = (0.5, 0.8, 0.9, 0.95)
NOISE, TRAIN, CAL, TEST = 0.01, 150, 50, 400
PROBLEM = pinn.problems.Cylinder()


def velocity(n: int, seed: int) -> gb.Observations:
    """Readings of u and v."""
    data = PROBLEM.observe(n, noise=NOISE, seed=seed)
    return gb.Observations(data.x, data.y[:, :2], outputs=("u", "v"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recalibrations", type=int, default=200)
    parser.add_argument("--out", default=str(RESULTS / "cylinder.md"))
    options = parser.parse_args()
    start = time.process_time()
    fitted = pinn.fit(
        PROBLEM,
        pinn.mlp(PROBLEM, seed=10),
        velocity(TRAIN, seed=10),
        likelihood=pinn.Likelihood(data=NOISE),
        seed=10,
    )
    seconds = time.process_time() - start
    x = PROBLEM.domain.uniform(10_000, torch.Generator().manual_seed(10), dtype=torch.float64)
    truth = PROBLEM.solution(x)
    off = (torch.as_tensor(np.asarray(fitted(x.float()))) - truth).norm(dim=0) / truth.norm(dim=0)
    counts = {level: np.zeros(options.recalibrations, int) for level in LEVELS}
    widths = {level: [] for level in LEVELS}
    for i in range(options.recalibrations):
        cal, test = velocity(CAL, seed=1000 + 2 * i), velocity(TEST, seed=1001 + 2 * i)
        calibrated = gb.calibrate(fitted, cal.x, cal.y, outputs=("u", "v"))
        for level in LEVELS:
            counts[level][i] = int(np.asarray(calibrated.contains(test.x, test.y, level)).sum())
            widths[level].append(np.asarray(calibrated(test.x[:1], level).width)[0])
    worth = [f"{name} {100 * float(e):.1f} %" for name, e in zip(PROBLEM.names.outputs, off, strict=True)]
    lines = [
        "# A band around the flow past a cylinder",
        "",
        f"Written by `python benchmarks/cylinder.py`: a network is trained in {seconds:.0f} CPU s on {TRAIN} "
        f"readings of the velocity with noise {NOISE}, the equations and the conditions; the pressure is "
        f"never measured. {options.recalibrations} calibrations with {CAL} fresh readings each are tested on "
        f"{TEST} others. The counts of covered readings follow a beta-binomial distribution, whatever the "
        "network; p is the p-value of all counts under this distribution.",
        "",
        f"Relative L2 error of the network: {', '.join(worth)}.",
        "",
        "| level | mean coverage | exact law | standard error | p | width of u | width of v |",
        "|---|---|---|---|---|---|---|",
    ]
    for level in LEVELS:
        k = gb.conformal.rank(CAL, level)
        law = stats.betabinom(TEST, k, CAL + 1 - k)
        error = law.std() / TEST / np.sqrt(options.recalibrations)
        width = np.mean(widths[level], axis=0)
        lines.append(
            f"| {level} | {counts[level].mean() / TEST:.4f} | {k / (CAL + 1):.4f} | {error:.4f} | "
            f"{chance(counts[level], law):.2f} | {width[0]:.3f} | {width[1]:.3f} |"
        )
    files.write_text(options.out, "\n".join(lines) + "\n")
    print("\n".join(lines))


def chance(counts: np.ndarray, law: Any) -> float:
    """The p-value of the counts under the law (Kolmogorov-Smirnov, ties broken at random)."""
    spread = np.random.default_rng(0).uniform(size=len(counts))
    return float(stats.kstest(law.cdf(counts - 1) + spread * law.pmf(counts), "uniform").pvalue)


if __name__ == "__main__":
    main()
