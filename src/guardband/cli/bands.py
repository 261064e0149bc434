"""guardband calibrate, predict, verify, report, doctor: from a model and measurements to a band."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from tqdm.auto import tqdm

import guardband as gb
from guardband import tables
from guardband.cli.errors import note, taught
from guardband.cli.models import SCALES, Artefact, matrix, own_model, predictor_of, sensors
from guardband.conformal.calibrate import refuse_training_rows
from guardband.store import MANIFEST

CHUNK = 100_000
"""How many points are predicted at a time."""

ENDS = ("mean", "lower", "upper")
"""What is written of a band: the column of `u` becomes `u_mean`, `u_lower` and `u_upper`."""

ModelOption = Annotated[
    str | None, typer.Option("--model", help="The model again, if it was given as module:object.")
]
Data = Annotated[Path, typer.Option("--data", help="Rows with named columns: .csv, .parquet, .nc or .npz.")]
Folder = Annotated[Path, typer.Argument(help="The folder that `calibrate` wrote.")]
LevelOption = Annotated[str, typer.Option("--level", help="The probability asked for, 0.95 for 95 %.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def calibrate(
    model: Annotated[str, typer.Argument(help="A file model.onnx, or module:object on the Python path.")],
    data: Data,
    targets: Annotated[str, typer.Option(help="The measured columns, separated by commas.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    inputs: Annotated[
        str | None, typer.Option(help="The columns of x, in the model's order; by default all others.")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="The rows the model was trained on; seen points are then refused.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help=f"How the model says it is unsure: {', '.join(SCALES)}.")
    ] = "constant",
    calibrator: Annotated[
        str, typer.Option(help="split, grouped, clustered, local or weighted; see docs/calibrators.md.")
    ] = "split",
    groups: Annotated[str | None, typer.Option(help="The column with the sensor or regime of a row.")] = None,
    query: Annotated[Path | None, typer.Option(help="For weighted: where bands will be asked for.")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise to be added to the scale, in the targets' units.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a calibration in that folder.")
    ] = False,
    confidence: Annotated[
        str | None, typer.Option(help="0.9: coverage holds in 90 % of calibration sets.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Calibrate a model on measurements it has not seen, and keep the result in a folder."""
    with taught():
        if (out / MANIFEST).exists() and not overwrite:
            raise ValueError(f"{out} holds a calibration already; say --overwrite, or write elsewhere.")
        table = tables.read(data)
        names_y = _names(targets)
        names_x = _names(inputs) if inputs else [n for n in table.names if n not in (*names_y, groups)]
        seen = None
        if train is not None:
            rows = tables.read(train)
            seen = gb.Observations(matrix(rows, names_x, train), matrix(rows, names_y, train))
        x, y = matrix(table, names_x, data), matrix(table, names_y, data)
        predictor = predictor_of(own_model(model), scale, seen)
        options: dict[str, Any] = {
            "calibrator": _calibrator(calibrator, seen, x, query, names_x),
            "groups": None if groups is None else sensors(table, groups),
            "score": None if noise is None else gb.Total(noise=noise),
            "confidence": confidence,
        }
        if getattr(predictor, "train", None) is not seen:  # it does not know its training rows, but we do
            refuse_training_rows(seen, x, y)
        made = gb.calibrate(predictor, x, y, **options)
        Artefact.write(out, made, model, inputs=names_x, targets=names_y, groups=groups)
        needed = gb.points_needed(0.95, made.confidence)
        if len(y) < needed:
            note(f"{len(y)} rows are too few for a finite band at 95 %; {needed} are needed.")
        found = {"folder": str(out), "inputs": names_x, "targets": names_y, "rows": len(y)}
    columns = f"{', '.join(names_x)} -> {', '.join(names_y)}, {len(y)} rows"
    _say(found | {"promise": made.promise}, f"{columns}\n{made.promise}\nWritten to {out}.", as_json)


def predict(
    folder: Folder,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where bands go: .csv, .parquet, .nc, .npz, .vtk or .vtu.")],
    level: LevelOption = "0.95",
    model: ModelOption = None,
    as_json: Json = False,
) -> None:
    """Write mean, lower and upper at every row of a file."""
    with taught():
        artefact = Artefact.read(folder, model)
        table = tables.read(data)
        x = matrix(table, artefact.inputs, data)
        labels = artefact.labels(table)
        results = [f"{target}_{end}" for target in artefact.targets for end in ENDS]
        if clash := {*results} & {*artefact.inputs}:
            raise ValueError(f"The input `{min(clash)}` has the name of a result; give it another name.")
        parts = []
        for start in tqdm(range(0, len(x), CHUNK), disable=len(x) <= CHUNK, desc="predict", unit="chunk"):
            some = slice(start, start + CHUNK)
            given = None if labels is None else labels[some]
            parts.append(artefact.calibrated(x[some], level, groups=given))
        columns: dict[str, np.ndarray] = {}
        for j, target in enumerate(artefact.targets):
            for end in ENDS:
                found = [getattr(part, end)[:, j] for part in parts]
                columns[f"{target}_{end}"] = np.concatenate(found) if found else np.empty(0)
        given = {name: table.column(name) for name in table.names}
        written = tables.Table(given | columns)
        points = artefact.inputs[:3] if out.suffix.lower() in (".vtk", ".vtu") else None
        tables.write(out, written, **({"points": points} if points else {}))
    _say({"rows": len(x), "file": str(out)}, f"{len(x)} rows written to {out}.", as_json)


def verify(
    folder: Folder,
    data: Annotated[
        Path | None, typer.Option("--data", help="Fresh labelled rows, used nowhere yet.")
    ] = None,
    level: LevelOption = "0.95",
    model: ModelOption = None,
    as_json: Json = False,
) -> None:
    """Check every hash and, with fresh measurements, hold their coverage against the exact law."""
    with taught():
        artefact = Artefact.read(folder, model)
        found: dict[str, Any] = {"hashes": "right", "consistent": None}
        text = f"{folder}: every hash is right, and the model gives the stored values."
        if data is not None:
            evaluation = artefact.evaluate(data, level)
            found |= _measured(evaluation)
            text += f"\n{evaluation}"
    _say(found, text, as_json)
    if found["consistent"] is False:
        raise typer.Exit(1)


def report(
    folder: Folder,
    data: Data,
    out: Annotated[Path, typer.Option(help="The page to write, .html or .md.")] = Path("report.html"),
    level: LevelOption = "0.95",
    model: ModelOption = None,
    as_json: Json = False,
) -> None:
    """Write one page for a reviewer: the claim, the assumptions, the checks, what was measured."""
    with taught():
        artefact = Artefact.read(folder, model)
        table = tables.read(data)
        labelled = all(target in table.names for target in artefact.targets)
        measured = _measured(artefact.evaluate(data, level)) if labelled else {"consistent": None}
        facts = {
            "data": data.name,
            "inputs": ", ".join(artefact.inputs),
            "targets": ", ".join(artefact.targets),
        }
        gb.report(
            artefact.calibrated,
            matrix(table, artefact.inputs, data),
            matrix(table, artefact.targets, data) if labelled else None,
            path=out,
            level=level,
            groups=artefact.labels(table),
            title=f"{', '.join(artefact.targets)}: a prediction band, and what it promises",
            facts=facts | {f"sha256 of {name}": value for name, value in artefact.hashes.items()},
        )
    _say({"file": str(out), **measured}, f"Written to {out}.", as_json)
    if measured["consistent"] is False:
        raise typer.Exit(1)


def doctor(as_json: Json = False) -> None:
    """Versions, extras, threads, device, and a test of the exact law on this machine."""
    from guardband.cli.doctor import examine

    found = examine()
    width = max(map(len, found))
    _say(found, "\n".join(f"{name:{width}}  {value}" for name, value in found.items()), as_json)
    if found["exact law"] != "holds":
        raise typer.Exit(1)


def _measured(evaluation: gb.Evaluation) -> dict[str, Any]:
    return {
        "consistent": evaluation.consistent,
        "level": evaluation.level,
        "points": evaluation.n_test,
        "coverage": evaluation.coverage,
        "mean_width": _or_none(evaluation.sharpness),
        "acd": evaluation.acd,
        "relative_l2": _or_none(evaluation.relative_l2),
        "verdict": evaluation.verdict,
    }


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"Columns should be names separated by commas, got {text!r}.")
    return names


def _calibrator(
    word: str, train: gb.Observations | None, x: np.ndarray, query: Path | None, inputs: list[str]
) -> Any:
    if query is not None and word != "weighted":
        raise ValueError(f"--query is for --calibrator weighted, got {word!r}.")
    match word:
        case "split":
            return gb.Split()
        case "grouped":
            return gb.Grouped()
        case "clustered":
            return gb.Clustered()
        case "local":
            if train is None:
                raise ValueError(
                    "--calibrator local learns where the model errs from its training rows: --train FILE."
                )
            return gb.Local(train)
        case "weighted":
            if query is None:
                raise ValueError(
                    "--calibrator weighted needs to know where bands will be asked for: --query FILE."
                )
            known = x if train is None else np.asarray(train.x)
            return gb.Weighted(gb.density_ratio(known, matrix(tables.read(query), inputs, query)))
    raise ValueError(f"--calibrator should be split, grouped, clustered, local or weighted, got {word!r}.")


def _say(found: dict[str, Any], text: str, as_json: bool) -> None:
    typer.echo(json.dumps(found) if as_json else text)
