"""Multilayer perceptrons scaled to a domain, and hard constraints around networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from operator import index
from typing import Any, Literal, SupportsIndex

import torch
from torch import Tensor, nn

from guardband.base.kept import kept
from guardband.pinn.geometry import Domain, axis_names
from guardband.pinn.networks.activations import ACTIVATIONS
from guardband.pinn.networks.derivatives import ConstrainedField
from guardband.pinn.networks.jets import Layers, Waves
from guardband.pinn.networks.traits import Dropped, Network, core_of, has_derivatives, traits_of
from guardband.pinn.problems import AutogradField, Field, Problem
from guardband.pinn.problems.base import as_problem, conditions_in
from guardband.pinn.problems.conditions import Function
from guardband.pinn.problems.hard import Hard
from guardband.values import Names, position

LARGEST = 100_000
"""The largest width of a layer in a network that is loaded from a file."""


class MLP(Network):
    """A multilayer perceptron with inputs scaled to the domain, constructed by `mlp`.

    The inputs are scaled to (x - center) / reach, then mapped to Fourier features, if any, and then passed
    through linear layers with activations between them. Dropout masks are drawn from the network's own
    generator, and only in training mode.

    Parameters
    ----------
    sizes
        The numbers of inputs, of neurons in each hidden layer, and of outputs.
    activation
        A smooth function, such as `torch.tanh`.
    dropout
        The probability that a neuron is dropped in training.
    where
        "last" applies dropout only to the last hidden layer, and "all" applies it to every hidden layer.
    seed
        The seed of the initial weights, the Fourier features and the dropout masks.
    periodic
        The axes along which the network is periodic, by number.
    fourier
        The number of random Fourier features and their spread; see `mlp`.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> net = pinn.mlp(2, [32, 16])
    >>> net.sizes, net.features(torch.zeros(5, 2)).shape
    ((2, 32, 16, 1), torch.Size([5, 16]))
    """

    sizes: tuple[int, ...]
    activation: Function
    dropout: float
    where: Literal["last", "all"]
    periodic: tuple[int, ...]
    fourier: tuple[int, float] | None
    generator: torch.Generator
    layers: nn.ModuleList
    center: Tensor
    reach: Tensor
    names: Names | None
    matrix: Tensor | None
    phase: Tensor | None
    wavy: Tensor | None

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Function = torch.tanh,
        dropout: float = 0.0,
        where: Literal["last", "all"] = "last",
        seed: int = 0,
        periodic: Sequence[int] = (),
        fourier: tuple[int, float] | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` should lie in [0, 1), got {dropout}.")
        self.sizes, self.activation, self.dropout, self.where = tuple(sizes), activation, dropout, where
        self.periodic, self.fourier, self.names = tuple(periodic), fourier, None
        self.generator = torch.Generator().manual_seed(seed)
        pairs = itertools.pairwise((_n_features(sizes[0], self.periodic, fourier), *sizes[1:]))
        waves = _waves(sizes[0], self.periodic, fourier, seed)
        self.layers = nn.ModuleList(nn.utils.skip_init(nn.Linear, n_in, n_out) for n_in, n_out in pairs)
        self.register_buffer("center", torch.zeros(sizes[0]))
        self.register_buffer("reach", torch.ones(sizes[0]))
        for name, part in zip(("matrix", "phase", "wavy"), waves or (None, None, None), strict=True):
            self.register_buffer(name, part)
        self.initialize()

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The outputs, shape (n, m).
        """
        return self.linears[-1](self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate layer, which the last linear layer takes as its input.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The activations, shape (n, width).
        """
        h = self.entry(x)
        # Without gradients, tanh can work in place, which saves a pass through memory.
        in_place = self.activation is torch.tanh and not torch.is_grad_enabled()
        for i, layer in enumerate(self.linears[:-1]):
            h = layer(h).tanh_() if in_place else self.activation(layer(h))
            mask = self.draw_mask(i, h)
            h = h if mask is None else h * mask
        return h

    def entry(self, x: Tensor) -> Tensor:
        """Return the input of the first linear layer: the scaled coordinates or their Fourier features.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The inputs of the first layer, shape (n, k).
        """
        if x.shape[-1] != self.sizes[0]:  # a single column would be broadcast silently
            raise ValueError(
                f"`x` should have {self.sizes[0]} columns, one per input of the network, got {x.shape[-1]}. "
                "Pass one row per point, such as [[0.3, 0.9]]."
            )
        h = (x - self.center) / self.reach
        return h if self.waves is None else self.waves(h)

    @property
    def waves(self) -> Waves | None:
        """The Fourier features that replace the coordinates, if any."""
        if self.matrix is None or self.phase is None or self.wavy is None:
            return None
        return Waves(self.matrix, self.phase, self.wavy)

    @property
    def linears(self) -> list[nn.Linear]:
        """The linear layers in order."""
        return list(self.layers)  # type: ignore[arg-type]

    def draw_mask(self, layer: int, like: Tensor) -> Tensor | None:
        """Draw a dropout mask for a hidden layer.

        Parameters
        ----------
        layer
            The number of the hidden layer, from 0.
        like
            A tensor with the shape, dtype and device of the activations, (n, width).

        Returns
        -------
        Tensor | None
            The mask, shape (n, width); None in evaluation mode and for layers without dropout.
        """
        last = len(self.layers) - 2
        if not self.training or self.dropout == 0 or (self.where == "last" and layer != last):
            return None
        keep = torch.rand(like.shape, generator=self.generator, dtype=torch.float32) >= self.dropout
        return keep.to(like) / (1 - self.dropout)

    def set_domain(self, domain: Domain) -> None:
        """Scale the inputs so that the domain becomes [-1, 1] along every axis.

        Parameters
        ----------
        domain
            The domain of the problem.
        """
        self.center.copy_(torch.tensor(domain.center))
        self.reach.copy_(torch.tensor(domain.reach))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of coordinates and outputs."""
        return self.sizes[0], self.sizes[-1]

    def adapt(self, problem: Problem) -> None:
        """Scale the inputs to the domain of the problem, and adopt its names."""
        self.set_domain(problem.domain)
        self.names = problem.names

    def as_layers(self, x: Tensor) -> tuple[Tensor, Layers] | None:
        """Return the layers, if the network has a hidden layer and a known activation."""
        activation = ACTIVATIONS.get(self.activation)
        if activation is None or len(self.layers) < 2:
            return None
        shapes = [x.new_empty(()).expand(len(x), width) for width in self.sizes[1:-1]]
        masks = [self.draw_mask(i, like) for i, like in enumerate(shapes)]
        weights, biases = zip(*((layer.weight, layer.bias) for layer in self.linears), strict=True)
        layers = Layers(weights, biases, [activation] * len(masks), masks, self.reach, self.waves)
        return (x - self.center) / self.reach, layers

    def meets(self, problem: Problem) -> Collection[int]:
        """Return the periodic conditions along axes in which the network is periodic."""
        found = enumerate(conditions_in(problem) if self.periodic else ())
        return [i for i, condition in found if condition.around(problem.domain) in self.periodic]

    @property
    def last_layer(self) -> nn.Linear:
        """The last linear layer."""
        return self.linears[-1]

    @property
    def stochastic(self) -> bool:
        """Whether the network has dropout."""
        return self.dropout > 0

    def dropped(self) -> Mapping[str, Dropped]:
        """Return the linear layers after activations with dropout."""
        if not self.dropout:
            return {}
        layers = range(1, len(self.layers)) if self.where == "all" else [len(self.layers) - 1]
        return {f"layers.{i}.weight": Dropped(self.linears[i], self.dropout) for i in layers}

    def reset_parameters(self) -> None:
        """Draw new weights from the network's own generator."""
        self.initialize()

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw Xavier-uniform weights with the gain of tanh, and uniform biases within +-1 / sqrt(fan in)."""
        for layer in self.linears:
            n_out, n_in = layer.weight.shape
            bound = 5 / 3 * math.sqrt(6 / (n_in + n_out))
            layer.weight.uniform_(-bound, bound, generator=self.generator)
            layer.bias.uniform_(-1 / math.sqrt(n_in), 1 / math.sqrt(n_in), generator=self.generator)


def mlp(
    problem: Problem | int,
    widths: Sequence[int] | None = None,
    *,
    outputs: int | None = None,
    activation: Function = torch.tanh,
    dropout: float = 0.0,
    where: Literal["last", "all"] = "last",
    periodic: str | int | Sequence[str | int] | None = None,
    fourier: tuple[int, float] | None = None,
    seed: int = 0,
) -> MLP:
    """Return a multilayer perceptron for a problem, or with a given number of inputs.

    Parameters
    ----------
    problem
        The problem, whose domain scales the inputs, or the number of inputs.
    widths
        The widths of the hidden layers. The default is three layers of 24 neurons, with the initial weights
        of the last layer divided by 10, which suits Gauss-Newton steps. With `dropout`, the default is three
        layers of 16 neurons per input and output, at least 32 and at most 64, which suits Adam.
    outputs
        The number of outputs, by default that of the problem, or 1.
    activation
        A smooth function such as `torch.tanh`, `torch.sin` or `torch.nn.functional.gelu`.
    dropout
        The probability that a neuron is dropped in training.
    where
        "last" applies dropout only to the last hidden layer; "all" applies it to every hidden layer, which
        usually ruins the fit of a PINN.
    periodic
        The axes along which the network is periodic, by name or number. Their sines and cosines, with the
        extent of the domain as the period, replace these coordinates as inputs. Without `widths`, the default
        is the axes of the problem's `Periodic` conditions.
    fourier
        `(n, spread)` adds n random Fourier features of the other axes. Their frequencies are normal with the
        standard deviation `spread` per half extent of the domain.
    seed
        The seed of the initial weights, the Fourier features and the dropout masks.

    Returns
    -------
    MLP
        The network, with random weights.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> pinn.mlp(2, [16, 16])(torch.zeros(5, 2)).shape
    torch.Size([5, 1])
    >>> pinn.mlp(pinn.problems.AllenCahn2D()).sizes
    (2, 24, 24, 24, 1)
    """
    if isinstance(widths, int):
        raise TypeError(
            f"`widths` should be a list of the widths of the hidden layers, such as [{widths}, {widths}], "
            f"got {widths}."
        )
    given = None if isinstance(problem, SupportsIndex) else as_problem(problem)
    if isinstance(problem, SupportsIndex):
        d, m = index(problem), 1 if outputs is None else outputs
        axes = axis_names(d)
    else:
        names = as_problem(problem).names
        d, m, axes = len(names.axes), len(names.outputs), names.axes
        if outputs not in (None, m):
            raise ValueError(f"The problem has {m} outputs ({', '.join(names.outputs)}), got {outputs}.")
    automatic = widths is None
    if widths is None:
        widths = [min(64, max(32, 16 * (d + m)))] * 3 if dropout else [24] * 3
    if periodic is None:
        periodic = () if given is None or not automatic else around(given)
    for name, sizes in (("problem", [d]), ("widths", widths), ("outputs", [m])):
        if not all(isinstance(size, SupportsIndex) and index(size) >= 1 for size in sizes):
            raise ValueError(f"`{name}` should be positive integers, got {', '.join(map(repr, sizes))}.")
    wanted = (periodic,) if isinstance(periodic, str | int) else tuple(periodic)
    numbers = tuple(position(axis, axes, "axis") for axis in wanted)
    net = MLP([d, *widths, m], activation, dropout, where, seed, numbers, fourier)
    if automatic and not dropout:
        with torch.no_grad():
            net.linears[-1].weight.mul_(0.1)
            net.linears[-1].bias.mul_(0.1)
    if given is not None:
        net.adapt(given)
    return net


def around(problem: Problem) -> tuple[int, ...]:
    """The axes along which all outputs of a problem are periodic, by number."""
    conditions = [c for c in conditions_in(problem) if c.output is None]
    return tuple(axis for axis in (c.around(problem.domain) for c in conditions) if axis is not None)


def _n_features(d: int, periodic: Sequence[int], fourier: Sequence[float] | None) -> int:
    """The number of inputs of the first linear layer for d coordinates."""
    if not all(isinstance(axis, int) and 0 <= axis < d for axis in periodic) or len({*periodic}) < len(
        periodic
    ):
        raise ValueError(f"`periodic` should be distinct axes from 0 to {d - 1}, got {list(periodic)}.")
    if fourier is None:
        return d + len(periodic)
    count, spread = fourier
    if not (isinstance(count, int) and 0 < count <= LARGEST and 0 < spread < math.inf):
        raise ValueError(f"`fourier` should be a pair, the number of waves and their spread, got {fourier}.")
    return d + len(periodic) + 2 * count


def _waves(d: int, periodic: tuple[int, ...], fourier: tuple[int, float] | None, seed: int) -> Waves | None:
    """Sines and cosines of periodic axes, the other axes, and random Fourier features of the other axes."""
    if not periodic and fourier is None:
        return None
    others = [axis for axis in range(d) if axis not in periodic]
    rows = [torch.eye(d)[others]]
    if fourier is not None:
        count, spread = fourier
        generator = torch.Generator().manual_seed(seed)
        frequencies = torch.zeros(count, d)
        frequencies[:, others] = spread / torch.pi * torch.randn(count, len(others), generator=generator)
        rows += [frequencies, frequencies]
    around = torch.eye(d)[list(periodic)]
    matrix = torch.cat([*rows, around, around])
    phase = torch.zeros(len(matrix))
    phase[len(matrix) - len(periodic) :] = 0.5
    if fourier is not None:
        phase[len(others) + fourier[0] : len(others) + 2 * fourier[0]] = 0.5
    return Waves(matrix, phase, torch.arange(len(matrix)) >= len(others))


def _parts(net: MLP) -> dict[str, Any] | None:
    if net.activation not in ACTIVATIONS:
        return None  # a user-defined function cannot be stored
    settings = {"sizes": list(net.sizes), "dropout": net.dropout, "where": net.where}
    if net.waves is not None:
        settings |= {"periodic": list(net.periodic), "fourier": net.fourier and list(net.fourier)}
    if net.names is not None:
        settings["names"] = net.names
    return {**settings, "activation": net.activation.__name__, "weights": dict(net.state_dict())}


def _made(parts: dict[str, Any]) -> MLP:
    sizes, weights = parts["sizes"], parts["weights"]
    if not all(isinstance(size, int) and 0 < size <= LARGEST for size in sizes):
        raise ValueError(f"Layers should have 1 to {LARGEST} neurons, got {str(sizes)[:80]}.")
    periodic, fourier = parts.get("periodic", []), parts.get("fourier")
    seen = _n_features(sizes[0], periodic, fourier)
    features = seen * sizes[0] if periodic or fourier else 0
    layers = sum(a * b for a, b in itertools.pairwise((seen, *sizes[1:])))
    if features + layers > sum(w.numel() for w in weights.values()):
        raise ValueError("Layers should be as large as their weights, got larger layers.")
    known = {function.__name__: function for function in ACTIVATIONS}
    net = MLP(
        sizes,
        known[parts["activation"]],
        parts["dropout"],
        parts["where"],
        periodic=periodic,
        fourier=fourier and (fourier[0], fourier[1]),
    )
    net.to(weights["center"].dtype).load_state_dict(weights)
    net.names = parts.get("names")
    if not isinstance(net.names, Names | None):
        raise ValueError("The names of a network should be those of axes and outputs.")
    return net.eval()


kept(parts=_parts, made=_made)(MLP)


class Constrained(Network):
    """A network with hard constraints: u = lift(x) + bubble(x) net(x).

    The conditions hold exactly for all weights. `Constrained.of(problem, net)` constructs `lift` and `bubble`
    for Dirichlet and Initial conditions.

    Parameters
    ----------
    net
        The inner network.
    lift
        A function from points (n, d) to outputs (n, m) that satisfies all conditions.
    bubble
        A function from points (n, d) to values (n, 1) that vanishes where the conditions hold, to second
        order if they contain derivatives.
    met
        The indices of the conditions that hold exactly; None means all conditions.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> net = pinn.Constrained(pinn.mlp(1, [16, 16]), problem.lift, problem.bubble)
    >>> bool((net(torch.tensor([[0.0], [1.0]])) == 0).all())
    True
    """

    net: nn.Module
    lift: Function
    bubble: Function
    met: tuple[int, ...] | None

    def __init__(
        self, net: nn.Module, lift: Function, bubble: Function, met: tuple[int, ...] | None = None
    ) -> None:
        super().__init__()
        self.net, self.lift, self.bubble, self.met = net, lift, bubble, met

    @classmethod
    def of(cls, problem: Problem, net: nn.Module) -> Constrained:
        """Return a network that meets the Dirichlet and Initial conditions of a problem exactly.

        Other conditions of the problem are learned.

        Parameters
        ----------
        problem
            A problem on a shape composed of Box, Disk, Sphere and Polygon.
        net
            The inner network.

        Returns
        -------
        Constrained
            The network with its constraints.

        Examples
        --------
        >>> from guardband import pinn
        >>> problem = pinn.problems.Helmholtz3D()
        >>> net = pinn.Constrained.of(problem, pinn.mlp(problem, [16, 16]))
        >>> walls = problem.domain.boundary(30).points.float()
        >>> bool((net(walls) == 0).all())
        True
        """
        hard = Hard(problem)
        return cls(net, hard.lift, hard.bubble, hard.met)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The outputs, shape (n, m).
        """
        return self.lift(x) + self.bubble(x) * self.net(x)

    @property
    def names(self) -> Names | None:
        """The names of axes and outputs, if known."""
        return getattr(self.net, "names", None)

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate layer of the inner network.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The activations, shape (n, width).
        """
        return self.net.features(x)  # type: ignore[operator]

    @property
    def inner(self) -> nn.Module:
        """The inner network."""
        return self.net

    def compose(self, field: Field, x: Tensor) -> Field:
        """Return the derivatives by the product rule."""
        return ConstrainedField(field, self.lift, self.bubble, x)

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        """Return a derivative by the product rule, if the inner network computes its own derivatives."""
        if not has_derivatives(core_of(self)):
            return None
        return self.compose(AutogradField(self.net, x), x).partial(axes)

    def meets(self, problem: Problem) -> Collection[int]:
        """Return the conditions met by lift and bubble (all if `met` is None) or by the inner network."""
        conditions = range(len(conditions_in(problem)))
        return conditions if self.met is None else {*self.met, *self._traits.meets(problem)}

    @property
    def meets_start(self) -> bool:
        """Whether the initial state may be built in, which is always True for arbitrary lift and bubble."""
        return True

    @property
    def shape(self) -> tuple[int, int] | None:
        """The shape of the inner network."""
        return self._traits.shape

    def adapt(self, problem: Problem) -> None:
        """Prepare the inner network."""
        self._traits.adapt(problem)

    @property
    def stochastic(self) -> bool:
        """Whether the inner network is random in training mode."""
        return self._traits.stochastic

    def dropped(self) -> Mapping[str, Dropped]:
        """Return the layers of the inner network."""
        return {f"net.{name}": found for name, found in self._traits.dropped().items()}

    @property
    def _traits(self) -> Network:
        return traits_of(self.net)


def _parts_of_constrained(net: Constrained) -> dict[str, Any]:
    """The inner network with the problem that defines lift and bubble, or with both functions."""
    owner = getattr(net.lift, "__self__", None)
    if owner is None or owner is not getattr(net.bubble, "__self__", None):
        return {"net": net.net, "lift": net.lift, "bubble": net.bubble, "met": net.met}
    hard = isinstance(owner, Hard)
    return {"net": net.net, "problem": owner.problem if hard else owner, "hard": hard}


def _made_constrained(parts: dict[str, Any]) -> Constrained:
    net, problem = parts["net"], parts.get("problem")
    if problem is None:
        return Constrained(net, parts["lift"], parts["bubble"], parts["met"])
    return Constrained.of(problem, net) if parts["hard"] else Constrained(net, problem.lift, problem.bubble)


kept(parts=_parts_of_constrained, made=_made_constrained)(Constrained)
