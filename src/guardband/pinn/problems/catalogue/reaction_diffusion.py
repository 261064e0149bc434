"""The Fisher-KPP equation: a population that grows and spreads."""

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
    """The Fisher-KPP equation u_t = D u_xx + r u (1 - u): a population that grows and spreads.

    The domain is [-1, 1] x [0, 1]. The exact solution is the traveling wave of Ablowitz and Zeppetella
    (1979), whose values are prescribed at both ends and at t = 0.

    Parameters
    ----------
    diffusion
        The diffusion coefficient D.
    growth
        The growth rate r.

    Notes
    -----
    The solution is smooth and unique. It is a front of width sqrt(6 D / r) between 1 and 0, which travels at
    the speed 5 sqrt(r D / 6). Since 0 and 1 also solve the equation, a PINN may converge to the wrong plateau
    ahead of the front.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.ReactionDiffusion1D().observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    diffusion: float | Unknown = 0.01
    growth: float | Unknown = 5.0

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t - D u_xx - r u (1 - u)."""
        return u.d("t") - self.diffusion * u.laplacian - self.growth * u.value * (1 - u.value)

    def conditions(self) -> list[Condition]:
        """Return the values of the wave at both ends and at t = 0."""
        return [Dirichlet(self.solution), Initial(self.solution)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution u = (1 + exp(sqrt(r / (6 D)) x - 5 r t / 6))^-2."""
        ahead = root(self.growth / (6 * self.diffusion)) * x[:, :1] - 5 / 6 * self.growth * x[:, 1:]
        return torch.sigmoid(-ahead) ** 2
