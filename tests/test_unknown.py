"""Unknowns: coefficients that are found together with the field."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import guardband as gb
from guardband import pinn
from guardband.pinn import Moment
from guardband.pinn.misses.likelihood import Scales
from guardband.pinn.misses.points import fixed_points
from guardband.pinn.misses.unknowns import CurrentProblem, Unknowns
from guardband.pinn.problems import Condition, DampedOscillator, Field, Heat1D
from guardband.pinn.problems.unknown import unknowns_in
from guardband.pinn.training.newton import Newton, _Moving, _units

SWINGING = DampedOscillator(damping=0.05, frequency=6.0)
SWINGS = DampedOscillator(damping=pinn.Unknown(0.02, 0.12), frequency=pinn.Unknown(5.5, 7.0))
COOLING, COOLS = Heat1D(diffusivity=0.06), Heat1D(diffusivity=pinn.Unknown(0.02, 0.2))
SHORT: dict[str, Any] = {"warmup": 10, "batch": 32, "n_interior": 32, "n_boundary": 16}
BOTH = {"Adam and L-BFGS": pinn.Recipe(steps=1000), "Gauss-Newton": pinn.Recipe.by_newton(150)}
QUICK = {
    "Adam and L-BFGS": pinn.Recipe(steps=100, finish=100, **SHORT),
    "Gauss-Newton": pinn.Recipe.by_newton(10),
}


def small(problem: pinn.Problem, seed: int = 0) -> nn.Module:
    return pinn.mlp(problem, [6], seed=seed)


def fitted(problem: pinn.Problem = COOLS, n: int = 20, **options: Any) -> pinn.Fitted:
    """A training of seconds."""
    known = {"recipe": QUICK["Gauss-Newton"], "progress": False} | options
    return pinn.fit(problem, small(problem), COOLING.observe(n, noise=0.01), **known)


@dataclass(frozen=True)
class Rod(pinn.Problem):
    """u'' = -source, u = left at one end and u' = 2 slope at the other: all three are unknown."""

    source: float | pinn.Unknown = pinn.Unknown(0.5, 4.0)
    left: float | pinn.Unknown = pinn.Unknown(-1.0, 1.0)
    slope: float | pinn.Unknown = pinn.Unknown(-2.0, 2.0)
    domain = pinn.Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.laplacian + self.source

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(self.left, on="left"), pinn.Neumann(2 * self.slope, on="right")]

    def solution(self, x: Tensor) -> Tensor:
        return self.left + (2 * self.slope + self.source) * x - self.source * x**2 / 2


@pytest.mark.slow
@pytest.mark.parametrize("recipe", BOTH)
def test_damping_and_frequency_are_found_from_forty_readings(recipe: str) -> None:
    """Within some four standard errors of least squares, 0.0019 and 0.0116 by the exact solution."""
    data = SWINGING.observe(40, noise=0.05, seed=3)
    net = pinn.mlp(SWINGS, [24, 24], fourier=(16, 2.0))
    found = pinn.fit(SWINGS, net, data, recipe=BOTH[recipe], progress=False)
    assert found.estimates["damping"] == pytest.approx(0.05, abs=0.008)
    assert found.estimates["frequency"] == pytest.approx(6.0, abs=0.05)
    assert found.problem == DampedOscillator(**found.estimates)
    assert found.verdict.reasons


@pytest.mark.slow
@pytest.mark.parametrize("recipe", BOTH)
def test_the_diffusivity_is_found_from_forty_readings(recipe: str) -> None:
    """Within some four standard errors of least squares, 0.0013 by the exact solution."""
    data = COOLING.observe(40, noise=0.02, seed=1)
    found = pinn.fit(COOLS, pinn.mlp(COOLS, [16, 16]), data, recipe=BOTH[recipe], progress=False)
    assert found.estimates["diffusivity"] == pytest.approx(0.06, abs=0.005)
    assert found.verdict.word == "converged"


@pytest.mark.slow("Adam and L-BFGS")
@pytest.mark.parametrize("recipe", BOTH)
def test_unknowns_of_conditions_are_found(recipe: str) -> None:
    data = Rod(2.0, 0.5, -0.75).observe(40, noise=0.001)
    found = pinn.fit(Rod(), pinn.mlp(Rod(), [12]), data, recipe=BOTH[recipe], progress=False)
    assert list(found.estimates) == ["source", "left", "slope"]
    assert [*found.estimates.values()] == pytest.approx([2.0, 0.5, -0.75], rel=0.05)


@pytest.mark.slow
def test_what_fit_takes_by_itself_finds_them_too() -> None:
    for n, newton in ((30, True), (60, False)):
        truth = Rod(2.0, 0.5, -0.75)
        found = pinn.fit(Rod(), pinn.mlp(Rod(), [12]), truth.observe(n, noise=0.001), progress=False)
        assert bool(found.recipe.newton) is newton and found.recipe.windows == 1
        assert found.estimates["source"] == pytest.approx(2.0, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", BOTH)
def test_a_truth_outside_of_the_bounds_leaves_them_never(recipe: str) -> None:
    data = Rod(8.0, 3.0, 0.0).observe(40, noise=0.01)
    seen = list[dict[str, float]]()
    found = pinn.fit(
        Rod(),
        pinn.mlp(Rod(), [8]),
        data,
        recipe=BOTH[recipe],
        callback=lambda now: seen.append(now.row),
        progress=False,
    )
    for name, one in unknowns_in(Rod()).items():
        assert all(one.low <= row[name] <= one.high for row in [*seen, found.estimates])
    assert "The estimate of source is at an end of its range: the truth may lie outside." in repr(
        found.estimates
    )


@pytest.mark.slow
def test_a_field_that_is_unknown_is_a_second_output() -> None:
    """-(k u')' = 1 with k = 1 + x/2 from readings of u alone; k is known at one end."""

    @dataclass(frozen=True)
    class Layered(pinn.Problem):
        domain = pinn.Segment(0, 1)
        outputs = ("u", "k")

        def residual(self, x: Tensor, w: Field) -> Tensor:
            u, k = w["u"], w["k"]
            return k.value * u.laplacian + k.d("x") * u.d("x") + 1.0

        def conditions(self) -> list[Condition]:
            return [pinn.Dirichlet(0.0, output="u"), pinn.Dirichlet(1.0, on="left", output="k")]

    x = np.linspace(0, 1, 41)[:, None]
    c = 1 / np.log(1.5) - 2  # k u' = c - x, so u' = -2 + (c + 2) / k
    data = gb.Observations(x, -2 * x + (c + 2) * 2 * np.log(1 + x / 2), outputs=("u",))
    likelihood = pinn.Likelihood(data={"u": 1e-3, "k": 1.0}, physics=1e-2, boundary=1e-3)
    found = pinn.fit(Layered(), pinn.mlp(Layered(), [12, 12]), data, likelihood=likelihood, progress=False)
    assert np.abs(found(x)[:, 1:] - (1 + x / 2)).max() < 0.05


def test_columns_of_the_jacobian_are_derivatives() -> None:
    problem = CurrentProblem(Rod(), Unknowns(unknowns_in(Rod())))
    net = pinn.mlp(Rod(), [5]).double()
    data = Rod(2.0, 0.5, -0.75).observe(5, dtype=torch.float64)
    points = fixed_points(problem, net, (data.x, data.y), 9, 4, None)
    scales = Scales(torch.ones(1), torch.full((1,), 2.0), (torch.ones(1), torch.full((1,), 0.5)))
    rows = _Moving(problem, net, points, scales, _units(net, None, torch.ones(1)))
    rows.weights = torch.linspace(0.1, 1.0, 9).double()
    start = rows.theta
    misses, slopes = rows()
    assert isinstance(slopes, Tensor) and slopes.shape == (len(misses), len(start)) == (len(rows), 16 + 3)
    for j in range(len(start)):
        step = torch.zeros_like(start)
        step[j] = 1e-5
        ends = list[Tensor]()
        for end in (start + step, start - step):
            rows.theta = end
            ends.append(rows.misses())
        torch.testing.assert_close(slopes[:, j], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_products_know_the_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = CurrentProblem(Rod(), Unknowns(unknowns_in(Rod())))
    data = Rod(2.0, 0.5, -0.75).observe(5, dtype=torch.float64)
    scales = Scales(torch.ones(1), torch.ones(1), (torch.ones(1), torch.ones(1)))
    net = pinn.mlp(Rod(), [5, 5]).double()
    newton = Newton(problem, net, (data.x, data.y), scales, torch.ones(1), most=32, seed=0)
    _, dense = newton.rows()
    monkeypatch.setattr(_Moving, "_large", lambda self: True)
    _, products = newton.rows()
    v = torch.randn(dense.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # type: ignore[union-attr]
    w = torch.randn(dense.shape[0], generator=torch.Generator().manual_seed(1), dtype=torch.float64)  # type: ignore[union-attr]
    torch.testing.assert_close(products.times(v), dense @ v)  # type: ignore
    torch.testing.assert_close(products.transposed(w), w @ dense)  # type: ignore


@pytest.mark.slow("Adam and L-BFGS")
@pytest.mark.parametrize("stage", QUICK)
def test_a_run_that_is_broken_off_ends_bit_for_bit_alike(stage: str, tmp_path: Path) -> None:
    whole = fitted(recipe=QUICK[stage])
    rows = len(whole.history)
    for last in range(1, rows):

        def stop(now: Moment, last: int = last) -> None:
            if now.row is not None and now.step == whole.history[last]["step"]:
                raise RuntimeError("The power went off.")

        with pytest.raises(RuntimeError, match="power"):
            fitted(recipe=QUICK[stage], checkpoint=tmp_path / "run", callback=stop)
        again = fitted(recipe=QUICK[stage], checkpoint=tmp_path / "run")
        assert dict(again.estimates) == dict(whole.estimates) and again.history == whole.history
        for mine, other in zip(again.net.parameters(), whole.net.parameters(), strict=True):
            assert torch.equal(mine, other)


@pytest.mark.parametrize("other", [pinn.Unknown(0.02, 0.3), pinn.Unknown(0.02, 0.2, start=0.1), 0.11])
def test_a_checkpoint_with_other_unknowns_is_refused(other: Any, tmp_path: Path) -> None:
    def stop(now: Moment) -> None:
        if now.step == 10:
            raise RuntimeError("The power went off.")

    with pytest.raises(RuntimeError, match="power"):
        fitted(checkpoint=tmp_path / "run", callback=stop)
    with pytest.raises(ValueError, match=r"its (unknowns|problem)"):
        fitted(Heat1D(diffusivity=other), checkpoint=tmp_path / "run")


def test_what_was_found_is_saved(tmp_path: Path) -> None:
    found, fresh = fitted(), COOLING.observe(40, noise=0.01, seed=9)
    calibrated = gb.calibrate(found, fresh.x, fresh.y)
    gb.save(calibrated, tmp_path / "band")
    again = gb.load(tmp_path / "band").predictor.model  # type: ignore[attr-defined]
    assert again.problem == found.problem and dict(again.estimates) == dict(found.estimates)
    assert repr(again.estimates) == repr(found.estimates)


def test_a_fit_without_unknowns_has_no_estimates() -> None:
    found = fitted(COOLING)
    assert len(found.estimates) == 0 and "No unknown was sought" in repr(found.estimates)
    assert {*found.history[-1]} == {"step", "data", "physics", "boundary", "loss"}


def test_they_are_in_every_row_of_the_history_and_said_without_coverage() -> None:
    rows = list[float]()
    found = fitted(callback=lambda now: rows.append(now.row["diffusivity"]))
    assert [row["diffusivity"] for row in found.history] == rows
    assert found.estimates["diffusivity"] == pytest.approx(rows[-1], rel=1e-5)
    assert "no coverage is stated" in repr(found.estimates)


def test_the_progress_bar_says_them(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(progress=True)
    assert "diffusivity=0." in capsys.readouterr().err


def test_they_start_where_it_is_said_and_go_on_from_where_they_ended() -> None:
    first = Heat1D(diffusivity=pinn.Unknown(0.02, 0.2, start=0.05))
    recipe = pinn.Recipe(steps=1, finish=0, learning_rate=1e-9)
    assert fitted(first, recipe=recipe).estimates["diffusivity"] == pytest.approx(0.05)
    assert fitted(recipe=recipe).estimates["diffusivity"] == pytest.approx(0.11)
    before = fitted()
    after = pinn.fit(COOLS, before, COOLING.observe(20, noise=0.01), recipe=recipe, progress=False)
    assert after.estimates["diffusivity"] == pytest.approx(before.estimates["diffusivity"], rel=1e-5)


def test_interruptions_and_divergence_keep_them() -> None:
    def impatient(now: Moment) -> None:
        raise KeyboardInterrupt

    with pytest.raises(pinn.TrainingInterrupted) as stopped:
        fitted(callback=impatient)
    assert stopped.value.fitted.problem == Heat1D(**stopped.value.fitted.estimates)
    with pytest.raises(pinn.TrainingDiverged) as diverged:
        fitted(recipe=pinn.Recipe(steps=50, learning_rate=1e6, warmup=0))
    assert 0.02 <= diverged.value.fitted.estimates["diffusivity"] <= 0.2


def test_patience_keeps_those_of_the_best_network() -> None:
    held = COOLING.observe(20, noise=0.01, seed=5)
    found = fitted(held_out=held, recipe=pinn.Recipe(steps=0, finish=0, newton=100, patience=2))
    best = min(found.history, key=lambda row: row["held_out"])
    assert found.estimates["diffusivity"] == pytest.approx(best["diffusivity"], rel=1e-5)


def test_restarts_and_ensembles_each_have_their_own() -> None:
    assert fitted(restarts=2).spread is not None
    data, quick = COOLING.observe(20, noise=0.01), QUICK["Gauss-Newton"]
    ensemble = pinn.predictors.train_ensemble(
        COOLS, partial(small, COOLS), data, seeds=range(2), recipe=quick, progress=False
    )
    one, other = (member.estimates["diffusivity"] for member in ensemble.members)  # type: ignore[union-attr]
    assert one != other and ensemble(data.x).scale is not None


def test_predictors_take_them_as_found() -> None:
    found, x = fitted(n=25), COOLING.observe(5).x
    for make in (pinn.predictors.Laplace, pinn.predictors.LastLayerLaplace, gb.predictors.Distance):
        assert make(found)(x).scale.shape == (5, 1)  # type: ignore[union-attr]


def test_a_traced_step_sees_them_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Any]()
    monkeypatch.setattr(torch, "compile", lambda graph, **options: made.append(graph) or graph)
    recipe = pinn.Recipe(steps=60, finish=0, anneal=1.0, learning_rate=0.03, **SHORT)
    plain, compiled = (fitted(recipe=recipe, compile=choice) for choice in (False, True))
    assert made and plain.estimates["diffusivity"] != pytest.approx(0.11, rel=0.05)
    assert compiled.estimates["diffusivity"] == pytest.approx(plain.estimates["diffusivity"], rel=1e-3)


def test_what_has_no_value_is_refused_in_a_sentence() -> None:
    x = torch.zeros(3, 2)
    with pytest.raises(TypeError, match="no value before training"):
        COOLS.solution(x)
    with pytest.raises(ValueError, match=r"unknowns \(diffusivity\), so it has no solution to observe"):
        COOLS.observe(5)
    with pytest.raises(TypeError, match="no value before training"):
        pinn.verdict(COOLS, small(COOLS))
    with pytest.raises(TypeError, match="no value before training"):
        torch.sin(pinn.Unknown(0, 1))  # type: ignore[arg-type]
    for operation in (lambda u: np.ones(3) * u, lambda u: x - u, lambda u: 2**u, lambda u: -u, float):
        with pytest.raises(TypeError, match="no value before training"):
            operation(pinn.Unknown(0, 1))
    with pytest.raises(TypeError, match="no value before training"):
        pinn.Constrained.of(Rod(), pinn.mlp(Rod(), [4]))(x[:, :1])


def test_unknowns_that_nothing_tells_are_refused() -> None:
    with pytest.raises(ValueError, match="only readings of the solution determine"):
        pinn.fit(COOLS, small(COOLS), progress=False)
    with pytest.raises(ValueError, match="which are the same at all times"):
        fitted(recipe=pinn.Recipe(windows=2))

    @dataclass(frozen=True)
    class Deaf(Heat1D):
        def residual(self, x: Tensor, u: Field) -> Tensor:
            return u.d("t") - 0.1 * u.laplacian

    with pytest.raises(ValueError, match="`diffusivity` changes neither the residual of Deaf"):
        fitted(Deaf(pinn.Unknown(0.02, 0.2)))

    @dataclass(frozen=True)
    class Named(Heat1D):
        data: float | pinn.Unknown = pinn.Unknown(0, 1)

    with pytest.raises(ValueError, match="cannot be called `data`"):
        fitted(Named())


@pytest.mark.parametrize("weight", [nn.Parameter(torch.tensor(0.1)), torch.tensor(0.1, requires_grad=True)])
def test_weights_in_a_problem_are_refused_with_the_cure(weight: Any) -> None:
    with pytest.raises(TypeError, match=r"does not train it.*diffusivity=pinn.Unknown\(low, high\)"):
        fitted(Heat1D(diffusivity=weight))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((2.0, 1.0), "the lower one first"),
        ((1.0, float("nan")), "`high` of an unknown should be a finite number"),
        (("1", 2.0), "`low` of an unknown should be a finite number"),
        ((1.0, 2.0, 2.0), "`start` should lie strictly between 1 and 2"),
    ],
)
def test_bounds_are_checked(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pinn.Unknown(*given)


@dataclass(frozen=True)
class Fading(pinn.Problem):
    """u' = -rate u, and nothing says where u starts: readings do."""

    rate: float | pinn.Unknown = pinn.Unknown(0.5, 2.0)
    domain = pinn.Time(0, 2)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") + self.rate * u.value

    def conditions(self) -> list[Condition]:
        return []


def faded(n: int, seed: int, first: float = 0.0, last: float = 2.0) -> gb.Observations:
    generator = np.random.default_rng(seed)
    t = generator.uniform(first, last, size=(n, 1))
    return gb.Observations(t, 3 * np.exp(-t) + 0.01 * generator.normal(size=(n, 1)))


def test_a_problem_with_unknowns_is_judged_by_what_was_found() -> None:
    made = fitted(restarts=1)
    fresh = COOLING.observe(20, noise=0.01, seed=5)
    assert pinn.verdict(COOLS, made, fresh).error == pinn.verdict(made.problem, made, fresh).error
    for model in (made.net, lambda x: x[:, :1]):
        with pytest.raises(TypeError, match=r"no value before training.*\(problem, fitted\)"):
            pinn.verdict(COOLS, model, fresh)


def test_readings_that_pin_the_start_are_no_missing_condition() -> None:
    """Equation and conditions leave the size of u open, and the readings do not."""
    problem = Fading()
    made = pinn.fit(problem, small(problem), faded(30, 0), recipe=pinn.Recipe.by_newton(40), progress=False)
    assert "A condition may be missing" not in str(made.verdict)
    assert "readings say which solution it is" in str(made.verdict) and made.verdict.word == "converged"
    known = Fading(rate=1.0)
    alone = pinn.verdict(known, lambda x: 3 * torch.exp(-x))
    assert alone.word == "suspicious" and "A condition may be missing" in str(alone)
    assert pinn.verdict(known, lambda x: 3 * torch.exp(-x), faded(5, 1), noise=0.01).word == "converged"
