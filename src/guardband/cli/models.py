"""A model named on the command line, and the folder that a calibration of it lives in."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import guardband as gb
from guardband import extras, store
from guardband.adapters import from_onnx
from guardband.arrays import shared_rows
from guardband.files import sha256, write_bytes, write_text
from guardband.tables import Table, TableError, number, read

SCALES = ("constant", "distance", "latent-distance", "dropout", "laplace", "last-layer-laplace", "own")
"""Words for predictors; `own` is for an object that is a predictor already."""

MODEL, SETTINGS = "model.onnx", "settings.json"
LARGEST = 2**31


def matrix(table: Table, columns: list[str], path: Path) -> np.ndarray:
    """Columns as numbers (n, k), or an error that names the file."""
    try:
        return table.matrix(columns)
    except TableError as error:
        text = " Choose columns with --inputs; a sensor's name goes to --groups."
        raise TableError(f"{path}: {error}{text if 'numbers' in str(error) else ''}") from error


def sensors(table: Table, column: str) -> np.ndarray:
    """Labels as text, the same in every file: 1, 1.0 and "1" are one sensor, whatever stands beside."""
    cells = [(cell, number(str(cell))) for cell in table.column(column).tolist()]
    return np.array([str(cell) if value is None else f"{value:.17g}" for cell, value in cells])


def own_model(word: str) -> Any:
    """The model that `model.onnx` or `module:object` names."""
    if word.endswith(".onnx"):
        path = Path(word)
        if not path.is_file():
            raise ValueError(f"There is no file {word}.")
        if path.stat().st_size > LARGEST:
            raise ValueError(
                f"{word} has {path.stat().st_size} bytes; at most {LARGEST} are read. Give a larger model as "
                "module:object."
            )
        return from_onnx(_whole(path)).model
    module, _, name = word.partition(":")
    if not name:
        raise ValueError(f"A model should be a file ending in .onnx, or module:object, got {word!r}.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    made: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(made, part):
            raise ValueError(
                f"{module} has no {part!r}. A model is named module:object, as it would be imported, got "
                f"{word}."
            )
        made = getattr(made, part)
    return made


def _whole(path: Path) -> bytes:
    """An ONNX graph as one piece; exporters like to put the weights into a file beside it."""
    onnx = extras.load("onnx", "export")
    try:
        return onnx.load(path).SerializeToString()
    except Exception as error:  # its parsers raise what they like
        raise ValueError(f"{path} cannot be read as ONNX: {type(error).__name__}: {error}") from error


def predictor_of(model: Any, scale: str, train: gb.Observations | None) -> Any:
    """The predictor that a word for a scale makes of a model."""
    x_train = None if train is None else train.x
    match scale:
        case "own":
            return model
        case "constant":
            return gb.predictors.Constant(model, train=train)
        case "distance" | "latent-distance" if train is None and not isinstance(model, gb.Fitted):
            raise ValueError(f"--scale {scale} measures the distance to the training rows: --train FILE.")
        case "distance":
            return gb.predictors.Distance(model, x_train, train=train)
        case "latent-distance":
            return gb.predictors.LatentDistance(model, x_train, train=train)
        case "dropout":
            return gb.predictors.Dropout(model)
        case "laplace" | "last-layer-laplace":
            if not isinstance(model, gb.Fitted):
                raise ValueError(f"--scale {scale} knows the equation: it needs the result of `gb.fit`.")
            return (gb.predictors.Laplace if scale == "laplace" else gb.predictors.LastLayerLaplace)(model)
    raise ValueError(f"--scale should be one of {', '.join(SCALES)}, got {scale!r}.")


@dataclass(frozen=True)
class Artefact:
    """A calibration on disk with the names of its columns and, if it is an ONNX file, its model."""

    calibrated: gb.Calibrated
    inputs: list[str]
    targets: list[str]
    groups: str | None
    hashes: dict[str, str]

    @staticmethod
    def write(
        folder: Path,
        calibrated: gb.Calibrated,
        model: str,
        *,
        inputs: list[str],
        targets: list[str],
        groups: str | None,
    ) -> None:
        """Save a calibration, its ONNX model beside it, and the names of the columns."""
        gb.save(calibrated, folder)
        settings: dict[str, Any] = {"inputs": inputs, "targets": targets, "groups": groups}
        if model.endswith(".onnx"):
            write_bytes(folder / MODEL, _whole(Path(model)))
            settings["model"] = sha256(folder / MODEL)
        settings["manifest"] = sha256(folder / store.MANIFEST)
        write_text(folder / SETTINGS, json.dumps(settings, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path, model: str | None = None) -> Artefact:
        """Load what `write` wrote; a model that was given as module:object has to be named again."""
        settings = _settings(folder)
        hashes = {name: value for name, value in store.manifest(folder)["files"].items()}
        found = {name: about["sha256"] for name, about in hashes.items()}
        found[store.MANIFEST] = sha256(folder / store.MANIFEST)
        if settings["manifest"] != found[store.MANIFEST]:
            raise store.ArtefactError(f"{folder / SETTINGS} belongs to another calibration. {store.AGAIN}")
        if "model" in settings:
            found[MODEL] = sha256(folder / MODEL)
            if found[MODEL] != settings["model"]:
                raise store.ArtefactError(
                    f"{folder / MODEL} was changed after it was saved: its SHA-256 differs. {store.AGAIN}"
                )
        wanted = store.manifest(folder)["handed_in_at_load"]
        yours = {}
        if any(name in ("model", "predictor") for name in wanted):
            if model is None and "model" not in settings:
                raise ValueError(
                    "A model given as module:object is not kept in the folder; "
                    "give it again, such as --model net:model."
                )
            given = own_model(model if model is not None else str(folder / MODEL))
            yours = {name: given for name in wanted if name in ("model", "predictor")}
        calibrated = gb.load(folder, **yours)
        return cls(calibrated, settings["inputs"], settings["targets"], settings["groups"], found)

    def labels(self, table: Table) -> np.ndarray | None:
        """The groups of a table's rows, where a band asks for them."""
        if not isinstance(self.calibrated.calibrator, gb.Grouped) or self.groups is None:
            return None
        return sensors(table, self.groups)

    def evaluate(self, path: Path, level: str) -> gb.Evaluation:
        """Coverage on fresh rows, held against the exact law; rows that were calibrated on are refused."""
        table = read(path)
        x, y = matrix(table, self.inputs, path), matrix(table, self.targets, path)
        known = self.calibrated.prediction.x
        if known is not None and x.shape[1:] == known.shape[1:]:
            same = int(shared_rows([x, y], [known, self.calibrated.y]).sum())
            if same:
                raise ValueError(f"{path}: {same} of {len(y)} rows were calibrated on; test on fresh ones.")
        return gb.evaluate(self.calibrated, x, y, level=level, groups=self.labels(table))


def _settings(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / SETTINGS).read_text())
        sound = (
            isinstance(found, dict)
            and all(isinstance(found[key], list) for key in ("inputs", "targets"))
            and all(isinstance(name, str) for key in ("inputs", "targets") for name in found[key])
            and isinstance(found["groups"], str | None)
            and isinstance(found["manifest"], str)
            and isinstance(found.get("model", ""), str)
        )
    except FileNotFoundError as error:
        raise store.ArtefactError(
            f"There is no calibration in {folder}. `guardband calibrate MODEL ... --out {folder}` makes one."
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise store.ArtefactError(
            f"{folder} does not hold what `guardband calibrate` writes: {type(error).__name__}."
        ) from error
    if not sound:
        raise store.ArtefactError(f"{folder / SETTINGS} is damaged. {store.AGAIN}")
    return found
