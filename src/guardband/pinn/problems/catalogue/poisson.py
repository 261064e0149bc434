"""The Poisson equation on an interval."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet
from guardband.pinn.problems.field import Field


@kept
@dataclass(frozen=True)
class Poisson1D(Problem):
    """The Poisson equation u'' = -pi^2 sin(pi x) on [0, 1], with u = 0 at both ends.

    The exact solution is u = sin(pi x).

    Notes
    -----
    The solution is smooth and unique. This is the easiest problem in the catalogue.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> problem.observe(60, noise=0.15)
    Observations(60 points, x (60, 1), y (60, 1))
    >>> problem.solution(torch.tensor([[0.5]]))
    tensor([[1.]])
    """

    domain: ClassVar[Domain] = Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u'' - f."""
        return u.d("x", "x") - self.forcing(x)

    def conditions(self) -> list[Condition]:
        """Return u = 0 at both ends."""
        return [Dirichlet(self.solution)]

    def forcing(self, x: Tensor) -> Tensor:
        """Return the source f = -pi^2 sin(pi x).

        Parameters
        ----------
        x
            Points, shape (n, 1).

        Returns
        -------
        Tensor
            The source, shape (n, 1).
        """
        return -(torch.pi**2) * torch.sin(torch.pi * x)

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = sin(pi x)."""
        return torch.sin(torch.pi * x)

    def lift(self, x: Tensor) -> Tensor:
        """Return 0, the boundary value."""
        return torch.zeros_like(x)

    def bubble(self, x: Tensor) -> Tensor:
        """Return 4 x (1 - x)."""
        return 4 * x * (1 - x)
