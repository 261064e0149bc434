"""Scores: the error of a solver in each output, computed in the same way for all solvers."""

from collections.abc import Callable

import torch
from torch import Tensor

from guardband.pinn.problems import Problem, catalogue

PROBLEMS: dict[str, Problem] = {name: getattr(catalogue, name)() for name in catalogue.__all__}
POINTS = 10_000
CENTERED = ("p",)
"""Outputs that are compared up to their mean: a pressure."""


def errors(problem: Problem, predict: Callable[[Tensor], Tensor], seed: int) -> dict[str, float]:
    """Relative L2 of each output at uniform points that were not used in training."""
    x = problem.domain.uniform(POINTS, torch.Generator().manual_seed(seed), dtype=torch.float64)
    with torch.no_grad():
        found, truth = predict(x).double().cpu(), problem.solution(x)
    return {
        name: _relative(found[:, i], truth[:, i], centered=name in CENTERED)
        for i, name in enumerate(problem.names.outputs)
    }


def _relative(found: Tensor, truth: Tensor, *, centered: bool) -> float:
    if centered:
        found, truth = found - found.mean(), truth - truth.mean()
    return float(f"{float((found - truth).norm() / truth.norm()):.4g}")
