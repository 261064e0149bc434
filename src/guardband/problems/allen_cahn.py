"""The steady Allen-Cahn equation on a square: phases that diffuse and separate."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.geometry import Domain, Rectangle
from guardband.kept import kept
from guardband.problems.base import Problem
from guardband.problems.conditions import Condition, Dirichlet
from guardband.problems.field import Field


@kept
@dataclass(frozen=True)
class AllenCahn2D(Problem):
    """lambda (u_xx + u_yy) + u (u^2 - 1) = f on [-1, 1]^2; the solution is sin(pi x) sin(pi y).

    >>> import guardband as gb
    >>> gb.problems.AllenCahn2D(diffusion=0.01).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float = 0.05

    domain: ClassVar[Domain] = Rectangle((-1, -1), (1, 1))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """lambda laplacian(u) + u (u^2 - 1) - f."""
        return self.diffusion * u.laplacian + u.value * (u.value**2 - 1) - self.forcing(x)

    def conditions(self) -> list[Condition]:
        """u as the solution on all four sides."""
        return [Dirichlet(self.solution)]

    def forcing(self, x: Tensor) -> Tensor:
        """f, from the solution: -2 pi^2 lambda u + u (u^2 - 1)."""
        u = self.solution(x)
        return -2 * torch.pi**2 * self.diffusion * u + u * (u**2 - 1)

    def solution(self, x: Tensor) -> Tensor:
        """u = sin(pi x) sin(pi y)."""
        return torch.sin(torch.pi * x).prod(dim=1, keepdim=True)

    def lift(self, x: Tensor) -> Tensor:
        """Zero, as on the sides."""
        return torch.zeros_like(x[:, :1])

    def bubble(self, x: Tensor) -> Tensor:
        """(1 - x^2) (1 - y^2)."""
        return (1 - x**2).prod(dim=1, keepdim=True)
