"""The actions behind the commands. Each returns its result as a dictionary and as text."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

import guardband as gb
from guardband import fields, tables
from guardband.base.extras import load
from guardband.cli.errors import note
from guardband.cli.models import (
    Artifact,
    calibrator_of,
    import_code,
    law_of,
    matrix,
    model_of,
    predictor_of,
    score_of,
    sensors,
)
from guardband.leaks import refuse_leaks
from guardband.reports import refuse_other_endings, sections, write
from guardband.store import MANIFEST

ROWS_AT_ONCE = 100_000
"""Points per chunk of a prediction."""

ENDS = ("mean", "lower", "upper")
"""Parts of a band in the output: the target `u` gives `u_mean`, `u_lower` and `u_upper`."""

TRUTH_ONLY = (
    "This band covers the noise-free truth. Pass --truth if the targets of these rows are free of noise. "
    "Otherwise leave their columns out: noisy rows cannot test it."
)
MEASURED_ONLY = (
    "This band covers new measurements, but --truth declares these rows free of noise. Report it on "
    "measured rows, or calibrate it with --truth."
)

Result = tuple[dict[str, object], str]
"""The result of a command, for programs and as text."""


def calibrate(
    model: str,
    data: Path,
    out: Path,
    *,
    targets: str,
    inputs: str | None,
    training_data: Path | None,
    scale: str,
    calibrator: str,
    groups: str | None,
    query: Path | None,
    score: str | None,
    noise: float | None,
    truth: str | None,
    overwrite: bool,
    confidence: str | None,
    imports: list[str] | None,
) -> Result:
    """Calibrate a model and write the folder."""
    import_code(imports)
    if (out / MANIFEST).exists() and not overwrite:
        raise ValueError(f"{out} already holds a calibration; pass --overwrite, or choose another folder.")
    table = tables.read(data)
    names_y = _names(targets)
    names_x = _names(inputs) if inputs else [n for n in table.names if n not in (*names_y, groups)]
    if both := [name for name in names_x if name in names_y]:
        raise ValueError(f"Column `{both[0]}` is a target; remove it from --inputs.")
    if not names_x:
        raise ValueError(f"{data} has no input columns, only targets and groups.")
    training = None
    if training_data is not None:
        rows = tables.read(training_data)
        x_train, y_train = matrix(rows, names_x, training_data), matrix(rows, names_y, training_data)
        training = gb.Observations(x_train, y_train)
    x, y = matrix(table, names_x, data), matrix(table, names_y, data)
    predictor = predictor_of(model_of(model), scale, training)
    queries = None if query is None else matrix(tables.read(query), names_x, query)
    options: dict[str, Any] = {
        "calibrator": calibrator_of(calibrator, training, x, queries),
        "groups": None if groups is None else sensors(table, groups),
        "score": score_of(score, noise),
        "confidence": confidence,
    }
    if truth is not None:
        if calibrator != "split":
            raise ValueError(
                f"--truth cannot be combined with a calibrator; leave out --calibrator {calibrator}."
            )
        options |= {"target": "truth", "noise": law_of(truth), "calibrator": None}
    if getattr(predictor, "training_data", None) is not training:  # `gb.calibrate` then cannot check it
        refuse_leaks({} if training is None else {"training": training}, x, y)
    calibrated = gb.calibrate(predictor, x, y, **options)
    Artifact.write(out, calibrated, model, inputs=names_x, targets=names_y, groups=groups)
    size = calibrated.size(0.95)
    if size is not None and size.have < size.need:
        note(f"{size.have:g} {size.what} are too few for a finite band at 95 %; {size.need:g} are needed.")
    columns = f"{', '.join(names_x)} -> {', '.join(names_y)}, {len(y)} rows"
    result: dict[str, object] = {
        "folder": str(out),
        "inputs": names_x,
        "targets": names_y,
        "rows": len(y),
        "promise": calibrated.promise,
    }
    return result, f"{columns}\n{calibrated.promise}\nWritten to {out}."


def predict(
    folder: Path, data: Path, out: Path, level: str, model: str | None, imports: list[str] | None
) -> Result:
    """Write the band for every row of a file."""
    import_code(imports)
    if out.exists() and data.exists() and out.samefile(data):
        raise ValueError(f"{out} is the input file; write the bands to another file.")
    artifact = Artifact.read(folder, model)
    table = tables.read(data)
    x = matrix(table, artifact.inputs, data)
    labels = artifact.labels(table)
    results = [f"{target}_{end}" for target in artifact.targets for end in ENDS]
    if clash := {*results} & {*artifact.inputs}:
        raise ValueError(f"The input `{min(clash)}` has the name of an output column; rename it.")
    parts = []
    for start in tqdm(
        range(0, len(x), ROWS_AT_ONCE), disable=len(x) <= ROWS_AT_ONCE, desc="predict", unit="chunk"
    ):
        chunk = slice(start, start + ROWS_AT_ONCE)
        groups = None if labels is None else labels[chunk]
        parts.append(artifact.calibrated(x[chunk], level, groups=groups))
    columns: dict[str, np.ndarray] = {}
    for j, target in enumerate(artifact.targets):
        for end in ENDS:
            pieces = [getattr(part, end)[:, j] for part in parts]
            columns[f"{target}_{end}"] = np.concatenate(pieces) if pieces else np.empty(0)
    extended = tables.Table({name: table.column(name) for name in table.names} | columns)
    points = artifact.inputs[:3] if out.suffix.lower() in (".vtk", ".vtu") else None
    tables.write(out, extended, **({"points": points} if points else {}))
    return {"rows": len(x), "file": str(out)}, f"{len(x)} rows written to {out}."


def verify(
    folder: Path, data: Path | None, level: str, truth: bool, model: str | None, imports: list[str] | None
) -> Result:
    """Check all hashes and the coverage on fresh rows, or all entries of a store or a study."""
    import_code(imports)
    if not (folder / MANIFEST).exists() and folder.is_dir():
        if (folder / "zarr.json").exists():
            stored = fields.verify(folder)
            return _soundness(stored.sound, str(stored))
        if (folder / "study.json").exists() or (folder / "cells.jsonl").exists():
            return _soundness(True, load("guardband.lab.cli", "lab").verify(folder))
    artifact = Artifact.read(folder, model)
    result: dict[str, object] = {"hashes": "right", "consistent": None}
    text = f"{folder}: all hashes match, and the model reproduces the stored values."
    if data is not None:
        evaluation = artifact.evaluate(data, level, truth=truth)
        result |= _measured(evaluation)
        text += f"\n{evaluation}"
    return result, text


def _soundness(sound: bool, text: str) -> Result:
    """Return the result for a store or a study; a damaged part is an error."""
    if not sound:
        raise ValueError(text)
    return {"sound": True, "consistent": None}, text


def report(
    folder: Path,
    data: Path,
    out: Path,
    level: str,
    truth: bool,
    model: str | None,
    imports: list[str] | None,
) -> Result:
    """Write the report for a reviewer."""
    refuse_other_endings(out)
    import_code(imports)
    artifact = Artifact.read(folder, model)
    table = tables.read(data)
    labeled = all(target in table.names for target in artifact.targets)
    if labeled and truth != (artifact.calibrated.about == "truth"):
        raise ValueError(MEASURED_ONLY if truth else TRUTH_ONLY)
    measured = _measured(artifact.evaluate(data, level, truth=truth)) if labeled else {"consistent": None}
    facts = {
        "data": data.name,
        "inputs": ", ".join(artifact.inputs),
        "targets": ", ".join(artifact.targets),
    }
    words = ["guardband", "report", folder.name, "--data", data.name, "--level", level, "--out", out.name]
    words += ["--truth"] * truth + ([] if model is None else ["--model", model])
    contents = sections(
        artifact.calibrated,
        matrix(table, artifact.inputs, data),
        matrix(table, artifact.targets, data) if labeled else None,
        level=level,
        groups=artifact.labels(table),
        facts=facts | {f"sha256 of {name}": value for name, value in artifact.hashes.items()},
        command=shlex.join([*words, *(word for name in imports or () for word in ("--import", name))]),
    )
    write(out, f"{', '.join(artifact.targets)}: a prediction band and its guarantee", contents)
    return {"file": str(out), **measured}, f"Written to {out}."


def _measured(evaluation: gb.evaluation.Evaluation) -> dict[str, object]:
    return {
        "consistent": evaluation.consistent,
        "level": evaluation.level,
        "points": evaluation.n_test,
        "coverage": evaluation.coverage,
        "mean_width": _finite_or_none(evaluation.sharpness),
        "acd": evaluation.acd,
        "relative_l2": _finite_or_none(evaluation.relative_l2),
        "verdict": evaluation.verdict,
    }


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"Columns should be names separated by commas, got {text!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"Columns should have different names, got {text!r}.")
    return names
