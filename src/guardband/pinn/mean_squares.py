"""Mean squares: how far a network is off, of each kind of miss; what Adam and L-BFGS make small."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from guardband.models import evaluating
from guardband.pinn.derivatives import JetField, Needs, Residual, differentiate_by, needs_of, split
from guardband.pinn.jets import Channels, Passes
from guardband.pinn.likelihood import check_finite
from guardband.pinn.points import Points, conditions_of
from guardband.pinn.scales import Scales
from guardband.pinn.unknowns import Sought, Unknowns
from guardband.problems import AutogradField, Condition, Field, Names, Problem
from guardband.problems.base import side_by_side


class MeanSquares:
    """The mean square of each miss of a network, (3,) in the order of `TERMS`, at given points.

    All points where only the value of u is needed go through the network together. The end of a line, a
    single point, goes with those inside if they have its slope anyway: most of what it costs is the call.
    With `scales` each miss is divided by its own before. `passes` are another way through the layers.
    """

    problem: Problem
    net: nn.Module
    conditions: Sequence[Condition]

    def __init__(
        self,
        problem: Problem,
        net: nn.Module,
        sample: Points,
        *,
        scales: Scales | None = None,
        passes: Passes | None = None,
    ) -> None:
        self.problem, self.net = problem, net
        self.conditions = conditions_of(problem, net)
        self._names = names = problem.names
        inside = needs_of(problem.misses, net, sample.inside, names)
        edges = zip(self.conditions, sample.edges, strict=True)
        needs = [needs_of(c.residual, net, edge.points, names) for c, edge in edges]
        self._field = differentiate_by(passes, net, inside, names)
        self._values = differentiate_by(passes, net, Needs(), names)
        self._slopes = [
            None if need.only_value else differentiate_by(passes, net, need, names) for need in needs
        ]
        line = problem.domain.d == 1
        self._rides = [line and not need.only_value and inside.cover(need) for need in needs]
        self._partly = bool(sample.y.isnan().any())
        self._units = _units(scales, sample)

    def __call__(self, points: Points, seen: list[Tensor] | None = None) -> Tensor:
        """The three mean squares; zero for a term without points.

        All misses are added to `seen`: of the data, of the equations, of each condition.
        """
        edges = list(zip(self.conditions, points.edges, self._slopes, self._rides, strict=True))
        plain = [edge.points for _, edge, slope, _ in edges if slope is None]
        riders = [edge.points for _, edge, _, rides in edges if rides]
        known = self._values(torch.cat([points.x, *plain])).value
        values = iter(known.split([len(x) for x in (points.x, *plain)]))
        fields = iter(split(self._field(torch.cat([points.inside, *riders])), points.inside, *riders))
        zero = points.inside.new_zeros(())
        off = next(values) - points.y
        off = off.nan_to_num(0.0) if self._partly else off
        of_data, of_equations, *of_conditions = self._units
        data = _mean_square(off, of_data) if len(points.x) else zero
        equations = self.problem.misses(points.inside, next(fields))
        physics = _mean_square(equations, of_equations)
        boundary = zero
        misses = [off, equations]
        for (condition, edge, slope, rides), unit in zip(edges, of_conditions, strict=True):
            x = edge.points
            field = next(fields) if rides else self._value(x, next(values)) if slope is None else slope(x)
            field.normals = edge.normals
            misses.append(condition.residual(x, field))
            boundary = boundary + _mean_square(misses[-1], unit)
        if seen is not None:
            seen += [miss.detach() for miss in misses]
        return torch.stack([data, physics, boundary])

    def _value(self, x: Tensor, value: Tensor) -> Field:
        return JetField(self.net, x, value[None], Channels(), self._names)


class SquaresModule(nn.Module):
    """Mean squares as a module, so that its weights can be exchanged for others, and its unknowns."""

    net: nn.Module
    unknowns: Unknowns

    net: nn.Module

    def __init__(self, mean_squares: MeanSquares) -> None:
        super().__init__()
        self.net, self._mean_squares = mean_squares.net, mean_squares
        if isinstance(mean_squares.problem, Sought):
            self.unknowns = mean_squares.problem.unknowns

    def forward(self, points: Points, seen: list[Tensor] | None = None) -> Tensor:
        """The mean square of each miss, (3,)."""
        return self._mean_squares(points, seen)


def check_shapes(problem: Problem, net: nn.Module, points: Points) -> None:
    """Refuse an equation or a condition whose residual is not (n, equations), and values that are NaN."""
    names = problem.names
    _check_shape(problem.misses, net, points.inside, names, f"{type(problem).__name__}.residual")
    for condition, edge in zip(conditions_of(problem, net), points.edges, strict=True):
        said = f"The residual of {type(condition).__name__}"
        _check_shape(condition.residual, net, edge.points, names, said)
        with evaluating(net):
            miss = condition.residual(edge.points, AutogradField(net, edge.points, names, edge.normals))
        check_finite(miss, edge.points, names, said, "points where it holds")


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


def _units(scales: Scales | None, sample: Points) -> list[Tensor | None]:
    """What the misses of the data, the equations and each condition are divided by; None where by 1."""
    if scales is None:
        return [None] * (2 + len(sample.edges))
    parts = [scales.data, scales.physics, *scales.boundary]
    return [None if bool((part == 1).all()) else part.to(sample.inside) for part in parts]


def _mean_square(miss: Tensor, unit: Tensor | None) -> Tensor:
    return (miss if unit is None else miss / unit).square().sum(dim=1).mean()
