"""Equations as people write them: their docstrings say in one line each what `residual` should be.

`u_xx` is a second derivative, `u * u_x` a product; the line is read by sympy in `test_equations.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wings import pinn, torch

if TYPE_CHECKING:
    from torch import Tensor

    from guardband.pinn.problems import Condition, Field


@dataclass(frozen=True)
class Heat(pinn.Problem):
    """u_t - diffusivity * u_xx = 0"""

    diffusivity: float = 0.1
    domain = pinn.Segment(0, 1, names=("x",)) * pinn.Time(0, 2)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") - self.diffusivity * u.laplacian

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(0.0), pinn.Initial(lambda x: torch.sin(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        decay = torch.exp(-self.diffusivity * torch.pi**2 * x[:, 1:])
        return decay * torch.sin(torch.pi * x[:, :1])


@dataclass(frozen=True)
class Wave(pinn.Problem):
    """u_tt - speed**2 * (u_xx + u_yy) = 0"""

    speed: float = 1.5
    domain = pinn.Rectangle((0, 0), (1, 1)) * pinn.Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t", "t") - self.speed**2 * u.laplacian

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(0.0), pinn.Initial(self.solution, velocity=0.0)]

    def solution(self, x: Tensor) -> Tensor:
        shape = torch.sin(torch.pi * x[:, :2]).prod(1, keepdim=True)
        return shape * torch.cos(math.sqrt(2) * torch.pi * self.speed * x[:, 2:])


@dataclass(frozen=True)
class Burgers(pinn.Problem):
    """u_t + u * u_x - viscosity * u_xx = 0"""

    viscosity: float = 0.05
    domain = pinn.Segment(-1, 1) * pinn.Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") + u.value * u.d("x") - self.viscosity * u.d("x", "x")

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(self.solution), pinn.Initial(self.solution)]

    def solution(self, x: Tensor) -> Tensor:
        """A front that travels at the speed 1/2."""
        return 0.5 - 0.5 * torch.tanh((x[:, :1] - 0.5 * x[:, 1:]) / (4 * self.viscosity))


@dataclass(frozen=True)
class Kovasznay(pinn.Problem):
    """u * u_x + v * u_y + p_x - (u_xx + u_yy) / reynolds = 0
    u * v_x + v * v_y + p_y - (v_xx + v_yy) / reynolds = 0
    u_x + v_y = 0
    """

    reynolds: float = 20.0
    domain = pinn.Rectangle((-0.5, -0.5), (1.0, 1.5))
    outputs = ("u", "v", "p")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        u, v, p = w["u"], w["v"], w["p"]
        return {
            "momentum x": u.value * u.d("x") + v.value * u.d("y") + p.d("x") - u.laplacian / self.reynolds,
            "momentum y": u.value * v.d("x") + v.value * v.d("y") + p.d("y") - v.laplacian / self.reynolds,
            "mass": w["u", "v"].divergence,
        }

    def conditions(self) -> list[Condition]:
        return [
            pinn.Dirichlet(lambda x: self.solution(x)[:, :2], output=("u", "v")),
            pinn.PointValue((0.0, 0.0), 0.0, output="p"),
        ]

    def solution(self, x: Tensor) -> Tensor:
        rate = self.reynolds / 2 - math.sqrt(self.reynolds**2 / 4 + 4 * math.pi**2)
        growth, angle = torch.exp(rate * x[:, :1]), 2 * math.pi * x[:, 1:]
        u = 1 - growth * torch.cos(angle)
        v = rate / (2 * math.pi) * growth * torch.sin(angle)
        return torch.cat([u, v, 0.5 * (1 - growth**2)], dim=1)


@dataclass(frozen=True)
class Beam(pinn.Problem):
    """u_tt + stiffness * u_xxxx = 0"""

    stiffness: float = 0.1
    domain = pinn.Segment(0, 1) * pinn.Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t", "t") + self.stiffness * u.d("x", "x", "x", "x")

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(0.0), pinn.Initial(self.solution, velocity=0.0)]

    def solution(self, x: Tensor) -> Tensor:
        rate = math.pi**2 * math.sqrt(self.stiffness)
        return torch.sin(math.pi * x[:, :1]) * torch.cos(rate * x[:, 1:])


@dataclass(frozen=True)
class TwoSpecies(pinn.Problem):
    """prey_t - 0.02 * prey_xx - prey * (1 - prey) + feeding * prey * hunter = 0
    hunter_t - 0.01 * hunter_xx - feeding * prey * hunter + 0.3 * hunter = 0
    """

    feeding: float = 1.2
    domain = pinn.Segment(0, 2) * pinn.Time(0, 3)
    outputs = ("prey", "hunter")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        prey, hunter = w["prey"], w["hunter"]
        eaten = self.feeding * prey.value * hunter.value
        return {
            "prey": prey.d("t") - 0.02 * prey.laplacian - prey.value * (1 - prey.value) + eaten,
            "hunter": hunter.d("t") - 0.01 * hunter.laplacian - eaten + 0.3 * hunter.value,
        }

    def conditions(self) -> list[Condition]:
        return [
            pinn.Periodic("x"),
            pinn.Initial(lambda x: 0.5 + 0.3 * torch.cos(torch.pi * x[:, :1]), output="prey"),
            pinn.Initial(0.2, output="hunter"),
        ]


@dataclass(frozen=True)
class Cylinder(pinn.Problem):
    """u * u_x + v * u_y + p_x - viscosity * (u_xx + u_yy) = 0
    u * v_x + v * v_y + p_y - viscosity * (v_xx + v_yy) = 0
    u_x + v_y = 0
    """

    viscosity: float = 0.001
    domain = pinn.Rectangle((0, 0), (2.2, 0.41), names=("x", "y")) - pinn.Disk(
        (0.2, 0.2), 0.05, name="cylinder"
    )
    outputs = ("u", "v", "p")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        u, v, p = w["u"], w["v"], w["p"]
        return {
            "momentum x": u.value * u.d("x") + v.value * u.d("y") + p.d("x") - self.viscosity * u.laplacian,
            "momentum y": u.value * v.d("x") + v.value * v.d("y") + p.d("y") - self.viscosity * v.laplacian,
            "mass": w["u", "v"].divergence,
        }

    def inflow(self, x: Tensor) -> Tensor:
        y = x[:, 1:]
        return torch.cat([1.2 * y * (0.41 - y) / 0.41**2, torch.zeros_like(y)], dim=1)

    def conditions(self) -> list[Condition]:
        return [
            pinn.Dirichlet(self.inflow, on="left", output=("u", "v")),
            pinn.Dirichlet(0.0, on=("top", "bottom", "cylinder"), output=("u", "v")),
            pinn.Dirichlet(0.0, on="right", output="p"),
        ]


ALL = [Heat(), Wave(), Burgers(), Kovasznay(), Beam(), TwoSpecies(), Cylinder()]
