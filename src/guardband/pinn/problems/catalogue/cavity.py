"""A box of fluid that is dragged along by its lid."""

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
    """The steady Navier-Stokes equations for u, v, p in a unit square whose lid moves: u = 16 x^2 (1 - x)^2.

    u u_x + v u_y + p_x = (u_xx + u_yy) / Re, the same for v, u_x + v_y = 0. The lid slows down towards its
    corners, so the solution is smooth there; profiles for a lid of even speed (Ghia and others, 1982) are of
    another problem. PINNs may settle on flows with a small loss that are far from the true one, the more so
    the larger Re. References are computed for Re 100 and 400.

    >>> from guardband import pinn
    >>> pinn.problems.Cavity(reynolds=400).observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 3))
    """

    reynolds: float | Unknown = 100.0

    domain: ClassVar[Domain] = Rectangle((0, 0), (1, 1))
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "p")

    @property
    def reference(self) -> Reference:
        """The computed solution."""
        if self.reynolds not in (100, 400):
            raise NotImplementedError(
                f"References were computed for Cavity(reynolds=100) and 400, got {self.reynolds:g}. For "
                "others write `solution(self, x)`."
            )
        return Reference(f"cavity_{self.reynolds:g}")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Momentum and mass."""
        return navier_stokes(w, 1 / self.reynolds)

    def conditions(self) -> list[Condition]:
        """The lid moves, the walls do not; the pressure is 0 in the corner at the origin."""
        return [
            Dirichlet(self.lid, on="top", output=("u", "v")),
            Dirichlet(0.0, on=("left", "right", "bottom"), output=("u", "v")),
            PointValue((0.0, 0.0), 0.0, output="p"),
        ]

    def lid(self, x: Tensor) -> Tensor:
        """The velocity of the lid, (n, 2)."""
        speed = 16 * x[:, :1] ** 2 * (1 - x[:, :1]) ** 2
        return torch.cat([speed, torch.zeros_like(speed)], dim=1)

    def solution(self, x: Tensor) -> Tensor:
        """The reference."""
        return self.reference(x)
