"""guardband study: compare methods over many trainings."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from guardband.cli.errors import fail

app: typer.Typer = typer.Typer(
    help="Compare methods over many trainings; killed studies are resumed.", no_args_is_help=True
)

Out = Annotated[Path, typer.Option(help="Where results go; running again does only what is missing.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Trainings of each method.")]
Draws = Annotated[int, typer.Option(min=1, help="Recalibrations of each training.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes of a Dask cluster on this machine.")]
Scheduler = Annotated[str | None, typer.Option(help="The address of a Dask scheduler, tcp://host:8786.")]
Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The folder of a study.")]


@app.command("paper")
def study_paper(
    out: Out = Path("paper"),
    only: Annotated[
        list[str] | None, typer.Option(help="table1-3, figure2-9 or an experiment; may be repeated.")
    ] = None,
    preset: Annotated[list[str] | None, typer.Option(help="ours, paper; both by default.")] = None,
    seeds: Seeds = None,
    draws: Draws = 1000,
    workers: Workers = None,
    scheduler: Scheduler = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Train for seconds, to see that all works.")] = False,
) -> None:
    """Make every table and figure of the paper again, over many seeds."""
    options = {"only": only or [], "presets": preset or ["ours", "paper"], "seeds": seeds, "draws": draws}
    _campaign({"study": "paper", "options": options | {"smoke": smoke}}, out, workers, scheduler)


@app.command("run")
def study_run(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Python, with a `study`.")],
    out: Out = Path("study"),
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Run your own study: a Python file that makes a `study`, for example by `gb.studies.grid(...)`."""
    out.mkdir(parents=True, exist_ok=True)
    _campaign({"study": os.path.relpath(file.resolve(), out.resolve())}, out, workers, scheduler)


@app.command("status")
def study_status(folder: Folder) -> None:
    """How far a study is."""
    from guardband import campaign

    try:
        typer.echo(campaign.status(folder, _study(_saved(folder), folder)))
    except ValueError as error:
        fail(str(error))


@app.command("table")
def study_table(folder: Folder) -> None:
    """Make the pages and figures of a study again from what is there."""
    from guardband import campaign

    study = _study(_saved(folder), folder)
    try:
        found = list(campaign.results(folder, study))
    except ValueError as error:
        fail(str(error))
    if not found:
        fail(f"There are no results in {folder} yet. Run the study, or wait for its first cell.")
    study.write(found, folder)
    typer.echo(f"{len(found)} results: {folder / 'README.md'}")


@app.command("pack")
def study_pack(folder: Folder) -> None:
    """Put the results of a study, a file for each cell, into one file, cells.jsonl."""
    from guardband import campaign

    try:
        found = campaign.pack(folder)
    except (ValueError, OSError, campaign.CampaignError) as error:
        fail(str(error))
    if not found:
        fail(f"There are no results in {folder} yet. Run the study, or wait for its first cell.")
    typer.echo(f"{found} results: {folder / 'cells.jsonl'}")


def _campaign(made_of: dict[str, Any], out: Path, workers: int | None, scheduler: str | None) -> None:
    from guardband import campaign
    from guardband.files import write_text

    try:
        study = _study(made_of, out)
        write_text(out / "study.json", json.dumps(made_of, indent=1) + "\n")
        try:
            status = campaign.run(study, out, workers=workers, scheduler=scheduler)
        except KeyboardInterrupt:
            fail(f"stopped: {campaign.status(out, study)}. The same command resumes it.", code=130)
    except (ValueError, TypeError, ImportError, OSError, campaign.CampaignError) as error:
        fail(str(error))
    typer.echo(status if not status.done else f"{status}\n{out / 'README.md'}")
    if status.failed:
        raise typer.Exit(1)


def _saved(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "study.json").read_text())
    except FileNotFoundError:
        fail(f"{folder} is not the folder of a study: it has no study.json.")


def _study(made_of: dict[str, Any], folder: Path) -> Any:
    """The study that a folder belongs to: the paper's, or that of a file."""
    from guardband import paper, studies

    if made_of["study"] == "paper":
        return paper.study(**made_of["options"])
    path = (folder.resolve() / made_of["study"]).resolve()
    if not path.is_file():
        fail(f"{path.name}, the file of this study, was moved; `guardband study run FILE` resumes it.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        fail(f"{path.name} cannot be read as Python: its name should end in .py.")
    module = importlib.util.module_from_spec(spec)
    module.__study_file__ = str(path)  # type: ignore[attr-defined]
    sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:  # methods of one's own lie beside it, as beside any script
        sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    study = getattr(module, "study", None)
    if not isinstance(study, studies.Study):
        fail(f"{path.name} should make a `study`, for example `study = gb.studies.grid(...)`.")
    return study
