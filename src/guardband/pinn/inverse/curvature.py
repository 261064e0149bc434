"""Curvature: what readings, equation and conditions tell of the weights and unknowns of a training, together.

Its inverse is the covariance of Laplace's approximation. That is a heuristic: an equation may be missed by
the scale of the physics, which is chosen and not measured.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from guardband.pinn.misses.jacobian import jacobian, value
from guardband.pinn.misses.unknowns import CurrentProblem, Unknowns
from guardband.pinn.predictors.potential import Potential, flat_weights
from guardband.pinn.training.fitted import Fitted

ANYWHERE = 10.0
"""How unsure an unknown's own number is before any reading: it may be anywhere in its range."""


class Curvature:
    """The curvature at what a training found, of which covariances are taken; P weights, then K unknowns.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> data, recipe = problem.observe(30), pinn.Recipe.by_newton(10)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(problem, [8]), data, recipe=recipe, progress=False
    ... )
    >>> curvature = Curvature(fitted)
    >>> slopes = curvature.slopes(torch.tensor([[0.5], [0.7]]))
    >>> curvature.covariance(slopes, slopes).shape
    torch.Size([2, 2])
    """

    net: nn.Module
    unknowns: Unknowns
    noise: Tensor
    """Of a reading of each output, (m,)."""
    measured: Tensor
    """Which outputs were read at all, (m,)."""

    @torch.inference_mode(False)
    @torch.enable_grad()
    def __init__(self, fitted: Fitted, seed: int = 0) -> None:
        self.unknowns = Unknowns(fitted.estimates.sought, fitted.estimates.found)
        if self.unknowns.sought:
            fitted = replace(fitted, problem=CurrentProblem(fitted.problem, self.unknowns))
        potential = Potential(fitted, seed=seed, dtype=torch.float64)
        self.net, self.noise = potential.net, potential.noise
        self.measured = ~potential.points.y.isnan().all(dim=0)
        rows = potential.gradients()
        weights = flat_weights(self.net)
        prior = weights.square().mean().reciprocal().expand(len(weights))
        if self.unknowns.sought:
            rows = torch.cat([rows, potential.unknown_gradients()], dim=1)
            prior = torch.cat([prior, prior.new_full((len(self.unknowns.sought),), ANYWHERE**-2)])
        self._factor = torch.linalg.cholesky(rows.T @ rows + torch.diag(prior))

    def slopes(self, x: Tensor) -> Tensor:
        """How the outputs at points x change with weights and unknowns, (n m, P + K)."""
        with torch.enable_grad():
            _, found = jacobian(value, self.net, x.to(self.noise))
        found = found.flatten(0, 1)
        return torch.cat([found, found.new_zeros(len(found), len(self.unknowns.sought))], dim=1)

    def of_unknowns(self) -> Tensor:
        """The same of the unknowns' own numbers, (K, P + K)."""
        size, many = len(self._factor), len(self.unknowns.sought)
        return torch.eye(size, dtype=torch.float64)[size - many :]

    def covariance(self, these: Tensor, those: Tensor) -> Tensor:
        """The covariance (a, b) of what has slopes (a, P + K) and (b, P + K)."""
        return self._solved(these).T @ self._solved(those)

    def _solved(self, slopes: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self._factor, slopes.T, upper=False)
