"""Run work in this process, on local Dask workers, or on any Dask scheduler, as selected by `on=`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from numbers import Integral
from types import ModuleType
from typing import Any, ParamSpec, TypeAlias, TypeVar

from guardband.base import extras

P = ParamSpec("P")
R = TypeVar("R")


On: TypeAlias = Any
"""Where work runs: None for this process, a number of Dask workers to start on this machine, the address of a
Dask scheduler such as "tcp://head:8786", or a `distributed.Client`."""

Future: TypeAlias = Any
"""A `distributed.Future`."""

Client: TypeAlias = Any
"""A `distributed.Client`, or None for this process."""

GUARD = (
    "New processes import the script that starts them and the modules of the objects that they receive. Put "
    'the call below `if __name__ == "__main__":`, and define functions and classes in a module rather than '
    "in a notebook or as a lambda. Or omit `on`."
)
"""The remedy if processes cannot be started."""

OLD = ("workers", "scheduler", "client")
"""The names of `on` in version 0.2, to be removed in version 0.4."""


class SchedulerGone(RuntimeError):
    """The Dask scheduler no longer responds."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch, if it is loaded, on one thread, so that results do not depend on the machine."""
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
    """Let a function that takes `on=` also take the old arguments `workers=`, `scheduler=`, `client=`."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        old = {name: kwargs.pop(name) for name in OLD if name in kwargs}
        if old:
            warnings.warn(f"`{'` and `'.join(old)}` is now `on`.", DeprecationWarning, stacklevel=2)
            kwargs["on"] = one_place(kwargs.get("on"), *old.values())
        return function(*args, **kwargs)

    return called


def one_place(*places: On) -> On:
    """The only place that is not None, or None."""
    given = [place for place in places if place is not None]
    if len(given) > 1:
        raise ValueError(f"`on` should select one place where work runs, got {given}.")
    return given[0] if given else None


def place_of(word: str | None) -> On:
    """A place from the command line: a number of workers, or the address of a scheduler.

    >>> place_of("4"), place_of("tcp://head:8786")
    (4, 'tcp://head:8786')
    """
    return int(word) if word is not None and word.isdecimal() else word


@contextmanager
def connect(on: On = None) -> Iterator[Client]:
    """A Dask client for a place; None for this process.

    Processes started here have one thread each. Dask's allocator setting, which slows torch down, is removed
    for them. Workers of other schedulers are used unchanged; start them with `MALLOC_TRIM_THRESHOLD_` unset
    and `OMP_NUM_THREADS=1`.
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
                warnings.warn(
                    f"No worker has connected to {on} yet. Waiting for the first one.", stacklevel=3
                )
            yield client
        return
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        # A worker may be killed for reasons unrelated to its task.
        "distributed.scheduler.allowed-failures": 100,
        "distributed.deploy.lost-worker-timeout": "1 day",  # else a worker killed twice in 15 s is lost
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


def each(client: Client, function: Callable[..., R], items: Sequence[object]) -> Iterator[R]:
    """Yield function(item) for all items in order of completion, here or on the workers of a client.

    If a worker is killed, its item is submitted again.
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
        message = (
            "The scheduler has stopped. Start a scheduler and run the same call again; no results are lost."
        )
        raise SchedulerGone(message) from lost


def _finished(distributed: ModuleType, waiting: Collection[Future]) -> Collection[Future]:
    """The futures that finish within a second; a TimeoutError of a task itself is not caught here."""
    try:
        return distributed.wait(list(waiting), timeout=1, return_when="FIRST_COMPLETED").done
    except TimeoutError:
        return ()
