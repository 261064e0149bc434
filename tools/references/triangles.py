"""Piecewise quadratic fields on straight triangles: written to a file, evaluated at points."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

DATA = Path(__file__).parents[2] / "src" / "guardband" / "pinn" / "problems" / "catalogue" / "data"
LIMIT = 200_000


def edges(triangles: Whole) -> tuple[Whole, Whole]:
    """The edges (E, 2) in lexicographic order, and per triangle the edges opposite to its corners (T, 3)."""
    pairs = np.sort(triangles[:, [[1, 2], [2, 0], [0, 1]]], axis=2)
    unique, back = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    return unique, back.reshape(-1, 3)


def nodes(points: Floats, triangles: Whole) -> Floats:
    """Locations of the values of a field: the vertices, then the midpoints of the edges."""
    return np.concatenate([points, points[edges(triangles)[0]].mean(axis=1)])


def barycentric(corners: Floats, where: Floats) -> Floats:
    """The barycentric coordinates (..., 3) of points (..., 2) in triangles (..., 3, 2)."""
    first, second = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    away = where - corners[..., 0, :]
    area = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    one = (away[..., 0] * second[..., 1] - away[..., 1] * second[..., 0]) / area
    two = (first[..., 0] * away[..., 1] - first[..., 1] * away[..., 0]) / area
    return np.stack([1 - one - two, one, two], axis=-1)


def find(points: Floats, triangles: Whole, where: Floats, nearest: int = 32) -> tuple[Whole, Floats]:
    """The triangle that contains each point, and the barycentric coordinates of the point.

    Candidates are the triangles with the nearest centroids; the one whose smallest coordinate is largest is
    taken. Four are tried first, and `nearest` only for points that lie in none of these.
    """
    corners = points[triangles]
    tree = KDTree(corners.mean(axis=1))
    cells, coordinates = np.zeros(len(where), dtype=np.int64), np.full((len(where), 3), -np.inf)
    for count in (4, nearest):
        left = np.flatnonzero(coordinates.min(axis=1) < 0)
        for part in np.array_split(left, 1 + len(left) // 20_000):
            near = np.asarray(tree.query(where[part], k=min(count, len(triangles)))[1])
            tried = barycentric(corners[near], where[part, None])
            best = tried.min(axis=-1).argmax(axis=1)
            rows = np.arange(len(part))
            cells[part], coordinates[part] = near[rows, best], tried[rows, best]
    return cells, coordinates


def shapes(coordinates: Floats) -> Floats:
    """The six quadratic shape functions: those of the corners, then those of the edges opposite to them."""
    a, b, c = np.moveaxis(coordinates, -1, 0)
    return np.stack([a * (2 * a - 1), b * (2 * b - 1), c * (2 * c - 1), 4 * b * c, 4 * c * a, 4 * a * b], -1)


def evaluate(points: Floats, triangles: Whole, values: Floats, where: Floats) -> Floats:
    """The field (k, m) at points (k, 2), with the values (N + E, m) at the vertices and midpoints."""
    cells, coordinates = find(points, triangles, where)
    local = np.concatenate([triangles, len(points) + edges(triangles)[1]], axis=1)[cells]
    return np.einsum("kn,knm->km", shapes(coordinates), values[local])


def write(
    name: str,
    points: Floats,
    triangles: Whole,
    values: Floats,
    outputs: tuple[str, ...],
    error: Floats,
    largest: Floats,
    checks: dict[str, float],
) -> int:
    """Write a field to the catalogue's data and return the bytes it takes."""
    written = BytesIO()
    np.savez_compressed(
        written,
        points=points.astype(np.float32),
        triangles=triangles.astype(np.uint16),
        values=values.astype(np.float32),
        outputs=np.array(outputs),
        error=error.astype(np.float64),
        largest=largest.astype(np.float64),
        checks=np.array(json.dumps(checks)),
    )
    size = len(written.getvalue())
    if size > LIMIT or len(points) > 2**16:
        raise ValueError(f"{name} takes {size} bytes and {len(points)} points, more than may be shipped")
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / f"{name}.npz").write_bytes(written.getvalue())
    return size
