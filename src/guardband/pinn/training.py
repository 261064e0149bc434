"""Training: a run for each window of time, with all that it keeps and all that it was given.

Where a recipe says so, one network tries all times at once before there are windows. What it has learned is
kept if it gets through, and else forgotten.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import nn

from guardband.pinn.checkpoint import damaged
from guardband.pinn.fitted import Fitted, TrainingDiverged
from guardband.pinn.given import inner_of, tensors_of
from guardband.pinn.identity import differences, hash_of, of_network, of_problem, points_in, settings_of
from guardband.pinn.judging import trend_of
from guardband.pinn.likelihood import Likelihood
from guardband.pinn.loss import Loss, firm
from guardband.pinn.networks import MLP
from guardband.pinn.point_estimates import NOTHING, PointEstimates
from guardband.pinn.recipe import AS_LONG_AS_IT_TAKES, Counts, Recipe
from guardband.pinn.run import Diverged, Run
from guardband.pinn.scales import sizes_of
from guardband.pinn.titles import titles_of
from guardband.pinn.unknowns import Beside, Sought, Unknowns, found_in, numbers_in
from guardband.pinn.verdict import shares_of, verdict
from guardband.pinn.watch import Watch
from guardband.pinn.windows import Window, Windowed, borders_of, data_in
from guardband.problems import Problem
from guardband.problems.unknown import unknowns_in, with_values
from guardband.values import Observations


@dataclass(frozen=True)
class Moment:
    """A look at a run that goes on, as a callback is given it.

    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> def enough(now):  # ends the run at a residual below 0.01
    ...     return now.terms["equation"] < 1e-4
    >>> fitted = gb.fit(problem, gb.mlp(problem), callback=enough, progress=False)
    >>> fitted.history[-1]["step"] < 50
    True
    """

    step: int
    row: dict[str, float]
    """The last row of the history."""
    terms: dict[str, float]
    """The mean square of each equation and condition, by its name."""
    net: nn.Module
    """The network as it is now; what is done to it stays done."""
    seconds: float
    """CPU seconds spent."""


class Runs:
    """A run for each window of time, one after the other; most have one window."""

    stopped: bool
    """Whether it was ended before its steps were made."""

    def __init__(
        self,
        problem: Problem,
        net: nn.Module,
        training_data: Observations | None,
        held_out: Observations | None,
        likelihood: Likelihood,
        recipe: Recipe,
        seed: int,
        compile: bool | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        earlier: Fitted | None,
    ) -> None:
        self._began, self._before = time.thread_time(), 0.0
        self._problem, self._training_data, self._given = problem, training_data, likelihood
        self._held_out, self._watch = held_out, None
        self._asked, self._seed, self._compile = recipe, seed, compile
        self._first = copy.deepcopy(net).to(device=device, dtype=dtype)
        self._data = tensors_of(problem, training_data, self._first)
        self._earlier, self.stopped = earlier, False
        self._saw_data = training_data is not None or (earlier is not None and earlier.saw_data)
        self._unknowns = unknowns_in(problem)
        self._starts = {} if earlier is None else dict(earlier.estimates)
        borders_of(problem, self._first, recipe.windows)  # which refuses windows where there can be none
        self._trying = bool(recipe.trial) and recipe.windows > 1 and recipe.counts is None
        self._trying = self._trying and not isinstance(self._first, Windowed)
        self._follow(recipe.at_once() if self._trying else recipe.in_windows())

    def _follow(self, recipe: Recipe) -> None:
        """Begin with a recipe."""
        earlier = self._earlier
        self._recipe = recipe
        self._borders = borders_of(self._problem, self._first, recipe.windows)
        self._windows = recipe.windows if recipe.counts is None else len(recipe.counts)
        self._history = [] if earlier is None else list(earlier.history)
        self._terms = [] if earlier is None else list(earlier.terms)
        self._since = int(self._history[-1]["step"]) if self._history else 0
        self._nets, self._counts = list[nn.Module](), list[Counts]()
        self._run = self._begin()

    def __iter__(self) -> Iterator[Moment]:
        """Train, with a look at every row of the history."""
        while True:
            diverged = None
            try:
                rows = iter(self._run)
                while not self.over and not self._tried() and (row := next(rows, None)) is not None:
                    yield self._moment(row)
            except Diverged as error:
                diverged = error
            if self._trying and not self.over:
                self._trying = False
                if diverged is not None or not self._through():
                    self._follow(self._asked.in_windows())
                continue
            if diverged is not None:
                raise TrainingDiverged(self._cure(diverged), self.fitted()) from diverged
            self.stopped = self.stopped or self.over
            if len(self._nets) + 1 == self._windows:
                return
            self._run.net.to(self._run.own)
            if self._watch is not None:
                self._watch.restore(self._run.net)
            self._since += self._run.step
            self._nets.append(self._run.net)
            self._counts.append(self._run.counts)
            self._run = self._begin()

    @property
    def step(self) -> int:
        """How many steps were made, and by a run that this one goes on from."""
        return self._since + self._run.step

    @property
    def total(self) -> int | None:
        """How many steps there are at most; None where a budget decides."""
        recipe = self._recipe
        each = recipe.steps + recipe.newton + recipe.finish
        if recipe.counts is not None:
            return sum(map(sum, recipe.counts))
        return None if recipe.newton >= AS_LONG_AS_IT_TAKES else each * recipe.windows

    @property
    def over(self) -> bool:
        """Whether held-out readings have not been met better for long enough."""
        return self._watch is not None and self._watch.over

    def relative(self) -> dict[str, str]:
        """The unknowns, and what is missed of each equation and condition, relatively; of the first few."""
        problem = self._run.loss.problem
        found = shares_of(found_in(problem), self._run.net)
        shares = {name: f"{share:.1e}" for name, share in list(found.items())[:5]}
        return {name: f"{value:.4g}" for name, value in numbers_in(problem).items()} | shares

    def recall(self) -> None:
        """Go back to the network of the last row, from the middle of a step."""
        self._run.whole.load_state_dict(self._run.good)

    def spent(self) -> float:
        """CPU seconds of this thread, and of runs that were broken off."""
        return self._before + time.thread_time() - self._began

    def _tried(self) -> bool:
        """Whether a trial has had its share."""
        recipe, share = self._recipe, self._asked.trial
        if not self._trying or not self._run.step:
            return False
        late = recipe.seconds is not None and self.spent() >= share * recipe.seconds
        return late or (self._run.step >= share * (recipe.steps + recipe.newton + recipe.finish))

    def _through(self) -> bool:
        """Whether the network of a trial has got through all times, as far as can be told."""
        try:
            return verdict(self._problem, self._run.net).word == "converged"
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):  # some have no verdict
            return False

    def _begin(self) -> Run:
        """The run of the next window."""
        k, recipe = len(self._nets), self._recipe
        problem = self._sought() if recipe.windows == 1 else self._window(k)
        data = self._training_data if recipe.windows == 1 else data_in(self._training_data, problem.domain)
        net = placed(self._start(k), problem)
        watched = self._held_out if recipe.windows == 1 else data_in(self._held_out, problem.domain)
        self._watch = None if watched is None else Watch(problem, net, watched, recipe.patience)
        loss = Loss(problem, net, data, self._given, recipe, self._seed + k, self._compile)
        if self._earlier is not None and not recipe.steps:  # what it has learned is not to be shaped anew
            recipe = replace(recipe, anneal=1.0)
        if recipe.counts is not None:
            return Run(loss, recipe, self._seed + k, recipe.counts[k], self.spent, None)
        return Run(loss, recipe, self._seed + k, None, self.spent, self._until(k))

    def _sought(self) -> Problem:
        """The problem, with parameters for its unknowns if it has any."""
        if not self._unknowns:
            return self._problem
        unknowns = Unknowns(self._unknowns, self._starts).to(next(self._first.parameters()))
        return Sought(self._problem, unknowns)

    def _window(self, k: int) -> Window:
        before = self._nets[k - 1] if k else None
        return Window(self._problem, self._borders[k], self._borders[k + 1], before)

    def _start(self, k: int) -> nn.Module:
        """The network that a window begins with: the one given, or the last one."""
        if isinstance(self._first, Windowed):
            middle = (self._borders[k] + self._borders[k + 1]) / 2
            return self._first.nets[int((self._first.borders <= middle).sum())]
        return self._nets[-1] if self._nets else self._first

    def _until(self, k: int) -> float | None:
        """When a window has had its share of the budget; the first, which starts from nothing, has two."""
        if self._recipe.seconds is None:
            return None
        spent = self.spent()
        shares = self._windows - k + (k == 0 and self._windows > 1)
        mine = 2 if k == 0 and self._windows > 1 else 1
        return spent + (self._recipe.seconds - spent) * mine / shares

    def _moment(self, row: dict[str, float]) -> Moment:
        step = {"step": row["step"] + self._since}
        if self._watch is not None:
            step["held_out"] = self._watch.look(self._run.whole)
        self._history.append(row | step)
        self._terms.append(self._run.terms[-1] | {"step": step["step"]})
        return Moment(self.step, self._history[-1], self._terms[-1], self._run.net, self.spent())

    def _cure(self, error: Diverged) -> str:
        rate = self._recipe.learning_rate
        return (
            f"Training diverged at step {self.step}: the loss went from {error.start:.3g} to "
            f"{error.now:.3g}. The last good network is in `error.fitted`. Try a learning rate of "
            f"{rate / 10:g} (it is {rate:g}), a longer warm-up, or look for a residual that is not finite "
            "somewhere."
        )

    def fitted(self) -> Fitted:
        """The result so far."""
        nets = [copy.deepcopy(net).to(self._run.own).eval() for net in (*self._nets, self._run.whole)]
        if self._watch is not None:
            self._watch.restore(nets[-1])
        problem, estimates, last = self._problem, NOTHING, nets[-1]
        if isinstance(last, Beside):
            estimates = PointEstimates(last.unknowns.numbers(), self._unknowns)
            problem, nets[-1] = with_values(problem, estimates), last.net
        net = nets[0] if self._recipe.windows == 1 else Windowed(nets, self._borders[1 : len(nets)]).eval()
        budget = self._recipe.seconds is not None or self.stopped
        counts = (*self._counts, self._run.counts) if budget else self._recipe.counts
        recipe = replace(self._recipe, counts=counts)
        likelihood = self._run.loss.likelihood if self._recipe.windows == 1 else self._whole(nets[0])
        told = list(self._history), tuple(self._terms)
        noise = self._given.data if isinstance(self._given.data, Real | Mapping) else None
        made = net, problem, self._training_data, likelihood, recipe, *told, self._held_out, noise
        ended = {"trend": trend_of(self._run.history), "stalled": self._run.stalled}
        return Fitted(*made, estimates=estimates, saw_data=self._saw_data, **ended)

    def _whole(self, net: nn.Module) -> Likelihood:
        """The likelihood of all times."""
        titles = titles_of(self._problem, net, points_in(self._problem.domain)[:1].to(next(net.parameters())))
        sizes, firmly = sizes_of(self._problem, self._data[1]), firm(self._problem, self._recipe, self._data)
        return self._given.completed(self._problem, titles, sizes, firm=firmly)

    def identity(self) -> dict[str, Any]:
        """What makes a run the one that it is, asked before it begins."""
        net, problem = placed(self._first, self._problem), found_in(self._sought())
        sought = {name: [one.low, one.high] for name, one in self._unknowns.items()}
        return ({"unknowns": sought} if sought else {}) | {
            "data": hash_of(*self._data),
            "held-out readings": hash_of(*tensors_of(self._problem, self._held_out, self._first)),
            "network": of_network(net, self._problem.domain),
            "problem": of_problem(problem, net),
            "recipe": settings_of(self._asked),
            "likelihood": settings_of(self._given),
            "seed": settings_of(self._seed),
        }

    def most_bytes(self) -> int:
        """What no checkpoint of this run exceeds: L-BFGS keeps some fifty times the weights."""
        weights = sum(part.numel() * part.element_size() for part in self._first.state_dict().values())
        return 2**26 + 100 * weights * self._asked.windows + 1000 * (self.total or 0)

    def state(self) -> dict[str, Any]:
        """All that changes, for a checkpoint."""
        return {
            "trial": (self._trying, self._recipe.windows < self._asked.windows),
            "nets": [net.state_dict() for net in self._nets],
            "counts": self._counts,
            "history": self._history,
            "terms": self._terms,
            "since": self._since,
            "spent": self.spent(),
            "until": self._run.until,
            "run": self._run.state(),
            "watch": None if self._watch is None else self._watch.state(),
        }

    def load(self, state: Any, identity: dict[str, Any] | None, path: Path) -> None:
        """Go on from a checkpoint of the same run."""
        before = state.get("identity") if isinstance(state, dict) else None
        none = {"unknowns": {}}
        other = differences(none | (identity or {}), none | before if isinstance(before, dict) else None)
        if other:
            raise ValueError(
                f"The checkpoint {path} is of another run: it has another {' and another '.join(other)}. "
                "Give another file, or delete it to start anew."
            )
        try:
            self._restore(state)
        except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise damaged(path, str(error)) from error

    def _restore(self, state: dict[str, Any]) -> None:
        trying, at_once = state["trial"]
        if self._trying and not trying:
            self._trying = False
            self._follow(self._recipe if at_once else self._asked.in_windows())
        stored = state["nets"]
        if not len(stored) == len(state["counts"]) < self._windows:
            wrong = f"it has {len(stored)} windows"
            raise ValueError(wrong)
        for k, weights in enumerate(stored):
            self._nets.append(placed(self._start(k), self._window(k)))
            self._nets[-1].load_state_dict(weights)
        self._counts = [(one[0], one[1], one[2]) for one in state["counts"]]
        self._history, self._terms, self._since = state["history"], state["terms"], state["since"]
        self._before = state["spent"]
        if stored:
            self._run = self._begin()
        self._run.load(state["run"])
        self._run.until = state["until"]
        if self._watch is not None:
            self._watch.load(state["watch"])


def placed(net: nn.Module, problem: Problem) -> nn.Module:
    """A copy of a network with its inputs scaled to the domain of a problem."""
    net = copy.deepcopy(net)
    inner = inner_of(net)
    if isinstance(inner, MLP):
        inner.set_domain(problem.domain)
        inner.names = problem.names
    return net
