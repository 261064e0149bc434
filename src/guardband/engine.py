"""Engines: where work is done. Here, on a Dask cluster of this machine, or on any Dask scheduler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from guardband import extras


class SchedulerGone(RuntimeError):
    """The Dask scheduler does not answer any more."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread for the length of a block: what is computed does not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def connect(workers: int | None = None, scheduler: str | None = None) -> Iterator[Any]:
    """A Dask client for `workers` processes here, or for the scheduler at an address; None for neither.

    Processes started here have one thread each, and not the allocator setting that Dask gives them, which
    slows torch down. Workers of a scheduler that was started elsewhere are taken as they are:
    start them with `MALLOC_TRIM_THRESHOLD_` unset and `OMP_NUM_THREADS=1`.
    """
    if workers is not None and scheduler is not None:
        raise ValueError("Give `workers` or `scheduler`, not both: a scheduler has workers of its own.")
    if workers is not None and workers < 1:
        raise ValueError(f"`workers` should be at least 1, got {workers}.")
    if workers is None and scheduler is None:
        yield None
        return
    distributed, dask = extras.load("distributed", "scale"), extras.load("dask", "scale")
    if scheduler is not None:
        with distributed.Client(scheduler, timeout=20) as client:
            if not client.ncores():
                warnings.warn(f"No worker is at {scheduler} yet: waiting for the first.", stacklevel=3)
            yield client
        return
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        "distributed.scheduler.allowed-failures": 100,  # a killed worker says nothing about its task
        "distributed.deploy.lost-worker-timeout": "1 day",  # killed twice in 15 s, one would not return
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def each(client: Any, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """function(item) for all items, as they are finished: here without a client, else on its workers.

    An item whose worker was killed is given to another one, as often as that happens.
    """
    if client is None:
        yield from map(function, items)
        return
    distributed = extras.load("distributed", "scale")
    gone = (
        distributed.client.FuturesCancelledError,
        distributed.client.FutureCancelledError,
        distributed.comm.CommClosedError,
    )
    try:
        waiting = {client.submit(function, item, pure=False): item for item in items}
        while waiting:
            for future in _finished(distributed, waiting):
                item = waiting.pop(future)
                if isinstance(future.exception(), distributed.KilledWorker):
                    waiting[client.submit(function, item, pure=False)] = item
                else:
                    yield future.result()
    except gone as lost:
        message = "The scheduler is gone. Start one and run the same again; nothing is lost."
        raise SchedulerGone(message) from lost


def _finished(distributed: Any, waiting: Collection[Any]) -> Collection[Any]:
    """Those that are finished within a second; a task's own TimeoutError is not swallowed here."""
    try:
        return distributed.wait(list(waiting), timeout=1, return_when="FIRST_COMPLETED").done
    except TimeoutError:
        return ()
