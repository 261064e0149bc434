"""Training of ensembles, on the same problem from several starts, in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeAlias

import torch
from torch import nn
from tqdm.auto import tqdm

from guardband.base.engine import GUARD, takes_old_places
from guardband.pinn.predictors.potential import flat_weights
from guardband.pinn.problems import Problem
from guardband.pinn.training.fitted import Fitted
from guardband.pinn.training.train import fit
from guardband.predictors import Ensemble
from guardband.values import Observations

Job: TypeAlias = tuple[nn.Module, int]
"""An untrained network and its training seed."""


@takes_old_places
def train_ensemble(
    problem: Problem,
    make_net: Callable[[int], nn.Module],
    training_data: Observations | None = None,
    *,
    seeds: Iterable[int] = range(5),
    on: int | None = None,
    progress: bool = True,
    **options: Any,
) -> Ensemble:
    """Train an ensemble of networks, one for each seed.

    Parameters
    ----------
    problem
        The problem.
    make_net
        A function from a seed to an untrained network.
    training_data
        Observations of the solution.
    seeds
        The seeds of the members.
    on
        The number of processes on this machine, with one thread each; None trains in the current process.
    progress
        Whether to show a progress bar.
    **options
        Other arguments of `pinn.fit`.

    Returns
    -------
    Ensemble
        The predictor of the trained members.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> pinn.predictors.train_ensemble(
    ...     problem,
    ...     lambda seed: pinn.mlp(problem, [8], seed=seed),
    ...     seeds=range(2),
    ...     recipe=recipe,
    ...     progress=False,
    ... )
    Ensemble(2 members)
    """
    jobs = [(make_net(seed), seed) for seed in seeds]
    first, *rest = (flat_weights(net) for net, _ in jobs)
    if any(torch.equal(first, other) for other in rest):
        raise ValueError(
            "`make_net(seed)` returned the same initial weights twice. Use the seed, as in lambda seed: "
            "pinn.mlp(2, [32, 32], seed=seed)."
        )
    one = partial(_train_one, problem, training_data, options)
    with tqdm(total=len(jobs), disable=not progress, desc="ensemble", unit="net") as bar:
        members = []
        for member in _map(one, jobs, on):
            members.append(member)
            bar.update()
    return Ensemble(members)


def _map(one: Callable[[Job], Fitted], jobs: Sequence[Job], on: int | None) -> Iterator[Fitted]:
    if on is None or on == 1:
        yield from map(one, jobs)
        return
    if isinstance(on, bool) or not isinstance(on, int) or on < 1:
        raise TypeError(f"`on` should be a number of processes on this machine, or None, got {on!r}.")
    spawn = multiprocessing.get_context("spawn")
    refused = "No process could train a member"
    try:
        ForkingPickler.dumps((one, jobs))
    except Exception as error:  # picklers raise errors of any type
        raise RuntimeError(f"{refused} ({error}). {GUARD}") from error
    try:
        with ProcessPoolExecutor(
            on, mp_context=spawn, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            yield from pool.map(one, jobs)
    except BrokenProcessPool as error:
        raise RuntimeError(f"{refused} ({error}). {GUARD}") from error


def _train_one(
    problem: Problem, training_data: Observations | None, options: dict[str, Any], job: Job
) -> Fitted:
    net, seed = job
    return fit(problem, net, training_data, seed=seed, progress=False, **options)
