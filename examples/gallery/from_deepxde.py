"""A band for a PINN of DeepXDE in one line

DeepXDE solves for a reactant that diffuses into a porous pellet from both sides and is
consumed on the way. The network was trained on the equation alone.
`from_deepxde(model)` turns it into a predictor, and a hundred sensors calibrate a band
that covers 95 % of new readings, whatever the error of the network. New sensors have to
be placed like these; with `calibrator=gb.Local(train)` the width would follow the
error.
"""

import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import matplotlib.pyplot as plt
import numpy as np
import torch

import guardband as gb
from guardband.adapters import from_deepxde

DIFFUSION = 0.02


def trained(steps: int) -> dde.Model:
    """DIFFUSION u'' = u on [0, 1], and u = 1 at both ends."""
    dde.config.set_random_seed(0)

    def equation(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return DIFFUSION * dde.grad.hessian(u, x) - u

    line = dde.geometry.Interval(0, 1)
    ends = dde.icbc.DirichletBC(
        line, lambda x: 0 * x + 1, lambda x, on_boundary: on_boundary
    )
    data = dde.data.PDE(line, equation, ends, num_domain=100, num_boundary=2)
    model = dde.Model(data, dde.nn.FNN([1, 24, 24, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=5e-3, verbose=0)
    model.train(iterations=steps, display_every=steps, verbose=0)
    return model


def truth(x: np.ndarray) -> np.ndarray:
    """The solution."""
    return np.cosh((x - 0.5) / DIFFUSION**0.5) / np.cosh(0.5 / DIFFUSION**0.5)


def measured(n: int, seed: int) -> gb.Observations:
    """Readings of n sensors, with noise of 0.03."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 1))
    return gb.Observations(x, truth(x) + 0.03 * rng.normal(size=(n, 1)))


cal = measured(100, seed=1)
calibrated = gb.calibrate(from_deepxde(trained(2000)), cal.x, cal.y)
found = gb.evaluate(calibrated, *measured(5000, seed=2))

x = np.linspace(0, 1, 500)
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
gb.plot.band(calibrated(x, level=0.95), truth=truth(x), data=cal, ax=ax)
ax.legend(frameon=False, loc="upper center")
ax.set(xlabel="depth x", ylabel="concentration u")
ax.set_title(
    f"DeepXDE: 95 % asked, {100 * found.coverage:.0f} % covered", fontsize="medium"
)
figure.savefig("from_deepxde.png", dpi=120)
