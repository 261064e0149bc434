"""Training: `fit` turns a problem, a network and observations into a `Fitted`."""

from __future__ import annotations

import copy
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from guardband.leaks import find_copies
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.misses.unknowns import check_unknowns
from guardband.pinn.networks.derivatives import layers_of
from guardband.pinn.networks.modules import has_float64, restarted
from guardband.pinn.networks.traits import core_of, traits_of
from guardband.pinn.problems import Problem
from guardband.pinn.problems.base import as_problem
from guardband.pinn.problems.measured import measured
from guardband.pinn.problems.unknown import check_coefficients, unknowns_in
from guardband.pinn.training.checkpoint import read, write
from guardband.pinn.training.fitted import Fitted, TrainingInterrupted
from guardband.pinn.training.identity import of_task, points_in
from guardband.pinn.training.recipe import Recipe
from guardband.pinn.training.schedule import Task
from guardband.pinn.training.training import Moment, Trainer
from guardband.values import Observations, output_names


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
    """Train a copy of a network on an equation and, optionally, on observations of its solution.

    The loss is the negative log-likelihood, a sum of mean squares divided by noise variances. A run that ends
    without convergence prints its verdict, unless `progress=False`.

    Parameters
    ----------
    problem
        The equation on its domain, with its conditions.
    net
        The network, which is not modified, or a `Fitted`, whose training continues.
    training_data
        Observations of the solution. A sequence of observations may contain different outputs at different
        points.
    likelihood
        The noise scales of data, equation and conditions; see `pinn.Likelihood` for the defaults.
    recipe
        The schedule. The default is `Recipe.automatic`, Gauss-Newton steps. Adam and L-BFGS, `pinn.Recipe()`,
        are the default with dropout, on a GPU, above 20,000 weights (5,000 with more than 50 readings), above
        2,000 readings (50 with unknowns), and for networks that are not multilayer perceptrons. On a GPU they
        are often less accurate than Gauss-Newton steps on the CPU by a factor of 100 or more, and `fit` warns
        about this.
    seed
        The seed of all random numbers in training.
    held_out
        Readings that are not used for training. The verdict compares the network with them, and with
        `Recipe(patience=...)` they determine when the run ends. Calibration refuses them like training rows.
    restarts
        The number of training runs, each from different initial weights. The result is the run with the
        smallest error on `held_out` or, without `held_out`, the smallest estimated error. The verdict reports
        how much the runs differ.
    callback
        A function that receives a `Moment` at each row of the history; returning True ends the run.
    checkpoint
        A file from which a killed run resumes bit for bit, if `fit` is called again with the same arguments.
        The file is removed at the end. A file that is damaged, or that belongs to a run with different data,
        network, settings or equation, is refused.
    compile
        Whether to use `torch.compile`; by default only if the run is long enough to benefit. Compiled results
        differ in the last digits.
    device, dtype
        The device and the precision of the trained copy; by default those of the network.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Fitted
        The trained network with its history, verdict and estimates.

    Raises
    ------
    TrainingDiverged
        If the loss grows a thousandfold or is not finite; `error.fitted` contains the last good network.
    TrainingInterrupted
        On Ctrl-C; `error.fitted` contains the last network.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> train = problem.observe(60, noise=0.1)
    >>> fitted = pinn.fit(problem, pinn.mlp(problem), train, progress=False)
    >>> fitted([0.25, 0.5]).shape
    (2, 1)
    """
    earlier, module = (net, net.net) if isinstance(net, Fitted) else (None, net)
    _check_pair(problem, module)
    likelihood = _setting(likelihood, Likelihood, "likelihood", "pinn.Likelihood(data=...)")
    if restarts != 1:
        if checkpoint is not None:
            raise ValueError(
                "A checkpoint contains a single run. Call `fit` once per start, with a separate checkpoint "
                "each time."
            )
        train = partial(
            fit,
            problem,
            training_data=training_data,
            likelihood=likelihood,
            recipe=recipe,
            held_out=held_out,
            callback=callback,
            compile=compile,
            device=device,
            dtype=dtype,
            progress=progress,
        )
        return _best_of(restarts, seed, module, lambda start, seed: train(start, seed=seed))
    data, watched = measured(problem, training_data), measured(problem, held_out)
    _refuse_copies(data, watched)
    wanted = _automatic(problem, module, data, device) if recipe is None else recipe
    chosen = _setting(wanted, Recipe, "recipe", "pinn.Recipe(steps=...)")
    _check_newton(chosen, module, device)
    check_unknowns(problem, data=data is not None, windows=chosen.windows)
    start = copy.deepcopy(module).to(device=device, dtype=_floats_of(dtype))
    task = Task(problem, start, data, watched, likelihood, chosen, seed, compile, earlier)
    fitted = _run(Trainer(task), callback, None if checkpoint is None else Path(checkpoint), progress)
    if progress:
        _report(fitted)
    return fitted


def _run(
    run: Trainer, callback: Callable[[Moment], bool | None] | None, path: Path | None, progress: bool
) -> Fitted:
    """Train to the end, with a checkpoint at every row of the history."""
    identity = {} if path is None else of_task(run.task)
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
        message = f"Training was interrupted at step {run.step}; the network so far is in `error.fitted`."
        raise TrainingInterrupted(message, run.fitted()) from error
    if path is not None:
        path.unlink(missing_ok=True)
    return run.fitted()


def _report(fitted: Fitted) -> None:
    """Print the verdict if training has not converged; errors in the verdict must not lose the result."""
    try:
        if fitted.verdict.word != "converged":
            tqdm.write(str(fitted.verdict), file=sys.stderr)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        tqdm.write(f"The verdict on this run failed: {error}", file=sys.stderr)


MOST_WEIGHTS = 20_000
"""The largest number of weights for Gauss-Newton steps by default; larger networks take too long."""

FEW, MOST_WITH_DATA = 50, 5_000
"""With more readings than `FEW` and more weights than `MOST_WITH_DATA`, Adam finds a good basin sooner."""

MANY = 2_000
"""Above this number of readings, steps that use all readings are too slow, and Adam uses batches. With
unknowns, the equation has a larger scale, and Gauss-Newton steps would follow the noise of more than `FEW`
readings."""


def _automatic(
    problem: Problem, net: nn.Module, data: Observations | None, device: torch.device | str | None
) -> Recipe:
    """Gauss-Newton steps if they are fast, otherwise Adam and L-BFGS."""
    one = traits_of(net).at_time(-math.inf)
    core, like = core_of(one), next(one.parameters())
    cpu = (like.device if device is None else torch.device(device)).type == "cpu"
    layered = layers_of(core, points_in(problem.domain)[:1].to(like)) is not None
    readings = 0 if data is None else len(data)
    most = MOST_WEIGHTS if readings <= FEW else MOST_WITH_DATA
    many = FEW if unknowns_in(problem) else MANY
    large = sum(weight.numel() for weight in one.parameters()) > most or readings > many
    if traits_of(one).stochastic or large or not layered:
        return Recipe()
    if not cpu:
        warnings.warn(
            f"On the device {like.device if device is None else device} `fit` uses Adam and L-BFGS, "
            "pinn.Recipe(). They are less accurate than the Gauss-Newton steps in float64 that it uses on "
            'the CPU, device="cpu". To suppress this warning, pass a recipe.',
            stacklevel=3,
        )
        return Recipe()
    windows = 1 if traits_of(one).meets_start else None
    return Recipe.automatic(problem, data=data is not None, windows=windows)


def _refuse_copies(training_data: Observations | None, held_out: Observations | None) -> None:
    """Refuse held-out readings that are copies of training rows."""
    if training_data is None or held_out is None:
        return
    found = find_copies(training_data.x, training_data.y, held_out.x, held_out.y, points="held-out")
    if found.verdict == "refuse":
        raise ValueError(found.text)
    if found.verdict == "warn":
        warnings.warn(found.text, stacklevel=4)


Setting = TypeVar("Setting")


def _setting(given: object, kind: type[Setting], name: str, example: str) -> Setting:
    """The setting, or its default if none was given."""
    if given is not None and not isinstance(given, kind):
        raise TypeError(f"`{name}` should be {example}, got {given!r:.80}.")
    return kind() if given is None else given


def _floats_of(dtype: object) -> torch.dtype | None:
    """The dtype of a network, from torch's name or numpy's.

    >>> _floats_of("float64"), _floats_of(torch.float32)
    (torch.float64, torch.float32)
    """
    found = dtype
    if dtype is not None and not isinstance(dtype, torch.dtype):
        with suppress(TypeError):
            found = getattr(torch, np.dtype(dtype).name, dtype)  # type: ignore[arg-type]
    if found is not None and not (isinstance(found, torch.dtype) and found.is_floating_point):
        raise TypeError(f"`dtype` should be torch.float32 or torch.float64, got {dtype!r:.80}.")
    return found


def _check_pair(problem: Problem, net: nn.Module) -> None:
    """Refuse an object that is not a network, and a network whose shape differs from the problem's."""
    if isinstance(problem, nn.Module) and isinstance(net, Problem):
        raise TypeError("The problem comes first, then the network, as in pinn.fit(problem, net, ...).")
    problem = as_problem(problem)
    check_coefficients(problem)
    if not isinstance(net, nn.Module):
        raise TypeError(f"`net` should be a torch module, such as pinn.mlp(problem), got {net!r:.80}.")
    shape, names = traits_of(net).shape, problem.names
    d, m = len(names.axes), len(names.outputs)
    if shape is not None and shape != (d, m):
        raise ValueError(
            f"{type(problem).__name__} has {d} coordinates ({', '.join(names.axes)}) and {m} outputs "
            f"({', '.join(names.outputs)}), the network {shape[0]} and {shape[1]}. "
            f"pinn.mlp(problem) fits it; declare other outputs in the problem: outputs = "
            f"{output_names(shape[1])!r}."
        )


def _check_newton(recipe: Recipe, net: nn.Module, device: torch.device | str | None = None) -> None:
    """Refuse Gauss-Newton steps with dropout, which changes the network, or on devices without float64."""
    place = next(net.parameters()).device if device is None else torch.device(device)
    if recipe.newton and not has_float64(place):
        raise ValueError(
            f"Gauss-Newton steps need float64, which the device {place} does not support. Train on the "
            'CPU, device="cpu", or by Adam and L-BFGS, recipe=pinn.Recipe().'
        )
    if recipe.newton and traits_of(net).stochastic:
        raise ValueError(
            "Gauss-Newton steps need a fixed network, but dropout changes it at every evaluation. Train it "
            "by Adam and L-BFGS, recipe=pinn.Recipe()."
        )


def _best_of(restarts: int, seed: int, net: nn.Module, train: Callable[[nn.Module, int], Fitted]) -> Fitted:
    """The best of several runs from different starts.

    The best run has the smallest error on held-out readings or, without readings, the smallest estimated
    error. Runs that have not converged are excluded from the spread of the solutions.
    """
    if not isinstance(restarts, Integral) or restarts < 1:
        raise ValueError(f"`restarts` should be a positive number of training runs, got {restarts!r:.80}.")
    starts = [net, *(restarted(net, seed + k) for k in range(1, int(restarts)))]
    runs = [train(start, seed + k) for k, start in enumerate(starts)]
    best = min(runs, key=_off)
    sound = [run for run in runs if run is best or run.verdict.word != "not converged"]
    return replace(best, spread=_spread(best, sound))


def _off(run: Fitted) -> tuple[float, float]:
    """The error of a run, on held-out readings or estimated, then the size of its residuals.

    A run whose error could not be estimated ranks after those with an estimate.
    """
    found = run.verdict
    missed = _known(math.hypot(*found.equations.values(), *found.conditions.values()))
    if found.held_out:
        parts = found.held_out.values()
        return max(part.miss / part.size if part.size else part.miss for part in parts), missed
    return max(_known(error) for error in found.error.values()), missed


def _known(number: float) -> float:
    """The number, or infinity instead of NaN."""
    return math.inf if math.isnan(number) else number


def _spread(best: Fitted, runs: Sequence[Fitted]) -> dict[str, float]:
    """The largest relative distance of another run from the best, for each output."""
    x = best.problem.domain.uniform(1000, seed=0, dtype=torch.float64)
    values = [torch.as_tensor(run(x)).double() for run in runs]
    mine = torch.as_tensor(best(x)).double()
    apart = torch.stack([_rms(mine - other) for other in values]).amax(dim=0).tolist()
    sizes = best.verdict.size
    return {
        name: off / sizes.get(name, math.nan)
        for name, off in zip(best.problem.names.outputs, apart, strict=True)
    }


def _rms(part: Tensor) -> Tensor:
    return part.square().mean(dim=0).sqrt()
