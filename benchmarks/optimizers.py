"""Gauss-Newton compared with other optimizers: the same network, loss, time and resampling of points.

    python benchmarks/optimizers.py [--problems Heat1D ...] [--seeds 10 11 12] [--seconds 10] [--page]

Each optimizer trains the network of `pinn.mlp(problem)` on the equation and its conditions, in one time
window, in float64 on one thread; times are CPU seconds. Points are resampled twenty times in a run. Each run
appends a line to `results/data/optimizers.jsonl`, and finished runs are not repeated. Contenders:

- gauss-newton: the default of `pinn.fit`;
- ssbroyden: the self-scaled Broyden method of Al-Baali, with a dense inverse and strong Wolfe steps;
- lbfgs: torch's L-BFGS with a memory of 50 and strong Wolfe steps;
- soap: Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al.), recomputed every ten steps.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import math
import time
import warnings
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from ledger import Ledger
from peers.scoring import PROBLEMS, errors
from scipy.linalg.blas import dsymv, dsyr  # type: ignore[attr-defined]
from scipy.optimize import line_search
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from guardband import pinn
from guardband.base import files
from guardband.pinn.misses.points import fixed_points
from guardband.pinn.training.loss import Loss

torch.set_num_threads(1)
LEDGER = Ledger("optimizers")
NAMES = "Poisson1D DampedOscillator Heat1D Helmholtz3D Beam Kovasznay AllenCahn2D Burgers1D Wave1D".split()
RENEWALS = 20


class Objective:
    """The loss of a network as a function of its weights, with points that are resampled at intervals."""

    def __init__(self, problem: pinn.Problem, seed: int, seconds: float) -> None:
        self.problem, self.seconds = problem, seconds
        self.net = pinn.mlp(problem, seed=seed).double()
        self.net.set_domain(problem.domain)
        recipe = pinn.Recipe(n_interior=512 if problem.domain.d == 1 else 1024, n_boundary=256)
        self.loss = Loss(problem, self.net, None, pinn.Likelihood(), recipe, seed, compile=False)
        self.weights, self.points, self.seed = self.loss.weights(1.0), self.loss.full, seed
        self.start, self.renewed = time.process_time(), 0

    @property
    def spent(self) -> float:
        """The share of the time that has passed."""
        return (time.process_time() - self.start) / self.seconds

    def renew(self) -> bool:
        """Draw new points if they are due."""
        if self.spent < (self.renewed + 1) / RENEWALS:
            return False
        self.renewed += 1
        generator = torch.Generator().manual_seed(1000 * self.seed + self.renewed)
        counts = len(self.points.inside), 256
        self.points = fixed_points(self.problem, self.net, self.loss.full[:2], *counts, generator)
        return True

    def value(self) -> Tensor:
        """The loss; its gradient is left in the weights."""
        return self.weights @ self.loss.gradients(self.points, self.weights)

    def at(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and its gradient at these weights."""
        vector_to_parameters(torch.from_numpy(theta), self.net.parameters())
        value = float(self.value())
        gradient = torch.cat([weight.grad.flatten() for weight in self.net.parameters()])  # type: ignore[union-attr]
        return value, gradient.numpy()


def lbfgs(objective: Objective) -> int:
    """L-BFGS, restarted with new points."""
    iterations = 0
    while objective.spent < 1:
        settings = {"history_size": 50, "line_search_fn": "strong_wolfe", "max_iter": 20}
        optimizer = torch.optim.LBFGS(
            objective.net.parameters(), tolerance_grad=0, tolerance_change=0, **settings
        )
        while objective.spent < 1 and not objective.renew():
            optimizer.step(objective.value)  # type: ignore[arg-type]
            iterations += 20
    return iterations


class Searched(Protocol):
    """The interface that SSBroyden needs from an objective."""

    @property
    def net(self) -> torch.nn.Module: ...
    @property
    def spent(self) -> float: ...
    def renew(self) -> bool: ...
    def at(self, theta: np.ndarray) -> tuple[float, np.ndarray]: ...


def ssbroyden(objective: Searched) -> int:
    """The self-scaled Broyden method, which keeps its inverse when points are resampled."""
    theta = parameters_to_vector(objective.net.parameters()).detach().numpy().copy()
    n, iterations = len(theta), 0
    inverse, known = np.eye(n, order="F"), dict[bytes, tuple[float, np.ndarray]]()

    def look(at: np.ndarray) -> tuple[float, np.ndarray]:
        key = at.tobytes()
        if key not in known:
            known.clear()
            known[key] = objective.at(at)
        return known[key]

    value, gradient = look(theta)
    while objective.spent < 1:
        if objective.renew():
            known.clear()
            value, gradient = look(theta)
        along = -dsymv(1.0, inverse, gradient, lower=1)
        if along @ gradient >= 0:
            inverse, along = np.eye(n, order="F"), -gradient
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            length: float | None = line_search(
                lambda at: look(at)[0], lambda at: look(at)[1], theta, along, gradient, value, maxiter=20
            )[0]
        if length is None:
            inverse = np.eye(n, order="F")
            length = 1e-3 / max(1.0, float(np.linalg.norm(gradient)))
            along = -gradient
        step = length * along
        theta = theta + step
        value, after = look(theta)
        sbs = -length * float(gradient @ step)
        inverse = updated(inverse, step, after - gradient, sbs, iterations == 0)
        gradient, iterations = after, iterations + 1
    objective.at(theta)
    return iterations


def updated(h: np.ndarray, s: np.ndarray, y: np.ndarray, sbs: float, first: bool) -> np.ndarray:
    """The next inverse after a step s that changed the gradient by y; sbs is s times the Hessian times s."""
    ys = float(y @ s)
    if not ys > 1e-300 or not sbs > 0:
        return h
    if first:
        h *= ys / float(y @ y)
        sbs = float(s @ s) * float(y @ y) / ys
    hy = dsymv(1.0, h, y, lower=1)
    yhy = float(y @ hy)
    b, k = sbs / ys, yhy / ys
    a = max(1e-12, b * k - 1)
    rho = min(1.0, k * (1 - math.sqrt(a / (1 + a))))
    low, high = (rho - 1) / a, 1 / rho
    theta = max(low, min(high, (1 - b) / b))
    sigma = 1 + a * theta
    phi = (1 - theta) / sigma
    root = abs(sigma) ** (-1 / (len(s) - 1))
    tau = min(1.0, 1 / b) * min(root, 1 / theta) if theta > 0 else min(min(1.0, 1 / b) * root, sigma)
    v = math.sqrt(yhy) * (s / ys - hy / yhy)
    h *= 1 / tau
    for factor, part in ((-1 / (yhy * tau), hy), (phi / tau, v), (1 / ys, s)):
        h = dsyr(factor, part, lower=1, a=h, overwrite_a=1)
    return h


def soap(objective: Objective) -> int:
    """SOAP with a rate of 3e-3 that decays to a hundredth on a cosine."""
    weights = list(objective.net.parameters())
    sides = [[torch.zeros(k, k, dtype=w.dtype) for k in w.shape] if w.ndim == 2 else [] for w in weights]
    bases = [[torch.eye(k, dtype=w.dtype) for k in w.shape] if w.ndim == 2 else [] for w in weights]
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    step = 0
    while objective.spent < 1:
        objective.renew()
        objective.value()
        step += 1
        rate = 3e-3 * (0.01 + 0.99 * (1 + math.cos(math.pi * min(1.0, objective.spent))) / 2)
        with torch.no_grad():
            for i, weight in enumerate(weights):
                gradient = weight.grad
                assert gradient is not None
                first[i].lerp_(gradient, 0.05)
                if sides[i]:
                    sides[i][0].lerp_(gradient @ gradient.T, 0.05)
                    sides[i][1].lerp_(gradient.T @ gradient, 0.05)
                    if step % 10 == 1:
                        bases[i] = [torch.linalg.eigh(side)[1] for side in sides[i]]
                turned, moved = (_turn(part, bases[i]) for part in (gradient, first[i]))
                second[i].lerp_(turned.square(), 0.05)
                grown = 1 - 0.95**step
                along = (moved / grown) / ((second[i] / grown).sqrt() + 1e-12)
                weight -= rate * _turn(along, [base.T for base in bases[i]])
    return step


def _turn(part: Tensor, bases: list[Tensor]) -> Tensor:
    return bases[0].T @ part @ bases[1] if bases else part


CONTENDERS: dict[str, Callable[[Objective], int] | None] = {
    "gauss-newton": None,
    "ssbroyden": ssbroyden,
    "lbfgs": lbfgs,
    "soap": soap,
}


def run(name: str, contender: str, seed: int, seconds: float) -> dict[str, object]:
    """One training run and its error."""
    problem, method = PROBLEMS[name], CONTENDERS[contender]
    if method is None:
        recipe = pinn.Recipe.automatic(problem, seconds=seconds, windows=1)
        start = time.process_time()
        fitted = pinn.fit(problem, pinn.mlp(problem, seed=seed), recipe=recipe, seed=seed, progress=False)
        spent, iterations = time.process_time() - start, int(fitted.history[-1]["step"])
        found = errors(problem, lambda x: torch.as_tensor(fitted(x)), seed)
    else:
        objective = Objective(problem, seed, seconds)
        iterations = method(objective)
        spent = time.process_time() - objective.start
        found = errors(problem, objective.net, seed)
    key = {"problem": name, "contender": contender, "seconds": seconds, "seed": seed}
    return key | {"error": found, "cpu_seconds": round(spent, 2), "iterations": iterations}


def page() -> str:
    """The Markdown page."""
    lines = [
        "# Gauss-Newton compared with other optimizers",
        "",
        "Written by `python benchmarks/optimizers.py`: each optimizer trains the network of "
        "`pinn.mlp(problem)` on the equation and its conditions, in one time window, in float64 on one "
        "thread. Points are resampled twenty times in a run. The tables show the largest relative L2 error "
        "of the outputs, as the median over the seeds with the worst in parentheses.",
    ]
    rows = LEDGER.rows()
    for seconds in sorted({row["seconds"] for row in rows}):
        lines += ["", f"After {seconds:g} CPU seconds:", "", f"| problem | {' | '.join(CONTENDERS)} |"]
        lines.append("|" + "---|" * (1 + len(CONTENDERS)))
        for name in NAMES:
            cells = []
            for contender in CONTENDERS:
                mine = LEDGER.rows(problem=name, contender=contender, seconds=seconds)
                worst = [max(row["error"].values()) for row in mine]
                cells.append(f"{np.median(worst):.1e} ({max(worst):.1e})" if worst else "")
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    pinn.fit(
        PROBLEMS["Poisson1D"], pinn.mlp(1, [4]), recipe=pinn.Recipe.by_newton(2), progress=False
    )  # load all modules before timing
    for seed in [] if options.page else options.seeds:
        for name in options.problems:
            for contender in options.contenders:
                key = {"problem": name, "contender": contender, "seconds": options.seconds, "seed": seed}
                if not LEDGER.rows(**key):
                    LEDGER.add([run(name, contender, seed, options.seconds)])
                    files.write_text(LEDGER.page, page())
    files.write_text(LEDGER.page, page())


if __name__ == "__main__":
    main()
