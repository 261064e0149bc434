"""Held-out readings, restarts, and the verdict of a training."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import guardband as gb
from guardband import pinn
from guardband.pinn import Moment
from guardband.pinn.convergence.verdict import trend_of, with_training
from guardband.pinn.networks.modules import restarted
from guardband.pinn.problems import Condition, Field

PROBLEM = pinn.problems.Poisson1D()
NEWTON = pinn.Recipe.by_newton(30)


def readings(n: int, seed: int, noise: float = 0.05) -> gb.Observations:
    return PROBLEM.observe(n, noise=noise, seed=seed, dtype=torch.float64)


def test_held_out_readings_are_kept_and_refused_later() -> None:
    train, held, fresh = (readings(n, seed) for n, seed in ((40, 0), (30, 1), (60, 2)))
    fitted = pinn.fit(PROBLEM, pinn.mlp(1, [8]), train, held_out=held, recipe=NEWTON, progress=False)
    assert fitted.held_out is held and all("held_out" in row for row in fitted.history)
    assert fitted.history[-1]["held_out"] == pytest.approx(0.05**2, rel=0.8)
    for predictor in (fitted, gb.predictors.Distance(fitted), pinn.predictors.LastLayerLaplace(fitted)):
        with pytest.raises(ValueError, match="validation"):
            gb.calibrate(predictor, held.x, held.y)
    calibrated = gb.calibrate(fitted, fresh.x, fresh.y)
    with pytest.warns(UserWarning, match="validation"):
        gb.evaluate(calibrated, held.x, held.y)
    assert len(gb.predictors.Distance(fitted).x_train) == 40  # type: ignore[arg-type]


def test_readings_that_are_trained_on_are_not_held_out() -> None:
    data = readings(20, 0)
    with pytest.raises(ValueError, match="20 of 20 held-out points are training points"):
        pinn.fit(PROBLEM, pinn.mlp(1, [4]), data, held_out=data, progress=False)


def test_sensors_that_are_read_again_may_be_held_out() -> None:
    """The places are the same, and the readings are not."""
    train = readings(20, 0)
    again = gb.Observations(
        train.x, train.y + 0.05 * torch.randn(20, 1, generator=torch.Generator().manual_seed(1))
    )
    recipe = pinn.Recipe.by_newton(5)
    fitted = pinn.fit(PROBLEM, pinn.mlp(1, [4]), train, held_out=again, recipe=recipe, progress=False)
    assert fitted.held_out is again


def test_patience_ends_a_run_and_keeps_the_best() -> None:
    """Without the equation a network of many weights follows the noise of few readings."""

    @dataclass(frozen=True)
    class Free(pinn.Problem):
        domain = pinn.Segment(0, 1)

        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            return 1e-9 * u.value

    likelihood = pinn.Likelihood(data=0.1, physics=1.0)
    train, held = readings(12, 3, 0.3), readings(40, 4, 0.01)
    recipe = pinn.Recipe(steps=0, finish=0, newton=400, patience=4)
    settings = {"held_out": held, "likelihood": likelihood, "progress": False}
    fitted = pinn.fit(Free(), pinn.mlp(1, [24, 24]), train, recipe=recipe, **settings)  # type: ignore[arg-type]
    missed = [row["held_out"] for row in fitted.history]
    assert len(missed) - 1 - int(np.argmin(missed)) == 4
    off = np.asarray(fitted(held.x)) - np.asarray(held.y)
    assert float((off**2).mean()) == pytest.approx(min(missed), rel=1e-4)
    assert fitted.recipe.counts == ((0, int(fitted.history[-1]["step"]), 0),)
    with pytest.raises(ValueError, match="`patience` should be a positive number of rows"):
        pinn.Recipe(patience=0)


def test_a_killed_run_remembers_the_best(tmp_path: Path) -> None:
    recipe = pinn.Recipe(steps=0, finish=0, newton=40, patience=3)
    train, held = readings(15, 3, 0.3), readings(20, 4)

    def run(callback: object = None, checkpoint: Path | None = None) -> pinn.Fitted:
        net, settings = pinn.mlp(1, [12]), {"callback": callback, "checkpoint": checkpoint}
        return pinn.fit(PROBLEM, net, train, held_out=held, recipe=recipe, progress=False, **settings)  # type: ignore[arg-type]

    def kill(now: Moment) -> None:
        if now.step >= 15:
            raise KeyboardInterrupt

    whole, path = run(), tmp_path / "run"
    with pytest.raises(pinn.TrainingInterrupted):
        run(kill, path)
    again = run(checkpoint=path)
    assert again.history == whole.history
    for mine, other in zip(again.net.parameters(), whole.net.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_run_killed_at_the_end_of_its_patience_makes_no_more_steps(tmp_path: Path) -> None:
    recipe = pinn.Recipe(steps=0, finish=0, newton=400, patience=2)
    train, held = readings(12, 3, 0.3), readings(40, 4, 0.01)

    def run(callback: object = None, checkpoint: Path | None = None) -> pinn.Fitted:
        settings = {"callback": callback, "checkpoint": checkpoint, "progress": False}
        return pinn.fit(PROBLEM, pinn.mlp(1, [24, 24]), train, held_out=held, recipe=recipe, **settings)  # type: ignore[arg-type]

    whole, path = run(), tmp_path / "run"
    kept = tmp_path / "kept"

    def keep(now: Moment) -> None:
        """The checkpoint of the row before, and at last the one of the last row."""
        if path.exists():
            kept.write_bytes(path.read_bytes())

    run(keep, path)
    assert not path.exists()
    path.write_bytes(kept.read_bytes())
    assert run(checkpoint=path).history == whole.history


def test_an_interrupt_in_the_middle_of_a_step_keeps_the_last_good_network() -> None:
    class Trips(pinn.problems.Poisson1D):
        left = 160

        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            type(self).left -= 1
            if type(self).left == 0:
                raise KeyboardInterrupt
            return super().residual(x, u)

    seen = list[Tensor]()

    def look(now: Moment) -> None:
        seen.append(torch.cat([weight.detach().flatten().clone() for weight in now.net.parameters()]))

    problem = Trips()
    with pytest.raises(pinn.TrainingInterrupted) as caught:
        pinn.fit(problem, pinn.mlp(1, [8]), recipe=pinn.Recipe.by_newton(300), callback=look, progress=False)
    net = caught.value.fitted.net
    assert seen and torch.equal(
        torch.cat([weight.flatten() for weight in net.parameters()]), seen[-1].float()
    )


def test_a_verdict_that_fails_does_not_cost_the_training(capsys: pytest.CaptureFixture[str]) -> None:
    class Fragile(pinn.problems.Poisson1D):
        trained = False

        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            if type(self).trained:
                raise ValueError("The pump is off.")
            return super().residual(x, u)

    def last(now: Moment) -> bool:
        Fragile.trained = True
        return True

    fitted = pinn.fit(Fragile(), pinn.mlp(1, [8]), recipe=pinn.Recipe.by_newton(20), callback=last)
    assert "The verdict on this run failed: The pump is off." in capsys.readouterr().err
    fresh = readings(60, 2)
    found = gb.check(gb.calibrate(fitted, fresh.x, fresh.y), fresh.x)["training"]
    assert found.text == "No verdict on the training is available: The pump is off."


def test_the_progress_bar_shows_relative_misses(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a beam in newtons, whose residual is of the order of 1e5."""
    beam = pinn.problems.Beam(load=1e5)
    fitted = pinn.fit(beam, pinn.mlp(beam, [8]), recipe=pinn.Recipe.by_newton(5))
    shown = capsys.readouterr().err.partition("equation=")[2].partition(",")[0]
    assert float(shown) == pytest.approx(fitted.verdict.equations["equation"], rel=0.3)


@pytest.mark.slow
def test_restarts_are_ranked_and_their_spread_is_told() -> None:
    starts: list[float] = []

    def look(now: Moment) -> None:
        if now.step == 5:
            starts.append(now.row["loss"])

    fitted = pinn.fit(PROBLEM, pinn.mlp(PROBLEM), recipe=NEWTON, restarts=3, callback=look, progress=False)
    assert len({*starts}) == 3
    assert fitted.spread is not None and fitted.spread["u"] < 1e-3
    assert fitted.verdict.spread == fitted.spread and fitted.verdict.word == "converged"
    assert fitted.verdict.reasons[-1].startswith("Restarts differ by")
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="`restarts` should be a positive number of training runs"):
            pinn.fit(PROBLEM, pinn.mlp(1, [4]), restarts=wrong, progress=False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="A checkpoint contains a single run"):
        pinn.fit(PROBLEM, pinn.mlp(1, [4]), restarts=2, checkpoint="x", progress=False)


def test_a_restart_has_other_weights_of_the_same_size() -> None:
    for net in (pinn.mlp(PROBLEM), nn.Sequential(nn.Linear(1, 9), nn.Tanh(), nn.Linear(9, 1))):
        other = restarted(net, 7)
        for mine, theirs in zip(net.parameters(), other.parameters(), strict=True):
            assert mine.numel() == 1 or not torch.equal(mine, theirs)
            assert float(mine.detach().norm()) == pytest.approx(float(theirs.detach().norm()), rel=1e-5)

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

    with pytest.raises(ValueError, match="Some weights of this Own cannot be redrawn"):
        restarted(Own(), 1)


@pytest.mark.slow
def test_the_verdict_of_a_training() -> None:
    good = pinn.fit(PROBLEM, pinn.mlp(PROBLEM), recipe=NEWTON, progress=False)
    assert good.verdict.word == "converged" and good.verdict is good.verdict
    beam = pinn.problems.Beam()
    starved = pinn.fit(beam, pinn.mlp(beam), recipe=pinn.Recipe(steps=150, finish=0), progress=False)
    assert starved.verdict.word == "not converged" and starved.verdict.trend is not None
    assert "last third" in starved.verdict.reasons[-1]
    held = readings(30, 5)

    @dataclass(frozen=True)
    class Wrong(pinn.Problem):
        """The same with half the source."""

        domain = PROBLEM.domain

        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            return PROBLEM.misses(x, u) + 0.5 * u.d("x", "x")

        def conditions(self) -> list[pinn.problems.Condition]:
            return list(PROBLEM.conditions())

    likelihood = pinn.Likelihood(data=0.05)
    wrong = pinn.fit(
        Wrong(), pinn.mlp(1, [16, 16]), held_out=held, likelihood=likelihood, recipe=NEWTON, progress=False
    )
    assert wrong.noise == 0.05 and wrong.verdict.word == "suspicious"
    assert "a different solution" in str(wrong.verdict)
    data = readings(60, 6)
    used, right = (
        pinn.fit(problem, pinn.mlp(1, [16, 16]), data, likelihood=likelihood, recipe=NEWTON, progress=False)
        for problem in (Wrong(), PROBLEM)
    )
    assert used.verdict.word == "suspicious" and used.verdict.trained_on["u"].missed
    assert "Even the training readings of u are missed by" in str(used.verdict)
    assert right.verdict.word == "converged" and "trained on" not in str(right.verdict)
    unsaid = pinn.fit(Wrong(), pinn.mlp(1, [16, 16]), data, recipe=NEWTON, progress=False)
    assert not unsaid.verdict.trained_on  # of readings whose noise nobody said


def test_check_says_whether_a_training_has_converged() -> None:
    fitted = pinn.fit(PROBLEM, pinn.mlp(1, [16, 16]), recipe=NEWTON, progress=False)
    fresh = readings(60, 2)
    found = gb.check(gb.calibrate(fitted, fresh.x, fresh.y), fresh.x)
    assert found["training"].text.startswith("The training has converged. As an estimate, u is off by about")
    assert not found["training"].note and not found.alarms


def test_check_says_that_a_training_has_not_converged() -> None:
    beam, data = pinn.problems.Beam(), pinn.problems.Beam().observe(60, noise=0.01, dtype=torch.float64)
    recipe = pinn.Recipe(steps=50, finish=0)
    starved = pinn.fit(beam, pinn.mlp(beam), recipe=recipe, progress=False)
    found = gb.check(gb.calibrate(starved, data.x, data.y), data.x)
    assert "The training is not converged;" in found["training"].text and not found["training"].alarm
    assert "note   The training" in str(found)
    assert [one.name for one in found.alarms] == ["error"]  # so far, one number predicts better


def test_the_bar_says_so_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    beam = pinn.problems.Beam()
    pinn.fit(beam, pinn.mlp(beam), recipe=pinn.Recipe(steps=50, finish=0))
    assert "not converged:" in capsys.readouterr().err


@dataclass(frozen=True)
class Waves(pinn.Problem):
    """u'' = -w^2 sin(w x), twelve waves between two zeros."""

    domain = pinn.Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("x", "x") + (24 * torch.pi) ** 2 * self.solution(x)

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(0.0)]

    def solution(self, x: Tensor) -> Tensor:
        return torch.sin(24 * torch.pi * x)


@pytest.mark.slow
def test_a_run_whose_steps_no_longer_help_names_what_does() -> None:
    waves = Waves()
    stuck = pinn.fit(waves, pinn.mlp(waves, seed=1), progress=False)
    assert stuck.stalled and len(stuck.history) < 50 and stuck.verdict.word == "not converged"
    assert "activation=torch.sin" in stuck.verdict.reasons[-1]
    helped = pinn.fit(waves, pinn.mlp(waves, seed=1, activation=torch.sin), progress=False)
    x = waves.domain.uniform(500, torch.Generator().manual_seed(0), dtype=torch.float64)
    off, off_now = (waves.solution(x) - fitted(x) for fitted in (stuck, helped))
    assert off.square().mean() > 1 > 1e3 * off_now.square().mean()


@pytest.mark.slow
def test_the_trend_is_that_of_the_last_window() -> None:
    heat = pinn.problems.Heat1D()
    recipe = pinn.Recipe(steps=0, finish=0, newton=20, windows=2)
    fitted = pinn.fit(heat, pinn.mlp(heat), recipe=recipe, progress=False)
    last = [row for row in fitted.history if row["step"] > 20]
    assert fitted.trend == trend_of(last) != trend_of(fitted.history)


def test_trend_and_spread_in_words() -> None:
    rows = [{"loss": 2.0**-k} for k in range(9)]
    assert trend_of(rows) == 2.0**-3 and trend_of(rows[:2]) is None
    exact = pinn.verdict(PROBLEM, PROBLEM.solution)
    wrong = replace(exact, word="not converged")
    for trend, said in (
        (0.25, "The loss fell by a factor of 4 over the last third of the run: more steps may help."),
        (0.8, "The loss fell by a factor of 1.2 over .*: more steps will not help, but another activ"),
        (13.0, "The loss did not fall over .*: more steps will not help"),
    ):
        assert re.match(said, with_training(replace(wrong, trend=trend)).reasons[-1])
    stalled = with_training(replace(wrong, trend=0.25), stalled=True)
    assert stalled.reasons[-1].startswith("The run ended when its steps no longer helped")
    assert with_training(exact, stalled=True).reasons == exact.reasons  # who has arrived may stand still
    doubt = with_training(replace(exact, spread={"u": 0.2}))
    assert doubt.word == "suspicious" and "several solutions" in doubt.reasons[-1]
