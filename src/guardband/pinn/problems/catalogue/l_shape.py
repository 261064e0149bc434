"""The Poisson equation on an L-shaped domain, with a reentrant corner."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Rectangle
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class PoissonLShape(Problem):
    """The Poisson equation u_xx + u_yy = -load on an L-shaped domain, with u = 0 on its boundary.

    The domain is [-1, 1]^2 without [0, 1] x [-1, 0]. The reference solution was computed numerically.

    Parameters
    ----------
    load
        The uniform load.

    Notes
    -----
    The solution is unique. At the reentrant corner u behaves like r^(2/3), so its gradient is infinite there,
    and a smooth network is inaccurate nearby.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.PoissonLShape().observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    load: float | Unknown = 1.0

    domain: ClassVar[Domain] = Rectangle((-1, -1), (1, 1)) - Rectangle((0, -1), (1, 0), name="notch")
    reference: ClassVar[Reference] = Reference("l_shape")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_xx + u_yy + load."""
        return u.laplacian + self.load

    def conditions(self) -> list[Condition]:
        """Return u = 0 on the whole boundary."""
        return [Dirichlet(0.0)]

    def solution(self, x: Tensor) -> Tensor:
        """Return the reference solution, scaled by the load."""
        return self.load * self.reference(x)
