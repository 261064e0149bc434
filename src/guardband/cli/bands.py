"""guardband calibrate, predict, verify, report, doctor: what may be said, and what is printed.

The work is in `work.py`, which a command imports when it runs: help should not wait for torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from guardband.cli.errors import echo
from guardband.cli.words import CALIBRATORS, LAWS, SCALES

ModelOption = Annotated[
    str | None, typer.Option("--model", help="The model again, if it was given as module:object.")
]
Data = Annotated[Path, typer.Option("--data", help="Rows with named columns: .csv, .parquet, .nc or .npz.")]
Folder = Annotated[Path, typer.Argument(help="The folder that `calibrate` wrote.")]
LevelOption = Annotated[str, typer.Option("--level", help="The probability asked for, 0.95 for 95 %.")]
Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import", help="Python of your own to run first: a file .py or a module; may be repeated."
    ),
]
NoiseFree = Annotated[bool, typer.Option("--truth", help="The targets of these rows are free of noise.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def calibrate(
    model: Annotated[str, typer.Argument(help="A file model.onnx, or module:object on the Python path.")],
    data: Data,
    targets: Annotated[str, typer.Option(help="The measured columns, separated by commas.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    inputs: Annotated[
        str | None, typer.Option(help="The columns of x, in the model's order; by default all others.")
    ] = None,
    training_data: Annotated[
        Path | None, typer.Option(help="The rows the model was trained on; seen points are then refused.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help=f"How the model says it is unsure: {', '.join(SCALES)}.")
    ] = "constant",
    calibrator: Annotated[
        str, typer.Option(help=f"{', '.join(CALIBRATORS)}, or one of your own: see --import.")
    ] = "split",
    groups: Annotated[str | None, typer.Option(help="The column with the sensor or regime of a row.")] = None,
    query: Annotated[Path | None, typer.Option(help="For weighted: where bands will be asked for.")] = None,
    score: Annotated[
        str | None, typer.Option(help="absolute, scaled, or one of your own, see --import.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise to be added to the scale, in the targets' units.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            help="For a band about the noise-free truth, the law of the noise and its size, such as "
            f"gaussian:0.05; {', '.join(LAWS)}. Wants --confidence."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a calibration in that folder.")
    ] = False,
    confidence: Annotated[
        str | None, typer.Option(help="0.9: coverage holds in 90 % of calibration sets.")
    ] = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Calibrate a model on measurements it has not seen, and keep the result in a folder."""
    from guardband.cli import work

    found, text = work.calibrate(
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
    say(found, text, as_json)


def predict(
    folder: Folder,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where bands go: .csv, .parquet, .nc, .npz, .vtk or .vtu.")],
    level: LevelOption = "0.95",
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Write mean, lower and upper at every row of a file."""
    from guardband.cli import work

    found, text = work.predict(folder, data, out, level, model, imports)
    say(found, text, as_json)


def verify(
    folder: Folder,
    data: Annotated[Path | None, typer.Option("--data", help="Fresh labeled rows, used nowhere yet.")] = None,
    level: LevelOption = "0.95",
    truth: NoiseFree = False,
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Check every hash and, with fresh measurements, hold their coverage against the exact law.

    FOLDER may also be a store of bands (Zarr) or a study: what is damaged is named.
    """
    from guardband.cli import work

    found, text = work.verify(folder, data, level, truth, model, imports)
    say(found, text, as_json)
    _end(found)


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
    """Write one page for a reviewer: the claim, the assumptions, the checks, what was measured."""
    from guardband.cli import work

    found, text = work.report(folder, data, out, level, truth, model, imports)
    say(found, text, as_json)
    _end(found)


def doctor(as_json: Json = False) -> None:
    """Versions, extras, threads, device, and a test of the exact law on this machine."""
    from guardband.cli.doctor import examine

    found = examine()
    width = max(map(len, found))
    say(found, "\n".join(f"{name:{width}}  {value}" for name, value in found.items()), as_json)
    if found["exact law"] != "holds":
        raise typer.Exit(1)


def say(found: dict[str, Any], text: str, as_json: bool) -> None:
    """Print what was found, in words or for programs."""
    echo(json.dumps(found) if as_json else text)


def _end(found: dict[str, Any]) -> None:
    """A band that does not hold on fresh measurements is the exit code."""
    if found["consistent"] is False:
        raise typer.Exit(1)
