"""The Korteweg-de Vries equation: shallow-water waves that break up into solitons."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Initial, Periodic
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class KortewegDeVries(Problem):
    """The Korteweg-de Vries equation u_t + u u_x + d^2 u_xxx = 0 on a periodic interval.

    The domain is [-1, 1] x [0, 1] with u(x, 0) = cos(pi x), the setup of Zabusky and Kruskal (1965). The
    reference solution was computed numerically.

    Parameters
    ----------
    dispersion
        The coefficient d.

    Notes
    -----
    The solution is unique and smooth. From t = 0.4 on it consists of solitons of width 0.1 that pass through
    each other. PINNs capture the largest waves and miss the fine ones.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.KortewegDeVries().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    dispersion: float | Unknown = 0.022

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)
    reference: ClassVar[Reference] = Reference("korteweg_de_vries")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t + u u_x + d^2 u_xxx."""
        return u.d("t") + u.value * u.d("x") + self.dispersion**2 * u.d("x", "x", "x")

    def conditions(self) -> list[Condition]:
        """Return the periodic boundary condition in x and u(x, 0) = cos(pi x)."""
        return [Periodic("x"), Initial(lambda x: torch.cos(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution."""
        return self.reference.of(self, x)
