"""The viscous Burgers equation: a wave that steepens into a front."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, Segment, Time
from guardband.pinn.problems.base import Problem
from guardband.pinn.problems.conditions import Condition, Dirichlet, Initial
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown


@kept
@dataclass(frozen=True)
class Burgers1D(Problem):
    """The viscous Burgers equation u_t + u u_x = nu u_xx, whose solution steepens into a front.

    The domain is [-1, 1] x [0, 1] with u = 0 at both ends and u(x, 0) = -sin(pi x). The exact solution
    follows from the Cole-Hopf transform.

    Parameters
    ----------
    viscosity
        The viscosity nu. The default, 0.01 / pi, is the classical benchmark (Raissi et al., 2019).

    Notes
    -----
    The solution is unique and smooth, but from t = 1 / pi on it has a front at x = 0 whose width is of the
    order of nu. PINNs resolve everything except the front, since few uniformly distributed collocation points
    fall inside it.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Burgers1D(viscosity=0.05).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    viscosity: float | Unknown = 0.01 / math.pi

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u_t + u u_x - nu u_xx."""
        return u.d("t") + u.value * u.d("x") - self.viscosity * u.laplacian

    def conditions(self) -> list[Condition]:
        """Return u = 0 at both ends and u(x, 0) = -sin(pi x)."""
        return [Dirichlet(0.0), Initial(lambda x: -torch.sin(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact solution by the Cole-Hopf transform.

        Notes
        -----
        u = -2 nu h_x / h, where h solves the heat equation h_t = nu h_xx. With s normal, of mean x and
        variance 2 nu t, and g(s) = exp(-cos(pi s) / (2 pi nu)),

            h = E[g(s)],    -2 nu h_x = E[-sin(pi s) g(s)].

        Both means are evaluated by Gauss-Hermite quadrature with 100 nodes.
        """
        nodes, weights = (torch.from_numpy(part).to(x) for part in np.polynomial.hermite.hermgauss(100))
        spread = torch.sqrt(4 * self.viscosity * x[:, 1:])
        angle = torch.pi * (x[:, :1] - spread * nodes)
        exponent = weights.log() - torch.cos(angle) / (2 * torch.pi * self.viscosity)
        return -(torch.softmax(exponent, dim=1) * torch.sin(angle)).sum(1, keepdim=True)
