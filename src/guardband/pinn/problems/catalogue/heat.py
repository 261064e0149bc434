"""The heat equation on a rod."""

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
    """The heat equation u_t = k u_xx on a rod whose ends are kept at 0.

    The domain is [0, 1] x [0, 1] with u(x, 0) = sin(pi x). The exact solution is u = exp(-k pi^2 t) sin(pi
    x).

    Parameters
    ----------
    diffusivity
        The thermal diffusivity k.

    Notes
    -----
    The solution is smooth and unique, which makes this a good first time-dependent problem. With the default
    k the solution decays to one fiftieth of its initial size, so check the error at late times as well.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Heat1D(diffusivity=0.1).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusivity: float | Unknown = 0.4

    domain: ClassVar[Domain] = Segment(0, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t - k u_xx."""
        return u.d("t") - self.diffusivity * u.laplacian

    def conditions(self) -> list[Condition]:
        """Return u = 0 at both ends and u(x, 0) = sin(pi x)."""
        return [Dirichlet(0.0), Initial(lambda x: torch.sin(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = exp(-k pi^2 t) sin(pi x)."""
        return torch.exp(-self.diffusivity * torch.pi**2 * x[:, 1:]) * torch.sin(torch.pi * x[:, :1])
