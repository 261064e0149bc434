"""Training: from a problem, a network and observations to a `Fitted`, window after window of time."""

from __future__ import annotations

import copy
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm.auto import tqdm

from guardband.pinn.checkpoint import damaged, read, write
from guardband.pinn.derivatives import layers_of
from guardband.pinn.fitted import Fitted, TrainingDiverged, TrainingInterrupted
from guardband.pinn.given import (
    check_newton,
    check_pair,
    floats_of,
    inner_of,
    measured,
    refuse_copies,
    setting,
    tensors_of,
)
from guardband.pinn.identity import differences, hash_of, of_network, of_problem, points_in, settings_of
from guardband.pinn.likelihood import Likelihood
from guardband.pinn.networks import MLP, Constrained
from guardband.pinn.recipe import AS_LONG_AS_IT_TAKES, Counts, Recipe
from guardband.pinn.restarts import best_of
from guardband.pinn.run import Diverged, Run
from guardband.pinn.scales import sizes_of
from guardband.pinn.titles import titles_of
from guardband.pinn.watch import Watch
from guardband.pinn.windows import Window, Windowed, borders_of, data_in
from guardband.problems import Problem
from guardband.values import Observations


@dataclass(frozen=True)
class Moment:
    """A look at a run that goes on, as a callback is given it.

    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> def enough(now):  # ends the run at a residual below 0.01
    ...     return now.terms["equation"] < 1e-4
    >>> gb.fit(problem, gb.mlp(problem), callback=enough, progress=False).history[-1]["step"] < 50
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


def fit(
    problem: Problem,
    net: nn.Module | Fitted,
    training_data: Observations | Sequence[Observations] | None = None,
    *,
    likelihood: Likelihood | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    held_out: Observations | Sequence[Observations] | None = None,
    restarts: int = 1,
    callback: Callable[[Moment], bool | None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    compile: bool | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    progress: bool = True,
) -> Fitted:
    """Train a copy of a network on an equation and, if there are any, on observations of its solution.

    There may be several sets of observations, of different outputs at different points. The loss is the
    likelihood's negative logarithm: squares over noise variances. Without a `recipe` it is made small by
    Gauss-Newton steps (`Recipe.automatic`); with more than 50 readings, with dropout, on a GPU, beyond 20,000
    weights, and for networks that are no multilayer perceptron, by Adam and L-BFGS. A `Fitted` in place of
    the network is trained on, from where it ended.

    `held_out` are readings that training does not use: the verdict holds the network against them, and with
    `Recipe(patience=...)` they end the run. Calibration refuses them like training rows. With `restarts` the
    network is trained so many times, from other starts, and the one that meets held-out readings best is
    returned, or without any the one whose estimated error is smallest; how far they differ is in its verdict.

    `callback(now)` is called with a `Moment` at each row of the history, and ends the run by returning True.
    With a `checkpoint` file a killed run goes on, bit for bit, when called again in the same way; the file is
    removed at the end. A file of another run (other data, another network, settings or equation) or a damaged
    one is refused. `compile` uses `torch.compile`, by default where the run is long enough to pay for it;
    results then differ in the last digits.

    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> train = problem.observe(60, noise=0.1)
    >>> fitted = gb.fit(problem, gb.mlp(problem), train, progress=False)
    >>> fitted([0.25, 0.5]).shape
    (2, 1)
    """
    earlier = net if isinstance(net, Fitted) else None
    module = net.net if isinstance(net, Fitted) else net
    check_pair(problem, module)
    likelihood = setting(likelihood, Likelihood, "likelihood", "gb.Likelihood(data=...)")
    if restarts != 1:
        if checkpoint is not None:
            raise ValueError(
                "A checkpoint is of one training. Give each start a `fit` of its own, with its own."
            )

        def train(start: nn.Module, seed: int) -> Fitted:
            return fit(
                problem,
                start,
                training_data,
                likelihood=likelihood,
                recipe=recipe,
                seed=seed,
                held_out=held_out,
                callback=callback,
                compile=compile,
                device=device,
                dtype=dtype,
                progress=progress,
            )

        return best_of(restarts, seed, module, train)
    data, watched = measured(problem, training_data), measured(problem, held_out)
    refuse_copies(data, watched)
    wanted = _automatic(problem, module, data, device) if recipe is None else recipe
    chosen = setting(wanted, Recipe, "recipe", "gb.Recipe(steps=...)")
    check_newton(chosen, module)
    settings = seed, compile, device, floats_of(dtype)
    run = _Training(problem, module, data, watched, likelihood, chosen, *settings, earlier)
    path = None if checkpoint is None else Path(checkpoint)
    identity = None if path is None else run.identity()
    if path is not None and os.path.lexists(path):
        run.load(read(path, at_most=run.most_bytes()), identity, path)
    try:
        with tqdm(total=run.total, initial=run.step, disable=not progress, desc="fit", unit="step") as bar:
            for now in run:
                bar.update(run.step - bar.n)
                bar.set_postfix(_shown(now.terms))
                stop = callback is not None and callback(now)
                if path is not None:
                    write(path, run.state() | {"identity": identity})
                if stop:
                    run.stopped = True
                    break
            bar.total = run.step
    except KeyboardInterrupt as error:
        said = f"Training was interrupted at step {run.step}; the network so far is in `error.fitted`."
        raise TrainingInterrupted(said, run.fitted()) from error
    if path is not None:
        path.unlink(missing_ok=True)
    fitted = run.fitted()
    if progress and fitted.verdict.word != "converged":
        tqdm.write(f"{fitted.verdict}\nMore: fitted.verdict", file=sys.stderr)
    return fitted


FEW = 50
"""So many readings are no reason to end early; more of them are, since the minimum follows their noise."""

MOST_WEIGHTS = 20_000
"""Gauss-Newton steps of larger networks take too long to be made unasked."""


def _automatic(
    problem: Problem, net: nn.Module, data: Observations | None, device: torch.device | str | None
) -> Recipe:
    """Gauss-Newton where it can be had, else Adam and L-BFGS."""
    one = net.nets[0] if isinstance(net, Windowed) else net
    inner, like = inner_of(one), next(one.parameters())
    dropout = isinstance(inner, MLP) and inner.dropout > 0
    cpu = (like.device if device is None else torch.device(device)).type == "cpu"
    known = layers_of(inner, points_in(problem.domain)[:1].to(like)) is not None
    large = sum(weight.numel() for weight in one.parameters()) > MOST_WEIGHTS
    if dropout or large or not cpu or not known or (data is not None and len(data) > FEW):
        return Recipe()
    windows = 1 if isinstance(one, Constrained) else None
    return Recipe.automatic(problem, data=data is not None, windows=windows)


def _shown(terms: dict[str, float]) -> dict[str, str]:
    """The root mean square of each miss, of the first few."""
    return {name: f"{math.sqrt(square):.1e}" for name, square in list(terms.items())[1:6]}


class _Training:
    """A run for each window of time, one after the other; most have one window."""

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
        self.began, self.before = time.thread_time(), 0.0
        self.problem, self.training_data, self.given = problem, training_data, likelihood
        self.held_out, self.watch = held_out, None
        self.recipe, self.seed, self.compile = recipe, seed, compile
        self.first = copy.deepcopy(net).to(device=device, dtype=dtype)
        self.data = tensors_of(problem, training_data, self.first)
        self.borders = borders_of(problem, self.first, recipe.windows)
        self.windows = recipe.windows if recipe.counts is None else len(recipe.counts)
        self.history = [] if earlier is None else list(earlier.history)
        self.terms = [] if earlier is None else list(earlier.terms)
        self.since = int(self.history[-1]["step"]) if self.history else 0
        self.nets, self.counts, self.stopped = list[nn.Module](), list[Counts](), False
        self.run = self._begin()

    def __iter__(self) -> Iterator[Moment]:
        """Train, with a look at every row of the history."""
        while True:
            try:
                for row in self.run:
                    yield self._moment(row)
                    if self.over:
                        self.stopped = True
                        break
            except Diverged as error:
                raise TrainingDiverged(self._cure(error), self.fitted()) from error
            if len(self.nets) + 1 == self.windows:
                return
            self.run.net.to(self.run.own)
            if self.watch is not None:
                self.watch.restore(self.run.net)
            self.since += self.run.step
            self.nets.append(self.run.net)
            self.counts.append(self.run.counts)
            self.run = self._begin()

    @property
    def step(self) -> int:
        """How many steps were made, and by a run that this one goes on from."""
        return self.since + self.run.step

    @property
    def total(self) -> int | None:
        """How many steps there are at most; None where a budget decides."""
        recipe = self.recipe
        each = recipe.steps + recipe.newton + recipe.finish
        if recipe.counts is not None:
            return sum(map(sum, recipe.counts))
        return None if recipe.newton >= AS_LONG_AS_IT_TAKES else each * recipe.windows

    @property
    def over(self) -> bool:
        """Whether held-out readings have not been met better for long enough."""
        return self.watch is not None and self.watch.over

    def spent(self) -> float:
        """CPU seconds of this thread, and of runs that were broken off."""
        return self.before + time.thread_time() - self.began

    def _begin(self) -> Run:
        """The run of the next window."""
        k, recipe = len(self.nets), self.recipe
        problem = self.problem if recipe.windows == 1 else self._window(k)
        data = self.training_data if recipe.windows == 1 else data_in(self.training_data, problem.domain)
        net = placed(self._start(k), problem)
        watched = self.held_out if recipe.windows == 1 else data_in(self.held_out, problem.domain)
        self.watch = None if watched is None else Watch(problem, net, watched, recipe.patience)
        counts = None if recipe.counts is None else recipe.counts[k]
        until = None if recipe.counts is not None else self._until(k)
        settings = self.given, recipe, self.seed + k, self.compile, counts
        return Run(problem, net, data, *settings, self.spent, until)

    def _window(self, k: int) -> Window:
        before = self.nets[k - 1] if k else None
        return Window(self.problem, self.borders[k], self.borders[k + 1], before)

    def _start(self, k: int) -> nn.Module:
        """The network that a window begins with: the one given, or the last one."""
        if isinstance(self.first, Windowed):
            middle = (self.borders[k] + self.borders[k + 1]) / 2
            return self.first.nets[int((self.first.borders <= middle).sum())]
        return self.nets[-1] if self.nets else self.first

    def _until(self, k: int) -> float | None:
        """When a window has had its share of the budget; the first, which starts from nothing, has two."""
        if self.recipe.seconds is None:
            return None
        spent = self.spent()
        shares = self.windows - k + (k == 0 and self.windows > 1)
        mine = 2 if k == 0 and self.windows > 1 else 1
        return spent + (self.recipe.seconds - spent) * mine / shares

    def _moment(self, row: dict[str, float]) -> Moment:
        step = {"step": row["step"] + self.since}
        if self.watch is not None:
            step["held_out"] = self.watch.look(self.run.net)
        self.history.append(row | step)
        self.terms.append(self.run.terms[-1] | {"step": step["step"]})
        return Moment(self.step, self.history[-1], self.terms[-1], self.run.net, self.spent())

    def _cure(self, error: Diverged) -> str:
        rate = self.recipe.learning_rate
        return (
            f"Training diverged at step {self.step}: the loss went from {error.start:.3g} to "
            f"{error.now:.3g}. The last good network is in `error.fitted`. Try a learning rate of "
            f"{rate / 10:g} (it is {rate:g}), a longer warm-up, or look for a residual that is not finite "
            "somewhere."
        )

    def fitted(self) -> Fitted:
        """The result so far."""
        nets = [copy.deepcopy(net).to(self.run.own).eval() for net in (*self.nets, self.run.net)]
        if self.watch is not None:
            self.watch.restore(nets[-1])
        net = nets[0] if self.recipe.windows == 1 else Windowed(nets, self.borders[1 : len(nets)]).eval()
        budget = self.recipe.seconds is not None or self.stopped
        counts = (*self.counts, self.run.counts) if budget else self.recipe.counts
        recipe = replace(self.recipe, counts=counts)
        likelihood = self.run.loss.likelihood if self.recipe.windows == 1 else self._whole(nets[0])
        told = list(self.history), tuple(self.terms)
        noise = self.given.data if isinstance(self.given.data, Real | Mapping) else None
        watched = self.held_out, noise
        return Fitted(net, self.problem, self.training_data, likelihood, recipe, *told, *watched)

    def _whole(self, net: nn.Module) -> Likelihood:
        """The likelihood of all times."""
        titles = titles_of(self.problem, net, points_in(self.problem.domain)[:1].to(next(net.parameters())))
        return self.given.completed(self.problem, titles, sizes_of(self.problem, self.data[1]))

    def identity(self) -> dict[str, Any]:
        """What makes a run the one that it is, asked before it begins."""
        net = placed(self.first, self.problem)
        return {
            "data": hash_of(*self.data),
            "held-out readings": hash_of(*tensors_of(self.problem, self.held_out, self.first)),
            "network": of_network(net, self.problem.domain),
            "problem": of_problem(self.problem, net),
            "recipe": settings_of(self.recipe),
            "likelihood": settings_of(self.given),
            "seed": settings_of(self.seed),
        }

    def most_bytes(self) -> int:
        """What no checkpoint of this run exceeds: L-BFGS keeps some fifty times the weights."""
        weights = sum(part.numel() * part.element_size() for part in self.first.state_dict().values())
        return 2**26 + 100 * weights * self.windows + 1000 * (self.total or 0)

    def state(self) -> dict[str, Any]:
        """All that changes, for a checkpoint."""
        return {
            "nets": [net.state_dict() for net in self.nets],
            "counts": self.counts,
            "history": self.history,
            "terms": self.terms,
            "since": self.since,
            "spent": self.spent(),
            "until": self.run.until,
            "run": self.run.state(),
            "watch": None if self.watch is None else self.watch.state(),
        }

    def load(self, state: Any, identity: dict[str, Any] | None, path: Path) -> None:
        """Go on from a checkpoint of the same run."""
        before = state.get("identity") if isinstance(state, dict) else None
        other = differences(identity or {}, before)
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
        stored = state["nets"]
        if not len(stored) == len(state["counts"]) < self.windows:
            wrong = f"it has {len(stored)} windows"
            raise ValueError(wrong)
        for k, weights in enumerate(stored):
            self.nets.append(placed(self._start(k), self._window(k)))
            self.nets[-1].load_state_dict(weights)
        self.counts = [(one[0], one[1], one[2]) for one in state["counts"]]
        self.history, self.terms, self.since = state["history"], state["terms"], state["since"]
        self.before = state["spent"]
        if stored:
            self.run = self._begin()
        self.run.load(state["run"])
        self.run.until = state["until"]
        if self.watch is not None:
            self.watch.load(state["watch"])


def placed(net: nn.Module, problem: Problem) -> nn.Module:
    """A copy of a network with its inputs scaled to the domain of a problem."""
    net = copy.deepcopy(net)
    inner = inner_of(net)
    if isinstance(inner, MLP):
        inner.set_domain(problem.domain)
        inner.names = problem.names
    return net
