"""Finite-element solutions: values at points, differences, and compression to few triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from skfem import Basis, ElementTriP1, MeshTri
from triangles import Floats, Whole, barycentric, edges, evaluate, find, nodes, shapes, write

Change = Callable[[Floats], Floats]
Walls = Callable[[Floats, Floats], Floats]


class Field(NamedTuple):
    """A solution on one mesh: for each output its name, its basis and its coefficients."""

    names: tuple[str, ...]
    bases: tuple[Basis, ...]
    coefficients: tuple[Floats, ...]

    def at(self, where: Floats) -> Floats:
        """The outputs (k, m) at points (k, 2)."""
        mesh, mapping = self.bases[0].mesh, self.bases[0].mapping
        cells, coordinates = find(mesh.p.T, mesh.t.T, where)
        if coordinates.min() < -0.01:
            raise ValueError(f"no triangle was found for {(coordinates.min(axis=1) < -0.01).sum()} points")
        local = coordinates.T[1:, :, None].copy()
        curved = np.arange(0 if mesh.affine else len(where))
        for _ in range(5):
            away = where.T[:, curved, None] - mapping.F(local[:, curved], cells[curved])
            off = np.abs(away).max(axis=(0, 2)) > 1e-14
            curved, away = curved[off], away[:, off]
            inverse = mapping.invDF(local[:, curved], cells[curved])
            local[:, curved] += np.einsum("ijkl,jkl->ikl", inverse, away)
        found = np.zeros((len(where), len(self.names)))
        for column, (basis, known) in enumerate(zip(self.bases, self.coefficients, strict=True)):
            for i in range(basis.Nbfun):
                shape = np.asarray(basis.elem.gbasis(mapping, local, i, tind=cells)[0].value)
                found[:, column] += shape[:, 0] * known[basis.element_dofs[i, cells]]
        return found

    def samples(self) -> tuple[Floats, Floats]:
        """Points (k, 2) throughout the domain with areas; nodes are included without area."""
        basis = Basis(self.bases[0].mesh, ElementTriP1(), intorder=6)
        inside = basis.global_coordinates().value.reshape(2, -1).T
        corners = self.bases[0].doflocs.T
        return np.concatenate([inside, corners]), np.concatenate([basis.dx.ravel(), np.zeros(len(corners))])


class Difference(NamedTuple):
    """The difference of two fields per output, relative to the root mean square and the maximum."""

    rms: Floats
    largest: Floats


def difference(one: Floats, other: Floats, areas: Floats) -> Difference:
    """Compare values (k, m) at the same points, with the second as the scale."""
    rms = np.sqrt(areas @ (one - other) ** 2 / (areas @ other**2))
    return Difference(rms, np.abs(one - other).max(axis=0) / np.abs(other).max(axis=0))


def cut(quadrilaterals: Whole, points: Floats, middle: tuple[float, float]) -> Whole:
    """Cut quadrilaterals, counterclockwise from the lower left, along lines away from a center."""
    away = points[quadrilaterals].mean(axis=1) - np.array(middle)
    rising = away.prod(axis=1) > 0
    a, b, c, d = quadrilaterals.T
    halves = [np.where(rising, [a, b, c], [a, b, d]).T, np.where(rising, [a, c, d], [b, c, d]).T]
    return np.concatenate(halves)


def grid(x: Floats, y: Floats) -> tuple[Floats, Whole]:
    """The points and quadrilaterals between lines of constant x and y."""
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    number = np.arange(len(points)).reshape(len(x), len(y))
    around = [number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]]
    return points, np.stack([part.ravel() for part in around], axis=1)


def unchanged(points: Floats) -> Floats:
    """The identity."""
    return points


LATTICE = np.array([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i) if i % 2 or j % 2]) / 4
"""Barycentric coordinates of nine points in and around a triangle, none of them a vertex or midpoint."""


class Shipped(NamedTuple):
    """A piecewise quadratic field on few triangles, with its values at vertices and midpoints."""

    points: Floats
    triangles: Whole
    values: Floats


def sampled(mesh: MeshTri, finest: Field, walls: Walls, onto: Change) -> Shipped:
    """The finest solution at the vertices and midpoints of a mesh, with the boundary values inserted."""
    points = mesh.p.T.astype(np.float32).astype(np.float64)
    triangles = mesh.t.T.astype(np.int64)
    where = nodes(points, triangles)
    values = walls(where, finest.at(onto(where)))
    return Shipped(points, triangles, values.astype(np.float32).astype(np.float64))


def missed(shipped: Shipped, finest: Field, onto: Change) -> Floats:
    """Largest difference from the finest solution per triangle, relative to the maximum of each output."""
    points, triangles, values = shipped
    corners = points[triangles]
    where = onto(np.einsum("ln,tnd->tld", LATTICE, corners).reshape(-1, 2)).reshape(len(triangles), -1, 2)
    local = np.concatenate([triangles, len(points) + edges(triangles)[1]], axis=1)
    found = np.einsum("tln,tnm->tlm", shapes(barycentric(corners[:, None], where)), values[local])
    known = finest.at(where.reshape(-1, 2)).reshape(found.shape)
    return (np.abs(found - known) / np.abs(values).max(axis=0)).max(axis=(1, 2))


def placed(
    start: MeshTri,
    finest: Field,
    walls: Walls,
    tolerance: float,
    onto: Change = unchanged,
    most: int = 20_000,
) -> Shipped:
    """Divide triangles until all agree with the finest solution to a fraction of each output's maximum."""
    mesh = start
    while True:
        shipped = sampled(mesh, finest, walls, onto)
        wrong = np.flatnonzero(missed(shipped, finest, onto) > tolerance)
        if len(wrong) == 0 or len(shipped.triangles) > most:
            return shipped
        finer = mesh.refined(wrong)
        mesh = MeshTri(onto(finer.p.T).T.copy(), finer.t)


def ship(
    name: str, shipped: Shipped, finest: Field, coarser: Field, checks: dict[str, float]
) -> tuple[Difference, int]:
    """Measure a shipped field, write it, and return its error and its size in bytes."""
    where, areas = finest.samples()
    exact = finest.at(where)
    own = difference(coarser.at(where), exact, areas)
    interpolated = difference(evaluate(*shipped, where), exact, areas)
    error = Difference(own.rms + interpolated.rms, own.largest + interpolated.largest)
    return error, write(name, *shipped, finest.names, error.rms, error.largest, checks)


def summary(name: str, shipped: Shipped, error: Difference, size: int) -> str:
    """One line about a written file."""
    numbers = [" ".join(f"{number:.1e}" for number in part) for part in error]
    count = f"{len(shipped.points)} points, {len(shipped.triangles)} triangles, {size} bytes"
    return f"{name}: {count}; error {numbers[0]}, largest {numbers[1]}"
