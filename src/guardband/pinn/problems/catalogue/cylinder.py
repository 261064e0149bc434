"""Flow around a cylinder in a channel."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Disk, Domain, Rectangle
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.catalogue.navier_stokes import navier_stokes
from guardband.pinn.problems.conditions import Condition, Dirichlet, Where
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Cylinder(Problem):
    """The steady Navier-Stokes equations for u, v, p around a cylinder in a channel, at Re 20: DFG 2D-1.

    u u_x + v u_y + p_x = nu (u_xx + u_yy), the same for v, u_x + v_y = 0 (Schaefer and Turek, 1996; lengths
    in m, velocities in m/s, the density is 1). At the outlet nu u_x = p and v_x = 0. Smooth, unique, and
    hard: the layers at the cylinder are thin, and most of the channel knows nothing of it. The reference is
    computed; its drag and lift stand in `reference.checks`.

    >>> from guardband import pinn
    >>> pinn.problems.Cylinder().observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 3))
    """

    viscosity: float | Unknown = 0.001

    domain: ClassVar[Domain] = Rectangle((0, 0), (2.2, 0.41)) - Disk((0.2, 0.2), 0.05, name="cylinder")
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "p")
    reference: ClassVar[Reference] = Reference("cylinder")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Momentum and mass."""
        return navier_stokes(w, self.viscosity)

    def conditions(self) -> list[Condition]:
        """A parabola on the left, nothing moves at walls and cylinder, no force on the right."""
        return [
            Dirichlet(self.inflow, on="left", output=("u", "v")),
            Dirichlet(0.0, on=("top", "bottom", "cylinder"), output=("u", "v")),
            Outlet(self.viscosity, on="right"),
        ]

    def inflow(self, x: Tensor) -> Tensor:
        """The velocity on the left, (n, 2), .3 in the middle and .2 on average."""
        y = x[:, 1:]
        return torch.cat([4 * 0.3 * y * (0.41 - y) / 0.41**2, torch.zeros_like(y)], dim=1)

    def solution(self, x: Tensor) -> Tensor:
        """The reference."""
        return self.reference.of(self, x)


@dataclass(frozen=True)
class Outlet(Condition):
    """Where the fluid leaves nothing holds it back: nu du/dn = p n."""

    viscosity: float | Unknown
    on: Where

    def residual(self, x: Tensor, w: Field) -> Tensor:
        """nu u_x - p beside nu v_x."""
        along = self.viscosity * w["u"].outward - w["p"].value
        return torch.cat([along, self.viscosity * w["v"].outward], dim=1)
