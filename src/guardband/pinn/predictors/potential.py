"""The negative log posterior of a network, as a function of a single vector of weights.

    U(theta) = n/2 ( data + physics + boundary: mean squares over noise variances ) + |theta / sd|^2 / 2

Laplace approximations, variational inference and Hamiltonian Monte Carlo all use this function. Its gradient
uses jets if they apply.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from guardband.pinn.misses.likelihood import Likelihood, scales_of, weights_of
from guardband.pinn.misses.mean_squares import MeanSquares, SquaresModule
from guardband.pinn.misses.points import Points, fixed_points
from guardband.pinn.misses.rows import Rows
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.misses.unknowns import with_current_numbers
from guardband.pinn.networks.modules import has_float64
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import terms_in
from guardband.pinn.problems.measured import tensors_of
from guardband.pinn.training.fitted import Fitted


@dataclass(frozen=True)
class Prior:
    """A normal prior for the weights, N(0, sd^2).

    Parameters
    ----------
    sd
        The standard deviation.
    fan_in
        Whether the variance is sd^2 divided by the number of inputs of the layer.

    Examples
    --------
    >>> from guardband import pinn
    >>> net = pinn.mlp(4, [16])
    >>> pinn.Prior(sd=1.0, fan_in=True).scales(net)[0].item()
    0.5
    """

    sd: float = 1.0
    fan_in: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.sd < math.inf:
            raise ValueError(f"`sd` should be a positive standard deviation, got {self.sd}.")

    def scales(self, net: nn.Module) -> Tensor:
        """Return the prior standard deviation of each weight.

        Parameters
        ----------
        net
            The network.

        Returns
        -------
        Tensor
            The standard deviations, shape (P,), in the order of `net.parameters()`.
        """
        parts = []
        for name, parameter in net.named_parameters():
            owner = net.get_submodule(name.rpartition(".")[0])
            inputs = owner.in_features if isinstance(owner, nn.Linear) else max(1, parameter.shape[-1])
            sd = self.sd / math.sqrt(inputs) if self.fan_in else self.sd
            parts.append(torch.full((parameter.numel(),), sd, dtype=parameter.dtype, device=parameter.device))
        return torch.cat(parts)


class Potential:
    """The negative log posterior U(theta) of a fitted network and its derivatives.

    `potential(theta)` is a differentiable scalar, and `start` contains the weights of the fitted network.
    Equation and conditions are averaged over fixed points.

    Parameters
    ----------
    fitted
        A network trained with observations.
    prior
        The prior of the weights.
    n_interior, n_boundary
        The numbers of points for equation and conditions; by default those of the training.
    seed
        The seed of these points.
    dtype
        The precision; by default that of the network.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> potential = pinn.Potential(fitted)
    >>> theta = potential.start.requires_grad_()
    >>> potential(theta).backward()
    >>> theta.grad.shape
    torch.Size([25])
    """

    problem: Problem
    likelihood: Likelihood
    prior: Prior
    points: Points
    n: int
    start: Tensor
    scales: Tensor

    def __init__(
        self,
        fitted: Fitted,
        prior: Prior | None = None,
        *,
        n_interior: int | tuple[int, ...] | None = None,
        n_boundary: int | None = None,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(fitted, Fitted):
            raise TypeError(
                f"A posterior needs the result of `pinn.fit` (with its equation, data and noise), got "
                f"{type(fitted).__name__}."
            )
        self.problem, self.likelihood, self.prior = fitted.problem, fitted.likelihood, prior or Prior()
        net = copy.deepcopy(fitted.net)
        if dtype == torch.float64 and not has_float64(next(net.parameters()).device):
            net = net.cpu()
        net = net.to(dtype).eval()
        x, y = tensors_of(fitted.problem, fitted.training_data, net)
        if not len(x):
            raise ValueError(
                "A posterior needs the training observations of the network, but it has none. Train it with "
                "observations, pinn.fit(problem, net, observations)."
            )
        generator = torch.Generator().manual_seed(seed)
        n_interior, n_boundary = (
            n_interior or fitted.recipe.n_interior,
            n_boundary or fitted.recipe.n_boundary,
        )
        self.points = fixed_points(fitted.problem, net, (x, y), n_interior, n_boundary, generator)
        self.n = len(x)
        known = with_current_numbers(fitted.problem)
        titles = titles_of(known, net, self.points.inside)
        self._scales = scales_of(self.likelihood, known, titles)
        units = scales_of(self.likelihood, known, titles, only_names=True)
        self._misses = SquaresModule(MeanSquares(fitted.problem, net, self.points, scales=units))
        self.start = flat_weights(net)
        self.scales = self.prior.scales(net)
        self._weights = weights_of(self.likelihood, terms_in(known)).to(self.start)

    @property
    def net(self) -> nn.Module:
        """The network with the weights of `start`."""
        return self._misses.net

    @property
    def noise(self) -> Tensor:
        """The standard deviation of a reading of each output, (m,)."""
        return self._scales.data.to(self.start)

    def __call__(self, theta: Tensor) -> Tensor:
        """Return the negative log posterior, up to a constant.

        Parameters
        ----------
        theta
            All weights, shape (P,).

        Returns
        -------
        Tensor
            U(theta), a scalar.
        """
        return self.misfit(theta) + 0.5 * (theta / self.scales).square().sum()

    def misfit(self, theta: Tensor) -> Tensor:
        """Return the negative log-likelihood, up to a constant.

        Parameters
        ----------
        theta
            All weights, shape (P,).

        Returns
        -------
        Tensor
            The misfit, a scalar.
        """
        weights = {f"net.{name}": part for name, part in named(self.net, theta).items()}
        squares = functional_call(self._misses, weights, (self.points,))
        return 0.5 * self.n * (self._weights @ squares)

    def gradients(self, names: Sequence[str] | None = None, *, physics: bool = True) -> Tensor:
        """Return the gradient of every miss at `start`, divided by its noise.

        This is G in the generalized Gauss-Newton matrix G^T G, the curvature of the misfit.

        Parameters
        ----------
        names
            The names of the weights; all weights by default.
        physics
            Whether equation and conditions are included.

        Returns
        -------
        Tensor
            The gradients, shape (misses, weights).
        """
        rows = Rows(self.problem, self.net, self.points, self._scales)
        _, slopes = rows(names, physics=physics)
        return math.sqrt(self.n) * slopes

    def unknown_gradients(self) -> Tensor:
        """Return the gradients with respect to the parameters of the problem's unknowns.

        Returns
        -------
        Tensor
            The gradients, shape (misses, unknowns).
        """
        rows = Rows(self.problem, self.net, self.points, self._scales)
        return math.sqrt(self.n) * rows.columns()


def flat_weights(net: nn.Module) -> Tensor:
    """A copy of all weights of a network as one vector, (P,)."""
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def named(net: nn.Module, theta: Tensor) -> Mapping[str, Tensor]:
    """Views of one or several vectors of weights (..., P), with the names and shapes of the network."""
    shapes = {name: parameter.shape for name, parameter in net.named_parameters()}
    parts = theta.split([math.prod(shape) for shape in shapes.values()], dim=-1)
    leading = theta.shape[:-1]
    return {name: part.reshape(*leading, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}
