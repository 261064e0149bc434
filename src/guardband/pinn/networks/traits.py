"""The traits of a network, which determine how training, verdicts and predictors treat it.

A class of networks derives from `Network` and overrides the traits in which it differs from an ordinary
module; no other code tests for the class. `traits_of` returns the traits of any torch module.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from guardband.pinn.networks.activations import ACTIVATIONS, function_of
from guardband.pinn.networks.jets import Layers
from guardband.pinn.problems import Field, Problem

DROPOUT = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
"""The dropout layers of torch."""


class Dropped(NamedTuple):
    """A linear layer whose inputs are each dropped in training with probability `p`."""

    layer: nn.Linear
    p: float


class Network(nn.Module):
    """A torch module that declares its traits for training; every trait has a default.

    `pinn.fit`, `pinn.verdict` and the predictors accept any torch module. Derive from `Network` to declare
    derivatives in closed form, conditions that hold by construction, linear layers, or random numbers.
    Override only the traits that differ from the defaults.

    A module that draws random numbers should keep its `torch.Generator` in the attribute `generator`, so that
    checkpoints store the state and L-BFGS repeats the draws. A module with its own weights should have a
    method `reset_parameters`, as in torch's layers, which draws new weights for restarts.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> class Sines(pinn.Network):
    ...     def __init__(self, n):
    ...         super().__init__()
    ...         self.register_buffer("k", torch.pi * torch.arange(1, n + 1))
    ...         self.weight = torch.nn.Parameter(torch.zeros(n, 1))
    ...
    ...     def forward(self, x):
    ...         return torch.sin(x * self.k) @ self.weight
    ...
    ...     def known_derivative(self, x, axes):
    ...         phase = x * self.k + len(axes) * torch.pi / 2
    ...         return (self.k ** len(axes) * torch.sin(phase)) @ self.weight
    ...
    ...     def meets(self, problem):
    ...         return [0]
    >>> problem = pinn.problems.Poisson1D()
    >>> recipe = pinn.Recipe.by_newton(10)
    >>> fitted = pinn.fit(problem, Sines(4), recipe=recipe, progress=False)
    >>> fitted.verdict.word
    'converged'
    """

    @property
    def shape(self) -> tuple[int, int] | None:
        """The numbers of coordinates and outputs; None if they are not fixed."""
        return None

    def adapt(self, problem: Problem) -> None:
        """Prepare for training on the domain of a problem, for example by scaling the inputs.

        Training calls this method on a copy of the network, once per time window.

        Parameters
        ----------
        problem
            The problem, on the whole domain or on one time window.
        """

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        """Return a derivative of the outputs; None if autograd should compute it.

        Parameters
        ----------
        x
            Points, shape (n, d).
        axes
            The sorted axes of the derivative; `(0, 0)` is the second derivative along the first axis.

        Returns
        -------
        Tensor | None
            The derivative, shape (n, m), differentiable with respect to the weights.
        """
        return None

    def as_layers(self, x: Tensor) -> tuple[Tensor, Layers] | None:
        """Return the network as linear layers with smooth activations, which makes training fast.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        tuple[Tensor, Layers] | None
            The scaled points and the layers, which contain the parameters themselves; None if the network has
            a different structure.
        """
        return None

    @property
    def inner(self) -> nn.Module:
        """The network that this network transforms; by default the network itself."""
        return self

    def compose(self, field: Field, x: Tensor) -> Field:
        """Return the field of this network, given that of `inner`.

        Parameters
        ----------
        field
            The outputs of `inner` and their derivatives.
        x
            Points, shape (n, d).

        Returns
        -------
        Field
            The outputs of this network and their derivatives.
        """
        return field

    def meets(self, problem: Problem) -> Collection[int]:
        """Return the indices of the conditions that the network satisfies exactly for all weights.

        Parameters
        ----------
        problem
            The problem to be solved.

        Returns
        -------
        Collection[int]
            Indices into `problem.conditions()`; training omits these conditions from the loss.
        """
        return ()

    @property
    def meets_start(self) -> bool:
        """Whether the initial state is built in, so that time windows cannot start from a different state."""
        return False

    @property
    def last_layer(self) -> nn.Linear | None:
        """The layer, if any, that maps the penultimate layer (`features(x)` if defined) to the outputs."""
        return None

    @property
    def stochastic(self) -> bool:
        """Whether the outputs are random in training mode, as with dropout."""
        return any(isinstance(part, DROPOUT) and part.p > 0 for part in self.modules())

    def dropped(self) -> Mapping[str, Dropped]:
        """Return the linear layers that directly follow dropout, if they account for all dropout.

        Dropping the input of a linear layer is the same as setting a column of its weight to zero, so
        `pinn.predictors.Dropout` can draw weights instead of masks.

        Returns
        -------
        Mapping[str, Dropped]
            The layers and their rates, by the parameter name of the layer's weight.
        """
        return {}

    @property
    def windowed(self) -> bool:
        """Whether the network consists of one network per time window."""
        return False

    def at_time(self, time: float) -> nn.Module:
        """Return the network that is responsible for a time.

        Parameters
        ----------
        time
            A value of the time axis.

        Returns
        -------
        nn.Module
            The network of the window, or this network itself.
        """
        return self

    def posed(self, problem: Problem) -> Problem:
        """Return the problem with the conditions that the structure of the network adds.

        Parameters
        ----------
        problem
            The problem to be solved.

        Returns
        -------
        Problem
            The problem with the same equation and, for example, continuity between time windows as a
            condition.
        """
        return problem


class Plain(Network):
    """The traits of a module that does not declare any."""

    net: nn.Module

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    @property
    def inner(self) -> nn.Module:
        """The module itself."""
        return self.net

    def at_time(self, time: float) -> nn.Module:
        """The module itself, at all times."""
        return self.net


class PlainSequential(Plain):
    """The traits of a `torch.nn.Sequential`, which may alternate linear layers with known activations."""

    def as_layers(self, x: Tensor) -> tuple[Tensor, Layers] | None:
        """The layers, if all linear layers have a bias and all activations are known."""
        parts = [part for part in self.net._modules.values() if part is not None]  # including repeated ones
        if len(parts) % 2 == 0 or len(parts) < 3:
            return None
        linears = [part for part in parts[::2] if isinstance(part, nn.Linear) and part.bias is not None]
        functions = [function_of(part) for part in parts[1::2]]
        activations = [ACTIVATIONS[function] for function in functions if function is not None]
        if len(linears) < len(parts[::2]) or len(activations) < len(functions):
            return None
        weights, biases = zip(*((layer.weight, layer.bias) for layer in linears), strict=True)
        one = x.new_ones(x.shape[1])
        return x, Layers(weights, biases, activations, [None] * len(activations), one)

    @property
    def last_layer(self) -> nn.Linear | None:
        """The last linear layer at any depth."""
        return next((part for part in reversed([*self.net.modules()]) if isinstance(part, nn.Linear)), None)

    def dropped(self) -> Mapping[str, Dropped]:
        """The linear layers that follow a `torch.nn.Dropout`, if all dropout is of this form."""
        active = {part for part in self.net.modules() if isinstance(part, DROPOUT) and part.p > 0}
        layers = [*self.net._modules.items(), ("", None)]  # a layer that occurs twice is listed twice
        if not active <= {layer for _, layer in layers}:
            return {}
        found = dict[str, Dropped]()
        for (_, layer), (name, after) in itertools.pairwise(layers):
            if layer in active:
                once = sum(other is after for _, other in layers) == 1
                known = isinstance(layer, nn.Dropout) and layer.p < 1 and isinstance(after, nn.Linear)
                if not (known and once):
                    return {}
                found[f"{name}.weight"] = Dropped(after, layer.p)
        return found


def traits_of(net: nn.Module) -> Network:
    """The traits of a module, either its own or the defaults.

    >>> traits_of(nn.Linear(2, 1)).stochastic
    False
    """
    if isinstance(net, Network):
        return net
    return PlainSequential(net) if isinstance(net, nn.Sequential) else Plain(net)


def has_derivatives(net: nn.Module) -> bool:
    """Whether a network defines `known_derivative`."""
    return type(traits_of(net)).known_derivative is not Network.known_derivative


def core_of(net: nn.Module) -> nn.Module:
    """The innermost network, without its transformations."""
    inner = traits_of(net).inner
    return net if inner is net else core_of(inner)


def composed(net: nn.Module, field: Field, x: Tensor) -> Field:
    """The field of a network, given the field of its core."""
    traits = traits_of(net)
    return field if traits.inner is net else traits.compose(composed(traits.inner, field, x), x)


def generators_in(net: nn.Module) -> list[torch.Generator]:
    """The random generators of a network and its parts."""
    found = (getattr(module, "generator", None) for module in net.modules())
    return [generator for generator in found if isinstance(generator, torch.Generator)]
