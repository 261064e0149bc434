"""The Laplace approximation of a fit, a heuristic covariance of its weights and unknowns.

No coverage is stated. The length of the intervals depends on the physics scale, that is, on the allowed
violation of the equation, which is chosen rather than measured. `pinn.coefficients` returns regions with a
stated coverage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import expit
from scipy.stats import norm
from torch import Tensor, nn

from guardband.conformal.rank import Level
from guardband.pinn.misses.jacobian import jacobian, value
from guardband.pinn.misses.unknowns import CurrentProblem, Unknowns
from guardband.pinn.predictors.potential import Potential, flat_weights
from guardband.pinn.training.fitted import Fitted

ANYWHERE = 10.0
"""The prior standard deviation of the internal parameter of an unknown, wide enough for its whole range."""


class Curvature:
    """The curvature of the loss of a fit in P weights and K unknowns, and covariances derived from it.

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
    """The noise of a measurement of each output, (m,)."""
    measured: Tensor
    """Which outputs were measured, (m,)."""

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
        """The derivatives of the outputs at points x with respect to weights and unknowns, (n m, P + K)."""
        with torch.enable_grad():
            _, found = jacobian(value, self.net, x.to(self.noise))
        found = found.flatten(0, 1)
        return torch.cat([found, found.new_zeros(len(found), len(self.unknowns.sought))], dim=1)

    def of_unknowns(self) -> Tensor:
        """The derivatives of the internal parameters of the unknowns, (K, P + K)."""
        size, many = len(self._factor), len(self.unknowns.sought)
        return torch.eye(size, dtype=torch.float64)[size - many :]

    def covariance(self, these: Tensor, those: Tensor) -> Tensor:
        """The covariance (a, b) of quantities with derivatives (a, P + K) and (b, P + K)."""
        return self._solved(these).T @ self._solved(those)

    def _solved(self, slopes: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self._factor, slopes.T, upper=False)


@dataclass(frozen=True, repr=False)
class JointIntervals(Mapping[str, tuple[float, float]]):
    """Laplace intervals of coefficients by name, without stated coverage.

    Parameters
    ----------
    intervals
        The lower and the upper end for each coefficient.
    level
        The nominal level.

    Examples
    --------
    >>> from guardband import pinn
    >>> print(str(pinn.inverse.JointIntervals({"rate": (1.1, 1.4)}, 0.95)).splitlines()[0])
    rate: 1.1 to 1.4
    """

    intervals: Mapping[str, tuple[float, float]]
    level: float

    def __getitem__(self, name: str) -> tuple[float, float]:
        return self.intervals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __repr__(self) -> str:
        lines = [f"{name}: {low:.4g} to {high:.4g}" for name, (low, high) in self.items()]
        caution = (
            f"Laplace intervals of a joint fit, at a nominal level of {100 * self.level:.6g} %. No coverage "
            "is stated, since their length depends on the physics scale, Likelihood(physics=...), which is "
            "chosen and not measured."
        )
        return "\n".join([*lines, caution, "For regions with stated coverage, see pinn.coefficients."])


def laplace_intervals(fitted: Fitted, level: Level = 0.95, *, seed: int = 0) -> JointIntervals:
    """Return heuristic Laplace intervals, without stated coverage, of the unknowns in a fit.

    The covariance is the inverse curvature of measurements, equation and conditions in all weights and
    unknowns.

    Parameters
    ----------
    fitted
        The result of training a problem with `pinn.Unknown` coefficients.
    level
        The nominal level, strictly between 0 and 1.
    seed
        The seed of the points at which the curvature is evaluated.

    Returns
    -------
    JointIntervals
        The intervals by name.

    Examples
    --------
    >>> from guardband import pinn
    >>> data = pinn.problems.Heat1D(diffusivity=0.12).observe(40, noise=0.01)
    >>> problem = pinn.problems.Heat1D(diffusivity=pinn.Unknown(0.02, 0.2))
    >>> fitted = pinn.fit(problem, pinn.mlp(problem, [8]), data, progress=False)
    >>> low, high = pinn.inverse.laplace_intervals(fitted)["diffusivity"]
    >>> 0.02 < low < fitted.estimates["diffusivity"] < high < 0.2
    True
    """
    if not getattr(fitted, "estimates", None):
        raise ValueError(
            "`fitted` should be the result of training a problem with unknown coefficients. Replace a "
            "number of the problem with pinn.Unknown(low, high), and pass the result of pinn.fit."
        )
    if not 0 < float(level) < 1:
        raise ValueError(f"`level` should lie between 0 and 1, got {level}.")
    curvature = Curvature(fitted, seed)
    own = curvature.of_unknowns()
    sd = curvature.covariance(own, own).diagonal().sqrt().numpy()
    away = norm.ppf((1 + float(level)) / 2) * sd[:, None] * [-1, 1]
    intervals = {}
    for (name, one), raw, ends in zip(
        fitted.estimates.sought.items(), curvature.unknowns.parameters(), away, strict=True
    ):
        low, high = one.low + (one.high - one.low) * expit(raw.item() + ends)
        intervals[name] = float(low), float(high)
    return JointIntervals(intervals, float(np.float64(level)))
