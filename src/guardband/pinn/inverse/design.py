"""Designs: the solution of a family at the measurement points, as a function of the coefficients.

Designs do not depend on the measured values y. A measurement is a row of x with all its outputs, so n
measurements of m outputs form a vector of N = n m numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from guardband.base.arrays import Array, ArrayLike, to_numpy
from guardband.pinn.inverse.family import SolvedFamily
from guardband.values import Observations

STEP = 1e-3
"""The step of finite differences to either side, as a fraction of a range."""

COARSE = {1: 33, 2: 7, 3: 5, 4: 4}
"""The number of values of each coefficient on the coarse grid, by the number of coefficients."""

FLAT = 1e-8
"""Tangent directions whose squared singular value is below this share of the largest are omitted."""


@dataclass(frozen=True, eq=False)
class Design:
    """Measurement points x (n, d), the measured outputs, and the solution at x for given coefficients."""

    solved: SolvedFamily
    x: Array
    columns: tuple[int, ...]

    @classmethod
    def at(cls, solved: SolvedFamily, x: ArrayLike, outputs: Sequence[str] | None = None) -> Design:
        """The design for measurements of all outputs, or of the named outputs."""
        names = solved.family.names
        return cls(solved, solved.points(x), names.positions(names.outputs if outputs is None else outputs))

    @property
    def n(self) -> int:
        """The number of measurements."""
        return len(self.x)

    @property
    def m(self) -> int:
        """The number of measured outputs."""
        return len(self.columns)

    @property
    def p(self) -> int:
        """The number of coefficients."""
        return len(self.solved.names)

    @property
    def lower(self) -> np.ndarray:
        """The lower ends of the ranges."""
        return self.solved.family.lower

    @property
    def upper(self) -> np.ndarray:
        """The upper ends of the ranges."""
        return self.solved.family.upper

    def values(self, theta: np.ndarray) -> np.ndarray:
        """The noise-free measurements, (k, N), for coefficients (k, p)."""
        found = self.solved.solver(self.solved.family, self.x, theta)
        return found[:, :, self.columns].reshape(len(theta), -1)

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """The derivatives of `values` with respect to each coefficient, in units of its range, (k, N, p)."""
        wide, columns = self.upper - self.lower, []
        for j in range(self.p):
            ahead, behind = theta.copy(), theta.copy()
            ahead[:, j] = np.minimum(theta[:, j] + STEP * wide[j], np.maximum(self.upper[j], theta[:, j]))
            behind[:, j] = np.maximum(theta[:, j] - STEP * wide[j], np.minimum(self.lower[j], theta[:, j]))
            apart = (ahead[:, j] - behind[:, j]) / wide[j]
            both = self.values(np.concatenate([ahead, behind]))
            columns.append((both[: len(theta)] - both[len(theta) :]) / apart[:, None])
        return np.stack(columns, axis=2)

    @cached_property
    def coarse(self) -> np.ndarray:
        """A coarse grid of the coefficients, (g, p), at the centers of its cells."""
        unit = (np.arange(COARSE[self.p]) + 0.5) / COARSE[self.p]
        grid = np.array(list(itertools.product(unit, repeat=self.p)))
        return self.lower + grid * (self.upper - self.lower)

    @cached_property
    def coarse_values(self) -> np.ndarray:
        """The noise-free measurements on the coarse grid, (g, N)."""
        return self.values(self.coarse)

    def directions(
        self, theta: np.ndarray, values: np.ndarray | None = None, *, centered: bool = False
    ) -> np.ndarray:
        """Directions onto which residuals are projected at each theta, (k, p + g, N).

        The first p rows are orthonormal and span the tangent plane; the others are unit vectors toward the
        solutions on the coarse grid. A row without a direction is 0. If `centered`, each output has mean 0
        over the measurements, since permutations do not change the mean of the residuals. `values` are the
        noise-free measurements at theta, if known.
        """
        slopes = np.swapaxes(self.slopes(theta), 1, 2)
        towards = self.coarse_values - (self.values(theta) if values is None else values)[:, None]
        if centered:
            slopes, towards = self._centered(slopes), self._centered(towards)
        return np.concatenate([_orthonormal(slopes), _unit(towards)], axis=1)

    def _centered(self, rows: np.ndarray) -> np.ndarray:
        apart = rows.reshape(*rows.shape[:2], self.n, self.m)
        return (apart - apart.mean(axis=2, keepdims=True)).reshape(rows.shape)


def on_axes(solved: SolvedFamily, data: Observations) -> Observations:
    """Measurements with their columns in the order of the family's axes."""
    if not isinstance(data, Observations):
        raise TypeError(f"`data` should be gb.Observations(x, y), got {type(data).__name__}.")
    return data.on_axes(solved.family.names.axes)


def readings(solved: SolvedFamily, data: Observations) -> tuple[Design, np.ndarray]:
    """The design of measurements, and the measured values, (N,)."""
    data = on_axes(solved, data)
    design, y = Design.at(solved, data.x, data.outputs), to_numpy(data.y).astype(float)
    if y.shape != (design.n, design.m):
        names = ", ".join(solved.family.names.outputs)
        raise ValueError(
            f"Readings of the outputs {names} should have shape ({design.n}, {design.m}), got {y.shape}. If "
            "only some outputs were measured, name them, gb.Observations(x, y, outputs=...)."
        )
    if not np.isfinite(y).all():
        raise ValueError(
            "Each row should contain all outputs, but some values are missing. Pass only the complete rows."
        )
    if y.size <= design.p:
        raise ValueError(f"{design.p} coefficients need more than {design.p} readings, got {y.size}.")
    return design, y.reshape(-1)


def _orthonormal(slopes: np.ndarray) -> np.ndarray:
    """Orthonormal rows (k, p, N) that span the given rows; rows of zeros if they are linearly dependent."""
    gram = slopes @ np.swapaxes(slopes, 1, 2)
    sizes, axes = np.linalg.eigh(gram)
    seen = sizes > np.maximum(FLAT * sizes[:, -1:], 1e-300)
    factor = np.where(seen, 1 / np.sqrt(np.where(seen, sizes, 1.0)), 0.0)
    return factor[:, :, None] * (np.swapaxes(axes, 1, 2) @ slopes)


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; rows of length 0 remain 0."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    seen = length > 1e-9 * max(float(length.max(initial=0.0)), 1e-300)
    return np.where(seen, rows / np.where(seen, length, 1.0), 0.0)
