"""Euler-Bernoulli beams: a loaded cantilever at rest, and a simply supported beam that vibrates."""

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
    """A free end: bending moment and shear force vanish, u_xx = u_xxx = 0."""

    on: Where

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_xx and u_xxx."""
        return torch.cat([u.d("x", "x"), u.d("x", "x", "x")], dim=1)


@dataclass(frozen=True)
class Hinged(Condition):
    """A simple support: deflection and bending moment vanish, u = u_xx = 0."""

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u and u_xx."""
        return torch.cat([u.value, u.d("x", "x")], dim=1)


@kept
@dataclass(frozen=True)
class Beam(Problem):
    """The static cantilever beam u_xxxx = load on [0, 1], clamped on the left and free on the right.

    The exact solution is a polynomial of degree 4.

    Parameters
    ----------
    load
        The uniform load, divided by the bending stiffness.

    Notes
    -----
    The solution is smooth and unique. The fourth derivative makes the residual large where the deflection is
    small, so an unscaled loss can look converged far from the solution. The deflection at the free end is one
    eighth of the load.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Beam(load=-1.0).observe(30, noise=0.01)
    Observations(30 points, x (30, 1), y (30, 1))
    """

    load: float | Unknown = 1.0

    domain: ClassVar[Domain] = Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_xxxx - load."""
        return u.d("x", "x", "x", "x") - self.load

    def conditions(self) -> list[Condition]:
        """Return u = u_x = 0 on the left, and a free end on the right."""
        return [Dirichlet(0.0, on="left"), Neumann(0.0, on="left"), Free(on="right")]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = load (x^4 / 24 - x^3 / 6 + x^2 / 4)."""
        return self.load * (x**4 / 24 - x**3 / 6 + x**2 / 4)


@kept
@dataclass(frozen=True)
class VibratingBeam(Problem):
    """The vibrating beam u_tt + c^2 u_xxxx = 0 on [0, 1], simply supported at both ends.

    The beam is released from rest with u(x, 0) = sin(pi x), for t in [0, 1]. The exact solution is u = sin(pi
    x) cos(pi^2 c t).

    Parameters
    ----------
    stiffness
        The coefficient c.

    Notes
    -----
    The solution is smooth and unique. It oscillates with angular frequency pi^2 c, and its fourth derivative
    is about 100 times as large as u.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.VibratingBeam().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    stiffness: float | Unknown = 1.0

    domain: ClassVar[Domain] = Segment(0, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_tt + c^2 u_xxxx."""
        return u.d("t", "t") + self.stiffness**2 * u.d("x", "x", "x", "x")

    def conditions(self) -> list[Condition]:
        """Return simple supports at both ends, and the release from rest."""
        return [Hinged(), Initial(lambda x: torch.sin(torch.pi * x[:, :1]), velocity=0.0)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = sin(pi x) cos(pi^2 c t)."""
        return torch.sin(torch.pi * x[:, :1]) * torch.cos(math.pi**2 * self.stiffness * x[:, 1:])
