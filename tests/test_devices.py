"""Devices: training and its results on a pretended accelerator, with and without double precision."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import guardband as gb
from guardband import pinn
from guardband.pinn.misses.gauss_newton import GaussNewton, Step
from guardband.pinn.training import newton

pretended = pytest.importorskip("pretended", reason="torch has no backend in Python")

HEAT, POISSON = pinn.problems.Heat1D(), pinn.problems.Poisson1D()
STEPS = {
    "adam": pinn.Recipe(steps=2, finish=2),
    "newton": pinn.Recipe(steps=0, finish=0, newton=2),
}
SOURCE = Path(gb.__file__).parent


def fitted(
    problem: pinn.Problem, recipe: pinn.Recipe | None, data: Any = None, **options: Any
) -> pinn.Fitted:
    net = pinn.mlp(problem, [6]).to(pretended.DEVICE)
    return pinn.fit(problem, net, data, recipe=recipe, progress=False, **options)


def test_the_pretended_device_refuses_what_a_device_refuses() -> None:
    with pretended.device() as device:
        far, near = torch.ones(3).to(pretended.DEVICE), torch.ones(3)
        assert far.device == pretended.DEVICE and (far + 1).cpu().tolist() == [2, 2, 2]
        assert device.copied == 3
        for wrong in (lambda: far + near, lambda: torch.cat([far, near])):
            with pytest.raises(RuntimeError, match="on the same device"):
                wrong()
        with pytest.raises(TypeError, match="to numpy"):
            far.numpy()
    with pretended.device(float64=False), pytest.raises(TypeError, match="float64"):
        torch.ones(3).to(pretended.DEVICE).double()
    with torch.random.fork_rng():  # which asks every device: other tests notice nothing
        assert torch.ones(3).device.type == "cpu"


@pytest.mark.parametrize("how", STEPS)
def test_windows_of_time_are_trained_on_a_device(how: str) -> None:
    """The second window asks the network of the first, which is on the device, at points on the CPU."""
    from dataclasses import replace

    with pretended.device():
        found = fitted(HEAT, replace(STEPS[how], windows=2))
        assert next(found.net.parameters()).device == pretended.DEVICE
        assert len(found.net.nets) == 2  # type: ignore[arg-type]


def test_dense_steps_on_a_device_leave_the_slopes_there() -> None:
    with pretended.device() as device:
        found = fitted(POISSON, STEPS["newton"], POISSON.observe(20, noise=0.1))
        weights = sum(part.numel() for part in found.net.parameters())
        misses = len(POISSON.observe(20).x) + 32
        assert device.copied < weights * misses / 4


def test_steps_on_a_device_are_those_of_the_cpu() -> None:
    """Dense and dual equations, and products alone, on random linear systems."""

    class Linear:
        def __init__(self, slopes: torch.Tensor, aim: torch.Tensor, products: bool) -> None:
            self.slopes, self.aim, self.products = slopes, aim, products
            self.theta = torch.zeros_like(slopes[0])

        def misses(self) -> torch.Tensor:
            return self.slopes @ self.theta - self.aim

        def __call__(self) -> tuple[torch.Tensor, Any]:
            return self.misses(), self if self.products else self.slopes

        def times(self, v: torch.Tensor) -> torch.Tensor:
            return self.slopes @ v

        def transposed(self, w: torch.Tensor) -> torch.Tensor:
            return self.slopes.T @ w

    def solved(shape: tuple[int, int], products: bool, place: Any) -> tuple[torch.Tensor, Step]:
        generator = torch.Generator().manual_seed(3)
        numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
        system = Linear(numbers.to(place), numbers[:, 0].cos().to(place), products)
        step = GaussNewton(damping=1e-6).step(system)
        return system.theta.cpu(), step

    with pretended.device():
        for shape in ((20, 6), (6, 20)):
            for products in (False, True):
                (here, mine), (there, its) = (
                    solved(shape, products, place) for place in ("cpu", pretended.DEVICE)
                )
                assert mine.moved and its.moved and torch.allclose(here, there, rtol=1e-9, atol=1e-12)


def test_steps_without_a_matrix_are_made_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "MOST_NUMBERS", 0)
    monkeypatch.setattr(newton, "MOST_DENSE", 0)
    with pretended.device():
        assert len(fitted(POISSON, STEPS["newton"]).history) > 0


def test_the_recipe_of_a_device_is_told() -> None:
    def stop(now: Any) -> bool:
        return True

    with pretended.device():
        with pytest.warns(UserWarning, match=r"Adam and L-BFGS.*less accurate than the Gauss-Newton steps"):
            found = fitted(POISSON, None, callback=stop)
        assert found.recipe.newton == 0
        fitted(POISSON, STEPS["adam"])  # a recipe of one's own is taken without a word


def test_a_device_without_float64_trains_and_is_judged() -> None:
    data, fresh = POISSON.observe(30, noise=0.1), POISSON.observe(30, noise=0.1, seed=1)
    with pretended.device(float64=False):
        with pytest.raises(ValueError, match=r"need float64.*device=\"cpu\""):
            fitted(POISSON, STEPS["newton"])
        found = fitted(POISSON, STEPS["adam"], data, held_out=POISSON.observe(9, noise=0.1, seed=2))
        assert found.verdict.word
        assert torch.as_tensor(gb.calibrate(found, fresh.x, fresh.y)(fresh.x[:3]).upper).isfinite().all()
        assert torch.as_tensor(pinn.predictors.LastLayerLaplace(found)(fresh.x[:3]).scale).isfinite().all()


def test_windows_on_a_device_without_float64_keep_their_borders() -> None:
    with pretended.device(float64=False):
        net = pinn.Windowed([pinn.mlp(2, [4], seed=k) for k in range(2)], [0.3]).to(pretended.DEVICE)
        assert net.borders.dtype == torch.float64 and net.borders.device.type == "cpu"
        assert net(torch.rand(3, 2).to(pretended.DEVICE)).device == pretended.DEVICE


def test_nothing_is_made_double_before_it_leaves_its_device() -> None:
    """`.double().cpu()` fails on mps, which has no float64; `.cpu().double()` works everywhere."""
    wrong = re.compile(r"(?<!\.cpu\(\))\.double\(\)\.(cpu|numpy)\(")
    places = [path for path in SOURCE.rglob("*.py") if wrong.search(path.read_text())]
    allowed = {"pinn/predictors/pinball.py", "pinn/surrogates/network.py"}  # networks of our own, on the CPU
    assert {str(path.relative_to(SOURCE)) for path in places} <= allowed
