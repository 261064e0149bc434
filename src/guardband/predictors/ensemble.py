"""Ensemble: several networks trained alike from different starts; where they disagree, they are unsure."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from guardband.arrays import Array, like, to_numpy
from guardband.kept import kept
from guardband.models import Model, call_model
from guardband.pinn import Fitted, fit
from guardband.pinn.potential import flat_weights
from guardband.predictors.modules import Spread, answer, network_of
from guardband.problems import Problem
from guardband.values import Observations, Prediction, Predictor

Job: TypeAlias = tuple[nn.Module, int]
"""An untrained network and the seed of its training."""


@kept
class Ensemble(Predictor):
    """The mean and the standard deviation over models that were trained alike, from different seeds.

    The members are torch modules, functions or results of `fit`, two at least.
    Cost: as many trainings as there are members; per point one evaluation of each.

    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.predictors.Ensemble([np.sin, np.cos])(np.array([[0.0]])).mean
    array([[0.5]])
    """

    def __init__(self, members: Sequence[Model], *, training_data: Observations | None = None) -> None:
        if len(members) < 2:
            raise ValueError(f"An ensemble needs at least two members, got {len(members)}.")
        self.members: tuple[Model, ...] = tuple(members)
        known = [training_data, *(getattr(member, "training_data", None) for member in members)]
        found = (data for data in known if isinstance(data, Observations))
        self.training_data: Observations | None = next(found, None)

    @classmethod
    def train(
        cls,
        problem: Problem,
        make_net: Callable[[int], nn.Module],
        training_data: Observations | None = None,
        *,
        seeds: Iterable[int] = range(5),
        workers: int = 1,
        progress: bool = True,
        **options: Any,
    ) -> Ensemble:
        """Train `make_net(seed)` for each seed, in so many processes with one thread each.

        All other options go to `fit`. With one worker the trainings run here, one after the other.
        """
        jobs = [(make_net(seed), seed) for seed in seeds]
        first, *rest = (flat_weights(net) for net, _ in jobs)
        if any(torch.equal(first, other) for other in rest):
            raise ValueError(
                "`make_net(seed)` gave the same starting weights twice. Use the seed: "
                "lambda seed: gb.mlp(2, [32, 32], seed=seed)."
            )
        one = partial(_train_one, problem, training_data, options)
        with tqdm(total=len(jobs), disable=not progress, desc="ensemble", unit="net") as bar:
            members = []
            for member in _map(one, jobs, workers):
                members.append(member)
                bar.update()
        return cls(members)

    def __call__(self, x: Array) -> Prediction:
        """Mean and standard deviation over the members, one at a time: memory does not grow with them."""
        mean = squares = np.zeros(1)
        for i, member in enumerate(self.members):
            output = to_numpy(call_model(member, x)).astype(float)
            change = output - mean
            mean = mean + change / (i + 1)
            squares = squares + change * (output - mean)
        return Prediction(x, like(x, mean), like(x, np.sqrt(squares / (len(self.members) - 1))))

    def as_module(self) -> nn.Module:
        """Mean and standard deviation over the members."""
        return Spread(_Members([network_of(member) for member in self.members]))

    def __repr__(self) -> str:
        return f"Ensemble({len(self.members)} members)"


def _map(one: Callable[[Job], Fitted], jobs: Sequence[Job], workers: int) -> Iterator[Fitted]:
    if workers == 1:
        yield from map(one, jobs)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=spawn, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        yield from pool.map(one, jobs)


def _train_one(
    problem: Problem, training_data: Observations | None, options: dict[str, Any], job: Job
) -> Fitted:
    net, seed = job
    return fit(problem, net, training_data, seed=seed, progress=False, **options)


class _Members(nn.Module):
    """What each network says, (members, n, m)."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """(members, n, m)."""
        return torch.stack([answer(member, x).to(x.dtype).double() for member in self.members])
