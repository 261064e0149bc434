"""Recipes: how long, how fast and on which points to train."""

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
"""Steps of Adam, of Gauss-Newton and of L-BFGS."""

AS_LONG_AS_IT_TAKES = 100_000
"""Gauss-Newton steps of a run that a budget ends."""

WINDOWS = 5
"""Windows of time of an evolution equation that is solved without data; at most twice as many."""

EACH, EACH_ALONE = 10.0, 2.0
"""CPU seconds that a window is worth: of space and time, and of time alone."""

TRIAL, TRIAL_STEPS = 0.1, 0.2
"""The share of a budget, and of the steps, in which one network may show that it needs no windows."""


@kept
@dataclass(frozen=True)
class Recipe:
    """How to train: Adam on random batches, then Gauss-Newton and L-BFGS until they no longer pay.

    The physics scale starts `anneal` times its final value and reaches it half-way through Adam, or where
    there are data in the first 15 Gauss-Newton steps of a network that starts from nothing: the data shape
    the field first, the equation sharpens it. `batch=None` uses all points at every step;
    `n_interior` is their number, by default 256 on a line and 768 elsewhere, or a number per axis where they
    are `even`. L-BFGS stops when fifty iterations gain less than `min_improvement`.

    `newton` is the number of damped Gauss-Newton steps between the two, in float64, on points that follow the
    residual, at most `n_interior` of them; by default 512 on a line and 1024 elsewhere, and up to four times
    as many where these no longer help. With `windows` an evolution equation is solved in so many windows of
    time, each by all of these steps, from where the last one ended. Before that one network may try all times
    at once, for a share `trial` of the steps or seconds; if it has converged by then, as `pinn.verdict` says,
    it goes on alone, with all of them.

    `seconds` bounds the whole run, in CPU seconds of its thread. A run notes in `counts` how many steps of
    each kind it made in each window; a recipe that has them makes just these, whatever its other numbers.
    With `patience` a run ends when held-out readings were not met better for so many rows of its history, and
    the network that met them best is kept.

    `pinn.Recipe()` is the recipe of guardband 0.1, `Recipe.automatic(problem)` what `fit` takes by itself.

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
        """The recipe that `fit` takes by itself: 400 Gauss-Newton steps, or as many as a budget allows.

        An equation in time that starts from a known state is solved in five windows, or with a budget in as
        many as have 10 s each (2 s where there is no space), at most ten (five), unless one network has
        converged for all times after a fifth of the steps, or a tenth of the budget. With data, which speak
        for all times at once, there is one window; where `windows` says how many, there is no trial.

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
        """Gauss-Newton alone.

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
            raise ValueError(f"`newton` should be a number of steps, got {self.newton!r:.80}.")
        if not isinstance(self.windows, Integral) or self.windows < 1:
            raise ValueError(f"`windows` should be a number of windows of time, got {self.windows!r:.80}.")
        if not isinstance(self.trial, Real) or not 0 <= self.trial < 1:
            raise ValueError(
                f"`trial` should be a share of the run, at least 0 and below 1, got {self.trial!r:.80}."
            )
        if self.patience is not None and (not isinstance(self.patience, Integral) or self.patience < 1):
            raise ValueError(f"`patience` should be a number of rows, or None, got {self.patience!r:.80}.")
        if self.counts is not None:
            _check_counts(self.counts, self.windows)

    def at_once(self) -> Recipe:
        """The same steps and seconds for one network over all times.

        >>> from guardband import pinn
        >>> recipe = pinn.Recipe.automatic(pinn.problems.Burgers1D()).at_once()
        >>> recipe.newton, recipe.windows
        (400, 1)
        """
        steps = {name: self.windows * getattr(self, name) for name in ("steps", "newton", "finish")}
        return replace(self, **steps, windows=1, trial=0.0)

    def in_windows(self) -> Recipe:
        """The same without a trial."""
        return replace(self, trial=0.0)

    def newton_points(self, d: int) -> tuple[int, int]:
        """How many points inside Gauss-Newton steps may use in d dimensions, and how many once they stall."""
        if self.n_interior is None:
            return (512, 2048) if d == 1 else (1024, 4096)
        given = self.n_interior if isinstance(self.n_interior, int) else math.prod(self.n_interior)
        return given, given

    def rate(self, step: int) -> float:
        """The learning rate at a step: warm-up, then a cosine to a tenth, or steps if `decay` is given."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.decay is not None:
            every, factor = self.decay
            return self.learning_rate * warm * factor ** (step // every)
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * warm * (0.1 + 0.9 * cosine)

    def physics_factor(self, step: int) -> float:
        """How many times its final value the physics scale has at a step."""
        return self.anneal ** max(0.0, 1 - 2 * step / self.steps)


def _windows(problem: Problem, seconds: float | None) -> int:
    """In how many windows of time a problem without data is best solved."""
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
