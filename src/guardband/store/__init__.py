"""The store: a calibration on disk, as arrays and readable JSON, checked before it is believed.

A folder holds `manifest.json` and one file of arrays (safetensors). The manifest says what was calibrated,
what is promised and which versions made it, with the SHA-256 of the arrays and of itself. No code is stored
and none is run: a network or function of your own is handed in at load and checked against 16 stored points.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_arrays
from safetensors.torch import save as save_arrays

from guardband.arrays import to_numpy
from guardband.conformal import Calibrated, Clustered, InfiniteBandWarning
from guardband.files import write_bytes, write_text
from guardband.models import evaluate
from guardband.store.codec import Decoder, Encoder
from guardband.values import Observations, Prediction

FORMAT = 1
PROBES = 16
AT = "0.5"
"""The level at which thresholds are compared at load."""

LARGEST_MANIFEST, LARGEST_ARRAYS = 2**26, 2**34
MANIFEST = "manifest.json"
AGAIN = "Take a fresh copy of the whole folder, or calibrate and save again."
"""What to do about a folder that is not as it was saved."""


class ArtefactError(ValueError):
    """The folder does not hold a calibration that can be believed.

    >>> import guardband as gb
    >>> try:
    ...     gb.load("nowhere")
    ... except gb.ArtefactError as error:
    ...     print(error)
    nowhere/manifest.json cannot be read: No such file or directory.
    """


def save(calibrated: Calibrated, folder: str | os.PathLike[str]) -> Path:
    """Save a calibration: `gb.load(folder)` gives the same bands, bit for bit.

    Networks made by `mlp` or `fit` are saved with it; a network or function of your own is not, and has to be
    handed in at load. Whoever reads the folder sees the old calibration or the new one, never a mixture.

    >>> import tempfile
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(gb.predictors.Constant(np.sin), x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> folder = gb.save(calibrated, tempfile.mkdtemp())
    >>> gb.load(folder, model=np.sin)([0.5]).upper == calibrated([0.5]).upper
    array([[ True]])
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`save` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    folder = Path(folder)
    encoder = Encoder()
    tree = {
        "predictor": encoder.encode(calibrated.predictor, "predictor"),
        "score": encoder.encode(calibrated.score, "score"),
        "calibrator": encoder.encode(calibrated.calibrator, "calibrator"),
        "prediction": encoder.encode(calibrated.prediction, "prediction"),
        "y": encoder.encode(calibrated.y, "y"),
        "groups": encoder.encode(calibrated.groups, "groups"),
        "confidence": encoder.encode(calibrated.confidence, "confidence"),
        "scores": encoder.encode(_scores(calibrated), "scores"),
        "thresholds": encoder.encode(_thresholds(calibrated), "thresholds"),
    }
    tree["probes"] = encoder.encode(_probes(calibrated, encoder.yours), "probes")
    data = save_arrays(encoder.arrays)
    digest = hashlib.sha256(data).hexdigest()
    arrays = f"arrays-{digest[:16]}.safetensors"
    manifest = {
        "format": FORMAT,
        "what": repr(calibrated),
        "promise": calibrated.promise,
        "calibration_points": len(calibrated.y),
        "training_rows": _training_rows(calibrated),
        "handed_in_at_load": sorted(encoder.yours),
        "versions": _versions(),
        "files": {arrays: {"sha256": digest, "bytes": len(data)}},
        "value": tree,
    }
    write_bytes(folder / arrays, data)
    write_text(folder / MANIFEST, json.dumps(manifest | {"sha256": _digest(manifest)}, indent=1) + "\n")
    for old in folder.glob("arrays-*.safetensors"):
        if old.name != arrays:
            old.unlink(missing_ok=True)
    return folder


def load(folder: str | os.PathLike[str], **yours: Any) -> Calibrated:
    """Load a calibration that `gb.save` wrote; every hash is checked before anything is read.

    What was your own (a network, a function of x) is handed in by its name, `gb.load(folder, model=net)`, and
    must give the values that the saved one gave at 16 calibration points.

    >>> import tempfile
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> folder = gb.save(calibrated, tempfile.mkdtemp())
    >>> gb.load(folder)
    Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)
    """
    folder = Path(folder)
    manifest, data = _read(folder)
    wanted = manifest["handed_in_at_load"]
    missing = [name for name in wanted if name not in (*yours, "problem", "refit")]
    if missing:
        call = ", ".join(f"{name}=..." for name in missing)
        raise ArtefactError(f"{folder} was saved without {' and '.join(missing)}: gb.load(folder, {call}).")
    unknown = sorted(set(yours) - set(wanted))
    if unknown:
        raise ArtefactError(f"{folder} has no place for {', '.join(unknown)}; everything else was saved.")
    try:
        return _rebuilt(manifest["value"], data, yours)
    except ArtefactError:
        raise
    except Exception as error:
        raise ArtefactError(f"{folder} cannot be understood: {type(error).__name__}: {error}") from error


def manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a folder, its hashes checked, without the stored values.

    >>> import tempfile
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> found = gb.store.manifest(gb.save(calibrated, tempfile.mkdtemp()))
    >>> found["calibration_points"], found["what"]
    (9, 'Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)')
    """
    found, _ = _read(Path(folder))
    return {name: value for name, value in found.items() if name != "value"}


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The manifest and the arrays' bytes, believed only if every hash is right."""
    text = _bytes(folder / MANIFEST, LARGEST_MANIFEST)
    try:
        found = json.loads(text)
        claimed = found.pop("sha256")
        version = found["format"]
        if isinstance(version, int) and version > FORMAT:
            raise ArtefactError(
                f"{folder} was saved in format {version} by a newer guardband; this one reads up to format "
                f"{FORMAT}. Upgrade: pip install -U guardband."
            )
        ((name, expected),) = found["files"].items()
        sound = claimed == _digest(found) and version == FORMAT
        sound = sound and all(isinstance(name, str) for name in found["handed_in_at_load"])
        sound = sound and isinstance(found["value"], dict) and isinstance(expected, dict)
        sound = sound and re.fullmatch(r"arrays-[0-9a-f]{16}\.safetensors", name) is not None
    except ArtefactError:
        raise
    except Exception as error:
        raise ArtefactError(
            f"{folder / MANIFEST} is damaged ({type(error).__name__}: {error}). {AGAIN}"
        ) from error
    if not sound:
        raise ArtefactError(
            f"{folder / MANIFEST} was changed after it was saved: its SHA-256 differs. {AGAIN}"
        )
    data = _bytes(folder / name, LARGEST_ARRAYS)
    if hashlib.sha256(data).hexdigest() != expected.get("sha256"):
        raise ArtefactError(f"{folder / name} was changed after it was saved: its SHA-256 differs. {AGAIN}")
    return found, data


def _bytes(path: Path, largest: int) -> bytes:
    try:
        if path.stat().st_size > largest:
            raise ArtefactError(f"{path} has {path.stat().st_size} bytes; at most {largest} are read.")
        return path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror}.") from error


def _rebuilt(tree: dict[str, Any], data: bytes, yours: dict[str, Any]) -> Calibrated:
    decoder = Decoder(load_arrays(data), yours)
    made = {name: decoder.decode(node) for name, node in tree.items()}
    prediction, score, calibrator = made["prediction"], made["score"], made["calibrator"]
    prediction = Prediction(prediction.x, prediction.mean, prediction.scale)  # checked as at birth
    scores = to_numpy(score(prediction, made["y"]))
    if not np.allclose(scores, made["scores"], rtol=1e-12, atol=0):
        raise ArtefactError(f"The stored scores are not those of the stored predictions. {AGAIN}")
    threshold = calibrator.threshold(scores, prediction, groups=made["groups"], confidence=made["confidence"])
    calibrated = Calibrated(
        made["predictor"],
        score,
        calibrator,
        threshold,
        prediction,
        made["y"],
        made["groups"],
        made["confidence"],
    )
    now = _probes(calibrated, yours)
    for name, values in made["probes"].items():
        if name in yours and not (name in now and _near(now[name], values)):
            raise ArtefactError(
                f"The `{name}` handed in is not the one that was saved: it differs at stored points. Hand in "
                "the one that was calibrated, weights and all, or calibrate this one."
            )
    _compare(calibrated, made["thresholds"])
    return calibrated


def _probes(calibrated: Calibrated, yours: dict[str, Any]) -> dict[str, np.ndarray]:
    """What each function of x that has to be handed in says at some calibration points."""
    x = calibrated.prediction.x
    if x is None:
        return {}
    found = {}
    for name, function in yours.items():
        with contextlib.suppress(Exception):  # what is no function of x is checked by the bands it makes
            found[name] = to_numpy(evaluate(function, x[:PROBES]))
    return found


def _compare(calibrated: Calibrated, thresholds: np.ndarray) -> None:
    """Ask what was rebuilt for what the saved one said, at some calibration points."""
    stored = _some(calibrated.prediction)
    if calibrated.predictor is not None and stored.x is not None:
        now = calibrated.predictor(stored.x)
        for name, a, b in (("mean", now.mean, stored.mean), ("scale", now.scale, stored.scale)):
            if (a is None) != (b is None) or (a is not None and not _near(a, b)):
                raise ArtefactError(
                    f"The predictor is not the one that was saved: its {name} differs at stored points. "
                    "Hand in what it was made of, weights and all, or calibrate this one."
                )
    if not _near(_thresholds(calibrated), thresholds):
        raise ArtefactError(f"The calibration is not the one that was saved: its band differs. {AGAIN}")


def _near(a: Any, b: Any) -> bool:
    """Equal up to what another thread count or another processor changes."""
    a, b = (np.asarray(to_numpy(part), dtype=float) for part in (a, b))
    if a.shape != b.shape:
        return False
    size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return np.allclose(a, b, rtol=1e-5, atol=1e-5 * size, equal_nan=True)


def _thresholds(calibrated: Calibrated) -> np.ndarray:
    """The thresholds at some calibration points."""
    groups = calibrated.groups
    given = None if groups is None or isinstance(calibrated.calibrator, Clustered) else groups[:PROBES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        return np.atleast_1d(calibrated.threshold(_some(calibrated.prediction), AT, given))


def _some(prediction: Prediction) -> Prediction:
    x, scale = prediction.x, prediction.scale
    return Prediction(
        None if x is None else x[:PROBES],
        prediction.mean[:PROBES],
        None if scale is None else scale[:PROBES],
    )


def _scores(calibrated: Calibrated) -> np.ndarray:
    return to_numpy(calibrated.score(calibrated.prediction, calibrated.y))


def _training_rows(calibrated: Calibrated) -> dict[str, Any] | None:
    """How many rows the network was trained on, and a hash that tells whether it was these."""
    train = getattr(calibrated.predictor, "train", None)
    if not isinstance(train, Observations):
        return None
    rows = np.hstack(
        [np.asarray(to_numpy(part), dtype=float).reshape(len(train), -1) for part in (train.x, train.y)]
    )
    return {"rows": len(train), "sha256": hashlib.sha256(rows.tobytes()).hexdigest()}


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "guardband": metadata.version("guardband"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }
