"""The loss that a leg minimizes, with its points, scales and gradients."""

from __future__ import annotations

import shutil

import torch
from torch import Tensor, nn

from guardband.pinn.misses.gradients import Gradients
from guardband.pinn.misses.likelihood import Likelihood, Scales, scales_of, weights_of
from guardband.pinn.misses.mean_squares import check_equation, check_shapes
from guardband.pinn.misses.points import Points, fixed_points, terms_of
from guardband.pinn.misses.sizes import sizes_of
from guardband.pinn.misses.titles import Record, titles_of
from guardband.pinn.misses.unknowns import (
    all_trained,
    check_unknowns_used,
    current_numbers,
    with_current_numbers,
)
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import terms_in
from guardband.pinn.problems.measured import tensors_of
from guardband.pinn.training.recipe import Recipe
from guardband.values import Observations


class Loss:
    """The likelihood of a network on data, equation and conditions, at fixed points."""

    problem: Problem
    net: nn.Module
    whole: nn.Module
    """The network, together with the unknowns of the problem, if any."""
    like: nn.Parameter
    training_data: Observations | None
    generator: torch.Generator
    """The generator of random points."""
    full: Points
    """All data, and the interior and boundary points for L-BFGS; only a few points if L-BFGS is not used."""
    likelihood: Likelihood
    scales: Scales
    sizes: Tensor
    gradients: Gradients
    record: Record
    firm: bool
    """Whether the equation has the small default scale."""

    def __init__(
        self,
        problem: Problem,
        net: nn.Module,
        training_data: Observations | None,
        likelihood: Likelihood,
        recipe: Recipe,
        seed: int,
        compile: bool | None,
    ) -> None:
        self.problem, self.net, self.training_data = problem, net, training_data
        self.whole, self.like = all_trained(problem, net), next(net.parameters())
        self.generator = torch.Generator().manual_seed(seed)
        data = tensors_of(problem, training_data, net)
        self.full = self._points(recipe, data)
        start = with_current_numbers(problem)
        check_shapes(start, net, self.full)
        check_equation(start, net, self.full.inside)
        check_unknowns_used(problem, net, self.full)
        titles = titles_of(start, net, self.full.inside)
        self.sizes = sizes_of(start, data[1])
        self.firm = firm(problem, recipe, data)
        self.likelihood = likelihood.completed(start, titles, self.sizes, firm=self.firm)
        self.scales = scales_of(self.likelihood, start, titles)
        units = scales_of(self.likelihood, start, titles, only_names=True)
        compile = self._pays(recipe) if compile is None else compile
        self.gradients = Gradients(problem, net, self.full, scales=units, compile=compile)
        self.record = Record(start, net, self.full)

    def weights(self, physics_factor: float) -> Tensor:
        """The weights of the mean squares, scaled to sum to 1; no optimizer here depends on the scale."""
        weights = weights_of(self.likelihood, terms_in(self.problem), physics_factor)
        return (weights / weights.sum()).to(self.like)

    def _points(self, recipe: Recipe, data: tuple[Tensor, Tensor]) -> Points:
        generator = self.generator
        if recipe.steps or recipe.finish:
            placing = None if recipe.even else generator
            counts = recipe.n_interior, recipe.n_boundary
            return fixed_points(self.problem, self.net, data, *counts, placing)
        domain = self.problem.domain
        inside = domain.uniform(32, generator, dtype=torch.float64)
        edges = [c.points(domain, 16, generator).to(self.like) for c in terms_of(self.problem, self.net)]
        return Points(*data, inside.to(self.like), tuple(edges))

    def _pays(self, recipe: Recipe) -> bool:
        """Whether compiling is worthwhile, which requires more than 1e12 products of points and weights."""
        points = recipe.batch or len(self.full.inside)
        weights = sum(p.numel() for p in self.net.parameters())
        work = recipe.steps * points * weights * (2 + self.problem.domain.d)
        return work > 1e12 and self.like.device.type == "cpu" and shutil.which("g++") is not None


def firm(problem: Problem, recipe: Recipe, data: tuple[Tensor, Tensor]) -> bool:
    """Whether the equation has the small default scale: without unknowns, if Gauss-Newton steps fit data.

    With unknowns the equation is not yet correct, and a small scale would keep the field away from the data.
    """
    return recipe.newton > 0 and len(data[0]) > 0 and not current_numbers(problem)
