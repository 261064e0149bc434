"""Training: one readable loop from a problem, a network and observations to a `Fitted`."""

from __future__ import annotations

import copy
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from guardband.arrays import Array, rows
from guardband.kept import kept
from guardband.models import call_model, evaluating
from guardband.pinn.checkpoint import damaged, read, write, wrong_with
from guardband.pinn.given import (
    check_equation,
    check_newton,
    check_pair,
    floats_of,
    inner_of,
    measured,
    setting,
    tensors_of,
)
from guardband.pinn.identity import differences, hash_of, of_network, of_problem, settings_of
from guardband.pinn.likelihood import TERMS, Likelihood
from guardband.pinn.mean_squares import MeanSquares, check_shapes
from guardband.pinn.networks import MLP
from guardband.pinn.newton import LOOK, Newton
from guardband.pinn.points import Points, conditions_of, fixed_points
from guardband.pinn.recipe import Recipe
from guardband.pinn.record import Record
from guardband.pinn.scales import scales_of, sizes_of
from guardband.pinn.titles import titles_of
from guardband.problems import Problem
from guardband.values import Names, Observations


@kept(optional=("problem",))
@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained network with all that made it; called like its network, with numpy or torch.

    >>> import guardband as gb
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=100, finish=0)
    >>> fitted = gb.fit(problem, gb.mlp(1, [8]), problem.observe(60), recipe=recipe, progress=False)
    >>> fitted
    Fitted(MLP of 25 weights, Poisson1D(), Observations(60 points, x (60, 1), y (60, 1)))
    >>> [row["step"] for row in fitted.history]
    [50.0, 100.0]
    >>> list(fitted.terms[-1])
    ['step', 'data', 'equation', 'Dirichlet']
    """

    net: nn.Module
    problem: Problem
    training_data: Observations | None
    likelihood: Likelihood
    recipe: Recipe
    history: list[dict[str, float]]
    """The mean squares of data, equation and conditions; over their scales where each name has its own."""
    terms: tuple[dict[str, float], ...] = ()
    """At the steps of the history, the mean square of each equation and condition by its name."""

    def __repr__(self) -> str:
        weights = sum(parameter.numel() for parameter in self.net.parameters())
        net = f"{type(self.net).__name__} of {weights} weights"
        return f"Fitted({net}, {self.problem!r}, {self.training_data!r})"

    def __call__(self, x: Array) -> Array:
        """The outputs (n, m) at points x (n, d), as the kind of array x is.

        Of a tensor that asks for gradients the outputs can be differentiated.
        """
        if isinstance(x, Tensor) and x.requires_grad:
            with evaluating(self.net):
                return self.net(x.to(next(self.net.parameters()))).to(x)
        return call_model(self.net, rows(x, "x"))

    @property
    def names(self) -> Names | None:
        """What axes and outputs are called."""
        return getattr(self.net, "names", None) if self.problem is None else self.problem.names


class TrainingDiverged(RuntimeError):
    """Training ran away; `fitted` holds the last good state.

    >>> import guardband as gb
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=50, learning_rate=1e6, warmup=0)
    >>> try:
    ...     fitted = gb.fit(problem, gb.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False)
    ... except gb.TrainingDiverged as error:
    ...     fitted = error.fitted
    ...     print(str(error).partition(":")[0])
    Training diverged at step 50
    """

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted


def fit(
    problem: Problem,
    net: nn.Module,
    training_data: Observations | Sequence[Observations] | None = None,
    *,
    likelihood: Likelihood | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    callback: Callable[[int, dict[str, float]], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    compile: bool | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    progress: bool = True,
) -> Fitted:
    """Train a copy of a network on an equation and, if there are any, on observations of its solution.

    There may be several sets of observations, of different outputs at different points.

    The loss is the likelihood's negative logarithm: squares over noise variances. `callback(step, row)` is
    called with each row of the history. With a `checkpoint` file a killed run goes on, bit for bit, when
    called again in the same way; the file is removed at the end. A file of another run (other data, another
    network, settings or equation) or a damaged one is refused. `compile` uses `torch.compile`, by default
    where the run is long enough to pay for it; results then differ in the last digits.

    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> train = problem.observe(60, noise=0.1)
    >>> recipe = gb.Recipe(steps=20, finish=0)  # to be quick; leave it out
    >>> fitted = gb.fit(problem, gb.mlp(1, [16, 16]), train, recipe=recipe, progress=False)
    >>> fitted([0.25, 0.5]).shape
    (2, 1)
    """
    check_pair(problem, net)
    likelihood = setting(likelihood, Likelihood, "likelihood", "gb.Likelihood(data=...)")
    recipe = setting(recipe, Recipe, "recipe", "gb.Recipe(steps=...)")
    check_newton(recipe, net)
    data = measured(problem, training_data)
    run = _Run(problem, net, data, likelihood, recipe, seed, compile, device, floats_of(dtype))
    path = None if checkpoint is None else Path(checkpoint)
    identity = None if path is None else run.identity()
    if path is not None and os.path.lexists(path):
        run.load(read(path, at_most=run.most_bytes()), identity, path)
    with tqdm(total=run.total, initial=run.step, disable=not progress, desc="fit", unit="step") as bar:
        for row in run:
            bar.update(run.step - bar.n)
            bar.set_postfix({name: f"{math.sqrt(row[name]):.2g}" for name in TERMS})
            if callback is not None:
                callback(run.step, row)
            if path is not None:
                write(path, run.state() | {"identity": identity})
        bar.total = run.step
    if path is not None:
        path.unlink(missing_ok=True)
    return run.fitted()


EVERY = 50
"""Steps between rows of the history, checkpoints and looks at divergence."""


class _Run:
    """A training run: everything that changes while it goes on, and so must be kept in a checkpoint."""

    def __init__(
        self,
        problem: Problem,
        net: nn.Module,
        training_data: Observations | None,
        likelihood: Likelihood,
        recipe: Recipe,
        seed: int,
        compile: bool | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        self.began = time.thread_time()
        self.problem, self.recipe, self.training_data, self.seed = problem, recipe, training_data, seed
        self.net = _copied(net, problem, device, dtype).train()
        self.like = next(self.net.parameters())
        self.generator = torch.Generator().manual_seed(seed)
        self.data = tensors_of(problem, training_data, self.net)
        placing = None if recipe.even else self.generator
        self.full = fixed_points(problem, self.net, self.data, recipe.n_interior, recipe.n_boundary, placing)
        check_shapes(problem, self.net, self.full)
        check_equation(problem, self.net, self.full.inside)
        self.titles = titles = titles_of(problem, self.net, self.full.inside)
        self.sizes = sizes_of(problem, self.data[1])
        self.given, self.likelihood = likelihood, likelihood.completed(problem, titles, self.sizes)
        compile = self._pays() if compile is None else compile
        units = scales_of(self.likelihood, problem, titles, only_names=True)
        self.mean_squares = MeanSquares(problem, self.net, self.full, scales=units, compile=compile)
        self.adam = torch.optim.Adam(self.net.parameters(), fused=self.like.device.type in ("cpu", "cuda"))
        self.lbfgs = self._lbfgs()
        self.step, self.done, self.history = 0, False, []
        self.before, self.own = 0.0, self.like.dtype
        self.newton: Newton | None = None
        self.record, self.terms = Record(problem, self.net, self.full), list[dict[str, float]]()
        self.start: float | None = None
        self.good = copy.deepcopy(self.net.state_dict())

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Train, giving a row of the history from time to time."""
        while self.step < self.recipe.steps and self._in_time():
            told = (self.step + 1) % EVERY == 0 or self.step + 1 == self.recipe.steps
            misses = list[Tensor]() if told else None
            squares = self._adam_step(misses)
            self.step += 1
            if misses is not None:
                yield self._row(squares, misses)
        if self.recipe.newton:
            yield from self._by_newton()
        while not self.done and self._in_time() and self.step < self.total:
            yield self._row(*self._lbfgs_steps())

    @property
    def total(self) -> int:
        """How many steps there are at most."""
        return self.recipe.steps + self.recipe.newton + self.recipe.finish

    def _in_time(self) -> bool:
        """Whether the budget is not used up; some steps are made in any case."""
        budget = self.recipe.seconds
        return budget is None or not self.history or self._spent() < budget

    def _spent(self) -> float:
        """CPU seconds of this thread, and of runs before it."""
        return self.before + time.thread_time() - self.began

    def _by_newton(self) -> Iterator[dict[str, float]]:
        """Gauss-Newton steps, in float64; after them the network has its own dtype again."""
        end = self.recipe.steps + self.recipe.newton
        newton = self.newton or self._begin_newton()
        while self.step < end and self._in_time() and not newton.done:
            steps = min(LOOK, end - self.step)
            newton.advance(steps)
            self.step += steps
            misses = list[Tensor]()
            with torch.no_grad():
                squares = self.mean_squares(newton.points, misses)
            yield self._row(squares, misses)
        self.net.to(self.own)

    def _begin_newton(self) -> Newton:
        self.net.double()
        data = tensors_of(self.problem, self.training_data, self.net)
        scales = scales_of(self.likelihood, self.problem, self.titles)
        most = self.recipe.newton_points(self.problem.domain.d)
        self.newton = Newton(self.problem, self.net, data, scales, self.sizes, most=most, seed=self.seed)
        return self.newton

    def _adam_step(self, misses: list[Tensor] | None) -> Tensor:
        for group in self.adam.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        squares = self.mean_squares(self._points(self.recipe.batch), misses)
        loss = self._weights(self.recipe.physics_factor(self.step)) @ squares
        self.adam.zero_grad()
        if self.start is None:
            self.start = float(self._weights(1.0) @ squares.detach())
        loss.backward()
        self.adam.step()
        return squares.detach()

    def _lbfgs_steps(self) -> tuple[Tensor, list[Tensor]]:
        """EVERY iterations on the fixed points; done when they gain less than `min_improvement`."""
        seen, misses = list[Tensor](), list[Tensor]()
        weights = self._weights(1.0)

        def closure() -> Tensor:
            self.lbfgs.zero_grad()
            self._same_masks()
            misses.clear()
            seen.append(self.mean_squares(self.full, misses))
            loss = weights @ seen[-1]
            loss.backward()
            return loss

        self.lbfgs.step(closure)  # type: ignore[arg-type]
        before, after = (float(weights @ squares.detach()) for squares in (seen[0], seen[-1]))
        self.done = not after < (1 - self.recipe.min_improvement) * before
        self.step += EVERY
        return seen[-1].detach(), misses

    def _same_masks(self) -> None:
        """Dropout masks that stay while L-BFGS goes on, which cannot follow a loss that changes."""
        for module in self.net.modules():
            if isinstance(module, MLP):
                module.generator.manual_seed(self.seed)

    def _weights(self, physics_factor: float) -> Tensor:
        """The weights of the mean squares, scaled to sum to 1; no optimizer here minds the scale."""
        weights = self.likelihood.weights(physics_factor)
        return (weights / weights.sum()).to(self.like)

    def _points(self, batch: int | None) -> Points:
        """All points, fixed, or a random batch: fresh points inside and on the boundary, some of the data."""
        x, y = self.data
        domain, conditions = self.problem.domain, conditions_of(self.problem, self.net)
        if batch is None:
            return self.full
        chosen = torch.randperm(len(x), generator=self.generator)[: 2 * batch].to(x.device)
        x, y = x[chosen], y[chosen]
        inside = domain.uniform(batch, self.generator)
        edges = [c.points(domain, batch, self.generator).to(self.like) for c in conditions]
        return Points(x, y, inside.to(self.like), tuple(edges))

    def _row(self, squares: Tensor, misses: list[Tensor]) -> dict[str, float]:
        """A row of the history, or the end of a run that ran away."""
        row = {"step": float(self.step), **dict(zip(TERMS, squares.tolist(), strict=True))}
        now = float(self._weights(1.0) @ squares)
        start = now if self.start is None else self.start
        if not now < 1e3 * start + 1e-30 or not all(bool(p.isfinite().all()) for p in self.net.parameters()):
            self.net.load_state_dict(self.good)
            rate = self.recipe.learning_rate
            raise TrainingDiverged(
                f"Training diverged at step {self.step}: the loss went from {start:.3g} to {now:.3g}. The "
                f"last good network is in `error.fitted`. Try a learning rate of {rate / 10:g} (it is "
                f"{rate:g}), a longer warm-up, or look for a residual that is not finite somewhere.",
                self.fitted(),
            )
        row["loss"] = now
        self.history.append(row)
        self.terms.append(self.record.row(self.step, misses))
        self.good = copy.deepcopy(self.net.state_dict())
        return row

    def _lbfgs(self) -> torch.optim.LBFGS:
        return torch.optim.LBFGS(
            self.net.parameters(),
            max_iter=EVERY,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_grad=0.0,
            tolerance_change=0.0,
        )

    def _pays(self) -> bool:
        """Whether compiling is worth its cold start: some 1e12 multiplications of points by weights."""
        points = self.recipe.batch or len(self.full.inside)
        weights = sum(p.numel() for p in self.net.parameters())
        work = self.recipe.steps * points * weights * (2 + self.problem.domain.d)
        return work > 1e12 and self.like.device.type == "cpu" and shutil.which("g++") is not None

    def fitted(self) -> Fitted:
        """The result so far."""
        net = copy.deepcopy(self.net).to(self.own).eval()
        told = list(self.history), tuple(self.terms)
        return Fitted(net, self.problem, self.training_data, self.likelihood, self.recipe, *told)

    def state(self) -> dict[str, Any]:
        """All that changes, for a checkpoint."""
        return {
            "step": self.step,
            "done": self.done,
            "start": self.start,
            "history": self.history,
            "terms": self.terms,
            "net": self.net.state_dict(),
            "adam": self.adam.state_dict(),
            "lbfgs": self.lbfgs.state_dict(),
            "newton": None if self.newton is None else self.newton.state(),
            "spent": self._spent(),
            "generators": [generator.get_state() for generator in self._generators()],
        }

    def identity(self) -> dict[str, Any]:
        """What makes a run the one that it is, asked before it begins."""
        return {
            "data": hash_of(*self.data),
            "network": of_network(self.net, self.problem.domain),
            "problem": of_problem(self.problem, self.net),
            "recipe": settings_of(self.recipe),
            "likelihood": settings_of(self.given),
            "seed": settings_of(self.seed),
        }

    def most_bytes(self) -> int:
        """What no checkpoint of this run exceeds: L-BFGS keeps some fifty times the weights."""
        weights = sum(part.numel() * part.element_size() for part in self.net.state_dict().values())
        return 2**26 + 100 * weights + 1000 * self.total

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
        self.step, self.done, self.start = state["step"], state["done"], state["start"]
        self.history, self.terms = state["history"], state.get("terms", [])
        self.before = state.get("spent", 0.0)
        if state.get("newton") is not None:
            self._begin_newton().load(state["newton"])
        self.net.load_state_dict(state["net"])
        for optimizer, stored in ((self.adam, state["adam"]), (self.lbfgs, state["lbfgs"])):
            if wrong := wrong_with(optimizer, stored["state"]):
                raise ValueError(wrong)
            settings = optimizer.state_dict()["param_groups"]  # ours: those of the recipe
            optimizer.load_state_dict({"state": stored["state"], "param_groups": settings})
        for generator, stored in zip(self._generators(), state["generators"], strict=True):
            generator.set_state(stored)
        self.good = copy.deepcopy(self.net.state_dict())

    def _generators(self) -> list[torch.Generator]:
        return [self.generator, *(m.generator for m in self.net.modules() if isinstance(m, MLP))]


def _copied(
    net: nn.Module, problem: Problem, device: torch.device | str | None, dtype: torch.dtype | None
) -> nn.Module:
    """A copy of the network on its device, in its dtype, with its inputs scaled to the domain."""
    net = copy.deepcopy(net).to(device=device, dtype=dtype)
    inner = inner_of(net)
    if isinstance(inner, MLP):
        inner.set_domain(problem.domain)
        inner.names = problem.names
    return net
