"""Run: one network through its stages, on one window of time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from guardband.pinn.likelihood import TERMS
from guardband.pinn.loss import Loss
from guardband.pinn.networks import MLP
from guardband.pinn.recipe import Counts, Recipe
from guardband.pinn.stages import AdamStage, LBFGSStage, NewtonStage, Seen, Stage
from guardband.pinn.unknowns import numbers_in


class Diverged(Exception):
    """A run ran away from one loss to another."""

    start: float
    now: float

    def __init__(self, start: float, now: float) -> None:
        super().__init__(start, now)
        self.start, self.now = start, now


class Run:
    """A run: everything that changes while it goes on, and so must be kept in a checkpoint.

    The network is trained in place. `counts` are the steps of each stage where they are known; then no stage
    looks at its gains. The run ends when its `clock` shows `until`.
    """

    net: nn.Module
    whole: nn.Module
    """The network, and the unknowns of the problem beside it."""
    loss: Loss
    own: torch.dtype
    until: float | None
    good: dict[str, Any]
    stalled: bool
    """Whether the last stage ended because its steps no longer helped."""
    history: list[dict[str, float]]
    terms: list[dict[str, float]]

    def __init__(
        self,
        loss: Loss,
        recipe: Recipe,
        seed: int,
        counts: Counts | None,
        clock: Callable[[], float],
        until: float | None,
    ) -> None:
        self.net, self.own, self.loss = loss.net.train(), loss.like.dtype, loss
        self.whole = loss.whole
        self._clock, self.until = clock, until
        steps = counts or (recipe.steps, recipe.newton, recipe.finish)
        gains = {"seed": seed, "until_stalled": counts is None}
        self._makers: list[Callable[[], Stage]] = [
            partial(AdamStage, loss, recipe, steps[0]),
            partial(NewtonStage, loss, recipe, steps[1], **gains),
            partial(LBFGSStage, loss, recipe, steps[2], **gains),
        ]
        self._wanted = [count > 0 for count in steps]
        self._taken, self._stage, self.stalled = list[int](), None, False
        self.history, self.terms = [], []
        self.good = copy.deepcopy(self.whole.state_dict())

    @property
    def step(self) -> int:
        """How many steps were made."""
        return sum(self.counts)

    @property
    def counts(self) -> Counts:
        """How many steps each stage made."""
        now = [] if self._stage is None else [self._stage.taken]
        taken = [*self._taken, *now, 0, 0, 0]
        return taken[0], taken[1], taken[2]

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Train, giving a row of the history from time to time."""
        while len(self._taken) < len(self._makers):
            if self._wanted[len(self._taken)] and self._in_time():
                stage = self._stage or self._begin()
                while not stage.done and self._in_time():
                    yield self._row(stage.advance(self._in_time))
                self.stalled = stage.done and stage.taken < stage.most
            self._taken.append(0 if self._stage is None else self._stage.taken)
            self._stage = None
            self.whole.to(self.own)

    def _begin(self) -> Stage:
        self._stage = self._makers[len(self._taken)]()
        return self._stage

    def _in_time(self) -> bool:
        """Whether the budget is not used up; some steps are made in any case."""
        return self.until is None or not self.history or self._clock() < self.until

    def _row(self, seen: Seen) -> dict[str, float]:
        """A row of the history, or the end of a run that ran away."""
        row = {"step": float(self.step), **dict(zip(TERMS, seen.squares.tolist(), strict=True))}
        now = float(self.loss.weights(1.0).to(seen.squares) @ seen.squares)
        start = now if self.loss.start is None else self.loss.start
        if not now < 1e3 * start + 1e-30 or not all(
            bool(p.isfinite().all()) for p in self.whole.parameters()
        ):
            self.whole.load_state_dict(self.good)
            raise Diverged(start, now)
        row["loss"] = now
        row |= numbers_in(self.loss.problem)
        self.history.append(row)
        self.terms.append(self.loss.record.row(self.step, seen.misses))
        self.good = copy.deepcopy(self.whole.state_dict())
        return row

    def state(self) -> dict[str, Any]:
        """All that changes."""
        return {
            "taken": self._taken,
            "stalled": self.stalled,
            "stage": None if self._stage is None else self._stage.state(),
            "start": self.loss.start,
            "history": self.history,
            "terms": self.terms,
            "net": self.whole.state_dict(),
            "generators": [generator.get_state() for generator in self._generators()],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same run."""
        self._taken, self.loss.start = state["taken"], state["start"]
        self.stalled = state["stalled"]
        self.history, self.terms = state["history"], state["terms"]
        if len(self._taken) > len(self._makers):
            wrong = f"it has {len(self._taken)} stages"
            raise ValueError(wrong)
        if state["stage"] is not None:
            self._begin().load(state["stage"])
        self.whole.load_state_dict(state["net"])
        for generator, stored in zip(self._generators(), state["generators"], strict=True):
            generator.set_state(stored)
        self.good = copy.deepcopy(self.whole.state_dict())

    def _generators(self) -> list[torch.Generator]:
        return [self.loss.generator, *(m.generator for m in self.net.modules() if isinstance(m, MLP))]
