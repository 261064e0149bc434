"""A PINN of PINA, and which fresh readings its band misses

PINA solves Poisson's equation on the unit square; the network has seen the equation alone. With
`from_pina(solver)` it takes plain arrays, whose columns are `problem.input_variables`, and a hundred sensors
calibrate it. On the right fresh readings: those that the band misses are crossed out, about one in twenty,
and scattered all over the square, for noise is what they miss by. It needs sensors that are placed like the
new ones.
"""

import random
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from pina import Trainer
from pina.model import FeedForward
from pina.optim import TorchOptimizer
from pina.problem.zoo import Poisson2DSquareProblem
from pina.solver import PhysicsInformedSingleModelSolver
from pina.weighting import ScalarWeighting

import guardband as gb
from _options import options
from guardband.adapters import from_pina

SILENT: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}


def trained(epochs: int) -> PhysicsInformedSingleModelSolver:
    """A network that has seen the equation and the boundary."""
    torch.manual_seed(0)
    random.seed(0)  # PINA places points on the boundary with it
    problem = Poisson2DSquareProblem()
    problem.discretise_domain(200, "random", domains="D")
    problem.discretise_domain(100, "random", domains="boundary")
    net = FeedForward(2, 1, layers=[20, 20], func=torch.nn.Tanh)
    adam, weights = TorchOptimizer(torch.optim.Adam, lr=5e-3), ScalarWeighting({"boundary": 100.0, "D": 1.0})
    solver = PhysicsInformedSingleModelSolver(problem, net, adam, weighting=weights)
    Trainer(solver, max_epochs=epochs, accelerator="cpu", enable_checkpointing=False, **SILENT).train()
    return solver


def measured(n: int, seed: int) -> gb.Observations:
    """What n sensors read of the solution, with noise of 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    u = -np.prod(np.sin(np.pi * x), axis=1, keepdims=True)
    return gb.Observations(x, u + 0.05 * rng.normal(size=(n, 1)))


def main() -> None:
    """Train with PINA, calibrate, and look which fresh readings are missed."""
    smoke, out = options()
    calibrated = gb.calibrate(from_pina(trained(10 if smoke else 1000)), *measured(100, seed=1))
    x, y = measured(400, seed=2)
    missed = ~calibrated(x, level=0.95).contains(y)

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
    grid = gb.Rectangle((0, 0), (1, 1)).grid(60).numpy()
    band = calibrated(grid, level=0.95)
    picture = band.mean.reshape(60, 60).T
    colors = axes[0].imshow(picture, extent=(0, 1, 0, 1), origin="lower", vmin=-1.1, vmax=0.1)
    axes[0].set_title(f"PINA: u, known to ±{band.width[0, 0] / 2:.2f}", fontsize="medium")
    axes[0].set(xlabel="x", ylabel="y")
    axes[1].scatter(*x.T, c=y[:, 0], s=12, vmin=-1.1, vmax=0.1)
    axes[1].plot(*x[missed].T, "x", ms=9, mew=2, color=gb.plot.ORANGE)
    axes[1].set_title(f"{missed.sum()} of 400 fresh readings missed", fontsize="medium")
    axes[1].set(xlabel="x", aspect="equal")
    figure.colorbar(colors, ax=axes, label="u")
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
