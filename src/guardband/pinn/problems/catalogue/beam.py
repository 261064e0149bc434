"""Beams that bend (Euler and Bernoulli): one that is loaded and at rest, and one that swings."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Initial, Neumann, Where
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@dataclass(frozen=True)
class Free(Condition):
    """Neither moment nor shear force at an end: u_xx = u_xxx = 0."""

    on: Where

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_xx beside u_xxx."""
        return torch.cat([u.d("x", "x"), u.d("x", "x", "x")], dim=1)


@dataclass(frozen=True)
class Hinged(Condition):
    """An end that is held and may turn: u = u_xx = 0."""

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u beside u_xx."""
        return torch.cat([u.value, u.d("x", "x")], dim=1)


@kept
@dataclass(frozen=True)
class Beam(Problem):
    """u_xxxx = load on [0, 1], clamped on the left, free on the right; the solution is a polynomial.

    Smooth and unique. Four derivatives make the residual large where the field is small, so losses that are
    not scaled look converged far from the solution: u at the free end is an eighth of the load.

    >>> from guardband import pinn
    >>> pinn.problems.Beam(load=-1.0).observe(30, noise=0.01)
    Observations(30 points, x (30, 1), y (30, 1))
    """

    load: float | Unknown = 1.0

    domain: ClassVar[Domain] = Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_xxxx - load."""
        return u.d("x", "x", "x", "x") - self.load

    def conditions(self) -> list[Condition]:
        """u = u_x = 0 on the left; no force on the right."""
        return [Dirichlet(0.0, on="left"), Neumann(0.0, on="left"), Free(on="right")]

    def solution(self, x: Tensor) -> Tensor:
        """u = load (x^4 / 24 - x^3 / 6 + x^2 / 4)."""
        return self.load * (x**4 / 24 - x**3 / 6 + x**2 / 4)


@kept
@dataclass(frozen=True)
class VibratingBeam(Problem):
    """u_tt + c^2 u_xxxx = 0 on [0, 1], hinged at both ends, at rest in sin(pi x) at the start.

    Smooth and unique. It swings at the frequency pi^2 c; the fourth derivative is a hundred times u.

    >>> from guardband import pinn
    >>> pinn.problems.VibratingBeam().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    stiffness: float | Unknown = 1.0

    domain: ClassVar[Domain] = Segment(0, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_tt + c^2 u_xxxx."""
        return u.d("t", "t") + self.stiffness**2 * u.d("x", "x", "x", "x")

    def conditions(self) -> list[Condition]:
        """Hinged at both ends; released at rest."""
        return [Hinged(), Initial(lambda x: torch.sin(torch.pi * x[:, :1]), velocity=0.0)]

    def solution(self, x: Tensor) -> Tensor:
        """u = sin(pi x) cos(pi^2 c t)."""
        return torch.sin(torch.pi * x[:, :1]) * torch.cos(math.pi**2 * self.stiffness * x[:, 1:])
