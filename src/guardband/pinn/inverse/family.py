"""Families: a problem with ranges of its coefficients, to be solved for all of them at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from guardband.base.kept import kept
from guardband.pinn.inverse.ranged import Ranged
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.networks.networks import mlp
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import as_problem
from guardband.pinn.training.recipe import AS_LONG_AS_IT_TAKES, Recipe
from guardband.pinn.training.train import fit
from guardband.values import Names

if TYPE_CHECKING:
    from guardband.pinn.inverse.solved import SolvedFamily

MOST = 4
"""So many coefficients may have ranges."""

SECONDS, POINTS = 100.0, 2048
"""What `Family.fit` takes at most, unless a recipe says otherwise: CPU seconds, and points inside."""


@kept(
    parts=lambda family: {"problem": family.problem, "ranges": dict(family.ranges), "names": family.names},
    made=lambda parts: _made(parts),
    optional=("problem",),
)
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Family:
    """A class of problems with ranges (low, high) of one to four coefficients; other numbers stay fixed.

    A coefficient is a field of the dataclass that the problem is. `fit` trains one network for the whole
    range, `solved_by` takes a solver of your own, `exact` the problem's own `solution`.

    >>> from guardband import pinn
    >>> family = pinn.Family(
    ...     pinn.problems.DampedOscillator, frequency=(5.5, 7.0), damping=0.1
    ... )
    >>> family
    Family(DampedOscillator, frequency from 5.5 to 7)
    >>> family.at(frequency=6.0)
    DampedOscillator(damping=0.1, frequency=6.0, start=1.0, velocity=0.0)
    """

    problem: Problem
    """The problem in the middle of all ranges."""
    ranges: Mapping[str, tuple[float, float]]
    names: Names
    """What axes and outputs are called."""

    def __init__(self, problem: type[Problem], /, **coefficients: Any) -> None:
        if not (isinstance(problem, type) and issubclass(problem, Problem) and is_dataclass(problem)):
            raise TypeError(
                "A family is made of a class of problems, which is a dataclass: "
                f"pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)), got {problem!r:.80}."
            )
        known = [part.name for part in fields(problem)]
        for name in coefficients:
            if name not in known:
                said = f"has {', '.join(known)}" if known else "has none: write it as a dataclass field"
                raise ValueError(f"{problem.__name__} has no coefficient {name!r}; it {said}.")
        ranges = {n: _range(n, c) for n, c in coefficients.items() if isinstance(c, tuple | list)}
        if not 1 <= len(ranges) <= MOST:
            raise ValueError(
                f"One to {MOST} coefficients should have a range, {(known or ['rate'])[0]}=(0.1, 0.5), "
                f"got {len(ranges)} that have one."
            )
        middles = {name: (low + high) / 2 for name, (low, high) in ranges.items()}
        made = as_problem(problem(**{**coefficients, **middles}))
        clash = [name for name in ranges if name in made.names.axes]
        if clash:
            raise ValueError(f"{clash[0]!r} is an axis already; give the coefficient another name.")
        _fill(self, problem=made, ranges=ranges, names=made.names)

    def __repr__(self) -> str:
        kind = "a problem of yours" if self.problem is None else type(self.problem).__name__
        said = [f"{name} from {low:g} to {high:g}" for name, (low, high) in self.ranges.items()]
        return f"Family({kind}, {', '.join(said)})"

    @property
    def lower(self) -> np.ndarray:
        """The lower ends of the ranges, (p,)."""
        return np.array([low for low, _ in self.ranges.values()])

    @property
    def upper(self) -> np.ndarray:
        """The upper ends of the ranges, (p,)."""
        return np.array([high for _, high in self.ranges.values()])

    @property
    def corners(self) -> np.ndarray:
        """All corners of the box of the ranges, (2^p, p)."""
        return np.array(list(itertools.product(*self.ranges.values())))

    def drawn(self, k: int, seed: int = 0) -> np.ndarray:
        """k random values of all coefficients, uniform in the ranges, (k, p)."""
        unit = np.random.default_rng(seed).random((k, len(self.ranges)))
        return self.lower + unit * (self.upper - self.lower)

    def at(self, **coefficients: float) -> Problem:
        """The problem with these coefficients, one value for each that has a range."""
        if {*coefficients} != {*self.ranges}:
            wanted = ", ".join(f"{name}=..." for name in self.ranges)
            raise ValueError(f"Each coefficient with a range takes one value: at({wanted}).")
        for name, value in coefficients.items():
            low, high = self.ranges[name]
            if not low <= value <= high:
                raise ValueError(f"`{name}` should lie in its range, {low:g} to {high:g}, got {value!r:.80}.")
        return replace(self.own, **{n: float(c) for n, c in coefficients.items()})  # type: ignore[type-var]

    @property
    def own(self) -> Problem:
        """The problem, which has to be there."""
        if self.problem is None:
            raise ValueError(
                "This family was loaded without its problem, whose class is your own. Pass it at load: "
                "gb.load(folder, pinn.SolvedFamily, problem=...)."
            )
        return self.problem

    @property
    def ranged(self) -> Ranged:
        """The problem with its coefficients as the first axes of its domain."""
        return Ranged(self.own, self.ranges)

    def solved_by(self, function: Callable[..., Any]) -> SolvedFamily:
        """Solved by a function of your own: (x, **coefficients) -> u (n, m), numpy or torch.

        It is called with x (n, d) and one number for each coefficient.

        >>> import numpy as np
        >>> from guardband import pinn
        >>> family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))
        >>> def solve(x, diffusivity):
        ...     return np.exp(-diffusivity * np.pi**2 * x[:, 1:]) * np.sin(np.pi * x[:, :1])
        >>> family.solved_by(solve)(np.array([[0.5, 0.0]]), [0.1, 0.2]).shape
        (2, 1, 1)
        """
        from guardband.pinn.inverse.solved import ByFunction, SolvedFamily

        if not callable(function) or isinstance(function, type):
            raise TypeError(
                f"`function` should solve the problem, (x, **coefficients) -> u, got {function!r:.80}."
            )
        return SolvedFamily(self, ByFunction(function))

    def exact(self) -> SolvedFamily:
        """Solved by the problem's own `solution`.

        >>> from guardband import pinn
        >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
        >>> float(solved([[0.5, 0.0]], [0.1])[0, 0, 0])
        1.0
        """
        from guardband.pinn.inverse.solved import BySolution, SolvedFamily

        return SolvedFamily(self, BySolution(self.own))

    def fit(
        self,
        net: nn.Module | None = None,
        *,
        recipe: Recipe | None = None,
        likelihood: Likelihood | None = None,
        seed: int = 0,
        progress: bool = True,
    ) -> SolvedFamily:
        """Solved by one network over coefficients and coordinates, trained on the equation alone.

        The inputs of `net` are the coefficients, in the order of the ranges, and then the coordinates;
        without one it is `pinn.mlp` of that problem. By default Gauss-Newton steps are made until they no
        longer pay, or for 100 CPU seconds. `solved.check(x)` says how far it is off.

        >>> from guardband import pinn
        >>> family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.1, 0.2))
        >>> solved = family.fit(recipe=pinn.Recipe.by_newton(20), progress=False)
        >>> abs(float(solved([[0.5, 0.0]], [0.15])[0, 0, 0]) - 1) < 0.1
        True
        """
        from guardband.pinn.inverse.solved import ByNetwork, SolvedFamily

        ranged = self.ranged
        activation = torch.tanh if self.names.space else torch.sin  # what has no space swings
        start = mlp(ranged, activation=activation, seed=seed).double() if net is None else net
        chosen = recipe or Recipe.by_newton(AS_LONG_AS_IT_TAKES, seconds=SECONDS, n_interior=POINTS)
        fitted = fit(ranged, start, recipe=chosen, likelihood=likelihood, seed=seed, progress=progress)
        return SolvedFamily(self, ByNetwork(fitted.net))


def _range(name: str, given: Any) -> tuple[float, float]:
    two = len(given) == 2 and all(isinstance(end, Real) and math.isfinite(end) for end in given)
    if not two or not given[0] < given[1]:
        raise ValueError(
            f"The range of `{name}` should be two numbers, the lower one first, got {given!r:.80}. A number "
            "alone keeps it fixed."
        )
    return float(given[0]), float(given[1])


def _fill(family: Family, **parts: Any) -> None:
    for name, part in parts.items():
        object.__setattr__(family, name, part)


def _made(parts: dict[str, Any]) -> Family:
    ranges = {str(name): _range(str(name), tuple(ends)) for name, ends in parts["ranges"].items()}
    if not 1 <= len(ranges) <= MOST:
        raise ValueError(f"One to {MOST} coefficients should have a range, got {len(ranges)}.")
    family = object.__new__(Family)
    _fill(family, problem=parts["problem"], ranges=ranges, names=parts["names"])
    return family
