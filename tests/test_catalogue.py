"""The catalogue: every solution solves its equation, and every computed one knows how far it is off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any

import fourier
import numpy as np
import pytest
import torch
import triangles
from torch import Tensor

from guardband import pinn
from guardband.pinn.problems import Problem, Reference, catalogue

EVERY: list[Any] = [*(getattr(catalogue, name)() for name in catalogue.__all__), pinn.problems.Cavity(400)]
COMPUTED = [one for one in EVERY if hasattr(one, "reference")]
CLOSED = [one for one in EVERY if one not in COMPUTED]
ROUGH = {"Cavity", "Cylinder", "PoissonLShape"}
"""Those whose reference is quadratic on triangles: its second derivatives are constant on each."""


def of_each(problems: list[Any]) -> Any:
    return pytest.mark.parametrize("problem", problems, ids=repr)


def points(problem: Problem, n: int = 1000, dtype: torch.dtype = torch.float64) -> Tensor:
    return problem.domain.uniform(n, torch.Generator().manual_seed(1), dtype=dtype)


@of_each(CLOSED)
def test_a_solution_in_closed_form_solves_its_equation_and_meets_its_conditions(problem: Problem) -> None:
    x = points(problem)
    size = float(problem.solution(x).abs().max())
    assert problem.misses(x, problem.field(problem.solution, x)).abs().max() < 1e-8 * size
    for condition in problem.conditions():
        edge = condition.points(problem.domain, 100)
        u = problem.field(problem.solution, edge.points, edge.normals)
        assert condition.residual(edge.points, u).abs().max() < 1e-8 * size
    pinn.testing.check_problem(problem)


@of_each([one for one in COMPUTED if type(one).__name__ not in ROUGH])
def test_a_computed_solution_solves_its_equation_as_well_as_it_can_be_differentiated(problem: Any) -> None:
    x = points(problem)
    x = x[x[:, -1] > 0.05]  # Allen-Cahn starts with a kink
    u = problem.field(problem.solution, x)
    moves = torch.cat([u[name].d("t") for name in problem.outputs], dim=1)
    off, size = (float(part.detach().square().mean().sqrt()) for part in (problem.misses(x, u), moves))
    assert off < 3e-2 * size


@of_each(COMPUTED)
def test_a_computed_solution_meets_its_conditions_within_its_error(problem: Any) -> None:
    for condition in problem.conditions():
        if type(condition).__name__ in ("Periodic", "Outlet"):
            continue
        edge = condition.points(problem.domain, 200)
        names = problem.names
        about = names.outputs if condition.output is None else condition.output
        columns = names.positions(about)
        size = problem.solution(points(problem)).abs().amax(0)[list(columns)]
        bound = torch.tensor([problem.reference.largest[names.outputs[j]] for j in columns]) + 1e-6
        off = condition.residual(edge.points, problem.field(problem.solution, edge.points, edge.normals))
        assert (off.detach().abs().amax(0) <= 2 * bound * size).all(), condition


@of_each([one for one in COMPUTED if "x" in one.names.axes and one.names.axes[-1] == "t"])
def test_a_computed_solution_on_a_ring_is_the_same_at_both_ends(problem: Any) -> None:
    t = torch.linspace(0, problem.domain.upper[1], 50, dtype=torch.float64)
    ends = [
        problem.solution(torch.stack([torch.full_like(t, at), t], dim=1))
        for at in (problem.domain.lower[0], problem.domain.upper[0])
    ]
    assert (ends[0] - ends[1]).abs().max() < 1e-4


@of_each(COMPUTED)
def test_the_error_of_a_reference_is_small_stated_and_in_a_small_file(problem: Any) -> None:
    reference = problem.reference
    assert list(reference.error) == list(problem.outputs) == list(reference.largest)
    bound = 1e-3 if type(problem).__name__ in ("Cavity", "Cylinder") else 1e-4
    assert all(0 < error < bound for error in reference.error.values()), reference.error
    assert all(0 < error < 2 * bound for error in reference.largest.values()), reference.largest
    kept = files("guardband.pinn.problems.catalogue").joinpath("data", f"{reference.name}.npz")
    assert len(kept.read_bytes()) <= 200_000


def test_what_is_known_beside_the_equations_holds() -> None:
    cylinder = pinn.problems.Cylinder.reference.checks
    assert 5.57 < cylinder["drag"] < 5.59 and 0.0104 < cylinder["lift"] < 0.0110
    assert pinn.problems.AllenCahn1D.reference.checks["balance"] < 1e-5
    assert pinn.problems.KortewegDeVries.reference.checks["balance"] < 1e-10
    assert pinn.problems.KuramotoSivashinsky.reference.checks["balance"] < 1e-8
    assert pinn.problems.LotkaVolterra.reference.checks["drift of the invariant"] < 1e-11


@pytest.mark.parametrize("name", ["allen_cahn", "korteweg_de_vries", "kuramoto_sivashinsky"])
def test_a_coarse_computation_lands_on_the_reference(name: str) -> None:
    ring = getattr(fourier, name)()
    waves = fourier.etdrk4(ring, 256, 1000, 500)
    x = ring.left + np.linspace(0, ring.length, 300)
    for time, row in ((ring.end / 2, waves[1]), (ring.end, waves[2])):
        found = fourier.at(ring, row[None], x)[0]
        kept = Reference(name)(torch.from_numpy(np.stack([x, np.full_like(x, time)], axis=1)))[:, 0].numpy()
        assert np.abs(found - kept).max() < 2e-3 * np.abs(kept).max()


@of_each(EVERY)
def test_everything_can_be_observed_in_either_precision(problem: Problem) -> None:
    data = problem.observe(50, noise=0.01, seed=3)
    assert data.y.shape == (50, len(problem.names.outputs)) and bool(torch.isfinite(data.y).all())
    x = points(problem, 200)
    double, single = problem.solution(x), problem.solution(x.float())
    assert double.dtype == torch.float64 and single.dtype == torch.float32
    assert (double - single).abs().max() < 2e-3 * double.abs().max()


@of_each(EVERY)
def test_one_point_none_and_many_give_the_same_values(problem: Problem) -> None:
    x = points(problem, 300)
    whole = problem.solution(x)
    assert problem.solution(x[:0]).shape == (0, whole.shape[1])
    assert torch.allclose(problem.solution(x[7:8]), whole[7:8], rtol=0, atol=1e-12)


@of_each([one for one in COMPUTED if type(one).__name__ in ROUGH])
def test_triangles_are_read_as_they_were_written(problem: Any) -> None:
    kept = np.load(triangles.DATA / f"{problem.reference.name}.npz")
    x = points(problem, 2000)
    parts = (kept["points"].astype(float), kept["triangles"].astype(int), kept["values"].astype(float))
    wanted = triangles.evaluate(*parts, x.numpy())
    found = problem.solution(x).numpy()
    assert np.abs(found - wanted).max() < 1e-9 * np.abs(wanted).max()


def test_threads_read_a_reference_as_one() -> None:
    x = points(pinn.problems.KortewegDeVries(), 500)
    wanted = Reference("korteweg_de_vries")(x)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: Reference("korteweg_de_vries")(x), range(16)))
    assert all(torch.equal(one, wanted) for one in found)


def test_a_reference_can_be_differentiated() -> None:
    t = torch.tensor([[3.0]], dtype=torch.float64)
    w = pinn.problems.LotkaVolterra().field(pinn.problems.LotkaVolterra().solution, t)
    prey, hunter = w.value.detach()[0].tolist()
    rates = w.d("t").detach()[0].tolist()
    assert rates == pytest.approx([2 / 3 * prey - 4 / 3 * prey * hunter, prey * hunter - hunter], rel=1e-5)


@pytest.mark.parametrize(
    "problem",
    [
        pinn.problems.AllenCahn1D(diffusion=1e-3),
        pinn.problems.Cylinder(viscosity=0.01),
        pinn.problems.Cavity(reynolds=1000),
        pinn.problems.LotkaVolterra(birth=1.0),
    ],
)
def test_other_coefficients_have_no_reference(problem: Problem) -> None:
    with pytest.raises(NotImplementedError, match=r"computed for .* got .* define `solution\(self, x\)`"):
        problem.observe(5)


@of_each(COMPUTED)
def test_outside_of_its_domain_a_reference_is_not_a_number(problem: Any) -> None:
    d = problem.domain.d
    far = torch.tensor([[torch.nan] * d, [torch.inf] * d, [1e9] * d, [-3.0] * d], dtype=torch.float64)
    assert bool(torch.isnan(problem.solution(far)).all())
    with pytest.raises(ValueError, match=rf"`x` should have shape \(n, {d}\), got \(3, {d + 1}\)."):
        problem.solution(torch.zeros(3, d + 1))


def test_nothing_is_known_inside_the_cylinder_and_in_the_notch() -> None:
    holes = {pinn.problems.Cylinder(): (0.2, 0.2), pinn.problems.PoissonLShape(): (0.5, -0.5)}
    for problem, place in holes.items():
        assert bool(torch.isnan(problem.solution(torch.tensor([place]))).all())
        rim = problem.domain.boundary(2000).points
        assert bool(torch.isfinite(problem.solution(rim)).all())


def test_stress_at_the_hole_is_three_times_the_tension() -> None:
    plate = pinn.problems.PlateWithHole(tension=2.0, young=7.0)
    edge = torch.tensor([[0.0, 0.2], [0.2, 0.0]], dtype=torch.float64)
    stress = plate.stress(plate.field(plate.solution, edge))
    assert stress["xx"].detach()[0].item() == pytest.approx(6.0)
    assert stress["yy"].detach()[1].item() == pytest.approx(-2.0)
