"""Burgers' equation: a wave that steepens into a front."""

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
    """u_t + u u_x = nu u_xx on [-1, 1], u = 0 at both ends, from -sin(pi x).

    Unique, and smooth on paper: from t = 1 / pi on a front stands at x = 0, some nu wide. With nu = .01 / pi
    it is the field's first test (Raissi and others, 2019). PINNs resolve everything but the front, and
    points spread evenly rarely meet it.

    >>> from guardband import pinn
    >>> pinn.problems.Burgers1D(viscosity=0.05).observe(300, noise=0.05)
    Observations(300 points, x (300, 2), y (300, 1))
    """

    viscosity: float | Unknown = 0.01 / math.pi

    domain: ClassVar[Domain] = Segment(-1, 1) * Time(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u_t + u u_x - nu u_xx."""
        return u.d("t") + u.value * u.d("x") - self.viscosity * u.laplacian

    def conditions(self) -> list[Condition]:
        """u = 0 at both ends; -sin(pi x) at the start."""
        return [Dirichlet(0.0), Initial(lambda x: -torch.sin(torch.pi * x[:, :1]))]

    def solution(self, x: Tensor) -> Tensor:
        """Cole and Hopf: u = -2 nu (log h)_x, where h solves the heat equation.

        h is the mean of exp(-cos(pi s) / (2 pi nu)) over s, normal around x with the variance 2 nu t, here by
        Gauss-Hermite quadrature, and -2 nu h_x the mean of -sin(pi s) times the same.
        """
        nodes, weights = (torch.from_numpy(part).to(x) for part in np.polynomial.hermite.hermgauss(100))
        spread = torch.sqrt(4 * self.viscosity * x[:, 1:])
        angle = torch.pi * (x[:, :1] - spread * nodes)
        exponent = weights.log() - torch.cos(angle) / (2 * torch.pi * self.viscosity)
        return -(torch.softmax(exponent, dim=1) * torch.sin(angle)).sum(1, keepdim=True)
