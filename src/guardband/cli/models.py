"""Models, calibrators and scores named on the command line, and calibrations in folders."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import guardband as gb
from guardband import store
from guardband.adapters.onnx import from_onnx, whole_graph
from guardband.base import limits
from guardband.base.extras import load
from guardband.base.files import read_bytes
from guardband.base.kept import classes_of
from guardband.base.limits import printable
from guardband.cli.choices import LAWS, SCALES
from guardband.conformal import Calibrator, NoiseLaw, Score
from guardband.conformal.base import with_defaults
from guardband.evaluation.evaluate import reused
from guardband.tables import Table, TableError, number, read
from guardband.values import Names

T = TypeVar("T", bound=type)

SETTINGS = "settings.json"
MODEL_ARGUMENTS = ("model", "predictor", "function")
"""Names under which a saved calibration accepts its model at load."""


def matrix(table: Table, columns: list[str], path: Path) -> np.ndarray:
    """Return columns as numbers, shape (n, k); errors name the file."""
    try:
        return table.matrix(columns)
    except TableError as error:
        advice = " Choose columns with --inputs; pass the column of sensor names to --groups."
        raise TableError(f"{path}: {error}{advice if 'numbers' in str(error) else ''}") from error


def sensors(table: Table, column: str) -> np.ndarray:
    """Return labels as text; 1, 1.0 and "1" are the same sensor in every file."""
    cells = [(cell, number(str(cell))) for cell in table.column(column).tolist()]
    return np.array([str(cell) if value is None else f"{value:.17g}" for cell, value in cells])


def model_of(word: str) -> Any:
    """Return the model named by `model.onnx` or `module:object`."""
    if word.endswith(".onnx"):
        return from_onnx(Path(word)).model
    module, _, name = word.partition(":")
    if not name:
        raise ValueError(f"A model should be a file ending in .onnx, or module:object, got {word!r}.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(
                f"{module} has no {part!r}. A model is named module:object, as it would be imported, got "
                f"{word}."
            )
        found = getattr(found, part)
    return found


def import_code(names: list[str] | None) -> None:
    """Import the modules and run the files given with --import, such as user-defined methods."""
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
            raise ValueError(f"A module `{path.stem}` is already imported; rename the file {name}.")
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
    """Return the calibrator with this name."""
    cls = _kept_class(Calibrator, word, "--calibrator")
    return cls.for_files(x=x, queries=queries, training_data=training_data)


def score_of(word: str | None, noise: float | None) -> Score | None:
    """Return the score with this name, the score with added noise, or None for the default."""
    if word is None:
        return None if noise is None else gb.conformal.Total(noise=noise)
    if noise is not None:
        raise ValueError("--noise implies the score total; pass it or --score, not both.")
    return with_defaults(_kept_class(Score, word, "--score"))


def law_of(text: str) -> NoiseLaw:
    """Return the noise law given by a name and a size, such as gaussian:0.05."""
    c = gb.conformal
    classes = (c.GaussianNoise, c.LaplaceNoise, c.UniformNoise, c.BoundedNoise)
    laws = dict(zip(LAWS, classes, strict=True))
    word, _, size = text.partition(":")
    value = number(size)
    if word not in laws or value is None:
        raise ValueError(
            f"--truth should be one of {', '.join(LAWS)} and the size of the noise in the targets' units, "
            f"such as gaussian:0.05, got {printable(text)!r:.80}."
        )
    return laws[word](value)


def _kept_class(base: T, word: str, option: str) -> T:
    """Return the class with this name, in lower case or as written, among those marked `@gb.kept`."""
    known = {name.lower(): cls for name, cls in classes_of(base).items()}
    if word.lower() not in known:
        raise ValueError(
            f"{option} should be {', '.join(sorted(known))}, got {word!r}. Mark your own class with "
            "@gb.kept and import it with --import."
        )
    return known[word.lower()]


def predictor_of(model: Any, scale: str, training_data: gb.Observations | None) -> gb.Predictor:
    """Return a predictor: the model with the scale of this name."""
    x_train = None if training_data is None else training_data.x
    match scale:
        case "own":
            return model
        case "constant":
            return gb.predictors.MeanOnly(model, training_data=training_data)
        case "distance" | "latent-distance" if (
            training_data is None and getattr(model, "training_data", None) is None
        ):
            raise ValueError(
                f"--scale {scale} measures the distance to the training rows. Pass --training-data FILE."
            )
        case "distance":
            return gb.predictors.Distance(model, x_train, training_data=training_data)
        case "latent-distance" | "dropout" | "laplace" | "last-layer-laplace":
            return load("guardband.pinn.cli", "pinn").predictor_of(model, scale, training_data)
    raise ValueError(f"--scale should be one of {', '.join(SCALES)}, got {scale!r}.")


@dataclass(frozen=True)
class Artifact:
    """A saved calibration with the names of its columns and, if it is an ONNX graph, its model."""

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
        """Save a calibration, its ONNX model and the names of the columns in one step."""
        settings: dict[str, object] = {"inputs": inputs, "targets": targets, "groups": groups}
        data = whole_graph(Path(model)) if model.endswith(".onnx") else None
        store.write(calibrated, folder, settings=settings, model=data, overwrite=True)

    @classmethod
    def read(cls, folder: Path, model: str | None = None) -> Artifact:
        """Load a folder written by `write`; a model given as module:object must be passed again."""
        try:
            saved = store.Saved.read(folder)
        except store.ArtifactError as error:
            if (folder / store.MANIFEST).exists():
                raise
            raise store.ArtifactError(
                f"There is no calibration in {folder}. Create one with `guardband calibrate MODEL ... "
                f"--out {folder}`."
            ) from error
        settings, saved_model = _settings(saved)
        wanted = [name for name in saved.manifest["passed_at_load"] if name in MODEL_ARGUMENTS]
        models = dict.fromkeys(wanted, _model_to_pass(model, saved_model)) if wanted else {}
        names = settings["inputs"], settings["targets"], settings["groups"]
        calibrated = saved.restored(gb.Calibrated, **models)
        prediction = calibrated.prediction
        if prediction is not None and prediction.mean.shape[1] != len(settings["targets"]):
            raise store.ArtifactError(
                f"{folder} names targets that differ from the calibrated ones. {store.AGAIN}"
            )
        calibrated = calibrated.with_names(Names(tuple(names[0]), tuple(names[1])))
        return cls(calibrated, *names, saved.hashes)

    def labels(self, table: Table) -> np.ndarray | None:
        """Return the group of each row of a table, or None if the band needs no groups."""
        if not self.calibrated.needs_groups or self.groups is None:
            return None
        return sensors(table, self.groups)

    def evaluate(self, path: Path, level: str, *, truth: bool = False) -> gb.evaluation.Evaluation:
        """Compare the coverage on fresh rows with the exact law; calibration rows are refused."""
        table = read(path)
        x, y = matrix(table, self.inputs, path), matrix(table, self.targets, path)
        for what, found in reused(self.calibrated, x, y):
            raise ValueError(
                f"{path}: {found.exact + found.near} of {len(y)} rows are {what} rows, which cannot test the "
                "band; use other rows."
            )
        about = "truth" if truth else "measurement"
        return gb.evaluate(self.calibrated, x, y, level=level, groups=self.labels(table), target=about)


def _model_to_pass(model: str | None, saved_model: bytes | None) -> Any:
    """Return the model given by name, or the saved one."""
    if model is not None:
        return model_of(model)
    if saved_model is None:
        raise ValueError(
            "A model given as module:object is not saved in the folder; pass it again, such as --model "
            "net:model."
        )
    return from_onnx(saved_model).model


def _settings(saved: store.Saved) -> tuple[dict[str, Any], bytes | None]:
    """Return the names of columns, and the ONNX model if it was saved."""
    found, model = saved.manifest.get("settings"), saved.files.get(store.MODEL)
    try:
        if found is None:
            if not (saved.folder / SETTINGS).exists():
                _refuse_without_columns(saved)
            found, model = _settings_of_0_1(saved)
        sound = (
            all(isinstance(found[key], list) for key in ("inputs", "targets"))
            and all(isinstance(name, str) for key in ("inputs", "targets") for name in found[key])
            and isinstance(found["groups"], str | None)
        )
    except store.ArtifactError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise store.ArtifactError(
            f"{saved.folder} was not written by `guardband calibrate`: {type(error).__name__}."
        ) from error
    if not sound:
        raise store.ArtifactError(f"{saved.folder} has damaged settings. {store.AGAIN}")
    return found, model


def _refuse_without_columns(saved: store.Saved) -> None:
    """Refuse a folder written by `gb.save`, which has no column names, and suggest a call in Python."""
    wanted = sorted(set(saved.manifest["passed_at_load"]) - set(saved.manifest["optional_at_load"]))
    loaded = ", ".join(["gb.load(folder", *(f"{name}=..." for name in wanted)]) + ")"
    raise store.ArtifactError(
        f"{saved.folder} was written by `gb.save`, which does not save column names. Commands need a folder "
        f"written by `guardband calibrate`. In Python, use gb.report({loaded}, x, y, path=...)."
    )


def _settings_of_0_1(saved: store.Saved) -> tuple[dict[str, Any], bytes | None]:
    """Return the same from the separate files that guardband 0.1 wrote."""
    found = limits.parsed(read_bytes(saved.folder / SETTINGS, at_most=limits.MANIFEST))
    manifest = read_bytes(saved.folder / store.MANIFEST, at_most=limits.MANIFEST)
    if found["manifest"] != hashlib.sha256(manifest).hexdigest():
        raise store.ArtifactError(f"{saved.folder / SETTINGS} belongs to another calibration. {store.AGAIN}")
    if "model" not in found:
        return found, None
    model = read_bytes(saved.folder / store.MODEL, at_most=limits.MODEL)
    if found["model"] != hashlib.sha256(model).hexdigest():
        raise store.ArtifactError(
            f"{saved.folder / store.MODEL} was changed after it was saved: its SHA-256 differs. {store.AGAIN}"
        )
    return found, model
