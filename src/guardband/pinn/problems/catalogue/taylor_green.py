"""Decaying Taylor-Green vortices."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Rectangle, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.catalogue.navier_stokes import navier_stokes
from guardband.pinn.problems.conditions import Condition, Initial, Periodic, PointValue
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class TaylorGreen2D(Problem):
    """Decaying Taylor-Green vortices: unsteady Navier-Stokes equations for u, v, p on a periodic square.

    u_t + u u_x + v u_y + p_x = nu (u_xx + u_yy), likewise for v, and u_x + v_y = 0, on [0, 2 pi]^2 for t in
    [0, 2]. The exact solution is that of Taylor and Green (1937).

    Parameters
    ----------
    viscosity
        The kinematic viscosity nu.

    Notes
    -----
    The solution is smooth. The pressure is unique once it is prescribed at one point for all times; here it
    is prescribed at the origin at 41 times.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.TaylorGreen2D().observe(300, noise=0.05)
    Observations(300 points, x (300, 3), y (300, 3))
    """

    viscosity: float | Unknown = 0.01

    domain: ClassVar[Domain] = Rectangle((0, 0), (2 * math.pi, 2 * math.pi)) * Time(0, 2)
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "p")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Return the residuals of unsteady momentum and mass conservation."""
        steady = navier_stokes(w, self.viscosity)
        return {
            "momentum x": w["u"].d("t") + steady["momentum x"],
            "momentum y": w["v"].d("t") + steady["momentum y"],
            "mass": steady["mass"],
        }

    def conditions(self) -> list[Condition]:
        """Return the periodic conditions in x and y, the initial velocity, and the pressure at the origin."""
        times = [(0.0, 0.0, 0.05 * i) for i in range(41)]
        return [
            Periodic("x"),
            Periodic("y"),
            Initial(lambda x: self.solution(x)[:, :2], output=("u", "v")),
            PointValue(times, lambda x: self.solution(x)[:, 2:], output="p"),
        ]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution.

        Notes
        -----
        u = cos(x) sin(y) e, v = -sin(x) cos(y) e and p = -(cos(2 x) + cos(2 y)) e^2 / 4, with e = exp(-2 nu
        t).
        """
        (x, y, t) = x.split(1, dim=1)
        e = torch.exp(-2 * self.viscosity * t)
        u, v = torch.cos(x) * torch.sin(y) * e, -torch.sin(x) * torch.cos(y) * e
        return torch.cat([u, v, -(torch.cos(2 * x) + torch.cos(2 * y)) * e**2 / 4], dim=1)
