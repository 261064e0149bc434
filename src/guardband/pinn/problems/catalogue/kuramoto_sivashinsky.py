"""The Kuramoto-Sivashinsky equation: a flame front that becomes chaotic."""

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
    """The Kuramoto-Sivashinsky equation u_t + a u u_x + b u_xx + c u_xxxx = 0 on a periodic interval.

    The domain is [0, 2 pi] x [0, 0.4] with u(x, 0) = cos(x) (1 + sin(x)). The defaults a = 100 / 16, b = 100
    / 16^2 and c = 100 / 16^4 are those of the PINN literature. The reference solution was computed
    numerically.

    Parameters
    ----------
    steepening
        The coefficient a of the nonlinear term.
    growth
        The coefficient b, which makes long waves grow.
    damping
        The coefficient c, which damps short waves.

    Notes
    -----
    The solution is unique. It has two steep flanks from t = 0.1 on, new waves grow from t = 0.3 on, and later
    the field is chaotic. Small errors then grow exponentially, so no method can follow the solution for long.
    Published PINNs have relative errors between 0.004 and 0.16.

    Examples
    --------
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
        """Return u_t + a u u_x + b u_xx + c u_xxxx."""
        return (
            u.d("t")
            + self.steepening * u.value * u.d("x")
            + self.growth * u.laplacian
            + self.damping * u.d("x", "x", "x", "x")
        )

    def conditions(self) -> list[Condition]:
        """Return the periodic boundary condition in x and u(x, 0) = cos(x) (1 + sin(x))."""
        return [Periodic("x"), Initial(lambda x: torch.cos(x[:, :1]) * (1 + torch.sin(x[:, :1])))]

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution."""
        return self.reference.of(self, x)
