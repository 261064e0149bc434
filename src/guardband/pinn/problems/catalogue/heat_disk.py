"""The heat equation on a disk: a warm spot off the center that cools through the rim."""

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
"""The first zeros of the Bessel functions J0 and J1."""


@kept
@dataclass(frozen=True)
class HeatDisk(Problem):
    """u_t = k (u_xx + u_yy) on the unit disk, u = 0 on its rim, from J0(a r) + 2 J1(b r) x / r.

    a and b are the first zeros of J0 and J1, so each term keeps its shape and decays at its own rate: the
    warm spot moves to the center as it cools. Smooth, unique, with a curved boundary.

    >>> from guardband import pinn
    >>> pinn.problems.HeatDisk().observe(300, noise=0.05)
    Observations(300 points, x (300, 3), y (300, 1))
    """

    diffusivity: float | Unknown = 0.1

    domain: ClassVar[Domain] = Disk((0, 0), 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t - k (u_xx + u_yy)."""
        return u.d("t") - self.diffusivity * u.laplacian

    def conditions(self) -> list[Condition]:
        """u = 0 on the rim; the two terms at the start."""
        return [Dirichlet(0.0), Initial(self.solution)]

    def solution(self, x: Tensor) -> Tensor:
        """u = exp(-k a^2 t) J0(a r) + 2 exp(-k b^2 t) J1(b r) x / r."""
        r2, k, t = x[:, :1] ** 2 + x[:, 1:2] ** 2, self.diffusivity, x[:, 2:]
        middle = torch.exp(-k * ROUND**2 * t) * _bessel(0, ROUND**2 * r2 / 4)
        side = torch.exp(-k * SIDEWAYS**2 * t) * _bessel(1, SIDEWAYS**2 * r2 / 4)
        return middle + SIDEWAYS * side * x[:, :1]


def _bessel(order: int, z: Tensor) -> Tensor:
    """J_order(2 sqrt(z)) / sqrt(z)^order by its power series, for z up to some 4."""
    found = torch.zeros_like(z)
    for k in reversed(range(24)):
        found = (-1) ** k / (math.factorial(k) * math.factorial(k + order)) + z * found
    return found
