"""Windows of time, what ends a run, and what goes on from it."""

import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import guardband as gb
from guardband import pinn
from guardband.pinn import Fitted, Moment, Windowed
from guardband.pinn.networks.windows import Joined, Window, borders_of, data_in
from guardband.pinn.problems.base import conditions_in
from guardband.pinn.training.train import _automatic


@dataclass(frozen=True)
class Decay(pinn.Problem):
    """u' = -u from 1: exp(-t)."""

    domain = pinn.Time(0, 4)

    def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
        """u' + u."""
        return u.d("t") + u.value

    def conditions(self) -> list[pinn.problems.Condition]:
        """1 at the start."""
        return [pinn.Initial(1.0)]

    def solution(self, x: Tensor) -> Tensor:
        """exp(-t)."""
        return torch.exp(-x)


def windowed(problem: pinn.Problem, windows: int, steps: int, seed: int = 0, **options: object) -> Fitted:
    recipe = pinn.Recipe(steps=0, finish=0, newton=steps, windows=windows)
    net = pinn.mlp(problem, [8, 8], seed=seed)
    return pinn.fit(problem, net, recipe=recipe, seed=seed, progress=False, **options)  # type: ignore[arg-type]


def error(fitted: Fitted) -> float:
    x = fitted.problem.domain.uniform(400, seed=7, dtype=torch.float64)
    with torch.no_grad():
        found, true = fitted.net.double()(x), fitted.problem.solution(x)
    return float((found - true).norm() / true.norm())


def test_each_window_goes_on_from_the_last() -> None:
    fitted = windowed(Decay(), 3, 30)
    assert error(fitted) < 1e-4
    net = fitted.net
    assert isinstance(net, Windowed) and len(net.nets) == 3
    for k, border in enumerate(net.borders.tolist()):
        at = torch.tensor([[border]], dtype=torch.float64)
        with torch.no_grad():
            assert float((net.nets[k](at) - net.nets[k + 1](at)).abs()) < 1e-4  # nearly continuous
    steps = [row["step"] for row in fitted.history]
    assert steps == sorted(steps) and len({*steps}) == len(steps)
    assert [row["step"] for row in fitted.terms] == steps


@pytest.mark.slow
def test_a_wave_goes_on_with_its_velocity() -> None:
    @dataclass(frozen=True)
    class Swing(pinn.Problem):
        domain = pinn.Time(0, 6)

        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            return u.d("t", "t") + u.value

        def conditions(self) -> list[pinn.problems.Condition]:
            return [pinn.Initial(0.0, velocity=1.0)]

        def solution(self, x: Tensor) -> Tensor:
            return torch.sin(x)

    assert error(windowed(Swing(), 3, 40)) < 1e-2


def test_the_start_of_some_outputs_alone() -> None:
    """Only u and v of a flow start from something; pressure does not."""
    problem = pinn.problems.TaylorGreen2D()
    net = pinn.mlp(problem, [8]).double()
    window = Window(problem, 0.2, 0.4, net)
    (start,) = [c for c in window.conditions() if isinstance(c, pinn.Initial)]
    edge = start.points(window.domain, 9)
    assert bool((edge.points[:, -1] == 0.2).all())
    miss = start.residual(edge.points, window.field(net, edge.points))
    assert miss.shape == (9, 2) and float(miss.detach().abs().max()) == 0


def test_the_velocity_of_a_wave_passes_to_the_next_window() -> None:
    """Its time derivative, not a derivative in space."""
    problem = pinn.problems.Wave1D()
    net = pinn.mlp(problem, [8]).double()
    window = Window(problem, 0.2, 0.4, net)
    (start,) = [c for c in window.conditions() if isinstance(c, pinn.Initial)]
    edge = start.points(window.domain, 9)
    miss = start.residual(edge.points, window.field(net, edge.points))
    assert miss.shape == (9, 2) and float(miss.detach().abs().max()) < 1e-12


def test_points_are_answered_by_the_network_of_their_time() -> None:
    nets = [pinn.mlp(2, [4], seed=k) for k in range(3)]
    net, x = Windowed(nets, [1.0, 2.0]), torch.rand(50, 2) * torch.tensor([1.0, 3.0])
    which = x[:, 1].floor().long()
    for k in range(3):
        assert torch.allclose(net(x)[which == k], nets[k](x[which == k]))
    with pytest.raises(ValueError, match="`borders` of 3 windows should be 2 increasing times"):
        Windowed(nets, [2.0, 1.0])


@pytest.mark.slow
def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    fitted = windowed(pinn.problems.Heat1D(), 2, 10)
    path = tmp_path / "heat"
    gb.save(fitted, path)
    again = gb.load(path, pinn.Fitted)
    x = np.random.default_rng(0).random((20, 2))
    assert isinstance(again, Fitted) and np.array_equal(again(x), fitted(x))
    assert again.recipe == fitted.recipe and again.history == fitted.history
    with pytest.raises(gb.store.ArtifactError, match="should hold a calibration, but it holds a Fitted"):
        gb.load(path)
    own = pinn.fit(
        Decay(),
        nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)),
        recipe=fitted.recipe,
        progress=False,
    )
    with pytest.raises(TypeError, match="cannot: your own network"):
        gb.save(own, tmp_path / "own")


def test_windows_need_a_start() -> None:
    recipe = pinn.Recipe(steps=0, finish=0, newton=5, windows=2)
    for problem in (pinn.problems.Poisson1D(), pinn.problems.Cavity()):
        with pytest.raises(ValueError, match="cannot be solved in 2 time windows"):
            pinn.fit(problem, pinn.mlp(problem, [4]), recipe=recipe, progress=False)
    heat = pinn.problems.Heat1D()
    with pytest.raises(ValueError, match="satisfies conditions exactly cannot be trained in 2 time windows"):
        pinn.fit(heat, pinn.Constrained.of(heat, pinn.mlp(heat, [4])), recipe=recipe, progress=False)
    with pytest.raises(ValueError, match="`windows` should be a positive number of time windows"):
        pinn.Recipe(windows=0)


def test_a_problem_chooses_its_recipe() -> None:
    problems = pinn.problems
    assert pinn.Recipe.automatic(problems.Burgers1D()).windows == 5
    assert pinn.Recipe.automatic(problems.Burgers1D(), seconds=100).windows == 10
    assert pinn.Recipe.automatic(problems.Burgers1D(), seconds=10).windows == 1
    assert pinn.Recipe.automatic(problems.Burgers1D(), data=True).windows == 1
    assert pinn.Recipe.automatic(problems.DampedOscillator(), seconds=6).windows == 3  # no space
    assert pinn.Recipe.automatic(problems.DampedOscillator(), seconds=100).windows == 5
    assert pinn.Recipe.automatic(problems.Cavity()).windows == 1  # no time
    assert pinn.Recipe.automatic(problems.Cavity()).newton == 400
    assert pinn.Recipe.automatic(problems.Heat1D(), windows=2).newton == 200


def test_what_fit_takes_by_itself() -> None:
    problem, data = pinn.problems.Poisson1D(), pinn.problems.Poisson1D().observe(20)
    assert _automatic(problem, pinn.mlp(problem), None, None).newton == 400
    assert _automatic(problem, pinn.mlp(1, [4], dropout=0.1), data, None).newton == 0

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(1, 8)
            self.outside = nn.Linear(8, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.outside(torch.tanh(self.inside(x)) ** 2)

    assert _automatic(problem, Own(), data, None).newton == 0


def test_data_of_a_window() -> None:
    x = np.array([[0.1, 0.0], [0.2, 0.5], [0.3, 0.9]])
    data = gb.Observations(x, np.arange(3.0)[:, None])
    early = pinn.Segment(0, 1) * pinn.Time(0, 0.5)
    found = data_in(data, early)
    assert found is not None and found.y[:, 0].tolist() == [0, 1]
    assert data_in(data, pinn.Segment(0, 1) * pinn.Time(2, 3)) is None and data_in(None, early) is None
    assert borders_of(Decay(), pinn.mlp(1, [4]), 2) == [0, 2, 4]


@pytest.mark.slow
def test_a_budget_notes_its_steps_and_is_repeated_by_them() -> None:
    problem = pinn.problems.Heat1D()
    recipe = pinn.Recipe(steps=0, finish=0, newton=1000, windows=2, seconds=2.0)
    first = pinn.fit(problem, pinn.mlp(problem, [8]), recipe=recipe, progress=False)
    counts = first.recipe.counts
    assert counts is not None and len(counts) == 2 and counts[0][1] > 0
    second = pinn.fit(problem, pinn.mlp(problem, [8]), recipe=first.recipe, progress=False)
    assert second.recipe == first.recipe and second.history == first.history
    for mine, other in zip(first.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(mine, other)
    with pytest.raises(ValueError, match="`counts` should be the steps"):
        pinn.Recipe(counts=((1, 2),))  # type: ignore[arg-type]
    assert (
        pinn.fit(Decay(), pinn.mlp(1, [4]), recipe=pinn.Recipe.by_newton(5), progress=False).recipe.counts
        is None
    )


def test_a_callback_sees_the_network_and_may_end_the_run() -> None:
    seen: list[tuple[int, float]] = []

    def look(now: Moment) -> bool:
        with torch.no_grad():
            seen.append((now.step, float(now.net(torch.zeros(1, 1, dtype=torch.float64)))))
        assert now.row["step"] == now.terms["step"] == now.step and now.seconds > 0
        return now.step >= 20

    fitted = windowed(Decay(), 1, 100, callback=look)
    assert [step for step, _ in seen] == [5, 10, 15, 20]
    assert abs(seen[-1][1] - 1) < 0.01
    assert fitted.recipe.counts == ((0, 20, 0),)


@pytest.mark.parametrize("after", [3, 9])
def test_an_interrupt_keeps_the_network_so_far(after: int) -> None:
    calls = []

    def impatient(now: Moment) -> None:
        calls.append(now)
        if len(calls) == after:
            raise KeyboardInterrupt

    with pytest.raises(pinn.TrainingInterrupted, match="interrupted at step") as caught:
        windowed(Decay(), 2, 30, callback=impatient)
    fitted = caught.value.fitted
    assert isinstance(caught.value, KeyboardInterrupt) and len(fitted.history) == after
    assert np.isfinite(fitted(np.linspace(0, 4, 9)[:, None])).all()


@pytest.mark.parametrize("windows", [1, 2])
def test_a_fit_goes_on_from_a_fitted(windows: int) -> None:
    short = windowed(Decay(), windows, 5)
    recipe = pinn.Recipe(steps=0, finish=0, newton=30, windows=windows)
    longer = pinn.fit(Decay(), short, recipe=recipe, progress=False)
    assert error(longer) < 0.1 * error(short)
    steps = [row["step"] for row in longer.history]
    assert steps[: len(short.history)] == [row["step"] for row in short.history] and steps == sorted(steps)


@cache
def uninterrupted(problem: pinn.Problem, windows: int, steps: int) -> Fitted:
    return windowed(problem, windows, steps)


@pytest.mark.parametrize(
    ("problem", "windows", "steps", "stop"),
    [
        (Decay(), 2, 6, 4),
        (Decay(), 2, 6, 9),
        *(
            pytest.param(pinn.problems.Heat1D(), 3, 20, n, marks=pytest.mark.slow)
            for n in (5, 20, 25, 40, 55)
        ),
    ],
)
def test_a_killed_run_goes_on_bit_for_bit_in_any_window(
    tmp_path: Path, problem: pinn.Problem, windows: int, steps: int, stop: int
) -> None:
    path = tmp_path / "run"

    def kill(now: Moment) -> None:
        if now.step >= stop:
            raise KeyboardInterrupt

    whole = uninterrupted(problem, windows, steps)
    with pytest.raises(pinn.TrainingInterrupted):
        windowed(problem, windows, steps, checkpoint=path, callback=kill)
    again = windowed(problem, windows, steps, checkpoint=path)
    assert again.history == whole.history and not path.exists()
    for mine, other in zip(again.net.parameters(), whole.net.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_threads_do_not_meet() -> None:
    found: list[Tensor] = []

    def work() -> None:
        fitted = windowed(Decay(), 2, 10)
        found.append(torch.cat([p.flatten() for p in fitted.net.parameters()]))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(torch.equal(found[0], one) for one in found)


class Shifted(nn.Module):
    """exp(-t), and how far it is off."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = nn.Parameter(torch.tensor([off], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(-x) * (1 + self.off)


@pytest.mark.parametrize(("off", "word"), [(0.0, "converged"), (0.5, "not converged")])
def test_the_verdict_sees_windows_that_do_not_meet(off: float, word: str) -> None:
    # each window solves the equation, and the first starts as it should
    found = pinn.verdict(Decay(), Windowed([Shifted(0.0), Shifted(off)], [1.0]))
    assert found.word == word, found
    assert "`Continuity`" in str(found)


def test_windows_of_a_wave_meet_with_their_velocity() -> None:
    wave = pinn.problems.Wave1D()
    continuity = conditions_in(Joined(wave, (0.25, 0.5)))[-1]
    edge = continuity.points(wave.domain, 24)
    assert len(edge) == 24 and set(edge.points[:, -1].round(decimals=4).tolist()) == {0.25, 0.5}
    field = pinn.problems.AutogradField(wave.solution, edge.points.double().requires_grad_(), wave.names)
    miss = continuity.residual(edge.points.double(), field)
    assert miss.shape == (24, 2) and miss.abs().max() < 1e-3
    assert Windowed([pinn.mlp(wave), pinn.mlp(wave)], [0.5]).names == pinn.mlp(wave).names
