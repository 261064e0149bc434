"""The Allen-Cahn equation, phases that diffuse and separate: in time on a ring, and steady on a square."""

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
    """u_t = lambda u_xx + 5 (u - u^3) on [-1, 1], periodic, from x^2 cos(pi x).

    Unique and stiff: u goes to 1 and -1, and the walls between them are .01 wide. The start has a kink where
    the ring closes, which is gone at once. PINNs trained on all times at once end with an error of a half
    (Wight and Zhao, 2020). The reference is computed.

    >>> from guardband import pinn
    >>> pinn.problems.AllenCahn1D().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float | Unknown = 1e-4
    reaction: float | Unknown = 5.0

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)
    reference: ClassVar[Reference] = Reference("allen_cahn")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t - lambda u_xx - 5 (u - u^3)."""
        return u.d("t") - self.diffusion * u.laplacian - self.reaction * (u.value - u.value**3)

    def conditions(self) -> list[Condition]:
        """Periodic in x; x^2 cos(pi x) at the start."""
        return [Periodic("x"), Initial(lambda x: x[:, :1] ** 2 * torch.cos(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """The reference."""
        return self.reference.of(self, x)


@kept
@dataclass(frozen=True)
class AllenCahn2D(Problem):
    """lambda (u_xx + u_yy) + u (u^2 - 1) = f on [-1, 1]^2; the solution is sin(pi x) sin(pi y).

    Smooth, and not unique: with the same conditions the equation has several exact solutions, and which of
    them is found without data depends on where training starts.

    >>> from guardband import pinn
    >>> pinn.problems.AllenCahn2D(diffusion=0.01).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float | Unknown = 0.05

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
