"""Families: a problem with ranges for its coefficients, and solvers for all values in these ranges."""

from __future__ import annotations

import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from guardband.base.arrays import Array, ArrayLike, copy, floats, like, rows, to_numpy, to_torch
from guardband.base.kept import kept
from guardband.pinn.inverse.parametric import ParametricProblem
from guardband.pinn.misses.likelihood import Likelihood, typical_residual
from guardband.pinn.misses.sizes import sizes_of
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.networks.networks import mlp
from guardband.pinn.problems import AutogradField, Problem
from guardband.pinn.problems.base import as_problem
from guardband.pinn.problems.unknown import with_values
from guardband.pinn.training.recipe import AS_LONG_AS_IT_TAKES, Recipe
from guardband.pinn.training.train import fit
from guardband.predictors.models import evaluating
from guardband.values import Names
from guardband.values.labeled import placed

MOST = 4
"""The largest number of coefficients with ranges."""

SECONDS, POINTS = 100.0, 2048
"""The default limits of `Family.fit`: CPU seconds, and interior points."""

CHUNK = 2**16
"""The number of points that a network evaluates at once."""

DRAWN = 32
"""The number of random coefficients, in addition to the corners, at which the error of a solver is
measured."""

MARGIN = 1.5
"""The ratio of Delta to the largest error that was found."""

FIRST, NEXT = Recipe.by_newton(AS_LONG_AS_IT_TAKES, seconds=5.0), Recipe.by_newton(15)
"""Recipes for training at single values: for the first run, and for runs that start from a nearby solution. A
run that stops too early makes Delta larger."""

MISSES = 0.02
"""The relative size of residuals above which a warning is issued."""


@kept(
    parts=lambda family: {"problem": family.problem, "ranges": dict(family.ranges), "names": family.names},
    made=lambda parts: _made(parts),
    optional=("problem",),
)
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Family:
    """A class of problems with ranges of one to four coefficients.

    A coefficient is a field of the problem's dataclass. `fit` trains one network for the whole range,
    `solved_by` takes a solver function, and `exact` uses the exact solution of the problem.

    Parameters
    ----------
    problem
        The class of the problem, which should be a dataclass.
    **coefficients
        A range (low, high) for each unknown coefficient, or a number to keep a coefficient fixed.

    Attributes
    ----------
    ranges
        The range of each coefficient with a range.
    names
        The names of axes and outputs.

    Examples
    --------
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
    ranges: Mapping[str, tuple[float, float]]
    names: Names

    def __init__(self, problem: type[Problem], /, **coefficients: Any) -> None:
        if not (isinstance(problem, type) and issubclass(problem, Problem) and is_dataclass(problem)):
            raise TypeError(
                "A family takes a problem class that is a dataclass, as in "
                "pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)), got {problem!r:.80}."
            )
        known = [part.name for part in fields(problem)]
        for name in coefficients:
            if name not in known:
                others = f"has {', '.join(known)}" if known else "has none: write it as a dataclass field"
                raise ValueError(f"{problem.__name__} has no coefficient {name!r}; it {others}.")
        ranges = {n: _range(n, c) for n, c in coefficients.items() if isinstance(c, tuple | list)}
        if not 1 <= len(ranges) <= MOST:
            raise ValueError(
                f"One to {MOST} coefficients should have a range, {(known or ['rate'])[0]}=(0.1, 0.5), "
                f"got {len(ranges)}."
            )
        middles = {name: (low + high) / 2 for name, (low, high) in ranges.items()}
        made = as_problem(problem(**{**coefficients, **middles}))
        clash = [name for name in ranges if name in made.names.axes]
        if clash:
            raise ValueError(f"{clash[0]!r} is already the name of an axis. Rename the coefficient.")
        _fill(self, problem=made, ranges=ranges, names=made.names)

    def __repr__(self) -> str:
        kind = "a user-defined problem" if self.problem is None else type(self.problem).__name__
        ranges = [f"{name} from {low:g} to {high:g}" for name, (low, high) in self.ranges.items()]
        return f"Family({kind}, {', '.join(ranges)})"

    @property
    def lower(self) -> np.ndarray:
        """The lower ends of the ranges, shape (p,)."""
        return np.array([low for low, _ in self.ranges.values()])

    @property
    def upper(self) -> np.ndarray:
        """The upper ends of the ranges, shape (p,)."""
        return np.array([high for _, high in self.ranges.values()])

    @property
    def corners(self) -> np.ndarray:
        """All corners of the box of ranges, shape (2^p, p)."""
        return np.array(list(itertools.product(*self.ranges.values())))

    def drawn(self, k: int, seed: int = 0) -> np.ndarray:
        """Draw random values of all coefficients, uniform in their ranges.

        Parameters
        ----------
        k
            The number of values.
        seed
            The seed.

        Returns
        -------
        np.ndarray
            The values, shape (k, p).
        """
        unit = np.random.default_rng(seed).random((k, len(self.ranges)))
        return self.lower + unit * (self.upper - self.lower)

    def at(self, **coefficients: float) -> Problem:
        """Return the problem for given coefficients.

        Parameters
        ----------
        **coefficients
            One value for each coefficient with a range.

        Returns
        -------
        Problem
            The problem.
        """
        if {*coefficients} != {*self.ranges}:
            wanted = ", ".join(f"{name}=..." for name in self.ranges)
            raise ValueError(f"Each coefficient with a range should have one value, at({wanted}).")
        for name, value in coefficients.items():
            low, high = self.ranges[name]
            if not low <= value <= high:
                raise ValueError(f"`{name}` should lie in its range, {low:g} to {high:g}, got {value!r:.80}.")
        return replace(self.own, **{n: float(c) for n, c in coefficients.items()})  # type: ignore[type-var]

    @property
    def own(self) -> Problem:
        """The problem at the center of the ranges; refuse a family that was loaded without its problem."""
        if self.problem is None:
            raise ValueError(
                "This family was loaded without its problem, whose class is not part of guardband. Pass the "
                "problem when loading, gb.load(folder, pinn.SolvedFamily, problem=...)."
            )
        return self.problem

    @property
    def ranged(self) -> ParametricProblem:
        """The problem with its coefficients as the first axes of its domain."""
        return ParametricProblem(self.own, self.ranges)

    def solved_by(self, function: Callable[..., Array]) -> SolvedFamily:
        """Solve the family by a function.

        Parameters
        ----------
        function
            A function (x, **coefficients) -> u (n, m) in numpy or torch. It is called with points x (n, d)
            and one number per coefficient.

        Returns
        -------
        SolvedFamily
            The solved family.

        Examples
        --------
        >>> import numpy as np
        >>> from guardband import pinn
        >>> family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))
        >>> def solve(x, diffusivity):
        ...     return np.exp(-diffusivity * np.pi**2 * x[:, 1:]) * np.sin(np.pi * x[:, :1])
        >>> family.solved_by(solve)(np.array([[0.5, 0.0]]), [0.1, 0.2]).shape
        (2, 1, 1)
        """
        if not callable(function) or isinstance(function, type):
            raise TypeError(
                f"`function` should be a function (x, **coefficients) -> u that solves the problem, got "
                f"{function!r:.80}."
            )
        return SolvedFamily(self, ByFunction(function))

    def exact(self) -> SolvedFamily:
        """Solve the family by the exact `solution` of the problem.

        Returns
        -------
        SolvedFamily
            The solved family.

        Examples
        --------
        >>> from guardband import pinn
        >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
        >>> float(solved([[0.5, 0.0]], [0.1])[0, 0, 0])
        1.0
        """
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
        """Solve the family by one network of coefficients and coordinates, trained only on the equation.

        Parameters
        ----------
        net
            A network whose inputs are the coefficients, in the order of the ranges, and then the coordinates.
            By default `pinn.mlp` of the parametric problem.
        recipe
            The recipe. The default is Gauss-Newton steps until they no longer improve the loss, for at most
            100 CPU seconds.
        likelihood
            The likelihood, as in `pinn.fit`.
        seed
            The seed of the weights and points.
        progress
            Whether to show a progress bar.

        Returns
        -------
        SolvedFamily
            The solved family; `solved.check(x)` estimates its error.

        Examples
        --------
        >>> from guardband import pinn
        >>> family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.1, 0.2))
        >>> solved = family.fit(recipe=pinn.Recipe.by_newton(20), progress=False)
        >>> abs(float(solved([[0.5, 0.0]], [0.15])[0, 0, 0]) - 1) < 0.1
        True
        """
        ranged = self.ranged
        activation = (
            torch.tanh if self.names.space else torch.sin
        )  # solutions of ordinary differential equations often oscillate
        start = mlp(ranged, activation=activation, seed=seed).double() if net is None else net
        chosen = recipe or Recipe.by_newton(AS_LONG_AS_IT_TAKES, seconds=SECONDS, n_interior=POINTS)
        fitted = fit(ranged, start, recipe=chosen, likelihood=likelihood, seed=seed, progress=progress)
        return SolvedFamily(self, ByNetwork(fitted.net))


class Solver(ABC):
    """Base class of solvers of a family."""

    certain: bool = False
    """Whether the solver counts as exact by default."""

    @property
    def network(self) -> nn.Module | None:
        """The network of coefficients and coordinates that solves the family; None for other solvers."""
        return None

    @abstractmethod
    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """Return the solutions (k, n, m) at points x (n, d) for coefficients theta (k, p)."""


@kept
@dataclass(frozen=True, eq=False)
class ByNetwork(Solver):
    """A solver by one network whose inputs are the coefficients and the coordinates."""

    net: nn.Module

    @property
    def network(self) -> nn.Module:
        """The network."""
        return self.net

    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """Return the outputs of the network for all pairs of coefficients and points."""
        weight = next(self.net.parameters())
        at, values = to_torch(x).to(weight), torch.from_numpy(theta).to(weight)
        step = max(1, CHUNK // max(1, len(at)))
        with evaluating(self.net), torch.no_grad():
            parts = [self.net(_pairs(part, at)) for part in values.split(step)]
        return torch.cat(parts).view(len(theta), len(at), -1).cpu().double().numpy()


@kept
@dataclass(frozen=True, eq=False)
class ByFunction(Solver):
    """A solver by a function (x, **coefficients) -> u (n, m), called for one value at a time."""

    function: Callable[..., Array]
    certain = True

    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """Return the values of the function."""
        return np.stack([self._one(family, x, one) for one in theta])

    def _one(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        values = dict(zip(family.ranges, theta.tolist(), strict=True))
        found = to_numpy(floats(self.function(copy(x), **values), "the solver's answer")).astype(float)
        found = found[:, None] if found.ndim == 1 else found
        shape = len(x), len(family.names.outputs)
        at = ", ".join(f"{name} = {value:g}" for name, value in values.items())
        if found.shape != shape:
            raise ValueError(f"The solver should return shape {shape}, got {found.shape} at {at}.")
        if not np.isfinite(found).all():
            raise ValueError(
                f"The solver should return finite values, but does not at {at}. Narrow the range."
            )
        return found


@kept
@dataclass(frozen=True, eq=False)
class BySolution(Solver):
    """A solver by the exact `solution` of the problem, with columns of coefficients if it accepts them."""

    problem: Problem
    certain = True

    def __call__(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        """Return the solution, for all coefficients in one call if possible."""
        if self._takes_columns(family, x):
            return self._by_columns(family, x, theta)
        return np.stack([self._one(family, x, one) for one in theta])

    def _one(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        values = dict(zip(family.ranges, theta.tolist(), strict=True))
        found = with_values(self.problem, values).solution(to_torch(x).double())
        return to_numpy(found[:, None] if found.ndim == 1 else found)

    def _by_columns(self, family: Family, x: Array, theta: np.ndarray) -> np.ndarray:
        pairs = _pairs(torch.from_numpy(theta), to_torch(x).double())
        columns = {name: pairs[:, [i]] for i, name in enumerate(family.ranges)}
        found = with_values(self.problem, columns).solution(pairs[:, len(columns) :])
        return to_numpy(found).reshape(len(theta), len(x), -1)

    @cached_property
    def _known(self) -> dict[str, bool]:
        return {}

    def _takes_columns(self, family: Family, x: Array) -> bool:
        """Whether columns give the same results as numbers, tested once at a few points."""
        if "columns" not in self._known:
            theta, some = family.drawn(2), x[:3]
            single = np.stack([self._one(family, some, one) for one in theta])
            try:
                found = self._by_columns(family, some, theta)
                self._known["columns"] = found.shape == single.shape and np.allclose(found, single, rtol=1e-9)
            except (TypeError, ValueError, RuntimeError):
                self._known["columns"] = False
        return self._known["columns"]


@kept
@dataclass(frozen=True, eq=False, repr=False)
class SolvedFamily:
    """A family together with its solver; `solved(x, theta)` returns solutions for coefficients theta.

    Create it by `Family.fit`, `Family.solved_by` or `Family.exact`; pass it to `pinn.coefficients` and
    `pinn.next_points`. `gb.save` can store it if the solver is a network.

    Parameters
    ----------
    family
        The family.
    solver
        The solver.

    Examples
    --------
    >>> from guardband import pinn
    >>> family = pinn.Family(
    ...     pinn.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)
    ... )
    >>> solved = family.exact()
    >>> solved([[0.0], [1.0]], [[0.05, 6.0]]).shape
    (1, 2, 1)
    >>> solved.names, solved.ranges["damping"]
    (('damping', 'frequency'), (0.02, 0.12))
    """

    family: Family
    solver: Solver

    def __repr__(self) -> str:
        return f"SolvedFamily({self.family!r}, {type(self.solver).__name__})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients, in order."""
        return tuple(self.family.ranges)

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The lower and the upper end of the range of each coefficient."""
        return self.family.ranges

    def __call__(self, x: ArrayLike, theta: ArrayLike) -> Array:
        """Return the solutions (k, n, m) at points x (n, d) for coefficients theta, (k, p) or (k,)."""
        x = self.points(x)
        return like(x, self.solver(self.family, x, self.values(theta)))

    def points(self, x: ArrayLike) -> Array:
        """Return points as an array of the right shape, with columns in the order of the axes.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Array
            The points, shape (n, d).
        """
        axes = self.family.names.axes
        x = rows(placed(x, axes), "x")
        if x.ndim != 2 or x.shape[1] != len(axes):
            raise ValueError(
                f"`x` should have shape (n, {len(axes)}), one column for each of ({', '.join(axes)}), got "
                f"{tuple(x.shape)}."
            )
        return x

    def values(self, theta: ArrayLike) -> np.ndarray:
        """Return values of the coefficients as an array of the right shape.

        Parameters
        ----------
        theta
            Values, shape (k, p), or (k,) for one coefficient.

        Returns
        -------
        np.ndarray
            The values, shape (k, p).
        """
        found, p = to_numpy(rows(theta, "theta")).astype(float), len(self.names)
        if found.ndim != 2 or found.shape[1] != p:
            raise ValueError(
                f"`theta` should have shape (k, {p}), one column for each of {', '.join(self.names)}, got "
                f"{tuple(np.shape(theta))}. Pass one row per value, [[...]]."
            )
        return found

    def check(
        self,
        x: ArrayLike,
        solver: Callable[..., Array] | None = None,
        *,
        seed: int = 0,
        recipe: Recipe | None = None,
        progress: bool = True,
    ) -> float:
        """Estimate Delta, the largest error of the solver at measurements, as the length of a vector.

        Delta is 1.5 times the largest l2 error at these points over 32 random coefficients and all corners of
        the ranges. It is an estimate with a margin, not a bound. A warning is issued if a network violates
        its equation or a condition at fresh points.

        Parameters
        ----------
        x
            The points of the measurements, shape (n, d).
        solver
            A function (x, **coefficients) that returns the true solution. The default is the exact `solution`
            of the problem. Without a `solution`, networks are trained, each starting from the solution for
            nearby coefficients, which takes a few minutes.
        seed
            The seed of coefficients, points and training runs.
        recipe
            The recipe of the training runs.
        progress
            Whether to show a progress bar.

        Returns
        -------
        float
            Delta.

        Examples
        --------
        >>> from guardband import pinn
        >>> family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))
        >>> family.exact().check([[0.5, 0.5], [0.3, 0.1]])
        0.0
        """
        family, x = self.family, self.points(x)
        theta = np.concatenate([family.drawn(DRAWN, seed), family.corners])
        if self.solver.network is not None and family.problem is not None:
            warn_of_misses(self, seed)
        found = self.solver(family, x, theta)
        truth = _truth(family, x, theta, solver, seed, recipe, progress)
        return MARGIN * float(np.sqrt(np.square(found - truth).sum(axis=(1, 2))).max())


def has_solution(problem: Problem | None, x: Array) -> bool:
    """Whether a problem has an exact or reference solution."""
    try:
        return problem is not None and problem.solution(to_torch(x).double()[:1]) is not None
    except NotImplementedError:
        return False


def _truth(
    family: Family,
    x: Array,
    theta: np.ndarray,
    solver: Callable[..., Array] | None,
    seed: int,
    recipe: Recipe | None,
    progress: bool,
) -> np.ndarray:
    if solver is not None:
        return ByFunction(solver)(family, x, theta)
    if has_solution(family.problem, x):
        return BySolution(family.own)(family, x, theta)
    return _by_trainings(family, x, theta, recipe, seed + 1, progress)


def _by_trainings(
    family: Family, x: Array, theta: np.ndarray, recipe: Recipe | None, seed: int, progress: bool
) -> np.ndarray:
    """Solutions for single coefficients by independent networks.

    Each training run starts from the solution for nearby coefficients, which saves most of the time.
    """
    found: dict[int, np.ndarray] = {}
    net = mlp(family.own, seed=seed).double()
    path = _path((theta - family.lower) / (family.upper - family.lower))
    for k in tqdm(path, desc="check", unit="training", disable=not progress):
        problem = family.at(**dict(zip(family.ranges, theta[k].tolist(), strict=True)))
        chosen = recipe or (NEXT if found else FIRST)
        fitted = fit(problem, net, recipe=chosen, seed=seed, progress=False)
        found[k], net = to_numpy(floats(fitted(x), "the answer")).astype(float), fitted.net
    return np.stack([found[k] for k in range(len(theta))])


def _path(unit: np.ndarray) -> list[int]:
    """An order of points (k, p) in the unit box, from the center to the nearest remaining point each time."""
    left, path, at = list(range(len(unit))), list[int](), np.full(unit.shape[1], 0.5)
    while left:
        nearest = min(left, key=lambda k: float(np.square(unit[k] - at).sum()))
        left.remove(nearest)
        path.append(nearest)
        at = unit[nearest]
    return path


def warn_of_misses(solved: SolvedFamily, seed: int) -> None:
    """Warn if a network violates an equation or a condition at fresh points."""
    for name, share in misses_of(solved, seed).items():
        if share > MISSES:
            warnings.warn(
                f"At fresh points the network misses {name!r} by {100 * share:.2g} % of its own terms. "
                "Train it longer, or narrow the ranges.",
                stacklevel=3,
            )


def misses_of(solved: SolvedFamily, seed: int = 0) -> dict[str, float]:
    """The residuals of a family's network for each equation and condition, as a share of their terms."""
    ranged, net = solved.family.ranged, solved.solver.network
    assert net is not None
    generator = torch.Generator().manual_seed(seed)
    like = next(net.parameters())
    x = ranged.domain.uniform(1024, generator, dtype=torch.float64).to(like)
    sizes = sizes_of(ranged, like.new_zeros(0, len(ranged.names.outputs)))
    titles = titles_of(ranged, net, x)
    columns = (
        ranged.misses(x, AutogradField(net, x, ranged.names)).detach().split([*titles.equations.values()], 1)
    )
    terms = typical_residual(ranged, ranged.misses, None, sizes).split([*titles.equations.values()])
    found = {
        name: _share(miss, typical)
        for name, miss, typical in zip(titles.equations, columns, terms, strict=True)
    }
    for name, condition in titles.conditions.items():
        edge = condition.points(ranged.domain, 256, generator).to(like)
        field = AutogradField(net, edge.points, ranged.names, edge.normals)
        miss = condition.residual(edge.points, field).detach()
        found[name] = _share(miss, typical_residual(ranged, condition.residual, condition, sizes))
    return found


def _share(miss: torch.Tensor, typical: torch.Tensor) -> float:
    """The root mean square of a residual, relative to that of its terms."""
    return float(miss.double().square().mean().sqrt() / typical.square().mean().sqrt().clamp(min=1e-300))


def _range(name: str, given: Sequence[float]) -> tuple[float, float]:
    two = len(given) == 2 and all(isinstance(end, Real) and math.isfinite(end) for end in given)
    if not two or not given[0] < given[1]:
        raise ValueError(
            f"The range of `{name}` should be two numbers, the lower one first, got {given!r:.80}. "
            "Pass a number to keep it fixed."
        )
    return float(given[0]), float(given[1])


def _fill(family: Family, **parts: object) -> None:
    for name, part in parts.items():
        object.__setattr__(family, name, part)


def _made(parts: dict[str, Any]) -> Family:
    ranges = {str(name): _range(str(name), tuple(ends)) for name, ends in parts["ranges"].items()}
    if not 1 <= len(ranges) <= MOST:
        raise ValueError(f"One to {MOST} coefficients should have a range, got {len(ranges)}.")
    family = object.__new__(Family)
    _fill(family, problem=parts["problem"], ranges=ranges, names=parts["names"])
    return family


def _pairs(theta: Tensor, x: Tensor) -> Tensor:
    """All pairs of coefficients and points, (k n, p + d)."""
    k, n = len(theta), len(x)
    return torch.cat([theta.repeat_interleave(n, dim=0), x.repeat(k, 1)], dim=1)
