"""A PINA network, and the new readings that its band misses

PINA solves Poisson's equation on the unit square, from the equation alone.
`from_pina(solver)` takes plain arrays with the columns `problem.input_variables`, and a
hundred sensors calibrate it. On the right, new readings: about one in twenty is missed
(crosses). These are scattered over the whole square, because they are missed by their
noise. This assumes that new sensors are placed like the old ones.
"""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pina import Trainer
from pina.model import FeedForward
from pina.optim import TorchOptimizer
from pina.problem.zoo import Poisson2DSquareProblem
from pina.solver import PhysicsInformedSingleModelSolver
from pina.weighting import ScalarWeighting

import guardband as gb
from guardband import pinn
from guardband.adapters import from_pina

SILENT: dict[str, Any] = {
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "logger": False,
}


def trained(epochs: int) -> PhysicsInformedSingleModelSolver:
    """A network trained on the equation and the boundary."""
    torch.manual_seed(0)
    random.seed(0)  # PINA uses it to place points on the boundary
    problem = Poisson2DSquareProblem()
    problem.discretise_domain(200, "random", domains="D")
    problem.discretise_domain(100, "random", domains="boundary")
    net = FeedForward(2, 1, layers=[20, 20], func=torch.nn.Tanh)
    adam, weights = (
        TorchOptimizer(torch.optim.Adam, lr=5e-3),
        ScalarWeighting({"boundary": 100.0, "D": 1.0}),
    )
    solver = PhysicsInformedSingleModelSolver(problem, net, adam, weighting=weights)
    Trainer(
        solver,
        max_epochs=epochs,
        accelerator="cpu",
        enable_checkpointing=False,
        **SILENT,
    ).train()
    return solver


def measured(n: int, seed: int) -> gb.Observations:
    """Readings of n sensors, with noise of 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    u = -np.prod(np.sin(np.pi * x), axis=1, keepdims=True)
    return gb.Observations(x, u + 0.05 * rng.normal(size=(n, 1)))


calibrated = gb.calibrate(from_pina(trained(1000)), *measured(100, seed=1))
square = pinn.Rectangle((0, 0), (1, 1))
band = calibrated(square.grid(80).numpy(), level=0.95)
named = replace(band, names=pinn.problems.Names(("x", "y"), ("u",), (0, 1)))
gb.plot.overview(named, data=measured(400, seed=2), domain=square).savefig(
    "from_pina.png", dpi=120
)
