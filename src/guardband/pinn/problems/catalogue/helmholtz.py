"""The Helmholtz equation in a cube: standing waves with a source."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Box, Domain
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Helmholtz3D(Problem):
    """laplacian(u) + k^2 u = f in [0, 1]^3, u = 0 on all faces; the solution is a product of sines.

    Smooth. Where k^2 is a sum of three squares of multiples of pi, the cube resonates and the solution is
    not unique: pi^2 (1 + 1 + 1) is the first. PINNs find large waves and miss fine ones.

    >>> from guardband import pinn
    >>> pinn.problems.Helmholtz3D(wavenumber=6.0).observe(600, noise=0.05)
    Observations(600 points, x (600, 3), y (600, 1))
    """

    wavenumber: float | Unknown = torch.pi

    domain: ClassVar[Domain] = Box((0, 0, 0), (1, 1, 1))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """laplacian(u) + k^2 u - f."""
        return u.laplacian + self.wavenumber**2 * u.value - self.forcing(x)

    def conditions(self) -> list[Condition]:
        """u = 0 on all six faces."""
        return [Dirichlet(self.lift)]

    def forcing(self, x: Tensor) -> Tensor:
        """f = (k^2 - 3 pi^2) u."""
        return (self.wavenumber**2 - 3 * torch.pi**2) * self.solution(x)

    def solution(self, x: Tensor) -> Tensor:
        """u = sin(pi x) sin(pi y) sin(pi z)."""
        return torch.sin(torch.pi * x).prod(dim=1, keepdim=True)

    def lift(self, x: Tensor) -> Tensor:
        """Zero, as on the faces."""
        return torch.zeros_like(x[:, :1])

    def bubble(self, x: Tensor) -> Tensor:
        """64 x (1 - x) y (1 - y) z (1 - z)."""
        return (4 * x * (1 - x)).prod(dim=1, keepdim=True)
