"""The heat equation on a rod: a warm middle that cools."""

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
class Heat1D(Problem):
    """u_t = k u_xx on [0, 1], u = 0 at both ends, from sin(pi x); the solution is a sine that decays.

    Smooth, unique, and easy: a first problem in time. At the end u is a fiftieth of what it was, so look at
    the error there as well.

    >>> from guardband import pinn
    >>> pinn.problems.Heat1D(diffusivity=0.1).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusivity: float | Unknown = 0.4

    domain: ClassVar[Domain] = Segment(0, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t - k u_xx."""
        return u.d("t") - self.diffusivity * u.laplacian

    def conditions(self) -> list[Condition]:
        """u = 0 at both ends; sin(pi x) at the start."""
        return [Dirichlet(0.0), Initial(lambda x: torch.sin(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """u = exp(-k pi^2 t) sin(pi x)."""
        return torch.exp(-self.diffusivity * torch.pi**2 * x[:, 1:]) * torch.sin(torch.pi * x[:, :1])
