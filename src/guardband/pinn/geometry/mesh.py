"""Meshes: closed triangle surfaces, read by pyvista from STL or VTU files.

A point lies inside a closed surface if an upward ray from it crosses the surface an odd number of times. The
triangles are sorted into the cells of a grid in the horizontal plane, so a point is compared only with the
triangles of its cell.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from guardband.base import extras
from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import of_any_points
from guardband.pinn.geometry.boundary import Piece, Placed
from guardband.pinn.geometry.domain import Domain

PAIRS = 2**22
"""The number of point-triangle pairs that are compared at a time."""

ASIDE = 1e-10
"""The horizontal offset of the rays, as a fraction of the extent, so that they avoid edges and corners."""


@dataclass(frozen=True, init=False, eq=False)
class Mesh(Domain):
    """The inside of a closed triangle surface.

    Parameters
    ----------
    source
        A file (.stl, .vtu, .vtk, .ply, .obj) or a pyvista mesh.
    name
        The name of the boundary, if it has a single part.
    parts
        The name of the part of each triangle.
    names
        The names of the axes.

    Examples
    --------
    >>> import pyvista
    >>> from guardband import pinn
    >>> ball = pinn.geometry.Mesh(
    ...     pyvista.Sphere(radius=1.0, theta_resolution=60, phi_resolution=60)
    ... )
    >>> round(ball.measure, 1), ball.parts
    (4.2, ('surface',))
    """

    corners: np.ndarray
    triangles: np.ndarray
    of_triangle: tuple[str, ...]

    def __init__(
        self,
        source: Any,
        *,
        name: str = "surface",
        parts: Sequence[str] | None = None,
        names: Sequence[str] = ("x", "y", "z"),
    ) -> None:
        pyvista = extras.load("pyvista", "geometry")
        mesh = source
        if isinstance(source, str | os.PathLike):
            if not Path(source).is_file():
                raise ValueError(f"There is no file {source}.")
            mesh = pyvista.read(source)
        surface = _closed(pyvista, mesh)
        put = object.__setattr__
        corners = np.asarray(surface.points, dtype=float)
        put(self, "corners", corners)
        put(self, "triangles", _outward(corners, np.asarray(surface.regular_faces)))
        put(self, "of_triangle", (name,) * len(self.triangles) if parts is None else tuple(parts))
        put(self, "_names", tuple(names))
        if len(self.of_triangle) != len(self.triangles):
            raise ValueError(
                f"`parts` should name the part of each of {len(self.triangles)} triangles, got "
                f"{len(self.of_triangle)} names."
            )

    def __repr__(self) -> str:
        return f"Mesh({len(self.triangles)} triangles)"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.__dict__["_names"]

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return tuple(self.corners.min(0).tolist())

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return tuple(self.corners.max(0).tolist())

    @property
    def measure(self) -> float:
        """The volume."""
        a, b, c = (self.corners[self.triangles[:, k]] - np.array(self.center) for k in range(3))
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)

    @of_any_points
    def contains(self, x: Tensor) -> Tensor:
        """Return which points lie inside the surface."""
        return torch.from_numpy(self._rays.inside(x.detach().cpu().double().numpy())).to(x.device)

    @cached_property
    def _rays(self) -> Rays:
        return Rays(self.corners[self.triangles])

    def pieces(self) -> list[Piece]:
        """Return one piece for each part, with a section of the unit square for each triangle."""
        return [self._piece(name) for name in dict.fromkeys(self.of_triangle)]

    def _piece(self, name: str) -> Piece:
        chosen = self.triangles[np.array([one == name for one in self.of_triangle])]
        first, second, third = (torch.from_numpy(self.corners[chosen[:, k]]) for k in range(3))
        across = torch.linalg.cross(second - first, third - first)
        areas = across.norm(dim=1) / 2
        ends = areas.cumsum(0) / areas.sum()
        normals = across / (2 * areas)[:, None]

        def place(unit: Tensor) -> Placed:
            which = torch.searchsorted(ends, unit[:, 0].contiguous()).clamp(max=len(ends) - 1)
            before = torch.cat([ends.new_zeros(1), ends[:-1]])
            rest = ((unit[:, 0] - before[which]) / (ends - before)[which]).clamp(
                1e-6, 1 - 1e-6
            )  # stay away from the edges
            root = rest.sqrt()  # uniform by area
            b, c = root * (1 - unit[:, 1]), root * unit[:, 1]
            a = 1 - root
            points = a[:, None] * first[which] + b[:, None] * second[which] + c[:, None] * third[which]
            return points, normals[which]

        return Piece(name, 2, float(areas.sum()), place)


def _closed(pyvista: Any, mesh: Any) -> Any:
    """The surface as consistently oriented triangles in double precision; refuse an open surface."""
    surface = (
        mesh if isinstance(mesh, pyvista.PolyData) else mesh.extract_surface(algorithm="dataset_surface")
    )
    surface = surface.triangulate().clean()
    if not surface.n_cells:
        raise ValueError("A Mesh should have triangles, got none.")
    if surface.n_open_edges or not surface.is_manifold:
        raise ValueError(
            f"A Mesh should be a closed surface, got one with {surface.n_open_edges} open edges. Repair it, "
            "for example by pyvista's fill_holes, or pass its points and normals to a PointCloud."
        )
    surface = surface.compute_normals(
        auto_orient_normals=False, consistent_normals=True, split_vertices=False, cell_normals=True
    )
    surface.points = np.asarray(surface.points, dtype=float)
    return surface


def _outward(corners: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """The triangles with outward orientation, determined for each connected surface, including cavities.

    Points slightly in front of the triangles should lie outside. If only some of them do, the surface crosses
    itself or another surface.
    """
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]]])
    graph = coo_array((np.ones(len(edges)), edges.T), shape=(len(corners),) * 2)
    surface_of = connected_components(graph, directed=False)[1][triangles[:, 0]]
    sample = np.unique(np.linspace(0, len(triangles) - 1, min(len(triangles), 20_000)).astype(int))
    sample = np.union1d(sample, np.unique(surface_of, return_index=True)[1])
    a, b, c = (corners[triangles[sample, k]] for k in range(3))
    across = np.cross(b - a, c - a)
    area = np.linalg.norm(across, axis=1)
    step = 1e-6 * np.ptp(corners, axis=0).max()
    ahead = (a + b + c) / 3 + step * across / np.maximum(area, np.finfo(float).tiny)[:, None]
    inside = Rays(corners[triangles]).inside(ahead)
    turned = np.bincount(surface_of[sample], area * inside) / np.bincount(surface_of[sample], area)
    if ((turned > 0.05) & (turned < 0.95)).any():
        raise ValueError(
            "A Mesh should not cross itself, but this one does or has overlapping bodies. Repair it, or "
            "create a Mesh for each body and join them by `|`."
        )
    return np.where((turned > 0.5)[surface_of][:, None], triangles[:, ::-1], triangles)


class Rays:
    """A triangle surface (m, 3, 3), prepared for testing whether points lie inside."""

    def __init__(self, triangles: np.ndarray) -> None:
        self.first: np.ndarray = triangles[:, 0]
        self.across: np.ndarray = triangles[:, 1:] - triangles[:, :1]  # the two edges from the first corner
        flat = triangles[:, :, :2]
        low, high = flat.min(1), flat.max(1)
        self.origin: np.ndarray = low.min(0)
        self.per_axis: int = max(1, math.isqrt(len(triangles)))
        self.cell: np.ndarray = (high.max(0) - self.origin) / self.per_axis
        from_, to = (self._cell(corner) for corner in (low, high))
        wide = to - from_ + 1
        owner = np.repeat(np.arange(len(triangles)), wide.prod(1))
        number = _counting(wide.prod(1))
        cells = from_[owner] + np.stack([number // wide[owner, 1], number % wide[owner, 1]], axis=1)
        keys = self._key(cells)
        order = np.argsort(keys, kind="stable")
        self.members: np.ndarray = owner[order]
        self.starts: np.ndarray = np.searchsorted(keys[order], np.arange(self.per_axis**2 + 1))

    def _cell(self, points: np.ndarray) -> np.ndarray:
        return ((points[:, :2] - self.origin) / self.cell).astype(int).clip(0, self.per_axis - 1)

    def _key(self, cells: np.ndarray) -> np.ndarray:
        return cells[:, 0] * self.per_axis + cells[:, 1]

    def inside(self, x: np.ndarray) -> np.ndarray:
        """Whether points (n, 3) lie inside, (n,)."""
        x = x + ASIDE * np.array([self.cell[0], math.e / 3 * self.cell[1], 0.0]) * self.per_axis
        keys = self._key(self._cell(x))
        counts = self.starts[keys + 1] - self.starts[keys]
        odd = np.zeros(len(x), dtype=bool)
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(x):  # a batch has at most PAIRS triangles in total, and at least one point
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + PAIRS)))
            odd[begin:end] = self._odd(x[begin:end], keys[begin:end], counts[begin:end])
            begin = end
        return odd

    def _odd(self, x: np.ndarray, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        point = np.repeat(np.arange(len(x)), counts)
        triangle = self.members[np.repeat(self.starts[keys], counts) + _counting(counts)]
        (ax, ay, az), (bx, by, bz) = (self.across[triangle, k].T for k in (0, 1))
        px, py, pz = (x[point] - self.first[triangle]).T
        area = ax * by - ay * bx
        with np.errstate(divide="ignore", invalid="ignore"):  # vertical triangles are parallel to the rays
            u, v = (px * by - py * bx) / area, (ax * py - ay * px) / area
            met = (u >= 0) & (v >= 0) & (u + v <= 1) & (u * az + v * bz > pz)
        return np.bincount(point[met], minlength=len(x)) % 2 == 1


def _counting(counts: np.ndarray) -> np.ndarray:
    """The numbers 0, 1, ..., restarted for each count."""
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return np.arange(len(starts)) - starts
