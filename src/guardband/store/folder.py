"""A calibration in a folder: written atomically, and verified before use.

A folder holds `manifest.json` and one file of arrays (safetensors). The manifest describes the calibration,
its guarantee and the software versions, with the SHA-256 of the arrays and of itself. No code is stored or
executed: a user's network or function is passed again at load and compared with its values at 16 points.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from guardband.base.arrays import Array, to_numpy
from guardband.base.kept import kind_of
from guardband.base.limits import shown
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.predictors.models import call_model
from guardband.store import format1, versions
from guardband.store.codec import Decoder, Encoder, Json, packed, unpacked
from guardband.store.versions import AGAIN, ArtifactError, Manifest
from guardband.values import Predictor
from guardband.values.frames import PROBES

T = TypeVar("T")

FORMAT = 2
ARRAYS, MODEL = "arrays.safetensors", "model.onnx"


def save(calibrated: object, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Save a calibration, so that `gb.load(folder)` reproduces its bands bit for bit.

    Parameters
    ----------
    calibrated
        Calibration, or another object whose class is decorated with `kept`, such as a `pinn.Fitted`.
    folder
        Folder to write. Other files in it are left unchanged.
    overwrite
        Replace a calibration in the folder. Concurrent readers see either the old or the new one.

    Returns
    -------
    Path
        The folder.

    Notes
    -----
    Networks from `pinn.mlp` and `pinn.fit` are saved too. Other networks and functions are not, and must be
    passed again at load.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> folder = gb.save(calibrated, tempfile.mkdtemp())
    >>> gb.load(folder, model=np.sin)([0.5]).upper == calibrated([0.5]).upper
    array([[ True]])
    """
    if kind_of(calibrated) is not None and not isinstance(calibrated, Calibrated):
        return _write_other(calibrated, Path(folder), overwrite)
    return write(calibrated, folder, overwrite=overwrite)


def write(
    calibrated: object,
    folder: str | os.PathLike[str],
    *,
    settings: dict[str, Any] | None = None,
    model: bytes | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a calibration with settings of the command line, such as column names, and an ONNX model."""
    if not isinstance(calibrated, Calibrated):
        raise TypeError(
            f"`save` expects the result of `gb.calibrate` or `pinn.fit`, got {type(calibrated).__name__}."
        )
    encoder = Encoder()
    tree = {
        "calibrated": encoder.encode(calibrated, "calibrated"),
        "fingerprint": encoder.encode(_fingerprint(calibrated), "fingerprint"),
    }
    if "calibrated" in encoder.passed:
        kind = type(calibrated).__name__
        raise TypeError(f"{kind} does not define how it is saved. Decorate its class: @gb.kept.")
    tree["probes"] = encoder.encode(_probes(calibrated, encoder.passed), "probes")
    manifest = {
        "format": FORMAT,
        "what": repr(calibrated),
        "promise": calibrated.promise,
        "calibration_points": calibrated.n,
        "training_rows": _training_rows(calibrated),
        "passed_at_load": sorted(encoder.passed),
        "optional_at_load": sorted(encoder.optional),
        "versions": _versions(),
        **({} if settings is None else {"settings": settings}),
        "value": tree,
    }
    files = {ARRAYS: packed(encoder.arrays)} | ({} if model is None else {MODEL: model})
    versions.write(Path(folder), manifest, files, overwrite=overwrite)
    return Path(folder)


def _write_other(value: object, folder: Path, overwrite: bool) -> Path:
    """Save an object of a registered kind that is not a calibration."""
    encoder = Encoder()
    tree = {"kept": encoder.encode(value, "kept")}
    required = sorted(set(encoder.passed) - encoder.optional)
    if required:
        raise TypeError(
            f"A {type(value).__name__} is saved whole, but its {' and '.join(required)} cannot: your own "
            "network or function does not define how it is saved. Decorate its class: @gb.kept."
        )
    manifest = {
        "format": FORMAT,
        "what": repr(value),
        "passed_at_load": sorted(encoder.passed),
        "optional_at_load": sorted(encoder.optional),
        "versions": _versions(),
        "value": tree,
    }
    versions.write(folder, manifest, {ARRAYS: packed(encoder.arrays)}, overwrite=overwrite)
    return folder


@overload
def load(folder: str | os.PathLike[str], /, **passed: object) -> Calibrated: ...
@overload
def load(folder: str | os.PathLike[str], kind: type[T], /, **passed: object) -> T: ...
def load(folder: str | os.PathLike[str], kind: type = Calibrated, /, **passed: object) -> object:
    """Load a calibration that `gb.save` wrote; every hash is checked before anything is read.

    Parameters
    ----------
    folder
        Folder to read.
    kind
        Class of the saved object, if it is not a calibration: `gb.load(folder, pinn.Fitted)`.
    **passed
        Networks and functions that were not saved, by name: `gb.load(folder, model=net)`. Each must
        reproduce the values of the original at 16 calibration points. Pass a model through its
        adapter again, `model=from_neuralop(net)`, and the models of folds as a list, `models=[...]`.

    Returns
    -------
    Calibrated
        The calibration, or the object of the given kind.

    Raises
    ------
    ArtifactError
        If the folder is damaged or was changed, or if a passed object differs from the original.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> folder = gb.save(calibrated, tempfile.mkdtemp())
    >>> gb.load(folder)
    Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)
    """
    return Saved.read(folder).restored(kind, **passed)


def manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a folder without the stored values; every hash is checked.

    Parameters
    ----------
    folder
        Folder that `gb.save` wrote.

    Returns
    -------
    dict
        Entries of the manifest by name.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> found = gb.store.manifest(gb.save(calibrated, tempfile.mkdtemp()))
    >>> found["calibration_points"], found["what"]
    (9, 'Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)')
    """
    found = Saved.read(folder).manifest
    return {name: value for name, value in found.items() if name != "value"}


@dataclass(frozen=True)
class Saved:
    """One version of a folder: its manifest and the bytes of its files."""

    folder: Path
    manifest: Manifest
    files: dict[str, bytes]

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Saved:
        """Read a folder and check every hash, without restoring any object."""
        folder = Path(folder)
        found, files = versions.read(folder)
        version = found.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise ArtifactError(
                f"{folder} was saved in format {version} by a newer guardband; this version reads up to "
                f"format {FORMAT}. Upgrade: pip install -U guardband."
            )
        try:
            if version == 1:
                found |= format1.upgraded(found)
            names = (*found["passed_at_load"], *found["optional_at_load"])
            valid = version in (1, FORMAT) and all(isinstance(name, str) for name in names)
            valid = valid and isinstance(found["value"], dict) and ARRAYS in files
        except Exception as error:
            raise _damaged(folder, error) from error
        if not valid:
            raise ArtifactError(f"{folder} does not contain the files that `gb.save` writes. {AGAIN}")
        return cls(folder, found, files)

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of the manifest and of each file."""
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        return {versions.MANIFEST: self.manifest["sha256"], **hashes}

    def restored(self, kind: type[T], **passed: Any) -> T:
        """The saved object, with the objects that are passed again."""
        wanted, optional = self.manifest["passed_at_load"], frozenset(self.manifest["optional_at_load"])
        if "models" not in wanted:
            several = enumerate(passed.pop("models", ()))
            passed |= {f"model_{k}" if k else "model": model for k, model in several}
        for name, value in passed.items():
            if name.startswith("model") and isinstance(value, Predictor):  # an adapter
                passed[name] = getattr(value, "model", value)
        missing = [name for name in wanted if name not in (*passed, *optional)]
        if missing:
            call, names = ", ".join(f"{name}=..." for name in missing), " and ".join(missing)
            if len(missing) > 1 and all(name.startswith("model") for name in missing):
                call, names = "models=[...]", f"its {len(missing)} models"
            raise ArtifactError(
                f"{self.folder} was saved without {names}. Load it with gb.load(folder, {call})."
            )
        unknown = sorted(set(passed) - set(wanted))
        if unknown:
            names = ", ".join(unknown)
            raise ArtifactError(f"{self.folder} does not need {names}, which should not be passed.")
        try:
            return _decoded(self.manifest["value"], self.files[ARRAYS], passed, optional, kind)
        except ArtifactError:
            raise
        except Exception as error:
            if type(error) in (LookupError, ImportError):  # an unknown kind, or a missing extra
                raise ArtifactError(f"{self.folder} cannot be loaded: {error}") from error
            raise _damaged(self.folder, error) from error


def _damaged(folder: Path, error: Exception) -> ArtifactError:
    why = f"{type(error).__name__}: {shown(str(error))}"
    return ArtifactError(f"{folder} cannot be interpreted: {why}")


def _decoded(
    tree: dict[str, Json],
    data: bytes,
    passed: dict[str, object],
    optional: frozenset[str],
    kind: type[T],
) -> T:
    """The saved object, of the right kind and compared with its stored values."""
    decoder = Decoder(unpacked(data), passed, optional)
    values = {name: decoder.decode(node) for name, node in tree.items()}
    found = values["kept"] if "kept" in values else values["calibrated"]
    if not isinstance(found, kind):
        wanted = "a calibration" if kind is Calibrated else f"a {kind.__name__}"
        raise ArtifactError(
            f"The folder should hold {wanted}, but it holds a {type(found).__name__}. "
            f"Pass that class: gb.load(folder, {type(found).__name__})."
        )
    if isinstance(found, Calibrated):
        _check(found, values["probes"], values["fingerprint"], passed, decoder.without_torch)
    return found


def _check(
    calibrated: Calibrated,
    probes: dict[str, Array],
    stored: dict[str, np.ndarray],
    passed: dict[str, object],
    without_torch: bool,
) -> None:
    """Raise an error if a loaded calibration differs from the stored values of the original."""
    current = _probes(calibrated, passed)
    for name, values in probes.items():
        if name in passed and not (name in current and _near(current[name], values)):
            raise ArtifactError(
                f"The `{name}` passed is not the one that was saved: it differs at stored points. Pass the "
                "one that was calibrated, with the same weights and adapter, or calibrate this one."
            )
    current = _fingerprint(calibrated)
    if without_torch and not all(
        np.array_equal(current[name], stored[name]) for name in ("scores", "thresholds") if name in stored
    ):
        raise ImportError(
            "It was calibrated on tensors, and some of their scores differ in numpy by rounding. To get the "
            'same band, install torch: pip install "guardband[pinn]"'
        )
    _compare(current, stored)


def _probes(calibrated: Calibrated, passed: dict[str, object]) -> dict[str, np.ndarray]:
    """The values of each passed function of x at some calibration points."""
    x = None if calibrated.prediction is None else calibrated.prediction.x
    if x is None:
        return {}
    found = {}
    for name, function in passed.items():
        # Objects that are not functions of an array are checked by their bands.
        with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
            found[name] = to_numpy(call_model(function, x[:PROBES]))
    return found


def _fingerprint(calibrated: Calibrated) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        return calibrated.fingerprint()


EXACT = 1e-12
"""Relative tolerance of scores, which are computed from stored arrays only."""


def _compare(current: dict[str, np.ndarray], stored: dict[str, np.ndarray]) -> None:
    """Raise an `ArtifactError` if a fingerprint differs from the stored one."""
    for name in stored:
        a, b = current.get(name), stored.get(name)
        if name == "scores" and (a is None or b is None or not np.allclose(a, b, rtol=EXACT, atol=0)):
            raise ArtifactError(f"The stored scores do not match the stored predictions. {AGAIN}")
        of_predictor = name not in ("scores", "thresholds")  # a part of the prediction
        if of_predictor and a is not None and b is not None:
            b = b[: len(a)]  # format 1 stored them at all calibration points
        if (a is None) != (b is None) or not _near(a, b):
            if of_predictor:
                raise ArtifactError(
                    f"The predictor is not the one that was saved: its {name} differs at stored points. Pass "
                    "its original components with the same weights, or calibrate this one."
                )
            raise ArtifactError(f"The calibration is not the one that was saved: its band differs. {AGAIN}")


def _near(a: Array | None, b: Array | None) -> bool:
    """Whether arrays are equal up to differences between processors and numbers of threads."""
    a, b = (np.asarray(to_numpy(part), dtype=float) for part in (a, b))
    if a.shape != b.shape:
        return False
    size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return np.allclose(a, b, rtol=1e-5, atol=1e-5 * size, equal_nan=True)


def _training_rows(calibrated: Calibrated) -> dict[str, Any] | None:
    """The number of training rows and their hash, if the training data are known."""
    known = calibrated.used.get("training")
    if known is None:
        return None
    rows = np.hstack(
        [np.asarray(to_numpy(part), dtype=float).reshape(len(known), -1) for part in (known.x, known.y)]
    )
    return {"rows": len(known), "sha256": hashlib.sha256(rows.tobytes()).hexdigest()}


def _versions() -> dict[str, str]:
    torch = sys.modules.get("torch")
    return {
        "guardband": metadata.version("guardband"),
        "python": platform.python_version(),
        **({} if torch is None else {"torch": str(torch.__version__)}),
        "numpy": np.__version__,
    }
