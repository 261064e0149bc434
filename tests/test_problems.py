"""Problems: equations, domains, what is measured of them, and noise models."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from guardband import lab, pinn
from guardband.pinn.misses.points import conditions_of
from guardband.pinn.problems import (
    AllenCahn2D,
    AutogradField,
    Box,
    DampedOscillator,
    Dirichlet,
    Field,
    Helmholtz3D,
    Initial,
    Neumann,
    PointValue,
    Poisson1D,
    Problem,
    Robin,
    noise,
)
from guardband.pinn.problems.base import conditions_in
from guardband.pinn.problems.hard import Hard

PROBLEMS = [
    Poisson1D(),
    AllenCahn2D(),
    AllenCahn2D(diffusion=0.3),
    Helmholtz3D(),
    Helmholtz3D(wavenumber=2.0),
    DampedOscillator(),
    DampedOscillator(damping=0.3, frequency=3.0, start=0.5, velocity=-2.0),
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=repr)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def points(problem: Problem, n: int = 1000) -> Tensor:
    return problem.domain.uniform(n, generator(), dtype=torch.float64)


@every_problem
def test_the_exact_solution_solves_the_equation(problem: Problem) -> None:
    x = points(problem)
    assert problem.misses(x, problem.field(problem.solution, x)).abs().max() < 1e-10


@every_problem
def test_the_exact_solution_meets_the_conditions(problem: Problem) -> None:
    for condition in problem.conditions():
        for edge in (condition.points(problem.domain, 50), condition.points(problem.domain, 50, generator())):
            u = problem.field(problem.solution, edge.points, edge.normals)
            assert condition.residual(edge.points, u).abs().max() < 1e-12


@every_problem
def test_lift_and_bubble_meet_the_conditions_whatever_the_network(problem: Problem) -> None:
    def constrained(x: Tensor) -> Tensor:
        return problem.lift(x) + problem.bubble(x) * torch.exp(x.sum(dim=1, keepdim=True))

    for condition in problem.conditions():
        x = condition.points(problem.domain, 100).points
        assert condition.residual(x, problem.field(constrained, x)).abs().max() < 1e-12
    inside = points(problem) * 0.9 + 0.05 * torch.tensor(problem.domain.center)
    assert (problem.bubble(inside).abs() > 1e-6).float().mean() > 0.95


@every_problem
def test_observations_are_reproducible_noisy_and_inside(problem: Problem) -> None:
    data, again, other = (problem.observe(4000, noise=0.05, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(data.x, again.x) and torch.equal(data.y, again.y)
    assert not torch.equal(data.x, other.x) and data.x.dtype == torch.float32
    off = data.y - problem.solution(data.x)
    assert off.std().item() == pytest.approx(0.05, rel=0.06) and abs(off.mean().item()) < 0.005
    lower, upper = torch.tensor(problem.domain.lower), torch.tensor(problem.domain.upper)
    assert bool(((data.x >= lower) & (data.x <= upper)).all())


def test_the_noise_may_depend_on_x() -> None:
    data = Poisson1D().observe(2000, noise=lambda x: 0.1 * (x > 0.5))
    off = (data.y - Poisson1D().solution(data.x)).abs()
    assert off[data.x < 0.5].max() < 1e-6 and off[data.x > 0.5].max() > 0.2


def test_observing_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    AllenCahn2D().observe(10, noise=1.0)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("problem", "collocation", "boundary"),
    [
        (Poisson1D(), 200, 2),
        (AllenCahn2D(), 1024, 800),
        (Helmholtz3D(), 8000, 6144),
        (DampedOscillator(), 200, 1),
    ],
)
def test_the_papers_settings_place_the_papers_points(
    problem: Problem, collocation: int, boundary: int
) -> None:
    settings = lab.paper.settings(problem)
    assert len(problem.domain.grid(settings.collocation)) == collocation
    (condition,) = problem.conditions()
    assert len(condition.points(problem.domain, settings.boundary)) == boundary


def test_a_box_places_points_evenly_at_random_and_quasi_randomly() -> None:
    box = Box((-1, 0), (1, 10))
    assert (box.d, box.center, box.reach) == (2, (0, 5), (1, 5))
    assert box.grid([3, 2]).tolist() == [[-1, 0], [-1, 10], [0, 0], [0, 10], [1, 0], [1, 10]]
    for x in (box.uniform(1000, generator()), box.quasi(1000), box.grid(30, dtype=torch.float64)):
        assert bool(((x >= torch.tensor(box.lower)) & (x <= torch.tensor(box.upper))).all())
    # 256 quasi-random points put 4 in each of 64 boxes; chance would leave some of them empty.
    cells = ((box.quasi(256) - torch.tensor(box.lower)) / torch.tensor([2.0, 10.0]) * 8).long()
    assert torch.bincount(cells[:, 0] * 8 + cells[:, 1], minlength=64).tolist() == [4] * 64
    with pytest.raises(ValueError, match="`lower` should lie below `upper` on every axis"):
        Box((0, 1), (1, 1))


def test_faces_get_their_share_of_points() -> None:
    box = Box((0, 0), (3, 1))
    x = Dirichlet(lambda x: x[:, :1]).points(box, 80).points
    assert len(x) == 80
    assert [int((x[:, 1] == 0).sum()), int((x[:, 0] == 0).sum())] == [30, 10]
    assert [box.size(part) for part in box.parts] == [1, 1, 3, 3]


def test_flux_and_initial_conditions() -> None:
    def u(x: Tensor) -> Tensor:
        return x[:, :1] ** 2 * (1 + 3 * x[:, 1:])

    rod = pinn.Segment(0, 1) * pinn.Time(0, 2)
    right = Neumann(lambda x: 2 * (1 + 3 * x[:, 1:]), "right")
    left = Neumann(lambda x: torch.zeros_like(x[:, :1]), "left")
    start = Initial(lambda x: x[:, :1] ** 2, lambda x: 3 * x[:, :1] ** 2)
    for condition, part in ((right, "right"), (left, "left"), (start, "start")):
        edge = condition.points(rod, 20, generator())
        x = edge.points
        assert set(edge.parts) == {part} and len(x) == 20
        assert condition.residual(x, AutogradField(u, x, normals=edge.normals)).abs().max() < 1e-12
    assert Initial(lambda x: x[:, :1]).residual(x, AutogradField(u, x)).shape == (20, 1)
    assert start.residual(x, AutogradField(u, x)).shape == (20, 2)


@dataclass(frozen=True)
class Bare(Problem):
    domain = Box((0,), (1,))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.value


def test_what_a_problem_does_not_have_says_how_to_write_it() -> None:
    bare, x = Bare(), torch.zeros(1, 1)
    assert bare.conditions() == []
    with pytest.raises(
        NotImplementedError, match=r"Bare has no known solution. Define the method `solution\(self, x\)`"
    ):
        bare.observe(3)
    for part in (bare.lift, bare.bubble):
        with pytest.raises(
            NotImplementedError, match=r"Bare has no hard constraint\. Define the methods `lift` and `bubble`"
        ):
            part(x)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda u: None, "should return a tensor .* got None. Is a `return` missing"),
        (lambda u: [u.value], r"got a list. Concatenate the equations, torch.cat\(\[...\], dim=1\)"),
        (lambda u: (u.value, u.value), "got a tuple. Concatenate the equations"),
        (lambda u: 0.0, r"Given.residual should return a tensor of shape \(n, equations\).* got 0.0\."),
        (lambda u: u, "got a field. Return the quantity that should vanish, such as u.value"),
        (lambda u: {}, "got an empty dictionary"),
        (lambda u: {"mass": u.value[:, 0]}, r"\(n, 1\) as 'mass', got \(4,\). Keep the column"),
        (lambda u: {"mass": u}, "a tensor .* as 'mass', got a field"),
    ],
)
def test_a_residual_that_is_no_tensor_is_refused(returned: Any, message: str) -> None:
    given = type("Given", (Bare,), {"residual": lambda self, x, u: returned(u)})()
    x = torch.rand(4, 1, generator=generator())
    with pytest.raises((TypeError, ValueError), match=message):
        given.misses(x, given.field(torch.sin, x))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda self: Dirichlet(0.0), r"Own.conditions should return a list.* Return it in a list, \[...\]"),
        (lambda self: None, "should return a list of conditions, got None: a `return` may be missing"),
        ([Dirichlet(0.0)], r"should be a method, `def conditions\(self\): return"),
        (lambda self: [Dirichlet], r"should list conditions, Dirichlet\(...\), got the class itself"),
        (lambda self: [Dirichlet(0.0), 0.0], r"such as pinn\.Dirichlet\(0.0\), got 0.0"),
    ],
)
def test_conditions_should_be_a_list_of_them(given: Any, message: str) -> None:
    problem = type("Own", (Bare,), {"conditions": given})()
    for use in (conditions_in, Hard, lambda p: conditions_of(p, pinn.mlp(1, [4]))):
        with pytest.raises(TypeError, match=message):
            use(problem)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Dirichlet, ["left", 0.0], r"`value` of pinn\.Dirichlet\(value, on=..., output=...\).* got 'left'"),
        (Dirichlet, ["20"], "a number, a number for each output, or a function of x, got '20'"),
        (Dirichlet, [None], "got None"),
        (Dirichlet, [torch.nn.Tanh], "got <class"),
        (Neumann, [("a", "b")], r"`flux` of pinn\.Neumann\(flux, on=..., output=...\)"),
        (Robin, ["right", 3.0, 1.0], r"`factor` of pinn\.Robin\(factor, value, on=..., output=...\)"),
        (Initial, [1.0, "t"], r"`velocity` of pinn\.Initial\(value, velocity, output=...\)"),
        (PointValue, [0.0, "p"], r"`value` of pinn\.PointValue\(at, value, output=...\)"),
        (Dirichlet, [float("nan")], "`value` of .* should be finite, got nan"),
        (Robin, [1.0, (0.0, float("inf"))], "`value` of .* should be finite"),
        (Robin, [1.0, 2.0, 3.0], "`on` should name parts of the boundary.* got 3.0. Omit `on`"),
        *((Dirichlet, [0.0, on], "Omit `on`") for on in ([], (), "", set(), 0, [0], [""])),
    ],
)
def test_what_is_no_value_or_no_part_is_refused(kind: Any, given: list[Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kind(*given)


def test_no_part_is_the_whole_boundary_and_a_function_chooses_booleans() -> None:
    square = Box((0, 0), (1, 1))
    assert len(Dirichlet(0.0, on=None).points(square, 40)) == len(Dirichlet(0.0).points(square, 40)) == 40
    assert len(square.boundary(40, None)) == 40
    chosen = Dirichlet(0.0, on=lambda x: x.numpy()[:, :1] > 0.5).points(square, 40).points  # type: ignore
    assert bool((chosen[:, 0] > 0.5).all())
    with pytest.raises(
        ValueError, match=r"returned \(40, 2\) of torch.bool for 40 points. It should map points"
    ):
        Dirichlet(0.0, on=lambda x: x > 0.5).points(square, 40)
    with pytest.raises(TypeError, match="name parts of the boundary here, got a function"):
        square.boundary(40, lambda x: x[:, 0] > 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Omit `on`"):
        square.size([])


@pytest.mark.parametrize(
    "value",
    [
        lambda x: 2.0,
        lambda x: torch.tensor(2.0),
        lambda x: np.full((len(x), 1), 2.0),
        2,
        np.float64(2.0),
        np.array([2.0]),
        torch.tensor([2.0]),
    ],
)
def test_values_may_be_numbers_and_numpy_however_they_are_given(value: Any) -> None:
    x = torch.rand(4, 1, generator=generator())
    miss = Dirichlet(value).residual(x, AutogradField(lambda x: 3 * x, x))
    assert miss.dtype == torch.float32 and torch.allclose(miss, 3 * x - 2)
    exact = Dirichlet(value, on="left").exact(Bare.domain)
    assert exact is not None and torch.equal(exact[0](x), torch.full((4, 1), 2.0))


def test_a_function_that_returns_no_value_is_refused() -> None:
    x = torch.zeros(4, 1)
    with pytest.raises(TypeError, match=r"should return values of shape \(n, 1\), or a number, got None"):
        Dirichlet(lambda x: None).residual(x, AutogradField(torch.sin, x))  # type: ignore[arg-type, return-value]


@every_problem
def test_a_network_is_a_field_at_points_of_any_kind(problem: Problem) -> None:
    net = pinn.mlp(problem, [4])
    for x in (problem.domain.interior(9), problem.domain.interior(9).numpy(), problem.domain.quasi(9)):
        u = problem.field(net, x)
        assert u.value.dtype == torch.float32 and torch.equal(u.value, net(torch.as_tensor(x).float()))
        assert problem.misses(torch.as_tensor(x), u).shape == (9, 1)
    for condition in problem.conditions():
        edge = condition.points(problem.domain, 9)
        u = problem.field(net, edge.points, edge.normals)
        assert bool(condition.residual(edge.points, u).isfinite().all())


def test_what_was_fitted_is_a_field_with_slopes() -> None:
    problem, x = Poisson1D(), torch.rand(9, 1, generator=generator())
    recipe = pinn.Recipe(steps=1, finish=0)
    fitted = pinn.fit(problem, pinn.mlp(problem, [4]), recipe=recipe, progress=False)
    slope = problem.field(fitted, x).d("x")
    assert torch.equal(slope, problem.field(fitted.net, x).d("x")) and bool((slope != 0).all())


def test_values_may_be_numbers() -> None:
    x, normals = torch.rand(4, 2, generator=generator()), torch.tensor([[-1.0, 0.0]] * 4)
    field = AutogradField(lambda x: 3 * x[:, :1], x, normals=normals)
    assert torch.allclose(Dirichlet(1.0).residual(x, field), 3 * x[:, :1] - 1)
    assert torch.allclose(Neumann(2.0).residual(x, field), torch.full((4, 1), -5.0))
    assert torch.allclose(Robin(2.0, 1.0).residual(x, field), -3 + 6 * x[:, :1] - 1)


def test_initial_values_may_be_numbers() -> None:
    start = Initial(1.0, 0.0)
    x = torch.zeros(3, 1)
    u = AutogradField(lambda x: torch.cos(x), x)
    assert float(start.residual(x, u).detach().abs().max()) == 0


def test_noise_and_solutions_keep_their_columns() -> None:
    class Flat(pinn.problems.Poisson1D):
        def solution(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, 0]

    assert Flat().observe(20, noise=lambda x: 0.1 * x).y.shape == (20, 1)
    with pytest.raises(ValueError, match=r"`noise` should return shape \(20, 1\), got \(20,\). Keep the"):
        Flat().observe(20, noise=lambda x: x[:, 0])


# Noise models: the fields of the paper, with their regions.

X = torch.rand(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
T = torch.linspace(0, 5, 501, dtype=torch.float64)[:, None]


def at(model: noise.Noise, *point: float) -> float:
    return float(model.extra(torch.tensor([point], dtype=torch.float64)))


def test_the_islands_are_bumps_with_sharp_edges() -> None:
    islands = noise.Islands()
    assert at(islands, 2.0) == pytest.approx(0.3) and at(islands, 3.15) == pytest.approx(
        0.3 * 2.718281828 ** (-0.28125)
    )
    assert at(islands, 1.21) == 0 and at(islands, 4.0) == 0
    assert islands.region(T).double().mean() == pytest.approx(3 * 0.4 / 5, abs=0.01)
    assert float(islands(torch.tensor([[2.0]]))) == pytest.approx((0.3**2 + 0.05**2) ** 0.5)


def test_the_scenarios_have_the_documented_sizes() -> None:
    assert at(noise.NoisyDisk(), 0.2, 0.0) == pytest.approx(0.2) and at(
        noise.NoisyDisk(), 0.0, 0.0
    ) == pytest.approx(0.4 / (1 + 2.718281828**-5))
    assert at(noise.Ring(), 0.8, 0.2) == pytest.approx(0.5 / (1 + 2.718281828 ** (-0.05 / 0.07)))
    assert at(noise.Ring(), 0.2, 0.75) == pytest.approx(
        0.25, rel=0.01
    )  # half a thickness outside the ellipse
    corner = noise.DiscAndCorner()
    assert at(corner, -0.5, -0.2) == pytest.approx(0.275, rel=0.02) and at(corner, 0.6, 0.4) == pytest.approx(
        0.275, rel=0.01
    )
    assert at(corner, 0.6, 0.35) == pytest.approx(0.55 / (1 + 2.718281828**-0.5), rel=0.01)
    for model in (noise.NoisyDisk(), noise.Ring(), corner, noise.Front()):
        region, mask = model.region(X), model.authors_region(X)
        assert 0 < region.double().mean() < 0.25 and (mask | ~region).all()
        assert model.extra(X)[region].mean() > 4 * model.extra(X)[~mask].mean()


def test_even_noise_is_even() -> None:
    assert (
        torch.equal(noise.Even(0.1)(X), torch.full((4000, 1), 0.1, dtype=torch.float64))
        and noise.Even().region(X).all()
    )


def test_observations_are_as_noisy_as_the_model_says() -> None:
    problem, model = AllenCahn2D(), noise.DiscAndCorner()
    data = problem.observe(20_000, noise=model, seed=1, dtype=torch.float64)
    misses = (data.y - problem.solution(data.x)) / model(data.x)
    assert misses.std() == pytest.approx(1, abs=0.02)
    assert DampedOscillator().observe(10, noise=noise.Islands()).y.shape == (10, 1)


def test_derivatives_are_the_same_without_gradients() -> None:
    x = torch.tensor([[2.0, 1.0]])
    with torch.no_grad():
        u = AutogradField(lambda x: x[:, :1] ** 3 * x[:, 1:] ** 2, x)
        found = [u.d("x", "x"), u.d("x", "y"), u.d("x", "x", "y", "y"), u.laplacian]
    assert [float(part) for part in found] == [12.0, 24.0, 24.0, 28.0]
