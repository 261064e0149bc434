"""Poisson's equation on an L-shape, -laplacian u = 1 with u = 0 on the boundary: the reference of l_shape.

python tools/references/shapes.py
"""

from __future__ import annotations

import numpy as np
from fields import Field, difference, placed, ship, summary
from skfem import Basis, ElementTriP4, MeshTri, condense, solve
from skfem.models.poisson import laplace, unit_load
from triangles import Floats

SIZES = (0.8, 0.4, 0.2)
TOLERANCE = 2e-5
OUTLINE = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1]], dtype=float)
CONVEX = OUTLINE[[1, 2, 4, 6, 7]]


def coarsest() -> MeshTri:
    """Six triangles around the re-entrant corner."""
    return MeshTri(OUTLINE.T.copy(), np.array([[0, i, i + 1] for i in range(1, 7)]).T.copy())


def graded(size: float) -> MeshTri:
    """Triangles small at the origin, where u is like r^(2/3), and at the other corners, like r^2 log r."""
    mesh = coarsest()
    while True:
        corners = mesh.p[:, mesh.t]
        middle = corners.mean(axis=1).T
        longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=0).max(axis=0)
        near = np.maximum(np.linalg.norm(middle, axis=1), 1e-9)
        far = np.maximum(np.linalg.norm(middle[:, None] - CONVEX, axis=2).min(axis=1), 1e-4)
        allowed = np.minimum(size * np.minimum(near**0.87, far**0.6), 1.5 * near)
        long = np.flatnonzero(longest > allowed)
        if len(long) == 0:
            return mesh
        mesh = mesh.refined(long)


def solved(mesh: MeshTri) -> Field:
    """Solve with polynomials of degree four."""
    basis = Basis(mesh, ElementTriP4())
    u = np.asarray(solve(*condense(laplace.assemble(basis), unit_load.assemble(basis), D=basis.get_dofs())))
    return Field(("u",), (basis,), (u,))


def checked(field: Field) -> dict[str, float]:
    """The integrals of u and of |grad u|^2, equal for the exact solution, and the largest u."""
    basis, u = field.bases[0], field.coefficients[0]
    torsion, energy = unit_load.assemble(basis) @ u, u @ (laplace.assemble(basis) @ u)
    steps = np.stack(np.meshgrid(*2 * [np.linspace(-0.1, 0.1, 201)]), axis=-1).reshape(-1, 2)
    top = field.at(basis.doflocs.T[u.argmax()] + steps).max()
    return {"integral of u": float(torsion), "integral of |grad u|^2": float(energy), "largest u": float(top)}


def walls(where: Floats, values: Floats) -> Floats:
    """Insert zero on the boundary."""
    x, y = where.T
    inner = (x >= 0) & (y <= 0)
    return np.where((inner | (np.abs(where).max(axis=1) == 1))[:, None], 0.0, values)


def main() -> None:
    """Refine, check, and write the file."""
    levels = [solved(graded(size)) for size in SIZES]
    finest = levels[-1]
    where, areas = finest.samples()
    exact = finest.at(where)
    print("unknowns        int u   int |grad u|^2     max u    rms to finest  max to finest")
    for level in levels:
        integral, energy, top = checked(level).values()
        rms, largest = difference(level.at(where), exact, areas)
        numbers = f"{level.bases[0].N:8} {integral:.11f} {energy:.11f} {top:.8f}"
        print(f"{numbers} {rms[0]:16.1e} {largest[0]:14.1e}")
    print("literature 0.21407580268")
    shipped = placed(coarsest(), finest, walls, TOLERANCE)
    print(summary("l_shape", shipped, *ship("l_shape", shipped, finest, levels[-2], checked(finest))))


if __name__ == "__main__":
    main()
