"""Likelihood: how far data, equation and conditions may be off; the one loss, and the one potential.

Every miss is thought of as Gaussian noise with a scale of its own. With n measurements the negative
log-likelihood of a network is

    U = n/2 ( mean |u - y|^2 / data^2  +  mean |residual|^2 / physics^2  +  mean |condition|^2 / boundary^2 )

where the means are over measurements, over the domain and over its boundary. Equation and conditions thus
count as much as all measurements together, however many points are used to average them: the points stand for
a continuum and are not so many pieces of evidence. Training minimizes U; Bayesian predictors sample exp(-U).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from guardband.geometry import Boundary
from guardband.kept import kept
from guardband.models import evaluating
from guardband.pinn.derivatives import JetField, Residual, differentiate, needs_of, split
from guardband.pinn.jets import Channels
from guardband.pinn.networks import MLP, Constrained
from guardband.problems import AutogradField, Condition, Field, Names, Problem
from guardband.problems.base import conditions_in, side_by_side

TERMS = ("data", "physics", "boundary")
"""The terms of the loss, in the order in which they are listed everywhere."""


@kept
@dataclass(frozen=True)
class Likelihood:
    """Noise scales: how far data (in the units of y), equation and conditions may be off.

    `data` is the standard deviation of the measurement noise. `physics` is in the units of the residual; by
    default it is 2 % of the size that the residual's own terms have for a field as large as the data.
    `boundary` is that of the conditions, by default as `data`.

    >>> import guardband as gb
    >>> gb.Likelihood(data=0.1)
    Likelihood(data=0.1, physics=None, boundary=None)
    >>> gb.Likelihood.from_weights(data=4.0, physics=1.0, boundary=1.0)
    Likelihood(data=0.5, physics=1.0, boundary=1.0)
    """

    data: float = 0.05
    physics: float | None = None
    boundary: float | None = None

    def __post_init__(self) -> None:
        for name in TERMS:
            scale = getattr(self, name)
            if scale is not None and not (0 < scale < math.inf):
                raise ValueError(f"`{name}` should be a positive noise scale, got {scale}.")

    @classmethod
    def from_weights(cls, *, data: float, physics: float, boundary: float) -> Likelihood:
        """The scales under which training minimizes a sum of mean squares with these weights."""
        return cls(data**-0.5, physics**-0.5, boundary**-0.5)

    def completed(self, problem: Problem, size: float) -> Likelihood:
        """The same with all scales filled in, for data of this size (root mean square)."""
        physics = self.physics or PHYSICS_SHARE * typical_residual(problem, size)
        return replace(self, physics=physics, boundary=self.boundary or self.data)

    def weights(self, physics_factor: float = 1.0) -> Tensor:
        """The inverse variances, (3,) in the order of `TERMS`: what multiplies the mean squares."""
        if self.physics is None or self.boundary is None:
            raise ValueError("The scales are not all known yet; `completed` fills them in.")
        scales = [self.data, self.physics * physics_factor, self.boundary]
        return torch.tensor([1 / scale**2 for scale in scales], dtype=torch.float64)


PHYSICS_SHARE = 0.02
"""The default physics scale, as a share of the typical size of the residual's own terms."""


def typical_residual(problem: Problem, size: float) -> float:
    """How large the terms of the residual are for a field of this size that varies over the whole domain.

    The root mean square of residual(u) - residual(0) over cosines with about one wave per axis: it knows the
    units of the equation, and needs no solution.
    """
    generator = torch.Generator().manual_seed(0)
    domain, names = problem.domain, problem.names
    m = len(names.outputs)
    x = domain.uniform(256, generator)
    reach, center = torch.tensor(domain.reach), torch.tensor(domain.center)
    nothing = AutogradField(lambda x: torch.zeros(len(x), m, dtype=x.dtype), x, names)
    zero = _finite_misses(problem, x, nothing, "u = 0")
    squares = []
    for _ in range(8):
        waves = 0.5 + torch.rand(domain.d, m, generator=generator)
        phase = 2 * torch.pi * torch.rand(m, generator=generator)

        def wave(x: Tensor, waves: Tensor = waves, phase: Tensor = phase) -> Tensor:
            return size * math.sqrt(2) * torch.cos(torch.pi * ((x - center) / reach) @ waves + phase)

        residual = _finite_misses(problem, x, AutogradField(wave, x, names), f"waves of size {size:.3g}")
        squares.append((residual - zero).square().sum(dim=1).mean())
    return float(torch.stack(squares).mean().sqrt())


def _finite_misses(problem: Problem, x: Tensor, u: Field, trial: str) -> Tensor:
    """The misses of a trial field, refused where they are not finite."""
    found = problem.misses(x, u).detach()
    where = f"points inside, with {trial} as the field"
    cure = " If it is finite for the fields you look for, give its scale: gb.Likelihood(physics=...)."
    _check_finite(found, x, problem.names, f"{type(problem).__name__}.residual", where, cure)
    return found


class Points(NamedTuple):
    """Where the loss looks: data points with their targets, points inside, points of each condition.

    A target that was not measured is NaN.
    """

    x: Tensor
    y: Tensor
    inside: Tensor
    edges: tuple[Boundary, ...]


def fixed_points(
    problem: Problem,
    net: nn.Module,
    data: tuple[Tensor, Tensor],
    n_interior: int | tuple[int, ...] | None,
    n_boundary: int,
    generator: torch.Generator | None,
) -> Points:
    """Points that stay: all data, quasi-random points inside and random ones on the boundary.

    Without a generator they are evenly placed. There are 256 inside on a line and 768 elsewhere, unless it is
    said how many, or how many per axis.
    """
    x, y = data
    domain = problem.domain
    counts = n_interior or (256 if domain.d == 1 else 768)
    whole = counts if isinstance(counts, int) else math.prod(counts)
    within = domain.grid(counts) if generator is None else domain.quasi(whole, seed=generator.initial_seed())
    on_edges = [c.points(domain, n_boundary, generator) for c in conditions_of(problem, net)]
    return Points(x, y, within.to(x), tuple(edge.to(x) for edge in on_edges))


class MeanSquares:
    """The mean square of each miss of a network, (3,) in the order of `TERMS`, at given points.

    All points where only the value of u is needed go through the network together. The end of a line, a
    single point, goes with those inside if they have its slope anyway: most of what it costs is the call.
    """

    problem: Problem
    net: nn.Module
    conditions: Sequence[Condition]

    def __init__(self, problem: Problem, net: nn.Module, sample: Points, *, compile: bool = False) -> None:
        self.problem, self.net = problem, net
        self.conditions = conditions_of(problem, net)
        self._names = names = problem.names
        inside = needs_of(problem.misses, net, sample.inside, names)
        edges = zip(self.conditions, sample.edges, strict=True)
        needs = [needs_of(c.residual, net, edge.points, names) for c, edge in edges]
        self._field = differentiate(net, inside, names, compile=compile)
        self._slopes = [None if need.only_value else differentiate(net, need, names) for need in needs]
        line = problem.domain.d == 1
        self._rides = [line and not need.only_value and inside.cover(need) for need in needs]
        self._partly = bool(sample.y.isnan().any())

    def __call__(self, points: Points, seen: list[Tensor] | None = None) -> Tensor:
        """The three mean squares; zero for a term without points.

        All misses are added to `seen`: of the data, of the equations, of each condition.
        """
        edges = list(zip(self.conditions, points.edges, self._slopes, self._rides, strict=True))
        plain = [edge.points for _, edge, slope, _ in edges if slope is None]
        riders = [edge.points for _, edge, _, rides in edges if rides]
        values = iter(self.net(torch.cat([points.x, *plain])).split([len(x) for x in (points.x, *plain)]))
        fields = iter(split(self._field(torch.cat([points.inside, *riders])), points.inside, *riders))
        zero = points.inside.new_zeros(())
        off = next(values) - points.y
        off = off.nan_to_num(0.0) if self._partly else off
        data = _mean_square(off) if len(points.x) else zero
        equations = self.problem.misses(points.inside, next(fields))
        physics = _mean_square(equations)
        boundary = zero
        misses = [off, equations]
        for condition, edge, slope, rides in edges:
            x = edge.points
            field = next(fields) if rides else self._value(x, next(values)) if slope is None else slope(x)
            field.normals = edge.normals
            misses.append(condition.residual(x, field))
            boundary = boundary + _mean_square(misses[-1])
        if seen is not None:
            seen += [miss.detach() for miss in misses]
        return torch.stack([data, physics, boundary])

    def _value(self, x: Tensor, value: Tensor) -> Field:
        return JetField(self.net, x, value[None], Channels(), self._names)


def check_shapes(problem: Problem, net: nn.Module, points: Points) -> None:
    """Refuse an equation or a condition whose residual is not (n, equations), and values that are NaN."""
    names = problem.names
    _check_shape(problem.misses, net, points.inside, names, f"{type(problem).__name__}.residual")
    for condition, edge in zip(conditions_of(problem, net), points.edges, strict=True):
        said = f"The residual of {type(condition).__name__}"
        _check_shape(condition.residual, net, edge.points, names, said)
        with evaluating(net):
            miss = condition.residual(edge.points, AutogradField(net, edge.points, names, edge.normals))
        _check_finite(miss, edge.points, names, said, "points where it holds")


def _check_shape(residual: Residual, net: nn.Module, x: Tensor, names: Names, name: str) -> None:
    """Columns whose number follows the number of points are two shapes that were broadcast by mistake."""
    with evaluating(net):
        found = [
            side_by_side(residual(part, AutogradField(net, part, names, torch.ones_like(part))), name)
            for part in (x[:1].repeat(k, 1) for k in (3, 5))
        ]
    shapes = [tuple(part.shape) for part in found]
    if any(len(shape) != 2 for shape in shapes) or [shape[0] for shape in shapes] != [3, 5]:
        raise ValueError(f"{name} should return (n, equations), for 3 points it returned {shapes[0]}.")
    if shapes[0][1] != shapes[1][1]:
        raise ValueError(
            f"{name} returned {shapes[0]} for 3 points and {shapes[1]} for 5: something in it has the shape "
            "(n,) and was broadcast against (n, 1). Keep the column: x[:, :1] for x[:, 0], or f[:, None]."
        )


def _check_finite(miss: Tensor, x: Tensor, names: Names, name: str, where: str, cure: str = "") -> None:
    """Refuse what is NaN or infinite, saying at which points."""
    bad = (~miss.detach().isfinite()).any(dim=1)
    if not bool(bad.any()):
        return
    first = int(bad.nonzero()[0, 0])
    value = "NaN" if bool(miss[first].isnan().any()) else "infinite"
    at = ", ".join(f"{axis} = {c:.4g}" for axis, c in zip(names.axes, x[first].tolist(), strict=True))
    raise ValueError(
        f"{name} should be finite, but it is {value} at {int(bad.sum())} of {len(x)} {where}, such as {at}. "
        f"Look for a division by zero, or a logarithm or a root of something negative.{cure}"
    )


def conditions_of(problem: Problem, net: nn.Module) -> Sequence[Condition]:
    """The conditions to be learnt: not those that the network meets by construction."""
    met, inner = ((), net) if not isinstance(net, Constrained) else (net.met, net.net)
    if met is None:
        return []
    periodic = inner.periodic if isinstance(inner, MLP) else ()
    conditions = (c for i, c in enumerate(conditions_in(problem)) if i not in met)
    return [c for c in conditions if c.around(problem.domain) not in periodic]


def _mean_square(miss: Tensor) -> Tensor:
    return miss.square().sum(dim=1).mean()
