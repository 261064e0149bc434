"""Recipes: the schedule, learning rates and points of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TypeAlias

from guardband.base.kept import kept
from guardband.pinn.networks.windows import starts
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import as_problem

Counts: TypeAlias = tuple[int, int, int]
"""The numbers of steps of Adam, Gauss-Newton and L-BFGS."""

AS_LONG_AS_IT_TAKES = 100_000
"""The largest number of Gauss-Newton steps of a run with a budget."""

WINDOWS = 5
"""The number of time windows for an evolution equation without data; up to twice as many with a budget."""

EACH, EACH_ALONE = 10.0, 2.0
"""The budget of a window in CPU seconds, in space and time, and in time alone."""

TRIAL, TRIAL_STEPS = 0.1, 0.2
"""The shares of a budget and of the steps in which a single network is tried for all times."""


@kept
@dataclass(frozen=True)
class Recipe:
    """The schedule of a training: Adam, then Gauss-Newton steps, then L-BFGS.

    `pinn.Recipe()` is the recipe of guardband version 0.1; `Recipe.automatic(problem)` is the default of
    `pinn.fit`.

    Parameters
    ----------
    steps
        The number of steps of Adam.
    learning_rate
        The largest learning rate of Adam.
    warmup
        The number of steps in which the learning rate rises to its largest value.
    decay
        `(every, factor)` multiplies the learning rate by the factor every `every` steps. The default is a
        cosine decay to a tenth of the largest rate.
    batch
        The number of points in a random batch of Adam; None uses all points at every step.
    n_interior
        The number of fixed interior points, by default 256 in one dimension and 768 otherwise, or the numbers
        per axis of an even grid. It is also the largest number of points of Gauss-Newton steps. Their default
        is 512 in one dimension and 1024 otherwise, and up to four times as many once these no longer help.
    n_boundary
        The number of points for each condition.
    even
        Whether the fixed points are evenly spaced.
    anneal
        The initial physics scale relative to its final value. It decreases over the first half of Adam's
        steps or, with data and without Adam, over the first 15 Gauss-Newton steps. The data therefore shape
        the field first, and then the equation sharpens it.
    finish
        The largest number of iterations of L-BFGS.
    min_improvement
        L-BFGS stops when fifty iterations improve the loss by less than this share.
    newton
        The largest number of damped Gauss-Newton steps, in float64, on points that follow the residual.
    seconds
        The budget of the whole run, in CPU seconds of its thread.
    windows
        The number of time windows of an evolution equation. Each window has all of these steps and starts
        from the end of the previous window.
    trial
        The share of the steps or seconds in which one network is first trained for all times. If it has
        converged by then, according to `pinn.verdict`, it continues alone with all steps or seconds.
    counts
        The steps of each kind in each window, as recorded by a finished run. A recipe with counts repeats
        exactly these steps, regardless of its other limits.
    patience
        The number of history rows without a smaller error on held-out readings after which a run ends. The
        network with the smallest error is kept.

    Examples
    --------
    >>> from guardband import pinn
    >>> thorough = pinn.Recipe(steps=3000, finish=5000)
    >>> thorough.n_boundary
    384
    """

    steps: int = 800
    learning_rate: float = 3e-3
    warmup: int = 100
    decay: tuple[int, float] | None = None
    batch: int | None = 256
    n_interior: int | tuple[int, ...] | None = None
    n_boundary: int = 384
    even: bool = False
    anneal: float = 50.0
    finish: int = 1500
    min_improvement: float = 0.01
    newton: int = field(default=0, metadata={"neutral": 0})
    seconds: float | None = field(default=None, metadata={"neutral": None})
    windows: int = field(default=1, metadata={"neutral": 1})
    trial: float = field(default=0.0, metadata={"neutral": 0.0})
    counts: tuple[Counts, ...] | None = field(default=None, metadata={"neutral": None})
    patience: int | None = field(default=None, metadata={"neutral": None})

    @classmethod
    def automatic(
        cls, problem: Problem, *, data: bool = False, seconds: float | None = None, windows: int | None = None
    ) -> Recipe:
        """Return the default recipe of `pinn.fit`: Gauss-Newton steps, in time windows if they help.

        It has 400 steps, or as many as a budget allows. An evolution equation with an initial condition and
        without data is solved in five windows. With a budget, each window has at least 10 s, with at most ten
        windows; without spatial axes, each window has at least 2 s, with at most five windows. One network
        for all times is tried first, for a fifth of the steps or a tenth of the budget.

        Parameters
        ----------
        problem
            The problem.
        data
            Whether there are training data, which determine all times at once, so that one window suffices.
        seconds
            The budget in CPU seconds.
        windows
            The number of windows, without a trial.

        Returns
        -------
        Recipe
            The recipe.

        Examples
        --------
        >>> from guardband import pinn
        >>> recipe = pinn.Recipe.automatic(pinn.problems.Burgers1D())
        >>> recipe.newton, recipe.windows
        (80, 5)
        """
        found = _windows(problem, seconds) if windows is None and not data else windows or 1
        steps = 400 // max(1, found) if seconds is None else AS_LONG_AS_IT_TAKES
        share = TRIAL_STEPS if seconds is None else TRIAL
        trial = share if windows is None and found > 1 else 0.0
        return cls(steps=0, finish=0, newton=steps, seconds=seconds, windows=found, trial=trial)

    @classmethod
    def by_newton(
        cls, steps: int = 400, *, seconds: float | None = None, n_interior: int | None = None
    ) -> Recipe:
        """Return a recipe with only Gauss-Newton steps.

        Parameters
        ----------
        steps
            The largest number of steps.
        seconds
            The budget in CPU seconds.
        n_interior
            The largest number of interior points.

        Returns
        -------
        Recipe
            The recipe.

        Examples
        --------
        >>> from guardband import pinn
        >>> pinn.Recipe.by_newton(seconds=10).newton
        400
        """
        return cls(steps=0, finish=0, newton=steps, seconds=seconds, n_interior=n_interior)

    def __post_init__(self) -> None:
        if self.seconds is not None and not (isinstance(self.seconds, Real) and self.seconds > 0):
            raise ValueError(
                f"`seconds` should be a positive number of CPU seconds, got {self.seconds!r:.80}."
            )
        if not isinstance(self.newton, Integral) or self.newton < 0:
            raise ValueError(f"`newton` should be a nonnegative number of steps, got {self.newton!r:.80}.")
        if not isinstance(self.windows, Integral) or self.windows < 1:
            raise ValueError(
                f"`windows` should be a positive number of time windows, got {self.windows!r:.80}."
            )
        if not isinstance(self.trial, Real) or not 0 <= self.trial < 1:
            raise ValueError(
                f"`trial` should be a share of the run, at least 0 and below 1, got {self.trial!r:.80}."
            )
        if self.patience is not None and (not isinstance(self.patience, Integral) or self.patience < 1):
            raise ValueError(
                f"`patience` should be a positive number of rows, or None, got {self.patience!r:.80}."
            )
        if self.counts is not None:
            _check_counts(self.counts, self.windows)

    def at_once(self) -> Recipe:
        """Return a recipe with the same steps and seconds for one network over all times.

        Returns
        -------
        Recipe
            The recipe, with one window.

        Examples
        --------
        >>> from guardband import pinn
        >>> recipe = pinn.Recipe.automatic(pinn.problems.Burgers1D()).at_once()
        >>> recipe.newton, recipe.windows
        (400, 1)
        """
        steps = {name: self.windows * getattr(self, name) for name in ("steps", "newton", "finish")}
        return replace(self, **steps, windows=1, trial=0.0)

    def in_windows(self) -> Recipe:
        """Return the recipe without a trial.

        Returns
        -------
        Recipe
            The recipe, with `trial=0`.
        """
        return replace(self, trial=0.0)

    def newton_points(self, d: int) -> tuple[int, int]:
        """Return the limits on the number of points of Gauss-Newton steps.

        Parameters
        ----------
        d
            The number of axes.

        Returns
        -------
        tuple[int, int]
            The largest number of interior points, and the largest number once these no longer help.
        """
        if self.n_interior is None:
            return (512, 2048) if d == 1 else (1024, 4096)
        given = self.n_interior if isinstance(self.n_interior, int) else math.prod(self.n_interior)
        return given, given

    def rate(self, step: int) -> float:
        """Return the learning rate at a step of Adam.

        Parameters
        ----------
        step
            The number of the step, from 0.

        Returns
        -------
        float
            The learning rate after warm-up and decay.
        """
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.decay is not None:
            every, factor = self.decay
            return self.learning_rate * warm * factor ** (step // every)
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * warm * (0.1 + 0.9 * cosine)

    def physics_factor(self, step: int) -> float:
        """Return the physics scale at a step of Adam, relative to its final value.

        Parameters
        ----------
        step
            The number of the step, from 0.

        Returns
        -------
        float
            The factor, at least 1 if `anneal` is.
        """
        return self.anneal ** max(0.0, 1 - 2 * step / self.steps)


def _windows(problem: Problem, seconds: float | None) -> int:
    """The default number of time windows for a problem without data."""
    if not starts(as_problem(problem)):
        return 1
    if seconds is None or not isinstance(seconds, Real):
        return WINDOWS
    each, most = (EACH, 2 * WINDOWS) if problem.names.space else (EACH_ALONE, WINDOWS)
    return int(min(most, max(1, seconds // each)))


def _check_counts(counts: object, windows: int) -> None:
    triples = isinstance(counts, tuple | list) and all(
        isinstance(one, tuple | list)
        and len(one) == 3
        and all(isinstance(count, Integral) and int(count) >= 0 for count in one)
        for one in counts
    )
    if not triples or not 0 < len(counts) <= windows:  # type: ignore[arg-type]
        raise ValueError(
            "`counts` should be the steps of Adam, Gauss-Newton and L-BFGS in each window, such as "
            f"((0, 400, 0),), got {counts!r:.80}."
        )
