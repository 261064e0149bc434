"""The runs on which the verdict is measured: ten kinds, on two halves of the problems.

The list was fixed before any threshold was chosen. Thresholds are chosen on the problems of the first half,
and figures are reported on those of the second. A kind names the intended failure; the outcome is measured
with respect to the solution.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.integrate import solve_bvp
from torch import Tensor

from guardband import pinn
from guardband.pinn.problems import Condition, Field, catalogue
from guardband.pinn.problems.field import Columns


@dataclass(frozen=True)
class Bistable(pinn.Problem):
    """0.05 u'' + u (u^2 - 1) = f on [-1, 1], u = 0 at both ends; one solution is sin(pi x)."""

    domain = pinn.Segment(-1, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return 0.05 * u.d("x", "x") + u.value * (u.value**2 - 1) - self.forcing(x)

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(0.0)]

    def forcing(self, x: Tensor) -> Tensor:
        u = self.solution(x)
        return -0.05 * torch.pi**2 * u + u * (u**2 - 1)

    def solution(self, x: Tensor) -> Tensor:
        return torch.sin(torch.pi * x)

    def another(self, x: Tensor, number: int) -> Tensor:
        """Another solution, found from a wave of given amplitude and number of half waves."""
        height, waves = ((-0.5, 0.5), (-1.5, 1.5), (1.0, 1.0), (-3.0, 2.0))[number % 4]
        nodes = np.linspace(-1, 1, 201)
        angle = waves * np.pi * (nodes + 1)

        def slope(x: Any, y: Any) -> Any:
            forcing = self.forcing(torch.from_numpy(x)).numpy()
            return np.stack([y[1], (forcing - y[0] * (y[0] ** 2 - 1)) / 0.05])

        start = np.stack([height * np.sin(angle), height * waves * np.pi * np.cos(angle)])
        found = solve_bvp(slope, lambda low, high: np.array([low[0], high[0]]), nodes, start)
        return torch.from_numpy(found.sol(x[:, 0].numpy())[0])[:, None]


@dataclass(frozen=True)
class Bratu(pinn.Problem):
    """u'' + exp(u) = 0 on [0, 1], u = 0 at both ends; its two solutions have maxima of 0.14 and 4."""

    domain = pinn.Segment(0, 1)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("x", "x") + torch.exp(u.value)

    def conditions(self) -> list[Condition]:
        return [pinn.Dirichlet(0.0)]

    def solution(self, x: Tensor) -> Tensor:
        return self._branch(x, 1.517164599)

    def another(self, x: Tensor, number: int) -> Tensor:
        """The solution with the larger maximum."""
        return self._branch(x, 10.938702772)

    def _branch(self, x: Tensor, theta: float) -> Tensor:
        return -2 * torch.log(torch.cosh((x - 0.5) * theta / 2) / math.cosh(theta / 4))


@dataclass(frozen=True)
class Changed(pinn.Problem):
    """A problem with a typo: some derivatives in its equation are multiplied by a factor."""

    true: pinn.Problem
    derivatives: tuple[tuple[int, ...], ...]
    factor: float

    def __post_init__(self) -> None:
        vars(self).update(domain=self.true.domain, outputs=self.true.outputs)

    def residual(self, x: Tensor, u: Field) -> Any:
        return self.true.residual(x, _Times(u, self.derivatives, self.factor))

    def conditions(self) -> Any:
        return self.true.conditions()


class _Times(Field):
    """A field with some of its derivatives multiplied by a factor."""

    def __init__(self, field: Field, derivatives: tuple[tuple[int, ...], ...], factor: float) -> None:
        super().__init__(field.x, field.names, field.normals)
        self._field, self._derivatives, self._factor = field, derivatives, factor

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        found = self._field.partial(axes, columns)
        return self._factor * found if axes in self._derivatives else found


@dataclass(frozen=True)
class Without(pinn.Problem):
    """A problem with one condition missing."""

    true: pinn.Problem
    number: int

    def __post_init__(self) -> None:
        vars(self).update(domain=self.true.domain, outputs=self.true.outputs)

    def residual(self, x: Tensor, u: Field) -> Any:
        return self.true.residual(x, u)

    def conditions(self) -> Any:
        return [c for i, c in enumerate(self.true.conditions()) if i != self.number]


PROBLEMS: dict[str, dict[str, pinn.Problem]] = {
    "first": {
        "Poisson1D": catalogue.Poisson1D(),
        "DampedOscillator": catalogue.DampedOscillator(),
        "Beam": catalogue.Beam(),
        "Beam, load 1000": catalogue.Beam(load=1000.0),
        "Burgers1D": catalogue.Burgers1D(),
        "Wave1D": catalogue.Wave1D(),
        "AllenCahn2D": catalogue.AllenCahn2D(),
        "Kovasznay": catalogue.Kovasznay(),
        "ReactionDiffusion1D": catalogue.ReactionDiffusion1D(),
        "ReactionDiffusion1D, thin": catalogue.ReactionDiffusion1D(diffusion=2e-4),
        "HeatDisk": catalogue.HeatDisk(),
        "TaylorGreen2D": catalogue.TaylorGreen2D(),
        "Bistable": Bistable(),
    },
    "second": {
        "Heat1D": catalogue.Heat1D(),
        "LotkaVolterra": catalogue.LotkaVolterra(),
        "AllenCahn1D": catalogue.AllenCahn1D(),
        "Cavity": catalogue.Cavity(),
        "VibratingBeam": catalogue.VibratingBeam(),
        "VibratingBeam, soft": catalogue.VibratingBeam(stiffness=0.2),
        "Helmholtz3D": catalogue.Helmholtz3D(),
        "Advection1D": catalogue.Advection1D(),
        "Advection1D, slow": catalogue.Advection1D(speed=2.0),
        "PlateWithHole": catalogue.PlateWithHole(),
        "KortewegDeVries": catalogue.KortewegDeVries(),
        "PoissonLShape": catalogue.PoissonLShape(),
        "PoissonLShape, load 1000": catalogue.PoissonLShape(load=1000.0),
        "Bratu": Bratu(),
    },
}
"""The problems on which thresholds are chosen, and those on which figures are reported."""

RECIPES = {
    "newton": pinn.Recipe.by_newton(300, seconds=4, n_interior=1024),
    "3 steps": pinn.Recipe.by_newton(3),
    "8 steps": pinn.Recipe.by_newton(8),
    "16 steps": pinn.Recipe.by_newton(16),
    "few points": pinn.Recipe.by_newton(300, seconds=4, n_interior=100),
    "adam": pinn.Recipe(steps=300, finish=600, seconds=4),
}

KINDS = (
    "good",
    "starved",
    "stuck",
    "badly scaled",
    "front missed",
    "wrong sign",
    "missing condition",
    "wrong coefficient",
    "noisy data",
    "spurious",
)

WRONG = ("wrong sign", "missing condition", "wrong coefficient")
"""Kinds that solve a problem other than the true one; their 30 readings come from the true one."""

SECOND_X, SECOND_Y = (0, 0), (1, 1)

SIGNS: dict[str, tuple[tuple[int, ...], ...]] = {
    "Poisson1D": (SECOND_X,),
    "DampedOscillator": ((0,),),
    "AllenCahn2D": (SECOND_X, SECOND_Y),
    "Beam": ((0, 0, 0, 0),),
    "Helmholtz3D": ((),),
    "Advection1D, slow": ((0,),),
    "Heat1D": (SECOND_X,),
    "PoissonLShape": (SECOND_X, SECOND_Y),
}

COEFFICIENTS: dict[str, tuple[tuple[tuple[int, ...], ...], float]] = {
    "Poisson1D": ((SECOND_X,), 1.5),
    "DampedOscillator": (((),), 1.5),
    "ReactionDiffusion1D": (((1,),), 1.5),
    "Kovasznay": ((SECOND_X, SECOND_Y), 4.0),
    "Heat1D": ((SECOND_X,), 1.5),
    "Helmholtz3D": (((),), 2.0),
    "VibratingBeam, soft": (((0, 0, 0, 0),), 1.5),
    "Advection1D, slow": (((0,),), 1.5),
}

MISSING = {
    "Poisson1D": 0,
    "Beam": 2,
    "ReactionDiffusion1D": 1,
    "HeatDisk": 1,
    "Heat1D": 1,
    "Helmholtz3D": 0,
    "Advection1D, slow": 1,
    "PoissonLShape": 0,
}


class Run(NamedTuple):
    """One training run: its kind, problem, seed and recipe."""

    half: str
    kind: str
    problem: str
    seed: int
    recipe: str

    @property
    def true(self) -> pinn.Problem:
        """The problem with the intended solution."""
        return PROBLEMS["first" if self.half == "first" else "second"][self.problem]

    @property
    def given(self) -> pinn.Problem:
        """The problem that is solved and judged."""
        if self.kind == "wrong sign":
            return Changed(self.true, SIGNS[self.problem], -1.0)
        if self.kind == "wrong coefficient":
            return Changed(self.true, *COEFFICIENTS[self.problem])
        if self.kind == "missing condition":
            return Without(self.true, MISSING[self.problem])
        return self.true


def runs() -> list[Run]:
    """All runs by kind, those from fresh seeds last."""
    return [*_runs(), *_fresh()]


def _runs() -> Iterator[Run]:
    for half, problems, times in (
        (
            "first",
            "Poisson1D DampedOscillator Beam AllenCahn2D Kovasznay ReactionDiffusion1D HeatDisk Wave1D",
            3,
        ),
        ("second", "Heat1D LotkaVolterra Helmholtz3D Advection1D,_slow VibratingBeam,_soft PlateWithHole", 4),
    ):
        yield from _some(half, "good", problems, times, ["newton"])
    for half, problems in (
        ("first", "Poisson1D DampedOscillator Burgers1D Wave1D Beam Kovasznay ReactionDiffusion1D HeatDisk"),
        (
            "second",
            "Heat1D LotkaVolterra Helmholtz3D Cavity VibratingBeam Advection1D,_slow PoissonLShape Bratu",
        ),
    ):
        yield from _some(half, "starved", problems, 2, ["3 steps", "8 steps", "16 steps"])
    for half, problems in (
        ("first", "DampedOscillator Beam Wave1D TaylorGreen2D"),
        ("second", "LotkaVolterra Advection1D VibratingBeam PlateWithHole"),
    ):
        yield from _some(half, "stuck", problems, 4, ["adam"])
    for half, problems in (
        ("first", "Poisson1D HeatDisk Kovasznay Beam,_load_1000"),
        ("second", "Heat1D Helmholtz3D LotkaVolterra PoissonLShape,_load_1000"),
    ):
        yield from _some(half, "badly scaled", problems, 4, ["adam"])
    for half, problems in (
        ("first", "Burgers1D ReactionDiffusion1D,_thin"),
        ("second", "AllenCahn1D KortewegDeVries"),
    ):
        yield from _some(half, "front missed", problems, 8, ["few points", "adam"])
    for kind, table in zip(WRONG, (SIGNS, MISSING, COEFFICIENTS), strict=True):
        for half, known in PROBLEMS.items():
            names = " ".join(name.replace(" ", "_") for name in table if name in known)
            yield from _some(half, kind, names, 4, ["newton"])
    for half, problems in (
        ("first", "Poisson1D DampedOscillator AllenCahn2D Kovasznay"),
        ("second", "Heat1D LotkaVolterra Helmholtz3D PlateWithHole"),
    ):
        yield from _some(half, "noisy data", problems, 4, ["newton"])
    yield from _some("first", "spurious", "Bistable AllenCahn2D", 8, ["newton"])
    yield from _some("second", "spurious", "Bratu", 8, ["newton"])
    yield from _some("second", "spurious", "Cavity LotkaVolterra", 4, ["adam"])


def _fresh() -> Iterator[Run]:
    """The second half with new seeds, and fewer runs of most kinds.

    They were listed after a rule was changed in view of the second half, and before they were run.
    """
    taken = dict[tuple[str, str], int]()
    for run in _runs():
        most = 4 if run.kind in ("good", "noisy data") else 1 if run.kind == "starved" else 2
        if run.half == "second" and taken.get(run[1:3], 0) < most:
            taken[run[1:3]] = taken.get(run[1:3], 0) + 1
            yield run._replace(half="fresh", seed=run.seed + 2000)


def _some(half: str, kind: str, problems: str, times: int, recipes: list[str]) -> Iterator[Run]:
    for word in problems.split():
        for i in range(times):
            seed = 1000 + 100 * KINDS.index(kind) + i
            yield Run(half, kind, word.replace("_", " "), seed, recipes[(i + len(word)) % len(recipes)])
