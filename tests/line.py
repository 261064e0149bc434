"""A "PINN" with a closed-form posterior: a straight line under a linear equation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from guardband import Observations
from guardband.pinn import Fitted, Likelihood, Recipe
from guardband.pinn.problems import Box, Condition, Field, Problem

N, INSIDE = 10, 8
"""The numbers of measurements and of collocation points."""

LIKELIHOOD = Likelihood(data=0.5, physics=0.8, boundary=1.0)


@dataclass(frozen=True, eq=False)
class Relaxation(Problem):
    """u' + u = f on [0, 1], with f given at the collocation points."""

    f: Tensor
    domain = Box((0,), (1,))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d(0) + u.value - self.f[: len(x)].to(x)

    def conditions(self) -> list[Condition]:
        return []


def places() -> tuple[Tensor, Tensor]:
    """Return measurement and collocation points, the latter as in `Potential` with seed 0."""
    return torch.linspace(0, 1, N, dtype=torch.float64)[:, None], Relaxation.domain.quasi(
        INSIDE, seed=0
    ).double()


def design() -> tuple[Tensor, Tensor]:
    """Return the design matrix of all rows for (slope, offset), and the noise of each row."""
    x, inside = places()
    data = torch.cat([x, torch.ones_like(x)], dim=1)
    equation = torch.cat([1 + inside, torch.ones_like(inside)], dim=1)
    assert LIKELIHOOD.physics is not None
    noise = [LIKELIHOOD.data] * N + [LIKELIHOOD.physics * (INSIDE / N) ** 0.5] * INSIDE
    return torch.cat([data, equation]), torch.tensor(noise, dtype=torch.float64)


def simulate(theta: Tensor, generator: torch.Generator) -> tuple[Fitted, Tensor]:
    """Simulate data for theta: return a `Fitted` that starts at zero, and the targets of all rows."""
    rows, noise = design()
    seen = rows @ theta + noise * torch.randn(len(noise), generator=generator, dtype=torch.float64)
    x, _ = places()
    net = nn.Linear(1, 1).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    problem = Relaxation(seen[N:, None])
    recipe = Recipe(n_interior=INSIDE)
    return Fitted(net, problem, Observations(x, seen[:N, None]), LIKELIHOOD, recipe, []), seen


def posterior(seen: Tensor, sd: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the posterior mean (2,) and covariance (2, 2) of (slope, offset) given the targets."""
    rows, noise = design()
    scaled = rows / noise[:, None]
    covariance = torch.linalg.inv(scaled.T @ scaled + torch.eye(2, dtype=torch.float64) / sd**2)
    return covariance @ scaled.T @ (seen / noise), covariance
