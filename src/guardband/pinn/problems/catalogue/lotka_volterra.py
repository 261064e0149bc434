"""The Lotka-Volterra predator-prey equations."""

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
    """The Lotka-Volterra equations prey' = a prey - b prey hunter, hunter' = d prey hunter - g hunter.

    Both populations start at 1, for t in [0, 25]. The reference solution was computed numerically.

    Parameters
    ----------
    birth
        The birth rate a of the prey.
    hunting
        The rate b at which hunters reduce the prey.
    feeding
        The rate d at which hunters multiply by feeding.
    death
        The death rate g of the hunters.

    Notes
    -----
    The solution is smooth and unique, and traverses a closed orbit about three times. Without data, PINNs
    tend to converge to the equilibrium (1, 1/2), where both equations hold.

    Examples
    --------
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
        """Return the residuals of both rate equations."""
        prey, hunter = w["prey"], w["hunter"]
        met = prey.value * hunter.value
        return {
            "prey": prey.d("t") - self.birth * prey.value + self.hunting * met,
            "hunter": hunter.d("t") - self.feeding * met + self.death * hunter.value,
        }

    def conditions(self) -> list[Condition]:
        """Return the initial values, 1 for both populations."""
        return [Initial(1.0)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution."""
        return self.reference.of(self, x)
