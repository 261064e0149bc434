"""A calibration in a folder: written whole, and checked before it is believed.

A folder holds `manifest.json` and one file of arrays (safetensors). The manifest says what was calibrated,
what is promised and which versions made it, with the SHA-256 of the arrays and of itself. No code is stored
and none is run: a network or function of your own is passed again at load and checked against 16 stored
points.
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
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.files import write_bytes, write_text
from guardband.frames import PROBES
from guardband.models import call_model
from guardband.store import format1
from guardband.store.codec import Decoder, Encoder

FORMAT = 2
LARGEST_MANIFEST, LARGEST_ARRAYS = 2**26, 2**34
MANIFEST = "manifest.json"
AGAIN = "Take a fresh copy of the whole folder, or calibrate and save again."
"""What to do about a folder that is not as it was saved."""


class ArtifactError(ValueError):
    """The folder does not hold a calibration that can be believed.

    >>> import guardband as gb
    >>> try:
    ...     gb.load("nowhere")
    ... except gb.ArtifactError as error:
    ...     print(error)
    nowhere/manifest.json cannot be read: No such file or directory.
    """


def save(calibrated: Calibrated, folder: str | os.PathLike[str]) -> Path:
    """Save a calibration: `gb.load(folder)` gives the same bands, bit for bit.

    Networks made by `mlp` or `fit` are saved with it; a network or function of your own is not, and has to be
    passed again at load. Whoever reads the folder sees the old calibration or the new one, never a mixture.

    >>> import tempfile
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> folder = gb.save(calibrated, tempfile.mkdtemp())
    >>> gb.load(folder, model=np.sin)([0.5]).upper == calibrated([0.5]).upper
    array([[ True]])
    """
    if not isinstance(calibrated, Calibrated):
        raise TypeError(f"`save` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    folder = Path(folder)
    encoder = Encoder()
    tree = {
        "calibrated": encoder.encode(calibrated, "calibrated"),
        "fingerprint": encoder.encode(_fingerprint(calibrated), "fingerprint"),
    }
    if "calibrated" in encoder.yours:
        kind = type(calibrated).__name__
        raise TypeError(f"{kind} says nothing of what it keeps on disk. Mark its class: @gb.kept.")
    tree["probes"] = encoder.encode(_probes(calibrated, encoder.yours), "probes")
    data = save_arrays(encoder.arrays)
    digest = hashlib.sha256(data).hexdigest()
    arrays = f"arrays-{digest[:16]}.safetensors"
    manifest = {
        "format": FORMAT,
        "what": repr(calibrated),
        "promise": calibrated.promise,
        "calibration_points": calibrated.n,
        "training_rows": _training_rows(calibrated),
        "passed_at_load": sorted(encoder.yours),
        "optional_at_load": sorted(encoder.optional),
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

    What was your own (a network, a function of x) is passed by its name, `gb.load(folder, model=net)`, and
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
    wanted = manifest["passed_at_load"]
    optional = frozenset(manifest["optional_at_load"])
    missing = [name for name in wanted if name not in (*yours, *optional)]
    if missing:
        call = ", ".join(f"{name}=..." for name in missing)
        raise ArtifactError(f"{folder} was saved without {' and '.join(missing)}: gb.load(folder, {call}).")
    unknown = sorted(set(yours) - set(wanted))
    if unknown:
        raise ArtifactError(f"{folder} has no place for {', '.join(unknown)}; everything else was saved.")
    try:
        return _rebuilt(manifest["value"], data, yours, optional)
    except ArtifactError:
        raise
    except Exception as error:
        if type(error) is LookupError:  # a kind that is not defined here
            raise ArtifactError(f"{folder} cannot be loaded: {error}") from error
        raise ArtifactError(f"{folder} cannot be understood: {type(error).__name__}: {error}") from error


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
            raise ArtifactError(
                f"{folder} was saved in format {version} by a newer guardband; this one reads up to format "
                f"{FORMAT}. Upgrade: pip install -U guardband."
            )
        ((name, expected),) = found["files"].items()
        sound = claimed == _digest(found) and version in (1, FORMAT)
        if version == 1:
            found |= format1.upgraded(found)
        names = (*found["passed_at_load"], *found["optional_at_load"])
        sound = sound and all(isinstance(name, str) for name in names)
        sound = sound and isinstance(found["value"], dict) and isinstance(expected, dict)
        sound = sound and re.fullmatch(r"arrays-[0-9a-f]{16}\.safetensors", name) is not None
    except ArtifactError:
        raise
    except Exception as error:
        raise ArtifactError(
            f"{folder / MANIFEST} is damaged ({type(error).__name__}: {error}). {AGAIN}"
        ) from error
    if not sound:
        raise ArtifactError(
            f"{folder / MANIFEST} was changed after it was saved: its SHA-256 differs. {AGAIN}"
        )
    data = _bytes(folder / name, LARGEST_ARRAYS)
    if hashlib.sha256(data).hexdigest() != expected.get("sha256"):
        raise ArtifactError(f"{folder / name} was changed after it was saved: its SHA-256 differs. {AGAIN}")
    return found, data


def _bytes(path: Path, largest: int) -> bytes:
    try:
        if path.stat().st_size > largest:
            raise ArtifactError(f"{path} has {path.stat().st_size} bytes; at most {largest} are read.")
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error


def _rebuilt(
    tree: dict[str, Any], data: bytes, yours: dict[str, Any], optional: frozenset[str]
) -> Calibrated:
    decoder = Decoder(load_arrays(data), yours, optional)
    made = {name: decoder.decode(node) for name, node in tree.items()}
    calibrated = made["calibrated"]
    if not isinstance(calibrated, Calibrated):
        raise ArtifactError(
            f"A folder should hold a calibration, this one holds {type(calibrated).__name__}."
        )
    now = _probes(calibrated, yours)
    for name, values in made["probes"].items():
        if name in yours and not (name in now and _near(now[name], values)):
            raise ArtifactError(
                f"The `{name}` passed is not the one that was saved: it differs at stored points. Pass the "
                "one that was calibrated, weights and all, or calibrate this one."
            )
    _compare(_fingerprint(calibrated), made["fingerprint"])
    return calibrated


def _probes(calibrated: Calibrated, yours: dict[str, Any]) -> dict[str, np.ndarray]:
    """What each function of x that has to be passed again says at some calibration points."""
    x = None if calibrated.prediction is None else calibrated.prediction.x
    if x is None:
        return {}
    found = {}
    for name, function in yours.items():
        # What is no function of an array is checked by the bands it makes.
        with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
            found[name] = to_numpy(call_model(function, x[:PROBES]))
    return found


def _fingerprint(calibrated: Calibrated) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        return calibrated.fingerprint()


EXACT = 1e-12
"""By how much stored scores may differ, which come from stored arrays and nothing else."""


def _compare(now: dict[str, np.ndarray], stored: dict[str, np.ndarray]) -> None:
    """Hold what was rebuilt against what the saved one said."""
    for name in stored:
        a, b = now.get(name), stored.get(name)
        if name == "scores" and (a is None or b is None or not np.allclose(a, b, rtol=EXACT, atol=0)):
            raise ArtifactError(f"The stored scores are not those of the stored predictions. {AGAIN}")
        of_predictor = name not in ("scores", "thresholds")  # a part of the prediction
        if of_predictor and a is not None and b is not None:
            b = b[: len(a)]  # format 1 kept them at all calibration points
        if (a is None) != (b is None) or not _near(a, b):
            if of_predictor:
                raise ArtifactError(
                    f"The predictor is not the one that was saved: its {name} differs at stored points. Pass "
                    "what it was made of, weights and all, or calibrate this one."
                )
            raise ArtifactError(f"The calibration is not the one that was saved: its band differs. {AGAIN}")


def _near(a: Any, b: Any) -> bool:
    """Equal up to what another thread count or another processor changes."""
    a, b = (np.asarray(to_numpy(part), dtype=float) for part in (a, b))
    if a.shape != b.shape:
        return False
    size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return np.allclose(a, b, rtol=1e-5, atol=1e-5 * size, equal_nan=True)


def _training_rows(calibrated: Calibrated) -> dict[str, Any] | None:
    """How many rows the network was trained on, and a hash that tells whether it was these."""
    known = calibrated.used.get("training")
    if known is None:
        return None
    rows = np.hstack(
        [np.asarray(to_numpy(part), dtype=float).reshape(len(known), -1) for part in (known.x, known.y)]
    )
    return {"rows": len(known), "sha256": hashlib.sha256(rows.tobytes()).hexdigest()}


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    return {
        "guardband": metadata.version("guardband"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }
