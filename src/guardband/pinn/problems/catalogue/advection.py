"""The advection equation on a ring: a wave that travels and does not change."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Initial, Periodic
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Advection1D(Problem):
    """u_t + c u_x = 0 on a ring of length 2 pi, from sin(x); the solution is sin(x - c t).

    Smooth, unique, and known for how PINNs fail on it (Krishnapriyan and others, 2021): at c = 30 the wave
    goes five times around, and a network trained on all times at once settles on u near 0 away from the
    start, where the residual is small too.

    >>> from guardband import pinn
    >>> pinn.problems.Advection1D(speed=10.0).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    speed: float | Unknown = 30.0

    domain: ClassVar[Domain] = Segment(0, 2 * math.pi) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t + c u_x."""
        return u.d("t") + self.speed * u.d("x")

    def conditions(self) -> list[Condition]:
        """Periodic in x; sin(x) at the start."""
        return [Periodic("x"), Initial(lambda x: torch.sin(x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """u = sin(x - c t)."""
        return torch.sin(x[:, :1] - self.speed * x[:, 1:])
