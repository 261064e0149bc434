"""Logistic growth, an equation outside of the catalogue and of the package."""

from dataclasses import dataclass

import torch
from torch import Tensor

import guardband as gb
from guardband import pinn


@gb.kept
@dataclass(frozen=True)
class Logistic(pinn.Problem):
    """u' = rate u (1 - u) on [0, 4], u(0) = start; u is the share of the capacity."""

    rate: float = 1.0
    start: float = 0.1
    domain = pinn.Time(0, 4)

    def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
        return u.d("t") - self.rate * u.value * (1 - u.value)

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.Initial(self.start)]

    def solution(self, x: Tensor) -> Tensor:
        odds = self.start / (1 - self.start) * torch.exp(self.rate * x)
        return odds / (1 + odds)
