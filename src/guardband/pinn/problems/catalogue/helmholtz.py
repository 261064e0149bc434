"""The Helmholtz equation in a cube."""

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
    """The Helmholtz equation u_xx + u_yy + u_zz + k^2 u = f in the unit cube, with u = 0 on all faces.

    The source f is that of the exact solution u = sin(pi x) sin(pi y) sin(pi z).

    Parameters
    ----------
    wavenumber
        The wavenumber k.

    Notes
    -----
    The solution is smooth. It is not unique at a resonance of the cube, that is, if k^2 is a sum of squares
    of three positive integer multiples of pi; the lowest resonance is k^2 = 3 pi^2. PINNs resolve long waves
    and miss short ones.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Helmholtz3D(wavenumber=6.0).observe(600, noise=0.05)
    Observations(600 points, x (600, 3), y (600, 1))
    """

    wavenumber: float | Unknown = torch.pi

    domain: ClassVar[Domain] = Box((0, 0, 0), (1, 1, 1))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_xx + u_yy + u_zz + k^2 u - f."""
        return u.laplacian + self.wavenumber**2 * u.value - self.forcing(x)

    def conditions(self) -> list[Condition]:
        """Return u = 0 on all six faces."""
        return [Dirichlet(self.lift)]

    def forcing(self, x: Tensor) -> Tensor:
        """Return the source f = (k^2 - 3 pi^2) u.

        Parameters
        ----------
        x
            Points, shape (n, 3).

        Returns
        -------
        Tensor
            The source, shape (n, 1).
        """
        return (self.wavenumber**2 - 3 * torch.pi**2) * self.solution(x)

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = sin(pi x) sin(pi y) sin(pi z)."""
        return torch.sin(torch.pi * x).prod(dim=1, keepdim=True)

    def lift(self, x: Tensor) -> Tensor:
        """Return 0, the boundary value."""
        return torch.zeros_like(x[:, :1])

    def bubble(self, x: Tensor) -> Tensor:
        """Return 64 x (1 - x) y (1 - y) z (1 - z)."""
        return (4 * x * (1 - x)).prod(dim=1, keepdim=True)
