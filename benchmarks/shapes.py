"""Cost of all levels of a local band: a fit for nineteen levels compared with one level and nineteen fits.

    python benchmarks/shapes.py [--quick]

The data are 300 residuals on a line with three noisy islands. Methods are interleaved in one process on one
thread, and ratios of CPU times are medians over rounds. The last line is one JSON object of claims.
"""

import argparse
import os

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time

import numpy as np
import torch

import guardband as gb
from guardband import pinn
from guardband.pinn.problems import noise

torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter fits")
    options = parser.parse_args()
    steps = 300 if options.quick else 2000
    x = 5 * torch.rand(300, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sd = noise.Islands()(x).numpy()[:, 0]
    scores = sd * abs(np.random.default_rng(0).normal(size=300))
    points = x.numpy()
    grid = np.linspace(0, 5, 1000)[:, None]
    fits = {
        "network, 19 levels": pinn.PinballNetwork(steps=steps),
        "network, 19 levels, a shape each": pinn.PinballNetwork(steps=steps, per_level=True),
        "network, one level": pinn.PinballNetwork(steps=steps, levels=("0.95",)),
        "log-scale": gb.conformal.LogScale(draws=20 if options.quick else 100),
    }
    times: dict[str, list[float]] = {name: [] for name in (*fits, "log-scale, 19 levels")}
    for _ in range(3 if options.quick else 5):
        for name, learner in fits.items():
            start = time.process_time()
            shape = learner.fit(points, scores)
            shape(grid)
            times[name].append(time.process_time() - start)
        start = time.process_time()
        shape = fits["log-scale"].fit(points, scores)
        once = shape(grid)  # the level only changes its factor
        _ = [once * factor for factor in range(19)]
        times["log-scale, 19 levels"].append(time.process_time() - start)
    for name, seconds in times.items():
        print(f"{name:34s} {np.median(seconds):.2f} s")
    spent = {name: np.array(seconds) for name, seconds in times.items()}
    one = spent["network, one level"]
    most, least = ("<= 5", ">= 3") if options.quick else ("<= 1.5", ">= 10")
    ratios = {
        "network_19_levels_vs_one": (spent["network, 19 levels"] / one, most),
        "network_19_shapes_vs_one": (spent["network, 19 levels, a shape each"] / one, most),
        "log_scale_19_levels_vs_one": (spent["log-scale, 19 levels"] / spent["log-scale"], most),
        "nineteen_networks_vs_one_network": (19 * one / spent["network, 19 levels"], least),
        "nineteen_networks_vs_log_scale": (19 * one / spent["log-scale"], least),
    }
    finish([claim(name, float(np.median(ratio)), bound) for name, (ratio, bound) in ratios.items()])


if __name__ == "__main__":
    main()
