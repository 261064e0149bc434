"""The commands, their arguments and options. The actions themselves are imported when a command runs.

Printing help must not import torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from guardband.base.extras import load
from guardband.cli.choices import CALIBRATORS, LAWS, METHODS, NOISES, SCALES
from guardband.cli.errors import echo

ModelOption = Annotated[
    str | None, typer.Option("--model", help="The model, if it was calibrated as module:object.")
]
Data = Annotated[Path, typer.Option("--data", help="Rows with named columns: .csv, .parquet, .nc or .npz.")]
Folder = Annotated[Path, typer.Argument(help="The folder written by `calibrate`.")]
LevelOption = Annotated[str, typer.Option("--level", help="The requested coverage, such as 0.95.")]
Import = Annotated[
    list[str] | None,
    typer.Option("--import", help="Python to run first: a .py file or a module. May be repeated."),
]
NoiseFree = Annotated[bool, typer.Option("--truth", help="The targets of these rows are noise-free.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def calibrate(
    model: Annotated[str, typer.Argument(help="A file model.onnx, or module:object on the Python path.")],
    data: Data,
    targets: Annotated[str, typer.Option(help="The measured columns, separated by commas.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    inputs: Annotated[
        str | None, typer.Option(help="The columns of x, in the model's order; by default all others.")
    ] = None,
    training_data: Annotated[
        Path | None, typer.Option(help="The rows the model was trained on, to refuse calibration on them.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help=f"The estimate of the model's error: {', '.join(SCALES)}.")
    ] = "constant",
    calibrator: Annotated[
        str, typer.Option(help=f"{', '.join(CALIBRATORS)}, or your own class (see --import).")
    ] = "split",
    groups: Annotated[
        str | None, typer.Option(help="The column that holds the sensor or regime of each row.")
    ] = None,
    query: Annotated[
        Path | None, typer.Option(help="For weighted: the points where bands will be evaluated.")
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="absolute, scaled, or your own class (see --import).")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise to add to the scale, in the targets' units.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            help="For a band around the noise-free truth: the noise law and its size, such as "
            f"gaussian:0.05. Laws: {', '.join(LAWS)}. Requires --confidence."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the calibration in that folder.")
    ] = False,
    confidence: Annotated[
        str | None, typer.Option(help="0.9: the coverage holds for 90 % of calibration sets.")
    ] = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Calibrate a model on held-out measurements and save the result in a folder."""
    from guardband.cli import actions

    result, text = actions.calibrate(
        model,
        data,
        out,
        targets=targets,
        inputs=inputs,
        training_data=training_data,
        scale=scale,
        calibrator=calibrator,
        groups=groups,
        query=query,
        score=score,
        noise=noise,
        truth=truth,
        overwrite=overwrite,
        confidence=confidence,
        imports=imports,
    )
    _show(result, text, as_json)


def predict(
    folder: Folder,
    data: Data,
    out: Annotated[Path, typer.Option(help="The file to write: .csv, .parquet, .nc, .npz, .vtk or .vtu.")],
    level: LevelOption = "0.95",
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Write the mean, lower and upper end of the band for every row of a file."""
    from guardband.cli import actions

    result, text = actions.predict(folder, data, out, level, model, imports)
    _show(result, text, as_json)


def verify(
    folder: Folder,
    data: Annotated[Path | None, typer.Option("--data", help="Fresh labeled rows, not used before.")] = None,
    level: LevelOption = "0.95",
    truth: NoiseFree = False,
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Check all hashes and, given fresh measurements, compare their coverage with the exact law.

    FOLDER may also be a store of bands (Zarr) or a study; damaged parts are listed.
    """
    from guardband.cli import actions

    result, text = actions.verify(folder, data, level, truth, model, imports)
    _show(result, text, as_json)
    _exit_with_verdict(result)


def report(
    folder: Folder,
    data: Data,
    out: Annotated[Path, typer.Option(help="The page to write, .html or .md.")] = Path("report.html"),
    level: LevelOption = "0.95",
    truth: NoiseFree = False,
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Write a one-page report for a reviewer: claim, assumptions, checks and measured coverage."""
    from guardband.cli import actions

    result, text = actions.report(folder, data, out, level, truth, model, imports)
    _show(result, text, as_json)
    _exit_with_verdict(result)


def watch(
    folder: Folder,
    data: Annotated[
        str,
        typer.Option("--data", help="A growing .csv with inputs and targets in each row, or - for a pipe."),
    ],
    out: Annotated[Path, typer.Option(help="The file for bands and alarms, one JSON object per line.")],
    snapshot: Annotated[
        Path | None, typer.Option(help="The file that keeps the state; by default OUT.snapshot.")
    ] = None,
    level: LevelOption = "0.95",
    method: Annotated[
        str, typer.Option(help=f"How bands adapt to the readings: {', '.join(METHODS)}.")
    ] = METHODS[0],
    every: Annotated[int, typer.Option(min=1, help="The number of rows between snapshots.")] = 1000,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at the end of the file instead of waiting for more rows.")
    ] = False,
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Follow a sensor: write a band for every row, and raise an alarm if the misses change.

    If it is killed, the same command resumes from its snapshot, and no line of OUT is lost or duplicated.
    The data must again begin with the rows that were already counted, which are skipped. A snapshot belongs
    to one calibration, one header and one OUT, and is refused with others.

    If a file is rotated, shortened or replaced, the command ends. Follow such a log through a pipe:

    tail -n +1 -F data.csv | guardband watch BAND --data - --out OUT

    A repeated header is skipped, as are rows below it that were already counted. Rows must be
    distinguishable, for example by a time: two logs that begin with the same rows are treated as one.
    """
    from guardband.cli import watch as watching

    result, text = watching.watch(
        folder,
        data,
        out,
        snapshot=snapshot,
        level=level,
        method=method,
        every=every,
        once=once,
        model=model,
        imports=imports,
    )
    _show(result, text, as_json)


def identify(
    problem: Annotated[
        Path, typer.Argument(help="A Python file with a problem and `family = pinn.Family(...)`.")
    ],
    data: Annotated[
        Path,
        typer.Option("--data", help="Readings with columns named after axes and outputs: .csv and others."),
    ],
    out: Annotated[Path, typer.Option(help="The page to write, .html or .md.")] = Path("report.html"),
    noise: Annotated[
        str, typer.Option(help=f"The assumption about the noise: {', '.join(NOISES)}.")
    ] = NOISES[0],
    level: LevelOption = "0.95",
    family: Annotated[
        Path | None,
        typer.Option(help="The folder to load a trained family from, or to save it in."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="A bound on the solver's error at the readings; by default it is estimated."),
    ] = None,
    next_readings: Annotated[
        int, typer.Option("--next", min=0, help="The number of further measurement points to propose.")
    ] = 0,
    candidates: Annotated[
        Path | None,
        typer.Option(help="For --next: a file of candidate points; by default the whole domain."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Choose it before you look at the readings.")] = 0,
    as_json: Json = False,
) -> None:
    """Estimate the coefficients of an equation from readings, with a confidence region.

    PROBLEM defines the equation and the range of each coefficient: family = pinn.Family(Rod,
    diffusivity=(0.02, 0.2)). It may also define a `solver`, a function (x, diffusivity) -> u, or a
    `recipe`. With --family a network replaces the solver, which then only checks the network; use this if
    the solver is slow.
    """
    result, text = load("guardband.pinn.cli", "pinn").identify(
        problem,
        data,
        out,
        noise=noise,
        level=level,
        folder=family,
        delta=delta,
        seed=seed,
        next_readings=next_readings,
        candidates=candidates,
    )
    _show(result, text, as_json)
    if result["doubted"] or result["empty"]:
        raise typer.Exit(1)


def doctor(as_json: Json = False) -> None:
    """Print versions, extras, threads and device, and test the exact law on this machine."""
    from guardband.cli.doctor import examine

    result = examine()
    width = max(map(len, result))
    _show(result, "\n".join(f"{name:{width}}  {value}" for name, value in result.items()), as_json)
    if result["exact law"] != "holds":
        raise typer.Exit(1)


def _show(result: dict[str, object], text: str, as_json: bool) -> None:
    """Print a result as text, or as JSON for programs."""
    echo(json.dumps(result) if as_json else text)


def _exit_with_verdict(result: dict[str, object]) -> None:
    """Exit with status 1 if fresh measurements contradict the band."""
    if result["consistent"] is False:
        raise typer.Exit(1)
