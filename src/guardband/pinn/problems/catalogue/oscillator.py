"""The damped harmonic oscillator: a mass on a spring that comes to rest."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.arrays import root
from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Initial
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class DampedOscillator(Problem):
    """u'' + 2 zeta omega u' + omega^2 u = 0 on [0, 5], released at `start` with `velocity`.

    Smooth and unique, for a damping below 1. Five swings are many for a PINN without data: the equation is
    met by u = 0 as well, and errors at the start are carried on.

    >>> from guardband import pinn
    >>> pinn.problems.DampedOscillator(damping=0.1).observe(300, noise=0.05)
    Observations(300 points, x (300, 1), y (300, 1))
    """

    damping: float | Unknown = 0.05
    frequency: float | Unknown = 2 * torch.pi
    start: float | Unknown = 1.0
    velocity: float | Unknown = 0.0

    domain: ClassVar[Domain] = Time(0, 5)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u'' + 2 zeta omega u' + omega^2 u."""
        zeta, omega = self.damping, self.frequency
        return u.d("t", "t") + 2 * zeta * omega * u.d("t") + omega**2 * u.value

    def conditions(self) -> list[Condition]:
        """u = start and u' = velocity at t = 0."""
        return [Initial(self.start, self.velocity)]

    def solution(self, x: Tensor) -> Tensor:
        """A cosine that decays, for zeta < 1."""
        rate = self.damping * self.frequency
        omega = self.frequency * root(1 - self.damping**2)
        swing = (self.velocity + rate * self.start) / omega
        return torch.exp(-rate * x) * (self.start * torch.cos(omega * x) + swing * torch.sin(omega * x))

    def lift(self, x: Tensor) -> Tensor:
        """start + velocity t."""
        return self.start + self.velocity * x

    def bubble(self, x: Tensor) -> Tensor:
        """(t / 5)^2, flat at the start."""
        return (x / self.domain.upper[0]) ** 2
