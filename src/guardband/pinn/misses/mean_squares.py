"""The mean squares of the misses of each kind, which Adam and L-BFGS minimize."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from guardband.pinn.misses.likelihood import TERMS, Scales, check_finite
from guardband.pinn.misses.points import Points, terms_of
from guardband.pinn.misses.unknowns import Unknowns, current_problem
from guardband.pinn.networks.derivatives import JetField, Needs, Residual, differentiate_by, needs_of, split
from guardband.pinn.networks.jets import Channels, Passes
from guardband.pinn.networks.traits import core_of
from guardband.pinn.problems import AutogradField, Condition, Field, Names, Problem, Term
from guardband.pinn.problems.base import side_by_side, terms_in
from guardband.predictors.models import evaluating


class MeanSquares:
    """The mean square of each kind of miss of a network at given points, in the order of `names`.

    Points that need only the value of u pass through the network together. On an interval, the end points are
    evaluated together with the interior points if these carry the derivatives that the end points need, since
    most of the cost of the end points is the call. `scales` divides the misses, and `passes` replaces the
    default passes through the layers.
    """

    problem: Problem
    net: nn.Module
    terms: Sequence[Condition | Term]
    names: Sequence[str]
    """The names in `TERMS`, followed by those of the problem's additional terms."""

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
        self.terms = terms_of(problem, net)
        self._columns = [len(TERMS) - 1] * (len(self.terms) - len(terms_in(problem)))
        self._columns += range(len(TERMS), len(TERMS) + len(terms_in(problem)))
        self.names = [*TERMS, *(term.name for term in terms_in(problem))]
        self._names = names = problem.names
        inside = needs_of(problem.misses, net, sample.inside, names)
        edges = zip(self.terms, sample.edges, strict=True)
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
        """The mean squares, with 0 for a kind of miss without points.

        The misses of the data, the equations, each condition and each term are appended to `seen`.
        """
        edges = list(zip(self.terms, points.edges, self._slopes, self._rides, strict=True))
        plain = [edge.points for _, edge, slope, _ in edges if slope is None]
        riders = [edge.points for _, edge, _, rides in edges if rides]
        known = self._values(torch.cat([points.x, *plain])).value
        values = iter(known.split([len(x) for x in (points.x, *plain)]))
        fields = iter(split(self._field(torch.cat([points.inside, *riders])), points.inside, *riders))
        zero = points.inside.new_zeros(())
        off = next(values) - points.y
        off = off.nan_to_num(0.0) if self._partly else off
        of_data, of_equations, *of_terms = self._units
        equations = self.problem.misses(points.inside, next(fields))
        misses, squares = [off, equations], [zero] * len(self.names)
        squares[0] = _mean_square(off, of_data) if len(points.x) else zero
        squares[1] = _mean_square(equations, of_equations)
        for (term, edge, slope, rides), unit, column in zip(edges, of_terms, self._columns, strict=True):
            x = edge.points
            field = next(fields) if rides else self._value(x, next(values)) if slope is None else slope(x)
            field.normals = edge.normals
            misses.append(term.residual(x, field))
            squares[column] = squares[column] + _mean_square(misses[-1], unit)
        if seen is not None:
            seen += [miss.detach() for miss in misses]
        return torch.stack(squares)

    def _value(self, x: Tensor, value: Tensor) -> Field:
        return JetField(self.net, x, value[None], Channels(), self._names)


class SquaresModule(nn.Module):
    """The mean squares as a module, so that `functional_call` can replace weights and unknowns."""

    net: nn.Module
    unknowns: Unknowns

    def __init__(self, mean_squares: MeanSquares) -> None:
        super().__init__()
        self.net, self._mean_squares = mean_squares.net, mean_squares
        if current := current_problem(mean_squares.problem):
            self.unknowns = current.unknowns

    def forward(self, points: Points, seen: list[Tensor] | None = None) -> Tensor:
        """The mean square of each kind of miss."""
        return self._mean_squares(points, seen)


def check_shapes(problem: Problem, net: nn.Module, points: Points) -> None:
    """Refuse residuals whose shape is not (n, equations), and values that are not finite."""
    names = problem.names
    _check_shape(problem.misses, net, points.inside, names, f"{type(problem).__name__}.residual")
    terms = terms_of(problem, net)
    added = len(terms) - len(terms_in(problem))
    for number, (condition, edge) in enumerate(zip(terms, points.edges, strict=True)):
        label = f"The residual of {type(condition).__name__}"
        _check_shape(condition.residual, net, edge.points, names, label, whole=number >= added)
        with evaluating(net):
            miss = condition.residual(edge.points, AutogradField(net, edge.points, names, edge.normals))
        check_finite(miss, edge.points, names, label, "points where it holds")


def check_equation(problem: Problem, net: nn.Module, x: Tensor) -> None:
    """Refuse a residual that does not depend on the weights, and vanishing second derivatives."""
    x, names, name = x[:16], problem.names, type(problem).__name__
    needs = needs_of(problem.misses, net, x, names)
    with evaluating(net):
        if not problem.misses(x, AutogradField(net, x, names)).requires_grad:
            raise ValueError(
                f"{name}.residual should depend on the field that it receives, but changing the weights of "
                "the network does not change it. Look for .detach(), torch.no_grad() or numpy in it."
            )
        second = [along for along in needs.derivatives if len(along) > 1]
        second += [(axis, axis) for over in needs.laplacians for axis in over]
        field = AutogradField(core_of(net), x)
        sloped = any(bool(field.partial((axis,)).any()) for axis in range(x.shape[1]))
        if second and sloped and not any(bool(field.partial(along).any()) for along in second):
            raise ValueError(
                f"{name}.residual uses second derivatives, but those of this network are 0 everywhere, as "
                "with ReLU. Use a smooth activation, such as tanh in pinn.mlp(problem)."
            )


def _check_shape(
    residual: Residual, net: nn.Module, x: Tensor, names: Names, name: str, *, whole: bool = False
) -> None:
    """Refuse a number of columns that depends on the number of points: an accidental broadcast."""
    with evaluating(net):
        found = [
            side_by_side(residual(part, AutogradField(net, part, names, torch.ones_like(part))), name)
            for part in (x[:1].repeat(k, 1) for k in (3, 5))
        ]
    shapes = [tuple(part.shape) for part in found]
    lengths = [shape[0] for shape in shapes if len(shape) == 2]
    if lengths != [3, 5] and not (whole and lengths == [1, 1]):
        wanted = "(n, q), or (1, q) for all points together" if whole else "(n, equations)"
        raise ValueError(f"{name} should return shape {wanted}, got {shapes[0]} for 3 points.")
    if shapes[0][1] != shapes[1][1]:
        raise ValueError(
            f"{name} returned {shapes[0]} for 3 points and {shapes[1]} for 5. A tensor of shape (n,) was "
            "probably broadcast against (n, 1). Keep the column dimension: write x[:, :1] instead of x[:, "
            "0], or f[:, None]."
        )


def _units(scales: Scales | None, sample: Points) -> list[Tensor | None]:
    """The divisors of the misses of the data, the equations and each condition; None means 1."""
    if scales is None:
        return [None] * (2 + len(sample.edges))
    parts = [scales.data, scales.physics, *scales.boundary]
    return [None if bool((part == 1).all()) else part.to(sample.inside) for part in parts]


def _mean_square(miss: Tensor, unit: Tensor | None) -> Tensor:
    return (miss if unit is None else miss / unit).square().sum(dim=1).mean()
