"""The wave equation on a string."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Initial
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Wave1D(Problem):
    """The wave equation u_tt = c^2 u_xx on a string whose ends are fixed.

    The domain is [0, 1] x [0, 1]. The string is released from rest with u(x, 0) = sin(pi x) + sin(4 pi x) /
    2.

    Parameters
    ----------
    speed
        The wave speed c.

    Notes
    -----
    The solution is smooth and unique. Its second mode oscillates four times as fast as the fundamental. PINNs
    learn the slow mode first, and the boundary and initial conditions compete with the equation in the loss
    (Wang et al., 2022, with c = 2).

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Wave1D().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    speed: float | Unknown = 2.0

    domain: ClassVar[Domain] = Segment(0, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_tt - c^2 u_xx."""
        return u.d("t", "t") - self.speed**2 * u.laplacian

    def conditions(self) -> list[Condition]:
        """Return u = 0 at both ends, and the release from rest."""
        return [Dirichlet(0.0), Initial(lambda x: self._tone(1, x) + self._tone(4, x) / 2, velocity=0.0)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution, a sum of sin(k pi x) cos(k pi c t) over both modes."""
        ground, overtone = (torch.cos(k * math.pi * self.speed * x[:, 1:]) for k in (1, 4))
        return self._tone(1, x) * ground + self._tone(4, x) / 2 * overtone

    def _tone(self, k: int, x: Tensor) -> Tensor:
        return torch.sin(k * math.pi * x[:, :1])
