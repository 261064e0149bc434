"""A model named on the command line, and the folder that a calibration of it lives in."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import guardband as gb
from guardband import extras, store
from guardband.adapters import from_onnx
from guardband.cli.words import SCALES
from guardband.conformal import Calibrator, Score
from guardband.conformal.base import made_of_nothing
from guardband.evaluation import reused
from guardband.files import sha256, write_bytes, write_text
from guardband.kept import classes_of
from guardband.tables import Table, TableError, number, read

T = TypeVar("T", bound=type)

MODEL, SETTINGS = "model.onnx", "settings.json"
LARGEST = 2**31
HOLES = ("model", "predictor", "function")
"""Under which names a calibration on disk wants its model back."""


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


def import_code(names: list[str] | None) -> None:
    """Run Python that a person names on the command line, such as methods of their own."""
    for name in names or ():
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        if not name.endswith(".py"):
            importlib.import_module(name)
            continue
        path = Path(name)
        if not path.is_file():
            raise ValueError(f"There is no file {name}.")
        known = sys.modules.get(path.stem)
        if known is not None:
            if _same_file(getattr(known, "__file__", None), path):
                continue
            raise ValueError(f"A module `{path.stem}` is there already; give the file {name} another name.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)


def _same_file(known: str | None, path: Path) -> bool:
    return known is not None and Path(known).exists() and path.samefile(known)


def calibrator_of(
    word: str, training_data: gb.Observations | None, x: np.ndarray, queries: np.ndarray | None
) -> Calibrator:
    """The calibrator that a word names."""
    made = _kept_class(Calibrator, word, "--calibrator")
    return made.for_files(x=x, queries=queries, training_data=training_data)


def score_of(word: str | None, noise: float | None) -> Score | None:
    """The score that a word names, or that with noise added to the scale; None for the usual one."""
    if word is None:
        return None if noise is None else gb.Total(noise=noise)
    if noise is not None:
        raise ValueError("--noise belongs to the score total; give it or --score, not both.")
    return made_of_nothing(_kept_class(Score, word, "--score"))


def _kept_class(base: T, word: str, option: str) -> T:
    """The kept class that a word names, in small letters or as it is written."""
    known = {name.lower(): cls for name, cls in classes_of(base).items()}
    if word.lower() not in known:
        raise ValueError(
            f"{option} should be {', '.join(sorted(known))}, got {word!r}. One of your own is marked "
            "with @gb.kept and imported with --import."
        )
    return known[word.lower()]


def predictor_of(model: Any, scale: str, training_data: gb.Observations | None) -> Any:
    """The predictor that a word for a scale makes of a model."""
    x_train = None if training_data is None else training_data.x
    match scale:
        case "own":
            return model
        case "constant":
            return gb.predictors.MeanOnly(model, training_data=training_data)
        case "distance" | "latent-distance" if training_data is None and not isinstance(model, gb.Fitted):
            raise ValueError(
                f"--scale {scale} measures the distance to the training rows: --training-data FILE."
            )
        case "distance":
            return gb.predictors.Distance(model, x_train, training_data=training_data)
        case "latent-distance":
            return gb.predictors.LatentDistance(model, x_train, training_data=training_data)
        case "dropout":
            return gb.predictors.Dropout(model, training_data=training_data)
        case "laplace" | "last-layer-laplace":
            if not isinstance(model, gb.Fitted):
                raise ValueError(f"--scale {scale} knows the equation: it needs the result of `gb.fit`.")
            return (gb.predictors.Laplace if scale == "laplace" else gb.predictors.LastLayerLaplace)(model)
    raise ValueError(f"--scale should be one of {', '.join(SCALES)}, got {scale!r}.")


@dataclass(frozen=True)
class Artifact:
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
    def read(cls, folder: Path, model: str | None = None) -> Artifact:
        """Load what `write` wrote; a model that was given as module:object has to be named again."""
        settings = _settings(folder)
        hashes = {name: value for name, value in store.manifest(folder)["files"].items()}
        found = {name: about["sha256"] for name, about in hashes.items()}
        found[store.MANIFEST] = sha256(folder / store.MANIFEST)
        if settings["manifest"] != found[store.MANIFEST]:
            raise store.ArtifactError(f"{folder / SETTINGS} belongs to another calibration. {store.AGAIN}")
        if "model" in settings:
            found[MODEL] = sha256(folder / MODEL)
            if found[MODEL] != settings["model"]:
                raise store.ArtifactError(
                    f"{folder / MODEL} was changed after it was saved: its SHA-256 differs. {store.AGAIN}"
                )
        wanted = [name for name in store.manifest(folder)["passed_at_load"] if name in HOLES]
        yours = {}
        if wanted:
            if model is None and "model" not in settings:
                raise ValueError(
                    "A model given as module:object is not kept in the folder; "
                    "give it again, such as --model net:model."
                )
            given = own_model(model if model is not None else str(folder / MODEL))
            yours = dict.fromkeys(wanted, given)
        calibrated = gb.load(folder, **yours)
        return cls(calibrated, settings["inputs"], settings["targets"], settings["groups"], found)

    def labels(self, table: Table) -> np.ndarray | None:
        """The groups of a table's rows, where a band asks for them."""
        if not self.calibrated.needs_groups or self.groups is None:
            return None
        return sensors(table, self.groups)

    def evaluate(self, path: Path, level: str) -> gb.Evaluation:
        """Coverage on fresh rows, held against the exact law; rows that were calibrated on are refused."""
        table = read(path)
        x, y = matrix(table, self.inputs, path), matrix(table, self.targets, path)
        for what, found in reused(self.calibrated, x, y):
            raise ValueError(
                f"{path}: {found.exact + found.near} of {len(y)} rows are {what} rows, which prove nothing; "
                "test on others."
            )
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
        raise store.ArtifactError(
            f"There is no calibration in {folder}. `guardband calibrate MODEL ... --out {folder}` makes one."
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise store.ArtifactError(
            f"{folder} does not hold what `guardband calibrate` writes: {type(error).__name__}."
        ) from error
    if not sound:
        raise store.ArtifactError(f"{folder / SETTINGS} is damaged. {store.AGAIN}")
    return found
