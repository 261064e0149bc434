"""Equations as people write them: each residual is what its docstring says, and says so where it is not."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from torch import Tensor

import guardband as gb
from equations import ALL, Cylinder, Heat, Kovasznay, TwoSpecies
from guardband import pinn
from guardband.pinn.misses.mean_squares import MeanSquares
from guardband.pinn.misses.points import conditions_of, fixed_points
from guardband.pinn.problems import AutogradField, Field, Problem
from guardband.pinn.problems.catalogue.navier_stokes import navier_stokes
from guardband.pinn.problems.measured import measured, tensors_of

QUICK = pinn.Recipe(steps=20, finish=0, n_boundary=64)
FLOW = """u * u_x + v * u_y + p_x - {0} * (u_xx + u_yy) = 0
u * v_x + v * v_y + p_y - {0} * (v_xx + v_yy) = 0
u_x + v_y = 0"""
CATALOGUE = {
    pinn.problems.Advection1D(): "u_t + speed * u_x = 0",
    pinn.problems.AllenCahn1D(): "u_t - diffusion * u_xx = reaction * (u - u**3)",
    pinn.problems.AllenCahn2D(): (
        "diffusion * (u_xx + u_yy) + u * (u**2 - 1) = s * (s**2 - 1) - 2 * pi**2 * diffusion * s"
    ),
    pinn.problems.Beam(load=0.7): "u_xxxx = load",
    pinn.problems.Burgers1D(viscosity=0.3): "u_t + u * u_x = viscosity * u_xx",
    pinn.problems.Cavity(): FLOW.format("1 / reynolds"),
    pinn.problems.Cylinder(viscosity=0.1): FLOW.format("viscosity"),
    pinn.problems.DampedOscillator(): "u_tt + 2 * damping * frequency * u_t + frequency**2 * u = 0",
    pinn.problems.Heat1D(): "u_t = diffusivity * u_xx",
    pinn.problems.HeatDisk(): "u_t = diffusivity * (u_xx + u_yy)",
    pinn.problems.Helmholtz3D(
        wavenumber=2.0
    ): "u_xx + u_yy + u_zz + wavenumber**2 * u - (wavenumber**2 - 3 * pi**2) * s = 0",
    pinn.problems.KortewegDeVries(dispersion=0.3): "u_t + u * u_x + dispersion**2 * u_xxx = 0",
    pinn.problems.Kovasznay(): FLOW.format("1 / reynolds"),
    pinn.problems.KuramotoSivashinsky(
        damping=0.1
    ): "u_t + steepening * u * u_x + growth * u_xx + damping * u_xxxx = 0",
    pinn.problems.LotkaVolterra(): (
        "prey_t = birth * prey - hunting * prey * hunter\nhunter_t = feeding * prey * hunter - death * hunter"
    ),
    pinn.problems.PlateWithHole(): (
        "(u_xx + poisson * v_xy) / (1 - poisson**2) + (u_yy + v_xy) / (2 + 2 * poisson) = 0\n"
        "(v_yy + poisson * u_xy) / (1 - poisson**2) + (v_xx + u_xy) / (2 + 2 * poisson) = 0"
    ),
    pinn.problems.Poisson1D(): "u_xx + pi**2 * sin(pi * x) = 0",
    pinn.problems.PoissonLShape(load=0.7): "u_xx + u_yy = -load",
    pinn.problems.ReactionDiffusion1D(): "u_t = diffusion * u_xx + growth * u * (1 - u)",
    pinn.problems.TaylorGreen2D(viscosity=0.1): FLOW.format("viscosity")
    .replace("u * u_x", "u_t + u * u_x")
    .replace("u * v_x", "v_t + u * v_x"),
    pinn.problems.VibratingBeam(): "u_tt + stiffness**2 * u_xxxx = 0",
    pinn.problems.Wave1D(): "u_tt = speed**2 * u_xx",
}
"""What each equation of the catalogue is; forcing is made of the solution s, a product of sines."""

EVERY = [*ALL, *CATALOGUE]
every_equation = pytest.mark.parametrize("problem", EVERY, ids=lambda p: type(p).__name__)


def random_fields(problem: Problem, seed: int) -> list[sympy.Expr]:
    """A smooth random function of the axes for each output, none of whose terms is small."""
    dice = np.random.default_rng(seed)
    axes = [sympy.Symbol(name) for name in problem.names.axes]
    found = []
    for _ in problem.names.outputs:
        waves = [
            sum(float(dice.uniform(0.5, 1.5)) * axis for axis in axes) + float(dice.normal()) for _ in "123"
        ]
        found.append(sympy.sin(waves[0]) + sympy.exp(0.3 * sympy.cos(waves[1])) + 0.2 * waves[2] ** 2)
    return found


def said(problem: Problem, fields: list[sympy.Expr]) -> list[sympy.Expr]:
    """The equations of the docstring, with fields in place of the outputs."""
    lines = CATALOGUE.get(problem) or inspect.getdoc(type(problem)) or ""
    axes = {name: sympy.Symbol(name) for name in problem.names.axes}
    known: dict[str, Any] = {**axes, "pi": sympy.pi, "sin": sympy.sin, **vars(problem)}
    known["s"] = sympy.Mul(*(sympy.sin(sympy.pi * axis) for axis in axes.values()))
    for name, field in zip(problem.names.outputs, fields, strict=True):
        known[name] = field
        for word in re.findall(rf"\b{name}_([{''.join(axes)}]+)\b", lines):
            known[f"{name}_{word}"] = sympy.diff(field, *(axes[letter] for letter in word))
    found = []
    for line in lines.strip().splitlines():
        left, _, right = line.partition("=")
        found.append(eval(left, {}, known) - eval(right, {}, known))
    return found


def numbers(problem: Problem, expressions: list[sympy.Expr], x: Tensor) -> Tensor:
    axes = [sympy.Symbol(name) for name in problem.names.axes]
    columns = [sympy.lambdify(axes, expression, "numpy")(*x.T.numpy()) for expression in expressions]
    return torch.stack(
        [torch.from_numpy(np.broadcast_to(column, len(x)).copy()) for column in columns], dim=1
    )


def as_torch(problem: Problem, fields: list[sympy.Expr]) -> Callable[[Tensor], Tensor]:
    words = {"sin": torch.sin, "cos": torch.cos, "exp": torch.exp}
    axes = [sympy.Symbol(name) for name in problem.names.axes]
    made = [sympy.lambdify(axes, field, [words, "math"]) for field in fields]
    return lambda x: torch.stack([one(*x.unbind(1)) for one in made], dim=1)


@cache
def wanted(problem: Problem, seed: int) -> tuple[Tensor, Callable[[Tensor], Tensor], Tensor]:
    """Points, fields, and what the equations leave of them."""
    fields = random_fields(problem, seed)
    x = problem.domain.interior(50, seed=seed)
    return x, as_torch(problem, fields), numbers(problem, said(problem, fields), x)


def gap(problem: Problem, residual: Callable[..., Any], seed: int) -> float:
    """How far a residual is from what the docstring says, relative, the worst of its equations."""
    x, fields, exact = wanted(problem, seed)
    found = residual(x, problem.field(fields, x))
    found = torch.cat(list(found.values()), dim=1) if isinstance(found, dict) else torch.as_tensor(found)
    off = (found.detach().expand_as(exact) - exact).abs().amax(0)
    return float((off / exact.abs().amax(0)).max())


@every_equation
def test_each_residual_is_what_its_docstring_says(problem: Problem) -> None:
    for seed in range(3):
        assert gap(problem, problem.residual, seed) < 1e-10


def mutants(problem: Problem) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The residual with one sign turned, or one term forgotten."""
    function = type(problem).residual
    if "navier_stokes" in function.__code__.co_names:
        for name, mutant in _mutants(navier_stokes):
            scope = {**function.__globals__, "navier_stokes": mutant}
            yield name, FunctionType(function.__code__, scope).__get__(problem)
    for name, mutant in _mutants(function):
        yield name, mutant.__get__(problem)


def _mutants(function: Any) -> Iterator[tuple[str, Any]]:
    source = textwrap.dedent(inspect.getsource(function))
    spots = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.BinOp) and _is_sum(node)]
    for number in range(len(spots)):
        for kind in ("sign", "left", "right"):
            tree = ast.parse(source)
            node = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and _is_sum(n)][number]
            _mutate(tree, node, kind)
            scope = dict(function.__globals__)
            exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), scope)
            yield f"{kind} {number}", scope[function.__name__]


def _is_sum(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Add | ast.Sub)


def _mutate(tree: ast.AST, node: ast.BinOp, kind: str) -> None:
    if kind == "sign":
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return
    kept = node.left if kind == "left" else node.right
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, kept)
            elif isinstance(value, list) and node in value:
                value[value.index(node)] = kept


@every_equation
def test_a_wrong_sign_and_a_forgotten_term_are_caught(problem: Problem) -> None:
    planted = list(mutants(problem))
    assert len(planted) >= 3
    for name, residual in planted:
        assert gap(problem, residual, 0) > 1e-6, name


@pytest.mark.parametrize("problem", ALL, ids=lambda p: type(p).__name__)
def test_they_obey_the_laws_of_problems(problem: Problem) -> None:
    pinn.testing.check_problem(problem)


def test_the_laplacian_and_the_walls_leave_time_alone() -> None:
    heat = Heat()
    x = heat.domain.interior(200)
    assert float(heat.residual(x, heat.field(heat.solution, x)).detach().abs().max()) < 1e-13
    walls = pinn.Dirichlet(0.0).points(heat.domain, 100)
    assert set(walls.parts) == {"left", "right"} and set(walls.points[:, 0].tolist()) == {0.0, 1.0}


# Names, and what is said where one is missing.


def test_outputs_are_fields_by_name_and_by_number() -> None:
    problem, x = Kovasznay(), Kovasznay().domain.interior(30)
    w = problem.field(problem.solution, x)
    assert torch.equal(w["p"].value, w[2].value) and torch.equal(w["p"].value, w[-1].value)
    assert torch.equal(w["v", "u"].value, w.value[:, [1, 0]]) and w["v", "u"].names.outputs == ("v", "u")
    assert torch.equal(w["v"].d("y"), w.d(1)[:, 1:2]) and w["u", "v"].grad.shape == (30, 2, 2)
    assert float(w["u", "v"].divergence.detach().abs().max()) < 1e-12
    assert torch.equal(w["u", "v"]["v"].laplacian, w.laplacian[:, 1:2])


@pytest.mark.parametrize(
    ("ask", "cure"),
    [
        (
            lambda w: w["q"],
            r"Unknown output 'q'. The outputs are u, v, p.*outputs = \('u', 'v', 'p', 'q'\)",
        ),
        (lambda w: w[3], "Unknown output 3"),
        (lambda w: w.d("z"), "Unknown axis 'z'. The axes are x, y, or 0 to 1"),
        (lambda w: w.d(2), "Unknown axis 2"),
        (lambda w: w.divergence, r"one output for each of the axes x, y, got 3 \(u, v, p\)"),
        (lambda w: w.outward, "Interior points have no normal"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_are(ask: Any, cure: str) -> None:
    problem = Kovasznay()
    with pytest.raises(ValueError, match=cure):
        ask(problem.field(problem.solution, problem.domain.interior(3)))


@dataclass(frozen=True)
class Pair(Problem):
    """A system that forgot to say how many outputs it has."""

    domain = pinn.Time(0, 1)

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        return {"u": w["u"].d("t") - w["v"].value, "v": w["v"].d("t") + w["u"].value}


def test_a_system_without_outputs_is_told_how_to_say_them() -> None:
    with pytest.raises(ValueError, match=r"Unknown output 'v'. The outputs are u.*outputs = \('u', 'v'\)"):
        pinn.fit(Pair(), pinn.mlp(Pair(), [4]), recipe=QUICK, progress=False)
    with pytest.raises(ValueError, match=r"1 outputs \(u\), the network 1 and 2.*outputs = \('u0', 'u1'\)"):
        pinn.fit(Pair(), pinn.mlp(1, [4], outputs=2), recipe=QUICK, progress=False)
    for wrong in (("u", "u"), (), "uv"):
        strange = type("Strange", (Pair,), {"outputs": wrong})()
        with pytest.raises(ValueError, match="`outputs` should be distinct names"):
            pinn.mlp(strange)
    with pytest.raises(ValueError, match="only a time axis"):
        pinn.Dirichlet(0.0).points(Pair.domain, 5)
    with pytest.raises(ValueError, match="needs a time axis"):
        pinn.Initial(0.0).points(pinn.Segment(0, 1), 5)
    with pytest.raises(ValueError, match="This field has no spatial axis"):
        assert Pair().field(torch.sin, torch.zeros(2, 1)).laplacian is None


# Conditions.


def test_conditions_hold_where_a_function_says() -> None:
    ring = pinn.Disk((0, 0), 2.0, name="outside") - pinn.Disk((0, 0), 1.0, name="inside")
    upper = pinn.Dirichlet(1.0, on=lambda x: x[:, 1] > 0)
    for generator in (None, torch.Generator().manual_seed(1)):
        edge = upper.points(ring, 60, generator)
        assert bool((edge.points[:, 1] > 0).all()) and 30 <= len(edge) <= 130
        assert set(edge.parts) == {"outside", "inside"}
    with pytest.raises(ValueError, match="selects too small a part of the boundary"):
        pinn.Dirichlet(1.0, on=lambda x: x[:, 1] > 5).points(ring, 10)
    with pytest.raises(ValueError, match="Unknown part 'rim' of the boundary; its parts are outside, inside"):
        pinn.Dirichlet(1.0, on="rim").points(ring, 10)


def test_robin_and_neumann_take_the_outward_normal_of_any_shape() -> None:
    ring = pinn.Disk((0, 0), 2.0, name="outside") - pinn.Disk((0, 0), 1.0, name="inside")

    def log(x: Tensor) -> Tensor:
        return x.norm(dim=1, keepdim=True).log()

    for part, slope, value in (("outside", 0.5, np.log(2.0)), ("inside", -1.0, 0.0)):
        edge = pinn.Neumann(slope, on=part).points(ring, 40)
        u = AutogradField(log, edge.points, normals=edge.normals)
        assert float(pinn.Neumann(slope, on=part).residual(edge.points, u).detach().abs().max()) < 1e-12
        robin = pinn.Robin(factor=3.0, value=slope + 3 * value, on=part)
        assert float(robin.residual(edge.points, u).detach().abs().max()) < 1e-12


def test_periodic_ends_meet_in_pairs() -> None:
    strip = pinn.Rectangle((0, 0), (2, 1)) - pinn.Disk((1, 0.5), 0.2, name="hole")
    around = pinn.Periodic("x")
    for domain in (strip, strip * pinn.Time(0, 1), pinn.Segment(0, 2)):
        for generator in (None, torch.Generator().manual_seed(0)):
            edge = around.points(domain, 40, generator)
            low, high = edge.points[::2], edge.points[1::2]
            assert bool((low[:, 0] == 0).all() and (high[:, 0] == 2).all()) and torch.equal(
                low[:, 1:], high[:, 1:]
            )
            for function, size in (
                (lambda x: torch.sin(torch.pi * x[:, :1]), 1e-12),
                (lambda x: x[:, :1] ** 2, 8.0),
            ):
                miss = around.residual(edge.points, AutogradField(function, edge.points)).detach().abs().max()
                assert float(miss) == pytest.approx(size, rel=1) if size < 1 else float(miss) == 4.0
    with pytest.raises(ValueError, match="two opposite faces along this axis"):
        around.points(pinn.Disk((0, 0), 1.0), 10)
    with pytest.raises(ValueError, match="Unknown axis 'z'"):
        pinn.Periodic("z").points(strip, 10)


def test_a_periodic_network_has_nothing_to_learn_at_the_ends() -> None:
    problem = TwoSpecies()
    net = pinn.mlp(problem, [8, 8], periodic="x", fourier=(6, 1.0)).double()
    assert [type(c).__name__ for c in conditions_of(problem, net)] == ["Initial", "Initial"]
    assert len(conditions_of(problem, pinn.mlp(problem, [8]))) == 3
    edge = pinn.Periodic("x").points(problem.domain, 40)
    u = problem.field(net, edge.points)
    assert float(pinn.Periodic("x").residual(edge.points, u).detach().abs().max()) < 1e-12
    for wrong in ("z", 2):
        with pytest.raises(ValueError, match="Unknown axis"):
            pinn.mlp(problem, periodic=wrong)
    with pytest.raises(ValueError, match="the number of waves and their spread"):
        pinn.mlp(problem, fourier=(0, 1.0))


def test_a_point_has_its_value_and_points_their_shape() -> None:
    square = pinn.Rectangle((0, 0), (1, 1))
    assert pinn.PointValue([[0, 0], [1, 1]], 2.0).points(square, 9).points.tolist() == [[0, 0], [1, 1]]
    for wrong in ((0.0, 0.0, 0.0), [[0.0], [1.0]], 1.0):
        with pytest.raises(ValueError, match=r"should be points of shape \(n, 2\)"):
            pinn.PointValue(wrong, 0.0).points(square, 9)


# Hard constraints.

SHAPES: dict[str, Any] = {
    "square": pinn.Rectangle((0, 0), (2, 1)),
    "cube": pinn.Box((0, 0, 0), (1, 2, 1)),
    "disk": pinn.Disk((1, 1), 0.5, name="left"),
    "ball": pinn.Sphere((0, 0, 0), 2.0, name="left"),
    "plate with two holes": pinn.Rectangle((0, 0), (2, 1))
    - pinn.Disk((0.5, 0.5), 0.2, name="hole")
    - pinn.Rectangle((1.2, 0.3), (1.5, 0.6), name="slot"),
    "an L of two": pinn.Rectangle((0, 0), (2, 1), name="left") | pinn.Rectangle((0, 1), (1, 2)),
    "lens": pinn.Disk((0, 0), 1.0, name="left") & pinn.Disk((1, 0), 1.0, name="right"),
    "keyhole": pinn.Disk((0, 0), 1.0, name="left") | pinn.Rectangle((0, -0.3), (2, 0.3)),
    "polygon": pinn.Polygon(
        [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)],
        edges=["bottom", "right", "top", "right", "top", "left"],
        holes={"hole": [(0.2, 0.2), (0.5, 0.2), (0.4, 0.6)]},
    ),
    "ring of two and a hole in it": (
        pinn.Disk((0, 0), 1.0, name="left") | pinn.Rectangle((0, -0.3), (2, 0.3), name="right")
    )
    - (pinn.Disk((0.2, 0), 0.2, name="hole") & pinn.Rectangle((0, -1), (1, 1), name="slot")),
    "a disk and a polygon that it touches": pinn.Disk((0, 0), 1.0, name="left")
    | pinn.Polygon(
        [(0, -0.5), (3, -0.5), (3, 0.5), (0, 0.5), (0, -0.5)], edges=["bottom", "right", "top", "inner"]
    ),
    "polygon without a disk": pinn.Polygon([(0, 0), (2, 0), (0, 2)], edges=["bottom", "slope", "left"])
    - pinn.Disk((0.5, 0.5), 0.2, name="hole"),
    "ring in time": (pinn.Disk((0, 0), 2.0, name="left") - pinn.Disk((0, 0), 1.0, name="hole"))
    * pinn.Time(0, 3),
    "time": pinn.Time(1, 4),
}


@pytest.mark.slow("plate with two holes", "ring of two and a hole in it")
@pytest.mark.parametrize("name", SHAPES)
def test_a_smooth_distance_is_zero_on_its_parts_and_nowhere_else(name: str) -> None:
    domain = SHAPES[name]
    inside = domain.interior(400)
    for part in domain.parts:
        on = domain.boundary(100, part)
        off = [domain.boundary(100, other).points for other in domain.parts if other != part]
        assert float(domain.smooth_distance(on.points, (part,)).abs().max()) < 1e-9, part
        assert float(domain.smooth_distance(inside, (part,)).min()) > 0
        for points in off:  # corners apart
            assert float((domain.smooth_distance(points, (part,)) > 1e-9).double().mean()) > 0.95, part
        x = inside[:50].clone().requires_grad_()
        (slope,) = torch.autograd.grad(domain.smooth_distance(x, (part,)).sum(), x)
        assert bool(slope.isfinite().all())


@dataclass(frozen=True)
class Hot(Problem):
    """A field on a plate with a hole: three outputs with values, one part that is insulated."""

    domain = SHAPES["plate with two holes"] * pinn.Time(0, 2)
    outputs = ("a", "b", "c")

    def residual(self, x: Tensor, w: Field) -> Tensor:
        return w.d("t") - w.laplacian

    def conditions(self) -> list[Any]:
        return [
            pinn.Dirichlet((1.0, 2.0), on=("left", "hole"), output=("a", "b")),
            pinn.Dirichlet(lambda x: x[:, 1:2] ** 2, on="right", output="a"),
            pinn.Neumann(0.0, on=("top", "bottom")),
            pinn.Initial(lambda x: torch.cos(x[:, :1]), velocity=3.0, output=("b", "c")),
            pinn.Dirichlet(5.0, on="slot", output="c"),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hard_conditions_are_met_by_any_network(dtype: torch.dtype) -> None:
    problem = Hot()
    net = pinn.Constrained.of(problem, pinn.mlp(problem, [8, 8])).to(dtype)
    assert net.met == (0, 1, 3, 4)
    assert [type(c).__name__ for c in conditions_of(problem, net)] == ["Neumann"]
    for number in net.met or ():
        condition = problem.conditions()[number]
        edge = condition.points(problem.domain, 200).to(torch.zeros((), dtype=dtype))
        miss = condition.residual(edge.points, problem.field(net, edge.points, edge.normals)).detach().abs()
        assert float(miss.quantile(0.9)) < (1e-8 if dtype == torch.float64 else 1e-4)  # corners contradict
    fitted = pinn.fit(problem, net, recipe=QUICK, progress=False)
    assert bool(torch.as_tensor(fitted(problem.domain.interior(50).to(dtype))).isfinite().all())


class Held(pinn.problems.Condition):
    """A condition of one's own, about u = 1 on the left, that says how it can be met exactly."""

    on = "left"

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.value - 1

    def exact(self, domain: Any) -> Any:
        return lambda x: torch.ones_like(x[:, :1]), 1


def test_a_condition_of_ones_own_can_be_hard_and_a_periodic_network_inside() -> None:
    conditions = [Held(), pinn.Periodic("y"), pinn.Neumann(0.0, on="right")]
    strip = pinn.Rectangle((0, 0), (2, 1))
    parts = {
        "domain": strip,
        "conditions": lambda self: conditions,
        "residual": lambda self, x, u: u.laplacian,
    }
    problem = type("Strip", (Problem,), parts)()
    net = pinn.Constrained.of(problem, pinn.mlp(problem, [8], periodic="y")).double()
    assert net.met == (0,) and conditions_of(problem, net) == [conditions[2]]
    left = strip.boundary(20, "left").points
    assert torch.equal(net(left), torch.ones(20, 1, dtype=torch.float64))


def test_a_condition_has_a_value_for_each_output_or_one_for_all() -> None:
    problem, edge = Kovasznay(), pinn.Dirichlet(0.0).points(Kovasznay.domain, 8)
    w = problem.field(problem.solution, edge.points, edge.normals)
    for condition in (pinn.Dirichlet((1.0, 0.0)), pinn.Neumann((1.0, 0.0)), pinn.Robin(1.0, (0.0, 1.0))):
        with pytest.raises(ValueError, match="outputs u, v, p should have one value, or 3, got 2"):
            condition.residual(edge.points, w)
    assert pinn.Dirichlet((1.0, 0.0), output=("u", "v")).residual(edge.points, w).shape == (8, 2)


def test_shapes_without_a_smooth_distance_say_so() -> None:
    rim = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    for domain in (pinn.PointCloud(0.5 * rim, {"rim": (rim, rim)}),):
        problem = type("Own", (Heat,), {"domain": domain, "conditions": lambda self: [pinn.Dirichlet(0.0)]})()
        with pytest.raises(TypeError, match="has no smooth distance to its boundary"):
            pinn.Constrained.of(problem, pinn.mlp(problem, [4]))
    free = type("Free", (Heat,), {"conditions": lambda self: [pinn.Neumann(0.0)]})()
    with pytest.raises(ValueError, match="no condition that can be satisfied exactly"):
        pinn.Constrained.of(free, pinn.mlp(free, [4]))


def test_hard_conditions_whose_values_have_no_slopes_are_refused() -> None:
    problem = Heat()

    def by_numpy(x: Tensor) -> Any:
        return np.sin(x.detach().numpy()[:, :1])

    def starting(value: Any) -> pinn.Problem:
        return type("Own", (Heat,), {"conditions": lambda self: [pinn.Initial(value)]})()

    for value in (lambda x: 3.0, lambda x: torch.sin(x[:, :1])):
        pinn.Constrained.of(starting(value), pinn.mlp(problem, [4]))
    with pytest.raises(ValueError, match="The value of Initial varies but torch cannot differentiate it"):
        pinn.Constrained.of(starting(by_numpy), pinn.mlp(problem, [4]))


# What is measured.


def test_velocity_here_and_pressure_there() -> None:
    problem = Kovasznay()
    x = problem.domain.interior(50, seed=3)
    w = problem.solution(x)
    velocity = gb.Observations(x[:30], w[:30, :2], outputs=("u", "v"))
    pressure = gb.Observations(x[30:], w[30:, 2:], outputs="p")
    data = measured(problem, [velocity, pressure])
    assert data is not None and data.y.shape == (50, 3) and int(np.isnan(data.y).sum()) == 30 + 40
    net = pinn.mlp(problem, [8, 8]).double()
    points = fixed_points(problem, net, tensors_of(problem, data, net), 32, 16, torch.Generator())
    squares = MeanSquares(problem, net, points)(points)
    off = (net(x) - w).detach().square()
    wanted = (off[:30, :2].sum() + off[30:, 2:].sum()) / 50
    assert float(squares[0].detach()) == pytest.approx(float(wanted), rel=1e-10)
    squares[0].backward()
    assert all(bool(p.grad.isfinite().all()) for p in net.parameters() if p.grad is not None)
    fitted = pinn.fit(problem, net, [velocity, pressure], recipe=QUICK, progress=False)
    assert bool(torch.as_tensor(fitted(x)).isfinite().all()) and len(fitted.training_data) == 50  # type: ignore


@pytest.mark.parametrize(
    ("y", "outputs", "cure"),
    [
        (np.zeros((5, 2)), ("u", "q"), "the outputs are u, v, p"),
        (np.zeros((5, 2)), None, "Name those measured"),
    ],
)
def test_what_was_not_asked_cannot_have_been_measured(y: np.ndarray, outputs: Any, cure: str) -> None:
    problem, x = Kovasznay(), np.zeros((5, 2))
    good = gb.Observations(x, np.zeros((5, 1)), outputs="p")
    with pytest.raises(ValueError, match=cure):
        pinn.fit(
            problem, pinn.mlp(problem, [4]), [gb.Observations(x, y, outputs=outputs), good], recipe=QUICK
        )
    with pytest.raises(ValueError, match="`outputs` should name the 2 columns of y"):
        gb.Observations(x, np.zeros((5, 2)), outputs=("u",))


def test_the_flow_around_a_cylinder_is_trained_as_it_is_written() -> None:
    problem = Cylinder()
    assert problem.domain.parts == ("left", "right", "bottom", "top", "cylinder")
    fitted = pinn.fit(problem, pinn.mlp(problem, [16, 16]), recipe=QUICK, progress=False)
    assert fitted([[1.0, 0.2]]).shape == (1, 3)
    assert pinn.mlp(problem).sizes == (2, 24, 24, 24, 3)
    assert pinn.mlp(problem, dropout=0.1).sizes == (2, 64, 64, 64, 3)


# Three outputs on a shape with a hole, by name, through everything.


@dataclass(frozen=True)
class Flow(Kovasznay):
    """The same flow around a hole, on whose rim it is what it would be without."""

    domain = pinn.Rectangle((-0.5, -0.5), (1.0, 1.5)) - pinn.Disk((0.3, 0.5), 0.2, name="hole")


@pytest.fixture(scope="module")
def flow() -> pinn.Fitted:
    problem = Flow()
    x = problem.domain.interior(90, seed=1)
    w = problem.solution(x) + 0.05 * torch.randn(90, 3, generator=torch.Generator().manual_seed(0))
    data = [
        gb.Observations(x[:60], w[:60, :2], outputs=("u", "v")),
        gb.Observations(x[60:], w[60:, 2:], outputs="p"),
    ]
    recipe = pinn.Recipe(steps=60, finish=50, n_interior=128, n_boundary=64)
    return pinn.fit(problem, pinn.mlp(problem, [16, 16]), data, recipe=recipe, progress=False)


def held_out(n: int = 60, seed: int = 7) -> tuple[Tensor, Tensor]:
    problem = Flow()
    x = problem.domain.interior(n, seed=seed)
    return x, problem.solution(x) + 0.05 * torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


PREDICTORS: dict[str, Callable[[pinn.Fitted], Any]] = {
    "the network": lambda fitted: fitted,
    "LastLayerLaplace": pinn.predictors.LastLayerLaplace,
    "Distance": gb.predictors.Distance,
    "Ensemble": lambda fitted: gb.predictors.Ensemble([fitted, pinn.mlp(Flow(), [8])]),
}


@pytest.mark.parametrize("outputs", [None, ("v", "u"), "p"])
@pytest.mark.parametrize("name", PREDICTORS)
def test_bands_know_the_names_of_axes_and_outputs(
    name: str, outputs: Any, flow: pinn.Fitted, tmp_path: Any
) -> None:
    x, y = held_out()
    which = Flow().names.positions(("u", "v", "p") if outputs is None else outputs)
    words = tuple(("u", "v", "p")[j] for j in which)
    predictor = PREDICTORS[name](flow)
    made = gb.calibrate(predictor, x, y[:, list(which)], outputs=outputs)
    assert made.field_names is not None and made.field_names.outputs == words
    said = "" if outputs is None else f"It is about {' and '.join(words)}; nothing is promised about "
    assert (said in made.promise) and ("nothing is promised" in made.promise) == (outputs is not None)
    new, truth = held_out(200, 9)
    band = made(new, level=0.9)
    table = band.to_pandas()
    ends = [
        f"{end}_{word}" if len(words) > 1 else end for end in ("mean", "lower", "upper") for word in words
    ]
    assert list(table.columns) == ["x", "y", *ends]
    if len(words) > 1:
        assert band.to_xarray().output.values.tolist() == list(words)
    found = gb.evaluate(made, new, truth[:, list(which)], levels=[0.9])
    assert found.consistent and (len(words) == 1 or f"units: {next(iter(words))} " in str(found))
    if len(words) > 1:
        each = gb.calibrate(predictor, x, y[:, list(which)], outputs=outputs, score=gb.Absolute(joint=False))
        rows = gb.evaluate(each, new, truth[:, list(which)], levels=[0.9]).rows
        assert [row.name.rpartition(", ")[2] for row in rows[: len(words)]] == list(words)
    loaded = gb.load(gb.save(made, tmp_path / "band"))
    again = loaded(new, level=0.9)
    assert again.names == band.names and torch.equal(
        torch.as_tensor(again.lower), torch.as_tensor(band.lower)
    )
    grid = {"y": np.linspace(0.8, 1.2, 4), "x": np.linspace(0, 1, 5)}
    field = gb.band_over(made, grid, levels=0.9)
    assert list(field.axes) == ["x", "y"] and field.names == (words if len(words) > 1 else ())
    with pytest.raises(ValueError, match="should contain coordinates for x, y, got x, t"):
        gb.band_over(made, {"x": [0.0], "t": [1.0]})
    with pytest.raises(ValueError, match="should contain coordinates for x, y, got lon, lat"):
        gb.band_over(made, {"lon": [0.0], "lat": [1.0]})


@pytest.mark.slow
def test_local_and_onnx_take_what_was_measured(flow: pinn.Fitted, tmp_path: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    x, y = held_out(150)
    local = gb.calibrate(flow, x, y[:, :2], outputs=("u", "v"), calibrator=gb.Local())
    new, _ = held_out(50, 3)
    assert bool(np.isfinite(np.asarray(local(new, level=0.9).width)).all())
    waves = pinn.fit(
        Flow(),
        pinn.mlp(Flow(), [8, 8], periodic="y", fourier=(3, 1.0)),
        flow.training_data,
        recipe=QUICK,
        progress=False,
    )
    for fitted in (flow, waves):
        made = gb.calibrate(pinn.predictors.LastLayerLaplace(fitted), x, y[:, :2], outputs=("u", "v"))
        path = gb.export_onnx(made, tmp_path / "band.onnx", level=0.9)
        session = onnxruntime.InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        answer = dict(zip(names, session.run(None, {"x": new.numpy().astype(np.float32)}), strict=True))
        assert np.allclose(answer["lower"], np.asarray(made(new, level=0.9).lower), atol=1e-4)
    for wrong, cure in (
        ("q", "Unknown output 'q'"),
        (("u", "u"), "should contain no duplicates"),
        (3, "Unknown output 3"),
    ):
        with pytest.raises(ValueError, match=cure):
            gb.calibrate(flow, x, y[:, :2], outputs=wrong)


def test_networks_with_waves_are_kept_and_checked(tmp_path: Any) -> None:
    problem = TwoSpecies()
    net = pinn.mlp(problem, [8], periodic="x", fourier=(3, 1.5))
    x = problem.domain.uniform(30, torch.Generator().manual_seed(0))
    made = gb.calibrate(net, x, torch.zeros(30, 2))
    assert gb.calibrate(net, x, torch.zeros(30, 1), outputs=0).promise.endswith(
        "nothing is promised about hunter."
    )
    loaded = gb.load(gb.save(made, tmp_path / "band"))
    assert torch.equal(loaded(x, level=0.9).lower, made(x, level=0.9).lower)
    assert loaded.field_names == problem.names and repr(pinn.Disk((0, 0), 1.0)) == "Disk((0.0, 0.0), 1.0)"
    assert pinn.Constrained.of(problem, net).names == problem.names
    with pytest.raises(ValueError, match=r"has 2 outputs \(prey, hunter\), got 3"):
        pinn.mlp(problem, outputs=3)
    with pytest.raises(ValueError, match="`periodic` should be distinct axes from 0 to 1"):
        pinn.mlp(problem, periodic=("x", 0))
    one = gb.Observations(np.zeros((2, 1)), np.zeros(2), outputs="prey")
    two = gb.Observations(np.zeros((2, 2)), np.zeros(2), outputs="prey")
    with pytest.raises(ValueError, match="should have the same coordinates"):
        gb.Observations.together([one, two], problem.names.outputs)
    few = gb.predictors.Outputs(gb.predictors.MeanOnly(net), (1,))
    assert few.training_data is None and few.takes_frames == few.predictor.takes_frames


def test_shapes_that_hold_no_point_say_so() -> None:
    apart = pinn.Disk((0, 0), 1.0) & pinn.Rectangle((0.9, 0.9), (2, 2))
    with pytest.raises(ValueError, match="No point was found"):
        apart.uniform(3)
    with pytest.raises(TypeError, match="has no smooth distance"):
        pinn.PointCloud(np.zeros((2, 2)), {}).depth(torch.zeros(1, 2))
    cloud = pinn.PointCloud(np.arange(6.0).reshape(3, 2), {"rim": (np.ones((2, 2)), np.ones((2, 2)))})
    assert cloud.uniform(9, torch.Generator().manual_seed(0)).shape == (9, 2)


class Bare(gb.Calibrated):
    """A calibration that says no more than it must."""

    @property
    def promise(self) -> str:
        return "nothing"

    def predict(self, x: Any) -> gb.Prediction:
        return gb.Prediction(x, np.zeros((len(x), 1)))

    def band(self, prediction: gb.Prediction, level: Any = 0.95, *, groups: Any = None) -> Any:
        return gb.Band(prediction.x, prediction.mean, prediction.mean - 1, prediction.mean + 1, float(level))


def test_what_is_not_said_has_a_default() -> None:
    bare = Bare()
    assert bare.field_names is None and not (
        bare.covers_new_groups or bare.answers_shift or bare.needs_groups
    )
    assert bare.guarded is None and bare.size(0.9) is None and bare.used == {} and bare.n == 0
    assert bare([[0.0]], 0.9).names is None
