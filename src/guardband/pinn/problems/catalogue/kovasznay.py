"""Kovasznay flow: the laminar wake behind a grid, with an exact solution."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.arrays import root
from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Rectangle
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.catalogue.navier_stokes import navier_stokes
from guardband.pinn.problems.conditions import Condition, Dirichlet, PointValue
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Kovasznay(Problem):
    """Kovasznay flow: the laminar wake behind a grid, an exact Navier-Stokes solution for u, v, p.

    u u_x + v u_y + p_x = (u_xx + u_yy) / Re, likewise for v, and u_x + v_y = 0, on [-1/2, 1] x [-1/2, 3/2]
    (Kovasznay, 1948).

    Parameters
    ----------
    reynolds
        The Reynolds number Re.

    Notes
    -----
    The solution is smooth. The pressure is unique once it is prescribed at one point. PINNs do well on this
    problem, which makes it a good first system of equations.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Kovasznay().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 3))
    """

    reynolds: float | Unknown = 40.0

    domain: ClassVar[Domain] = Rectangle((-0.5, -0.5), (1.0, 1.5))
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "p")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Return the residuals of momentum and mass conservation."""
        return navier_stokes(w, 1 / self.reynolds)

    def conditions(self) -> list[Condition]:
        """Return the velocity on all sides, and p = 0 at the origin."""
        return [
            Dirichlet(lambda x: self.solution(x)[:, :2], output=("u", "v")),
            PointValue((0.0, 0.0), 0.0, output="p"),
        ]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution.

        Notes
        -----
        u = 1 - e cos(2 pi y), v = k / (2 pi) e sin(2 pi y) and p = (1 - e^2) / 2, with e = exp(k x) and k =
        Re / 2 - sqrt(Re^2 / 4 + 4 pi^2).
        """
        k = self.reynolds / 2 - root(self.reynolds**2 / 4 + 4 * math.pi**2)
        e, angle = torch.exp(k * x[:, :1]), 2 * math.pi * x[:, 1:]
        u, v = 1 - e * torch.cos(angle), k / (2 * math.pi) * e * torch.sin(angle)
        return torch.cat([u, v, (1 - e**2) / 2], dim=1)
