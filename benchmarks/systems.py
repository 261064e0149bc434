"""Speed of a training step for several kinds of equations, compared with plain double backward.

    python benchmarks/systems.py [--quick]

Burgers (two axes), Kovasznay flow (three outputs), a two-species system and a beam (a fourth derivative), as
written in `tests/equations.py`; four hidden layers of 64, 2,000 points inside and 400 of each condition,
float32, full batches. Contenders are interleaved in one process on one thread, and a ratio of CPU times is
the median over rounds of the ratios within a round. The last line is one JSON object of claims.
"""

import argparse
import os
import sys
from pathlib import Path

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
sys.path.append(str(Path(__file__).parents[1] / "tests"))

import torch
from training import Step, interleave, ratio

from equations import Beam, Burgers, Kovasznay, TwoSpecies
from guardband.pinn import mlp
from guardband.pinn.misses.mean_squares import MeanSquares
from guardband.pinn.misses.points import fixed_points
from guardband.pinn.problems import Problem

torch.set_num_threads(1)
WORK: dict[str, tuple[Problem, str | None]] = {
    "burgers": (Burgers(), ">= 1.5"),
    "kovasznay": (Kovasznay(), ">= 1.5"),
    "two_species": (TwoSpecies(), ">= 1.5"),
    "beam": (Beam(), None),  # reported
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few rounds, and a bound that noise cannot break"
    )
    options = parser.parse_args()
    claims: list[dict[str, object]] = []
    for name, (problem, bound) in WORK.items():
        contenders = {"plain": step(problem, jets=False), "jets": step(problem, jets=True)}
        times = interleave(contenders, rounds=5 if options.quick else 15, repeats=2 if options.quick else 5)
        found = ratio(times, "plain", "jets")
        if bound is None:
            print(f"{name}: {found:.2f} times as fast as plain double backward")
        else:
            claims.append(claim(f"{name}_vs_plain", found, ">= 0.8" if options.quick else bound))
    finish(claims)


def step(problem: Problem, *, jets: bool) -> Step:
    """A step of Adam on all points: with jets as in `fit`, or with plain double backward."""
    net = mlp(problem, [64] * 4)
    empty = torch.zeros(0, problem.domain.d), torch.zeros(0, len(problem.names.outputs))
    points = fixed_points(problem, net, empty, 2000, 400, torch.Generator().manual_seed(0))
    squares = MeanSquares(problem, net, points)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=jets)

    def by_hand() -> torch.Tensor:
        total = problem.misses(points.inside, problem.field(net, points.inside)).square().sum(1).mean()
        for condition, edge in zip(problem.conditions(), points.edges, strict=True):
            field = problem.field(net, edge.points, edge.normals)
            total = total + condition.residual(edge.points, field).square().sum(1).mean()
        return total

    def one() -> None:
        loss = squares(points)[1:].sum() if jets else by_hand()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return one


if __name__ == "__main__":
    main()
