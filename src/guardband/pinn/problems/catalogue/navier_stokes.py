"""The residuals of the steady incompressible Navier-Stokes equations in two dimensions."""

from torch import Tensor

from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


def navier_stokes(w: Field, viscosity: float | Unknown) -> dict[str, Tensor]:
    """The momentum residuals along x and y, and the mass residual, for w = (u, v, p) and density 1.

    u u_x + v u_y + p_x = nu (u_xx + u_yy), likewise for v, and u_x + v_y = 0.
    """
    u, v, p = w["u"], w["v"], w["p"]
    return {
        "momentum x": u.value * u.d("x") + v.value * u.d("y") + p.d("x") - viscosity * u.laplacian,
        "momentum y": u.value * v.d("x") + v.value * v.d("y") + p.d("y") - viscosity * v.laplacian,
        "mass": w["u", "v"].divergence,
    }
