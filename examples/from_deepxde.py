"""A band for a DeepXDE network: -u'' = pi^2 sin(pi x), u(0) = u(1) = 0."""

import os
from dataclasses import dataclass

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import guardband as gb
from guardband import pinn
from guardband.adapters import from_deepxde


def trained(steps: int = 1000) -> dde.Model:
    """A network trained on the equation alone."""
    dde.config.set_random_seed(0)

    def equation(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return dde.grad.hessian(u, x) + np.pi**2 * torch.sin(np.pi * x)

    line = dde.geometry.Interval(0, 1)
    ends = dde.icbc.DirichletBC(
        line, lambda x: 0 * x, lambda x, on_boundary: on_boundary
    )
    data = dde.data.PDE(line, equation, ends, num_domain=40, num_boundary=2)
    model = dde.Model(data, dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=5e-3, verbose=0)
    model.train(iterations=steps, display_every=1000, verbose=0)
    return model


@dataclass(frozen=True)
class Line(pinn.Problem):
    """The same equation, for the verdict on a network."""

    domain = pinn.Segment(0, 1)

    def residual(self, x: torch.Tensor, u: pinn.problems.Field) -> torch.Tensor:
        """u'' + pi^2 sin(pi x)."""
        return u.laplacian + torch.pi**2 * torch.sin(torch.pi * x)

    def conditions(self) -> list[pinn.problems.Condition]:
        """u is 0 at both ends."""
        return [pinn.Dirichlet(0.0)]


def truth(x: np.ndarray) -> np.ndarray:
    """The solution."""
    return np.sin(np.pi * x)


def measured(n: int, seed: int) -> gb.Observations:
    """Readings of n sensors, with noise of 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 1))
    return gb.Observations(x, truth(x) + 0.05 * rng.normal(size=(n, 1)))


if __name__ == "__main__":
    for steps in (1000, 50):
        print(f"after {steps} steps: {pinn.verdict(Line(), trained(steps).net)}")
    calibrated = gb.calibrate(from_deepxde(trained()), *measured(100, seed=1))
    print(gb.evaluate(calibrated, *measured(1000, seed=2)))
