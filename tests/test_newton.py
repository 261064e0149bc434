"""Gauss-Newton: rows, steps, points that follow the residual, and runs that go on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

import guardband as gb
from guardband import pinn
from guardband.pinn.misses.gauss_newton import GaussNewton, Normal, Step
from guardband.pinn.misses.jacobian import Slopes, jacobian, value
from guardband.pinn.misses.likelihood import Scales, scales_of
from guardband.pinn.misses.points import conditions_of, fixed_points
from guardband.pinn.misses.rows import Rows
from guardband.pinn.misses.sizes import crude_sizes, sizes_of
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.problems import AutogradField, Field, Problem, catalogue
from guardband.pinn.training.newton import STALLED, Look, Newton
from guardband.pinn.training.train import _automatic

P = pinn.problems
MANY = [
    P.Poisson1D(),
    P.Beam(),
    P.Heat1D(),
    P.KortewegDeVries(),
    P.Kovasznay(),
    P.Helmholtz3D(),
    P.PlateWithHole(),
]


def relative_error(problem: Problem, fitted: pinn.Fitted) -> float:
    x = problem.domain.quasi(2000, seed=9, dtype=torch.float64)
    truth = problem.solution(x)
    return float((fitted(x) - truth).norm() / truth.norm())


def by_newton(problem: Problem, steps: int, seed: int = 0, **options: Any) -> pinn.Fitted:
    recipe = pinn.Recipe.by_newton(steps)
    net = pinn.mlp(problem, [16, 16], seed=seed)
    return pinn.fit(problem, net, recipe=recipe, seed=seed, progress=False, **options)


# Rows


@pytest.mark.parametrize("problem", MANY, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("waves", [False, True])
def test_rows_by_jets_are_those_of_autograd(problem: Problem, waves: bool) -> None:
    more = {"periodic": problem.names.axes[0], "fourier": (3, 1.0)} if waves else {}
    net = pinn.mlp(problem, [7, 6], **more).double()
    net.set_domain(problem.domain)
    x = problem.domain.quasi(5, dtype=torch.float64)
    weights: dict[str, Tensor] = {**dict(net.named_parameters())}

    def one(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        field = AutogradField(lambda x: functional_call(net, weights, (x,)), x[None], problem.names)
        return problem.misses(x[None], field)[0]

    misses, slopes = jacobian(problem.misses, net, x, of=problem.names)
    for i, point in enumerate(x):
        for j in range(misses.shape[1]):
            gradients = torch.autograd.grad(one(weights, point)[j], list(weights.values()), allow_unused=True)
            parts = [
                torch.zeros(p.numel(), dtype=p.dtype) if g is None else g.flatten()
                for g, p in zip(gradients, weights.values(), strict=True)
            ]
            theirs = torch.cat(parts)
            assert torch.allclose(slopes[i, j], theirs, rtol=1e-11, atol=1e-11 * float(theirs.abs().max()))


def test_rows_of_a_hard_constraint_and_of_values_are_those_of_vmap() -> None:
    problem = P.Helmholtz3D()
    net = pinn.Constrained.of(problem, pinn.mlp(problem, [6, 6])).double()
    x = problem.domain.quasi(9, dtype=torch.float64)
    weights = dict(net.named_parameters())
    whole = vmap(jacrev(lambda w, x: functional_call(net, w, (x[None],))[0]), (None, 0))(weights, x)
    theirs = torch.cat([part.flatten(2) for part in whole.values()], dim=2)
    _, slopes = jacobian(value, net, x, of=problem.names)
    assert torch.allclose(slopes, theirs, rtol=1e-12, atol=1e-14)


def test_rows_of_a_periodic_condition_see_both_ends() -> None:
    problem = P.AllenCahn1D()
    net = pinn.mlp(problem, [6, 6]).double()
    condition = next(c for c in problem.conditions() if isinstance(c, pinn.Periodic))
    edge = condition.points(problem.domain, 6)
    weight = net.linears[0].weight

    def misses(weight: Tensor) -> Tensor:
        def model(x: Tensor) -> Tensor:
            return functional_call(net, {"layers.0.weight": weight}, (x,))

        return condition.residual(edge.points, AutogradField(model, edge.points, problem.names, edge.normals))

    theirs = torch.autograd.functional.jacobian(misses, weight).flatten(2)
    for masked in (net, torch.nn.Sequential(net)):  # by jets, and by copies of the weights
        rows = Slopes(condition.residual, masked, edge.points, problem.names, condition.together)
        _, slopes = rows(edge.points, edge.normals)
        assert float(theirs.abs().max()) > 0.1
        assert torch.allclose(slopes[:, :, : theirs.shape[2]], theirs, rtol=1e-11, atol=1e-13)


def test_a_residual_that_asks_for_more_later_is_differentiated_all_the_same() -> None:
    asked = list[int]()

    def residual(x: Tensor, u: Field) -> Tensor:
        asked.append(len(x))
        return u.d("x", "x") if len(x) > 2 else u.d("x")

    net = pinn.mlp(1, [5, 5]).double()
    x = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    slow = torch.nn.Sequential(net)
    assert torch.allclose(jacobian(residual, net, x)[1], jacobian(residual, slow, x)[1], rtol=1e-12)


def test_rows_sum_to_the_loss_and_leave_out_what_was_not_measured() -> None:
    problem = P.Kovasznay()
    data = problem.observe(7, dtype=torch.float64)
    y = data.y.clone()
    y[2:, 2] = math.nan
    net = pinn.mlp(problem, [5]).double()
    points = fixed_points(problem, net, (data.x, y), 20, 12, torch.Generator().manual_seed(0))
    titles = titles_of(problem, net, points.inside)
    likelihood = pinn.Likelihood().completed(problem, titles, sizes_of(problem, y))
    rows = Rows(problem, net, points, scales_of(likelihood, problem, titles))
    misses, slopes = rows()
    assert torch.equal(misses, rows.misses())
    unmeasured = torch.cat([y.isnan().flatten(), torch.zeros(len(misses) - y.numel(), dtype=torch.bool)])
    assert bool((slopes[unmeasured] == 0).all()) and bool((misses[unmeasured] == 0).all())
    assert isinstance(likelihood.data, dict)
    off = (net(data.x) - y).nan_to_num(0.0).detach() / torch.tensor(list(likelihood.data.values()))
    assert float(misses[: y.numel()].square().sum()) == pytest.approx(float(off.square().sum(1).mean()))


# Steps


def test_both_spaces_give_the_same_step() -> None:
    generator = np.random.default_rng(0)
    for shape in ((5, 9), (9, 5), (6, 6)):
        slopes, misses = generator.normal(size=shape), generator.normal(size=shape[0])
        normal = Normal(slopes)
        assert normal.dual == (shape[0] < shape[1])
        solve = normal.damped(0.3)
        assert solve is not None
        theirs = np.linalg.solve(slopes.T @ slopes + 0.3 * np.eye(shape[1]), slopes.T @ misses)
        np.testing.assert_allclose(solve(misses), theirs, rtol=1e-10)


class Circle:
    """Misses whose root is far from where the linearization points."""

    def __init__(self, *start: float) -> None:
        self.theta = torch.tensor(start, dtype=torch.float64)

    def misses(self) -> Tensor:
        """The distance from the circle, and from a line."""
        x, y = self.theta
        return torch.stack([x * x + y * y - 1, 3 * (x - y)])

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Misses and slopes."""
        x, y = self.theta.tolist()
        return self.misses(), torch.tensor([[2 * x, 2 * y], [3.0, -3.0]], dtype=torch.float64)


def test_no_step_makes_the_loss_larger() -> None:
    circle, newton = Circle(40.0, -3.0), GaussNewton()
    losses = [newton.step(circle) for _ in range(25)]
    assert all(step.after <= step.before for step in losses) and losses[-1].after < 1e-24
    assert circle.theta.abs().tolist() == pytest.approx([math.sqrt(0.5)] * 2)


def test_where_no_step_helps_the_weights_stay() -> None:
    class Stuck(Circle):
        def __call__(self) -> tuple[Tensor, Tensor]:
            misses, slopes = super().__call__()
            return misses, -slopes  # uphill

    stuck = Stuck(2.0, 1.0)
    step = GaussNewton().step(stuck)
    assert not step.moved and step.after == step.before and stuck.theta.tolist() == [2.0, 1.0]


def test_a_step_into_nan_is_not_taken() -> None:
    class Cliff(Circle):
        def misses(self) -> Tensor:
            found = super().misses()
            return found if float(self.theta[0]) > 1.9 else found * math.nan

    cliff, newton = Cliff(2.0, 2.0), GaussNewton(damping=1e-10)
    for _ in range(5):
        newton.step(cliff)
    assert float(cliff.theta[0]) > 1.9 and bool(cliff.misses().isfinite().all())


# Sizes


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_a_crude_solution_knows_units(factor: float) -> None:
    """As large as at the free end, where the beam moves most."""
    assert float(crude_sizes(P.Beam(load=factor))) == pytest.approx(0.125 * factor, rel=0.05)


@pytest.mark.parametrize("name", [n for n in catalogue.__all__ if n not in ("Advection1D", "LotkaVolterra")])
def test_crude_sizes_are_those_of_the_solution_to_an_order(name: str) -> None:
    problem = getattr(P, name)()
    truth = problem.solution(problem.domain.quasi(500, dtype=torch.float64)).square().mean(0).sqrt()
    ratio = crude_sizes(problem) / truth
    assert bool(((ratio > 0.08) & (ratio < 12)).all())


def test_an_output_that_nothing_sets_has_the_size_of_the_others() -> None:
    @dataclass(frozen=True)
    class Half(Problem):
        domain = pinn.Segment(0, 1)
        outputs = ("u", "idle")

        def residual(self, x: Tensor, w: Field) -> Tensor:
            return w["u"].d("x") - 2.0

        def conditions(self) -> list[pinn.problems.Condition]:
            return [pinn.Dirichlet(0.0, on="left", output="u")]

    sizes = crude_sizes(Half())
    assert sizes.tolist() == pytest.approx([2 / math.sqrt(3)] * 2, rel=0.02)
    made = by_newton(Half(), 30)
    assert float((made(torch.tensor([[0.5]]))[0, 0] - 1).abs()) < 1e-3


def test_an_equation_that_is_not_finite_at_zero_has_size_one() -> None:
    @dataclass(frozen=True)
    class Root(Problem):
        domain = pinn.Segment(0, 1)

        def residual(self, x: Tensor, u: Field) -> Tensor:
            return u.d("x") / u.value

    assert crude_sizes(Root()).tolist() == [1.0]


# Scales by name


def test_scales_by_name_weigh_each_by_itself() -> None:
    problem = P.Kovasznay()
    net = pinn.mlp(problem, [4])
    titles = titles_of(problem, net, problem.domain.quasi(3))
    given = pinn.Likelihood(data={"u": 1.0, "v": 2.0, "p": 3.0}, physics=0.5)
    scales = scales_of(given.completed(problem, titles, torch.ones(3)), problem, titles)
    assert scales.data.tolist() == [1, 2, 3] and scales.physics.tolist() == [0.5] * 3
    assert [*scales_of(given, problem, titles, only_names=True).physics.tolist()] == [1.0] * 3


def test_scales_of_unknown_names_are_refused() -> None:
    problem = P.Poisson1D()
    with pytest.raises(ValueError, match="one for each of 'u', got numbers for 'w'"):
        pinn.fit(problem, pinn.mlp(problem, [4]), likelihood=pinn.Likelihood(data={"w": 1.0}), progress=False)
    with pytest.raises(ValueError, match="`data` of 'u' should be a positive noise scale, got 0"):
        pinn.Likelihood(data={"u": 0.0})


# Runs


@pytest.mark.slow("Beam-float", "Heat1D-float", "DampedOscillator-float")
@pytest.mark.parametrize(
    "problem, bound",
    [(P.Poisson1D(), 1e-4), (P.Beam(), 1e-3), (P.Heat1D(), 2e-3), (P.DampedOscillator(frequency=3.0), 1e-3)],
    ids=lambda given: type(given).__name__,
)
def test_a_small_network_solves_the_equation_alone(problem: Problem, bound: float) -> None:
    assert relative_error(problem, by_newton(problem, 120)) < bound


@pytest.mark.slow
def test_a_beam_in_other_units_is_solved_as_well() -> None:
    for load in (1e-5, 1e5):
        problem = P.Beam(load=load)
        assert relative_error(problem, by_newton(problem, 150)) < 5e-3


@pytest.mark.slow
def test_noisy_data_are_not_fitted_point_by_point() -> None:
    problem = P.Poisson1D()
    data = problem.observe(60, noise=0.1, seed=3)
    made = pinn.fit(
        problem,
        pinn.mlp(problem, [16, 16]),
        data,
        likelihood=pinn.Likelihood(data=0.1),
        recipe=pinn.Recipe.by_newton(100),
        progress=False,
    )
    assert relative_error(problem, made) < 0.05
    off = float((made(data.x) - data.y).square().mean().sqrt())
    assert 0.08 < off < 0.13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_has_its_own_dtype_after_the_steps(dtype: torch.dtype) -> None:
    made = by_newton(P.Poisson1D(), 5, dtype=dtype)
    assert {p.dtype for p in made.net.parameters()} == {dtype} and made.net.center.dtype == dtype


@pytest.mark.slow
def test_runs_are_repeated_bit_for_bit_and_seeds_differ() -> None:
    first, second, other = (by_newton(P.Heat1D(), 15, seed) for seed in (0, 0, 1))
    weights = [torch.cat([p.flatten() for p in made.net.parameters()]) for made in (first, second, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert first.history == second.history


@pytest.mark.slow
@pytest.mark.parametrize("stop", [5, 15, 25])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path: Any, stop: int) -> None:
    recipe = pinn.Recipe(steps=10, newton=15, finish=50, batch=32)
    problem = P.Burgers1D(viscosity=0.1)

    def run(**options: Any) -> pinn.Fitted:
        return pinn.fit(problem, pinn.mlp(problem, [8, 8]), recipe=recipe, progress=False, **options)

    def interrupt(now: pinn.Moment) -> None:
        if now.step >= stop:
            raise KeyboardInterrupt

    whole, path = run(), tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, callback=interrupt)
    again = run(checkpoint=path)
    assert again.history == whole.history
    for mine, theirs in zip(again.net.parameters(), whole.net.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_budget_ends_the_run() -> None:
    problem = P.Helmholtz3D()
    recipe = pinn.Recipe.by_newton(100_000, seconds=0.5)
    made = pinn.fit(problem, pinn.mlp(problem, [8]), recipe=recipe, progress=False)
    assert 0 < made.history[-1]["step"] < 10_000
    for wrong in (0, -1.0, "3", float("nan")):
        with pytest.raises(ValueError, match="`seconds` should be a positive number"):
            pinn.Recipe(seconds=wrong)  # type: ignore[arg-type]
    for wrong in (-1, 5.5, "5"):
        with pytest.raises(ValueError, match="`newton` should be a nonnegative number of steps"):
            pinn.Recipe(newton=wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_equation_in_kelvin_meters_and_seconds_needs_no_scaling_by_hand() -> None:
    @dataclass(frozen=True)
    class Bar(Problem):
        domain = pinn.Segment(0, 2) * pinn.Time(0, 4e4)
        outputs = ("T",)

        def residual(self, x: Tensor, T: Field) -> Tensor:
            return T.d("t") - 1.2e-5 * T.laplacian

        def conditions(self) -> list[pinn.problems.Condition]:
            start = pinn.Initial(lambda x: 300 + 100 * torch.sin(torch.pi * x[:, :1] / 2))
            return [pinn.Dirichlet(300.0), start]

        def solution(self, x: Tensor) -> Tensor:
            decay = torch.exp(-1.2e-5 * (math.pi / 2) ** 2 * x[:, 1:])
            return 300 + 100 * torch.sin(torch.pi * x[:, :1] / 2) * decay

    made = by_newton(Bar(), 60)
    x = Bar.domain.quasi(500, dtype=torch.float64)
    assert float((made(x) - Bar().solution(x)).abs().max()) < 0.2


def test_dropout_is_refused() -> None:
    problem = P.Poisson1D()
    with pytest.raises(ValueError, match="dropout changes it at every evaluation"):
        pinn.fit(
            problem, pinn.mlp(problem, [8], dropout=0.1), recipe=pinn.Recipe.by_newton(5), progress=False
        )


@pytest.mark.slow
def test_a_network_of_ones_own_is_trained_too() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.next = torch.nn.Linear(1, 16), torch.nn.Linear(16, 16)
            self.last = torch.nn.Linear(16, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.tanh(self.next(torch.tanh(self.first(x)))))

    problem = P.Poisson1D()
    made = pinn.fit(problem, Plain(), recipe=pinn.Recipe.by_newton(60), progress=False)
    assert relative_error(problem, made) < 0.02


# Points


def newton(problem: Problem, readings: int = 0, **options: Any) -> Newton:
    net = pinn.mlp(problem, [8, 8]).double()
    data = torch.zeros(readings, problem.domain.d).double(), torch.zeros(readings, 1).double()
    ones = torch.ones(1, dtype=torch.float64)
    scales = Scales(ones, ones, tuple(ones for _ in conditions_of(problem, net)))
    return Newton(problem, net, data, scales, ones, seed=0, **options)


@pytest.mark.slow
def test_points_become_more_where_they_are_too_few_and_never_too_many() -> None:
    stage = newton(P.Burgers1D(), most=200)
    assert len(stage.points.inside) == 96
    for _ in range(12):
        stage.advance(5)
    assert 96 < len(stage.points.inside) <= 200 and len(stage.looks) == 12


def test_a_run_that_was_just_given_more_points_is_not_done() -> None:
    stage = newton(P.Burgers1D(), most=200)
    stage.looks = [Look(1.0, 1.0, 96)] * 40
    assert stage.done
    stage.n = 144
    assert not stage.done
    stage.looks[-STALLED:] = [Look(1.0, 1.0, 144)] * STALLED
    assert stage.done
    stage.looks[-1] = Look(0.9, 1.0, 144)
    assert not stage.done


@pytest.mark.parametrize(("n", "then"), [(96, [96, 96]), (200, [300, 300])])
def test_a_run_that_stalls_on_all_its_points_is_given_more(n: int, then: list[int]) -> None:
    stage = newton(P.Burgers1D(), most=200, beyond=300)
    stage.n, stage.rows.points = n, stage._uniform(n, stage.points[:2])
    for count in then:
        stage.looks = [Look(0.0, 1.0, stage.n)] * 40
        stage._look(Step(1e9, 1e9, True))
        assert stage.n == len(stage.points.inside) == count
    assert stage.done


def test_steps_end_when_the_time_is_over_and_are_repeated_by_their_number() -> None:
    stages = [newton(P.Burgers1D(), most=200) for _ in range(2)]
    assert stages[0].advance(5) == stages[1].advance(5) == 5
    clock = iter([True, False])
    assert stages[0].advance(5, lambda: next(clock)) == 2
    assert stages[1].advance(2) == 2
    first, second = (stage.rows.theta for stage in stages)
    assert torch.equal(first, second)


def test_half_of_new_points_lie_where_the_residual_is_large() -> None:
    stage = newton(P.Heat1D(), most=400)
    corner = stage.problem.domain.upper[1]
    stage.rows.residual = lambda x: (x[:, 1] > 0.9 * corner).double()  # type: ignore[method-assign]
    inside = stage._renewed(400).inside
    assert 200 <= int((inside[:, 1] > 0.9 * corner).sum()) < 280


def test_what_comes_later_counts_less_until_what_is_before_it_is_met() -> None:
    stage = newton(P.Heat1D(), most=400)
    stage.rows.residual = lambda x: torch.full((len(x),), 30.0, dtype=torch.float64)  # type: ignore
    weights = stage._counting()
    assert weights is not None
    order = stage.points.inside[:, 1].argsort()
    assert bool((weights[order].diff() < 0).all()) and float(weights.max()) == 1.0
    assert newton(P.Poisson1D(), most=400)._counting() is None


def test_data_shape_the_field_first_and_then_all_times_count_alike() -> None:
    stage = newton(P.Heat1D(), readings=5, most=400, firm=True, anneal=50.0)
    weights = stage._counting()
    assert weights is not None and weights.tolist() == [pytest.approx(1 / 50**2)] * 96
    stage.advance(5)
    later = stage._counting()
    assert later is not None and 1 / 50**2 < float(later.min()) == float(later.max()) < 1
    stage.advance(5)
    stage.advance(5)
    assert stage._counting() is None and stage.taken == 15
    again = newton(P.Heat1D(), readings=5, most=400, firm=True, anneal=50.0)
    again.load(stage.state())
    assert again._counting() is None


@pytest.mark.slow
def test_a_network_that_knows_its_equation_is_not_shaped_anew() -> None:
    problem = P.Poisson1D()
    knows = pinn.fit(problem, pinn.mlp(problem), progress=False)
    data, x = problem.observe(12, noise=0.3, seed=1), problem.domain.quasi(200)
    off = list[float]()
    for start in (knows, knows.net):
        settings: Any = {"likelihood": pinn.Likelihood(data=0.01), "callback": lambda now: True}
        fitted = pinn.fit(problem, start, data, progress=False, **settings)
        assert fitted.history[-1]["step"] - (start is knows) * knows.history[-1]["step"] == 5
        off.append(gb.metrics.relative_l2(fitted(x), problem.solution(x)))
    assert off[0] < 0.2 * off[1]


def test_where_there_are_data_gauss_newton_steps_hold_the_equation_firmly() -> None:
    problem = P.Poisson1D()
    data = problem.observe(30, noise=0.1)

    def scales(recipe: pinn.Recipe, data: gb.Observations | None, **said: Any) -> pinn.Likelihood:
        given = pinn.Likelihood(data=0.1, **said)
        net = pinn.mlp(problem, [4])
        return pinn.fit(problem, net, data, likelihood=given, recipe=recipe, progress=False).likelihood

    steps, adam = pinn.Recipe.by_newton(2), pinn.Recipe(steps=2, finish=0)
    soft, firm, alone = scales(adam, data), scales(steps, data), scales(steps, None)
    assert isinstance(soft.physics, float) and isinstance(firm.physics, float)
    assert firm.physics == pytest.approx(0.05 * soft.physics)
    assert soft.boundary == alone.boundary == 0.1 != firm.boundary
    rough = scales(steps, data, tolerance=0.02)
    assert rough.physics == soft.physics and rough.boundary == pytest.approx(20 * firm.boundary)  # type: ignore
    assert scales(adam, data, tolerance=0.001) == firm
    named = scales(steps, data, tolerance=0.02, boundary=0.1)
    assert (named.physics, named.boundary) == (soft.physics, soft.boundary)  # as Adam has them
    for wrong in (0.0, -1.0, math.inf, "2 %"):
        with pytest.raises(ValueError, match="`tolerance` should be the allowed error of the equation"):
            pinn.Likelihood(tolerance=wrong)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_noisy_readings_do_not_pull_the_field_away_from_its_equation(noise: float) -> None:
    problem = P.DampedOscillator()
    data = problem.observe(60, noise=noise, seed=3)
    likelihood = pinn.Likelihood(data=0.05)
    fitted = pinn.fit(problem, pinn.mlp(problem), data, likelihood=likelihood, progress=False)
    x = problem.domain.quasi(1000)
    assert gb.metrics.relative_l2(fitted(x), problem.solution(x)) < 0.01
    assert fitted.recipe.newton and fitted.verdict.word == "converged"


def test_large_networks_and_many_readings_are_trained_by_adam() -> None:
    problem = P.Poisson1D()
    small, wide = pinn.mlp(1, [8]), pinn.mlp(1, [80, 80])
    sizes = {(net, n): problem.observe(n) for net in (small, wide) for n in (50, 51, 2000, 2001)}
    chosen = {key: _automatic(problem, key[0], data, None).newton > 0 for key, data in sizes.items()}
    assert [chosen[small, n] for n in (50, 51, 2000, 2001)] == [True, True, True, False]
    assert [chosen[wide, n] for n in (50, 51, 2000, 2001)] == [True, False, False, False]


def test_a_matrix_that_rounding_spoils_is_told_and_damped_more() -> None:
    normal = Normal(np.full((3, 3), 1e9))
    assert normal.damped(1e-14) is None and normal.damped(1e6) is not None


def test_the_number_of_points_may_be_given_per_axis() -> None:
    assert pinn.Recipe(newton=5, n_interior=(20, 30)).newton_points(2) == (600, 600)
    assert pinn.Recipe.by_newton(n_interior=70).newton_points(1) == (70, 70)
    assert pinn.Recipe.by_newton().newton_points(1) < pinn.Recipe.by_newton().newton_points(2)


@pytest.mark.slow("periodic network", "constrained")
@pytest.mark.parametrize("kind", ["periodic network", "sequential", "constrained"])
def test_other_networks_are_trained_as_well(kind: str) -> None:
    problem = P.ReactionDiffusion1D()
    net: torch.nn.Module = pinn.mlp(problem, [12, 12])
    if kind == "periodic network":
        problem = P.AllenCahn1D()
        net = pinn.mlp(problem, [12, 12], periodic="x")
    if kind == "sequential":
        layers = [torch.nn.Linear(2, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1, bias=True)]
        net = torch.nn.Sequential(*layers)
    if kind == "constrained":
        problem = P.Helmholtz3D()
        net = pinn.Constrained.of(problem, pinn.mlp(problem, [12, 12]))
    made = pinn.fit(problem, net, recipe=pinn.Recipe.by_newton(25), progress=False)
    first, last = made.history[0]["loss"], made.history[-1]["loss"]
    assert math.isfinite(last) and last < first


@pytest.mark.slow
def test_frozen_weights_stay_and_the_others_learn() -> None:
    problem = P.Poisson1D()
    for frozen in (0, -1):
        net = pinn.mlp(problem, [12, 12])
        net.linears[frozen].requires_grad_(False)
        made = pinn.fit(problem, net, recipe=pinn.Recipe.by_newton(40), progress=False)
        assert torch.equal(made.net.linears[frozen].weight, net.linears[frozen].weight)  # type: ignore
        assert relative_error(problem, made) < 0.05


def test_a_layer_that_is_used_twice_is_differentiated_twice() -> None:
    problem, tanh = P.Poisson1D(), torch.nn.Tanh()
    torch.manual_seed(0)
    twice = torch.nn.Linear(8, 8)
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 8), tanh, twice, tanh, twice, tanh, torch.nn.Linear(8, 1)
    ).double()
    x = problem.domain.quasi(5, dtype=torch.float64)
    _, slopes = jacobian(value, net, x)
    net(x).sum().backward()
    whole = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
    assert torch.allclose(slopes.sum(dim=(0, 1)), whole)


def test_points_of_another_run_are_refused() -> None:
    stage = newton(P.Heat1D(), most=100)
    state = stage.state()
    stage.load(state)
    counts, inside = {"n": 10**12, "most": 10**12}, {"inside": torch.zeros(5, 3)}
    for wrong in ({"n": 10**12}, {"n": 0}, counts, inside, {"fresh": [1.0] * 40}):
        with pytest.raises(ValueError, match="do not belong to this run"):
            stage.load(state | wrong)
