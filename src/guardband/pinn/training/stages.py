"""The stages of a leg (Adam, Gauss-Newton and L-BFGS), which advance by several steps at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.misses.points import Points, terms_of
from guardband.pinn.misses.unknowns import unknowns_of
from guardband.pinn.networks.traits import generators_in
from guardband.pinn.problems.measured import tensors_of
from guardband.pinn.training.checkpoint import State, wrong_with
from guardband.pinn.training.loss import Loss
from guardband.pinn.training.newton import ANNEALED, LOOK, Newton
from guardband.pinn.training.recipe import Recipe

EVERY = 50
"""The number of steps of Adam and L-BFGS between rows of the history, which are also checkpoints."""


class Seen(NamedTuple):
    """The last mean squares, their misses, and the mean squares before the first step of Adam."""

    squares: Tensor
    misses: list[Tensor]
    first: Tensor | None = None


class Stage(ABC):
    """A part of a leg, with at most `most` steps, of which `taken` are done."""

    taken: int
    most: int

    def __init__(self, most: int) -> None:
        self.taken, self.most = 0, most

    @property
    def done(self) -> bool:
        """Whether no steps are left."""
        return self.taken >= self.most

    @abstractmethod
    def advance(self, in_time: Callable[[], bool]) -> Seen:
        """Take steps up to the next row of the history, or until the time is used up."""

    @abstractmethod
    def state(self) -> State:
        """The complete changing state, except the network."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Resume from a state."""


class AdamStage(Stage):
    """Adam on new random batches or on all points, with an increasing weight of the equation."""

    taken: int
    most: int

    def __init__(self, loss: Loss, recipe: Recipe, most: int, seed: int, *, until_stalled: bool) -> None:
        super().__init__(most)
        self._loss, self._recipe = loss, recipe
        fused = loss.like.device.type in ("cpu", "cuda")
        unknowns = list(unknowns_of(loss.problem).parameters())
        groups = [{"params": list(loss.net.parameters())}, *([{"params": unknowns}] if unknowns else [])]
        self._adam = torch.optim.Adam(groups, fused=fused)

    def advance(self, in_time: Callable[[], bool]) -> Seen:
        """Take up to EVERY steps."""
        first = None
        while True:
            misses = list[Tensor]()
            last = (self.taken + 1) % EVERY == 0 or self.taken + 1 == self.most
            squares = self._step(misses if last else None)
            first = squares if self.taken == 0 else first
            self.taken += 1
            if last:
                return Seen(squares, misses, first)
            if not in_time():
                self.most = self.taken + 1  # one more step, which records the row

    def _step(self, misses: list[Tensor] | None) -> Tensor:
        loss, recipe = self._loss, self._recipe
        rate, factor = recipe.rate(self.taken), recipe.physics_factor(self.taken)
        for group, lr in zip(self._adam.param_groups, (rate, rate / factor**2), strict=False):
            group["lr"] = lr  # unknowns move slowly while the equation has little weight
        weights = loss.weights(factor)
        squares = loss.gradients(self._points(recipe.batch), weights, misses)
        self._adam.step()
        return squares

    def _points(self, batch: int | None) -> Points:
        """All fixed points, or a batch with new interior and boundary points and some of the data."""
        loss = self._loss
        x, y = loss.full.x, loss.full.y
        domain, terms = loss.problem.domain, terms_of(loss.problem, loss.net)
        if batch is None:
            return loss.full
        generator = loss.generator
        chosen = torch.randperm(len(x), generator=generator)[: 2 * batch].to(x.device)
        x, y = x[chosen], y[chosen]
        inside = domain.uniform(batch, generator)
        edges = [c.points(domain, batch, generator).to(loss.like) for c in terms]
        return Points(x, y, inside.to(loss.like), tuple(edges))

    def state(self) -> State:
        """The steps taken and the moments."""
        return {"taken": self.taken, "most": self.most, "adam": self._adam.state_dict()["state"]}

    def load(self, state: State) -> None:
        """Resume from a state."""
        self.taken, self.most = state["taken"], state["most"]
        _remember(self._adam, state["adam"])


class LBFGSStage(Stage):
    """L-BFGS on the fixed points, until EVERY iterations improve the loss by less than `min_improvement`."""

    taken: int
    most: int

    def __init__(self, loss: Loss, recipe: Recipe, most: int, seed: int, *, until_stalled: bool) -> None:
        super().__init__(most)
        self._loss, self._seed, self._stalled = loss, seed, False
        self._enough = recipe.min_improvement if until_stalled else -float("inf")
        self._lbfgs = torch.optim.LBFGS(
            loss.whole.parameters(),
            max_iter=EVERY,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_grad=0.0,
            tolerance_change=0.0,
        )

    @property
    def done(self) -> bool:
        """Whether no steps are left, or the most recent steps did not improve the loss."""
        return self._stalled or super().done

    def advance(self, in_time: Callable[[], bool]) -> Seen:
        """Take EVERY iterations."""
        seen, misses, loss = list[Tensor](), list[Tensor](), self._loss
        weights = loss.weights(1.0)

        def closure() -> Tensor:
            self._same_masks()
            misses.clear()
            seen.append(loss.gradients(loss.full, weights, misses))
            return weights @ seen[-1]

        self._lbfgs.step(closure)
        before, after = (float(weights @ squares) for squares in (seen[0], seen[-1]))
        self._stalled = not after < (1 - self._enough) * before
        self.taken += EVERY
        return Seen(seen[-1], misses)

    def _same_masks(self) -> None:
        """Repeat the same random numbers, since L-BFGS cannot follow a changing loss."""
        for generator in generators_in(self._loss.net):
            generator.manual_seed(self._seed)

    def state(self) -> State:
        """The steps taken and the memory of L-BFGS."""
        return {"taken": self.taken, "stalled": self._stalled, "lbfgs": self._lbfgs.state_dict()["state"]}

    def load(self, state: State) -> None:
        """Resume from a state."""
        self.taken, self._stalled = state["taken"], state["stalled"]
        _remember(self._lbfgs, state["lbfgs"])


class NewtonStage(Stage):
    """Gauss-Newton steps in float64 on points that follow the residual, as long as they improve the loss."""

    taken: int
    most: int

    def __init__(self, loss: Loss, recipe: Recipe, most: int, seed: int, *, until_stalled: bool) -> None:
        super().__init__(most)
        self._loss, self._until_stalled = loss, until_stalled
        loss.whole.double()
        data = tensors_of(loss.problem, loss.training_data, loss.net)
        most_points, beyond = recipe.newton_points(loss.problem.domain.d)
        self._newton = Newton(
            loss.problem,
            loss.net,
            data,
            loss.scales,
            loss.sizes,
            most=most_points,
            beyond=beyond,
            firm=loss.firm,
            anneal=1.0 if recipe.steps else recipe.anneal,  # Adam has already annealed the weight
            annealed=min(ANNEALED, recipe.newton // 2),
            seed=seed,
        )

    @property
    def done(self) -> bool:
        """Whether no steps are left, or the most recent steps did not improve the loss."""
        return super().done or (self._until_stalled and self._newton.done)

    def advance(self, in_time: Callable[[], bool]) -> Seen:
        """Take LOOK steps, or as many as time allows, and check on fresh points."""
        self.taken += self._newton.advance(min(LOOK, self.most - self.taken), in_time)
        misses = list[Tensor]()
        with torch.no_grad():
            return Seen(self._loss.gradients.mean_squares(self._newton.points, misses), misses)

    def state(self) -> State:
        """The steps taken, the points and the damping."""
        return {"taken": self.taken, "newton": self._newton.state()}

    def load(self, state: State) -> None:
        """Resume from a state."""
        self.taken = state["taken"]
        self._newton.load(state["newton"])


STAGES: Sequence[type[AdamStage | NewtonStage | LBFGSStage]] = (AdamStage, NewtonStage, LBFGSStage)
"""The stages of a leg in order, as in `Counts`."""


def _remember(optimizer: torch.optim.Optimizer, memory: dict[int, State]) -> None:
    """Restore the state of an optimizer, if it fits; the settings are taken from the recipe."""
    if wrong := wrong_with(optimizer, memory):
        raise ValueError(wrong)
    settings = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": memory, "param_groups": settings})
