"""The Allen-Cahn equation of phase separation: time-dependent on a periodic interval, steady on a square."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Rectangle, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Initial, Periodic
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class AllenCahn1D(Problem):
    """The Allen-Cahn equation u_t = lambda u_xx + r (u - u^3) on a periodic interval.

    The domain is [-1, 1] x [0, 1] with u(x, 0) = x^2 cos(pi x). The reference solution was computed
    numerically.

    Parameters
    ----------
    diffusion
        The diffusion coefficient lambda.
    reaction
        The reaction rate r.

    Notes
    -----
    The solution is unique, and the equation is stiff: u tends to 1 and -1, with interfaces of width 0.01
    between the two values. The periodic extension of the initial values has a kink, which diffusion smooths
    at once. PINNs that are trained on the whole time interval at once have a final relative error of about
    0.5 (Wight and Zhao, 2020).

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.AllenCahn1D().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float | Unknown = 1e-4
    reaction: float | Unknown = 5.0

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)
    reference: ClassVar[Reference] = Reference("allen_cahn")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t - lambda u_xx - r (u - u^3)."""
        return u.d("t") - self.diffusion * u.laplacian - self.reaction * (u.value - u.value**3)

    def conditions(self) -> list[Condition]:
        """Return the periodic boundary condition in x and u(x, 0) = x^2 cos(pi x)."""
        return [Periodic("x"), Initial(lambda x: x[:, :1] ** 2 * torch.cos(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution."""
        return self.reference.of(self, x)


@kept
@dataclass(frozen=True)
class AllenCahn2D(Problem):
    """The steady Allen-Cahn equation lambda (u_xx + u_yy) + u (u^2 - 1) = f on a square.

    The domain is [-1, 1]^2. The source f and the Dirichlet values are those of the exact solution u = sin(pi
    x) sin(pi y).

    Parameters
    ----------
    diffusion
        The diffusion coefficient lambda.

    Notes
    -----
    The solution is smooth but not unique: the equation has several exact solutions with the same boundary
    values. Without data, the initial weights decide which of them a network finds.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.AllenCahn2D(diffusion=0.01).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float | Unknown = 0.05

    domain: ClassVar[Domain] = Rectangle((-1, -1), (1, 1))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return lambda (u_xx + u_yy) + u (u^2 - 1) - f."""
        return self.diffusion * u.laplacian + u.value * (u.value**2 - 1) - self.forcing(x)

    def conditions(self) -> list[Condition]:
        """Return the Dirichlet condition on all four sides."""
        return [Dirichlet(self.solution)]

    def forcing(self, x: Tensor) -> Tensor:
        """Return the source f = -2 pi^2 lambda u + u (u^2 - 1).

        Parameters
        ----------
        x
            Points, shape (n, 2).

        Returns
        -------
        Tensor
            The source, shape (n, 1).
        """
        u = self.solution(x)
        return -2 * torch.pi**2 * self.diffusion * u + u * (u**2 - 1)

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = sin(pi x) sin(pi y)."""
        return torch.sin(torch.pi * x).prod(dim=1, keepdim=True)

    def lift(self, x: Tensor) -> Tensor:
        """Return 0, the boundary value."""
        return torch.zeros_like(x[:, :1])

    def bubble(self, x: Tensor) -> Tensor:
        """Return (1 - x^2) (1 - y^2)."""
        return (1 - x**2).prod(dim=1, keepdim=True)
