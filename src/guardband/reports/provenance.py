"""Provenance of a report: model and data with reproducible hashes, and the call that creates the page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from guardband.base.arrays import ArrayLike, fingerprint, rows
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.reports.page import Section
from guardband.store.codec import Encoder
from guardband.values import Predictor
from guardband.values.frames import is_frame
from guardband.values.labeled import opened

HASHES = (
    "Data are identified by the first 16 digits of the SHA-256 of x followed by y. Each array contributes "
    "its dtype and shape as text, such as 'float64 (100, 1)', and then its bytes, row by row; a column has "
    "shape (n, 1). An array of words contributes the list of its rows, as Python prints it."
)
WEIGHTS = " Weights are identified in the same way, by the tensors of the state_dict in their order."
COMPONENTS = ("fitted", "model", "net", "function", "predictor", "mean", "scale", "lower", "upper")
"""Attributes in which predictors and fits hold their components; `members` holds several."""


def hashing(calibrated: Calibrated) -> str:
    """Return an explanation of the hashes of a page, so that readers can recompute them."""
    return HASHES + WEIGHTS * any(_is_module(one) for one in _nested(_predictors(calibrated)))


def model_of(calibrated: Calibrated) -> dict[str, str]:
    """Return a description of the model, with a hash of the weights of torch networks."""
    predictors = _predictors(calibrated)
    if not predictors:
        return {}
    text = _joined([_described(one) for one in predictors])
    networks = list(dict.fromkeys(one for one in _nested(predictors) if _is_module(one)))
    tensors = [part for net in networks for part in net.state_dict().values() if hasattr(part, "numel")]
    if tensors:
        count = sum(part.numel() for part in tensors)
        text += f"; {count} numbers in its state_dict, sha256 {fingerprint(tensors)[:16]}"
    return {"model": text}


def _predictors(calibrated: Calibrated) -> list[Any]:
    """Return the predictors of a calibration: one, or one for each fold."""
    chosen = getattr(calibrated, "one", calibrated)  # for `gb.choose`, the chosen calibration
    one = getattr(chosen, "predictor", getattr(chosen, "fitted", None))
    return list(getattr(chosen, "models", ())) if one is None else [one]


def _is_module(one: object) -> bool:
    """Whether an object is a torch network, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(one, torch.nn.Module)


def _components(one: object) -> list[Any]:
    """Return the visible components of a predictor or a fit."""
    if _is_module(one) or not (isinstance(one, Predictor) or hasattr(one, "net")):
        return []
    values = [getattr(one, name, None) for name in COMPONENTS] + list(getattr(one, "members", ()))
    parts = [part for part in values if callable(part) or hasattr(part, "predict")]
    return list({id(part): part for part in parts}.values())


def _nested(objects: list[Any]) -> Iterator[Any]:
    """Yield objects and all their components, outermost first."""
    for one in objects:
        yield one
        yield from _nested(_components(one))


def _described(one: object) -> str:
    parts = _joined([_described(part) for part in _components(one)])
    return f"{_name_of(one)} around {parts}" if parts else _name_of(one)


def _joined(texts: list[str]) -> str:
    """Join texts; repeated ones appear once with their number."""
    counts = {text: texts.count(text) for text in texts}
    return " and ".join(text if count == 1 else f"{count} x {text}" for text, count in counts.items())


def _name_of(one: object) -> str:
    """Return the qualified name of a function, or the class and package of an object."""
    if name := getattr(one, "__qualname__", getattr(one, "__name__", "")):
        return f"the function {getattr(one, '__module__', None) or 'builtins'}.{name}"
    kind, package = type(one).__name__, type(one).__module__.partition(".")[0]
    steps = getattr(one, "steps", None)
    if isinstance(steps, list) and steps and all(isinstance(step, tuple) for step in steps):
        kind += f" of {', '.join(type(step[-1]).__name__ for step in steps)}"
    package = "torch" if _is_module(one) else package
    return kind if package == "guardband" else f"{package} {kind}"


def fingerprints(calibrated: Calibrated, x: ArrayLike, y: ArrayLike | None) -> dict[str, str]:
    """Return shape, columns and the beginning of the hash of all data of a page."""
    prediction = calibrated.prediction
    prints = {} if prediction is None else {"calibration data": _fingerprint(prediction.x, calibrated.y)}
    prints["points of this page"] = _fingerprint(x, y)
    used = {f"{what} data": _fingerprint(data.x, data.y) for what, data in calibrated.used.items()}
    return prints | used


def _fingerprint(x: ArrayLike, y: ArrayLike | None) -> str:
    named = f", columns {', '.join(map(str, x.columns))}" if is_frame(x) else ""
    parts = [part for part in (x, y) if part is not None]
    arrays = [
        part.to_numpy() if hasattr(part, "to_numpy") else rows(opened(part, "x")[0], "x") for part in parts
    ]
    shapes = " and ".join(str(tuple(np.shape(part))) for part in parts)
    return f"{shapes}{named}, sha256 {fingerprint(arrays)[:16]}"


def reproduction(
    calibrated: Calibrated, level: Level, arguments: dict[str, object], command: str | None
) -> Section:
    """Return the section with the command or call that reproduces the page."""
    if command is not None:
        text = "On the command line, from the folder and the file with the hashes above:"
        return Section("How to reproduce it", [text, command])
    data = ["x", *(name for name in ("y",) if arguments.get(name) is not None)]
    data.append(f"level={float(exact(level))!r}")
    options = ("groups", "regions", "facts", "verdict")
    data += [f"{name}={name}" for name in options if arguments.get(name) is not None]
    if arguments.get("title") is not None:
        data.append(f"title={arguments['title']!r}")
    source, text = _source(calibrated)
    return Section(
        "How to reproduce it", [text, f'gb.report({source}, {", ".join(data)}, path="report.html")']
    )


def _source(calibrated: Calibrated) -> tuple[str, str]:
    """Return an expression for the calibration in Python, and a sentence on it."""
    encoder = Encoder()
    encoder.encode(calibrated, "calibrated")
    needed = sorted(set(encoder.passed) - encoder.optional)
    data = "the data with the hash above"
    if "calibrated" in needed:
        return "calibrated", f"From the calibration, which gb.save cannot save, and {data}:"
    if not needed:
        return 'gb.load("FOLDER")', f"From a calibration that was saved with gb.save, and {data}:"
    missing = ", ".join(f"{name}=..." for name in needed)
    return (
        f'gb.load("FOLDER", {missing})',
        f"From a calibration that was saved with gb.save, {data}, and your {' and '.join(needed)}, which "
        "gb.save does not save:",
    )
