"""Logged models are loaded in another process, without pickle, and return the same bits."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import guardband as gb
from guardband.integrations import mlflow as integration
from helpers import ROOT, Later, needs
from wings import pinn, torch

mlflow = Later("mlflow")
pytestmark = [
    needs("mlflow"),
    pytest.mark.filterwarnings("ignore"),
]  # warnings of MLflow, at import and in calls

ASK = """
import json, sys
import numpy as np, pandas, mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
asked = json.loads(sys.argv[3])
frame = pandas.read_parquet(asked["frame"])
np.save(asked["out"], model.predict(frame).to_numpy())
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Use a new file store."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    before = mlflow.get_tracking_uri()
    uri = (tmp_path / "runs").as_uri()
    mlflow.set_tracking_uri(uri)
    yield uri
    mlflow.set_tracking_uri(before)


def elsewhere(uri: str, info: Any, frame: Any, tmp_path: Path) -> np.ndarray:
    """Return the output of a new Python process."""
    frame.to_parquet(tmp_path / "frame.parquet")
    asked = {"frame": str(tmp_path / "frame.parquet"), "out": str(tmp_path / "out.npy")}
    place = {"PYTHONPATH": str(Path(gb.__file__ or "").parents[1])}
    words = [sys.executable, "-c", ASK, uri, info.model_uri, json.dumps(asked)]
    subprocess.run(words, check=True, env=os.environ | place, capture_output=True)
    return np.load(tmp_path / "out.npy")


def columns(band: gb.Band) -> np.ndarray:
    parts = [
        getattr(band, part)[:, j] for j in range(band.mean.shape[1]) for part in ("mean", "lower", "upper")
    ]
    return np.stack(parts, axis=1)


@pytest.mark.slow
def test_a_network_is_logged_and_answers_elsewhere_with_the_same_bits(store: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(90, 2)).astype("float32"), rng.normal(size=(90, 2)).astype("float32")
    calibrated = gb.calibrate(pinn.mlp(2, [8], outputs=2), x[:40], y[:40])
    with mlflow.start_run() as run:
        info = gb.integrations.mlflow.log_model(
            calibrated, level=0.9, inputs=["x", "t"], outputs=["u", "p"], fresh=(x[40:], y[40:])
        )
    frame = pandas.DataFrame(x[40:], columns=["x", "t"])[["t", "x"]].astype(float)  # in another order
    assert np.array_equal(elsewhere(store, info, frame, tmp_path), columns(calibrated(x[40:], 0.9)))
    assert info.signature.inputs.input_names() == ["x", "t"]
    assert info.signature.outputs.input_names()[:3] == ["mean_u", "lower_u", "upper_u"]
    model = mlflow.pyfunc.load_model(info.model_uri)
    half = model.predict(frame, params={"level": 0.5})
    assert np.array_equal(half.to_numpy(), columns(calibrated(x[40:], 0.5)))
    assert model.metadata.metadata["guardband_promise"] == calibrated.promise
    assert list(model.input_example.columns) == ["x", "t"]
    found = gb.evaluate(calibrated, x[40:], y[40:], level=0.9)
    kept = mlflow.get_run(run.info.run_id).data
    assert kept.metrics["coverage"] == found.coverage and kept.tags["guardband.verdict"] == found.verdict
    names = {item.path for item in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
    assert {"report.html", "promise.txt"} <= names


def test_nothing_is_pickled(store: str, tmp_path: Path) -> None:
    calibrated = gb.calibrate(pinn.mlp(1, [4]), np.linspace(0, 1, 30), np.linspace(0, 1, 30))
    with mlflow.start_run():
        gb.integrations.mlflow.log_model(calibrated)
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert {path.suffix for path in files if "artifacts" in path.parts} <= {
        "",
        ".json",
        ".safetensors",
        ".txt",
        ".yaml",
    }
    assert not any(path.read_bytes()[:1] == b"\x80" for path in files), "the first byte of a pickle"


@pytest.mark.slow
def test_a_model_of_your_own_is_logged_as_its_graph(store: str, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    x = np.random.default_rng(0).uniform(size=(60, 1))
    exported = tmp_path / "net.onnx"
    torch.onnx.export(
        net,
        (torch.tensor(x),),
        exported,
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("n")},),
        verbose=False,
        external_data=False,
    )
    calibrated = gb.calibrate(gb.adapters.from_onnx(exported), x[:40], np.sin(x[:40]))
    with mlflow.start_run():
        info = gb.integrations.mlflow.log_model(calibrated, inputs="x", onnx=exported)
    found = elsewhere(store, info, pandas.DataFrame({"x": x[40:, 0]}), tmp_path)
    assert np.array_equal(found, columns(calibrated(x[40:])))
    with mlflow.start_run(), pytest.raises(ValueError, match="cannot be loaded without its model"):
        gb.integrations.mlflow.log_model(calibrated, inputs="x")


def test_what_has_no_columns_is_refused(store: str) -> None:
    log_model = gb.integrations.mlflow.log_model
    with pytest.raises(TypeError, match="Calibrate on points x"):
        log_model(gb.calibrate_arrays([0.0] * 9, [1.0] * 9))
    x = np.linspace(0, 1, 40)
    grouped = gb.calibrate(pinn.mlp(1, [4]), x, x, calibrator=gb.Grouped(), groups=np.arange(40) % 2)
    with pytest.raises(TypeError, match="needs the group of every row"):
        log_model(grouped)
    with pytest.raises(ValueError, match="`inputs` should name the 1 columns of x, got 2"):
        log_model(gb.calibrate(pinn.mlp(1, [4]), x, x), inputs=["a", "b"])


OLD = ROOT / "tests/data/saved_by_0.2.0/mlflow"


def logged(folder: Path) -> Path:
    """Return the files of a model as MLflow stores them, without a run."""
    x = np.linspace(0, 1, 30)
    calibrated = gb.calibrate(pinn.mlp(2, [4]), np.stack([x, x**2], 1), x)
    about = {"level": "0.9", "inputs": ["x", "t"], "outputs": ["u"], "dtype": "float64"}
    data = folder / "data/band"
    integration._write(data, calibrated, about, None)
    manifest = (data / "calibration/manifest.json").read_bytes()
    (folder / "MLmodel").write_text(
        "flavors: {}\nmetadata:\n  guardband_sha256: " + hashlib.sha256(manifest).hexdigest() + "\n"
    )
    return data


def test_names_of_columns_that_were_swapped_are_noticed(tmp_path: Path) -> None:
    data = logged(tmp_path)
    assert integration._load_pyfunc(str(data)).about["inputs"] == ["x", "t"]
    manifest = data / "calibration/manifest.json"
    changed = json.loads(manifest.read_text())
    changed["settings"]["inputs"] = ["t", "x"]
    manifest.write_text(json.dumps(changed))
    with pytest.raises(gb.store.ArtifactError, match="is not the calibration that was logged"):
        integration._load_pyfunc(str(data))
    (tmp_path / "MLmodel").unlink()
    with pytest.raises(gb.store.ArtifactError, match="its SHA-256 differs"):
        integration._load_pyfunc(str(data))


def test_another_calibration_in_the_place_of_the_logged_one_is_noticed(tmp_path: Path) -> None:
    data = logged(tmp_path)
    x = np.linspace(0, 1, 50)
    gb.save(gb.calibrate(pinn.mlp(2, [4]), np.stack([x, x**2], 1), x), data / "calibration", overwrite=True)
    with pytest.raises(gb.store.ArtifactError, match="is not the calibration that was logged"):
        integration._load_pyfunc(str(data))


def test_a_model_of_0_2_0_is_loaded_with_a_warning(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OLD, tmp_path / "old"))
    with pytest.warns(UserWarning, match=r"0\.2\.0, which stored no hash of band\.json"):
        assert integration._load_pyfunc(str(folder / "data/band")).about["inputs"] == ["x", "t"]
    about = folder / "MLmodel"
    about.write_text(about.read_text().replace("guardband_sha256: 57e0", "guardband_sha256: 0000"))
    with pytest.raises(gb.store.ArtifactError, match="is not the calibration that was logged"):
        integration._load_pyfunc(str(folder / "data/band"))
