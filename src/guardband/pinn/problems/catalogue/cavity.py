"""The lid-driven cavity: fluid in a square that is driven by a moving lid."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Rectangle
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.catalogue.navier_stokes import navier_stokes
from guardband.pinn.problems.conditions import Condition, Dirichlet, PointValue
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Cavity(Problem):
    """The steady lid-driven cavity: Navier-Stokes equations for u, v, p on the unit square.

    u u_x + v u_y + p_x = (u_xx + u_yy) / Re, likewise for v, and u_x + v_y = 0. The lid moves with the
    velocity u = 16 x^2 (1 - x)^2; the other walls are at rest. The reference solution was computed
    numerically for Re = 100 and Re = 400.

    Parameters
    ----------
    reynolds
        The Reynolds number Re.

    Notes
    -----
    The velocity of this lid vanishes at the corners, so the solution is smooth there. The profiles of Ghia et
    al. (1982) belong to a different problem, in which the lid moves uniformly. PINNs can converge to flows
    with a small loss that are far from the solution, and more often as Re grows.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Cavity(reynolds=400).observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 3))
    """

    reynolds: float | Unknown = 100.0

    domain: ClassVar[Domain] = Rectangle((0, 0), (1, 1))
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "p")

    @property
    def reference(self) -> Reference:
        """The reference solution for this Reynolds number."""
        if self.reynolds not in (100, 400):
            raise NotImplementedError(
                f"The reference was computed for Cavity(reynolds=100) and 400, got {self.reynolds:g}. For "
                "other Reynolds numbers define `solution(self, x)`."
            )
        return Reference(f"cavity_{self.reynolds:g}")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Return the residuals of momentum and mass conservation."""
        return navier_stokes(w, 1 / self.reynolds)

    def conditions(self) -> list[Condition]:
        """Return the moving lid, the walls at rest, and p = 0 at the origin."""
        return [
            Dirichlet(self.lid, on="top", output=("u", "v")),
            Dirichlet(0.0, on=("left", "right", "bottom"), output=("u", "v")),
            PointValue((0.0, 0.0), 0.0, output="p"),
        ]

    def lid(self, x: Tensor) -> Tensor:
        """Return the velocity of the lid.

        Parameters
        ----------
        x
            Points, shape (n, 2).

        Returns
        -------
        Tensor
            The components u and v, shape (n, 2).
        """
        speed = 16 * x[:, :1] ** 2 * (1 - x[:, :1]) ** 2
        return torch.cat([speed, torch.zeros_like(speed)], dim=1)

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution."""
        return self.reference(x)
