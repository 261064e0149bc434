"""Laplace approximations of the posterior under data, equation and conditions.

Near its most probable weights the posterior of a network is approximately Gaussian, with the covariance

    (sum over misses of g g^T + 1/sd^2)^-1,

where g is the gradient of a miss with respect to the weights, divided by the scale of its noise.

The standard deviation of the output at x is that of its linearization in the weights. The misses are those of
the data, of the equation inside the domain and of its conditions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from guardband.base.arrays import Array, like, rows, to_torch
from guardband.base.kept import kept
from guardband.export.modules import MeanAndScale, answer, network_of, not_exported
from guardband.pinn.misses.jacobian import jacobian, value
from guardband.pinn.networks.activations import ACTIVATIONS, function_of
from guardband.pinn.networks.networks import MLP, Constrained
from guardband.pinn.networks.traits import traits_of
from guardband.pinn.predictors.potential import Potential
from guardband.pinn.training.fitted import Fitted
from guardband.predictors.models import call_model, evaluating
from guardband.values import Observations, Prediction, Predictor


@dataclass(frozen=True, eq=False)
class _Linearized(Predictor):
    """The posterior of some weights, and the network linearized in these weights."""

    fitted: Fitted
    prior: float | None = None
    physics: bool = field(default=True, kw_only=True)
    n_interior: int | None = field(default=None, kw_only=True)
    n_boundary: int | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    training_data: Observations | None = field(init=False, repr=False)
    posterior: Posterior = field(init=False, repr=False)
    net: nn.Module = field(init=False, repr=False)
    names: list[str] = field(init=False, repr=False)

    @torch.inference_mode(False)
    @torch.enable_grad()
    def __post_init__(self) -> None:
        potential = Potential(
            self.fitted,
            n_interior=self.n_interior,
            n_boundary=self.n_boundary,
            seed=self.seed,
            dtype=torch.float64,
        )
        net = potential.net
        names = self._weights(net)
        theta = torch.cat([p.detach().flatten() for name, p in net.named_parameters() if name in names])
        posterior = Posterior(potential.gradients(names, physics=self.physics), theta, self.prior)
        for name, made in {
            "posterior": posterior,
            "prior": posterior.sd,
            "net": net,
            "names": names,
            "training_data": self.fitted.training_data,
        }.items():
            object.__setattr__(self, name, made)

    def __call__(self, x: Array) -> Prediction:
        """The network's output, and the standard deviation of its linearization."""
        points = to_torch(x).to(next(self.net.parameters()))
        scale = torch.cat([self._scale(part) for part in points.split(256)])
        mean = call_model(self.fitted.net, x)
        return Prediction(x, mean, like(mean, scale))

    def _scale(self, x: Tensor) -> Tensor:
        _, slopes = jacobian(value, self.net, x, self.names)
        return self.posterior.variance(slopes.flatten(0, 1)).sqrt().reshape(slopes.shape[:2])

    @abstractmethod
    def _weights(self, net: nn.Module) -> list[str]:
        """The names of the weights in the posterior."""


@kept
@dataclass(frozen=True, eq=False)
class Laplace(_Linearized):
    """The full Laplace approximation, linearized, with the generalized Gauss-Newton matrix of all weights.

    Parameters
    ----------
    fitted
        A network trained with observations. The noise scales are those of its likelihood.
    prior
        The prior standard deviation of a weight; by default the value with the largest marginal likelihood.
    physics
        Whether equation and conditions are part of the posterior. Without them, as in other libraries, the
        scale is usually no better than a constant.
    n_interior, n_boundary
        The numbers of points for equation and conditions; by default those used in training.
    seed
        The seed of these points.

    Notes
    -----
    Cost: a few seconds in addition to training; each point takes a product of all weights with one row per
    miss, about 1500 rows. A network with P weights needs 12 P kB.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8, 8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> pinn.predictors.Laplace(fitted)(np.array([[0.5]]))
    Prediction(1 points, mean (1, 1), with a scale)
    """

    def _weights(self, net: nn.Module) -> list[str]:
        """The names of all weights."""
        return [name for name, _ in net.named_parameters()]


@kept
@dataclass(frozen=True, eq=False)
class LastLayerLaplace(_Linearized):
    """The Laplace approximation of only the last layers, with fixed features below them.

    Networks often narrow toward their output, and a single layer then has too few directions of uncertainty.
    Two layers, the default, are nearly as good as all layers (`results/predictors.md`).

    Parameters
    ----------
    fitted
        A network trained with observations. The noise scales are those of its likelihood.
    prior
        The prior standard deviation of a weight; by default the value with the largest marginal likelihood.
    physics
        Whether equation and conditions are part of the posterior.
    n_interior, n_boundary
        The numbers of points for equation and conditions; by default those used in training.
    seed
        The seed of these points.
    layers
        The number of layers in the posterior.

    Notes
    -----
    Cost: a small fraction of a training run; each point takes one more evaluation and a product with a square
    matrix of the size of the last layers. With `layers=1` the cost is negligible.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8, 8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> predictor = pinn.predictors.LastLayerLaplace(fitted)
    >>> inside, outside = predictor(np.array([[0.5], [5.0]])).scale
    >>> bool(outside > inside)
    True
    """

    layers: int = field(default=2, kw_only=True)

    def __call__(self, x: Array) -> Prediction:
        """The network's output, and the standard deviation of its linearization."""
        x, net = rows(x, "x"), self.fitted.net
        last, seen = traits_of(net).last_layer, getattr(net, "features", None)
        if self.layers > 1 or last is None or seen is None or last.out_features > 1:
            return super().__call__(x)
        with evaluating(net), torch.no_grad():
            features = seen(to_torch(x).to(last.weight))
            mean = last(features)
            weight, bias, rest = self._whitening
            whitened = functional.linear(features, weight, bias)
            scale = torch.hypot(torch.linalg.vector_norm(whitened, dim=1, keepdim=True), rest)
        return Prediction(x, like(x, mean), like(x, scale))

    def as_module(self) -> nn.Module:
        """Return a torch module from x to the output and its standard deviation, for export.

        Returns
        -------
        nn.Module
            The module.
        """
        return _LaplaceModule(self)

    @cached_property
    def _whitening(self) -> tuple[Tensor, Tensor, Tensor]:
        """A linear layer and a constant; the norm of the concatenated outputs is the scale.

        The inverse of the factor is rotated so that it has one row per feature, and one row that depends only
        on the bias. The result is as accurate as the features.
        """
        with torch.inference_mode(False):  # the result is reused in other modes
            return self._whitened()

    def _whitened(self) -> tuple[Tensor, Tensor, Tensor]:
        factor = self.posterior.factor
        inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=False)
        turn, weight = torch.linalg.qr(inverse[:, :-1], mode="complete")
        bias = turn.T @ inverse[:, -1]
        like_net = next(self.fitted.net.parameters())
        return weight[:-1].to(like_net), bias[:-1].to(like_net), bias[-1].abs().to(like_net)

    def _weights(self, net: nn.Module) -> list[str]:
        """The names of the last layers' weights."""
        if self.layers < 1:
            raise ValueError(f"`layers` should be at least 1, got {self.layers}.")
        owner = {name: name.rpartition(".")[0] for name, _ in net.named_parameters()}
        last = list(dict.fromkeys(owner.values()))[-self.layers :]
        return [name for name in owner if owner[name] in last]


@kept
class Posterior:
    """The Gaussian posterior N(theta, (G^T G + 1/sd^2)^-1), where G has one row per miss, over its noise.

    It is computed in the space of weights or of misses, whichever is smaller.
    """

    rows: Tensor | None
    sd: float
    factor: Tensor

    def __init__(self, rows: Tensor, theta: Tensor, sd: float | None) -> None:
        self._by_weights = rows.shape[1] <= rows.shape[0]
        self.rows = None if self._by_weights else rows
        gram = rows.T @ rows if self._by_weights else rows @ rows.T
        self.sd = _most_likely(torch.linalg.eigvalsh(gram), theta) if sd is None else sd
        gram.diagonal().add_(1 / self.sd**2)
        self.factor = torch.linalg.cholesky(gram)

    def variance(self, slopes: Tensor) -> Tensor:
        """The variance (n,) of linear functions of the weights, slopes (n, P)."""
        if self.rows is None:
            return self._solved(slopes).square().sum(0)
        prior = slopes.square().sum(1)
        known = self._solved(slopes @ self.rows.T).square().sum(0)
        # Rounding must not make this small difference of large numbers negative.
        return self.sd**2 * torch.maximum(prior - known, 1e-14 * prior)

    def _solved(self, slopes: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.factor, slopes.T, upper=False)


def _most_likely(eigenvalues: Tensor, theta: Tensor) -> float:
    """The prior standard deviation with the largest marginal likelihood, for weights theta."""
    from scipy.optimize import minimize_scalar

    eigenvalues = eigenvalues.clamp(min=0)
    square = float(theta.square().sum())

    def cost(log_sd: float) -> float:
        variance = math.exp(2 * log_sd)
        return 0.5 * (square / variance + float(torch.log1p(variance * eigenvalues).sum()))

    return math.exp(minimize_scalar(cost, bounds=(-7.0, 7.0), method="bounded").x)


class _LaplaceModule(nn.Module):
    """The network's output and the standard deviation of its last-layer linearization, in float64."""

    known: Tensor

    def __init__(self, predictor: LastLayerLaplace) -> None:
        super().__init__()
        self.net, self.twin = network_of(predictor.fitted), network_of(predictor.net)
        self.bubble = self.twin.bubble if isinstance(self.twin, Constrained) else None
        self.layers = predictor.layers
        self.activation = ACTIVATIONS[_smooth(self._mlp)].upto_second
        posterior = predictor.posterior
        rows = torch.eye(len(posterior.factor)) if posterior.rows is None else posterior.rows
        known = torch.linalg.solve_triangular(posterior.factor, rows.to(posterior.factor), upper=False)
        self.register_buffer("known", known.T.contiguous().cpu())
        self.sd = None if posterior.rows is None else posterior.sd

    def forward(self, x: Tensor) -> MeanAndScale:
        """Mean and scale at x."""
        slopes = self._slopes(x.double())
        variance = (slopes @ self.known).square().sum(2)
        if self.sd is not None:
            prior = slopes.square().sum(2)
            variance = self.sd**2 * torch.maximum(prior - variance, 1e-14 * prior)
        return answer(self.net, x).to(x.dtype), variance.sqrt().to(x.dtype)

    @property
    def _mlp(self) -> MLP:
        net = self.twin if self.bubble is None else self.twin.net
        if not isinstance(net, MLP):
            raise TypeError(not_exported("the network of LastLayerLaplace", "made by pinn.mlp(...)", net))
        return net

    def _slopes(self, x: Tensor) -> Tensor:
        """The derivatives of the outputs with respect to the weights of the last layers, (n, m, P)."""
        linears = self._mlp.linears
        inputs, rises = [self._mlp.entry(x)], []
        for linear in linears[:-1]:
            value, rise, _ = self.activation(linear(inputs[-1]))
            inputs.append(value)
            rises.append(rise[:, None])
        bubble = torch.ones_like(x[:, :1]) if self.bubble is None else self.bubble(x)
        back = bubble[:, :, None] * torch.eye(linears[-1].out_features, dtype=x.dtype)
        slopes: list[Tensor] = []
        for i in reversed(range(len(linears))[-self.layers :]):
            by_weight = (back[..., None] * inputs[i][:, None, None]).flatten(2)
            slopes = [by_weight, back, *slopes]
            back = back @ linears[i].weight * rises[i - 1] if i else back
        return torch.cat(slopes, dim=2)


def _smooth(net: MLP) -> Any:
    """The activation of a network, if its derivative is known."""
    activation = net.activation
    smooth = function_of(activation) if isinstance(activation, nn.Module) else activation
    if smooth not in ACTIVATIONS:
        names = ", ".join(known.__name__ for known in ACTIVATIONS)
        raise TypeError(not_exported("the activation under LastLayerLaplace", f"one of {names}", activation))
    return smooth
