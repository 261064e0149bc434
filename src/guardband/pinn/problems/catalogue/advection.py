"""The linear advection equation on a periodic interval."""

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
    """Linear advection of a sine wave, u_t + c u_x = 0, on a periodic interval.

    The domain is [0, 2 pi] x [0, 1] with periodic boundary conditions and u(x, 0) = sin(x). The exact
    solution is the traveling wave u = sin(x - c t).

    Parameters
    ----------
    speed
        The advection speed c. At the default c = 30 the wave crosses the domain about five times.

    Notes
    -----
    This is a well-known failure case of PINNs (Krishnapriyan et al., 2021). A network that is trained on the
    whole time interval at once tends to converge to u = 0 away from the initial line, since the residual is
    small there as well.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Advection1D(speed=10.0).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    speed: float | Unknown = 30.0

    domain: ClassVar[Domain] = Segment(0, 2 * math.pi) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t + c u_x."""
        return u.d("t") + self.speed * u.d("x")

    def conditions(self) -> list[Condition]:
        """Return the periodic boundary condition in x and u(x, 0) = sin(x)."""
        return [Periodic("x"), Initial(lambda x: torch.sin(x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = sin(x - c t)."""
        return torch.sin(x[:, :1] - self.speed * x[:, 1:])
