"""The progress of a run: its changing state, which is also its checkpoint."""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from guardband.pinn.misses.unknowns import current_numbers
from guardband.pinn.problems import Problem
from guardband.pinn.problems.measured import tensors_of
from guardband.pinn.training.checkpoint import State
from guardband.pinn.training.loss import Loss
from guardband.pinn.training.recipe import Counts
from guardband.pinn.training.schedule import Leg
from guardband.pinn.training.stages import Seen, Stage
from guardband.predictors.models import evaluating
from guardband.values import Observations


class Diverged(Exception):
    """Raised if the loss of a leg diverges, from `start` to `now`."""

    start: float
    now: float

    def __init__(self, start: float, now: float) -> None:
        super().__init__(start, now)
        self.start, self.now = start, now


class Done(NamedTuple):
    """A finished leg with its network and the steps of its stages."""

    leg: Leg
    net: nn.Module
    counts: Counts


@dataclass(eq=False)
class Progress:
    """The state that changes during training and is stored in a checkpoint."""

    leg: Leg
    history: list[dict[str, float]]
    terms: list[dict[str, float]]
    done: list[Done] = field(default_factory=list)
    """The finished legs, each on its time window."""
    ended: list[int] = field(default_factory=list)
    """The steps of the finished stages of the leg."""
    stage: Stage | None = None
    """The current stage."""
    stalled: bool = False
    """Whether the last stage ended because its steps no longer improved the loss."""
    first_loss: float | None = None
    """The loss of this leg before the first step of Adam."""
    net: nn.Module = field(default_factory=nn.Module)
    """The network in training, together with the unknowns of the problem, if any; modified in place."""
    good: dict[str, Tensor] = field(default_factory=dict)
    """The weights at the last row of the history."""
    watch: Watch | None = None
    clock: Clock = field(default_factory=lambda: Clock(0.0))

    def begin(self, leg: Leg, net: nn.Module, watch: Watch | None) -> None:
        """Begin a leg, and discard the history after the step at which it begins."""
        self.history = [row for row in self.history if row["step"] <= leg.since]
        self.terms = [row for row in self.terms if row["step"] <= leg.since]
        self.done = self.done[: leg.window]
        self.leg, self.net, self.watch = leg, net.train(), watch
        self.ended, self.stage, self.stalled, self.first_loss = [], None, False, None
        self.good = copy.deepcopy(net.state_dict())

    @property
    def counts(self) -> Counts:
        """The number of steps of each stage of this leg."""
        taken = [*self.ended, *([] if self.stage is None else [self.stage.taken]), 0, 0, 0]
        return taken[0], taken[1], taken[2]

    @property
    def step(self) -> int:
        """The number of steps of this leg."""
        return sum(self.counts)

    @property
    def rows(self) -> list[dict[str, float]]:
        """The rows of the history that belong to this leg."""
        return [row for row in self.history if row["step"] > self.leg.since]

    @property
    def over(self) -> bool:
        """Whether the patience with held-out readings is exhausted."""
        return self.watch is not None and self.watch.over

    def spent(self) -> float:
        """CPU seconds of this thread, including those of interrupted runs."""
        return self.clock.spent()

    def in_time(self) -> bool:
        """Whether the budget of the leg allows further steps; every leg takes at least some steps."""
        until = self.leg.until
        made = self.history and self.history[-1]["step"] > self.leg.since
        return until is None or not made or self.spent() < until

    def add(self, seen: Seen, loss: Loss) -> None:
        """Add a row to history and terms; if the leg has diverged, restore the last good weights."""
        step = {"step": float(self.leg.since + self.step)}
        row = step | dict(zip(loss.gradients.mean_squares.names, seen.squares.tolist(), strict=True))
        weights = loss.weights(1.0).to(seen.squares)
        row["loss"] = now = float(weights @ seen.squares)
        if self.first_loss is None and seen.first is not None:
            self.first_loss = float(weights @ seen.first)
        start = now if self.first_loss is None else self.first_loss
        finite = all(bool(part.isfinite().all()) for part in self.net.parameters())
        if not now < 1e3 * start + 1e-30 or not finite:
            self.net.load_state_dict(self.good)
            raise Diverged(start, now)
        row |= current_numbers(loss.problem)
        self.good = copy.deepcopy(self.net.state_dict())
        if self.watch is not None:
            row["held_out"] = self.watch.look(self.net)
        self.history.append(row)
        self.terms.append(loss.record.row(self.leg.since + self.step, seen.misses))

    def state(self, generators: list[torch.Generator]) -> State:
        """The complete progress, as plain values and tensors."""
        return {
            "leg": asdict(self.leg),
            "history": self.history,
            "terms": self.terms,
            "done": [[asdict(done.leg), done.net.state_dict(), done.counts] for done in self.done],
            "ended": self.ended,
            "stage": None if self.stage is None else self.stage.state(),
            "stalled": self.stalled,
            "first_loss": self.first_loss,
            "net": self.net.state_dict(),
            "watch": None if self.watch is None else self.watch.state(),
            "spent": self.spent(),
            "generators": [generator.get_state() for generator in generators],
        }


class Clock:
    """The CPU seconds of this thread, added to those of earlier runs."""

    def __init__(self, before: float) -> None:
        self._before, self._began = before, time.thread_time()

    def spent(self) -> float:
        """The total in seconds."""
        return self._before + time.thread_time() - self._began


class Watch:
    """Held-out readings, evaluated with every row of the history; `patience` keeps the best network."""

    def __init__(
        self, problem: Problem, net: nn.Module, held_out: Observations, patience: int | None
    ) -> None:
        self._x, self._y = tensors_of(problem, held_out, net)
        self._patience = patience
        self._least, self._waited = float("inf"), 0
        self._weights: dict[str, Tensor] | None = None

    def look(self, net: nn.Module) -> float:
        """The current mean square error on the readings."""
        like = next(net.parameters())
        with torch.no_grad(), evaluating(net):
            off = net(self._x.to(like)) - self._y.to(like)
        missed = float(off[self._y.isfinite().to(off.device)].square().mean())
        if missed < self._least:
            self._least, self._waited = missed, 0
            self._weights = copy.deepcopy(net.state_dict()) if self._patience is not None else None
        else:
            self._waited += 1
        return missed

    @property
    def over(self) -> bool:
        """Whether the patience is exhausted."""
        return self._patience is not None and self._waited >= self._patience

    def restore(self, net: nn.Module) -> None:
        """Give a network the weights with the smallest error on the readings."""
        if self._weights is not None:
            net.load_state_dict(self._weights)

    def state(self) -> State:
        """The complete changing state."""
        return {"least": self._least, "waited": self._waited, "weights": self._weights}

    def load(self, state: State) -> None:
        """Resume from a state."""
        self._least, self._waited, self._weights = state["least"], state["waited"], state["weights"]
