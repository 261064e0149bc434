"""Laws of problems."""

from __future__ import annotations

from collections.abc import Callable

import torch

from guardband.pinn.problems import AutogradField, Problem
from guardband.pinn.problems.base import conditions_in
from guardband.testing.traces import untouched


def check_problem(problem: Problem, *, tolerance: float = 1e-6, points: int = 200, seed: int = 0) -> None:
    """Check that the exact solution of a problem satisfies equation and conditions, with correct shapes.

    The residual of the solution is compared with that of another smooth function of the same size. Without a
    `solution`, only the shapes are checked.

    Parameters
    ----------
    problem
        The problem.
    tolerance
        The largest allowed residual of the solution, as a share of the other function's residual.
    points
        The number of interior points.
    seed
        The seed of the points.

    Raises
    ------
    AssertionError
        If a law fails.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.testing.check_problem(pinn.problems.Poisson1D())
    """
    generator = torch.Generator().manual_seed(seed)
    x = problem.domain.uniform(points, generator, dtype=torch.float64)
    names = problem.names
    m = len(names.outputs)
    with untouched(problem):
        try:
            u = problem.solution(x)
            known = problem.solution
        except NotImplementedError:
            u, known = None, _smooth(m, 1.0)
        if u is not None:
            assert u.shape == (points, m), (
                f"solution should have shape (n, {m}), got {tuple(u.shape)} for {points} points"
            )
        conditions = conditions_in(problem)
        edges = [c.points(problem.domain, 20) for c in conditions]
        places = [
            (x, None, problem.misses),
            *((e.points, e.normals, c.residual) for e, c in zip(edges, conditions, strict=True)),
        ]
        for at, normals, residual in places:
            miss = residual(at, AutogradField(known, at, names, normals))
            assert miss.ndim == 2 and len(miss) == len(at), (
                f"a residual should have shape (n, equations), got {tuple(miss.shape)} for {len(at)} points"
            )
            assert bool(torch.isfinite(miss).all()), "a residual should be finite inside the domain"
            if u is not None:
                largest = float(u.detach().abs().max())
                other = AutogradField(_smooth(m, largest), at, names, normals)
                size = float(residual(at, other).detach().abs().max()) or 1.0
                worst = float(miss.detach().abs().max())
                assert worst <= tolerance * size or worst <= 1e-14 * largest, (
                    f"the solution should make the residual vanish, but leaves {worst:.3g}, compared with "
                    f"{size:.3g} for a different function"
                )


def _smooth(outputs: int, size: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A smooth function of x with this size and number of outputs."""
    return lambda x: size * torch.sin(x.sum(dim=1, keepdim=True) + torch.arange(outputs, dtype=x.dtype))
