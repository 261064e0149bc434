"""The heat equation on a disk."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Disk, Domain, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Initial
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown

ROUND, SIDEWAYS = 2.404825557695773, 3.8317059702075125
"""The first positive zeros of the Bessel functions J0 and J1."""


@kept
@dataclass(frozen=True)
class HeatDisk(Problem):
    """The heat equation u_t = k (u_xx + u_yy) on the unit disk, with u = 0 on its rim.

    The initial values are J0(a r) + 2 J1(b r) x / r, where a and b are the first positive zeros of the Bessel
    functions J0 and J1, for t in [0, 1]. Each term keeps its shape and decays at its own rate, so the warm
    spot moves to the center as it cools.

    Parameters
    ----------
    diffusivity
        The thermal diffusivity k.

    Notes
    -----
    The solution is smooth and unique. The boundary is curved.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.HeatDisk().observe(300, noise=0.05)
    Observations(300 points, x (300, 3), y (300, 1))
    """

    diffusivity: float | Unknown = 0.1

    domain: ClassVar[Domain] = Disk((0, 0), 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t - k (u_xx + u_yy)."""
        return u.d("t") - self.diffusivity * u.laplacian

    def conditions(self) -> list[Condition]:
        """Return u = 0 on the rim, and the initial values."""
        return [Dirichlet(0.0), Initial(self.solution)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = exp(-k a^2 t) J0(a r) + 2 exp(-k b^2 t) J1(b r) x / r."""
        r2, k, t = x[:, :1] ** 2 + x[:, 1:2] ** 2, self.diffusivity, x[:, 2:]
        middle = torch.exp(-k * ROUND**2 * t) * _bessel(0, ROUND**2 * r2 / 4)
        side = torch.exp(-k * SIDEWAYS**2 * t) * _bessel(1, SIDEWAYS**2 * r2 / 4)
        return middle + SIDEWAYS * side * x[:, :1]


def _bessel(order: int, z: Tensor) -> Tensor:
    """J_order(2 sqrt(z)) / sqrt(z)^order by its power series, accurate for z up to about 4."""
    found = torch.zeros_like(z)
    for k in reversed(range(24)):
        found = (-1) ** k / (math.factorial(k) * math.factorial(k + order)) + z * found
    return found
