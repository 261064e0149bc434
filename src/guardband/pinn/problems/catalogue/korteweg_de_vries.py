"""The Korteweg-de Vries equation: waves in shallow water that break up into solitons."""

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
    """u_t + u u_x + d^2 u_xxx = 0 on [-1, 1], periodic, from cos(pi x), as Zabusky and Kruskal had it (1965).

    Unique; smooth, with solitons .1 wide from t = .4 on. A third derivative, and waves that pass through each
    other: PINNs follow the first of them and lose the fine ones. The reference is computed.

    >>> from guardband import pinn
    >>> pinn.problems.KortewegDeVries().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    dispersion: float | Unknown = 0.022

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)
    reference: ClassVar[Reference] = Reference("korteweg_de_vries")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t + u u_x + d^2 u_xxx."""
        return u.d("t") + u.value * u.d("x") + self.dispersion**2 * u.d("x", "x", "x")

    def conditions(self) -> list[Condition]:
        """Periodic in x; cos(pi x) at the start."""
        return [Periodic("x"), Initial(lambda x: torch.cos(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """The reference."""
        return self.reference.of(self, x)
