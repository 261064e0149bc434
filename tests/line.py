"""A "PINN" whose posterior is known in closed form: a straight line under a linear equation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from guardband import Observations
from guardband.pinn import Fitted, Likelihood, Recipe
from guardband.pinn.problems import Box, Condition, Field, Problem

N, INSIDE = 10, 8
"""Measurements, and points at which the equation is looked at."""

LIKELIHOOD = Likelihood(data=0.5, physics=0.8, boundary=1.0)


@dataclass(frozen=True, eq=False)
class Relaxation(Problem):
    """u' + u = f on [0, 1], f being known at the points where the equation is looked at."""

    f: Tensor
    domain = Box((0,), (1,))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d(0) + u.value - self.f[: len(x)].to(x)

    def conditions(self) -> list[Condition]:
        return []


def places() -> tuple[Tensor, Tensor]:
    """Where u is measured, and where the equation is looked at (as `Potential` with seed 0 does)."""
    return torch.linspace(0, 1, N, dtype=torch.float64)[:, None], Relaxation.domain.quasi(
        INSIDE, seed=0
    ).double()


def design() -> tuple[Tensor, Tensor]:
    """Rows of what is seen, as linear functions of (slope, offset), and the noise of each."""
    x, inside = places()
    data = torch.cat([x, torch.ones_like(x)], dim=1)
    equation = torch.cat([1 + inside, torch.ones_like(inside)], dim=1)
    assert LIKELIHOOD.physics is not None
    noise = [LIKELIHOOD.data] * N + [LIKELIHOOD.physics * (INSIDE / N) ** 0.5] * INSIDE
    return torch.cat([data, equation]), torch.tensor(noise, dtype=torch.float64)


def simulate(theta: Tensor, generator: torch.Generator) -> tuple[Fitted, Tensor]:
    """What is seen when theta is true: a `Fitted` that starts at zero, and the targets of all rows."""
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
    """The mean (2,) and the covariance (2, 2) of (slope, offset) given what was seen."""
    rows, noise = design()
    scaled = rows / noise[:, None]
    covariance = torch.linalg.inv(scaled.T @ scaled + torch.eye(2, dtype=torch.float64) / sd**2)
    return covariance @ scaled.T @ (seen / noise), covariance
