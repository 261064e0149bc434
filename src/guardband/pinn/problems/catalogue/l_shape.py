"""The Poisson equation on an L: a membrane under load, with a corner that points inwards."""

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
    """u_xx + u_yy = -load on [-1, 1]^2 without [0, 1] x [-1, 0], u = 0 on the boundary.

    Unique. At the corner that points inwards u grows as r^(2/3): its slope is infinite there, and networks,
    which are smooth, are wrong around it. The reference is computed.

    >>> from guardband import pinn
    >>> pinn.problems.PoissonLShape().observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    load: float | Unknown = 1.0

    domain: ClassVar[Domain] = Rectangle((-1, -1), (1, 1)) - Rectangle((0, -1), (1, 0), name="notch")
    reference: ClassVar[Reference] = Reference("l_shape")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_xx + u_yy + load."""
        return u.laplacian + self.load

    def conditions(self) -> list[Condition]:
        """u = 0 on the boundary."""
        return [Dirichlet(0.0)]

    def solution(self, x: Tensor) -> Tensor:
        """The reference, times the load."""
        return self.load * self.reference(x)
