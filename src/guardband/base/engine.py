"""Where work is done: here, on a Dask cluster of this machine, or on any Dask scheduler; `on=` says so."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from numbers import Integral
from typing import Any, ParamSpec, TypeAlias, TypeVar

from guardband.base import extras

P = ParamSpec("P")
R = TypeVar("R")

On: TypeAlias = Any
"""Where work is done: None in this process, a number of Dask workers that are started on this machine, the
address of a Dask scheduler such as "tcp://head:8786", or a `distributed.Client`."""

GUARD = (
    "New processes import the script that starts them, and the modules of what they are sent: write the call "
    'below `if __name__ == "__main__":`, and keep functions and classes in a module rather than in a lambda '
    "or a notebook. Or leave `on` out."
)
"""What to do where processes cannot be started."""

OLD = ("workers", "scheduler", "client")
"""What `on` was called in 0.2; these go away in 0.4."""


class SchedulerGone(RuntimeError):
    """The Dask scheduler does not answer any more."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch, if it is loaded, on one thread in a block: what is computed does not depend on the machine."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def takes_old_places(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that takes `on=` be called with `workers=`, `scheduler=` or `client=` too, as in 0.2."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        old = {name: kwargs.pop(name) for name in OLD if name in kwargs}
        if old:
            warnings.warn(f"`{'` and `'.join(old)}` is now `on`.", DeprecationWarning, stacklevel=2)
            kwargs["on"] = one_place(kwargs.get("on"), *old.values())
        return function(*args, **kwargs)

    return called


def one_place(*places: On) -> On:
    """The one place among those that were given, if any was."""
    given = [place for place in places if place is not None]
    if len(given) > 1:
        raise ValueError(f"Work is done in one place: `on` should be one value, got {given}.")
    return given[0] if given else None


def place_of(word: str | None) -> On:
    """A place from the command line: a number of workers, or the address of a scheduler.

    >>> place_of("4"), place_of("tcp://head:8786")
    (4, 'tcp://head:8786')
    """
    return int(word) if word is not None and word.isdecimal() else word


@contextmanager
def connect(on: On = None) -> Iterator[Any]:
    """A Dask client for where work is done; None for this process.

    Processes started here have one thread each, and not the allocator setting that Dask gives them, which
    slows torch down. Workers of a scheduler that was started elsewhere are taken as they are:
    start them with `MALLOC_TRIM_THRESHOLD_` unset and `OMP_NUM_THREADS=1`.
    """
    if on is None or hasattr(on, "scheduler_info"):
        yield on
        return
    if isinstance(on, bool) or not isinstance(on, Integral | str):
        raise TypeError(
            "`on` should be a number of workers, the address of a Dask scheduler such as "
            f"'tcp://head:8786', or a distributed.Client, got {on!r}."
        )
    if isinstance(on, Integral) and on < 1:
        raise ValueError(f"`on` should be at least 1 worker, got {on}.")
    distributed, dask = extras.load("distributed", "scale"), extras.load("dask", "scale")
    if isinstance(on, str):
        with distributed.Client(on, timeout=20) as client:
            if not client.ncores():
                warnings.warn(f"No worker is at {on} yet: waiting for the first.", stacklevel=3)
            yield client
        return
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        "distributed.scheduler.allowed-failures": 100,  # a killed worker says nothing about its task
        "distributed.deploy.lost-worker-timeout": "1 day",  # killed twice in 15 s, one would not return
    }
    with dask.config.set(settings):
        try:
            cluster = distributed.LocalCluster(
                n_workers=int(on),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=50,
            )
        except RuntimeError as error:
            raise RuntimeError(f"No worker could be started ({error}). {GUARD}") from error
        with cluster, distributed.Client(cluster) as client:
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
