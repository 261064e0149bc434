"""An estimate of the error, as the correction that would remove the residuals of a network.

Small residuals can hide large errors, since equations such as those of beams, oscillators and waves amplify
residuals. The linearized problem is therefore solved for a correction that removes the residuals, by least
squares in functions that are independent of the network (polynomials, sine waves and tanh steps of many
widths) and in the tangent space of the network. The residuals that remain at other points show how reliable
the estimate is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import Polynomial, legendre
from torch import Tensor, nn

from guardband.pinn.convergence.residuals import Sample, rms, size
from guardband.pinn.geometry import Domain
from guardband.pinn.misses.jacobian import Slopes, value
from guardband.pinn.misses.linearized import Axes, Source
from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import Problem

DEGREES = {1: 12, 2: 12, 3: 5}
"""The degree of the polynomials by the number of axes, and 3 for more axes."""

RIDGES = {1: 100}
"""The number of waves and steps in one dimension; otherwise 300, or 200 for several outputs."""

WEIGHTS = 400
"""The largest number of weights whose tangent vectors are used."""

FASTEST, STEEPEST = 12.0, 20.0
"""The limits of waves, in radians, and of steps, in widths, per half extent of the domain."""

DAMPINGS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
"""Candidate dampings, as fractions of the mean diagonal; the one with the smallest residuals at other points
is used."""

SMOOTH = 1e-9
"""The damping of the test for looseness, which suppresses short waves between the points."""

DIRECTIONS = 16
"""The number of loose directions that are retested at other points."""

LOOSE = 1e3
"""The relative change of the field per unit of relative residuals above which the solution counts as
undetermined."""

LEAST_REMOVED = 0.05
"""If less than this share of the residuals is removed, they count as noise."""


@dataclass(frozen=True)
class Correction:
    """The error to which the residuals of a model correspond."""

    error: tuple[float, ...]
    """The relative error of each output, if the remaining residuals imply a proportionate error."""
    left: float
    """The share of the residuals that remains at other points."""
    loose: float
    """The largest relative change of the field for residuals that change by 1."""


def correction(
    problem: Problem, model: Callable[[Tensor], Tensor], sample: Sample, other: Sample
) -> Correction:
    """Estimate the error of a model from its residuals; `other` is the sample for validation."""
    u = sample.inside(())
    sizes = sample.sizes
    basis = _Features(problem.domain, 200 if len(sizes) > 1 else 300)
    tangent = _Tangent.of(problem, model, sample, sizes)
    scales = sample.scales()
    misses, rows = _system(sample, scales, sizes, basis, tangent)
    misses_there, rows_there = _system(other, scales, sizes, basis, tangent)
    values = _values(sample, sizes, basis, tangent)  # (n, m, columns)
    gram, right = rows.T @ rows, rows.T @ misses
    before = float(misses_there.norm())
    best = before, torch.zeros_like(right)
    for share in DAMPINGS:
        factor = _factor(gram, share)
        if factor is None:
            continue
        move = torch.cholesky_solve(right[:, None], factor)[:, 0]
        after = float((misses_there - rows_there @ move).norm())
        if after < best[0]:
            best = after, move
    after, move = best
    delta = values @ move
    left = after / before if before else 0.0
    removed = math.sqrt(1 - left**2)  # the least-squares remainder is orthogonal to the removed part
    weights = sample.weights
    against = size(u - delta, weights).maximum(sample.least).clamp(min=1e-300)
    error = rms(delta, weights) / against / max(LEAST_REMOVED, removed)
    factor, here = _factor(gram, SMOOTH), _relative(values, sample, sizes)
    if factor is None:
        return Correction(tuple(error.tolist()), left, math.inf)
    loose = _loose(gram, factor, here)
    if loose > LOOSE:
        there = _relative(_values(other, sizes, basis, tangent), other, sizes)
        loose = min(loose, _loose_there(factor, here, rows_there, there))
    return Correction(tuple(error.tolist()), left, loose)


def _factor(gram: Tensor, share: float) -> Tensor | None:
    damped = gram + share * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    factor, failed = torch.linalg.cholesky_ex(damped)
    return None if failed else factor


def _relative(values: Tensor, sample: Sample, sizes: Tensor) -> Tensor:
    """Values (n, m, columns), divided by the sizes of outputs so that a sum of squares is a mean square."""
    weights = (sample.weights / len(values)).sqrt()
    return (values / sizes[:, None] * weights[:, None, None]).flatten(0, 1)


def _loose(gram: Tensor, factor: Tensor, values: Tensor) -> float:
    """The largest relative change of the field for residuals that change by 1, by power iteration."""
    move = torch.randn(len(gram), generator=torch.Generator().manual_seed(0), dtype=gram.dtype)
    for _ in range(20):
        move = torch.cholesky_solve((values.T @ (values @ (move / move.norm())))[:, None], factor)[:, 0]
    return float((values @ move).norm() / (move @ (gram @ move)).clamp(min=1e-300).sqrt())


def _loose_there(factor: Tensor, here: Tensor, rows_there: Tensor, there: Tensor) -> float:
    """The looseness at other points, for the directions that are loosest at these points.

    A direction that is loose only at the points where it was found is a short wave between the points, or a
    layer that contains only one of them.
    """
    generator = torch.Generator().manual_seed(0)
    moves = torch.randn(len(factor), DIRECTIONS, generator=generator, dtype=factor.dtype)
    for _ in range(20):
        moves = torch.cholesky_solve(here.T @ (here @ torch.linalg.qr(moves).Q), factor)
    moves = torch.linalg.qr(moves).Q
    misses, changes = rows_there @ moves, there @ moves
    gram = _factor(misses.T @ misses, 1e-14)
    if gram is None:
        return math.inf
    return float(torch.linalg.matrix_norm(torch.linalg.solve_triangular(gram, changes.T, upper=False), 2))


def _system(
    sample: Sample, scales: list[Tensor], sizes: Tensor, basis: _Features, tangent: _Tangent | None
) -> tuple[Tensor, Tensor]:
    """All residuals divided by their scales, and their derivatives with respect to each column."""
    misses, rows = [], []
    for part, scale in zip(sample.parts, scales, strict=True):
        over = torch.where(scale > 0, scale, 1.0) * (len(part.weights) / part.weights[:, None]).sqrt()
        columns = [(part.linear.applied(basis.at(part.x)) * sizes).flatten(2)]
        if tangent is not None:
            together = 0 if part.linear.whole else max(1, part.together)
            columns.append(tangent(part.residual, part.x, part.normals, together))
        misses.append((part.linear.misses / over).flatten())
        rows.append((torch.cat(columns, dim=2) / over[..., None]).flatten(0, 1))
    return torch.cat(misses), torch.cat(rows)


def _values(sample: Sample, sizes: Tensor, basis: _Features, tangent: _Tangent | None) -> Tensor:
    """The columns as fields, (n, m, columns)."""
    own = torch.einsum("nk,ij->nikj", basis.at(sample.x)(()), torch.diag(sizes)).flatten(2)
    return own if tangent is None else torch.cat([own, tangent(value, sample.x)], dim=2)


class _Features:
    """Polynomials over the whole domain, and waves and steps in random directions."""

    def __init__(self, domain: Domain, several: int) -> None:
        generator = torch.Generator().manual_seed(0)
        d, k = domain.d, RIDGES.get(domain.d, several)
        degree = DEGREES.get(d, 3)
        self._powers = [p for p in itertools.product(range(degree + 1), repeat=d) if sum(p) <= degree]
        self._center, self._reach = (
            torch.tensor(c, dtype=torch.float64) for c in (domain.center, domain.reach)
        )

        def draw(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, dtype=torch.float64)

        directions = torch.randn(d, k, generator=generator, dtype=torch.float64)
        along = torch.randint(
            2 * d, (k,), generator=generator
        )  # half of the directions are parallel to an axis
        for axis in range(d):
            directions[:, along == axis] = torch.eye(d, dtype=torch.float64)[:, axis : axis + 1]
        self._steps = torch.arange(k) < k // 2
        rates = torch.where(self._steps, STEEPEST ** draw(k), FASTEST * draw(k))
        self._rates = directions / directions.norm(dim=0) * rates
        middles = (domain.uniform(k, generator, dtype=torch.float64) - self._center) / self._reach
        self._phases = torch.where(self._steps, -(middles.T * self._rates).sum(dim=0), 2 * torch.pi * draw(k))

    def at(self, x: Tensor) -> Source:
        """A function that returns the derivatives (n, k) of all features at these points."""
        unit, known = (x - self._center) / self._reach, dict[Axes, Tensor]()

        def source(axes: Axes) -> Tensor:
            if axes not in known:
                known[axes] = torch.cat([self._products(unit, axes), self._ridges(unit, axes)], dim=1)
            return known[axes]

        return source

    def _products(self, unit: Tensor, axes: Axes) -> Tensor:
        found = np.ones((len(unit), len(self._powers)))
        for axis, column in enumerate(unit.numpy().T):
            order, powers = axes.count(axis), [power[axis] for power in self._powers]
            each = [
                legendre.legval(column, legendre.legder([0] * k + [1], order)) for k in range(max(powers) + 1)
            ]
            found *= np.stack(each, axis=1)[:, powers] / float(self._reach[axis]) ** order
        return torch.from_numpy(found)

    def _ridges(self, unit: Tensor, axes: Axes) -> Tensor:
        turns = unit @ self._rates + self._phases
        waves = torch.sin(turns + len(axes) * torch.pi / 2)
        found = torch.where(self._steps, _tanh(turns, len(axes)), waves)
        for axis in axes:
            found = found * self._rates[axis] / self._reach[axis]
        return found


def _tanh(z: Tensor, order: int) -> Tensor:
    """A derivative of tanh, as a polynomial in tanh."""
    polynomial = Polynomial([0.0, 1.0])
    for _ in range(order):
        polynomial = polynomial.deriv() * Polynomial([1.0, 0.0, -1.0])
    t, found = torch.tanh(z), torch.zeros_like(z)
    for coefficient in polynomial.coef[::-1]:
        found = found * t + float(coefficient)
    return found


class _Tangent:
    """The normalized tangent vectors of a network for some of its weights."""

    def __init__(self, problem: Problem, net: nn.Module, names: list[str] | None, chosen: Tensor) -> None:
        self._problem, self._net, self._names, self._chosen = problem, net, names, chosen
        self._over = torch.ones(len(chosen), dtype=torch.float64)

    @classmethod
    def of(cls, problem: Problem, model: object, sample: Sample, sizes: Tensor) -> _Tangent | None:
        """The tangent space of a network, or None if torch.func cannot differentiate it."""
        if not isinstance(model, nn.Module):
            return None
        names, total = list[str](), 0
        # Only the last layers of a large network are used.
        for name, weights in reversed(list(model.named_parameters())):
            if total + weights.numel() > MOST_WEIGHTS and names:
                break
            names.append(name)
            total += weights.numel()
        whole = len(names) == len(list(model.parameters()))
        order = torch.randperm(total, generator=torch.Generator().manual_seed(0))
        found = cls(problem, model, None if whole else names[::-1], order[:WEIGHTS].sort().values)
        try:
            values = found(value, sample.x) / sizes[:, None]
        except RuntimeError:  # torch.func does not support every module
            return None
        found._over = _inverse(values.square().mean(dim=(0, 1)).sqrt())
        return found

    def __call__(
        self, residual: Residual, x: Tensor, normals: Tensor | None = None, together: int = 1
    ) -> Tensor:
        """The derivatives of residuals at points x with respect to the weights, (n, q, weights)."""
        like = next(self._net.parameters())
        x, normals = x.to(like), None if normals is None else normals.to(like)
        slopes = Slopes(residual, self._net, x, self._problem.names, together)
        parts = [
            slopes(part, along, self._names)[1][:, :, self._chosen]
            for part, along in _pieces(x, normals, AT_ONCE if together else len(x))
        ]
        return torch.cat(parts).cpu().double() * self._over


MOST_WEIGHTS = 20_000
"""For a larger network, only the last layers are used."""

AT_ONCE = 256
"""The number of points at a time, which is even since some conditions compare pairs of points."""


def _pieces(x: Tensor, normals: Tensor | None, size: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        yield x[rows], None if normals is None else normals[rows]


def _inverse(sizes: Tensor) -> Tensor:
    """1 / sizes, or 0 for sizes that are nearly 0."""
    small = 1e-6 * sizes.max()
    return torch.where(sizes > small, 1 / sizes.clamp(min=small.clamp(min=1e-300)), 0.0)
