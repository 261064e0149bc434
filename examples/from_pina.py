"""A band for a PINA network for Poisson's equation on the unit square."""

import random
from dataclasses import dataclass
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


def trained(steps: int = 1000) -> PhysicsInformedSingleModelSolver:
    """A network trained on the equation alone."""
    torch.manual_seed(0)
    random.seed(0)  # PINA places points on the boundary with it
    problem = Poisson2DSquareProblem()
    problem.discretise_domain(200, "random", domains="D")
    problem.discretise_domain(100, "random", domains="boundary")
    model = FeedForward(2, 1, layers=[20, 20], func=torch.nn.Tanh)
    solver = PhysicsInformedSingleModelSolver(
        problem,
        model,
        TorchOptimizer(torch.optim.Adam, lr=5e-3),
        weighting=ScalarWeighting({"boundary": 100.0, "D": 1.0}),
    )
    silent: dict[str, Any] = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    Trainer(solver, max_epochs=steps, accelerator="cpu", logger=False, **silent).train()
    return solver


@dataclass(frozen=True)
class Square(pinn.Problem):
    """The same equation, for the verdict on a network."""

    domain = pinn.Rectangle((0, 0), (1, 1))

    def residual(self, x: torch.Tensor, u: pinn.problems.Field) -> torch.Tensor:
        """The Laplacian of u minus its forcing."""
        return u.laplacian - 2 * torch.pi**2 * torch.sin(torch.pi * x).prod(
            dim=1, keepdim=True
        )

    def conditions(self) -> list[pinn.problems.Condition]:
        """u is 0 on all sides."""
        return [pinn.Dirichlet(0.0)]


def truth(x: np.ndarray) -> np.ndarray:
    """The solution."""
    return -np.prod(np.sin(np.pi * x), axis=1, keepdims=True)


def measured(n: int, seed: int) -> gb.Observations:
    """Readings of n sensors, with noise of 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    return gb.Observations(x, truth(x) + 0.05 * rng.normal(size=(n, 1)))


if __name__ == "__main__":
    for steps in (1000, 50):
        print(f"after {steps} steps: {pinn.verdict(Square(), trained(steps).model)}")
    calibrated = gb.calibrate(from_pina(trained()), *measured(100, seed=1))
    print(gb.evaluate(calibrated, *measured(1000, seed=2)))
