"""By curvature: which candidates tell most about the field, or the unknowns, of one training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from guardband.base.arrays import Array, to_torch
from guardband.pinn.inverse.curvature import Curvature
from guardband.pinn.training.fitted import Fitted


def by_curvature(fitted: Fitted, x: Array, n: int, goal: str, price: Any) -> list[int]:
    """The n best of the candidates x (k, d), each read once, of the outputs that were read before."""
    if goal == "coefficients" and not fitted.estimates:
        raise ValueError(
            'This training sought no coefficients, so no reading tells about them. Say goal="field", or put '
            "pinn.Unknown(low, high) in place of a number of the problem and train again."
        )
    curvature = Curvature(fitted)
    readings = curvature.slopes(to_torch(x)).reshape(len(x), len(curvature.noise), -1)[:, curvature.measured]
    targets = curvature.of_unknowns() if goal == "coefficients" else readings.flatten(0, 1)
    known = _Known(curvature, targets, readings)
    price = torch.as_tensor(price)
    left, chosen = torch.ones(len(x), dtype=torch.bool), list[int]()
    for _ in range(n):
        gain = known.sharper() if goal == "coefficients" else known.smaller()
        best = int((gain / price).masked_fill(~left, -torch.inf).argmax())
        known.read(best)
        left[best] = False
        chosen.append(best)
    return chosen


class _Known:
    """What is known of targets (t) and of readings at k places of m outputs, as covariances.

    It shrinks with each reading, as that of Gaussians does.
    """

    def __init__(self, curvature: Curvature, targets: Tensor, readings: Tensor) -> None:
        self.k, self.m = readings.shape[:2]
        flat = readings.flatten(0, 1)
        self.noise = torch.diag(curvature.noise[curvature.measured].square())
        self.targets = curvature.covariance(targets, targets)
        self.across = curvature.covariance(targets, flat)
        self.readings = curvature.covariance(flat, flat)

    def smaller(self) -> Tensor:
        """By how much each candidate makes the sum of the targets' variances smaller, (k,)."""
        return self._told().square().sum(dim=(1, 2))

    def sharper(self) -> Tensor:
        """By how much each makes the logarithm of their determinant smaller, (k,)."""
        root = torch.linalg.cholesky(self.targets)
        told = torch.linalg.solve_triangular(root, self._told(), upper=False)
        left = torch.eye(len(root), dtype=root.dtype) - told @ told.mT
        return -torch.linalg.slogdet(left)[1]

    def read(self, i: int) -> None:
        """Take a reading at candidate i."""
        at = slice(i * self.m, (i + 1) * self.m)
        root = torch.linalg.cholesky(self.readings[at, at] + self.noise)
        mine, others = self.across[:, at].clone(), self.readings[:, at].clone()
        mine, others = (torch.linalg.solve_triangular(root, part.T, upper=False).T for part in (mine, others))
        self.targets = self.targets - mine @ mine.T
        self.across = self.across - mine @ others.T
        self.readings = self.readings - others @ others.T

    def _told(self) -> Tensor:
        """What each candidate tells of each target, in units of its own noise, (k, t, m)."""
        blocks = self.readings.reshape(self.k, self.m, self.k, self.m)
        own = blocks[range(self.k), :, range(self.k)] + self.noise
        across = self.across.reshape(-1, self.k, self.m).permute(1, 2, 0)
        return torch.linalg.solve_triangular(torch.linalg.cholesky(own), across, upper=False).mT
