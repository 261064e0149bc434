"""Speed of a training step, compared with eager double backward, bare matrix products and other engines.

    python benchmarks/training.py [--quick] [--peers]

W2 is 2D Allen-Cahn and W3 is 3D Helmholtz, both with the paper's networks and points, float32, full batches.
Contenders are interleaved in one process on one thread, and a ratio of CPU times is the median over rounds of
the ratios within a round. The last line is one JSON object of claims. `--peers` needs deepxde and
pina-mathlab.
"""

import argparse
import os

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", DDE_BACKEND="pytorch")

import time
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from guardband.lab import paper
from guardband.pinn import mlp
from guardband.pinn.misses.gradients import Gradients
from guardband.pinn.misses.points import Points
from guardband.pinn.problems import AllenCahn2D, AutogradField, Helmholtz3D, Problem

torch.set_num_threads(1)
Step = Callable[[], object]
BOUNDS = {"w2": (">= 1.55", ">= 2.7"), "w3": (">= 1.8", ">= 2.4"), "quick": (">= 0.5", ">= 0.5")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="W2 only, eager only, under 45 s on one core")
    parser.add_argument("--peers", action="store_true", help="also DeepXDE (torch) and PINA")
    options = parser.parse_args()
    claims: list[dict[str, object]] = []
    for name, problem in (("w2", AllenCahn2D()), ("w3", Helmholtz3D())):
        if options.quick and name == "w3":
            continue
        work = Work(problem)
        contenders: dict[str, Step] = {
            "naive": work.naive(),
            "eager": work.library(compile=False),
            "matrix products": work.products,
        }
        if not options.quick:
            contenders["compiled"] = work.library(compile=True)
        if options.peers:
            contenders |= {"DeepXDE": deepxde(work).step, "PINA": pina(work).step}
        times = interleave(contenders, rounds=15, repeats=10 if name == "w2" else 1)
        eager, compiled = BOUNDS["quick" if options.quick else name]
        claims.append(claim(f"{name}_eager_vs_naive", ratio(times, "naive", "eager"), eager))
        if "compiled" in times:
            claims.append(claim(f"{name}_compiled_vs_naive", ratio(times, "naive", "compiled"), compiled))
        if options.peers:
            claims.append(claim(f"{name}_eager_vs_deepxde", ratio(times, "DeepXDE", "eager"), ">= 2.5"))
            claims.append(claim(f"{name}_eager_vs_pina", ratio(times, "PINA", "eager"), ">= 1.5"))
        for ours in ("eager", "compiled"):
            if ours in times:
                share = np.median(np.array(times["matrix products"]) / np.array(times[ours]))
                print(f"{name}: the matrix products alone are {share:.2f} of a step, {ours}")
    claims.append(same_loss())
    finish(claims)


class Work:
    """One training problem at the paper's size: its points, its network, and steps of several kinds."""

    def __init__(self, problem: Problem, dtype: torch.dtype = torch.float32, seed: int = 0) -> None:
        settings = paper.settings(problem)
        self.problem, self.dtype = problem, dtype
        self.weights = settings.weights
        (self.condition,) = problem.conditions()
        self.inside = problem.domain.grid(settings.collocation, dtype=dtype)
        self.edge = self.condition.points(problem.domain, settings.boundary).to(self.inside)
        self.faces = self.edge.points
        self.data = problem.observe(settings.train, noise=settings.noise, seed=seed, dtype=dtype)
        self.sizes = [problem.domain.d, *settings.widths, 1]

    def network(self) -> nn.Module:
        return mlp(self.sizes[0], self.sizes[1:-1]).to(self.dtype)

    def library(self, *, compile: bool) -> Callable[[], float]:
        """A step as in `fit`."""
        net = self.network()
        points = Points(self.data.x, self.data.y, self.inside, (self.edge,))
        gradients = Gradients(self.problem, net, points, compile=compile)
        physics, boundary, data = self.weights
        weights = torch.tensor([data, physics, boundary], dtype=self.dtype)
        optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)

        def step() -> float:
            squares = gradients(points, weights)
            optimizer.step()
            return float(weights @ squares)

        return step

    def naive(self) -> Callable[[], float]:
        """A step with eager double backward, as in tutorials."""
        net = self.network()
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        physics, boundary, data = self.weights

        def step() -> float:
            residual = self.problem.misses(self.inside, AutogradField(net, self.inside))
            off = net(self.faces) - self.problem.solution(self.faces)
            at_data = net(self.data.x) - self.data.y
            squares = [part.square().mean() for part in (residual, off, at_data)]
            loss = physics * squares[0] + boundary * squares[1] + data * squares[2]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return float(loss.detach())

        return step

    def products(self) -> None:
        """The matrix products of a step alone: a lower bound."""
        for before, weight, after in self._matrices:
            _ = before @ weight.T, after @ weight, after.T @ before

    @cached_property
    def _matrices(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        n = (2 + self.sizes[0]) * len(self.inside) + len(self.faces) + len(self.data.x)
        pairs = pairwise(self.sizes[1:-1])
        return [(torch.ones(n, a), torch.ones(b, a), torch.ones(n, b)) for a, b in pairs]


def same_loss() -> dict[str, object]:
    """Fifty steps in float64: the losses of the fast path and of double backward agree to 8 digits."""
    work = Work(AllenCahn2D(), torch.float64)
    slow, fast = work.naive(), work.library(compile=False)
    a, b = [(slow(), fast()) for _ in range(50)][-1]
    gap = abs(a - b) / a
    print(f"loss after 50 steps in float64: {a:.12g} and {b:.12g}")
    return claim("loss_after_50_steps", gap, "<= 1e-8")


class Engine(NamedTuple):
    """Another engine on the same work: a step of Adam, its network, and L-BFGS if it has it."""

    step: Step
    predict: Callable[[Tensor], Tensor]
    finish: Callable[[int], object] | None = None


def deepxde(work: Work) -> Engine:
    """The same step in DeepXDE on torch: its network class, points, loss and compiled model."""
    import deepxde as dde

    problem, d = work.problem, work.sizes[0]

    def equation(x: Tensor, u: Tensor) -> Tensor:
        laplacian = sum(dde.grad.hessian(u, x, i=i, j=i) for i in range(d))
        field = type("Laplacian", (), {"value": u, "laplacian": laplacian})
        return problem.residual(x, field)  # type: ignore[arg-type]

    lower, upper = list(problem.domain.lower), list(problem.domain.upper)
    box = dde.geometry.Rectangle(lower, upper) if d == 2 else dde.geometry.Cuboid(lower, upper)
    faces, x, y = work.faces.numpy(), work.data.x.numpy(), work.data.y.numpy()
    on_faces = dde.icbc.PointSetBC(faces, problem.solution(work.faces).numpy())
    conditions = [on_faces, dde.icbc.PointSetBC(x, y)]
    data = dde.data.PDE(box, equation, conditions, num_domain=0, num_boundary=0, anchors=work.inside.numpy())
    net = dde.nn.FNN(work.sizes, "tanh", "Glorot uniform")
    model = dde.Model(data, net)
    physics, boundary, observed = work.weights
    model.compile("adam", lr=1e-3, loss_weights=[physics, boundary, observed], verbose=0)
    model.train_state.set_data_train(*model.data.train_next_batch(model.batch_size))

    def step() -> None:
        state = model.train_state
        model._train_step(state.X_train, state.y_train, state.train_aux_vars)

    def finish(iterations: int) -> None:
        dde.optimizers.set_LBFGS_options(maxiter=iterations)
        model.compile("L-BFGS", loss_weights=[physics, boundary, observed], verbose=0)
        model.train(verbose=0, display_every=10**9)

    return Engine(step, lambda x: torch.as_tensor(model.predict(x.numpy())), finish)


def pina(work: Work) -> Engine:
    """The same step in PINA: its conditions, equation and solver, one optimizer step at a time."""
    from pina import Condition, LabelTensor
    from pina.domain import CartesianDomain
    from pina.equation import Equation
    from pina.model import FeedForward
    from pina.operator import laplacian
    from pina.problem import SpatialProblem
    from pina.solver import PINN

    problem, names = work.problem, ["x", "y", "z"][: work.sizes[0]]

    def equation(x: Tensor, u: Tensor) -> Tensor:
        field = type("Laplacian", (), {"value": u, "laplacian": laplacian(u, x, components=["u"], d=names)})
        return problem.residual(x, field)  # type: ignore[arg-type]

    ends = {name: list(pair) for name, pair in zip(names, zip(*_ends(problem), strict=True), strict=True)}

    class Formulation(SpatialProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = CartesianDomain(ends)
        conditions = {  # noqa: RUF012
            "inside": Condition(input=LabelTensor(work.inside, names), equation=Equation(equation)),
            "faces": Condition(
                input=LabelTensor(work.faces, names),
                target=LabelTensor(problem.solution(work.faces), ["u"]),
            ),
            "data": Condition(input=LabelTensor(work.data.x, names), target=LabelTensor(work.data.y, ["u"])),
        }

    model = FeedForward(work.sizes[0], 1, layers=work.sizes[1:-1], func=nn.Tanh)
    formulation = Formulation()
    solver = PINN(formulation, model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    inside = LabelTensor(work.inside, names)
    physics, boundary, observed = work.weights

    def step() -> None:
        points = inside.clone().requires_grad_()
        points.labels = names
        residual = formulation.conditions["inside"].equation.residual(points, solver.forward(points))
        terms = [residual.pow(2).mean()]
        for name in ("faces", "data"):
            condition = formulation.conditions[name]
            terms.append((solver.forward(condition.input) - condition.target).pow(2).mean())
        loss = physics * terms[0] + boundary * terms[1] + observed * terms[2]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return Engine(step, lambda x: solver.forward(LabelTensor(x, names)).detach().as_subclass(Tensor))


def _ends(problem: Problem) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return problem.domain.lower, problem.domain.upper


def interleave(contenders: dict[str, Step], rounds: int, repeats: int) -> dict[str, list[float]]:
    """CPU seconds per step of each contender in each round, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            start = time.process_time()
            for _ in range(repeats):
                run()
            if turn:
                times[name].append((time.process_time() - start) / repeats)
    for name, seconds in times.items():
        low, middle, high = min(seconds), np.median(seconds), max(seconds)
        print(f"{name:20} {1e3 * middle:8.2f} ms  ({1e3 * low:.2f} to {1e3 * high:.2f})")
    return times


def ratio(times: dict[str, list[float]], over: str, under: str) -> float:
    """The median over rounds of the time of `over` divided by that of `under`."""
    return float(np.median(np.array(times[over]) / np.array(times[under])))


if __name__ == "__main__":
    main()
