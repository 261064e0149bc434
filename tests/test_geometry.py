"""Geometry: shapes, alone and put together, obey the laws; what breaks one is noticed."""

import copy
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guardband import pinn
from guardband.pinn.geometry import (
    Box,
    Disk,
    Domain,
    Mesh,
    Piece,
    PointCloud,
    Polygon,
    Rectangle,
    Segment,
    Sphere,
    Time,
    edge,
)
from guardband.pinn.testing import check_domain

PLATE = Rectangle((0, 0), (2, 1)) - Disk((0.5, 0.5), 0.2, name="hole")
CORNERS = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]


class Triangle(Domain):
    """Below the line from (1, 0) to (0, 1): a shape of somebody else, in ten lines."""

    lower, upper = (0.0, 0.0), (1.0, 1.0)

    def contains(self, x: torch.Tensor) -> torch.Tensor:
        return (x >= 0).all(1) & (x.sum(1) <= 1)

    def pieces(self) -> list[Piece]:
        ends = {"bottom": ((0, 0), (1, 0)), "slope": ((1, 0), (0, 1)), "left": ((0, 1), (0, 0))}
        return [edge(name, *two) for name, two in ends.items()]


def polygon(**options: Any) -> Domain:
    pytest.importorskip("shapely")
    return Polygon(CORNERS, holes={"notch": [(0.2, 0.2), (0.4, 0.2), (0.3, 0.4)]}, **options)


def stl(folder: Path) -> Domain:
    pyvista = pytest.importorskip("pyvista")
    pyvista.Cylinder(radius=1.0, height=3.0, resolution=24).triangulate().save(folder / "part.stl")
    return Mesh(folder / "part.stl")


SHAPES: dict[str, Any] = {
    "segment": (Segment(-1, 3), 4.0),
    "rectangle": (Rectangle((0, 0), (2, 1)), 2.0),
    "box": (Box((0, 0, 0), (1, 2, 3)), 6.0),
    "box in four dimensions": (Box((0,) * 4, (1, 2, 3, 1)), 6.0),
    "disk": (Disk((1, 2), 0.5), math.pi / 4),
    "sphere": (Sphere((0, 0, 1), 2.0), 32 / 3 * math.pi),
    "plate with a hole": (PLATE, 2 - 0.04 * math.pi),
    "plate with two holes": (PLATE - Disk((1.5, 0.5), 0.3), 2 - 0.13 * math.pi),
    "a corner bitten off": (Rectangle((0, 0), (2, 1)) - Disk((2, 1), 0.5), 2 - math.pi / 16),
    "halves with a face in common": (Rectangle((0, 0), (1, 1)) | Rectangle((1, 0), (2, 1)), 2.0),
    "twice the same": (Disk((0, 0), 1.0) | Disk((0, 0), 1.0), math.pi),
    "L": (Rectangle((0, 0), (2, 2)) - Rectangle((1, 1), (2, 2)), 3.0),
    "lens": (Disk((0, 0), 1.0) & Disk((1, 0), 1.0), 2 * math.pi / 3 - math.sqrt(3) / 2),
    "thin ring": (Disk((0, 0), 1.0) - Disk((0, 0), 0.98), 0.0396 * math.pi),
    "void in a block": (Box((0, 0, 0), (1, 1, 1)) - Sphere((0.5, 0.5, 0.5), 0.3), 1 - 0.036 * math.pi),
    "two balls": (Sphere((0, 0, 0), 1.0) | Sphere((1, 0, 0), 1.0), 27 / 12 * math.pi),
    "two segments": (Segment(0, 3) - Segment(1, 2), 2.0),
    "odd units": (Rectangle((1e5, 0), (2e5, 1e-4)) - Disk((1.5e5, 0), 1e-5), 10.0),
    "tiny": (Disk((0, 0), 1e-9) - Disk((0, 0), 5e-10), 0.75e-18 * math.pi),
    "somebody else's": (Triangle(), 0.5),
    "somebody else's with a hole": (Triangle() - Disk((0.3, 0.3), 0.1), 0.5 - 0.01 * math.pi),
    "rod in time": (Segment(0, 1) * Time(0, 2), 2.0),
    "plate in time": (PLATE * Time(1, 3), 4 - 0.08 * math.pi),
    "polygon": (polygon, 2.98),
    "polygon, the other way around": (lambda: Polygon(CORNERS[::-1]), 3.0),
    "polygon without a disk": (lambda: polygon() - Disk((0.7, 0.7), 0.2), 2.98 - 0.04 * math.pi),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_obey_the_laws(name: str) -> None:
    if "polygon" in name:
        pytest.importorskip("shapely")
    shape, measure = SHAPES[name]
    shape = shape if isinstance(shape, Domain) else shape()
    assert shape.measure == pytest.approx(measure, rel=0.01)
    check_domain(shape)


@pytest.mark.slow
def test_a_part_from_a_file_obeys_the_laws(tmp_path: Path) -> None:
    part = stl(tmp_path)
    assert part.measure == pytest.approx(3 * 12 * math.sin(math.pi / 12), rel=1e-6)
    check_domain(part)
    check_domain(part - Sphere((0, 0, 0), 0.5, name="void"), points=2000)


def test_a_volume_and_a_cube_are_meshes_too(tmp_path: Path) -> None:
    pyvista = pytest.importorskip("pyvista")
    pyvista.ImageData(dimensions=(4, 4, 4)).cast_to_unstructured_grid().save(tmp_path / "grid.vtu")
    grid = Mesh(tmp_path / "grid.vtu", name="wall")
    assert grid.measure == pytest.approx(27) and grid.parts == ("wall",)
    check_domain(grid, points=5000)
    cube = pyvista.Cube().triangulate()
    sides = Mesh(cube, parts=["top" if z > 0.4 else "rest" for z in cube.cell_centers().points[:, 2]])
    assert sides.size("top") == pytest.approx(1) and sides.size() == pytest.approx(6)
    for wrong, message in [
        (lambda: Mesh(pyvista.Plane()), "closed surface, got one with 40 open edges"),
        (lambda: Mesh(tmp_path / "none.stl"), "There is no file"),
        (lambda: Mesh(cube, parts=["a"]), "the part of each of 12 triangles"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("turned", range(4))
def test_a_cavity_has_its_inside_behind_it_however_it_was_turned(tmp_path: Path, turned: int) -> None:
    """A shell, and in its cavity another ball: three surfaces in one file."""
    pyvista = pytest.importorskip("pyvista")
    balls = [pyvista.Sphere(radius=r, theta_resolution=40, phi_resolution=40) for r in (0.5, 0.4, 0.2)]
    for k, ball in enumerate(balls[:2]):
        if turned >> k & 1:
            ball.flip_faces(inplace=True)
    volumes = [abs(ball.volume) for ball in balls]
    balls[0].append_polydata(*balls[1:]).save(tmp_path / "shell.stl")
    shell = Mesh(tmp_path / "shell.stl")
    assert shell.measure == pytest.approx(volumes[0] - volumes[1] + volumes[2], rel=1e-5)
    check_domain(shell, points=4000)


def test_bodies_that_overlap_are_refused() -> None:
    pyvista = pytest.importorskip("pyvista")
    both = pyvista.Sphere().append_polydata(pyvista.Sphere(center=(0.4, 0.1, 0.0)))
    with pytest.raises(ValueError, match=r"has overlapping bodies.*join them by `|`"):
        Mesh(both)
    apart = pyvista.Sphere().append_polydata(pyvista.Sphere(center=(1.4, 0.1, 0.0)))
    assert Mesh(apart).measure == pytest.approx(2 * pyvista.Sphere().volume)


@pytest.mark.parametrize("how", ["even", "random", "quasi"])
def test_points_on_a_circle_lie_on_it(how: Any) -> None:
    hole = PLATE.boundary(2000, "hole", how)
    away = hole.points - torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert float((away.norm(dim=1) - 0.2).abs().max()) < 1e-12
    assert float((hole.normals + away / 0.2).abs().max()) < 1e-12  # out of the plate, into the hole
    assert set(hole.parts) == {"hole"} and PLATE.size("hole") == pytest.approx(0.4 * math.pi)


def test_parts_have_names() -> None:
    assert PLATE.parts == ("left", "right", "bottom", "top", "hole")
    span = PLATE * Time(0, 1)
    assert span.names == ("x", "y", "t") and span.space == (0, 1)
    assert span.parts == (*PLATE.parts, "start", "end") and span.walls == PLATE.parts
    assert Box((0,) * 4, (1,) * 4).parts[:2] == ("x1-", "x1+")
    assert (Segment(0, 1, names=["r"]) * Time(0, 1, name="s")).names == ("r", "s")
    named = polygon(edges=["a", "b", "c", "d", "e", "f"])
    assert named.parts == ("a", "b", "c", "d", "e", "f", "notch") and named.size("a") == 2
    inner = Rectangle((0.2, 0.2), (0.4, 0.4), name="window")
    assert (Rectangle((0, 0), (1, 1)) - inner).parts == ("left", "right", "bottom", "top", "window")


def test_the_same_seed_gives_the_same_points() -> None:
    for how in ("random", "quasi"):
        one, two, other = (PLATE.interior(50, how, seed=seed) for seed in (1, 1, 2))  # type: ignore[arg-type]
        assert torch.equal(one, two) and not torch.equal(one, other)
    assert torch.equal(PLATE.boundary(50, seed=3).points, PLATE.boundary(50, seed=3).points)


class Flawed(Triangle):
    """A triangle in which one thing is wrong."""

    def __init__(self, flaw: str) -> None:
        self.flaw = flaw

    @property
    def measure(self) -> float:
        return 0.52 if self.flaw == "the measure" else 0.5

    def interior(self, n: int, how: Any = "random", *, seed: int = 0) -> torch.Tensor:
        x = super().interior(n, how, seed=seed)
        if self.flaw == "outside":
            x = torch.cat([x[1:], torch.ones(1, 2, dtype=x.dtype)])
        return x * 0.97 if self.flaw == "uniform" else x

    def pieces(self) -> list[Piece]:
        pieces = super().pieces()
        if self.flaw == "a normal":
            pieces[1] = edge("slope", (0, 1), (1, 0))
        if self.flaw == "a size":
            pieces[1] = replace(pieces[1], whole=1.1 * pieces[1].whole)
        if self.flaw == "an edge":
            pieces[1] = edge("slope", (0.9, 0), (0, 0.9))
        return pieces


@pytest.mark.parametrize(
    ("flaw", "message"),
    [
        ("the measure", "the measure is 0.52, but by counting"),
        ("outside", "interior points should lie inside"),
        ("uniform", "should be uniform"),
        ("a normal", "normals should point outward"),
        ("a size", "the flux is"),
        ("an edge", "normals should point outward"),
        ("none", ""),
    ],
)
def test_a_flaw_is_noticed(flaw: str, message: str) -> None:
    if not message:
        check_domain(Flawed(flaw))
        return
    with pytest.raises(AssertionError, match=message):
        check_domain(Flawed(flaw))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Segment(1, 0), "`lower` should lie below `upper`"),
        (lambda: Box((0, 0), (1, math.inf)), "`lower` should lie below `upper`"),
        (lambda: Rectangle((0, 0, 0), (1, 1, 1)), "A Rectangle has two axes, got 3"),
        (lambda: Rectangle((0, 0), (1, 1), names=("x", "x")), "2 distinct names"),
        (lambda: Disk((0, 0, 0), 1.0), "should have 2 coordinates"),
        (lambda: Disk((0, 0), -1.0), "positive radius"),
        (lambda: Disk((0, 0), 1.0) - Sphere((0, 0, 0), 1.0), "same axes"),
        (lambda: Disk((0, 0), 1.0) & Disk((5, 0), 1.0), "do not overlap"),
        (lambda: (Disk((0, 0), 1.0) & Disk((1.5, 1.5), 1.0)).interior(5), "No point was found"),
        (lambda: Time(1, 1), "should lie before its end"),
        (lambda: Segment(0, 1, names=["t"]) * Time(0, 1), "already has an axis 't'"),
        (lambda: PLATE.boundary(5, "lid"), "Unknown part 'lid' of the boundary; its parts are left, right"),
        (lambda: PLATE.size(["left", "lid"]), "Unknown part 'lid'"),
        (lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), "not form a polygon: Self-intersection"),
        (lambda: Polygon([(0, 0), (1, 1)]), "at least three corners"),
        (lambda: Polygon(CORNERS, edges=["a"]), "should name 6 edges, got 1"),
        (lambda: Polygon([1, 2, 3]), "pairs of numbers"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_shape_is_refused(make: Any, message: str) -> None:
    pytest.importorskip("shapely")
    with pytest.raises(ValueError, match=message):
        make()


LINE: Any = Segment(0, 1)
RIM = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Time(0, 1) * LINE,
            r"spatial shape, pinn\.Segment\(0, 1\) \* pinn\.Time.* got Time \* Segment",
        ),
        (lambda: LINE * Time(0, 1) * Time(0, 2), r"should be a spatial shape.* got TimeSpan \* Time"),
        (lambda: LINE * LINE, r"only be multiplied by time.* got Segment \* Segment.* pinn\.Rectangle"),
        (lambda: LINE * 2, r"only be multiplied by time.* got Segment \* int.* change its ends"),
        (lambda: PointCloud(RIM, {"rim": (RIM, RIM)}) * Time(0, 1), "no surface between its points"),
    ],
)
def test_only_a_shape_in_space_is_multiplied_and_only_with_time(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_clouds_give_their_own_points() -> None:
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    cloud = PointCloud(
        0.5 * rim, {"upper": (rim[:50], 3 * rim[:50]), "lower": (rim[50:], rim[50:])}, measure=3.1
    )
    assert cloud.d == 2 and cloud.measure == 3.1 and cloud.parts == ("upper", "lower")
    own = {tuple(point) for point in (0.5 * rim).tolist()}
    for how in ("even", "random", "quasi"):
        assert {tuple(point) for point in cloud.interior(20, how).tolist()} <= own  # type: ignore[arg-type]
    edge = cloud.boundary(10, "upper")
    assert len(edge) == 10 and torch.allclose(edge.normals, edge.points) and set(edge.parts) == {"upper"}
    assert len(cloud.boundary(1000)) == 100 and bool(torch.isnan(edge.sizes).all())
    for refused in (lambda: cloud.contains(edge.points), cloud.pieces):
        with pytest.raises(TypeError, match="point cloud"):
            refused()
    for wrong, message in [
        (lambda: PointCloud(rim, {}).measure, "measure of a point cloud is unknown"),
        (lambda: PointCloud(rim, {"a": (rim, rim[:5])}), "one normal per point"),
        (lambda: PointCloud(rim, {"a": (rim, 0 * rim)}), "normal of length 0"),
        (lambda: PointCloud(rim[:0], {}), "should be finite points"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("name", ["segment", "disk", "plate in time", "rod in time", "polygon", "lens"])
def test_points_of_any_kind_are_inside_or_not(name: str) -> None:
    if name == "polygon":
        pytest.importorskip("shapely")
    made = SHAPES[name][0]
    shape = made if isinstance(made, Domain) else made()
    x = shape.lower + np.random.default_rng(0).uniform(size=(50, shape.d)) * 1.2 * np.subtract(
        shape.upper, shape.lower
    )
    inside = shape.contains(torch.from_numpy(x))
    assert isinstance(inside, torch.Tensor) and 0 < int(inside.sum()) < 50
    for given in (x, x.tolist()):
        found: Any = shape.contains(given)  # type: ignore[arg-type]
        assert isinstance(found, np.ndarray) and found.tolist() == inside.tolist()
    with pytest.raises(
        ValueError, match=rf"`x` should be points of shape \(n, {shape.d}\), got shape \(3, 7\)"
    ):
        shape.contains(np.zeros((3, 7)))  # type: ignore[arg-type]


CLOUD = PointCloud(np.arange(400.0).reshape(200, 2), {"rim": (RIM[:, :2], RIM[:, :2])})


@pytest.mark.parametrize("shape", [LINE, PLATE, LINE * Time(0, 1), CLOUD], ids=repr)
def test_chance_comes_from_a_generator_or_a_seed(shape: Domain) -> None:
    wanted = shape.uniform(9, torch.Generator().manual_seed(3))
    assert torch.equal(shape.uniform(9, 3), wanted) and torch.equal(shape.uniform(9, seed=3), wanted)
    assert torch.equal(shape.uniform(np.int64(9), np.int64(3)), wanted)  # type: ignore[arg-type]
    for use in (shape.uniform, shape.interior, shape.boundary, shape.quasi):
        with pytest.raises(
            TypeError, match=r"`n` should be an integer number of points, got 1000.0. Write 1000"
        ):
            use(1e3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`n` should be a nonnegative number of points, got -1"):
        shape.uniform(-1)
    with pytest.raises(TypeError, match=r"should be a torch.Generator or a seed, got 0.5"):
        shape.uniform(5, 0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got both"):
        shape.uniform(5, 1, seed=2)


def test_a_cloud_is_said_in_a_line() -> None:
    assert repr(CLOUD) == "PointCloud(200 points inside, rim (3))"
    assert repr(PointCloud(RIM, {})) == "PointCloud(3 points inside, no boundary)"


def test_the_room_is_there() -> None:
    assert pinn.geometry.Disk is Disk and pinn.testing.check_domain is check_domain


def test_shapes_can_be_copied_and_sent() -> None:
    assert PLATE.size() > 0  # its pieces are made
    for again in (copy.deepcopy(PLATE), pickle.loads(pickle.dumps(PLATE))):
        assert again == PLATE and torch.equal(again.boundary(20).points, PLATE.boundary(20).points)


@pytest.mark.parametrize("name", ["plate with two holes", "lens", "two balls", "L"])
def test_depth_is_positive_inside_and_nowhere_else(name: str) -> None:
    shape: Any = SHAPES[name][0]
    spread = [b - a for a, b in zip(shape.lower, shape.upper, strict=True)]
    x = torch.rand(2000, len(spread), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = torch.tensor(shape.lower) + x * torch.tensor(spread)
    whole = shape | Disk((9.0, 9.0), 0.1) if len(spread) == 2 else shape
    assert torch.equal(whole.depth(x).flatten() > 0, torch.as_tensor(shape.contains(x)))
