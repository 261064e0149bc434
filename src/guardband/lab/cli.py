"""guardband study: compare methods over many training runs.

The folder of a study contains `study.json` with the kind of the study, its settings, and the keys of its
cells. Code runs only from a file named on the command line, `run FILE`, and never from a folder.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardband.base import engine
from guardband.base.extras import load
from guardband.base.limits import MANIFEST, listed, parsed, shown
from guardband.cli.errors import FAULT, code_of, echo, fail, in_one_line, note

if TYPE_CHECKING:
    from guardband.lab.studies import Study

app: typer.Typer = typer.Typer(
    help="Compare methods over many training runs. Killed studies can be resumed.", no_args_is_help=True
)

OWN, PAPER = "own", "paper"
"""The kinds of study in study.json: a user's file, and the paper."""

Out = Annotated[Path, typer.Option(help="The folder for results. A rerun computes only missing results.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="The number of training runs of each method.")]
Draws = Annotated[int, typer.Option(min=1, help="The number of recalibrations of each training run.")]
On = Annotated[
    str | None,
    typer.Option(help="Dask: the number of local workers, or a scheduler such as tcp://host:8786."),
]
Workers = Annotated[int | None, typer.Option(hidden=True, help="The old name of --on.")]
Scheduler = Annotated[str | None, typer.Option(hidden=True, help="The old name of --on.")]
Part = Annotated[str | None, typer.Option(help="i/n: only the i-th of n parts, without leases and pages.")]
Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The folder of a study.")]


@contextmanager
def _in_lab() -> Iterator[None]:
    """Print errors as one line each, for a command that needs torch."""
    with in_one_line():
        load("torch", "lab")
        yield


@app.command("paper")
@_in_lab()
def study_paper(
    out: Out = Path("paper"),
    only: Annotated[
        list[str] | None, typer.Option(help="table1-3, figure2-9 or an experiment. May be repeated.")
    ] = None,
    preset: Annotated[list[str] | None, typer.Option(help="ours or paper; both by default.")] = None,
    seeds: Seeds = None,
    draws: Draws = 1000,
    on: On = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    part: Part = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Train for a few seconds, to test the setup.")
    ] = False,
) -> None:
    """Reproduce the tables and figures of the paper over many seeds."""
    from guardband.lab import paper

    options = {"only": only or [], "presets": preset or ["ours", "paper"], "seeds": seeds, "draws": draws}
    options |= {"smoke": smoke}
    try:
        study = paper.study(**options)
    except ValueError as error:
        fail(str(error), code_of(error))
    _campaign(study, {"study": PAPER, "options": options}, out, _place(on, workers, scheduler), part)


@app.command("run")
@_in_lab()
def study_run(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Python that defines `study`.")],
    out: Out = Path("study"),
    on: On = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    part: Part = None,
) -> None:
    """Run the study that a Python file defines, for example with `study = lab.studies.grid(...)`."""
    study = _load_study(file.resolve())
    _campaign(study, {"study": OWN, "name": study.name}, out, _place(on, workers, scheduler), part)


@app.command("status")
@_in_lab()
def study_status(folder: Folder) -> None:
    """Show the progress of a study, with failed and damaged results."""
    from guardband.lab import campaign

    try:
        status = campaign.status(folder, _saved(folder).cells)
    except (ValueError, OSError) as error:
        fail(str(error), code_of(error))
    echo(status)
    if status.damaged:
        fail(f"{len(status.damaged)} results are damaged. {campaign.CURE}")


@app.command("table")
@_in_lab()
def study_table(folder: Folder) -> None:
    """Write the page of a study from the results so far: tables, and the figures of the paper's study."""
    from guardband.lab import campaign
    from guardband.lab.paper.pages import write_pages
    from guardband.lab.studies.tables import write_page

    try:
        saved = _saved(folder)
        found = list(campaign.results(folder, saved.cells))
    except (ValueError, OSError) as error:
        fail(str(error), code_of(error))
    if not found:
        fail(f"There are no results in {folder} yet. Run the study, or wait for its first cell.")
    try:
        (write_pages if saved.kind == PAPER else write_page)(found, folder)
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        OSError,
        RecursionError,
        MemoryError,
    ) as error:
        fail(
            f"The page cannot be written from the results in {folder}: {type(error).__name__}, "
            f"{shown(str(error))}."
        )
    echo(f"{len(found)} results: {folder / 'README.md'}")


@app.command("pack")
@_in_lab()
def study_pack(folder: Folder) -> None:
    """Collect the results of a study in one file, cells.jsonl."""
    from guardband.lab import campaign

    try:
        found = campaign.pack(folder)
    except (ValueError, OSError, campaign.CampaignError) as error:
        fail(str(error), code_of(error))
    if not found:
        fail(f"There are no results in {folder} yet. Run the study, or wait for its first cell.")
    echo(f"{found} results: {folder / 'cells.jsonl'}")


def verify(folder: Path) -> str:
    """Check the results of a study for `guardband verify`; damaged ones are an error."""
    records, campaign = (load(f"guardband.lab.{name}", "lab") for name in ("studies.records", "campaign"))
    if damage := records.damage(folder):
        raise ValueError(f"{folder} holds damaged results: {damage}. {campaign.CURE}")
    if differing := records.look(folder).differing:
        raise ValueError(f"{folder} has cells with different numbers: {listed(list(differing))}.")
    return f"{folder}: the checksums of all results match."


def _campaign(
    study: Study,
    saved: dict[str, object],
    out: Path,
    on: int | str | None,
    part: str | None,
) -> None:
    from guardband.base.files import write_text
    from guardband.lab import campaign

    try:
        i_of_n = None if part is None else _part(part)
        text = json.dumps(saved | {"cells": [cell.key for cell in study.cells]}, indent=1)
        write_text(out / "study.json", text + "\n")
        with warnings.catch_warnings():
            warnings.showwarning = note
            try:
                status = campaign.run(study, out, on=on, part=i_of_n)
            except KeyboardInterrupt:
                fail(f"stopped: {campaign.status(out, study)}. The same command resumes it.", code=130)
    except (ValueError, TypeError, ImportError, OSError, campaign.CampaignError) as error:
        fail(str(error), code_of(error))
    echo(status if part or not status.done else f"{status}\n{out / 'README.md'}")
    if status.failed:
        raise typer.Exit(FAULT)


def _place(on: str | None, workers: int | None, scheduler: str | None) -> int | str | None:
    """Return where a study runs; `--workers` and `--scheduler` are old names of `--on`."""
    for old, value in (("--workers", workers), ("--scheduler", scheduler)):
        if value is not None:
            note(f"`{old}` is now `--on`, and will be removed in 0.4.")
    return engine.one_place(engine.place_of(on), workers, scheduler)


def _part(text: str) -> tuple[int, int]:
    i, slash, n = text.partition("/")
    if not (slash and i.isdecimal() and n.isdecimal()):
        raise ValueError(f"`--part` should be i/n, for example 3/200, got {shown(text)}.")
    return int(i), int(n)


@dataclass(frozen=True)
class _Saved:
    """The content of a study.json: the kind of the study, and the keys of its cells."""

    kind: str
    cells: list[str]


def _saved(folder: Path) -> _Saved:
    """Read the study.json of a folder."""
    from guardband.base.files import read_bytes

    file = folder / "study.json"
    try:
        found = parsed(read_bytes(file, at_most=MANIFEST))
    except FileNotFoundError:
        fail(f"{folder} is not the folder of a study: it has no study.json.")
    except (ValueError, RecursionError):
        fail(f"{file} is damaged: it is not JSON. {REWRITE}")
    kind = found.get("study") if isinstance(found, dict) else None
    if kind not in (OWN, PAPER):
        fail(
            f"`study` in {file} should be {OWN!r} or {PAPER!r}, got {shown(kind)}: a folder cannot name a "
            f"file to run. {REWRITE}"
        )
    if kind == PAPER and "cells" not in found:  # as version 0.1 wrote it
        return _Saved(PAPER, _cells_of(found.get("options"), file))
    return _Saved(kind, _checked_keys(found.get("cells"), file))


REWRITE = "`guardband study run FILE --out FOLDER` rewrites it, as does `guardband study paper`."


def _checked_keys(keys: object, file: Path) -> list[str]:
    from guardband.lab.studies.records import is_key

    if not isinstance(keys, list) or not keys:
        fail(f"`cells` in {file} should list the keys of cells, got {shown(keys)}. {REWRITE}")
    for key in keys:
        if not isinstance(key, str) or not is_key(key):
            fail(f"`cells` in {file} should list keys of 16 hexadecimal digits, got {shown(key)}. {REWRITE}")
    if len(set(keys)) < len(keys):
        fail(
            f"`cells` in {file} should list each key once, got duplicates among its {len(keys)} keys. "
            f"{REWRITE}"
        )
    return keys


SETTINGS: dict[str, Any] = {"only": list, "presets": list, "seeds": int | None, "draws": int, "smoke": bool}
SEEDS = 100
"""The largest number of seeds in a study.json without keys, since each seed has many cells to describe."""


def _cells_of(options: object, file: Path) -> list[str]:
    """Return the keys of the paper's cells with these settings."""
    from guardband.lab import paper

    if not isinstance(options, dict) or options.keys() - SETTINGS.keys():
        fail(f"`options` in {file} should be some of {', '.join(SETTINGS)}, got {shown(options)}. {REWRITE}")
    for name, value in options.items():
        if not isinstance(value, SETTINGS[name]) or (
            isinstance(value, list) and not all(isinstance(item, str) for item in value)
        ):
            fail(f"`{name}` in {file} has the wrong type, got {shown(value)}. {REWRITE}")
    if (options.get("seeds") or 1) not in range(1, SEEDS + 1):
        fail(f"`seeds` in {file} should be 1 to {SEEDS}, got {shown(options['seeds'])}. {REWRITE}")
    return [cell.key for cell in paper.study(**options).cells]


def _load_study(path: Path) -> Study:
    """Run the file that was named on the command line, and return its study."""
    from guardband.lab import studies

    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        fail(f"{path.name} cannot be read as Python: its name should end in .py.")
    module = importlib.util.module_from_spec(spec)
    vars(module)["__study_file__"] = str(path)
    sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:  # the file may import modules next to it, as a script does
        sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    study = getattr(module, "study", None)
    if not isinstance(study, studies.Study):
        fail(f"{path.name} should define a `study`, for example `study = lab.studies.grid(...)`.")
    return study
