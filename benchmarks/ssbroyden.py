"""SSBroyden on Burgers' equation in the setting of its authors' example, compared with their figure.

    python benchmarks/ssbroyden.py [--seed 2] [--adam 5000] [--iterations 10000] [--page]

The setting is that of Urbán, Stefanou and Pons (2025): three layers of 20 units on a ring, an initial
condition that holds exactly, and the mean square of the residual at 10 000 points that are resampled every
500 iterations, half of them according to the residual. Adam runs first, in float64 on one thread. Each
evaluation appends a line to `results/data/ssbroyden.jsonl`.
"""

import argparse
import math
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from itertools import pairwise

import numpy as np
import torch
from ledger import Ledger
from optimizers import ssbroyden
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from guardband import pinn
from guardband.base import files

torch.set_num_threads(1)
LEDGER = Ledger("ssbroyden")
PROBLEM = pinn.problems.Burgers1D()
POINTS, POOL, EVERY = 10_000, 50_000, 500
PUBLISHED = 8e-9
"""Relative L2 with 2 011 weights, as quoted by another paper."""


class Wave(nn.Module):
    """-sin(pi x) + t net(cos(pi x), sin(pi x), t)."""

    def __init__(self, width: int = 20, depth: int = 3) -> None:
        super().__init__()
        layers = [nn.Linear(n, m) for n, m in pairwise([3, *[width] * depth, 1])]
        for layer in layers:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers).double()

    def forward(self, at: Tensor) -> Tensor:
        angle, t = math.pi * at[:, :1], at[:, 1:]
        h = torch.cat([torch.cos(angle), torch.sin(angle), t], dim=1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return -torch.sin(angle) + t * self.layers[-1](h)


class Example:
    """The loss of their example as a function of the weights, evaluated whenever points are resampled."""

    def __init__(self, seed: int, iterations: int) -> None:
        torch.manual_seed(seed)
        self.net, self.most, self.taken = Wave(), iterations, 0
        self.generator = torch.Generator().manual_seed(seed)
        self.points, self.test = self.uniform(POINTS), self.uniform(20_000)
        self.truth, self.start = PROBLEM.solution(self.test), time.process_time()

    @property
    def spent(self) -> float:
        """The share of the iterations that has passed."""
        return self.taken / self.most

    def renew(self) -> bool:
        """Draw new points if they are due; called once per iteration."""
        self.taken += 1
        if self.taken % EVERY:
            return False
        self.points = self.by_residual()
        self.note("ssbroyden", self.taken)
        return True

    def at(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and its gradient at these weights."""
        vector_to_parameters(torch.from_numpy(theta), self.net.parameters())
        value = self.loss()
        return value, torch.cat([weight.grad.flatten() for weight in self.net.parameters()]).numpy()  # type: ignore[union-attr]

    def loss(self) -> float:
        """The mean square of the residual; its gradient is left in the weights."""
        self.net.zero_grad()
        value = self.residual(self.points).square().mean()
        value.backward()
        return value.item()

    def residual(self, at: Tensor) -> Tensor:
        """u_t + u u_x - nu u_xx."""
        at = at.detach().requires_grad_()
        u = self.net(at)
        (slopes,) = torch.autograd.grad(u.sum(), at, create_graph=True)
        (bends,) = torch.autograd.grad(slopes[:, 0].sum(), at, create_graph=True)
        return slopes[:, 1:] + u * slopes[:, :1] - float(PROBLEM.viscosity) * bends[:, :1]

    def uniform(self, n: int) -> Tensor:
        return PROBLEM.domain.uniform(n, self.generator, dtype=torch.float64)

    def by_residual(self) -> Tensor:
        """Points of a pool, drawn with probabilities half uniform and half proportional to the residual."""
        pool = self.uniform(POOL)
        off = torch.cat([self.residual(part).detach().abs() for part in pool.split(POINTS)])[:, 0]
        return pool[torch.multinomial(off / off.mean() + 1, POINTS, generator=self.generator)]

    def error(self) -> float:
        """Relative L2 at separate points."""
        with torch.no_grad():
            return float((self.net(self.test) - self.truth).norm() / self.truth.norm())

    def note(self, stage: str, taken: int) -> None:
        """Append the current error of the network."""
        spent = round(time.process_time() - self.start, 1)
        LEDGER.add([{"stage": stage, "iterations": taken, "error": self.error(), "cpu_seconds": spent}])


def adam(example: Example, steps: int) -> None:
    """The first stage of the authors."""
    optimizer = torch.optim.Adam(example.net.parameters(), 5e-3, betas=(0.99, 0.999), eps=1e-20)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.98 ** (step / 1000))
    for step in range(1, steps + 1):
        example.loss()
        optimizer.step()
        rate.step()
        if step % EVERY == 0:
            example.points = example.by_residual()
            example.note("adam", step)


def page() -> str:
    """The Markdown page."""
    rows = LEDGER.rows()
    looks = [row for row in rows if row["iterations"] % 1000 == 0 and row["stage"] == "ssbroyden"]
    best = min(row["error"] for row in rows)
    lines = [
        "# SSBroyden in the setting of its authors",
        "",
        "Written by `python benchmarks/ssbroyden.py`: the method of `benchmarks/optimizers.py` on Burgers' "
        "equation, with one seed, 941 weights and 10 000 points that are resampled every 500 iterations. The "
        "table shows the relative L2 error and the CPU seconds since the start, including Adam. The "
        f"published figure, with 2 011 weights and as quoted by another paper, is {PUBLISHED:.0e}; the best "
        f"error of this run is {best:.1e}.",
        "",
        "| stage | iterations | error | CPU s |",
        "|---|---|---|---|",
    ]
    for row in [row for row in rows if row["stage"] == "adam"][-1:] + looks:
        lines.append(
            f"| {row['stage']} | {row['iterations']} | {row['error']:.1e} | {row['cpu_seconds']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--adam", type=int, default=5000)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    if not options.page:
        LEDGER.path.unlink(missing_ok=True)
        example = Example(options.seed, options.iterations)
        adam(example, options.adam)
        ssbroyden(example)
    files.write_text(LEDGER.page, page())


if __name__ == "__main__":
    main()
