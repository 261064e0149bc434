"""The Kuramoto-Sivashinsky equation: a flame front on its way to chaos."""

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
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class KuramotoSivashinsky(Problem):
    """u_t + a u u_x + b u_xx + c u_xxxx = 0 on a ring of 2 pi, from cos(x) (1 + sin(x)), for t up to .4.

    a = 100 / 16, b = 100 / 16^2, c = 100 / 16^4, as in the literature on PINNs. Unique. Two steep flanks
    stand from t = .1 on, new waves grow from .3 on, and later the field is chaotic: small errors grow, and
    no method follows it for long. Published PINNs are off by .004 to .16. The reference is computed.

    >>> from guardband import pinn
    >>> pinn.problems.KuramotoSivashinsky().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    steepening: float | Unknown = 100 / 16
    growth: float | Unknown = 100 / 16**2
    damping: float | Unknown = 100 / 16**4

    domain: ClassVar[Domain] = Segment(0, 2 * math.pi) * Time(0, 0.4)
    reference: ClassVar[Reference] = Reference("kuramoto_sivashinsky")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t + a u u_x + b u_xx + c u_xxxx."""
        return (
            u.d("t")
            + self.steepening * u.value * u.d("x")
            + self.growth * u.laplacian
            + self.damping * u.d("x", "x", "x", "x")
        )

    def conditions(self) -> list[Condition]:
        """Periodic in x; cos(x) (1 + sin(x)) at the start."""
        return [Periodic("x"), Initial(lambda x: torch.cos(x[:, :1]) * (1 + torch.sin(x[:, :1])))]

    def solution(self, x: Tensor) -> Tensor:
        """The reference."""
        return self.reference.of(self, x)
