"""Campaigns: run the cells of a study anywhere, lose nothing, and do nothing twice.

A campaign is a folder. `cells/` holds one small file per finished cell, `cells.jsonl` those that are packed,
`failed/` the errors of those that failed, `leases/` who works on what. So any number of processes may work
in one folder, and any of them may be killed or paused at any time: of two results of a cell the first stays.
Nothing in the folder is ever run.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tqdm.auto import tqdm

from guardband import engine, extras
from guardband.files import read_bytes, write_text
from guardband.leases import Lease, heart, leases_in, now_in, sweep
from guardband.limits import shown
from guardband.studies import Cell, Result, Study, records
from guardband.studies.runner import CellRunner

NOTE_BYTES = 2**20
"""No record of a failure is larger."""

Outcome = Literal["done", "failed", "busy"]
Cells: TypeAlias = Study | Sequence[str] | None
"""The cells that are asked about: a study's, those with these keys, or all that are there."""


class CampaignError(RuntimeError):
    """The campaign cannot go on; what is finished is kept, and the same call does the rest."""


@dataclass(frozen=True)
class Status:
    """How far a campaign is. Prints as one line, and one for each of the first failures and damaged results.

    A damaged result counts as missing: `run` makes its cell again.

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
    damaged: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = f"{self.done} done, {len(self.failed)} failed, {self.running} running, {self.missing} to do"
        failed = [f"failed {key}: {error}" for key, error in self.failed.items()]
        damaged = [f"damaged {place}: {trouble}" for place, trouble in self.damaged.items()]
        more = max(0, len(failed) - SHOWN) + max(0, len(damaged) - SHOWN)
        left = [f"{more} more failed or are damaged."] if more else []
        return "\n".join([counts, *failed[:SHOWN], *damaged[:SHOWN], *left])


SHOWN = 20
"""How many failures, and how many damaged results, are named in words; the dictionaries have all of them."""


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
    are tried again. Results that are damaged are set aside with a warning, and made again.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> recipe = gb.Recipe(steps=5, finish=0)
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30, recipe=recipe)
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", [training], constant, cal=30, draws=10)
    >>> print(gb.campaign.run(study, tempfile.mkdtemp(), progress=False))
    1 done, 0 failed, 0 running, 0 to do
    """
    folder = Path(folder).resolve()  # workers may run elsewhere
    _set_damage_aside(folder)
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
    sweep(folder, {result["key"] for result in finished})
    return status(folder, study)


def status(folder: str | os.PathLike[str], study: Cells = None) -> Status:
    """What is done, failed, running and missing in a folder; with a `study` or keys, of these cells.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30)
    >>> study = grid("mine", [training], {"constant": Factory(gb.predictors.MeanOnly)})
    >>> print(gb.campaign.status(tempfile.mkdtemp(), study))
    0 done, 0 failed, 0 running, 1 to do
    """
    folder = Path(folder)
    wanted = None if study is None else set(_keys(study))
    done, failed = records.keys(folder), _failed(folder)
    leased = {key for key, _ in leases_in(folder) if records.is_key(key)} - done
    if wanted is not None:
        done, failed, leased = done & wanted, failed & wanted, leased & wanted
    now = now_in(folder) if leased else 0.0
    running = {key for key in leased if Lease(folder, key).alive(now)}
    errors = {key: _trouble(folder, key) for key in sorted(failed - done - running)}
    missing = 0 if wanted is None else len(wanted - done - failed - running)
    return Status(len(done), errors, len(running), missing, records.damaged(folder))


def _keys(study: Study | Sequence[str]) -> list[str]:
    return [cell.key for cell in study.cells] if isinstance(study, Study) else list(study)


def _failed(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "failed").glob("*.json") if records.is_key(path.stem)}


def _trouble(folder: Path, key: str) -> str:
    """Which cell failed, and the last line of its error, with nothing that could write to the terminal."""
    try:
        found = json.loads(read_bytes(_path(folder, key, "failed"), at_most=NOTE_BYTES))
        said = f"{found['experiment']}, {found['method']}, seed {found['seed']}: "
        said += found["error"].splitlines()[-1]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "what went wrong cannot be read; run the study again"
    return said if said.isprintable() and len(said) < 1000 else shown(said)


def results(folder: str | os.PathLike[str], study: Cells = None) -> Iterator[Result]:
    """The results in a folder, in the order of the study's cells, or of the keys; an error if one is damaged.

    >>> import tempfile
    >>> import guardband as gb
    >>> from guardband.studies import Training, Factory, grid
    >>> recipe = gb.Recipe(steps=5, finish=0)
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30, recipe=recipe)
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", [training], constant, cal=30, draws=10)
    >>> folder = tempfile.mkdtemp()
    >>> status = gb.campaign.run(study, folder, progress=False)
    >>> [result["cell"]["method"] for result in gb.campaign.results(folder)]
    ['constant']
    """
    folder = Path(folder)
    if study is None and (damage := records.damage(folder)):
        raise records.DamagedResults(f"{folder} holds damaged results: {damage}. {CURE}")
    for key in sorted(records.keys(folder)) if study is None else _keys(study):
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
    >>> recipe = gb.Recipe(steps=5, finish=0)
    >>> training = Training(gb.problems.Poisson1D(), (8,), n=30, recipe=recipe)
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", [training], constant, cal=30, draws=10)
    >>> folder = tempfile.mkdtemp()
    >>> status = gb.campaign.run(study, folder, progress=False)
    >>> gb.campaign.pack(folder)
    1
    >>> print(gb.campaign.status(folder, study))
    1 done, 0 failed, 0 running, 0 to do
    """
    place = Path(folder)
    with _packing(place):
        return records.pack(place)


@contextmanager
def _packing(place: Path) -> Iterator[None]:
    """The right to change the pack: an owner who sleeps must not find it replaced, so it never goes stale."""
    lease = Lease(place, ".pack", stale=math.inf)
    if not lease.take(0.0):
        raise CampaignError(
            f"Another process packs {place}. Wait for it; if there is none, remove .pack.* in {lease.folder}."
        )
    try:
        yield
    finally:
        lease.give_back()


CURE = "Run the study again: it sets them aside in damaged/ and makes their cells again."


def _set_damage_aside(folder: Path) -> None:
    """Damaged results are named and moved away, so that their cells are missing."""
    damage = records.damage(folder)
    if damage:
        with _packing(folder):
            records.set_aside(folder)
        warnings.warn(
            f"{folder} held damaged results: {damage}. They are set aside in damaged/, and their "
            "cells are made again.",
            stacklevel=3,
        )


def work(folder: str, cells: Sequence[Cell]) -> dict[str, Outcome]:
    """Run those cells that are neither done nor leased by somebody alive; all share one training."""
    place = Path(folder)
    outcomes: dict[str, Outcome] = {}
    now = now_in(place)
    leases = {cell.key: Lease(place, cell.key) for cell in cells}
    mine = [cell for cell in cells if not records.exists(place, cell.key) and leases[cell.key].take(now)]
    held = [leases[cell.key] for cell in mine]
    runner = CellRunner(place / "trainings")
    with engine.one_thread(), heart(held):
        for cell in mine:
            # Somebody may have finished it between our look and our lease.
            if not records.exists(place, cell.key):
                _run(place, runner, cell, leases[cell.key].number)
            leases[cell.key].give_back()
    for cell in cells:
        tried = leases[cell.key].number is not None and _path(place, cell.key, "failed").exists()
        done = records.exists(place, cell.key)
        outcomes[cell.key] = "done" if done else "failed" if tried else "busy"
    if mine and set(outcomes.values()) == {"done"}:
        runner.forget(mine[0].training)
    return outcomes


def _run(folder: Path, runner: CellRunner, cell: Cell, lease: int | None) -> None:
    """Run a cell and write its result, with the number of the lease under which it was made."""
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
    _path(folder, cell.key, "failed").unlink(missing_ok=True)  # what went wrong before


FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """A full disk is said in a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
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
            _send_own_code()
            yield from engine.each(client, partial(work, folder), [_Parcel(cells) for cells in groups])
    except engine.SchedulerGone as gone:
        raise CampaignError(str(gone)) from gone


def _send_own_code() -> None:
    """What a study's own file defines goes along with its cells, since workers cannot import it."""
    cloudpickle = extras.load("cloudpickle", "scale")
    for module in list(sys.modules.values()):
        if getattr(module, "__study_file__", None):
            cloudpickle.register_pickle_by_value(module)


class _Parcel:
    """Cells on their way through Dask's own transport, which pickles; a worker gets the list."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells

    def __reduce__(self) -> tuple[Any, ...]:
        cloudpickle = extras.load("cloudpickle", "scale")
        return cloudpickle.loads, (cloudpickle.dumps(self.cells),)


def _path(folder: Path, key: str, kind: str) -> Path:
    return folder / kind / f"{key}.json"
