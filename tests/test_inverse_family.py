"""Families: an equation over ranges of its coefficients, its solvers, and how far they are off."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.pinn.inverse.family import CHUNK, ByNetwork, _path, misses_of
from guardband.pinn.inverse.parametric import ParametricProblem
from guardband.pinn.problems import Field
from guardband.pinn.problems.unknown import with_values

HEAT = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))
RANGED: list[tuple[type[pinn.Problem], dict[str, Any]]] = [
    (pinn.problems.Heat1D, {"diffusivity": (0.02, 0.2)}),
    (pinn.problems.DampedOscillator, {"damping": (0.02, 0.12), "frequency": (5.5, 7.0)}),
    (pinn.problems.DampedOscillator, {"start": (0.5, 2.0), "velocity": (-1.0, 1.0), "damping": (0.02, 0.12)}),
    (pinn.problems.ReactionDiffusion1D, {"diffusion": (0.01, 0.1), "growth": (1.0, 4.0)}),
    (pinn.problems.Kovasznay, {"reynolds": (20.0, 60.0)}),
    (pinn.problems.Burgers1D, {"viscosity": (0.05, 0.1)}),
    (pinn.problems.Wave1D, {"speed": (0.5, 1.0)}),
]


@dataclass(frozen=True)
class Decay(pinn.Problem):
    """u' = -rate u, which has no solution of its own."""

    rate: float = 1.0
    start: float = 1.0
    domain = pinn.Time(0, 2)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") + self.rate * u.value

    def conditions(self) -> list[pinn.Initial]:
        return [pinn.Initial(self.start)]


def solve(x: Any, rate: float) -> Any:
    return np.exp(-rate * np.asarray(x))


@pytest.mark.parametrize(("problem", "ranges"), RANGED)
def test_the_exact_solution_solves_the_problem_over_all_coefficients(
    problem: type[pinn.Problem], ranges: dict[str, Any]
) -> None:
    family = pinn.Family(problem, **ranges)
    ranged, p = family.ranged, len(ranges)

    def solution(x: Tensor) -> Tensor:
        return ranged.at(x).solution(x[:, p:])

    x = ranged.domain.quasi(200, dtype=torch.float64)
    size = float(solution(x).abs().max())
    assert bool(ranged.domain.contains(x).all())
    assert float(ranged.misses(x, ranged.field(solution, x)).detach().abs().max()) < 1e-6 * max(1, size) * 100
    for condition in ranged.conditions():
        for generator in (None, torch.Generator().manual_seed(0)):
            edge = condition.points(ranged.domain, 40, generator)
            assert len(edge) >= 40 or problem is pinn.problems.Kovasznay
            off = condition.residual(edge.points, ranged.field(solution, edge.points, edge.normals))
            assert float(off.detach().abs().max()) < 1e-9 * max(1, size)


def test_the_laplacian_is_over_space_and_time_is_the_last_axis() -> None:
    ranged = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).ranged
    assert ranged.names.axes == ("diffusivity", "x", "t") and ranged.names.space == (0, 1)
    x = ranged.domain.quasi(5, dtype=torch.float64)
    u = ranged.original(ranged.field(lambda x: x[:, :1] ** 3 + x[:, 1:2] ** 2 + x[:, 2:] ** 3, x))
    assert torch.allclose(u.laplacian, torch.full_like(u.laplacian, 2.0))
    assert torch.allclose(u.d("t"), 3 * x[:, 2:] ** 2)
    assert u.names.axes == ("x", "t")


def test_boundaries_of_the_domain_are_those_of_the_shape() -> None:
    domain = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).ranged.domain
    assert domain.parts == ("left", "right", "start", "end") and domain.walls == ("left", "right")
    edge = domain.boundary(50, "left")
    assert bool((edge.points[:, 1] == 0).all()) and bool((edge.normals[:, 0] == 0).all())
    assert domain.measure == pytest.approx(0.18)


def test_pairs_of_periodic_points_share_their_coefficients() -> None:
    ranged = pinn.Family(pinn.problems.Advection1D, speed=(1.0, 3.0)).ranged
    (periodic,) = [c for c in ranged.conditions() if c.together == 2]
    edge = periodic.points(ranged.domain, 20, torch.Generator().manual_seed(0))
    assert bool((edge.points[::2, 0] == edge.points[1::2, 0]).all())
    assert pinn.mlp(ranged).periodic == (1,)


def test_all_solvers_agree() -> None:
    x, theta = pinn.problems.Heat1D().observe(9, dtype=torch.float64).x, [0.05, 0.1]

    def by_numpy(x: Any, diffusivity: float) -> np.ndarray:
        x = np.asarray(x)
        return (np.exp(-diffusivity * np.pi**2 * x[:, 1:]) * np.sin(np.pi * x[:, :1]))[:, 0]

    exact, mine = HEAT.exact()(x, theta), HEAT.solved_by(by_numpy)(x, theta)
    assert isinstance(exact, Tensor) and exact.shape == (2, 9, 1)
    assert torch.allclose(exact, mine, rtol=1e-12)
    single = torch.stack([pinn.problems.Heat1D(diffusivity=c).solution(x) for c in theta])
    assert torch.allclose(exact, single, rtol=1e-12)


@pytest.mark.parametrize(("n", "values"), [(5, 4), (CHUNK // 4 + 1, 9), (CHUNK + 1, 2)])
def test_a_network_is_evaluated_in_batches_of_bounded_size(n: int, values: int) -> None:
    """At most CHUNK rows at once, or all points of one value of the coefficients."""
    net, sizes = torch.nn.Linear(3, 1), []
    net.register_forward_hook(lambda net, inputs, output: sizes.append(len(output)))
    x, theta = np.random.default_rng(0).uniform(size=(n, 2)), np.linspace(0.02, 0.2, values)[:, None]
    found = ByNetwork(net)(HEAT, x, theta)
    assert found.shape == (values, n, 1) and max(sizes) <= max(CHUNK, n)
    weight, bias = (part.detach().double().numpy() for part in (net.weight[0], net.bias))
    assert np.allclose(found[..., 0], theta * weight[0] + x @ weight[1:] + bias, atol=1e-5)


def test_a_solution_that_takes_no_columns_is_asked_value_by_value() -> None:
    @dataclass(frozen=True)
    class Picky(pinn.problems.Heat1D):
        def solution(self, x: Tensor) -> Tensor:
            return float(self.diffusivity) * x[:, :1]

    found = pinn.Family(Picky, diffusivity=(0.0, 1.0)).exact()([[2.0, 0.0]], [0.5, 0.25])
    assert found.ravel().tolist() == [1.0, 0.5]


def test_a_solution_that_takes_columns_is_asked_once() -> None:
    asked = []

    @dataclass(frozen=True)
    class Counted(pinn.problems.Heat1D):
        def solution(self, x: Tensor) -> Tensor:
            asked.append(len(x))
            return self.diffusivity * x[:, :1]

    solved = pinn.Family(Counted, diffusivity=(0.0, 1.0)).exact()
    solved([[2.0, 0.0]], [0.5])
    asked.clear()
    found = solved([[2.0, 0.0]], np.linspace(0, 1, 50))
    assert np.allclose(found.ravel(), np.linspace(0, 2, 50)) and asked == [50]


@pytest.mark.slow
def test_a_network_learns_the_whole_range_and_is_saved() -> None:
    solved = HEAT.fit(recipe=pinn.Recipe.by_newton(60), progress=False)
    x = pinn.problems.Heat1D().observe(30, seed=1, dtype=torch.float64).x
    theta = HEAT.drawn(20, seed=5)
    truth = HEAT.exact()(x, theta)
    assert float((solved(x, theta) - truth).norm() / truth.norm()) < 5e-3
    assert solved.check(x) == pytest.approx(
        1.5
        * max(
            float((solved(x, [c]) - HEAT.exact()(x, [c])).norm())
            for c in np.concatenate([HEAT.drawn(32), HEAT.corners])
        )
    )
    again = gb.load(gb.save(solved, tempfile.mkdtemp() + "/heat"), pinn.SolvedFamily)
    assert bool((again(x, theta) == solved(x, theta)).all()) and again.ranges == solved.ranges
    assert again.family.at(diffusivity=0.1) == pinn.problems.Heat1D(diffusivity=0.1)
    assert max(misses_of(solved).values()) < 0.02


def test_a_family_of_a_problem_of_ones_own_is_saved_without_it(tmp_path: Path) -> None:
    family = pinn.Family(Decay, rate=(0.5, 2.0), start=2.0)
    solved = family.fit(recipe=pinn.Recipe.by_newton(30), progress=False)
    gb.save(solved, tmp_path / "decay")
    again = gb.load(tmp_path / "decay", pinn.SolvedFamily)
    x = np.linspace(0, 2, 5)
    assert (again(x, [1.0]) == solved(x, [1.0])).all()
    assert repr(again.family) == "Family(a user-defined problem, rate from 0.5 to 2)"
    with pytest.raises(ValueError, match="loaded without its problem"):
        again.family.at(rate=1.0)
    whole = gb.load(tmp_path / "decay", pinn.SolvedFamily, problem=Decay(start=2.0))
    assert whole.family.at(rate=1.0) == Decay(rate=1.0, start=2.0)
    with pytest.raises(TypeError, match="its function cannot"):
        gb.save(family.solved_by(solve), tmp_path / "function")


def test_delta_is_told_by_a_solver_by_trainings_and_never_by_residuals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family, x = pinn.Family(Decay, rate=(0.5, 1.0)), np.linspace(0, 2, 9)
    off = family.solved_by(lambda x, rate: solve(x, rate) + 0.1)
    assert off.check(x, solve) == pytest.approx(1.5 * 0.1 * 3)
    monkeypatch.setattr("guardband.pinn.inverse.family.DRAWN", 1)
    recipe = pinn.Recipe.by_newton(15)
    assert off.check(x, recipe=recipe) == pytest.approx(1.5 * 0.1 * 3, rel=0.02)
    early = family.fit(recipe=pinn.Recipe.by_newton(1), progress=False)
    assert list(misses_of(early)) == ["equation", "Initial"]
    with pytest.warns(UserWarning, match="the network misses"):
        assert early.check(x, lambda x, rate: early(x, [rate])[0]) == 0.0


def test_columns_leave_the_problem_as_it_was() -> None:
    problem = pinn.problems.Heat1D()
    column = torch.ones(3, 1)
    assert with_values(problem, {"diffusivity": column}).diffusivity is column  # type: ignore[attr-defined]
    assert problem.diffusivity == 0.4


def test_values_of_conditions_may_be_columns() -> None:
    column = torch.tensor([[1.0], [2.0]])
    x = torch.zeros(2, 1)
    assert pinn.Dirichlet(column).exact(pinn.Segment(0, 1))[0](x).tolist() == column.tolist()  # type: ignore[index]
    both = pinn.Dirichlet((column, 3.0)).exact(pinn.Segment(0, 1))  # type: ignore[arg-type]
    assert both is not None and both[0](x).tolist() == [[1.0, 3.0], [2.0, 3.0]]


def test_what_is_written_wrongly_is_refused_with_the_cure() -> None:
    heat = pinn.problems.Heat1D
    with pytest.raises(TypeError, match="takes a problem class"):
        pinn.Family(heat(), diffusivity=(0.1, 0.2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no coefficient 'conductivity'; it has diffusivity"):
        pinn.Family(heat, conductivity=(0.1, 0.2))
    with pytest.raises(ValueError, match="the lower one first"):
        pinn.Family(heat, diffusivity=(0.2, 0.1))
    with pytest.raises(ValueError, match="should have a range"):
        pinn.Family(heat, diffusivity=0.1)
    with pytest.raises(ValueError, match=r"one value, at\(diffusivity=...\)"):
        HEAT.at()
    with pytest.raises(ValueError, match=r"should lie in its range, 0\.02 to 0\.2"):
        HEAT.at(diffusivity=0.5)
    with pytest.raises(TypeError, match="that solves the problem"):
        HEAT.solved_by(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"should return shape \(2, 1\)"):
        HEAT.solved_by(lambda x, diffusivity: np.zeros((3, 1)))(np.zeros((2, 2)), [0.1])
    with pytest.raises(ValueError, match="should return finite values"):
        HEAT.solved_by(lambda x, diffusivity: x[:, 0] * np.nan)(np.ones((2, 2)), [0.1])
    with pytest.raises(ValueError, match=r"`theta` should have shape \(k, 1\)"):
        HEAT.exact()([[0.0, 0.0]], [[0.1, 0.2]])
    with pytest.raises(ValueError, match=r"`x` should have shape \(n, 2\)"):
        HEAT.exact()([0.0], [0.1])

    @dataclass(frozen=True)
    class Axis(Decay):
        t: float = 1.0

    with pytest.raises(ValueError, match="'t' is already the name of an axis"):
        pinn.Family(Axis, t=(0.5, 1.0))


def test_ranged_is_a_problem_with_names() -> None:
    ranged = HEAT.ranged
    assert isinstance(ranged, ParametricProblem) and ranged.outputs == ("u",)
    fitted = pinn.fit(ranged, pinn.mlp(ranged, [4]), recipe=pinn.Recipe(steps=2, finish=0), progress=False)
    assert list(fitted.terms[-1]) == ["step", "equation", "Dirichlet", "Initial"]


def test_a_check_goes_from_the_middle_to_the_nearest_value_left() -> None:
    unit = np.array([[1.0, 1.0], [0.4, 0.5], [0.0, 0.0], [0.6, 0.8]])
    assert _path(unit) == [1, 3, 0, 2]
