"""Residuals of any differentiable model, linearized in the field.

An equation is a formula in the field and some of its derivatives. The derivatives of the formula with respect
to each of these, point by point, give the size of the terms, with which the residual is compared, and a
linear operator, which predicts the effect of a small correction of the field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import Field, Names
from guardband.pinn.problems.field import Columns, pick

Axes = tuple[int, ...]
"""A derivative of the field, given by its axes; the empty tuple is the field itself."""

Source = Callable[[Axes], Tensor]
"""A function that returns derivatives (n, m) at given points."""


@dataclass(frozen=True, eq=False)
class Linearized:
    """Misses at points, and their derivatives with respect to the field and its derivatives.

    If a condition compares `together` consecutive points, the f-th miss of each group depends on all points
    of the group: `slopes[axes][f, i, j, o]` is the derivative of the f-th miss of equation j, in the group of
    point i, with respect to the derivative `axes` of output o at point i. A group has as many misses as
    points, or a single miss if it contains all points.
    """

    misses: Tensor
    """The misses, (n, q)."""
    at_zero: Tensor
    """The misses of the zero field, (n, q), that is, the forcing or the value of a condition."""
    leaves: dict[Axes, Tensor]
    """The derivatives of the field that the residual uses, each (n, m)."""
    slopes: dict[Axes, Tensor]
    """The derivatives with respect to each of these, (misses of a group, n, q, m)."""
    together: int = 1
    """The number of points in a group."""

    @property
    def whole(self) -> bool:
        """Whether all points have a single miss."""
        return len(self.misses) < self.together

    def sizes(self) -> Tensor:
        """The sum of the absolute values of all terms, (n, q), with which the misses are compared."""
        found = self.at_zero.abs()
        for axes, slopes in self.slopes.items():
            found = (
                found
                + self._gathered((slopes * self.leaves[axes][None, :, None]).abs().sum(dim=3)[..., None])[
                    ..., 0
                ]
            )
        return found

    def applied(self, basis: Source) -> Tensor:
        """The operator applied to k functions with derivatives (n, k), shape (n, q, k, m)."""
        parts = [
            self._gathered(
                (slopes[:, :, :, None] * basis(axes)[None, :, None, :, None]).flatten(3)
            ).unflatten(2, (-1, slopes.shape[3]))
            for axes, slopes in self.slopes.items()
        ]
        return torch.stack(parts).sum(dim=0)

    def _gathered(self, each: Tensor) -> Tensor:
        """The contributions of points to the misses of their group (f, n, q, k), summed to rows (n, q, k)."""
        summed = each.unflatten(1, (-1, self.together)).sum(dim=2)  # (f, groups, q, k)
        return summed.transpose(0, 1).flatten(0, 1)


def linearize(
    residual: Residual,
    x: Tensor,
    source: Source,
    names: Names,
    normals: Tensor | None = None,
    together: int = 1,
) -> Linearized:
    """Linearize a residual at points x, for a field given by its derivatives.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [2.0]])
    >>> names = Names(("x",), ("u",), (0,))
    >>> found = linearize(
    ...     lambda x, u: u.value**2 - u.d("x"),
    ...     x,
    ...     lambda axes: 3 * x if not axes else x,
    ...     names,
    ... )
    >>> (
    ...     found.misses.flatten().tolist(),
    ...     found.slopes[()].flatten().tolist(),
    ...     found.sizes().flatten().tolist(),
    ... )
    ([8.0, 34.0], [6.0, 12.0], [19.0, 74.0])
    """
    field = _Leaves(x, names, normals, source)
    with torch.enable_grad():
        misses = residual(x, field)
    n, q = misses.shape
    step = together or 1
    slopes = {axes: leaf.new_zeros(step, len(x), q, leaf.shape[1]) for axes, leaf in field.asked.items()}
    for j in range(q if misses.requires_grad else 0):
        for first in range(step):
            gradients = torch.autograd.grad(
                misses[first::step, j].sum(),
                list(field.asked.values()),
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            for axes, gradient in zip(field.asked, gradients, strict=True):
                slopes[axes][first, :, j] = gradient
    zero = _Leaves(x, names, normals, lambda axes: torch.zeros_like(source(())))
    at_zero = residual(x, zero).detach().expand(n, q)
    leaves = {axes: leaf.detach() for axes, leaf in field.asked.items()}
    group = together or (len(x) if n == 1 else 1)
    return Linearized(misses.detach(), at_zero, leaves, slopes, group)


class _Leaves(Field):
    """A field whose derivatives are independent leaves of the autograd graph."""

    def __init__(self, x: Tensor, names: Names, normals: Tensor | None, source: Source) -> None:
        super().__init__(x, names, normals)
        self._source = source
        self.asked: dict[Axes, Tensor] = {}

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """The derivative of some outputs along these axes, (n, m)."""
        if axes not in self.asked:
            self.asked[axes] = self._source(axes).detach().clone().requires_grad_()
        return pick(self.asked[axes], columns)
