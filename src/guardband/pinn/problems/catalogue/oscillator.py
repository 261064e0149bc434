"""The damped harmonic oscillator."""

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
    """The damped harmonic oscillator u'' + 2 zeta omega u' + omega^2 u = 0, for t in [0, 5].

    Parameters
    ----------
    damping
        The damping ratio zeta, below 1.
    frequency
        The angular frequency omega of the undamped oscillator.
    start
        The initial value u(0).
    velocity
        The initial velocity u'(0).

    Notes
    -----
    The solution is smooth and unique. Without data, five periods are difficult for a PINN: u = 0 also
    satisfies the equation, and errors near t = 0 propagate to all later times.

    Examples
    --------
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
        """Return u'' + 2 zeta omega u' + omega^2 u."""
        zeta, omega = self.damping, self.frequency
        return u.d("t", "t") + 2 * zeta * omega * u.d("t") + omega**2 * u.value

    def conditions(self) -> list[Condition]:
        """Return u(0) = start and u'(0) = velocity."""
        return [Initial(self.start, self.velocity)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution, a decaying cosine, for zeta < 1."""
        rate = self.damping * self.frequency
        omega = self.frequency * root(1 - self.damping**2)
        swing = (self.velocity + rate * self.start) / omega
        return torch.exp(-rate * x) * (self.start * torch.cos(omega * x) + swing * torch.sin(omega * x))

    def lift(self, x: Tensor) -> Tensor:
        """Return start + velocity t."""
        return self.start + self.velocity * x

    def bubble(self, x: Tensor) -> Tensor:
        """Return (t / 5)^2, which vanishes at t = 0 together with its derivative."""
        return (x / self.domain.upper[0]) ** 2
