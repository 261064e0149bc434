"""Checking: how far a solved family is off at given points, and whether it meets its equation at all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from guardband.base.arrays import Array, floats, to_numpy, to_torch
from guardband.pinn.inverse.family import Family
from guardband.pinn.inverse.solved import ByFunction, ByNetwork, BySolution, SolvedFamily
from guardband.pinn.misses.likelihood import typical_residual
from guardband.pinn.misses.sizes import sizes_of
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.networks.networks import mlp
from guardband.pinn.problems import AutogradField, Problem
from guardband.pinn.training.recipe import AS_LONG_AS_IT_TAKES, Recipe
from guardband.pinn.training.train import fit

DRAWN = 32
"""At so many random coefficients a family is looked at, beside the corners."""

MARGIN = 1.5
"""Delta is so many times the largest error that was seen."""

FIRST, NEXT = Recipe.by_newton(AS_LONG_AS_IT_TAKES, seconds=5.0), Recipe.by_newton(15)
"""Trainings at single values: the first, and those that start from a solution nearby. One that stops too
early makes Delta larger."""

MISSES = 0.02
"""Misses of more than this share of a residual's own terms are told."""


def delta(
    solved: SolvedFamily,
    x: Array,
    solver: Callable[..., Any] | None,
    seed: int,
    recipe: Recipe | None,
    progress: bool,
) -> float:
    """1.5 times the largest l2 error at points x, over random coefficients and all corners."""
    family = solved.family
    theta = np.concatenate([family.drawn(DRAWN, seed), family.corners])
    if isinstance(solved.solver, ByNetwork) and family.problem is not None:
        warn_of_misses(solved, seed)
    found = solved.solver(family, x, theta)
    truth = _truth(solved, x, theta, solver, seed, recipe, progress)
    return MARGIN * float(np.sqrt(np.square(found - truth).sum(axis=(1, 2))).max())


def has_solution(problem: Problem | None, x: Array) -> bool:
    """Whether a problem knows its own solution."""
    try:
        return problem is not None and problem.solution(to_torch(x).double()[:1]) is not None
    except NotImplementedError:
        return False


def _truth(
    solved: SolvedFamily,
    x: Array,
    theta: np.ndarray,
    solver: Callable[..., Any] | None,
    seed: int,
    recipe: Recipe | None,
    progress: bool,
) -> np.ndarray:
    family = solved.family
    if solver is not None:
        return ByFunction(solver)(family, x, theta)
    if has_solution(family.problem, x):
        return BySolution(family.own)(family, x, theta)

    return _by_trainings(family, x, theta, recipe, seed + 1, progress)


def _by_trainings(
    family: Family, x: Array, theta: np.ndarray, recipe: Recipe | None, seed: int, progress: bool
) -> np.ndarray:
    """Solutions at single values of the coefficients, by networks that never saw the family's.

    Each training starts from the solution at a value nearby, which saves most of its time.
    """
    found: dict[int, np.ndarray] = {}
    net = mlp(family.own, seed=seed).double()
    path = _path((theta - family.lower) / (family.upper - family.lower))
    for k in tqdm(path, desc="check", unit="training", disable=not progress):
        problem = family.at(**dict(zip(family.ranges, theta[k].tolist(), strict=True)))
        chosen = recipe or (NEXT if found else FIRST)
        fitted = fit(problem, net, recipe=chosen, seed=seed, progress=False)
        found[k], net = to_numpy(floats(fitted(x), "the answer")).astype(float), fitted.net
    return np.stack([found[k] for k in range(len(theta))])


def _path(unit: np.ndarray) -> list[int]:
    """An order of points (k, p) of the unit box: from the middle on, always to the nearest one left."""
    left, path, at = list(range(len(unit))), list[int](), np.full(unit.shape[1], 0.5)
    while left:
        nearest = min(left, key=lambda k: float(np.square(unit[k] - at).sum()))
        left.remove(nearest)
        path.append(nearest)
        at = unit[nearest]
    return path


def warn_of_misses(solved: SolvedFamily, seed: int) -> None:
    """Warn of an equation or a condition that a network misses at fresh points."""
    for name, share in misses_of(solved, seed).items():
        if share > MISSES:
            warnings.warn(
                f"At fresh points the network misses {name!r} by {100 * share:.2g} % of its own terms. "
                "Train it longer, or narrow the ranges.",
                stacklevel=4,
            )


def misses_of(solved: SolvedFamily, seed: int = 0) -> dict[str, float]:
    """How far the network of a family misses each equation and condition, as a share of their own terms."""
    assert isinstance(solved.solver, ByNetwork)
    ranged, net = solved.family.ranged, solved.solver.net
    generator = torch.Generator().manual_seed(seed)
    like = next(net.parameters())
    x = ranged.domain.uniform(1024, generator, dtype=torch.float64).to(like)
    sizes = sizes_of(ranged, like.new_zeros(0, len(ranged.names.outputs)))
    titles = titles_of(ranged, net, x)
    columns = (
        ranged.misses(x, AutogradField(net, x, ranged.names)).detach().split([*titles.equations.values()], 1)
    )
    terms = typical_residual(ranged, ranged.misses, None, sizes).split([*titles.equations.values()])
    found = {
        name: _share(miss, typical)
        for name, miss, typical in zip(titles.equations, columns, terms, strict=True)
    }
    for name, condition in titles.conditions.items():
        edge = condition.points(ranged.domain, 256, generator).to(like)
        field = AutogradField(net, edge.points, ranged.names, edge.normals)
        miss = condition.residual(edge.points, field).detach()
        found[name] = _share(miss, typical_residual(ranged, condition.residual, condition, sizes))
    return found


def _share(miss: torch.Tensor, typical: torch.Tensor) -> float:
    """The root mean square of misses over that of a residual's own terms."""
    return float(miss.double().square().mean().sqrt() / typical.square().mean().sqrt().clamp(min=1e-300))
