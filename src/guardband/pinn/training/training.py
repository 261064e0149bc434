"""The training of a task, a loop over the legs of its schedule."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import cast

import torch
from torch import nn

from guardband.pinn.convergence.verdict import shares_of, trend_of
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.misses.sizes import sizes_of
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.misses.unknowns import NetworkAndUnknowns, current_numbers, with_current_numbers
from guardband.pinn.networks.traits import generators_in
from guardband.pinn.networks.windows import Windowed, borders_of
from guardband.pinn.problems.measured import tensors_of
from guardband.pinn.problems.unknown import unknowns_in, with_values
from guardband.pinn.training.checkpoint import State, damaged
from guardband.pinn.training.fitted import NOTHING, Fitted, PointEstimates, TrainingDiverged
from guardband.pinn.training.identity import Identity, differences, points_in
from guardband.pinn.training.loss import Loss, firm
from guardband.pinn.training.progress import Clock, Diverged, Done, Progress, Watch
from guardband.pinn.training.recipe import AS_LONG_AS_IT_TAKES, Recipe
from guardband.pinn.training.schedule import Leg, Task, first_leg, next_leg, nth_window, trial_is_over
from guardband.pinn.training.stages import STAGES, Stage


@dataclass(frozen=True)
class Moment:
    """The state of a run at a row of its history, as passed to a callback.

    Attributes
    ----------
    step
        The step number.
    row
        The last row of the history.
    terms
        The mean square of each equation and condition, by name.
    net
        The current network itself, so changes to it persist.
    seconds
        The CPU seconds used so far.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> def enough(now):  # ends the run at a residual below 0.01
    ...     return now.terms["equation"] < 1e-4
    >>> fitted = pinn.fit(problem, pinn.mlp(problem), callback=enough, progress=False)
    >>> fitted.history[-1]["step"] < 50
    True
    """

    step: int
    row: dict[str, float]
    terms: dict[str, float]
    net: nn.Module
    seconds: float


class Trainer:
    """The training of a task; iteration trains the network and yields a `Moment` per row of the history."""

    task: Task
    progress: Progress
    loss: Loss
    """The loss of the current leg."""
    stopped: bool
    """Whether training ended before all steps were taken."""

    def __init__(self, task: Task) -> None:
        self.task, self.stopped = task, False
        earlier = task.earlier
        history, terms = ([], []) if earlier is None else (list(earlier.history), list(earlier.terms))
        self.progress = Progress(first_leg(task), history, terms)
        self._begin(self.progress.leg)

    def __iter__(self) -> Iterator[Moment]:
        leg: Leg | None = self.progress.leg
        while leg is not None:
            diverged = None
            try:
                yield from self._train()
            except Diverged as error:
                diverged = error
            self.stopped = self.stopped or self.progress.over
            leg = next_leg(self.task, self.progress, diverged=diverged is not None)
            if leg is not None:
                self._follow(leg)
            elif diverged is not None:
                raise TrainingDiverged(self._cure(diverged), self.fitted()) from diverged

    def _train(self) -> Iterator[Moment]:
        """Train the current leg from its present state through its stages, or until its trial is over."""
        now, loss = self.progress, self.loss
        steps, enough = now.leg.steps(self.task), lambda: now.over or trial_is_over(self.task, now)
        while not enough() and len(now.ended) < len(STAGES):
            if steps[len(now.ended)] > 0 and now.in_time():
                now.stage = now.stage or self._stage()
                while not now.stage.done and now.in_time():
                    now.add(now.stage.advance(now.in_time), loss)
                    yield Moment(self.step, now.history[-1], now.terms[-1], loss.net, now.spent())
                    if enough():
                        return
                now.stalled = now.stage.done and now.stage.taken < now.stage.most
            now.ended.append(0 if now.stage is None else now.stage.taken)
            now.stage = None
            loss.whole.to(self._dtype)

    def _stage(self) -> Stage:
        """The next stage of the leg."""
        now, task = self.progress, self.task
        number, seed = len(now.ended), task.seed + now.leg.window
        most, counted = now.leg.steps(task)[number], task.recipe.counts is not None
        return STAGES[number](self.loss, self._recipe(), most, seed, until_stalled=not counted)

    def _follow(self, leg: Leg) -> None:
        """Continue with a leg, which is the same without a limit, the next window, or a new start."""
        now = self.progress
        if leg.continues(now.leg):
            now.leg = leg
            return
        if leg.window > now.leg.window:
            net = self.loss.net.to(self._dtype)
            if now.watch is not None:
                now.watch.restore(net)
            now.done.append(Done(now.leg, net, now.counts))
        self._begin(leg)

    def _begin(self, leg: Leg) -> None:
        """Begin a leg with its problem, network and loss."""
        task, now = self.task, self.progress
        before = now.done[-1].net if leg.window else None
        problem = leg.problem(task, before)
        net = leg.net(task, problem, before)
        data, held_out = (leg.readings(problem, given) for given in (task.training_data, task.held_out))
        recipe, seed = leg.recipe(task), task.seed + leg.window
        self.loss = Loss(problem, net, data, task.likelihood, recipe, seed, task.compile)
        watch = None if held_out is None else Watch(problem, net, held_out, recipe.patience)
        now.begin(leg, self.loss.whole, watch)

    def _recipe(self) -> Recipe:
        """The recipe of the leg; a network that continues an earlier training is not annealed again."""
        recipe = self.progress.leg.recipe(self.task)
        return recipe if self.task.earlier is None or recipe.steps else replace(recipe, anneal=1.0)

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.task.net.parameters()).dtype

    @property
    def step(self) -> int:
        """The number of steps, including those of the result whose training continues."""
        return self.progress.leg.since + self.progress.step

    @property
    def total(self) -> int | None:
        """The largest number of steps; None if a budget decides."""
        recipe = self.progress.leg.recipe(self.task)
        if recipe.counts is not None:
            return sum(map(sum, recipe.counts))
        each = recipe.steps + recipe.newton + recipe.finish
        return None if recipe.newton >= AS_LONG_AS_IT_TAKES else each * recipe.windows

    def relative(self) -> dict[str, str]:
        """The unknowns, and the relative residuals of the first few equations and conditions."""
        problem = self.loss.problem
        shares = list(shares_of(with_current_numbers(problem), self.loss.net).items())[:5]
        numbers = {name: f"{value:.4g}" for name, value in current_numbers(problem).items()}
        return numbers | {name: f"{share:.1e}" for name, share in shares}

    def recall(self) -> None:
        """Return to the network of the last row after an interrupted step."""
        self.progress.net.load_state_dict(self.progress.good)

    def _cure(self, error: Diverged) -> str:
        rate = self.task.recipe.learning_rate
        return (
            f"Training diverged at step {self.step}: the loss went from {error.start:.3g} to "
            f"{error.now:.3g}. The last good network is in `error.fitted`. Try a learning rate of "
            f"{rate / 10:g} instead of {rate:g} or a longer warm-up, or look for points at which the "
            "residual is not finite."
        )

    def fitted(self) -> Fitted:
        """The current result."""
        task, now = self.task, self.progress
        recipe = now.leg.recipe(task)
        last = copy.deepcopy(now.net).to(self._dtype).eval()
        if now.watch is not None:
            now.watch.restore(last)
        problem, estimates = task.problem, NOTHING
        if unknowns := unknowns_in(problem):
            both = cast(NetworkAndUnknowns, last)
            estimates = PointEstimates(both.unknowns.numbers(), unknowns)
            problem, last = with_values(problem, estimates), both.net
        nets = [*(copy.deepcopy(done.net).to(self._dtype).eval() for done in now.done), last]
        net, likelihood = last, self.loss.likelihood
        if recipe.windows > 1:
            starts = [leg.start for leg in (*(done.leg for done in now.done), now.leg)]
            net, likelihood = Windowed(nets, starts[1:]).eval(), self._whole(nets[0])
        if recipe.seconds is not None or self.stopped:
            recipe = replace(recipe, counts=(*(done.counts for done in now.done), now.counts))
        noise = task.likelihood.data
        return Fitted(
            net,
            problem,
            task.training_data,
            likelihood,
            recipe,
            list(now.history),
            tuple(now.terms),
            task.held_out,
            noise if isinstance(noise, Real | Mapping) else None,
            estimates=estimates,
            saw_data=task.training_data is not None or (task.earlier is not None and task.earlier.saw_data),
            trend=trend_of(now.rows),
            stalled=now.stalled,
        )

    def _whole(self, net: nn.Module) -> Likelihood:
        """The likelihood for all times."""
        task = self.task
        data = tensors_of(task.problem, task.training_data, task.net)
        x = points_in(task.problem.domain)[:1].to(next(net.parameters()))
        firmly = firm(task.problem, task.recipe, data)
        sizes = sizes_of(task.problem, data[1])
        return task.likelihood.completed(task.problem, titles_of(task.problem, net, x), sizes, firm=firmly)

    def most_bytes(self) -> int:
        """An upper bound on the size of a checkpoint: L-BFGS stores about fifty times the weights."""
        net, windows = self.task.net, self.task.recipe.windows
        weights = sum(part.numel() * part.element_size() for part in net.state_dict().values())
        return 2**26 + 100 * weights * windows + 1000 * (self.total or 0)

    def state(self) -> State:
        """The progress, for a checkpoint."""
        return self.progress.state(self._generators())

    def load(self, state: State, identity: Identity, path: Path) -> None:
        """Resume from a checkpoint of the same run."""
        before = state.get("identity") if isinstance(state, dict) else None
        none = {"unknowns": {}}
        other = differences(none | identity, none | before if isinstance(before, dict) else None)
        if other:
            raise ValueError(
                f"The checkpoint {path} belongs to a different run, which differs in its "
                f"{' and its '.join(other)}. Pass a different file, or delete this file to start "
                "over."
            )
        try:
            self._restore(state if "leg" in state else self._of_0_2(state))
        except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise damaged(path, str(error)) from error

    def _restore(self, state: State) -> None:
        task, now, leg = self.task, self.progress, Leg(**state["leg"])
        if not len(state["done"]) == leg.window < leg.windows(task) or len(state["ended"]) > len(STAGES):
            wrong = f"it has {len(state['done'])} windows and {len(state['ended'])} stages"
            raise ValueError(wrong)
        now.done = []
        for fields, weights, (adam, newton, finish) in state["done"]:
            before, part = now.done[-1].net if now.done else None, Leg(**fields)
            net = part.net(task, part.problem(task, before), before)
            net.load_state_dict(weights)
            now.done.append(Done(part, net, (adam, newton, finish)))
        if not leg.continues(now.leg):
            self._begin(leg)
        now.leg, now.ended, now.stalled = leg, state["ended"], state["stalled"]
        now.history, now.terms = state["history"], state["terms"]
        now.first_loss, now.clock = state["first_loss"], Clock(state["spent"])
        if state["stage"] is not None:
            now.stage = self._stage()
            now.stage.load(state["stage"])
        now.net.load_state_dict(state["net"])
        now.good = copy.deepcopy(now.net.state_dict())
        for generator, stored in zip(self._generators(), state["generators"], strict=True):
            generator.set_state(stored)
        if now.watch is not None:
            now.watch.load(state["watch"])

    def _of_0_2(self, old: State) -> State:
        """A checkpoint written by guardband version 0.2, converted to the current format."""
        run, (trial, at_once), k = old["run"], old["trial"], len(old["nets"])
        start, end = borders_of(self.task.problem, self.task.net, 1)
        legs = [Leg(start, end)] if at_once else [nth_window(self.task, n, 0, 0.0) for n in range(k + 1)]
        leg = replace(legs[k], since=old["since"], until=old["until"], trial=trial)
        done = zip(map(asdict, legs), old["nets"], old["counts"], strict=False)
        return {
            **{name: old[name] for name in ("history", "terms", "watch", "spent")},
            **{name: run[name] for name in ("stage", "stalled", "net", "generators")},
            "leg": asdict(leg),
            "done": list(done),
            "ended": run["taken"],
            "first_loss": run["start"],
        }

    def _generators(self) -> list[torch.Generator]:
        """The random generators whose state changes during a leg."""
        return [self.loss.generator, *generators_in(self.loss.net)]
