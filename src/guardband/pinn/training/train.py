"""Train: from a problem, a network and observations to a `Fitted`."""

from __future__ import annotations

import copy
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn
from tqdm.auto import tqdm

from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.misses.unknowns import check_unknowns
from guardband.pinn.networks.derivatives import layers_of
from guardband.pinn.networks.networks import MLP, Constrained, inner_of
from guardband.pinn.networks.windows import Windowed
from guardband.pinn.problems import Problem
from guardband.pinn.problems.measured import measured
from guardband.pinn.problems.unknown import unknowns_in
from guardband.pinn.training.arguments import check_newton, check_pair, floats_of, refuse_copies, setting
from guardband.pinn.training.checkpoint import read, write
from guardband.pinn.training.fitted import Fitted, TrainingInterrupted
from guardband.pinn.training.identity import of_task, points_in
from guardband.pinn.training.recipe import Recipe
from guardband.pinn.training.restarts import best_of
from guardband.pinn.training.schedule import Task
from guardband.pinn.training.training import Moment, Trainer
from guardband.values import Observations


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
    Gauss-Newton steps (`Recipe.automatic`); with dropout, on a GPU, beyond 20,000 weights (5,000 with more
    than 50 readings), beyond 2,000 readings (50 with unknowns), and for networks that are no multilayer
    perceptron, by Adam and L-BFGS. On a GPU these are less accurate, often by a factor of 100 or more, than
    the Gauss-Newton steps that the CPU would take, and a warning says so. A `Fitted` in place of the network
    is trained on, from where it ended.

    `held_out` are readings that training does not use: the verdict holds the network against them, and with
    `Recipe(patience=...)` they end the run. Calibration refuses them like training rows. With `restarts` the
    network is trained so many times, from other starts, and the one that meets held-out readings best is
    returned, or without any the one whose estimated error is smallest; how far they differ is in its verdict.

    `callback(now)` is called with a `Moment` at each row of the history, and ends the run by returning True.
    With a `checkpoint` file a killed run goes on, bit for bit, when called again in the same way; the file is
    removed at the end. A file of another run (other data, another network, settings or equation) or a damaged
    one is refused. `compile` uses `torch.compile`, by default where the run is long enough to pay for it;
    results then differ in the last digits.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> train = problem.observe(60, noise=0.1)
    >>> fitted = pinn.fit(problem, pinn.mlp(problem), train, progress=False)
    >>> fitted([0.25, 0.5]).shape
    (2, 1)
    """
    earlier = net if isinstance(net, Fitted) else None
    module = net.net if isinstance(net, Fitted) else net
    check_pair(problem, module)
    likelihood = setting(likelihood, Likelihood, "likelihood", "pinn.Likelihood(data=...)")
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
    chosen = setting(wanted, Recipe, "recipe", "pinn.Recipe(steps=...)")
    check_newton(chosen, module, device)
    check_unknowns(problem, data=data is not None, windows=chosen.windows)
    start = copy.deepcopy(module).to(device=device, dtype=floats_of(dtype))
    task = Task(problem, start, data, watched, likelihood, chosen, seed, compile, earlier)
    run = Trainer(task)
    path = None if checkpoint is None else Path(checkpoint)
    identity = {} if path is None else of_task(task)
    if path is not None and os.path.lexists(path):
        run.load(read(path, at_most=run.most_bytes()), identity, path)
    shown = 0.0
    try:
        with tqdm(total=run.total, initial=run.step, disable=not progress, desc="fit", unit="step") as bar:
            for now in run:
                bar.update(run.step - bar.n)
                if not bar.disable and time.monotonic() > shown + 1.0:
                    bar.set_postfix(run.relative())
                    shown = time.monotonic()
                stop = callback is not None and callback(now)
                if path is not None:
                    write(path, run.state() | {"identity": identity})
                if stop:
                    run.stopped = True
                    break
            bar.total = run.step
    except KeyboardInterrupt as error:
        run.recall()
        said = f"Training was interrupted at step {run.step}; the network so far is in `error.fitted`."
        raise TrainingInterrupted(said, run.fitted()) from error
    if path is not None:
        path.unlink(missing_ok=True)
    fitted = run.fitted()
    if progress:
        _tell(fitted)
    return fitted


def _tell(fitted: Fitted) -> None:
    """What is to be said of a training that has ended; nothing said is no reason to lose it."""
    try:
        if fitted.verdict.word != "converged":
            tqdm.write(str(fitted.verdict), file=sys.stderr)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        tqdm.write(f"There is no verdict on this training: {error}", file=sys.stderr)


MOST_WEIGHTS = 20_000
"""Gauss-Newton steps of larger networks take too long to be made unasked."""

FEW, MOST_WITH_DATA = 50, 5_000
"""With more than so many readings Adam finds the basin of a network beyond so many weights sooner."""

MANY = 2_000
"""So many readings are too many for steps that look at all of them; Adam takes some at a time. With unknowns,
whose equation is not held firmly, Gauss-Newton steps would follow the noise of more than `FEW`."""


def _automatic(
    problem: Problem, net: nn.Module, data: Observations | None, device: torch.device | str | None
) -> Recipe:
    """Gauss-Newton where it can be had, else Adam and L-BFGS."""
    one = net.nets[0] if isinstance(net, Windowed) else net
    inner, like = inner_of(one), next(one.parameters())
    dropout = isinstance(inner, MLP) and inner.dropout > 0
    cpu = (like.device if device is None else torch.device(device)).type == "cpu"
    known = layers_of(inner, points_in(problem.domain)[:1].to(like)) is not None
    readings = 0 if data is None else len(data)
    most = MOST_WEIGHTS if readings <= FEW else MOST_WITH_DATA
    many = FEW if unknowns_in(problem) else MANY
    large = sum(weight.numel() for weight in one.parameters()) > most or readings > many
    if dropout or large or not known:
        return Recipe()
    if not cpu:
        warnings.warn(
            f"On the device {like.device if device is None else device} `fit` takes Adam and L-BFGS, "
            "pinn.Recipe(). They are less accurate than the Gauss-Newton steps in float64 that it takes on "
            "the "
            'CPU: device="cpu". With a recipe of your own there is no warning.',
            stacklevel=3,
        )
        return Recipe()
    windows = 1 if isinstance(one, Constrained) else None
    return Recipe.automatic(problem, data=data is not None, windows=windows)
