"""One of three problems of the catalogue in PINA, for a given CPU time.

    python -m peers.by_pina Burgers1D --seed 10 --seconds 30

A network of 3 x 32 (tanh) on random points, trained by PINA's `PINN` and `Trainer`: Adam at 1e-3 for half of
the time, then L-BFGS. Burgers is PINA's own problem. `--check` prints the losses of the exact solution
instead. The last line printed is a JSON object.
"""

import argparse
import json
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import logging
import math
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import lightning
import torch
from pina import Condition, LabelTensor, Trainer
from pina.domain import CartesianDomain
from pina.equation import Equation
from pina.equation.zoo import FixedValue
from pina.model import FeedForward
from pina.operator import laplacian
from pina.optim import TorchOptimizer
from pina.problem import SpatialProblem
from pina.problem.zoo import BurgersProblem
from pina.solver import PhysicsInformedSingleModelSolver as PINN
from torch import Tensor, nn

from guardband.pinn.problems import AllenCahn2D
from peers.scoring import PROBLEMS, errors

WIDTHS = [32, 32, 32]
LBFGS = 10
"""Iterations of L-BFGS between two checks of the clock."""


def poisson(x: LabelTensor, u: LabelTensor) -> Tensor:
    """u'' + pi^2 sin(pi x)."""
    return laplacian(u, x, components=["u"], d=["x"]) + math.pi**2 * torch.sin(math.pi * x.extract(["x"]))


def allen_cahn(x: LabelTensor, u: LabelTensor) -> Tensor:
    """lambda laplacian(u) + u (u^2 - 1) - f."""
    problem = AllenCahn2D()
    diffused = problem.diffusion * laplacian(u, x, components=["u"], d=["x", "y"])
    return diffused + u * (u**2 - 1) - problem.forcing(x.as_subclass(Tensor))


class Poisson(SpatialProblem):
    """On [0, 1], zero at both ends."""

    output_variables = ["u"]  # noqa: RUF012
    spatial_domain = CartesianDomain({"x": [0.0, 1.0]})
    domains = {"D": spatial_domain, "boundary": spatial_domain.partial()}  # noqa: RUF012
    conditions = {  # noqa: RUF012
        "D": Condition(domain="D", equation=Equation(poisson)),
        "boundary": Condition(domain="boundary", equation=FixedValue(0.0)),
    }


class AllenCahn(SpatialProblem):
    """On [-1, 1]^2, zero on all sides, like the solution."""

    output_variables = ["u"]  # noqa: RUF012
    spatial_domain = CartesianDomain({"x": [-1.0, 1.0], "y": [-1.0, 1.0]})
    domains = {"D": spatial_domain, "boundary": spatial_domain.partial()}  # noqa: RUF012
    conditions = {  # noqa: RUF012
        "D": Condition(domain="D", equation=Equation(allen_cahn)),
        "boundary": Condition(domain="boundary", equation=FixedValue(0.0)),
    }


STATED: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "AllenCahn2D": (AllenCahn, {"D": 1024, "boundary": 256}),
    "Burgers1D": (lambda: BurgersProblem(nu=0.01 / math.pi), {"D": 2540, "boundary": 80, "t0": 160}),
    "Poisson1D": (Poisson, {"D": 64, "boundary": 2}),
}
"""The problem, and the number of points in each of its domains."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("problem", choices=STATED)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--check", action="store_true", help="print the losses of the exact solution")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if options.check:
        print(json.dumps(missed(options.problem)))
        return
    run("Poisson1D", 0.2)  # trigger the imports of the first step, so that they are not timed
    lightning.seed_everything(options.seed, verbose=False)
    model, names, steps, seconds = run(options.problem, options.seconds)
    found = {
        "error": errors(PROBLEMS[options.problem], lambda x: _values(model, x, names), options.seed),
        "cpu_seconds": round(seconds, 2),
        "iterations": steps,
        "engine": f"pina {version('pina-mathlab')}",
        "torch": torch.__version__,
    }
    print(json.dumps(found))


def stated(name: str) -> Any:
    """A problem with its points."""
    make, counts = STATED[name]
    problem = make()
    for domain, n in counts.items():
        problem.discretise_domain(n, mode="random", domains=domain)
    return problem


def run(name: str, seconds: float) -> tuple[nn.Module, list[str], dict[str, int], float]:
    """Train, and return the network, its inputs, the steps of both optimizers and CPU seconds."""
    problem = stated(name)
    names = list(problem.input_variables)
    model = FeedForward(len(names), 1, layers=WIDTHS, func=nn.Tanh)
    start = time.process_time()
    adam = _train(PINN(problem, model, TorchOptimizer(torch.optim.Adam, lr=1e-3)), start + seconds / 2)
    options = {"max_iter": LBFGS, "line_search_fn": "strong_wolfe", "history_size": 100}
    options |= {"tolerance_grad": 1e-9, "tolerance_change": 0.0}
    lbfgs = _train(PINN(problem, model, TorchOptimizer(torch.optim.LBFGS, **options)), start + seconds)
    return model, names, {"adam": adam, "L-BFGS": LBFGS * lbfgs}, time.process_time() - start


def _train(solver: Any, end: float) -> int:
    """Train until a CPU time, and return the number of steps."""
    trainer = Trainer(
        solver,
        max_epochs=-1,
        accelerator="cpu",
        callbacks=[Until(end)],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    )
    trainer.train()
    return trainer.global_step


class Until(lightning.pytorch.Callback):
    """Stops at a CPU time of the process."""

    def __init__(self, end: float) -> None:
        self.end = end

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        trainer.should_stop = time.process_time() >= self.end


def _values(model: nn.Module, x: Tensor, names: list[str]) -> Tensor:
    model.eval()
    return model(LabelTensor(x.float(), names)).as_subclass(Tensor).detach()


def missed(name: str) -> dict[str, float]:
    """The losses of the exact solution: about 0 if the problem is stated correctly."""
    problem, found = stated(name), {}
    for key, points in problem.discretised_domains.items():
        names = list(points.labels)
        x = LabelTensor(points.as_subclass(Tensor).double().requires_grad_(), names)
        ordered = x.as_subclass(Tensor)[:, [names.index(i) for i in problem.input_variables]]
        u = LabelTensor(PROBLEMS[name].solution(ordered), ["u"])
        residual = problem.conditions[key].equation.residual(x, u).as_subclass(Tensor)
        found[key] = float(f"{float(residual[residual.isfinite()].square().mean().detach()):.2g}")
    return found


if __name__ == "__main__":
    main()
