"""Campaigns run the cells of a study on one machine or many, and resume after an interruption.

A campaign is a folder. `cells/` and `cells.jsonl` hold the results (see `studies.records`), `failed/` the
errors of failed cells, `trainings/` unfinished networks, and `leases/` the current owner of each group of
cells. Several commands may work in one folder; each leases the cells of one network at a time, with a
`filelock.SoftFileLease`. A lease is not a strict lock: a command that was paused for more than LEASE seconds
has lost its lease when it continues, and may run a cell that another command also runs. In that case the
first result counts, and a differing one is reported. Nothing in the folder is ever executed.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from tqdm.auto import tqdm

from guardband.base import engine, extras
from guardband.base.files import read_bytes, write_text
from guardband.base.limits import listed, printable, shown
from guardband.lab.studies import Cell, Result, Study, records
from guardband.lab.studies.runner import CellRunner

if TYPE_CHECKING:
    from distributed import Client

NOTE_BYTES = 2**20
"""The largest size of the record of a failure."""
LEASE = 60.0
"""Seconds after which a lease expires if its owner does not refresh it."""
MANY = 32
"""While cells run, results are packed if they are in more files than this."""
PATIENCE = 30
"""Seconds within which a network folder should show the files that a worker has written."""
CURE = records.CURE

Outcome = Literal["done", "failed", "busy"]
Cells: TypeAlias = Study | Sequence[str] | None
"""The selected cells: those of a study, those with these keys, or all with results."""


class Lease(Protocol):
    """The interface of `filelock.SoftFileLease`."""

    @property
    def lock_file(self) -> str:
        """The path of the lock file."""
        ...

    @property
    def token(self) -> str | None:
        """The token of the holder."""
        ...

    @property
    def compromise(self) -> object:
        """The reason why the lease was lost, or None."""
        ...

    def acquire(self, *, blocking: bool) -> object:
        """Acquire the lease."""
        ...

    def release(self) -> None:
        """Release the lease."""
        ...


class CampaignError(RuntimeError):
    """The campaign cannot continue; finished cells are kept, and the same call resumes it."""


@dataclass(frozen=True)
class Status:
    """The progress of a campaign; printing it also lists failed, damaged and differing results.

    Attributes
    ----------
    done
        The number of cells with results.
    failed
        The errors of failed cells by key.
    running
        The number of networks whose cells a command has leased; these cells count as missing.
    missing
        The number of cells without results. A damaged result counts as missing; `run` recomputes it.
    damaged
        Descriptions of damaged results by place.
    differing
        Cells with several results whose numbers differ, by key; the first one counts.

    Examples
    --------
    >>> import tempfile
    >>> from guardband import lab
    >>> status = lab.campaign.status(tempfile.mkdtemp())
    >>> print(status)
    0 done, 0 failed, 0 running, 0 to do
    >>> status.done, status.failed
    (0, {})
    """

    done: int
    failed: dict[str, str]
    running: int
    missing: int
    damaged: dict[str, str] = field(default_factory=dict)
    differing: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = f"{self.done} done, {len(self.failed)} failed, {self.running} running, {self.missing} to do"
        kinds = {"failed": self.failed, "damaged": self.damaged, "differing": self.differing}
        texts = [[f"{kind} {name}: {its[name]}" for name in its] for kind, its in kinds.items()]
        more = sum(max(0, len(lines) - SHOWN) for lines in texts)
        rest = [f"{more} more failed, are damaged or differ."] if more else []
        return "\n".join([counts, *(line for lines in texts for line in lines[:SHOWN]), *rest])


SHOWN = 20
"""The largest number of failed, damaged and differing results in the text of a status."""


@engine.takes_old_places
def run(
    study: Study,
    folder: str | os.PathLike[str],
    *,
    on: engine.On = None,
    part: tuple[int, int] | None = None,
    progress: bool = True,
) -> Status:
    """Run all cells of a study that have no result in the folder, and write its pages.

    Cells that failed before are tried again. Damaged results are moved to `damaged/` with a warning, and
    their cells recomputed. Commands without `on` may share a folder.

    Parameters
    ----------
    study
        The study.
    folder
        The folder of the campaign.
    on
        Where cells run: by default in this process, one after the other. `on=4` starts 4 Dask workers on
        this machine, `on="tcp://head:8786"` uses a scheduler whose workers see the same folder, and
        `on=client` uses a `distributed.Client`, for example of a `dask_jobqueue.SLURMCluster`.
    part
        `(i, n)` runs only the i-th of n parts, i from 1 to n, and writes no pages. Parts share no network,
        so they need neither leases nor a shared folder. To join their folders, concatenate their
        `cells.jsonl` into that of a new folder, and run the whole study there.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Status
        The progress at the end.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Training, Factory, grid
    >>> recipe = pinn.Recipe(steps=5, finish=0)
    >>> training = Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=recipe)
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", [training], constant, cal=30, draws=10)
    >>> print(lab.campaign.run(study, tempfile.mkdtemp(), progress=False))
    1 done, 0 failed, 0 running, 0 to do
    """
    folder = Path(folder).resolve()  # workers may run elsewhere
    cells = list(study.cells) if part is None else _part(study.cells, *part)
    _set_damage_aside(folder)
    _pack(folder, MANY)
    left, failed, leases = _left(folder, cells), set[str](), dict[str, Lease]()
    with (
        engine.connect(on) as client,
        tqdm(
            total=len(cells),
            initial=len(cells) - len(left),
            disable=not progress or not left,
            desc=study.name,
            unit="cell",
        ) as bar,
    ):
        if client is None and part is None and left:
            leases = {training: _lease(folder, training) for training in _groups(left)}
        while left:
            busy = 0
            for outcomes in _map(client, folder, _groups(left), leases):
                if client is not None:
                    _check_visible(folder, outcomes)
                failed |= {key for key, outcome in outcomes.items() if outcome == "failed"}
                waiting = sum(outcome == "busy" for outcome in outcomes.values())
                bar.update(len(outcomes) - waiting)
                busy += waiting
                _pack(folder, MANY)
            if busy:  # another command runs these: wait, or take over if its lease expires
                bar.set_postfix_str(f"waiting for {busy} that run elsewhere")
                time.sleep(1)
            left = [cell for cell in _left(folder, left) if cell.key not in failed]
    if part is None:
        _sweep(folder, cells)
        finished = list(results(folder, study))
        if finished:
            study.write(finished, folder)
    _pack(folder, 0)
    reached = status(folder, [cell.key for cell in cells])
    if reached.differing:
        keys = listed(list(reached.differing))
        warnings.warn(f"{folder} has differing results for the same cell: {keys}.", stacklevel=3)
    return reached


def status(folder: str | os.PathLike[str], study: Cells = None) -> Status:
    """Return the progress of a campaign.

    Parameters
    ----------
    folder
        The folder of the campaign.
    study
        A study, or keys of cells, to count only these; by default all cells with results or failures.

    Returns
    -------
    Status
        The numbers of finished, failed, running and missing cells.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Training, Factory, grid
    >>> training = Training(pinn.problems.Poisson1D(), (8,), n=30)
    >>> study = grid("mine", [training], {"constant": Factory(gb.predictors.MeanOnly)})
    >>> print(lab.campaign.status(tempfile.mkdtemp(), study))
    0 done, 0 failed, 0 running, 1 to do
    """
    folder = Path(folder)
    found, failed = records.look(folder), _failed(folder)
    wanted = found.lines.keys() | failed if study is None else set(_keys(study))
    done = wanted & found.lines.keys()
    errors = {key: _trouble(folder, key) for key in sorted((failed & wanted) - done)}
    differing = {
        key: f"{len(its)} results with different numbers; the first counts"
        for key, its in found.differing.items()
        if key in wanted
    }
    missing = len(wanted - done - errors.keys())
    return Status(len(done), errors, _running(folder), missing, found.damaged, differing)


def _running(folder: Path) -> int:
    """Return the number of recently refreshed leases, by the clocks of this machine and the file system."""
    running = 0
    for file in (folder / "leases").glob("*.lease"):
        with suppress(FileNotFoundError):
            running += abs(time.time() - file.lstat().st_mtime) < LEASE
    return running


def _keys(study: Study | Sequence[str]) -> list[str]:
    return [cell.key for cell in study.cells] if isinstance(study, Study) else list(study)


def _failed(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "failed").glob("*.json") if records.is_key(path.stem)}


def _trouble(folder: Path, key: str) -> str:
    """Return the failed cell and the last line of its error, without control characters."""
    try:
        found = json.loads(read_bytes(_path(folder, key, "failed"), at_most=NOTE_BYTES))
        text = f"{found['experiment']}, {found['method']}, seed {found['seed']}: "
        text += found["error"].splitlines()[-1]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "the record of the error cannot be read; run the study again"
    return printable(text) if len(text) < 1000 else shown(text)


def results(folder: str | os.PathLike[str], study: Cells = None) -> Iterator[Result]:
    """Yield the results in a folder; a damaged one is an error.

    Parameters
    ----------
    folder
        The folder of the campaign.
    study
        A study, or keys of cells, to select and order the results; by default all, sorted by key.

    Yields
    ------
    Result
        The record of a cell.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Training, Factory, grid
    >>> recipe = pinn.Recipe(steps=5, finish=0)
    >>> training = Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=recipe)
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", [training], constant, cal=30, draws=10)
    >>> folder = tempfile.mkdtemp()
    >>> status = lab.campaign.run(study, folder, progress=False)
    >>> [result["cell"]["method"] for result in lab.campaign.results(folder)]
    ['constant']
    """
    folder = Path(folder)
    found = records.look(folder)
    if study is None and found.damaged:
        raise records.DamagedResults(f"{folder} holds damaged results: {records.damage(folder)}. {CURE}")
    for key in sorted(found.lines) if study is None else _keys(study):
        result = records.read(folder, key, found)
        if result is not None:
            yield result


def pack(folder: str | os.PathLike[str]) -> int:
    """Collect all results of a folder in one text file, `cells.jsonl`, with one line of JSON each.

    `run` does this at its end. Several processes may pack and run cells at the same time.

    Parameters
    ----------
    folder
        The folder of the campaign.

    Returns
    -------
    int
        The number of results in the file.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Training, Factory, grid
    >>> recipe = pinn.Recipe(steps=5, finish=0)
    >>> training = Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=recipe)
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", [training], constant, cal=30, draws=10)
    >>> folder = tempfile.mkdtemp()
    >>> status = lab.campaign.run(study, folder, progress=False)
    >>> lab.campaign.pack(folder)
    1
    >>> print(lab.campaign.status(folder, study))
    1 done, 0 failed, 0 running, 0 to do
    """
    return records.pack(Path(folder))


def _pack(folder: Path, many: int) -> None:
    """Pack if more than `many` files hold results; results that cannot be packed stay in place."""
    if records.loose(folder) > many:
        with _room(folder), suppress(ValueError):
            records.pack(folder)


def _set_damage_aside(folder: Path) -> None:
    """Report damaged results and move them away, so that their cells count as missing."""
    damage = records.damage(folder)
    if damage:
        records.pack(folder, aside=True)
        warnings.warn(
            f"{folder} held damaged results: {damage}. They were moved to damaged/, and their cells are "
            "recomputed.",
            stacklevel=4,
        )


def work(folder: str, cells: Sequence[Cell], lease: Lease | None = None) -> dict[str, Outcome]:
    """Run the missing cells of one training run, unless another command holds the lease."""
    place, tried = Path(folder), set[str]()
    runner = CellRunner(place / "trainings")
    with engine.one_thread(), _held(lease) as mine:
        for cell in cells if mine else ():
            if lease is not None and lease.compromise:
                break  # another command took over while this one was paused
            if not records.exists(place, cell.key):
                _run(place, runner, cell, lease.token if lease else None)
                tried.add(cell.key)
        done = {cell.key for cell in cells if records.exists(place, cell.key)}
        if tried and len(done) == len(cells):
            runner.forget(cells[0].training)
    return {
        cell.key: "done" if cell.key in done else "failed" if cell.key in tried else "busy" for cell in cells
    }


def _lease(folder: Path, training: str) -> Lease:
    """Return the lease for the cells of one training run."""
    filelock = extras.load("filelock", "lab")
    if not hasattr(filelock, "SoftFileLease"):
        raise ImportError('This needs filelock 4.2.1 or later: pip install "guardband[lab]"')
    (folder / "leases").mkdir(parents=True, exist_ok=True)
    return filelock.SoftFileLease(folder / "leases" / f"{training}.lease", lease_duration=LEASE)


@contextmanager
def _held(lease: Lease | None) -> Iterator[bool]:
    """Try to hold a lease during a block; yield whether it is held."""
    if lease is None:
        yield True
        return
    try:
        lease.acquire(blocking=False)
    except TimeoutError:
        yield False
        return
    try:
        yield True
    finally:
        lease.release()


def _sweep(folder: Path, cells: Sequence[Cell]) -> None:
    """Remove the leases of killed commands for training runs whose cells are done."""
    unfinished = _groups(_left(folder, cells)).keys()
    for training in _groups(cells).keys() - unfinished:
        if (folder / "leases" / f"{training}.lease").exists():
            with _held(_lease(folder, training)):
                pass


def _run(folder: Path, runner: CellRunner, cell: Cell, lease: str | None) -> None:
    """Run a cell and write its result with the token of the lease."""
    try:
        line = records.sealed(runner.run(cell) | {"lease": lease})
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise CampaignError(_full(folder)) from error
        names = {"experiment": cell.experiment, "method": cell.method, "seed": cell.training.seed}
        trouble = {"key": cell.key, **names, "error": traceback.format_exc().strip()[-NOTE_BYTES // 8 :]}
        with _room(folder):
            write_text(_path(folder, cell.key, "failed"), json.dumps(trouble, indent=1) + "\n")
        return
    with _room(folder):
        records.publish(folder, cell.key, line)
    _path(folder, cell.key, "failed").unlink(missing_ok=True)  # of an earlier run


FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk into a `CampaignError`."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise CampaignError(_full(folder)) from error
        raise


def _full(folder: Path) -> str:
    return f"The disk of {folder} is full. Free some space and rerun the command; finished cells are kept."


def _left(folder: Path, cells: Sequence[Cell]) -> list[Cell]:
    done = records.look(folder).lines.keys()
    return [cell for cell in cells if cell.key not in done]


def _groups(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Group cells by the key of their training run."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.training.key, []).append(cell)
    return groups


def _part(cells: Sequence[Cell], i: int, n: int) -> list[Cell]:
    """Return the i-th of n parts: every n-th training run, sorted by key, with all its cells."""
    if not 1 <= i <= n:
        raise ValueError(f"`part` should be (i, n) with i from 1 to n, got ({i}, {n}).")
    groups = _groups(cells)
    return [cell for training in sorted(groups)[i - 1 :: n] for cell in groups[training]]


def _check_visible(folder: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Check that the results of workers are in the folder, in case the workers see another one."""
    claimed = {key for key, outcome in outcomes.items() if outcome != "busy"}
    for _ in range(PATIENCE):
        claimed -= records.look(folder).lines.keys() | _failed(folder)
        if not claimed:
            return
        time.sleep(1)
    raise CampaignError(
        f"A worker finished the cell {min(claimed)}, but its result is not in {folder}, so the workers "
        "do not share this folder. Use one that all machines share."
    )


def _map(
    client: Client | None, folder: Path, groups: Mapping[str, list[Cell]], leases: Mapping[str, Lease]
) -> Iterator[dict[str, Outcome]]:
    """Yield the outcomes of all groups as they finish."""
    if client is None:
        yield from (work(str(folder), cells, leases.get(training)) for training, cells in groups.items())
        return
    _send_own_code()
    try:
        yield from engine.each(client, partial(work, str(folder)), [_Parcel(its) for its in groups.values()])
    except engine.SchedulerGone as gone:
        raise CampaignError(str(gone)) from gone


def _send_own_code() -> None:
    """Pickle the definitions in a study's file with its cells, since workers cannot import the file."""
    cloudpickle = extras.load("cloudpickle", "scale")
    for module in list(sys.modules.values()):
        if getattr(module, "__study_file__", None):
            cloudpickle.register_pickle_by_value(module)


class _Parcel:
    """Wraps cells for Dask's transport, which pickles; a worker receives the list."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells

    def __reduce__(self) -> tuple[object, ...]:
        cloudpickle = extras.load("cloudpickle", "scale")
        return cloudpickle.loads, (cloudpickle.dumps(self.cells),)


def _path(folder: Path, key: str, kind: str) -> Path:
    return folder / kind / f"{key}.json"
