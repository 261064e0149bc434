"""A plate with a hole under tension: the classical stress concentration."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Disk, Domain, Rectangle
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Function, Where
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class PlateWithHole(Problem):
    """A plate with a circular hole under tension: the displacements u, v in plane stress.

    s_xx,x + s_xy,y = 0 and s_xy,x + s_yy,y = 0 with Hooke's law for the stresses s. The domain is a quarter
    of the plate, the unit square without a hole of radius 0.2 at the origin. The outer edges carry the
    tractions of an infinite plate under tension along x, so Kirsch's solution (1898) is exact.

    Parameters
    ----------
    young
        Young's modulus.
    poisson
        Poisson's ratio.
    tension
        The remote tension along x.

    Notes
    -----
    The solution is smooth and unique. The stress at the hole reaches three times the tension, and PINNs are
    least accurate there.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> plate = pinn.problems.PlateWithHole()
    >>> plate.observe(300, noise=0.01)
    Observations(300 points, x (300, 2), y (300, 2))
    >>> top_of_the_hole = torch.tensor([[0.0, 0.2]], dtype=torch.float64)
    >>> stress = plate.stress(plate.field(plate.solution, top_of_the_hole))
    >>> stress["xx"].detach().round(decimals=6)
    tensor([[3.]], dtype=torch.float64)
    """

    young: float | Unknown = 1.0
    poisson: float | Unknown = 0.3
    tension: float | Unknown = 1.0

    domain: ClassVar[Domain] = Rectangle((0, 0), (1, 1)) - Disk((0, 0), 0.2, name="hole")
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """Return the balance of forces along x and y, divided by Young's modulus."""
        u, v, nu = w["u"], w["v"], self.poisson
        stretch, turn = 1 / (1 - nu**2), 1 / (2 * (1 + nu))
        return {
            "force x": stretch * (u.d("x", "x") + nu * v.d("x", "y"))
            + turn * (u.d("y", "y") + v.d("x", "y")),
            "force y": stretch * (v.d("y", "y") + nu * u.d("x", "y"))
            + turn * (v.d("x", "x") + u.d("x", "y")),
        }

    def conditions(self) -> list[Condition]:
        """Return the conditions on the symmetry lines, the outer edges, and the free hole."""
        return [
            Dirichlet(0.0, on="left", output="u"),
            Dirichlet(0.0, on="bottom", output="v"),
            Unsheared(self, on=("left", "bottom")),
            Pulled(self, self._kirsch, on=("right", "top")),
            Pulled(self, lambda x: x.new_zeros(len(x), 3), on="hole"),
        ]

    def stress(self, w: Field) -> dict[str, Tensor]:
        """Return the stresses of a displacement field.

        Parameters
        ----------
        w
            The displacement field with the outputs u and v.

        Returns
        -------
        dict[str, Tensor]
            The stresses "xx", "yy" and "xy", each of shape (n, 1).
        """
        u, v, nu = w["u"], w["v"], self.poisson
        stretch, turn = self.young / (1 - nu**2), self.young / (2 * (1 + nu))
        return {
            "xx": stretch * (u.d("x") + nu * v.d("y")),
            "yy": stretch * (v.d("y") + nu * u.d("x")),
            "xy": turn * (u.d("y") + v.d("x")),
        }

    def solution(self, x: Tensor) -> Tensor:
        """Return the displacements of Kirsch's solution."""
        a, nu = 0.2, self.poisson
        r, angle = x.norm(dim=1, keepdim=True), torch.atan2(x[:, 1:], x[:, :1])
        kappa, far, near = (3 - nu) / (1 + nu), r / a, a / r
        one, three = (torch.cos(angle), torch.sin(angle)), (torch.cos(3 * angle), torch.sin(3 * angle))
        u = far * (kappa + 1) * one[0] + 2 * near * ((1 + kappa) * one[0] + three[0]) - 2 * near**3 * three[0]
        v = far * (kappa - 3) * one[1] + 2 * near * ((1 - kappa) * one[1] + three[1]) - 2 * near**3 * three[1]
        return self.tension * a * (1 + nu) / (4 * self.young) * torch.cat([u, v], dim=1)

    def _kirsch(self, x: Tensor) -> Tensor:
        """The stresses xx, yy and xy of Kirsch's solution, shape (n, 3)."""
        near, angle = 0.04 / (x**2).sum(1, keepdim=True), torch.atan2(x[:, 1:], x[:, :1])
        two, four = (torch.cos(2 * angle), torch.sin(2 * angle)), (torch.cos(4 * angle), torch.sin(4 * angle))
        xx = 1 - near * (1.5 * two[0] + four[0]) + 1.5 * near**2 * four[0]
        yy = -near * (0.5 * two[0] - four[0]) - 1.5 * near**2 * four[0]
        xy = -near * (0.5 * two[1] + four[1]) + 1.5 * near**2 * four[1]
        return self.tension * torch.cat([xx, yy, xy], dim=1)


@dataclass(frozen=True)
class Pulled(Condition):
    """A traction condition: the traction equals that of the given stresses xx, yy and xy."""

    plate: PlateWithHole
    given: Function
    on: Where

    def residual(self, x: Tensor, w: Field) -> Tensor:
        """Return the difference between the tractions along x and y, divided by Young's modulus."""
        stress = self.plate.stress(w)
        off = torch.cat([stress["xx"], stress["yy"], stress["xy"]], dim=1) - self.given(x)
        assert w.normals is not None
        nx, ny = w.normals.split(1, dim=1)
        xx, yy, xy = off.split(1, dim=1)
        return torch.cat([xx * nx + xy * ny, xy * nx + yy * ny], dim=1) / self.plate.young


@dataclass(frozen=True)
class Unsheared(Condition):
    """The condition of zero shear stress along a line of symmetry."""

    plate: PlateWithHole
    on: Where

    def residual(self, x: Tensor, w: Field) -> Tensor:
        """Return the stress xy, divided by Young's modulus."""
        return self.plate.stress(w)["xy"] / self.plate.young
