"""One problem of the catalogue in DeepXDE on PyTorch, for a given CPU time.

    python -m peers.by_deepxde Burgers1D --seed 10 --seconds 30
    python -m peers.by_deepxde Burgers1D --check

Network, points, weights and transforms are those of the nearest example in DeepXDE's documentation, named in
`SETTINGS`, with fewer points if a minute would only allow a few hundred steps. Adam at 1e-3 has half of the
time, followed by L-BFGS. `--check` prints the losses of the exact solution instead. The last line printed is
a JSON object.
"""

import argparse
import json
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", DDE_BACKEND="pytorch")

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import deepxde as dde
import numpy as np
import torch
from torch import Tensor

from guardband.pinn.problems import Condition, Initial, Periodic, Problem
from peers import stated
from peers.plate import MixedPlate
from peers.scoring import PROBLEMS, errors

CHUNKS = 30
"""Approximate number of parts of the L-BFGS time between which the clock is checked."""

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Setting:
    """The settings of a DeepXDE example for a similar problem."""

    example: str
    widths: tuple[int, ...] = (20, 20, 20)
    start: str = "Glorot normal"
    activation: str = "tanh"
    parallel: bool = False
    """Whether each output has a separate network."""
    inside: int = 2540
    boundary: int = 80
    initial: int = 160
    weights: tuple[float, float] = (1.0, 1.0)
    """Weights of equations and of conditions."""
    balanced: bool = False
    """Whether all losses are equal initially."""
    decay: tuple[str, float, float] | None = None
    resample: int | None = None
    features: Callable[[Problem], Function] | None = None
    transform: Callable[[Problem], Callable[[Tensor, Tensor], Tensor]] | None = None
    met: tuple[type[Condition], ...] = ()
    """Conditions that the transforms satisfy."""
    floats: str = "float32"
    """DeepXDE's default; its documentation recommends float64 if L-BFGS stops early."""


def ring(problem: Problem) -> Function:
    """Sines and cosines of the periodic axes, and the other axes unchanged."""
    domain = problem.domain
    axes = [c.around(domain) for c in problem.conditions() if isinstance(c, Periodic)]

    def features(x: Tensor) -> Tensor:
        parts = []
        for i in range(domain.d):
            angle = 2 * math.pi * x[:, i : i + 1] / (domain.upper[i] - domain.lower[i])
            parts += [torch.sin(angle), torch.cos(angle)] if i in axes else [x[:, i : i + 1]]
        return torch.cat(parts, dim=1)

    return features


def spread(problem: Problem) -> Function:
    """The unit square normalized to mean 0 and variance 1."""
    return lambda x: (x - 0.5) * 2 * math.sqrt(3)


def swings(problem: Problem) -> Function:
    """Time scaled to [0, 1], and six sines of it."""
    end = problem.domain.upper[0]
    return lambda t: torch.cat([t / end, *(torch.sin(k * t / end) for k in range(1, 7))], dim=1)


def from_one(problem: Problem) -> Callable[[Tensor, Tensor], Tensor]:
    """All outputs are 1 initially."""
    return lambda t, y: 1 + torch.tanh(t / problem.domain.upper[0]) * y


def from_start(problem: Problem) -> Callable[[Tensor, Tensor], Tensor]:
    """The initial condition of Allen-Cahn plus time times the network."""
    return lambda x, y: x[:, :1] ** 2 * torch.cos(torch.pi * x[:, :1]) + x[:, 1:] * y


def in_cube(problem: Problem) -> Callable[[Tensor, Tensor], Tensor]:
    """Zero on the faces of the unit cube."""
    return lambda x, y: (x * (1 - x)).prod(dim=1, keepdim=True) * y


BURGERS = Setting("Burgers")
AROUND = replace(BURGERS, widths=(32, 32, 32), features=ring, met=(Periodic,))
FLOW = Setting("Kovasznay_flow, a quarter of its points", widths=(50,) * 4, inside=650, boundary=200)
BENDING = Setting("Euler_beam", start="Glorot uniform", inside=10, boundary=2, floats="float64")
L_SHAPE = Setting("Poisson_Lshape", widths=(50,) * 4, start="Glorot uniform", inside=1200, boundary=120)

SETTINGS = {
    "Advection1D": replace(AROUND, example="Burgers, features as in Laplace_disk"),
    "AllenCahn1D": Setting(
        "Allen_Cahn, a quarter of its points, features as in Laplace_disk",
        inside=2000,
        boundary=100,
        initial=200,
        features=ring,
        transform=from_start,
        met=(Periodic, Initial),
    ),
    "AllenCahn2D": L_SHAPE,
    "Beam": BENDING,
    "Burgers1D": BURGERS,
    "Cavity": FLOW,
    "Cylinder": replace(FLOW, boundary=400),
    "DampedOscillator": Setting(
        "ode_2nd",
        widths=(50,) * 3,
        start="Glorot uniform",
        inside=256,
        boundary=2,
        weights=(0.01, 1),
    ),
    "Heat1D": Setting("heat_resample", resample=10),
    "HeatDisk": Setting("heat_resample", widths=(32,) * 3, boundary=160, resample=10),
    "Helmholtz3D": Setting(
        "Helmholtz_Dirichlet_2d",
        widths=(150,) * 3,
        start="Glorot uniform",
        activation="sin",
        inside=1000,
        boundary=600,
        transform=in_cube,
        met=(Condition,),
    ),
    "KortewegDeVries": replace(AROUND, example="Burgers, features as in Laplace_disk"),
    "Kovasznay": FLOW,
    "KuramotoSivashinsky": replace(AROUND, example="Burgers, features as in Laplace_disk"),
    "LotkaVolterra": Setting(
        "Lotka_Volterra",
        widths=(64,) * 6,
        inside=3000,
        boundary=2,
        features=swings,
        transform=from_one,
        met=(Initial,),
    ),
    "PlateWithHole": Setting(
        "elasticity_plate",
        widths=(40,) * 4,
        start="Glorot uniform",
        parallel=True,
        inside=500,
        boundary=500,
    ),
    "Poisson1D": Setting(
        "Poisson_Dirichlet_1d",
        widths=(50,) * 3,
        start="Glorot uniform",
        inside=16,
        boundary=2,
        floats="float64",
    ),
    "PoissonLShape": L_SHAPE,
    "ReactionDiffusion1D": replace(BURGERS, widths=(32, 32, 32)),
    "TaylorGreen2D": Setting(
        "Beltrami_flow, fewer points, features as in Laplace_disk",
        widths=(50,) * 4,
        inside=1250,
        boundary=50,
        initial=250,
        weights=(1, 100),
        features=ring,
        met=(Periodic,),
    ),
    "VibratingBeam": replace(BURGERS, example="Burgers and Euler_beam", widths=(32, 32, 32)),
    "Wave1D": Setting(
        "wave_1d, with a plain network: the one of Fourier features is not there for PyTorch",
        widths=(100,) * 3,
        start="Glorot uniform",
        inside=360,
        boundary=360,
        initial=360,
        balanced=True,
        decay=("inverse time", 2000, 0.9),
        resample=1,
        features=spread,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("problem", choices=SETTINGS)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--check", action="store_true", help="print the losses of the exact solution")
    options = parser.parse_args()
    torch.set_num_threads(1)
    problem, setting = as_stated(options.problem), SETTINGS[options.problem]
    dde.config.set_default_float(setting.floats)
    if options.check:
        found = stated.losses(points(problem, setting), problem.solution, torch.float64)
        print(json.dumps([float(f"{loss:.2g}") for loss in found]))
        return
    warm_up()
    dde.config.set_random_seed(options.seed)
    training = Training(problem, setting)
    training.run(options.seconds)
    found = {
        "error": errors(PROBLEMS[options.problem], training.predict, options.seed),
        "cpu_seconds": round(training.seconds, 2),
        "iterations": training.iterations,
        "example": setting.example + (", float64" if setting.floats == "float64" else ""),
        "engine": f"deepxde {dde.__version__}",
        "torch": torch.__version__,
    }
    print(json.dumps(found))


def warm_up() -> None:
    """Trigger the imports of the first step, so that they are not timed."""
    Training(PROBLEMS["Poisson1D"], SETTINGS["Poisson1D"]).run(0.2)


def as_stated(name: str) -> Problem:
    """The problem in the form of DeepXDE's example."""
    return MixedPlate() if name == "PlateWithHole" else PROBLEMS[name]


def points(problem: Problem, setting: Setting) -> Any:
    """The equation and the conditions at DeepXDE's points."""
    shape = stated.geometry(problem)
    asked = stated.equation(problem), stated.conditions(problem, shape, met=setting.met)
    counts = {"num_domain": setting.inside, "num_boundary": setting.boundary}
    if isinstance(shape, dde.geometry.GeometryXTime):
        return dde.data.TimePDE(shape, *asked, **counts, num_initial=setting.initial)
    if isinstance(shape, dde.geometry.TimeDomain):
        return dde.data.TimePDE(shape, *asked, **counts)
    return dde.data.PDE(shape, *asked, **counts)


def network(problem: Problem, setting: Setting) -> Any:
    """A new network with its transforms."""
    features = None if setting.features is None else setting.features(problem)
    probe = torch.zeros(1, problem.domain.d)
    inputs = probe.shape[1] if features is None else features(probe).shape[1]
    outputs = len(problem.names.outputs)
    if setting.parallel:
        hidden = [[width] * outputs for width in setting.widths]
        net = dde.nn.PFNN([inputs, *hidden, outputs], setting.activation, setting.start)
    else:
        net = dde.nn.FNN([inputs, *setting.widths, outputs], setting.activation, setting.start)
    if features is not None:
        net.apply_feature_transform(features)
    if setting.transform is not None:
        net.apply_output_transform(setting.transform(problem))
    return net


class Training:
    """A DeepXDE model trained until a time limit."""

    def __init__(self, problem: Problem, setting: Setting) -> None:
        self.problem, self.setting = problem, setting
        self.model = dde.Model(points(problem, setting), network(problem, setting))
        self.seconds = 0.0
        self.iterations = {"adam": 0, "L-BFGS": 0}

    def run(self, seconds: float) -> None:
        """Adam for half of the time, then L-BFGS."""
        start = time.process_time()
        weights = self._weights()
        self._adam(weights, start + seconds / 2)
        step = (time.process_time() - start) / max(1, self.iterations["adam"])
        self._lbfgs(weights, start + seconds, int(seconds / 2 / CHUNKS / step))
        self.seconds = time.process_time() - start

    def predict(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.model.predict(x.numpy()))

    def _adam(self, weights: list[float], end: float) -> None:
        resampler = self.setting.resample
        watched: list[Any] = [Until(end)]
        if resampler is not None:
            watched.append(dde.callbacks.PDEPointResampler(period=resampler))
        self.model.compile("adam", lr=1e-3, loss_weights=weights, decay=self.setting.decay, verbose=0)
        self.model.train(iterations=10**9, callbacks=watched, verbose=0)
        self.iterations["adam"] = self.model.train_state.step

    def _lbfgs(self, weights: list[float], end: float, chunk: int) -> None:
        """L-BFGS in parts; it restarts after stopping for float32 precision, as long as that helps."""
        options = dde.optimizers.config.LBFGS_options
        chunk = min(1000, max(5, chunk))
        dde.optimizers.set_LBFGS_options(maxiter=10**7)
        options.update(iter_per_step=chunk, fun_per_step=chunk + max(30, chunk // 4))
        while time.process_time() < end:
            before, until = self.model.train_state.step, Until(end)
            self.model.compile("L-BFGS", loss_weights=weights, verbose=0)
            self.model.train(callbacks=[until], verbose=0)
            self.model.net.load_state_dict(until.finite)
            made = self.model.train_state.step - before
            self.iterations["L-BFGS"] += made
            if made < chunk:
                return

    def _weights(self) -> list[float]:
        """A weight for each loss."""
        data = self.model.data
        losses = stated.losses(data, self.model.net, dde.config.real(torch))
        if self.setting.balanced:
            return [5 / loss for loss in losses]
        equation, condition = self.setting.weights
        return [equation] * (len(losses) - len(data.bcs)) + [condition] * len(data.bcs)


class Until(dde.callbacks.Callback):
    """Stops at a CPU time of the process, and keeps the last finite network."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end = end
        self.finite: dict[str, Tensor] = {}

    def on_train_begin(self) -> None:
        self._keep()

    def on_epoch_end(self) -> None:
        if self.model.opt_name == "L-BFGS" and np.isfinite(self.model.train_state.loss_train).all():
            self._keep()
        if time.process_time() >= self.end:
            self.model.stop_training = True

    def _keep(self) -> None:
        self.finite = copy.deepcopy(self.model.net.state_dict())


if __name__ == "__main__":
    main()
