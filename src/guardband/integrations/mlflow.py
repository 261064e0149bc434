"""Calibrations as MLflow models, from named columns to mean, lower and upper.

The model's files are those of `gb.save`, with the names of the columns and, for a user-defined model, its
ONNX graph. MLflow stores the hash of their manifest, which contains the hashes of all other files. Nothing
is pickled.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband import store
from guardband.adapters import from_onnx
from guardband.base import extras
from guardband.base.arrays import ArrayLike, to_numpy
from guardband.base.files import read_bytes, sha256, write_text
from guardband.base.limits import MANIFEST, MODEL, parsed
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.evaluation import evaluate
from guardband.reports import report
from guardband.values import Band, output_names

if TYPE_CHECKING:
    from pandas import DataFrame

FOLDER, ABOUT, GRAPH, PROMISE = "calibration", "band.json", "model.onnx", "promise.txt"
PARTS = ("mean", "lower", "upper")
KINDS = {"float64": "double", "float32": "float"}


def log_model(
    calibrated: Calibrated,
    name: str = "band",
    *,
    level: Level = 0.95,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    onnx: str | PathLike[str] | bytes | None = None,
    fresh: tuple[ArrayLike, ArrayLike] | None = None,
    registered_model_name: str | None = None,
) -> Any:
    """Log a calibration to the active MLflow run, as a pyfunc model from a DataFrame to mean, lower, upper.

    The promise of the calibration is logged as an artifact. Networks from `pinn.mlp` or `pinn.fit` are
    logged with the calibration. For any other model, calibrate its ONNX graph,
    `gb.calibrate(gb.adapters.from_onnx(graph), x, y)`, and pass `onnx=graph`.

    Parameters
    ----------
    calibrated
        The calibration, on points of shape (n, d), passed as an array or a frame of numbers.
    name
        The name of the logged model.
    level
        The default level; a call can choose another: `model.predict(frame, params={"level": 0.9})`.
    inputs, outputs
        The names of the columns of x and y, if the calibration has none.
    onnx
        The ONNX graph of the calibrated model: a path or its bytes.
    fresh
        Fresh data (x, y). If passed, coverage and width are logged as metrics, and the report as an
        artifact.
    registered_model_name
        The name under which MLflow registers the model.

    Returns
    -------
    ModelInfo
        MLflow's description of the model; `mlflow.pyfunc.load_model(info.model_uri)` loads it.

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> from guardband.integrations.mlflow import log_model  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     info = log_model(
    ...         calibrated, inputs=["x", "t"], outputs=["u"], fresh=(x_fresh, y_fresh)
    ...     )
    """
    mlflow = extras.load("mlflow", "mlflow")
    extras.load("mlflow.pyfunc", "mlflow")
    schemas, models = extras.load("mlflow.types.schema", "mlflow"), extras.load("mlflow.models", "mlflow")
    x, y = _points(calibrated), to_numpy(calibrated.y)
    columns = _names(inputs, _known_names(calibrated, "x"), x.shape[1], "inputs", "x")
    targets = _names(outputs, _known_names(calibrated, "y"), y.shape[1], "outputs", "y")
    about = {
        "level": str(float(exact(level))),
        "inputs": columns,
        "outputs": targets,
        "dtype": str(x.dtype),
    }
    kind = KINDS.get(str(x.dtype), "double")
    signature = models.ModelSignature(
        inputs=schemas.Schema([schemas.ColSpec("double", column) for column in columns]),
        outputs=schemas.Schema([schemas.ColSpec(kind, column) for column in _result_columns(targets)]),
        params=schemas.ParamSchema([schemas.ParamSpec("level", "double", float(exact(level)))]),
    )
    needs = "onnx" if sys.modules.get("torch") is None else "onnx,pinn"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "band")
        _write(folder, calibrated, about, onnx)
        info = mlflow.pyfunc.log_model(
            name=name,
            loader_module=__name__,
            data_path=str(folder),
            signature=signature,
            input_example=_frame(x[:5], columns),
            pip_requirements=[f"guardband[{needs}]=={metadata.version('guardband')}"],
            metadata={
                "guardband_level": about["level"],
                "guardband_promise": calibrated.promise,
                "guardband_sha256": sha256(folder / FOLDER / store.MANIFEST),
            },
            registered_model_name=registered_model_name,
        )
        mlflow.log_artifact(str(folder / PROMISE))
        if fresh is not None:
            evaluation = evaluate(calibrated, *fresh, level=level)
            metrics = {
                "coverage": evaluation.coverage,
                "mean_width": evaluation.sharpness,
                "interval_score": evaluation.interval_score,
                "relative_l2": evaluation.relative_l2,
            }
            mlflow.log_metrics({name: value for name, value in metrics.items() if np.isfinite(value)})
            mlflow.set_tag("guardband.verdict", evaluation.verdict)
            mlflow.log_artifact(str(report(calibrated, *fresh, level=level, path=Path(place, "report.html"))))
    return info


def _write(
    folder: Path, calibrated: Calibrated, about: dict[str, Any], onnx: str | PathLike[str] | bytes | None
) -> None:
    """Write the files of the model, and load them once to refuse a calibration that needs more."""
    data = read_bytes(Path(onnx), at_most=MODEL, follow=True) if isinstance(onnx, str | PathLike) else onnx
    store.write(calibrated, folder / FOLDER, settings=about, model=data)
    write_text(folder / PROMISE, f"At level {about['level']}. {calibrated.promise}\n")
    try:
        _load_pyfunc(str(folder))
    except Exception as error:
        raise ValueError(
            "This calibration cannot be loaded without its model, which `gb.save` does not save. Calibrate "
            f"gb.adapters.from_onnx(graph) and pass onnx=graph. The reason: {error}"
        ) from error


def _load_pyfunc(path: str) -> LoggedBand:
    """Load the model for MLflow; the hashes of all files are checked."""
    folder = Path(path)
    _check_logged(folder)
    saved = store.Saved.read(folder / FOLDER)
    about, graph = saved.manifest.get("settings"), saved.files.get(store.MODEL)
    if about is None:
        about, graph = _of_0_2(folder)
    models = {} if graph is None else {"model": from_onnx(graph).model}
    return LoggedBand(saved.restored(Calibrated, **models), about)


def _check_logged(folder: Path) -> None:
    """Compare the hash of the manifest, which contains all other hashes, with the one in MLflow."""
    root = next((parent for parent in folder.parents[:2] if (parent / "MLmodel").is_file()), None)
    if root is None:  # files that are not logged yet
        return
    logged = extras.load("mlflow.models", "mlflow").Model.load(str(root)).metadata or {}
    manifest = read_bytes(folder / FOLDER / store.MANIFEST, at_most=MANIFEST)
    if logged.get("guardband_sha256") != hashlib.sha256(manifest).hexdigest():
        raise store.ArtifactError(f"{folder / FOLDER} is not the calibration that was logged. {store.AGAIN}")


def _of_0_2(folder: Path) -> tuple[dict[str, Any], bytes | None]:
    """Return the settings and the graph from the files written by version 0.2.0, which have no hashes."""
    warnings.warn(
        f"{folder} was logged by guardband 0.2.0, which stored no hash of {ABOUT} and {GRAPH}: changes of "
        "column names, level and model are not detected. Log the calibration again.",
        stacklevel=2,
    )
    about = parsed(read_bytes(folder / ABOUT, at_most=MANIFEST))
    graph = folder / GRAPH
    return about, read_bytes(graph, at_most=MODEL) if graph.exists() else None


class LoggedBand:
    """A loaded calibration with the interface of an MLflow model.

    Parameters
    ----------
    calibrated
        The calibration.
    about
        The default level, the names of inputs and outputs, and the dtype of x.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> about = {"level": "0.9", "inputs": ["x"], "outputs": ["u"], "dtype": "float64"}
    >>> model = gb.integrations.mlflow.LoggedBand(gb.calibrate(np.sin, x, np.sin(x)), about)
    >>> list(model.predict(pandas.DataFrame({"x": [0.2, 0.4]})).columns)
    ['mean', 'lower', 'upper']
    """

    def __init__(self, calibrated: Calibrated, about: dict[str, Any]) -> None:
        self.calibrated: Calibrated = calibrated
        self.about: dict[str, Any] = about

    def predict(self, model_input: DataFrame, params: dict[str, Any] | None = None) -> DataFrame:
        """Return mean, lower and upper for each row of a DataFrame.

        Parameters
        ----------
        model_input
            A frame with the input columns.
        params
            Optionally, another level: `{"level": 0.9}`.

        Returns
        -------
        DataFrame
            The band, with the index of the input.
        """
        level = (params or {}).get("level", self.about["level"])
        x = model_input[self.about["inputs"]].to_numpy(dtype=self.about["dtype"])
        band = self.calibrated(x, level)
        if not isinstance(band, Band):
            raise TypeError(
                f"The prediction sets of {self.calibrated.name} are not boxes, so they have no columns."
            )
        ends = [to_numpy(getattr(band, part))[:, j] for j in range(band.mean.shape[1]) for part in PARTS]
        pandas = extras.load("pandas", package="pandas")
        columns = dict(zip(_result_columns(self.about["outputs"]), ends, strict=True))
        return pandas.DataFrame(columns, index=model_input.index)


def _result_columns(outputs: Sequence[str]) -> list[str]:
    """Return the columns mean, lower, upper, with a suffix if there are several outputs."""
    single = len(outputs) == 1
    return [part if single else f"{part}_{output}" for output in outputs for part in PARTS]


def _points(calibrated: Calibrated) -> np.ndarray:
    known = calibrated.prediction
    if known is None or known.x is None or known.mean.ndim != 2 or calibrated.columns is not None:
        raise TypeError(
            "A logged band maps rows of numbers to rows of numbers. Calibrate on points x (n, d), as an "
            "array."
        )
    if calibrated.needs_groups:
        raise TypeError(
            f"{calibrated.name} needs the group of every row, which a logged model does not receive."
        )
    return to_numpy(known.x)


def _known_names(calibrated: Calibrated, which: str) -> Sequence[str] | None:
    """Return the names of the columns of x or y from the calibration or the network, or None."""
    if which in calibrated.axes and calibrated.axes[which].words is not None:
        return [str(word) for word in calibrated.axes[which].words or ()]
    names = calibrated.field_names
    return None if names is None else names.axes if which == "x" else names.outputs


def _names(
    given: Sequence[str] | None, known: Sequence[str] | None, n: int, argument: str, letter: str
) -> list[str]:
    default = known or (output_names(n) if letter == "y" else [f"x{j}" for j in range(n)])
    names = [given] if isinstance(given, str) else list(default if given is None else given)
    if len(names) != n:
        raise ValueError(f"`{argument}` should name the {n} columns of {letter}, got {len(names)}.")
    if known is not None and {*names} == {*known} and names != list(known):
        raise ValueError(
            f"`{argument}` should name the columns of {letter} in the order of calibration, "
            f"{', '.join(known)}, got {', '.join(names)}."
        )
    return names


def _frame(x: np.ndarray, columns: Sequence[str]) -> DataFrame:
    pandas = extras.load("pandas", package="pandas")
    return pandas.DataFrame(x.astype(float), columns=list(columns))
