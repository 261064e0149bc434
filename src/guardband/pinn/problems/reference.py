"""Reference solutions, computed once, stored in small files, and interpolated with known errors.

A file contains values on a grid, interpolated by polynomials of degree 7 along each axis, or values on
triangles, interpolated quadratically. Both interpolants are smooth enough to be differentiated. The scripts
in `tools/references` compute the files and measure their errors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from guardband.pinn.problems.base import Problem

NODES = 8
"""The number of nodes of an interpolating polynomial along an axis."""

CHUNK = 2**15
"""The number of points that are interpolated at once."""

BESIDE = 1e-6
"""The tolerance for rounding at the edge of a grid, as a fraction of its extent."""

FAR = 1e6
"""Coordinates are clamped to this size before the search for triangles."""

CHORD = 0.2
"""How far a point between chord and arc may lie outside its triangle, as a fraction of the height."""

NEAREST = 32
"""The number of triangles with the nearest centroids that are tried for each point."""


class Interpolant(Protocol):
    """Values (n, m) at points x (n, d)."""

    d: int

    def __call__(self, x: Tensor) -> Tensor:
        """Return the values."""
        ...


@dataclass(frozen=True)
class Reference:
    """A reference solution, interpolated from a file; NaN outside its domain.

    Parameters
    ----------
    name
        The name of the file.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> reference = pinn.problems.AllenCahn1D.reference
    >>> reference.error["u"] < 1e-5
    True
    >>> reference(torch.tensor([[0.25, 1.0], [0.25, 2.0]]))
    tensor([[0.9...],
            [   nan]])
    """

    name: str

    def __call__(self, x: Tensor) -> Tensor:
        """Return the solution (n, m) at points x (n, d), in the dtype of x."""
        if x.ndim != 2 or x.shape[1] != self._interpolant.d:
            raise ValueError(f"`x` should have shape (n, {self._interpolant.d}), got {tuple(x.shape)}.")
        parts = [self._interpolant(part) for part in x.to("cpu", torch.float64).split(CHUNK)]
        return torch.cat(parts).to(x)

    def of(self, problem: Problem, x: Tensor) -> Tensor:
        """Return the solution of a problem; refuse coefficients that differ from those of the reference.

        Parameters
        ----------
        problem
            The problem.
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The solution, shape (n, m).
        """
        known = type(problem)()
        if problem != known:
            raise NotImplementedError(
                f"The reference was computed for {known}, got {problem}. For other coefficients define "
                "`solution(self, x)`."
            )
        return self(x)

    @property
    def error(self) -> dict[str, float]:
        """The relative root-mean-square error of each output, measured by refinement."""
        return self._by_output("error")

    @property
    def largest(self) -> dict[str, float]:
        """The largest error of each output divided by its largest value."""
        return self._by_output("largest")

    @property
    def checks(self) -> dict[str, Any]:
        """Further measured quantities, such as drag, mass or energy."""
        return json.loads(str(_read(self.name)["checks"]))

    def _by_output(self, key: str) -> dict[str, float]:
        kept = _read(self.name)
        return dict(zip(kept["outputs"].tolist(), kept[key].tolist(), strict=True))

    @cached_property
    def _interpolant(self) -> Interpolant:
        kept = _read(self.name)
        return Triangles(kept) if "triangles" in kept else Grid(kept)


@cache
def _read(name: str) -> dict[str, np.ndarray]:
    """The arrays in the file of a reference."""
    with files("guardband.pinn.problems.catalogue").joinpath("data", f"{name}.npz").open("rb") as file:
        with np.load(file, allow_pickle=False) as kept:
            return dict(kept)


class Grid:
    """Polynomial interpolation of values on a grid with possibly uneven spacing."""

    def __init__(self, kept: dict[str, np.ndarray]) -> None:
        self._values = torch.from_numpy(kept["values"]).double()
        self.d: int = self._values.ndim - 1
        self._axes = [torch.from_numpy(kept[f"axis{i}"]).double() for i in range(self.d)]

    def __call__(self, x: Tensor) -> Tensor:
        """The values (n, m) at x (n, d)."""
        nodes, weights = [], []
        outside = torch.zeros(len(x), 1, dtype=torch.bool)
        for axis, along in zip(self._axes, x.unbind(1), strict=True):
            first = torch.searchsorted(axis, along.detach().contiguous()) - NODES // 2
            nodes.append(first.clamp(0, len(axis) - NODES)[:, None] + torch.arange(NODES))
            weights.append(_lagrange(axis[nodes[-1]], along))
            slack = BESIDE * (axis[-1] - axis[0])
            outside |= ~((along >= axis[0] - slack) & (along <= axis[-1] + slack))[:, None]
        at = nodes[0]
        for axis, more in zip(self._axes[1:], nodes[1:], strict=True):
            at = at[..., None] * len(axis) + more.reshape(len(x), *[1] * (at.ndim - 1), NODES)
        values = self._values.flatten(0, -2)[at]
        for weight in weights:  # sum over the axes one by one
            values = torch.einsum("nk,nk...->n...", weight, values)
        return values.masked_fill(outside, torch.nan)


def _lagrange(nodes: Tensor, x: Tensor) -> Tensor:
    """The Lagrange weights (n, k) of nodes (n, k) at x (n,)."""
    k = nodes.shape[1]
    away = x[:, None] - nodes
    apart = nodes[:, :, None] - nodes[:, None, :] + torch.eye(k, dtype=nodes.dtype)
    others = torch.stack([away[:, [j for j in range(k) if j != i]].prod(1) for i in range(k)], dim=1)
    return others / apart.prod(2)


class Triangles:
    """Quadratic interpolation of values at the corners of triangles and the midpoints of their edges."""

    def __init__(self, kept: dict[str, np.ndarray]) -> None:
        from scipy.spatial import KDTree

        corners, triangles = kept["points"].astype(float), kept["triangles"].astype(int)
        pairs = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        _, edge = np.unique(pairs, axis=0, return_inverse=True)
        nodes = np.concatenate([triangles, len(corners) + edge.reshape(-1, 3)], axis=1)
        self._values = torch.from_numpy(kept["values"]).double()[torch.from_numpy(nodes)]
        sides = corners[triangles[:, 1:]] - corners[triangles[:, :1]]
        self._origins = torch.from_numpy(corners[triangles[:, 0]])
        self._shares = torch.from_numpy(np.linalg.inv(sides))
        self._middles = KDTree(corners[triangles].mean(axis=1))
        self.d: int = corners.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        """The values (n, m) at x (n, 2); between a chord and its arc, the values are extrapolated."""
        finite = x.detach().nan_to_num(torch.inf).clamp(-FAR, FAR)
        _, near = self._middles.query(finite.numpy(), k=NEAREST)
        near = torch.from_numpy(near)
        depth, inside = self._barycentric(near, finite[:, None]).amin(-1).max(1, keepdim=True)
        chosen = near.gather(1, inside)[:, 0]
        a, b, c = self._barycentric(chosen, x).unbind(-1)
        shapes = [a * (2 * a - 1), b * (2 * b - 1), c * (2 * c - 1), 4 * a * b, 4 * b * c, 4 * c * a]
        values = (self._values[chosen] * torch.stack(shapes, dim=1)[..., None]).sum(1)
        return values.masked_fill(depth < -CHORD, torch.nan)

    def _barycentric(self, triangle: Tensor, x: Tensor) -> Tensor:
        """The barycentric coordinates of points, all positive inside the triangle."""
        two = torch.einsum("...i,...ij->...j", x - self._origins[triangle], self._shares[triangle])
        return torch.cat([1 - two.sum(-1, keepdim=True), two], dim=-1)
