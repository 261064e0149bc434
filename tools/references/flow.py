"""Steady incompressible flow in a driven cavity and around a cylinder, by Taylor-Hood elements and Newton.

python tools/references/flow.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from fields import Field, Shipped, cut, difference, grid, placed, ship, summary
from scipy.sparse import bmat, coo_matrix
from scipy.sparse.linalg import splu
from skfem import (
    Basis,
    BilinearForm,
    ElementTriP1,
    ElementTriP2,
    ElementTriP3,
    FacetBasis,
    Functional,
    MeshTri,
    MeshTri2,
)
from triangles import Floats, Whole

NAMES = ("u", "v", "p")


class Level(NamedTuple):
    """The degree of the velocity, one above that of the pressure, and the fineness of the mesh."""

    degree: int
    fineness: int


class Case(NamedTuple):
    """A flow: its mesh by fineness, viscosity, velocity at the walls, and open end."""

    name: str
    mesh: Callable[[int], MeshTri]
    viscosity: float
    velocity: Callable[[Floats], Floats]
    free: Callable[[Floats], Any]


class Pieces(NamedTuple):
    """The quantities that stay constant during the iteration.

    These are the bases, the shape functions of the velocity with their slopes (triangle, shape, point), the
    viscous term, the divergence of both components, and the indices of the prescribed unknowns.
    """

    velocity: Basis
    pressure: Basis
    shape: Floats
    slopes: tuple[Floats, Floats]
    viscous: Any
    along: Any
    across: Any
    given: Whole


stiffness = BilinearForm(lambda u, v, _: u.grad[0] * v.grad[0] + u.grad[1] * v.grad[1])
divergence_x = BilinearForm(lambda u, q, _: u.grad[0] * q)
divergence_y = BilinearForm(lambda u, q, _: u.grad[1] * q)


def pieces(case: Case, level: Level) -> Pieces:
    """Set up a case at a level."""
    elements = [ElementTriP1(), ElementTriP2(), ElementTriP3()]
    velocity = Basis(case.mesh(level.fineness), elements[level.degree - 1], intorder=3 * level.degree - 1)
    pressure = velocity.with_element(elements[level.degree - 2])
    count = velocity.N
    facets = velocity.mesh.facets_satisfying(lambda x: ~case.free(x), boundaries_only=True)
    walls = velocity.get_dofs(facets).all()
    closed = len(facets) == len(velocity.mesh.boundary_facets())
    origin = 2 * count + np.linalg.norm(pressure.doflocs, axis=0).argmin()
    given = np.concatenate([walls, count + walls, [origin] if closed else []]).astype(np.int64)
    like = velocity.dx.shape
    first: list[Any] = [velocity.basis[i][0] for i in range(velocity.Nbfun)]
    shape = np.stack([np.broadcast_to(part.value, like) for part in first], axis=1)
    slopes = [np.stack([np.broadcast_to(part.grad[k], like) for part in first], axis=1) for k in (0, 1)]
    return Pieces(
        velocity,
        pressure,
        shape,
        (slopes[0], slopes[1]),
        case.viscosity * stiffness.assemble(velocity),
        divergence_x.assemble(velocity, pressure),
        divergence_y.assemble(velocity, pressure),
        given,
    )


def split(parts: Pieces, state: Floats) -> tuple[Floats, Floats, Floats]:
    """The coefficients of u, v and p."""
    u, v, p = np.split(state, [parts.velocity.N, 2 * parts.velocity.N])
    return u, v, p


def assembled(parts: Pieces, trial: Floats) -> Any:
    """The matrix of integrals of shape functions times a linear map of the trial function."""
    basis = parts.velocity
    local = (parts.shape * basis.dx[:, None]) @ trial.transpose(0, 2, 1)
    numbers = basis.element_dofs.T
    rows, columns = np.broadcast_arrays(numbers[:, :, None], numbers[:, None, :])
    return coo_matrix((local.ravel(), (rows.ravel(), columns.ravel())), shape=(basis.N, basis.N)).tocsr()


def residual(parts: Pieces, state: Floats) -> tuple[Floats, Any]:
    """The residual of momentum and mass, tested with every shape function, and its derivative."""
    u, v, p = split(parts, state)
    local = [part[parts.velocity.element_dofs.T][:, None] for part in (u, v)]
    first, second = ((part @ parts.shape) for part in local)
    moved = parts.viscous + assembled(parts, first * parts.slopes[0] + second * parts.slopes[1])
    x, y = parts.along, parts.across
    left = np.concatenate([moved @ u - x.T @ p, moved @ v - y.T @ p, -(x @ u) - y @ v])
    (ux, uy), (vx, vy) = (
        [assembled(parts, (part @ slope) * parts.shape) for slope in parts.slopes] for part in local
    )
    rows = [[moved + ux, uy, -x.T], [vx, moved + vy, -y.T], [-x, -y, None]]
    return left, bmat(rows, format="csr")


def dissected(matrix: Any, places: Floats, leaf: int = 200) -> Whole:
    """An elimination order with little fill: both sides of a dividing line, then the line, recursively."""
    joined = (abs(matrix) + abs(matrix.T)).tocsr()
    side = np.zeros(len(places), dtype=np.int64)

    def order(part: Whole, mark: int) -> list[Whole]:
        if len(part) < leaf:
            return [part]
        where = places[part]
        axis = int(np.ptp(where, axis=0).argmax())
        low = where[:, axis] < np.median(where[:, axis]) - 1e-12
        below, above = part[low], part[~low]
        side[below] = mark
        rows = joined[above]
        touching = np.add.reduceat((side[rows.indices] == mark).astype(int), rows.indptr[:-1]) > 0
        side[below] = 0
        return [*order(below, mark + 1), *order(above[~touching], mark + 1), above[touching]]

    return np.concatenate(order(np.arange(len(places)), 1))


def newton(parts: Pieces, state: Floats, tolerance: float = 1e-6) -> Floats:
    """Newton's method from a state with the prescribed values."""
    inside = np.setdiff1d(np.arange(len(state)), parts.given)
    places = np.concatenate([parts.velocity.doflocs.T] * 2 + [parts.pressure.doflocs.T])[inside]
    order = None
    for _ in range(20):
        left, matrix = residual(parts, state)
        small = matrix[inside][:, inside]
        if order is None:
            order = dissected(small, places)
        solver = splu(
            small[order][:, order].tocsc(),
            permc_spec="NATURAL",
            diag_pivot_thresh=1e-3,
            options={"SymmetricMode": True},
        )
        step = solver.solve(-left[inside[order]])
        state = state.copy()
        state[inside[order]] += step
        if np.abs(step).max() < tolerance:
            return state
    raise RuntimeError("Newton's method did not converge")


def field(parts: Pieces, state: Floats) -> Field:
    """The solution, for evaluation at points."""
    return Field(NAMES, (parts.velocity, parts.velocity, parts.pressure), split(parts, state))


def solved(case: Case, level: Level, coarser: Field | None) -> tuple[Pieces, Floats]:
    """Solve at a level from a coarser solution or, without one, by continuation from slow to fast flow."""
    parts = pieces(case, level)
    places = parts.velocity.doflocs.T
    state = np.zeros(2 * parts.velocity.N + parts.pressure.N)
    if coarser is not None:
        u, v, _ = coarser.at(places).T
        state = np.concatenate([u, v, coarser.at(parts.pressure.doflocs.T)[:, 2]])
    exact = np.concatenate([*case.velocity(places).T, np.zeros(parts.pressure.N)])
    state[parts.given] = exact[parts.given]
    for factor in (1,) if coarser is not None else (10, 1):
        state = newton(parts._replace(viscous=factor * parts.viscous), state)
    return parts, state


def cavity(level: int) -> MeshTri:
    """The unit square with smaller triangles at its walls."""
    even = np.linspace(0, 1, level + 1)
    lines = 0.4 * even + 0.3 * (1 - np.cos(np.pi * even))
    points, quadrilaterals = grid(lines, lines)
    return MeshTri(points.T.copy(), cut(quadrilaterals, points, (0.5, 0.5)).T.copy())


def lid(where: Floats) -> Floats:
    """The velocity at the cavity's walls: that of the lid at the top, otherwise zero."""
    x, y = where.T
    return np.stack([np.where(y > 1 - 1e-9, 16 * x**2 * (1 - x) ** 2, 0), 0 * x], axis=-1)


CENTRE, RADIUS, HALF, LENGTH, HEIGHT = np.array([0.2, 0.2]), 0.05, 0.1, 2.2, 0.41


def onto(points: Floats) -> Floats:
    """Move points inside the cylinder to its wall."""
    away = points - CENTRE
    distance = np.linalg.norm(away, axis=-1, keepdims=True)
    return np.where(distance < RADIUS, CENTRE + away * RADIUS / np.maximum(distance, 1e-9), points)


def ring(level: int, layers: int) -> tuple[Floats, Whole]:
    """Quadrilaterals from the cylinder to the square around it."""
    angle = np.linspace(-np.pi / 4, 7 * np.pi / 4, 4 * level + 1)[:-1]
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    square = HALF * circle / np.abs(circle).max(axis=1, keepdims=True)
    part = np.linspace(0, 1, layers + 1)
    part = np.expm1(0.8 * part) / np.expm1(0.8)
    points = CENTRE + RADIUS * circle + part[:, None, None] * (square - RADIUS * circle)
    number = np.arange(points[..., 0].size).reshape(layers + 1, -1)
    after = np.roll(number, -1, axis=1)
    around = [number[:-1], number[1:], after[1:], after[:-1]]
    return points.reshape(-1, 2), np.stack([row.ravel() for row in around], axis=1)


def channel(level: int, downstream: int, growth: float) -> MeshTri:
    """The channel around the cylinder: lines that follow a ring, wider apart downstream."""
    side = HALF * np.tan(np.linspace(-np.pi / 4, np.pi / 4, level + 1))
    (x, y), half = CENTRE, level // 2
    down = np.expm1(growth * np.linspace(0, 1, downstream + 1)) / np.expm1(growth)
    lines = [
        [np.linspace(0, x - HALF, half + 1)[:-1], x + side, x + HALF + (LENGTH - x - HALF) * down[1:]],
        [np.linspace(0, y - HALF, half + 1)[:-1], y + side, np.linspace(y + HALF, HEIGHT, half + 1)[1:]],
    ]
    points, around = grid(np.concatenate(lines[0]), np.concatenate(lines[1]))
    outside = np.abs(points[around].mean(axis=1) - CENTRE).max(axis=1) > HALF
    inner, turned = ring(level, 3 * level // 4)
    cells = [
        cut(around[outside], points, (LENGTH / 2, HEIGHT / 2)),
        len(points) + cut(turned, inner, (0.2, 0.2)),
    ]
    points = np.concatenate([points, inner])
    _, first, back = np.unique(np.round(points, 9), axis=0, return_index=True, return_inverse=True)
    triangles = back.reshape(-1)[np.concatenate(cells)]
    used, triangles = np.unique(triangles, return_inverse=True)
    return MeshTri(points[first[used]].T.copy(), triangles.reshape(-1, 3).T.copy())


def curved(mesh: MeshTri) -> MeshTri2:
    """The same mesh with the sides along the cylinder curved."""
    bent = MeshTri2.from_mesh(mesh)
    places = bent.doflocs.T.copy()
    return MeshTri2(onto(places).T.copy(), bent.t)


def inflow(where: Floats) -> Floats:
    """The velocity at the channel's walls: a parabola on the left, otherwise zero."""
    x, y = where.T
    enters = (x < 1e-6) & (y < HEIGHT - 1e-6)
    return np.stack([np.where(enters, 1.2 * y * (HEIGHT - y) / HEIGHT**2, 0), 0 * x], axis=-1)


def outflow(where: Floats) -> Any:
    """Whether points (2, k) are on the right end."""
    return where[0] > LENGTH - 1e-9


def nowhere(where: Floats) -> Any:
    """No points."""
    return np.zeros(where.shape[1], dtype=bool)


def in_cavity(where: Floats, values: Floats) -> Floats:
    """Insert the velocity at the walls of the cavity."""
    on = ((where == 0) | (where == 1)).any(axis=1)
    return np.concatenate([np.where(on[:, None], lid(where), values[:, :2]), values[:, 2:]], axis=1)


def in_channel(where: Floats, values: Floats) -> Floats:
    """Insert the velocity at inflow and walls, zero at chords that replace arcs of the cylinder."""
    (x, y), close = where.T, np.linalg.norm(where - CENTRE, axis=1) < RADIUS + 1e-6
    on = close | (x < 1e-6) | (y < 1e-6) | (y > HEIGHT - 1e-6)
    return np.concatenate([np.where(on[:, None], inflow(where), values[:, :2]), values[:, 2:]], axis=1)


def cavity_checks(case: Case, parts: Pieces, state: Floats) -> dict[str, float]:
    """The integral of the squared divergence, and the work of the lid compared with dissipation."""
    u, v, _ = split(parts, state)
    basis = parts.velocity
    top = FacetBasis(basis.mesh, basis.elem, facets=basis.mesh.facets_satisfying(lambda x: x[1] > 1 - 1e-9))
    both = {"one": basis.interpolate(u), "two": basis.interpolate(v)}
    squares = Functional(lambda w: (w["one"].grad ** 2 + w["two"].grad ** 2).sum(axis=0))
    work = Functional(lambda w: w["u"] * w["u"].grad[1]).assemble(top, u=top.interpolate(u))
    divergence = Functional(lambda w: (w["one"].grad[0] + w["two"].grad[1]) ** 2)
    return {
        "integral of divergence^2": float(divergence.assemble(basis, **both)),
        "work of the lid": case.viscosity * float(work),
        "dissipation": case.viscosity * float(squares.assemble(basis, **both)),
    }


def cylinder_checks(case: Case, parts: Pieces, state: Floats) -> dict[str, float]:
    """Drag and lift from the momentum residual at the cylinder, the pressure across it, and the mass."""
    left, basis = residual(parts, state)[0], parts.velocity
    wall = np.flatnonzero(np.linalg.norm(basis.doflocs.T - CENTRE, axis=1) < RADIUS + 1e-6)
    scale = 2 / (0.2**2 * 2 * RADIUS)
    front, back = field(parts, state).at(CENTRE + np.array([[-RADIUS, 0], [RADIUS, 0]]))[:, 2]
    through = Functional(lambda w: 1.0 * w["u"])
    mass = []
    for end in (0.0, LENGTH):
        facets = basis.mesh.facets_satisfying(lambda x, end=end: np.abs(x[0] - end) < 1e-9)
        side = FacetBasis(basis.mesh, basis.elem, facets=facets)
        mass.append(float(through.assemble(side, u=side.interpolate(state[: basis.N]))))
    return {
        "drag": -scale * float(left[wall].sum()),
        "lift": -scale * float(left[basis.N + wall].sum()),
        "pressure difference": float(front - back),
        "mass in": mass[0],
        "mass out": mass[1],
    }


def run(
    case: Case,
    levels: list[Level],
    checked: Callable[[Case, Pieces, Floats], dict[str, float]],
    shipping: Callable[[Field], Shipped],
) -> None:
    """Solve at all levels, print the figures, and write the file."""
    found: list[tuple[Field, dict[str, float]]] = []
    for level in levels:
        parts, state = solved(case, level, found[-1][0] if found else None)
        found.append((field(parts, state), checked(case, parts, state)))
    finest, checks = found[-1]
    where, areas = finest.samples()
    exact = finest.at(where)
    print(
        f"{case.name}\ndegree fineness unknowns  " + ", ".join(checks) + "; rms and max to finest of u, v, p"
    )
    for level, (one, numbers) in zip(levels, found, strict=True):
        count = sum(len(part) for part in one.coefficients)
        far = [f"{number:.1e}" for part in difference(one.at(where), exact, areas) for number in part]
        print(
            f"{level.degree:6} {level.fineness:8} {count:8} ", *(f"{n:.9g}" for n in numbers.values()), *far
        )
    shipped = shipping(finest)
    print(summary(case.name, shipped, *ship(case.name, shipped, finest, found[-2][0], checks)), flush=True)


def main(names: list[str]) -> None:
    """Compute the named flows, or all."""
    for reynolds in (100, 400):
        if not names or f"cavity_{reynolds}" in names:
            case = Case(f"cavity_{reynolds}", cavity, 1 / reynolds, lid, nowhere)
            levels = [Level(2, 24), Level(3, 24), Level(3, 48), Level(3, 72)]
            run(case, levels, cavity_checks, lambda finest: placed(cavity(8), finest, in_cavity, 2e-4))
    if not names or "cylinder" in names:
        case = Case("cylinder", lambda level: curved(channel(level, 3 * level, 2.15)), 0.001, inflow, outflow)
        levels = [Level(2, 8), Level(3, 8), Level(3, 16), Level(3, 24)]
        run(
            case,
            levels,
            cylinder_checks,
            lambda finest: placed(channel(4, 20, 1.4), finest, in_channel, 4e-4, onto),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
