"""What several tests share; above all a "PINN" whose posterior is known in closed form.

It is a straight line under a linear equation.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from guardband import Observations, Predictor
from guardband.arrays import Array
from guardband.conformal import Calibrator, Score
from guardband.conformal.local.shape import LocalShape
from guardband.kept import _KINDS, Kind
from guardband.pinn import Fitted, Likelihood, Recipe
from guardband.problems import Box, Condition, Field, Problem

ROOT = Path(__file__).parent.parent


def script(path: str) -> Any:
    """A script of the repository, such as "tools/docs/blocks.py", as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_script", ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Later:
    """A package that is imported when a test first uses it, so that collecting tests costs nothing.

    A test that uses a package which is not installed is skipped.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest_")):  # asked for while tests are collected
            raise AttributeError(attribute)
        return getattr(pytest.importorskip(self._name), attribute)


def needs(*packages: str) -> pytest.MarkDecorator:
    """Mark tests that are skipped unless these packages are installed, without importing them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def forget_foreign_kinds() -> dict[str, Kind]:
    """Forget the classes that are kept and not of guardband's own, and return them."""
    foreign = [name for name, kind in _KINDS.items() if not kind.cls.__module__.startswith("guardband.")]
    return {name: _KINDS.pop(name) for name in foreign}


N, INSIDE = 10, 8
"""Measurements, and points at which the equation is looked at."""

LIKELIHOOD = Likelihood(data=0.5, physics=0.8, boundary=1.0)


@dataclass(frozen=True, eq=False)
class Relaxation(Problem):
    """u' + u = f on [0, 1], f being known at the points where the equation is looked at."""

    f: Tensor
    domain = Box((0,), (1,))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d(0) + u.value - self.f[: len(x)].to(x)

    def conditions(self) -> list[Condition]:
        return []


def places() -> tuple[Tensor, Tensor]:
    """Where u is measured, and where the equation is looked at (as `Potential` with seed 0 does)."""
    return torch.linspace(0, 1, N, dtype=torch.float64)[:, None], Relaxation.domain.quasi(
        INSIDE, seed=0
    ).double()


def design() -> tuple[Tensor, Tensor]:
    """Rows of what is seen, as linear functions of (slope, offset), and the noise of each."""
    x, inside = places()
    data = torch.cat([x, torch.ones_like(x)], dim=1)
    equation = torch.cat([1 + inside, torch.ones_like(inside)], dim=1)
    assert LIKELIHOOD.physics is not None
    noise = [LIKELIHOOD.data] * N + [LIKELIHOOD.physics * (INSIDE / N) ** 0.5] * INSIDE
    return torch.cat([data, equation]), torch.tensor(noise, dtype=torch.float64)


def simulate(theta: Tensor, generator: torch.Generator) -> tuple[Fitted, Tensor]:
    """What is seen when theta is true: a `Fitted` that starts at zero, and the targets of all rows."""
    rows, noise = design()
    seen = rows @ theta + noise * torch.randn(len(noise), generator=generator, dtype=torch.float64)
    x, _ = places()
    net = nn.Linear(1, 1).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    problem = Relaxation(seen[N:, None])
    recipe = Recipe(n_interior=INSIDE)
    return Fitted(net, problem, Observations(x, seen[:N, None]), LIKELIHOOD, recipe, []), seen


def posterior(seen: Tensor, sd: float = 1.0) -> tuple[Tensor, Tensor]:
    """The mean (2,) and the covariance (2, 2) of (slope, offset) given what was seen."""
    rows, noise = design()
    scaled = rows / noise[:, None]
    covariance = torch.linalg.inv(scaled.T @ scaled + torch.eye(2, dtype=torch.float64) / sd**2)
    return covariance @ scaled.T @ (seen / noise), covariance


@dataclass(frozen=True, eq=False)
class Shaped(Calibrator):
    """Local conformal prediction with a shape that is known already."""

    shape: Any
    make: type[LocalShape] = LocalShape

    def learn(self, predictor: Predictor | None, score: Score) -> LocalShape:
        return self.make(self.shape, None)

    def threshold(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def scale(predictor: Predictor, x: Array) -> Array:
    """The scale at x of a predictor that has one."""
    found = predictor(x).scale
    assert found is not None
    return found
