"""The schedule of a run: its legs, each of which trains one network on one time window.

With a trial, one network is first trained for all times. If it converges within its share of the steps or
seconds, it continues alone. Otherwise it is discarded, and the time windows follow in order, each starting
from the final state of the previous window. Only `next_leg` makes this decision; to add a new kind of leg,
let it return a new kind of `Leg`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn

from guardband.pinn.convergence.verdict import verdict
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.misses.unknowns import CurrentProblem, Unknowns
from guardband.pinn.networks.traits import traits_of
from guardband.pinn.networks.windows import Window, borders_of, data_in
from guardband.pinn.problems import Problem
from guardband.pinn.problems.unknown import unknowns_in
from guardband.pinn.training.fitted import Fitted
from guardband.pinn.training.recipe import Counts, Recipe
from guardband.values import Observations

if TYPE_CHECKING:
    from guardband.pinn.training.progress import Progress


@dataclass(frozen=True, eq=False)
class Task:
    """The arguments of a run, which never change; the network is on its device."""

    problem: Problem
    net: nn.Module
    training_data: Observations | None
    held_out: Observations | None
    likelihood: Likelihood
    recipe: Recipe
    seed: int
    compile: bool | None
    earlier: Fitted | None
    """The earlier result from which training continues."""

    def with_parameters(self) -> Problem:
        """The problem, with trainable parameters for its unknowns, if any."""
        unknowns = unknowns_in(self.problem)
        if not unknowns:
            return self.problem
        starts = {} if self.earlier is None else dict(self.earlier.estimates)
        return CurrentProblem(self.problem, Unknowns(unknowns, starts).to(next(self.net.parameters())))


@dataclass(frozen=True)
class Leg:
    """One network, trained through all stages on one time window, as plain numbers for checkpoints."""

    start: float
    end: float
    """The end of the window, or of all times if the leg is `whole`."""
    window: int = 0
    """The number of the window, from 0."""
    whole: bool = True
    """Whether the network is for all times."""
    since: int = 0
    """The step of the run after which the leg begins."""
    until: float | None = None
    """The CPU seconds of the run at which the leg ends."""
    trial: bool = False
    """Whether the leg has to converge within the `trial` share of the recipe."""

    def recipe(self, task: Task) -> Recipe:
        """The recipe of this leg: that of the task, or its equivalent for one network over all times."""
        at_once = self.whole and task.recipe.windows > 1
        return task.recipe.at_once() if at_once else task.recipe.in_windows()

    def steps(self, task: Task) -> Counts:
        """The largest number of steps of each stage."""
        recipe = self.recipe(task)
        return recipe.counts[self.window] if recipe.counts else (recipe.steps, recipe.newton, recipe.finish)

    def problem(self, task: Task, before: nn.Module | None) -> Problem:
        """The problem on this window, whose initial state is the final state of the network `before`."""
        return task.with_parameters() if self.whole else Window(task.problem, self.start, self.end, before)

    def net(self, task: Task, problem: Problem, before: nn.Module | None) -> nn.Module:
        """The initial network: that of the previous window, or the given network."""
        given = traits_of(task.net)
        if before is None or given.windowed:
            before = given.at_time((self.start + self.end) / 2)
        return scaled_to(before, problem)

    def readings(self, problem: Problem, given: Observations | None) -> Observations | None:
        """The readings in this window."""
        return given if self.whole else data_in(given, problem.domain)

    def continues(self, other: Leg) -> bool:
        """Whether this leg equals another leg, except for the limits of trial and budget."""
        return replace(self, trial=other.trial, until=other.until) == other

    def windows(self, task: Task) -> int:
        """The number of windows to train; a recipe with counts may end before the last one."""
        counts = task.recipe.counts
        return 1 if self.whole else task.recipe.windows if counts is None else len(counts)


def first_leg(task: Task) -> Leg:
    """The first leg of a training."""
    recipe, first = task.recipe, nth_window(task, 0, _since(task), 0.0)
    if recipe.trial and not first.whole and recipe.counts is None and not traits_of(task.net).windowed:
        start, end = borders_of(task.problem, task.net, 1)
        return Leg(start, end, since=first.since, until=recipe.seconds, trial=True)
    return first


def next_leg(task: Task, now: Progress, *, diverged: bool) -> Leg | None:
    """The leg after a leg that has ended or diverged; None at the end of the run.

    A successful trial continues as a leg without a limit; after a failed trial the windows begin.
    """
    leg = now.leg
    if leg.trial and not now.over:
        if not diverged and _converged(task, now.net):
            return replace(leg, trial=False)
        return nth_window(task, 0, leg.since, now.spent())
    if diverged or leg.window + 1 == leg.windows(task):
        return None
    return nth_window(task, leg.window + 1, leg.since + now.step, now.spent())


def trial_is_over(task: Task, now: Progress) -> bool:
    """Whether the leg is a trial that has used its share of the steps or of the seconds."""
    if not now.leg.trial or not now.step:
        return False
    recipe, share = now.leg.recipe(task), task.recipe.trial
    late = recipe.seconds is not None and now.spent() >= share * recipe.seconds
    return late or now.step >= share * sum(now.leg.steps(task))


def scaled_to(net: nn.Module, problem: Problem) -> nn.Module:
    """A copy of a network, adapted to a problem."""
    net = copy.deepcopy(net)
    traits_of(net).adapt(problem)
    return net


def _since(task: Task) -> int:
    """The number of steps of the earlier result."""
    history = [] if task.earlier is None else task.earlier.history
    return int(history[-1]["step"]) if history else 0


def nth_window(task: Task, window: int, since: int, spent: float) -> Leg:
    """A time window with its share of the budget, which is doubled for the first, untrained window."""
    recipe = task.recipe
    start, end = borders_of(task.problem, task.net, recipe.windows)[window : window + 2]
    leg = Leg(start, end, window, recipe.windows == 1, since)
    if recipe.seconds is None or recipe.counts is not None:
        return leg
    extra = int(window == 0 and recipe.windows > 1)
    share = (1 + extra) / (recipe.windows - window + extra)
    return replace(leg, until=spent + (recipe.seconds - spent) * share)


def _converged(task: Task, net: nn.Module) -> bool:
    """Whether the network of a trial has converged for all times; False if the verdict fails."""
    try:
        return verdict(task.problem, net).word == "converged"
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return False
