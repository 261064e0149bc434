"""Solved families: the solution for every value of the coefficients, by a network or by any solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from guardband.base.arrays import Array, ArrayLike, copy, floats, like, rows, to_numpy, to_torch
from guardband.base.kept import kept
from guardband.pinn.inverse.family import Family
from guardband.pinn.problems import Problem
from guardband.pinn.problems.unknown import with_values
from guardband.pinn.training.recipe import Recipe
from guardband.predictors.models import evaluating
from guardband.values.labeled import placed

CHUNK = 2**16
"""How many points a network is asked about at once."""


class Solver(ABC):
    """How a family is solved."""

    certain: bool = False
    """Whether it is taken as exact unless somebody says how far it is off."""

    @abstractmethod
    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """The solutions (k, n, m) at points x (n, d) for coefficients theta (k, p)."""


@kept
@dataclass(frozen=True, eq=False)
class ByNetwork(Solver):
    """One network whose inputs are the coefficients and the coordinates."""

    net: nn.Module

    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """The network at all pairs of coefficients and points."""
        weight = next(self.net.parameters())
        at, values = to_torch(x).to(weight), torch.from_numpy(theta).to(weight)
        step = max(1, CHUNK // max(1, len(at)))
        with evaluating(self.net), torch.no_grad():
            parts = [self.net(_pairs(part, at)) for part in values.split(step)]
        return torch.cat(parts).view(len(theta), len(at), -1).cpu().double().numpy()


@kept
@dataclass(frozen=True, eq=False)
class ByFunction(Solver):
    """A function (x, **coefficients) -> u (n, m), asked for one value of the coefficients after the other."""

    function: Callable[..., Any]
    certain = True

    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """What the function answers."""
        return np.stack([self._one(family, x, one) for one in theta])

    def _one(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        values = dict(zip(family.ranges, theta.tolist(), strict=True))
        found = to_numpy(floats(self.function(copy(x), **values), "the solver's answer")).astype(float)
        found = found[:, None] if found.ndim == 1 else found
        shape = len(x), len(family.names.outputs)
        at = ", ".join(f"{name} = {value:g}" for name, value in values.items())
        if found.shape != shape:
            raise ValueError(f"The solver should answer with {shape}, it gave {found.shape} at {at}.")
        if not np.isfinite(found).all():
            raise ValueError(f"The solver's answer should be finite, it is not at {at}. Narrow the range.")
        return found


@kept
@dataclass(frozen=True, eq=False)
class BySolution(Solver):
    """The problem's own `solution`, with columns of coefficients where it takes them."""

    problem: Problem
    certain = True

    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """The solution, for all coefficients in one call if it can be."""
        if self._takes_columns(family, x):
            return self._by_columns(family, x, theta)
        return np.stack([self._one(family, x, one) for one in theta])

    def _one(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        values = dict(zip(family.ranges, theta.tolist(), strict=True))
        found = with_values(self.problem, values).solution(to_torch(x).double())
        return to_numpy(found[:, None] if found.ndim == 1 else found)

    def _by_columns(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        pairs = _pairs(torch.from_numpy(theta), to_torch(x).double())
        columns = {name: pairs[:, [i]] for i, name in enumerate(family.ranges)}
        found = with_values(self.problem, columns).solution(pairs[:, len(columns) :])
        return to_numpy(found).reshape(len(theta), len(x), -1)

    @cached_property
    def _seen(self) -> dict[int, bool]:
        return {}

    def _takes_columns(self, family: Family, x: Array) -> bool:
        """Whether columns give what numbers give, tried once at a few points."""
        if 0 not in self._seen:
            theta, some = family.drawn(2), x[:3]
            single = np.stack([self._one(family, some, one) for one in theta])
            try:
                found = self._by_columns(family, some, theta)
                self._seen[0] = found.shape == single.shape and np.allclose(found, single, rtol=1e-9)
            except (TypeError, ValueError, RuntimeError):
                self._seen[0] = False
        return self._seen[0]


@kept
@dataclass(frozen=True, eq=False, repr=False)
class SolvedFamily:
    """A family with its solver: `solved(x, theta)` are the solutions for coefficients theta.

    Made by `Family.fit`, `Family.solved_by` or `Family.exact`; `pinn.coefficients` and `pinn.next_points` use
    it. `gb.save` keeps one that is a network.

    >>> from guardband import pinn
    >>> family = pinn.Family(
    ...     pinn.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)
    ... )
    >>> solved = family.exact()
    >>> solved([[0.0], [1.0]], [[0.05, 6.0]]).shape
    (1, 2, 1)
    >>> solved.names, solved.ranges["damping"]
    (('damping', 'frequency'), (0.02, 0.12))
    """

    family: Family
    solver: Solver

    def __repr__(self) -> str:
        return f"SolvedFamily({self.family!r}, {type(self.solver).__name__})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients, in order."""
        return tuple(self.family.ranges)

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The lower and the upper end of each coefficient."""
        return self.family.ranges

    def __call__(self, x: ArrayLike, theta: ArrayLike) -> Array:
        """The solutions (k, n, m) at points x (n, d) for coefficients theta (k, p), or (k,) of one."""
        x = self.points(x)
        return like(x, self.solver(self.family, x, self.values(theta)))

    def points(self, x: ArrayLike) -> Array:
        """Points (n, d) of the domain, as they are taken."""
        axes = self.family.names.axes
        x = rows(placed(x, axes), "x")
        if x.ndim != 2 or x.shape[1] != len(axes):
            said = f"({', '.join(axes)})"
            raise ValueError(
                f"`x` should be (n, {len(axes)}), a column for each of {said}, got {tuple(x.shape)}."
            )
        return x

    def values(self, theta: ArrayLike) -> np.ndarray:
        """Values of the coefficients as (k, p); (k,) are k values of one coefficient."""
        found, p = to_numpy(rows(theta, "theta")).astype(float), len(self.names)
        if found.ndim != 2 or found.shape[1] != p:
            raise ValueError(
                f"`theta` should be (k, {p}), a column for each of {', '.join(self.names)}, got "
                f"{tuple(np.shape(theta))}. One value is one row: [[...]]."
            )
        return found

    def check(
        self,
        x: ArrayLike,
        solver: Callable[..., Any] | None = None,
        *,
        seed: int = 0,
        recipe: Recipe | None = None,
        progress: bool = True,
    ) -> float:
        """Delta for readings at x: how far the solver may be off there, as the length of a vector.

        It is 1.5 times the largest l2 error at these points over 32 random coefficients and all corners of
        the ranges, an estimate from above and no bound. The truth is what `solver` answers, a function
        (x, **coefficients), or the problem's own `solution`, or fresh trainings, each started from the one
        before at a value nearby, which take some minutes. A network that misses its equation or a condition
        at points of its own is told by a warning.

        >>> from guardband import pinn
        >>> family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))
        >>> family.exact().check([[0.5, 0.5], [0.3, 0.1]])
        0.0
        """
        from guardband.pinn.inverse.checking import delta

        return delta(self, self.points(x), solver, seed, recipe, progress)


def _pairs(theta: Tensor, x: Tensor) -> Tensor:
    """All coefficients with all points, (k n, p + d)."""
    k, n = len(theta), len(x)
    return torch.cat([theta.repeat_interleave(n, dim=0), x.repeat(k, 1)], dim=1)
