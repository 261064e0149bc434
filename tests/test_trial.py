"""Trials: whether one network gets through all times, and windows where it does not."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from guardband import pinn
from guardband.pinn import Fitted, Moment, Windowed
from guardband.pinn.training.newton import Newton
from guardband.pinn.training.progress import Diverged, Progress


def in_windows(problem: pinn.Problem, steps: int, trial: float = 0.0, **options: Any) -> Fitted:
    """Trained in three windows, unless a trial for a share of the run shows that none are needed."""
    recipe = pinn.Recipe(steps=0, finish=0, newton=steps, windows=3, trial=trial, n_interior=64)
    return pinn.fit(problem, pinn.mlp(problem, [8, 8]), recipe=recipe, progress=False, **options)


def test_a_trial_is_of_recipes_that_chose_their_windows() -> None:
    burgers = pinn.problems.Burgers1D()
    assert pinn.Recipe.automatic(burgers).trial == 0.2
    assert pinn.Recipe.automatic(burgers, seconds=100).trial == 0.1
    for none in ({"seconds": 10}, {"data": True}, {"windows": 3}):
        assert pinn.Recipe.automatic(burgers, **none).trial == 0  # type: ignore[arg-type]
    assert pinn.Recipe(newton=20, windows=3, trial=0.1).at_once() == pinn.Recipe(
        steps=2400, newton=60, finish=4500
    )
    for wrong in (-0.1, 1, "half"):
        with pytest.raises(ValueError, match="`trial` should be a share"):
            pinn.Recipe(trial=wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_network_that_gets_through_all_times_goes_on_alone() -> None:
    heat = pinn.problems.Heat1D()
    found, alone = in_windows(heat, 20, 0.5), pinn.Recipe.by_newton(60, n_interior=64)
    assert found.recipe == alone and not isinstance(found.net, Windowed)
    same = pinn.fit(heat, pinn.mlp(heat, [8, 8]), recipe=alone, progress=False)
    assert found.history == same.history
    for mine, other in zip(found.net.parameters(), same.net.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["early", "stalled", "diverged", "without a verdict"])
def test_a_trial_that_fails_leaves_nothing(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave is not there in a few steps, and windows begin as if nothing had been."""
    wave = pinn.problems.Wave1D()
    schedule = sys.modules["guardband.pinn.training.schedule"]
    calls = []
    if ends == "diverged":
        add = Progress.add

        def diverging(self: Progress, *seen: Any) -> None:
            calls.append(seen)
            if len(calls) == 2:
                raise Diverged(1.0, 1e9)
            add(self, *seen)

        monkeypatch.setattr(Progress, "add", diverging)
    if ends == "without a verdict":

        def none(*_: Any) -> None:
            calls.append(_)
            raise RuntimeError("no verdict")

        monkeypatch.setattr(schedule, "verdict", none)
    if ends == "stalled":
        monkeypatch.setattr(Newton, "done", property(lambda self: self.taken >= 10))
    found = in_windows(wave, 20, 0.9 if ends == "stalled" else 0.3)
    same = in_windows(wave, 20)
    assert bool(calls) == (ends in ("diverged", "without a verdict"))
    assert found.recipe == same.recipe and found.history == same.history
    assert isinstance(found.net, Windowed) and len(found.net.nets) == 3


@pytest.mark.parametrize(
    "problem", [pinn.problems.Heat1D(), pinn.problems.Wave1D()], ids=["alone", "windows"]
)
@pytest.mark.parametrize(
    ("steps", "stop"), [(3, 5), *(pytest.param(20, n, marks=pytest.mark.slow) for n in (10, 35))]
)
def test_a_killed_trial_goes_on_bit_for_bit(
    problem: pinn.Problem, steps: int, stop: int, tmp_path: Path
) -> None:
    seen = []

    def kill(now: Moment) -> None:
        seen.append(now)
        if len(seen) == stop // 5:
            raise KeyboardInterrupt

    whole, path = in_windows(problem, steps, 0.5), tmp_path / "run"
    with pytest.raises(pinn.TrainingInterrupted):
        in_windows(problem, steps, 0.5, checkpoint=path, callback=kill)
    again = in_windows(problem, steps, 0.5, checkpoint=path)
    assert again.history == whole.history and again.recipe == whole.recipe
    for mine, other in zip(again.net.parameters(), whole.net.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.slow
def test_a_budget_with_a_trial_is_repeated_by_its_steps() -> None:
    heat = pinn.problems.Heat1D()
    recipe = pinn.Recipe(steps=0, finish=0, newton=1000, windows=2, seconds=2.0, trial=0.5)
    first = pinn.fit(heat, pinn.mlp(heat, [8]), recipe=recipe, progress=False)
    second = pinn.fit(heat, pinn.mlp(heat, [8]), recipe=first.recipe, progress=False)
    assert first.recipe.trial == 0 and first.recipe.counts is not None
    assert second.recipe == first.recipe and second.history == first.history


@pytest.mark.slow
def test_windows_that_go_on_have_no_trial() -> None:
    wave = pinn.problems.Wave1D()
    short = in_windows(wave, 5)
    recipe = pinn.Recipe(steps=0, finish=0, newton=5, windows=3, trial=0.5, n_interior=64)
    longer = pinn.fit(wave, short, recipe=recipe, progress=False)
    assert isinstance(longer.net, Windowed) and len(longer.history) == 2 * len(short.history)


def test_a_trial_can_be_stopped() -> None:
    found = in_windows(pinn.problems.Heat1D(), 20, 0.5, callback=lambda now: True)
    assert found.recipe.windows == 1 and found.recipe.counts == ((0, 5, 0),)
