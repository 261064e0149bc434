"""Campaigns: run the cells of a study anywhere, lose nothing, and do nothing twice.

A campaign is a folder. `cells/` holds one small file per finished cell, `cells.jsonl` those that are packed,
`failed/` the errors of those that failed, `leases/` who works on what. A lease is a file that its owner
touches every few seconds; when it is no longer touched, or its owner is known to be dead, another process
takes over by creating the next one. So any number of processes may work in one folder, and any of them may be
killed at any time.
"""

from __future__ import annotations

import errno
import json
import math
import os
import pickle
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from guardband import engine, extras
from guardband.files import write_text
from guardband.studies import Cell, Result, Study, records
from guardband.studies.runner import CellRunner

BEAT, STALE = 5.0, 60.0
"""Seconds between two touches of a lease, and after how many without one its owner is taken for dead."""

Outcome = Literal["done", "failed", "busy"]


class CampaignError(RuntimeError):
    """The campaign cannot go on; what is finished is kept, and the same call does the rest."""


@dataclass(frozen=True)
class Status:
    """How far a campaign is. Prints as one line, and one for each failure.

    >>> import tempfile
    >>> import guardband as gb
    >>> status = gb.campaign.status(tempfile.mkdtemp())
    >>> print(status)
    0 done, 0 failed, 0 running, 0 to do
    >>> status.done, status.failed
    (0, {})
    """

    done: int
    failed: dict[str, str]
    running: int
    missing: int

    def __str__(self) -> str:
        counts = f"{self.done} done, {len(self.failed)} failed, {self.running} running, {self.missing} to do"
        return "\n".join([counts, *(f"failed {key}: {error}" for key, error in self.failed.items())])


def run(
    study: Study,
    folder: str | os.PathLike[str],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    client: Any = None,
    progress: bool = True,
) -> Status:
    """Run all cells of a study that have no result in the folder yet, and write its pages.

    Without an engine the cells run here, one after the other. `workers` processes make a Dask cluster on this
    machine; `scheduler` is the address of one that runs anywhere and sees the same folder; `client` is a
    `distributed.Client` of your own, for example of a `dask_jobqueue.SLURMCluster`. Cells that failed before
    are tried again.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30, recipe=gb.Recipe(steps=5, finish=0))
    >>> study = grid("mine", [training], {"constant": Factory(gb.predictors.MeanOnly)}, cal=30, draws=10)
    >>> print(gb.campaign.run(study, tempfile.mkdtemp(), progress=False))
    1 done, 0 failed, 0 running, 0 to do
    """
    folder = Path(folder).resolve()  # workers may run elsewhere
    left = [cell for cell in study.cells if not records.exists(folder, cell.key)]
    with (
        nullcontext(client) if client is not None else engine.connect(workers, scheduler) as client,
        tqdm(
            total=len(study.cells),
            initial=len(study.cells) - len(left),
            disable=not progress or not left,
            desc=study.name,
            unit="cell",
        ) as bar,
    ):
        while left:
            outcomes: dict[str, Outcome] = {}
            for made in _map(client, str(folder), _groups(left)):
                outcomes |= made
                _check_seen(folder, made)
                bar.update(sum(outcome != "busy" for outcome in made.values()))
            left = [cell for cell in left if outcomes[cell.key] == "busy"]
            if left:  # somebody else works on these: wait for them, or take over if they die
                bar.set_postfix_str(f"waiting for {len(left)} that run elsewhere")
                time.sleep(1)
    finished = list(results(folder, study))
    if finished:
        study.write(finished, folder)
    return status(folder, study)


def status(folder: str | os.PathLike[str], study: Study | None = None) -> Status:
    """What is done, failed, running and missing in a folder; with a `study`, of its cells.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30)
    >>> study = grid("mine", [training], {"constant": Factory(gb.predictors.MeanOnly)})
    >>> print(gb.campaign.status(tempfile.mkdtemp(), study))
    0 done, 0 failed, 0 running, 1 to do
    """
    folder = Path(folder)
    wanted = None if study is None else {cell.key for cell in study.cells}
    done, failed = records.keys(folder), _names(folder / "failed")
    leased = {name.split(".")[0] for name in _names(folder / "leases", suffix="")} - done
    if wanted is not None:
        done, failed, leased = done & wanted, failed & wanted, leased & wanted
    now = _now(folder) if leased else 0.0
    running = {key for key in leased if _Lease(folder, key).alive(now)}
    errors = {key: _trouble(folder, key) for key in sorted(failed - done - running)}
    missing = 0 if wanted is None else len(wanted - done - failed - running)
    return Status(len(done), errors, len(running), missing)


def _trouble(folder: Path, key: str) -> str:
    """Which cell failed, and the last line of its error."""
    found = json.loads(_path(folder, key, "failed").read_text())
    return (
        f"{found['experiment']}, {found['method']}, seed {found['seed']}: {found['error'].splitlines()[-1]}"
    )


def results(folder: str | os.PathLike[str], study: Study | None = None) -> Iterator[Result]:
    """The results in a folder, in the order of the study's cells.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30, recipe=gb.Recipe(steps=5, finish=0))
    >>> study = grid("mine", [training], {"constant": Factory(gb.predictors.MeanOnly)}, cal=30, draws=10)
    >>> folder = tempfile.mkdtemp()
    >>> status = gb.campaign.run(study, folder, progress=False)
    >>> [result["cell"]["method"] for result in gb.campaign.results(folder)]
    ['constant']
    """
    folder = Path(folder)
    keys = sorted(records.keys(folder)) if study is None else [cell.key for cell in study.cells]
    for key in keys:
        result = records.read(folder, key)
        if result is not None:
            yield result


def pack(folder: str | os.PathLike[str]) -> int:
    """Put all results of a folder into one file, `cells.jsonl`, a line each; how many it then holds.

    For a study that is finished: the file is plain text, which any program can read. A study that is not goes
    on from it as from single files, and packing again takes in what has come since. A result that has both a
    line and a file of its own counts as in the file, which replaces the line.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30, recipe=gb.Recipe(steps=5, finish=0))
    >>> study = grid("mine", [training], {"constant": Factory(gb.predictors.MeanOnly)}, cal=30, draws=10)
    >>> folder = tempfile.mkdtemp()
    >>> status = gb.campaign.run(study, folder, progress=False)
    >>> gb.campaign.pack(folder)
    1
    >>> print(gb.campaign.status(folder, study))
    1 done, 0 failed, 0 running, 0 to do
    """
    place = Path(folder)
    lease = _Lease(place, ".pack", stale=math.inf)  # an owner who sleeps must not find the pack replaced
    if not lease.take(0.0):
        raise CampaignError(
            f"Another process packs {place}. Wait for it; if there is none, remove .pack.* in {lease.folder}."
        )
    try:
        return records.pack(place)
    finally:
        lease.give_back()


def work(folder: str, cells: Sequence[Cell]) -> dict[str, Outcome]:
    """Run those cells that are neither done nor leased by somebody alive; all share one training."""
    place = Path(folder)
    outcomes: dict[str, Outcome] = {}
    now = _now(place)
    leases = {cell.key: _Lease(place, cell.key) for cell in cells}
    mine = [cell for cell in cells if not records.exists(place, cell.key) and leases[cell.key].take(now)]
    held = [leases[cell.key] for cell in mine]
    runner = CellRunner(place / "trainings")
    with engine.one_thread(), _heart(held):
        for cell in mine:
            # Somebody may have finished it between our look and our lease.
            if not records.exists(place, cell.key):
                _run(place, runner, cell)
            leases[cell.key].give_back()
    for cell in cells:
        tried = leases[cell.key].path is not None and _path(place, cell.key, "failed").exists()
        done = records.exists(place, cell.key)
        outcomes[cell.key] = "done" if done else "failed" if tried else "busy"
    if mine and set(outcomes.values()) == {"done"}:
        runner.forget(mine[0].training)
    return outcomes


def _run(folder: Path, runner: CellRunner, cell: Cell) -> None:
    try:
        text = json.dumps(runner.run(cell), allow_nan=False)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CampaignError(_full(folder)) from error
        names = {"experiment": cell.experiment, "method": cell.method, "seed": cell.training.seed}
        trouble = {"key": cell.key, **names, "error": traceback.format_exc().strip()}
        _write(folder, cell.key, "failed", json.dumps(trouble, indent=1))
        return
    _write(folder, cell.key, "cells", text)
    _path(folder, cell.key, "failed").unlink(missing_ok=True)  # what went wrong before


def _write(folder: Path, key: str, kind: str, text: str) -> None:
    try:
        write_text(_path(folder, key, kind), text + "\n")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CampaignError(_full(folder)) from error
        raise


def _full(folder: Path) -> str:
    return f"The disk that holds {folder} is full. Make room and run the same again; finished cells are kept."


def _groups(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells that share a training, together."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.training.key, []).append(cell)
    return list(groups.values())


def _check_seen(folder: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Workers that write somewhere else must not look as if all were well."""
    for key, outcome in outcomes.items():
        seen = _path(folder, key, "failed").exists() or records.exists(folder, key)
        if outcome != "busy" and not seen:
            raise CampaignError(
                f"A worker finished the cell {key}, but {folder} does not hold it: the workers do not see "
                "this folder. Give one that all machines share."
            )


def _map(client: Any, folder: str, groups: Sequence[list[Cell]]) -> Iterator[dict[str, Outcome]]:
    """The outcomes of all groups, as they come in."""
    try:
        if client is None:
            yield from engine.each(None, partial(work, folder), groups)
        else:
            send = _sender()
            yield from engine.each(client, partial(_receive, folder), [send(cells) for cells in groups])
    except engine.SchedulerGone as gone:
        raise CampaignError(str(gone)) from gone


def _sender() -> Callable[[list[Cell]], bytes]:
    """How cells are sent: what a study's own file defines goes along, since workers cannot import it."""
    cloudpickle = extras.load("cloudpickle", "scale")
    for module in list(sys.modules.values()):
        if getattr(module, "__study_file__", None):
            cloudpickle.register_pickle_by_value(module)
    return cloudpickle.dumps


def _receive(folder: str, cells: bytes) -> dict[str, Outcome]:
    return work(folder, pickle.loads(cells))


class _Lease:
    """The right to run a cell: files key.0, key.1, ..., of which the last counts.

    Its owner is taken for dead after `stale` seconds without a touch, or at once if it is known to be.
    """

    def __init__(self, folder: Path, key: str, stale: float = STALE) -> None:
        self.folder, self.key, self.stale = folder / "leases", key, stale
        self.path: Path | None = None

    def take(self, now: float) -> bool:
        """Take the lease if nobody alive has it. Creating a file is the one step that only one can do."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = self._last()
        if last is not None and self.alive(now):
            return False
        path = self.folder / f"{self.key}.{0 if last is None else last + 1}"
        try:
            with path.open("x") as file:
                json.dump(_owner(), file)
        except FileExistsError:
            return False
        self.path = path
        return True

    def alive(self, now: float) -> bool:
        """Whether the last owner still works on it, as far as can be told from here."""
        last = self._last()
        if last is None:
            return False
        path = self.folder / f"{self.key}.{last}"
        try:
            touched = path.stat().st_mtime
        except FileNotFoundError:
            return False
        owner, machine = _read_owner(path), _machine()
        if machine and owner.get("machine") == machine and not _lives(owner["pid"], owner["born"]):
            return False
        return now - touched < self.stale

    def touch(self) -> None:
        """Say that the owner lives."""
        if self.path is not None:
            with suppress(OSError):  # it was given back, or the file system stumbles; the next beat comes
                os.utime(self.path)

    def give_back(self) -> None:
        """Remove the lease and those of earlier owners."""
        for path in self.folder.glob(f"{self.key}.*"):
            path.unlink(missing_ok=True)

    def _last(self) -> int | None:
        numbers = [int(path.suffix[1:]) for path in self.folder.glob(f"{self.key}.*")]
        return max(numbers, default=None)


@contextmanager
def _heart(leases: Sequence[_Lease]) -> Iterator[None]:
    """Touch leases while the work lasts, and give them back if it ends by an error; a kill leaves them."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT):
            for lease in leases:
                lease.touch()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        for lease in leases:
            lease.give_back()
        raise
    finally:
        stop.set()
        thread.join()


@cache
def _machine() -> str:
    """The machine and its table of processes, where one can be asked whether a process lives; else ''."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _owner() -> dict[str, Any]:
    return {"machine": _machine(), "pid": os.getpid(), "born": _born(os.getpid())}


def _read_owner(path: Path) -> dict[str, Any]:
    """Who holds a lease; nobody known while it is being written, or if a power loss left rubbish."""
    try:
        owner = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) and owner.keys() >= {"machine", "pid", "born"} else {}


def _born(pid: int) -> str:
    """When a process was started, so that a number used again is not mistaken for it; '' if it is dead."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] == "Z" else after_name[19]


def _lives(pid: int, born: str) -> bool:
    return _born(pid) == born


def _now(folder: Path) -> float:
    """The time by the clock of the file system, which all workers share."""
    clock = folder / "leases" / ".clock"
    try:
        clock.parent.mkdir(parents=True, exist_ok=True)
        clock.touch()
    except PermissionError:  # somebody who may only look
        return time.time()
    return clock.stat().st_mtime


def _path(folder: Path, key: str, kind: str = "cells") -> Path:
    return folder / kind / f"{key}.json"


def _names(folder: Path, suffix: str = ".json") -> set[str]:
    found = folder.iterdir() if folder.exists() else ()
    return {
        path.name.removesuffix(suffix) for path in found if path.name[0] != "." and path.name.endswith(suffix)
    }
