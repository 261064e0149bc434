"""The Lotka-Volterra equations: prey, and those who live on it."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Initial
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class LotkaVolterra(Problem):
    """prey' = a prey - b prey hunter, hunter' = d prey hunter - g hunter, for t up to 25, from 1 and 1.

    Smooth and unique, around three times on a closed curve. Without data PINNs come to rest at the
    equilibrium (1, 1/2), where both equations hold. The reference is computed.

    >>> from guardband import pinn
    >>> pinn.problems.LotkaVolterra().observe(60, noise=0.05)
    Observations(60 points, x (60, 1), y (60, 2))
    """

    birth: float | Unknown = 2 / 3
    hunting: float | Unknown = 4 / 3
    feeding: float | Unknown = 1.0
    death: float | Unknown = 1.0

    domain: ClassVar[Domain] = Time(0, 25)
    outputs: ClassVar[tuple[str, ...] | int] = ("prey", "hunter")
    reference: ClassVar[Reference] = Reference("lotka_volterra")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """What is born, eaten and dies."""
        prey, hunter = w["prey"], w["hunter"]
        met = prey.value * hunter.value
        return {
            "prey": prey.d("t") - self.birth * prey.value + self.hunting * met,
            "hunter": hunter.d("t") - self.feeding * met + self.death * hunter.value,
        }

    def conditions(self) -> list[Condition]:
        """One of each at the start."""
        return [Initial(1.0)]

    def solution(self, x: Tensor) -> Tensor:
        """The reference."""
        return self.reference.of(self, x)
