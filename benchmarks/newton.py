"""Cost of a Gauss-Newton step: its rows, linear algebra and trials, compared with a step of Adam.

    python benchmarks/newton.py [--quick] [--page] [--run 222 products]

Rows are the derivatives of residuals with respect to all weights, compared with `torch.func.vmap(jacrev)` of
the same residuals. Steps solve Burgers' equation at 1,024 interior points and 256 points of each condition,
with three hidden layers, densely and by conjugate gradients; Adam uses the same points in float32. Runs last
60 CPU seconds from seed 0, in one time window. All run in one process on one thread, and times are CPU times.
Writes results/data/newton.jsonl and results/newton.md; `--page` only rewrites the page, `--run` makes one
run. The last line is one JSON object of claims.
"""

import argparse
import os

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from ledger import Ledger
from peers.scoring import errors
from torch import Tensor
from torch.func import functional_call, jacrev, jvp, vmap
from training import interleave, ratio

from guardband import pinn
from guardband.base import files
from guardband.pinn.misses import gauss_newton as solver
from guardband.pinn.misses.gradients import Gradients
from guardband.pinn.misses.jacobian import jacobian
from guardband.pinn.problems import Field
from guardband.pinn.problems.field import Columns, pick
from guardband.pinn.training import newton as stage
from guardband.pinn.training.loss import Loss

torch.set_num_threads(1)
LEDGER = Ledger("newton")
POINTS = 1024
WIDTHS = {24: "1k", 70: "10k", 222: "100k"}
SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only rows and one step, without results")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    parser.add_argument(
        "--run", nargs=2, metavar=("WIDTH", "WAY"), help="only this run, in place of the last"
    )
    options = parser.parse_args()
    if options.run:
        again = run(int(options.run[0]), options.run[1])
        same = ("kind", "weights", "way")
        kept = [row for row in LEDGER.rows() if any(row.get(key) != again[key] for key in same)]
        LEDGER.path.unlink()
        LEDGER.add([*kept, again])
    if options.page or options.run:
        files.write_text(LEDGER.page, page(LEDGER.rows()))
        return
    claims, rows = [], list[dict[str, Any]]()
    for problem in (pinn.problems.Burgers1D(), pinn.problems.Kovasznay()):
        name = type(problem).__name__
        found = rows_against_torch(problem, n=64 if options.quick else 256)
        rows.append({"kind": "rows", "problem": name, "ratio": round(found, 2)})
        claims.append(claim(f"rows_{name.lower()}", found, ">= 1.5" if options.quick else ">= 5"))
    claims.append(claim("step_by_products_off", step_off(), "<= 1e-6"))
    if not options.quick:
        rows += [step(width, way) for width in WIDTHS for way in ("dense", "products")]
        rows += [adam(width) for width in WIDTHS]
        rows += [run(width, way) for width in WIDTHS for way in ("newton", "adam")]
        rows.append(run(222, "products"))
        LEDGER.path.unlink(missing_ok=True)
        LEDGER.add(rows)
        files.write_text(LEDGER.page, page(rows))
        large = [row for row in rows if row["kind"] == "step" and row["weights"] == "100k"]
        by_products = next(row for row in large if row["way"] == "products")
        claims.append(claim("dense_vs_products_memory_100k", by_products["times_less"], ">= 10"))
    finish(claims)


# Rows


class ForwardField(Field):
    """A field by nested forward derivatives of torch.func, compatible with `vmap` and `jacrev`."""

    def __init__(self, function: Callable[[Tensor], Tensor], x: Tensor, names: pinn.problems.Names) -> None:
        super().__init__(x, names)
        self._function = function

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        function = self._function
        for axis in axes:
            function = along(function, axis)
        return pick(function(self.x), columns)


def along(function: Callable[[Tensor], Tensor], axis: int) -> Callable[[Tensor], Tensor]:
    """The derivative of a function along an axis."""

    def derivative(x: Tensor) -> Tensor:
        direction = torch.zeros_like(x)
        direction[..., axis] = 1
        return jvp(function, (x,), (direction,))[1]

    return derivative


def rows_against_torch(problem: pinn.Problem, n: int) -> float:
    """Speed of the rows of a residual relative to `vmap(jacrev)`; the results are equal."""
    net = pinn.mlp(problem).double()
    x = problem.domain.quasi(n, dtype=torch.float64)
    weights = {name: weight.detach() for name, weight in net.named_parameters()}

    def residual(weights: dict[str, Tensor], point: Tensor) -> Tensor:
        field = ForwardField(lambda x: functional_call(net, weights, (x,)), point[None], problem.names)
        return problem.misses(point[None], field)[0]

    def by_torch() -> Tensor:
        found = vmap(jacrev(residual), in_dims=(None, 0))(weights, x)
        return torch.cat([part.flatten(2) for part in found.values()], dim=2)

    def ours() -> Tensor:
        return jacobian(problem.misses, net, x, of=problem.names)[1]

    assert torch.allclose(by_torch(), ours(), rtol=1e-8, atol=1e-10)
    return ratio(interleave({"torch": by_torch, "ours": ours}, rounds=7, repeats=3), "torch", "ours")


# Steps


class Clocked:
    """A system that times its rows and trials."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.spent = rows, {"rows": 0.0, "trials": 0.0}

    @property
    def theta(self) -> Tensor:
        return self.rows.theta

    @theta.setter
    def theta(self, theta: Tensor) -> None:
        self.rows.theta = theta

    def misses(self) -> Tensor:
        return self._clock("trials", self.rows.misses)

    def __call__(self) -> Any:
        found = self._clock("rows", self.rows)
        slopes = found[1]
        n, weights = len(found[0]), len(self.theta)
        least = min(n, weights)
        self.bytes = slopes.nbytes if not isinstance(slopes, Tensor) else 8 * (n * weights + 2 * least**2)
        return found

    def _clock(self, name: str, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        found = call()
        self.spent[name] += time.process_time() - start
        return found


def begun(width: int, way: str, n: int = POINTS) -> stage.Newton:
    """A Gauss-Newton stage at its first step; `way` selects the solver."""
    by_products = way == "products"
    stage.MOST_NUMBERS, stage.MOST_DENSE = (0, 0) if by_products else (2**62, 2**62)
    problem = pinn.problems.Burgers1D()
    net = pinn.mlp(problem, [width] * 3).double()
    loss = Loss(problem, net, None, pinn.Likelihood(), pinn.Recipe.by_newton(1), 0, False)
    data = tuple(part.double() for part in loss.full[:2])
    made = stage.Newton(problem, net, (data[0], data[1]), loss.scales, loss.sizes, most=n, seed=0)
    made.rows.points = made._uniform(n, made.points[:2])
    return made


def step(width: int, way: str, steps: int = 3) -> dict[str, Any]:
    """Seconds of a step by part, and its memory."""
    made = begun(width, way)
    made.steps.step(made.rows)  # warm up
    clocked, losses = Clocked(made.rows), list[float]()
    start = time.process_time()
    for _ in range(steps):
        losses.append(made.steps.step(clocked).after)
    total = time.process_time() - start
    shares = {name: spent / total for name, spent in clocked.spent.items()}
    shares["linear algebra"] = 1 - sum(shares.values())
    n, weights = len(made.rows), len(made.rows.theta)
    dense = 8 * (n * weights + 2 * min(n, weights) ** 2)
    row: dict[str, Any] = {"kind": "step", "weights": WIDTHS[width], "way": way, "misses": n}
    row |= {"exactly": weights, "seconds": round(total / steps, 3), "megabytes": round(clocked.bytes / 2**20)}
    row |= {name: round(share, 3) for name, share in shares.items()}
    row |= {"loss": losses[-1], "times_less": round(dense / clocked.bytes, 1)}
    print(row, flush=True)
    return row


def step_off() -> float:
    """Difference of a step by products from the dense one, on a small network, solved to convergence."""
    ends, usual = [], (solver.TOLERANCE, solver.MOST, solver.CHORDS)
    solver.TOLERANCE, solver.MOST, solver.CHORDS = 1e-13, 5000, 0
    for way in ("dense", "products"):
        made = begun(8, way, n=64)
        made.steps.step(made.rows)
        ends.append(made.rows.theta)
    solver.TOLERANCE, solver.MOST, solver.CHORDS = usual
    return float((ends[0] - ends[1]).norm() / ends[0].norm())


def adam(width: int, steps: int = 20) -> dict[str, Any]:
    """Seconds of a step of Adam on the same points."""
    made = begun(width, "dense")
    net, points = made.rows.net.float(), made.points
    single = points._replace(
        x=points.x.float(),
        y=points.y.float(),
        inside=points.inside.float(),
        edges=tuple(edge.to(points.inside.float()) for edge in points.edges),
    )
    gradients, weights = Gradients(made.problem, net, single), torch.tensor([0.0, 0.5, 0.5])
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
    start = 0.0
    for turn in range(steps + 3):
        if turn == 3:
            start = time.process_time()
        gradients(single, weights)
        optimizer.step()
    return {"kind": "adam", "weights": WIDTHS[width], "seconds": (time.process_time() - start) / steps}


# Runs


def run(width: int, way: str) -> dict[str, Any]:
    """The error after the seconds of a run.

    `newton` uses Gauss-Newton steps as in `fit`, `products` the same without storing derivatives, and
    `adam` Adam and L-BFGS for half of the time each. The steps of each solver are counted.
    """
    stage.MOST_NUMBERS, stage.MOST_DENSE = (0, 0) if way == "products" else DEFAULTS
    solved.clear()
    problem = pinn.problems.Burgers1D()
    net = pinn.mlp(problem, [width] * 3, seed=0)
    if way != "adam":
        recipe = pinn.Recipe.by_newton(100_000, seconds=SECONDS, n_interior=1024)
    else:
        pilot = pinn.Recipe(steps=50, finish=0)
        pinn.fit(problem, net, recipe=pinn.Recipe(steps=2, finish=0), progress=False)
        start = time.process_time()
        pinn.fit(problem, net, recipe=pilot, progress=False)
        steps = int(SECONDS / 2 / ((time.process_time() - start) / 50))
        recipe = pinn.Recipe(steps=steps, finish=10**7, min_improvement=0.0, seconds=SECONDS)
    start = time.process_time()
    made = pinn.fit(problem, net, recipe=recipe, progress=False)
    row = {"kind": "run", "weights": WIDTHS[width], "way": way, "steps": int(made.history[-1]["step"])}
    row |= {"error": errors(problem, lambda x: torch.as_tensor(made(x)), 0)["u"]}
    row |= {"dense": solved["dense"], "by_products": solved["products"]}
    row |= {"first": made.history[0]["loss"], "last": made.history[-1]["loss"]}
    row |= {"cpu_seconds": round(time.process_time() - start, 1)}
    print(row, flush=True)
    return row


DEFAULTS = stage.MOST_NUMBERS, stage.MOST_DENSE
solved: Counter[str] = Counter()
linearize = stage._Moving.__call__


def counted(rows: stage._Moving) -> Any:
    """The rows of a step, with a note of the solver."""
    found = linearize(rows)
    solved["dense" if isinstance(found[1], Tensor) else "products"] += 1
    return found


stage._Moving.__call__ = counted  # type: ignore[method-assign]


# The page


def page(rows: list[dict[str, Any]]) -> str:
    """The Markdown page."""

    def of(kind: str) -> list[dict[str, Any]]:
        return [row for row in rows if row["kind"] == kind]

    lines = [
        "# What a Gauss-Newton step costs",
        "",
        "Written by `python benchmarks/newton.py`: CPU seconds on one thread, in float64.",
        "",
        "## Rows",
        "",
        "The residual is differentiated with respect to all weights of `pinn.mlp(problem)` at 256 points; "
        "speeds are relative to `torch.func.vmap(jacrev)` of the same residual with nested `jvp`.",
        "",
        "| problem | times faster |",
        "|---|---|",
        *(f"| {row['problem']} | {row['ratio']:.1f} |" for row in of("rows")),
        "",
        "## Steps",
        "",
        "The table shows three early steps on Burgers' equation, with three hidden layers, 1,024 interior "
        "points and 256 points per condition. *Dense* stores all derivatives and factors a matrix; "
        "*products* solves the same equations by at most 100 conjugate gradient iterations and stores the "
        "factors of the derivatives. Memory includes derivatives, or their factors, and matrices. Adam uses "
        "the same points, in float32. The two solvers take different steps and end at different losses. The "
        "damping is large near the start, so conjugate gradients stop sooner here than later in a run.",
        "",
        "| weights | way | s per step | rows | linear algebra | trials | MB | loss after | Adam, s | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    by_adam = {row["weights"]: row["seconds"] for row in of("adam")}
    for row in of("step"):
        shares = (f"{100 * row[name]:.0f} %" for name in ("rows", "linear algebra", "trials"))
        cells = [row["weights"], row["way"], f"{row['seconds']:.3g}", *shares, str(row["megabytes"])]
        cells.append(f"{row['loss']:.3g}")
        cells += [f"{by_adam[row['weights']]:.2g}", f"{row['seconds'] / by_adam[row['weights']]:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## Runs",
        "",
        f"Runs solve Burgers' equation in one time window in {SECONDS:.0f} CPU seconds, with one seed, by "
        "Gauss-Newton steps as in `fit`, or by Adam on random batches, then L-BFGS, each for half of the "
        "time. The error is relative L2. Losses are those of the first and last row of the history, each "
        "with its own points and weights, so they are not comparable between methods. *Products* never "
        "stores derivatives, which `fit` would do here for few points. The time limit is checked every few "
        "steps.",
        "",
        "| weights | way | steps | dense | by products | CPU s | error | first loss | last loss |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(of("run"), key=lambda row: [*WIDTHS.values()].index(row["weights"])):
        figures = (f"{row[name]:.2g}" for name in ("error", "first", "last"))
        counts = [str(row.get(name, "")) for name in ("steps", "dense", "by_products", "cpu_seconds")]
        lines.append(f"| {' | '.join([row['weights'], row['way'], *counts, *figures])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
