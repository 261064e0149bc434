"""A calibration in a folder: written whole, and checked before it is believed.

A folder holds `manifest.json` and one file of arrays (safetensors). The manifest says what was calibrated,
what is promised and which versions made it, with the SHA-256 of the arrays and of itself. No code is stored
and none is run: a network or function of your own is passed again at load and checked against 16 stored
points.
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

from guardband.base.arrays import to_numpy
from guardband.base.kept import kind_of
from guardband.base.limits import shown
from guardband.conformal import Calibrated, InfiniteBandWarning
from guardband.predictors.models import call_model
from guardband.store import format1, versions
from guardband.store.codec import Decoder, Encoder, packed, unpacked
from guardband.store.versions import AGAIN, ArtifactError
from guardband.values import Predictor
from guardband.values.frames import PROBES

T = TypeVar("T")

FORMAT = 2
ARRAYS, MODEL = "arrays.safetensors", "model.onnx"


def save(calibrated: Calibrated | Any, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Save a calibration: `gb.load(folder)` gives the same bands, bit for bit.

    A `Fitted`, or another thing whose class is marked by `kept`, is saved too: `gb.load(folder,
    pinn.Fitted)`.

    Networks made by `mlp` or `fit` are saved with it; a network or function of your own is not, and has to be
    passed again at load. A folder that holds a calibration is written to only with `overwrite`; whoever reads
    it meanwhile sees the old calibration or the new one, never a mixture. Your own files in it stay.

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
    calibrated: Calibrated,
    folder: str | os.PathLike[str],
    *,
    settings: dict[str, Any] | None = None,
    model: bytes | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a calibration with what the command line knows of it: names of columns, and an ONNX model."""
    if not isinstance(calibrated, Calibrated):
        raise TypeError(
            f"`save` takes what `gb.calibrate` or `pinn.fit` returned, got {type(calibrated).__name__}."
        )
    encoder = Encoder()
    tree = {
        "calibrated": encoder.encode(calibrated, "calibrated"),
        "fingerprint": encoder.encode(_fingerprint(calibrated), "fingerprint"),
    }
    if "calibrated" in encoder.yours:
        kind = type(calibrated).__name__
        raise TypeError(f"{kind} says nothing of what it keeps on disk. Mark its class: @gb.kept.")
    tree["probes"] = encoder.encode(_probes(calibrated, encoder.yours), "probes")
    manifest = {
        "format": FORMAT,
        "what": repr(calibrated),
        "promise": calibrated.promise,
        "calibration_points": calibrated.n,
        "training_rows": _training_rows(calibrated),
        "passed_at_load": sorted(encoder.yours),
        "optional_at_load": sorted(encoder.optional),
        "versions": _versions(),
        **({} if settings is None else {"settings": settings}),
        "value": tree,
    }
    files = {ARRAYS: packed(encoder.arrays)} | ({} if model is None else {MODEL: model})
    versions.write(Path(folder), manifest, files, overwrite=overwrite)
    return Path(folder)


def _write_other(value: Any, folder: Path, overwrite: bool) -> Path:
    """Save something that is kept and is no calibration."""
    encoder = Encoder()
    tree = {"kept": encoder.encode(value, "kept")}
    needed = sorted(set(encoder.yours) - encoder.optional)
    if needed:
        raise TypeError(
            f"A {type(value).__name__} is saved whole, and its {' and '.join(needed)} cannot be: a network "
            "or function of your own says nothing of what it keeps on disk. Mark its class: @gb.kept."
        )
    manifest = {
        "format": FORMAT,
        "what": repr(value),
        "passed_at_load": sorted(encoder.yours),
        "optional_at_load": sorted(encoder.optional),
        "versions": _versions(),
        "value": tree,
    }
    versions.write(folder, manifest, {ARRAYS: packed(encoder.arrays)}, overwrite=overwrite)
    return folder


@overload
def load(folder: str | os.PathLike[str], /, **yours: Any) -> Calibrated: ...
@overload
def load(folder: str | os.PathLike[str], kind: type[T], /, **yours: Any) -> T: ...
def load(folder: str | os.PathLike[str], kind: type[Any] = Calibrated, /, **yours: Any) -> Any:
    """Load a calibration that `gb.save` wrote; every hash is checked before anything is read.

    Something else that was saved is asked for by its `kind`: `gb.load(folder, pinn.Fitted)`.

    What was your own (a network, a function of x) is passed by its name, `gb.load(folder, model=net)`, and
    must give the values that the saved one gave at 16 calibration points. What went through an adapter goes
    through it again, `model=from_neuralop(net)`; the models of folds are passed together, `models=[...]`.

    >>> import tempfile
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> folder = gb.save(calibrated, tempfile.mkdtemp())
    >>> gb.load(folder)
    Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)
    """
    return Saved.read(folder).made(kind, **yours)


def manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a folder, its hashes checked, without the stored values.

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
    """A folder as it was read, all of one version: what its manifest says, and the bytes of its files."""

    folder: Path
    manifest: dict[str, Any]
    files: dict[str, bytes]

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Saved:
        """Read and check every hash; nothing is made of it yet."""
        folder = Path(folder)
        found, files = versions.read(folder)
        version = found.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise ArtifactError(
                f"{folder} was saved in format {version} by a newer guardband; this one reads up to format "
                f"{FORMAT}. Upgrade: pip install -U guardband."
            )
        try:
            if version == 1:
                found |= format1.upgraded(found)
            names = (*found["passed_at_load"], *found["optional_at_load"])
            sound = version in (1, FORMAT) and all(isinstance(name, str) for name in names)
            sound = sound and isinstance(found["value"], dict) and ARRAYS in files
        except Exception as error:
            raise _damaged(folder, error) from error
        if not sound:
            raise ArtifactError(f"{folder} does not hold what `gb.save` writes. {AGAIN}")
        return cls(folder, found, files)

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of the manifest and of each file."""
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        return {versions.MANIFEST: self.manifest["sha256"], **hashes}

    def made(self, kind: type[T], **yours: Any) -> T:
        """What was saved, made with what was passed again."""
        wanted, optional = self.manifest["passed_at_load"], frozenset(self.manifest["optional_at_load"])
        if "models" not in wanted:  # several of them, in their order
            several = enumerate(yours.pop("models", ()))
            yours |= {f"model_{k}" if k else "model": model for k, model in several}
        for name, one in yours.items():
            if name.startswith("model") and isinstance(one, Predictor):  # in its adapter
                yours[name] = getattr(one, "model", one)
        missing = [name for name in wanted if name not in (*yours, *optional)]
        if missing:
            call, names = ", ".join(f"{name}=..." for name in missing), " and ".join(missing)
            if len(missing) > 1 and all(name.startswith("model") for name in missing):
                call, names = "models=[...]", f"its {len(missing)} models"
            raise ArtifactError(f"{self.folder} was saved without {names}: gb.load(folder, {call}).")
        unknown = sorted(set(yours) - set(wanted))
        if unknown:
            names = ", ".join(unknown)
            raise ArtifactError(f"{self.folder} has no place for {names}; everything else was saved.")
        try:
            return _rebuilt(self.manifest["value"], self.files[ARRAYS], yours, optional, kind)
        except ArtifactError:
            raise
        except Exception as error:
            if type(error) in (
                LookupError,
                ImportError,
            ):  # an unknown kind, or an extra is missing
                raise ArtifactError(f"{self.folder} cannot be loaded: {error}") from error
            raise _damaged(self.folder, error) from error


def _damaged(folder: Path, error: Exception) -> ArtifactError:
    why = f"{type(error).__name__}: {shown(str(error))}"
    return ArtifactError(f"{folder} cannot be understood: {why}")


def _rebuilt(
    tree: dict[str, Any], data: bytes, yours: dict[str, Any], optional: frozenset[str], kind: type[T]
) -> T:
    decoder = Decoder(unpacked(data), yours, optional)
    made = {name: decoder.decode(node) for name, node in tree.items()}
    found = made["kept"] if "kept" in made else made["calibrated"]
    if not isinstance(found, kind):
        wanted = "a calibration" if kind is Calibrated else f"a {kind.__name__}"
        raise ArtifactError(
            f"The folder should hold {wanted}, and it holds a {type(found).__name__}: "
            f"pass that class, gb.load(folder, {type(found).__name__})."
        )
    if isinstance(found, Calibrated):
        _check(found, made, yours, decoder.without_torch)
    return found


def _check(calibrated: Calibrated, made: dict[str, Any], yours: dict[str, Any], without_torch: bool) -> None:
    """Hold a calibration against what the saved one said."""
    now = _probes(calibrated, yours)
    for name, values in made["probes"].items():
        if name in yours and not (name in now and _near(now[name], values)):
            raise ArtifactError(
                f"The `{name}` passed is not the one that was saved: it differs at stored points. Pass the "
                "one that was calibrated, weights and all and through its adapter if it had one, or "
                "calibrate this one."
            )
    now, stored = _fingerprint(calibrated), made["fingerprint"]
    if without_torch and not all(
        np.array_equal(now[name], stored[name]) for name in ("scores", "thresholds") if name in stored
    ):
        raise ImportError(
            "It was calibrated on tensors, and some of their scores differ in numpy by rounding. To get the "
            'same band, install torch: pip install "guardband[pinn]"'
        )
    _compare(now, stored)


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


def _versions() -> dict[str, str]:
    torch = sys.modules.get("torch")
    return {
        "guardband": metadata.version("guardband"),
        "python": platform.python_version(),
        **({} if torch is None else {"torch": str(torch.__version__)}),
        "numpy": np.__version__,
    }
