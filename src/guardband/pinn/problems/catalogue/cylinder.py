"""Steady flow around a cylinder in a channel."""

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
    """Steady flow around a cylinder in a channel: the DFG benchmark 2D-1 at Re = 20.

    u u_x + v u_y + p_x = nu (u_xx + u_yy), likewise for v, and u_x + v_y = 0 (Schaefer and Turek, 1996), with
    lengths in m, velocities in m/s and density 1. At the outlet nu u_x = p and v_x = 0. The reference
    solution was computed numerically; its drag and lift are in `reference.checks`.

    Parameters
    ----------
    viscosity
        The kinematic viscosity nu.

    Notes
    -----
    The solution is smooth and unique, but hard to learn: the boundary layers at the cylinder are thin, and
    the flow in most of the channel is hardly affected by the cylinder.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Cylinder().observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 3))
    """

    viscosity: float | Unknown = 0.001

    domain: ClassVar[Domain] = Rectangle((0, 0), (2.2, 0.41)) - Disk((0.2, 0.2), 0.05, name="cylinder")
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "p")
    reference: ClassVar[Reference] = Reference("cylinder")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Return the residuals of momentum and mass conservation."""
        return navier_stokes(w, self.viscosity)

    def conditions(self) -> list[Condition]:
        """Return the inflow on the left, no slip on the walls and the cylinder, and the outlet."""
        return [
            Dirichlet(self.inflow, on="left", output=("u", "v")),
            Dirichlet(0.0, on=("top", "bottom", "cylinder"), output=("u", "v")),
            Outlet(self.viscosity, on="right"),
        ]

    def inflow(self, x: Tensor) -> Tensor:
        """Return the parabolic inflow velocity, 0.3 in the middle and 0.2 on average.

        Parameters
        ----------
        x
            Points, shape (n, 2).

        Returns
        -------
        Tensor
            The components u and v, shape (n, 2).
        """
        y = x[:, 1:]
        return torch.cat([4 * 0.3 * y * (0.41 - y) / 0.41**2, torch.zeros_like(y)], dim=1)

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution."""
        return self.reference.of(self, x)


@dataclass(frozen=True)
class Outlet(Condition):
    """A stress-free outlet: nu du/dn = p n."""

    viscosity: float | Unknown
    on: Where

    def residual(self, x: Tensor, w: Field) -> Tensor:
        """Return nu u_x - p and nu v_x."""
        along = self.viscosity * w["u"].outward - w["p"].value
        return torch.cat([along, self.viscosity * w["v"].outward], dim=1)
