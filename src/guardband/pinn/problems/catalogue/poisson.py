"""The Poisson equation on a line: u'' = f."""

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
    """u'' = -pi^2 sin(pi x) on [0, 1] with u = 0 at both ends; the solution is sin(pi x).

    Smooth, unique, and the easiest here.

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
        """u'' - f."""
        return u.d("x", "x") - self.forcing(x)

    def conditions(self) -> list[Condition]:
        """u = 0 at both ends."""
        return [Dirichlet(self.solution)]

    def forcing(self, x: Tensor) -> Tensor:
        """f = -pi^2 sin(pi x)."""
        return -(torch.pi**2) * torch.sin(torch.pi * x)

    def solution(self, x: Tensor) -> Tensor:
        """u = sin(pi x)."""
        return torch.sin(torch.pi * x)

    def lift(self, x: Tensor) -> Tensor:
        """Zero, as at the ends."""
        return torch.zeros_like(x)

    def bubble(self, x: Tensor) -> Tensor:
        """4 x (1 - x)."""
        return 4 * x * (1 - x)
