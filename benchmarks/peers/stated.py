"""Problems of the catalogue in the form of DeepXDE: geometry, equation and conditions.

Derivatives are DeepXDE's own, and each condition is an instance of the class in its documentation; a
condition without such a class is a custom `BC`. `losses` of the exact solution are about 0.
"""

import os

os.environ["DDE_BACKEND"] = "pytorch"

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import deepxde as dde
import numpy as np
import torch
from torch import Tensor

from guardband.pinn.geometry import Box, Combination, Disk, Domain, Rectangle, Segment, Time, TimeSpan
from guardband.pinn.problems import (
    Condition,
    Dirichlet,
    Field,
    Initial,
    Neumann,
    Periodic,
    PointValue,
    Problem,
    catalogue,
)
from guardband.pinn.problems.conditions import Value, as_function
from guardband.pinn.problems.field import Columns
from guardband.values import Names

SIDES = {"left": (0, "lower"), "right": (0, "upper"), "bottom": (1, "lower"), "top": (1, "upper")}
CORNERS = [[-1, -1], [0, -1], [0, 0], [1, 0], [1, 1], [-1, 1]]
"""Corners of the L, counterclockwise."""


class Derivatives(Field):
    """A network's outputs and their derivatives by `dde.grad`, at all or some rows."""

    def __init__(
        self, x: Tensor, y: Tensor, names: Names, rows: slice | None = None, normals: Tensor | None = None
    ) -> None:
        self._all, self._y, self._rows = x, y, slice(None) if rows is None else rows
        super().__init__(x[self._rows], names, normals)

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The derivative of some outputs along these axes."""
        chosen = range(self._y.shape[1]) if columns is None else columns
        parts = [self._of(j, axes)[self._rows] for j in chosen]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The sum of the second derivatives."""
        first, *others = (self.partial((i, i), columns) for i in axes)
        return sum(others, first)

    def _of(self, j: int, axes: tuple[int, ...]) -> Tensor:
        if not axes:
            return self._y[:, j : j + 1]
        if len(axes) == 1:
            return dde.grad.jacobian(self._y, self._all, i=j, j=axes[0])
        if len(axes) == 2:
            return dde.grad.hessian(self._y, self._all, component=j, i=axes[0], j=axes[1])
        return dde.grad.jacobian(self._of(j, axes[:-1]), self._all, i=0, j=axes[-1])


def geometry(problem: Problem) -> Any:
    """The domain; the L is a polygon, as in DeepXDE's example."""
    if isinstance(problem, catalogue.PoissonLShape):
        return SamePolygon(CORNERS)
    return _shape(problem.domain)


class SamePolygon(dde.geometry.Polygon):
    """A polygon whose boundary points have DeepXDE's default dtype, which numpy 2 does not provide."""

    def random_boundary_points(self, n: int, random: str = "pseudo") -> np.ndarray:
        return super().random_boundary_points(n, random).astype(dde.config.real(np))


def _shape(domain: Domain) -> Any:
    if isinstance(domain, TimeSpan):
        return dde.geometry.GeometryXTime(_shape(domain.shape), _shape(domain.time))
    if isinstance(domain, Combination) and domain.how == "without":
        return dde.geometry.CSGDifference(_shape(domain.first), _shape(domain.second))
    if isinstance(domain, Disk):
        return dde.geometry.Disk(list(domain.center_at), domain.radius)
    lower, upper = list(domain.lower), list(domain.upper)
    if isinstance(domain, Time):
        return dde.geometry.TimeDomain(lower[0], upper[0])
    if isinstance(domain, Segment):
        return dde.geometry.Interval(lower[0], upper[0])
    if isinstance(domain, Rectangle):
        return dde.geometry.Rectangle(lower, upper)
    if isinstance(domain, Box):
        return dde.geometry.Cuboid(lower, upper)
    raise NotImplementedError(f"DeepXDE has no shape for {domain!r}.")


def equation(problem: Problem) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """The residuals, one loss for each."""

    def residuals(x: Tensor, y: Tensor) -> list[Tensor]:
        found = problem.residual(x, Derivatives(x, y, problem.names))
        return [found] if isinstance(found, Tensor) else list(found.values())

    return residuals


def conditions(problem: Problem, shape: Any, *, met: Sequence[type[Condition]] = ()) -> list[Any]:
    """The conditions that the network does not satisfy exactly, one loss for each output."""
    wanted = [c for c in problem.conditions() if not isinstance(c, tuple(met))]
    return [stated for condition in wanted for stated in _stated(condition, problem, shape)]


def _stated(condition: Condition, problem: Problem, shape: Any) -> Iterator[Any]:
    on = _on(condition, problem.domain)
    for column, k in enumerate(_outputs(condition, problem)):
        if isinstance(condition, Dirichlet):
            yield dde.icbc.DirichletBC(shape, _values(condition.value, column), on, component=k)
        elif isinstance(condition, Neumann):
            yield dde.icbc.NeumannBC(shape, _values(condition.flux, column), on, component=k)
        elif isinstance(condition, Initial):
            yield from _start(condition, problem, shape, column, k)
        elif isinstance(condition, Periodic):
            axis = condition.around(problem.domain)
            for order in (0, 1):
                yield dde.icbc.PeriodicBC(shape, axis, _end(problem.domain, axis), order, component=k)
        elif isinstance(condition, PointValue):
            x = condition.points(problem.domain, 1).points.numpy()
            yield dde.icbc.PointSetBC(x, _values(condition.value, column)(x), component=k)
    if not isinstance(condition, Dirichlet | Neumann | Initial | Periodic | PointValue):
        yield Vanishing(condition, problem, shape, on)


def _start(condition: Initial, problem: Problem, shape: Any, column: int, k: int) -> Iterator[Any]:
    """The initial value, and the velocity as an operator: DeepXDE's normals exclude time."""
    yield dde.icbc.IC(shape, _values(condition.value, column), lambda _, on: on, component=k)
    if condition.velocity is not None:
        time, start = problem.domain.d - 1, problem.domain.lower[-1]
        speed = as_function(condition.velocity)

        def off(x: Tensor, y: Tensor, _: object) -> Tensor:
            return dde.grad.jacobian(y, x, i=k, j=time) - _column(speed(x), column)

        yield dde.icbc.OperatorBC(shape, off, lambda x, _: dde.utils.isclose(x[time], start))


class Vanishing(dde.icbc.BC):
    """A condition with a custom residual, at all its points and with their normals.

    The columns of the residual are weighted like conditions of one column each.
    """

    def __init__(self, condition: Condition, problem: Problem, shape: Any, on: Callable[..., bool]) -> None:
        super().__init__(shape, on, 0)
        self.condition, self.names = condition, problem.names

    def error(
        self, X: np.ndarray, inputs: Tensor, outputs: Tensor, beg: int, end: int, aux_var: object = None
    ) -> Tensor:
        """The residual, which should vanish."""
        rows, normals = slice(beg, end), self.boundary_normal(X, beg, end, None)
        found = self.condition.residual(inputs[rows], Derivatives(inputs, outputs, self.names, rows, normals))
        return math.sqrt(found.shape[1]) * found


def _on(condition: Condition, domain: Domain) -> Callable[[np.ndarray, bool], bool]:
    """Whether a point of the boundary belongs to the condition."""
    if condition.on is None:
        return lambda _, on: on
    names = (condition.on,) if isinstance(condition.on, str) else condition.on
    assert not callable(names)
    return lambda x, on: on and any(_at(x, name, domain) for name in names)


def _at(x: np.ndarray, name: str, domain: Domain) -> bool:
    """Whether a boundary point is on a side of the box; all other boundary points belong to a hole."""
    if name not in SIDES:
        return not any(_at(x, side, domain) for side in SIDES)
    axis, end = SIDES[name]
    return axis < len(x) and bool(dde.utils.isclose(x[axis], getattr(domain, end)[axis]))


def _end(domain: Domain, axis: int) -> Callable[[np.ndarray, bool], bool]:
    return lambda x, on: on and bool(dde.utils.isclose(x[axis], domain.lower[axis]))


def _outputs(condition: Condition, problem: Problem) -> list[int]:
    """The indices of the outputs in the condition."""
    names = problem.names.outputs
    if condition.output is None:
        return list(range(len(names)))
    wanted = (condition.output,) if isinstance(condition.output, str | int) else condition.output
    return [output if isinstance(output, int) else names.index(output) for output in wanted]


def _values(value: Value, column: int) -> Callable[[np.ndarray], np.ndarray]:
    function = as_function(value)
    return lambda x: _column(function(torch.as_tensor(x)), column).detach().numpy()


def _column(found: Tensor, column: int) -> Tensor:
    """One column for each output, or one for all."""
    return found[:, column : column + 1] if found.shape[1] > 1 else found


def losses(data: Any, function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> list[float]:
    """Mean squares of the residuals of a function at the training points, where they are finite."""

    def mean_square(_: Tensor, error: Tensor) -> Tensor:
        return error[error.isfinite()].square().mean()

    x = torch.as_tensor(data.train_x, dtype=dtype).requires_grad_()
    found = data.losses(None, function(x), mean_square, x, None)
    dde.grad.clear()
    return [float(loss.detach()) for loss in found]
