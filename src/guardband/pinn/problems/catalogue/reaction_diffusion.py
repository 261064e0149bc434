"""The Fisher equation: a population that grows where it lives, and spreads."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.arrays import root
from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Initial
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class ReactionDiffusion1D(Problem):
    """u_t = D u_xx + r u (1 - u) on [-1, 1]; the solution is the wave of Ablowitz and Zeppetella (1979).

    A front between 1 and 0, sqrt(6 D / r) wide, that travels at the speed 5 sqrt(r D / 6). Smooth and
    unique. 0 and 1 solve the equation too, so a PINN may be content with a wrong plateau ahead of the front.

    >>> from guardband import pinn
    >>> pinn.problems.ReactionDiffusion1D().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float | Unknown = 0.01
    growth: float | Unknown = 5.0

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t - D u_xx - r u (1 - u)."""
        return u.d("t") - self.diffusion * u.laplacian - self.growth * u.value * (1 - u.value)

    def conditions(self) -> list[Condition]:
        """The wave at both ends and at the start."""
        return [Dirichlet(self.solution), Initial(self.solution)]

    def solution(self, x: Tensor) -> Tensor:
        """u = (1 + exp(sqrt(r / 6 D) x - 5 r t / 6))^-2."""
        ahead = root(self.growth / (6 * self.diffusion)) * x[:, :1] - 5 / 6 * self.growth * x[:, 1:]
        return torch.sigmoid(-ahead) ** 2
