"""The size of each output of the solution, estimated before training.

A polynomial of low degree is fitted to equation and conditions by least squares. It is a poor solution but
has the right units: a load, an inflow or a wall temperature determines the size of the field. Rows and
columns are first scaled to equal size, so the result does not depend on the units of equations and outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import Tensor

from guardband.pinn.geometry import Domain
from guardband.pinn.misses.gauss_newton import GaussNewton
from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import Field, Names, Problem
from guardband.pinn.problems.base import conditions_in, terms_in
from guardband.pinn.problems.field import Columns, pick

DEGREES = {1: 8, 2: 6, 3: 4}
"""The degree of the polynomial by the number of axes, and 3 for more axes."""

STEPS = 12
"""The number of Gauss-Newton steps; a linear equation needs one."""


def crude_sizes(problem: Problem) -> Tensor:
    """The root mean square of each output of a crude solution, (m,) in float64; 1 if it is undetermined.

    It is the larger of the values inside the domain and at the points of the conditions, since a polynomial
    that cannot follow oscillations still reproduces the initial values.

    Examples
    --------
    >>> from guardband import pinn
    >>> crude_sizes(pinn.problems.Beam(load=1000.0))  # u at the free end is 125
    tensor([125.0000], dtype=torch.float64)
    """
    fit = _Crude(problem)
    if not bool(fit.misses().isfinite().all()):
        return torch.ones(len(problem.names.outputs), dtype=torch.float64)
    newton = GaussNewton(damping=1e-6)
    for _ in range(STEPS):
        step = newton.step(fit)
        if not step.moved or step.after > 0.99 * step.before:
            break
    sizes = torch.stack([part.square().mean(dim=0).sqrt() for part in fit.values()]).amax(dim=0)
    known = sizes.isfinite() & (sizes > 1e-12 * sizes.nan_to_num(0.0).max())
    return torch.where(known, sizes, sizes[known].mean() if known.any() else 1.0)


def sizes_of(problem: Problem, y: Tensor) -> Tensor:
    """The size of each output, (m,), from its measurements y (n, m) or otherwise from a crude solution."""
    measured = y.square().nanmean(dim=0).sqrt().cpu().double() if len(y) else None
    if measured is not None and bool((measured > 0).all()):
        return measured
    found = crude_sizes(problem)
    return found if measured is None else torch.where(measured > 0, measured, found)


class _Part(NamedTuple):
    """The equations, a condition or a term at its points; `together` consecutive points form a group."""

    residual: Residual
    basis: _Basis
    normals: Tensor
    together: int


class _Crude:
    """The misses of a polynomial as functions of its coefficients, with rows and columns of equal size."""

    def __init__(self, problem: Problem) -> None:
        domain, self._names = problem.domain, problem.names
        m = len(self._names.outputs)
        degree = DEGREES.get(domain.d, 3)
        powers = [p for p in itertools.product(range(degree + 1), repeat=domain.d) if sum(p) <= degree]
        how = "even" if domain.d < 4 else "random"
        inside = domain.interior(4 * len(powers), how).double()
        terms = [*conditions_in(problem), *terms_in(problem)]
        edges = [c.points(domain, 64) for c in terms]
        basis = _Basis(domain, inside, powers)
        self._parts = [_Part(problem.misses, basis, torch.zeros_like(inside), 1)]
        for c, edge in zip(terms, edges, strict=True):
            at = _Basis(domain, edge.points.double(), powers)
            self._parts.append(_Part(c.residual, at, edge.normals.double(), c.together))
        self._shape = len(powers), m
        self._columns = torch.ones(m, dtype=torch.float64)
        self.theta = torch.zeros(len(powers) * m, dtype=torch.float64)
        self._rows = [torch.ones(1, dtype=torch.float64) for _ in self._parts]
        self._equilibrate()

    def misses(self) -> Tensor:
        """All scaled misses."""
        return torch.cat(
            [(miss * scale).flatten() for (miss, _), scale in zip(self._found(), self._rows, strict=True)]
        )

    def __call__(self) -> tuple[Tensor, Tensor]:
        """All scaled misses, and their derivatives with respect to the coefficients."""
        misses, slopes = [], []
        for (miss, slope), scale in zip(self._found(slopes=True), self._rows, strict=True):
            misses.append((miss * scale).flatten())
            slopes.append((slope * scale[:, None]).flatten(0, 1))
        return torch.cat(misses), torch.cat(slopes)

    def values(self) -> list[Tensor]:
        """The polynomial at interior points and at the points of each condition, each (n, m)."""
        return [part.basis(()) @ self._coefficients() for part in self._parts]

    def _coefficients(self) -> Tensor:
        return self.theta.view(self._shape) * self._columns

    def _equilibrate(self) -> None:
        """Scale equations, conditions and outputs to equal size, by alternating between rows and columns."""
        known = [slope.unflatten(2, self._shape) for _, slope in self._found(slopes=True)]
        squares = [part.nan_to_num(0.0).square().sum(dim=(0, 2)) / len(part) for part in known]  # (q, m)
        columns, rows = torch.ones(self._shape[1], dtype=torch.float64), list[Tensor]()
        for _ in range(20):
            rows = [_inverse_root((part * columns**2).sum(dim=1)) for part in squares]
            weighed = [(part * row[:, None] ** 2).sum(0) for part, row in zip(squares, rows, strict=True)]
            columns = _inverse_root(torch.stack(weighed).sum(dim=0))
        self._columns = columns
        self._rows = [row / len(part) ** 0.5 for row, part in zip(rows, known, strict=True)]

    def _found(self, *, slopes: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """The misses (n, q) of each part and, with `slopes`, their derivatives (n, q, P)."""
        for residual, basis, normals, together in self._parts:
            field = _PolynomialField(basis, self._coefficients(), self._names, normals)
            with torch.enable_grad():
                miss = residual(basis.x, field)
            units = self._columns.repeat(self._shape[0])
            yield miss.detach(), field.slopes(miss, together) * units if slopes else miss


def _inverse_root(squares: Tensor) -> Tensor:
    return torch.where(squares > 0, squares.clamp(min=1e-300).rsqrt(), 1.0)


class _Basis:
    """Products of Legendre polynomials and their derivatives at points, each computed once."""

    def __init__(self, domain: Domain, x: Tensor, powers: list[tuple[int, ...]]) -> None:
        self.x, self.n, self._powers = x, len(x), powers
        self._reach = domain.reach
        self._unit = (x.numpy() - np.array(domain.center)) / np.array(domain.reach)
        self._made: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, axes: tuple[int, ...]) -> Tensor:
        """The derivative of all products along some axes, (n, products)."""
        if axes not in self._made:
            product = np.ones((self.n, len(self._powers)))
            for axis, unit in enumerate(self._unit.T):
                order = axes.count(axis)
                highest = max(power[axis] for power in self._powers)
                each = [
                    legendre.legval(unit, legendre.legder([0] * k + [1], order)) for k in range(highest + 1)
                ]
                columns = np.stack(each, axis=1) / self._reach[axis] ** order
                product *= columns[:, [power[axis] for power in self._powers]]
            self._made[axes] = torch.from_numpy(product)
        return self._made[axes]


class _PolynomialField(Field):
    """A polynomial as a field, whose derivatives are linear in the coefficients (products, m)."""

    def __init__(self, basis: _Basis, coefficients: Tensor, names: Names, normals: Tensor) -> None:
        super().__init__(basis.x, names, normals)
        self._basis, self._coefficients = basis, coefficients
        self._asked: dict[tuple[int, ...], Tensor] = {}

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The derivative of some outputs along these axes, (n, m)."""
        if axes not in self._asked:
            self._asked[axes] = (self._basis(axes) @ self._coefficients).requires_grad_()
        return pick(self._asked[axes], columns)

    def slopes(self, misses: Tensor, together: int) -> Tensor:
        """The derivatives of misses (n, q) with respect to the coefficients, (n, q, products x m)."""
        n, q = misses.shape
        group = together or (self._basis.n if n == 1 else 1)
        found = misses.new_zeros(n, q, *self._coefficients.shape)
        leaves, step = list(self._asked.values()), together or 1
        for j, first in itertools.product(range(q if misses.requires_grad else 0), range(step)):
            rows = slice(first, None, step)
            gradients = torch.autograd.grad(
                misses[rows, j].sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for axes, gradient in zip(self._asked, gradients, strict=True):
                each = self._basis(axes)[:, :, None] * gradient[:, None]
                found[rows, j] += each.unflatten(0, (-1, group)).sum(dim=1)
        return found.flatten(2)
