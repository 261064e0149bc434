"""Provenance: whose data and which model, by hashes that anybody can make again, and how to make the page."""

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

HOW = (
    "Data are told by the first 16 digits of the SHA-256 of x and then y. Of each array enter its dtype and "
    "shape as text, such as 'float64 (100, 1)', and then its bytes, row by row; a column is (n, 1). An "
    "array that holds words enters as the list of its rows, as Python prints it."
)
WEIGHTS = " Weights are told in the same way, by the tensors of the state_dict in their order."
INSIDE = ("fitted", "model", "net", "function", "predictor", "mean", "scale", "lower", "upper")
"""Under which names predictors and fits hold what they are made of; `members` are several."""


def how(calibrated: Calibrated) -> str:
    """How the hashes of a page are made, for whoever wants to make them again."""
    return HOW + WEIGHTS * any(_is_module(one) for one in _inside(_top(calibrated)))


def model_of(calibrated: Calibrated) -> dict[str, str]:
    """Which model it is: what holds what, and a hash of all weights where they are torch's."""
    tops = _top(calibrated)
    if not tops:
        return {}
    said = _listed([_described(one) for one in tops])
    weights = list(dict.fromkeys(one for one in _inside(tops) if _is_module(one)))
    tensors = [part for net in weights for part in net.state_dict().values() if hasattr(part, "numel")]
    if tensors:
        count = sum(part.numel() for part in tensors)
        said += f"; {count} numbers in its state_dict, sha256 {fingerprint(tensors)[:16]}"
    return {"model": said}


def _top(calibrated: Calibrated) -> list[Any]:
    """The predictors that a calibration asks: one, or one for each fold."""
    asked: Any = getattr(calibrated, "one", calibrated)  # of several, the one that was chosen
    one = getattr(asked, "predictor", getattr(asked, "fitted", None))
    return list(getattr(asked, "models", ())) if one is None else [one]


def _is_module(one: Any) -> bool:
    """Whether it is a network of torch; if torch was never imported, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(one, torch.nn.Module)


def _parts(one: Any) -> list[Any]:
    """What a predictor or a fit is made of, as far as can be seen."""
    if _is_module(one) or not (isinstance(one, Predictor) or hasattr(one, "net")):
        return []
    found = [getattr(one, name, None) for name in INSIDE] + list(getattr(one, "members", ()))
    parts = [part for part in found if callable(part) or hasattr(part, "predict")]
    return list({id(part): part for part in parts}.values())


def _inside(held: list[Any]) -> Iterator[Any]:
    """All that something is made of, outermost first."""
    for one in held:
        yield one
        yield from _inside(_parts(one))


def _described(one: Any) -> str:
    parts = _listed([_described(part) for part in _parts(one)])
    return f"{_named(one)} around {parts}" if parts else _named(one)


def _listed(said: list[str]) -> str:
    """Each once, and how often it is there."""
    often = {text: said.count(text) for text in said}
    return " and ".join(text if many == 1 else f"{many} x {text}" for text, many in often.items())


def _named(one: Any) -> str:
    """A function by its name and module; a class with its package, and a pipeline by its steps."""
    if name := getattr(one, "__qualname__", getattr(one, "__name__", "")):
        return f"the function {getattr(one, '__module__', None) or 'builtins'}.{name}"
    kind, package = type(one).__name__, type(one).__module__.partition(".")[0]
    steps = getattr(one, "steps", None)
    if isinstance(steps, list) and steps and all(isinstance(step, tuple) for step in steps):
        kind += f" of {', '.join(type(step[-1]).__name__ for step in steps)}"
    package = "torch" if _is_module(one) else package
    return kind if package == "guardband" else f"{package} {kind}"


def fingerprints(calibrated: Calibrated, x: ArrayLike, y: ArrayLike | None) -> dict[str, str]:
    """What was calibrated on and looked at: rows, names, and the start of a hash of the numbers."""
    known = calibrated.prediction
    made = {} if known is None else {"calibration data": _print_of(known.x, calibrated.y)}
    made["points of this page"] = _print_of(x, y)
    used = {f"{what} data": _print_of(data.x, data.y) for what, data in calibrated.used.items()}
    return made | used


def _print_of(x: Any, y: Any) -> str:
    named = f", columns {', '.join(map(str, x.columns))}" if is_frame(x) else ""
    parts = [part for part in (x, y) if part is not None]
    arrays = [
        part.to_numpy() if hasattr(part, "to_numpy") else rows(opened(part, "x")[0], "x") for part in parts
    ]
    shapes = " and ".join(str(tuple(np.shape(part))) for part in parts)
    return f"{shapes}{named}, sha256 {fingerprint(arrays)[:16]}"


def again(calibrated: Calibrated, level: Level, given: dict[str, Any], command: str | None) -> Section:
    """The line that makes this page again: a command, or a call with all that was given to this one."""
    if command is not None:
        said = "On the command line, from the folder and the file whose hashes stand above:"
        return Section("How to reproduce it", [said, command])
    data = ["x", *(name for name in ("y",) if given.get(name) is not None)]
    data.append(f"level={float(exact(level))!r}")
    data += [
        f"{name}={name}" for name in ("groups", "regions", "facts", "verdict") if given.get(name) is not None
    ]
    if given.get("title") is not None:
        data.append(f"title={given['title']!r}")
    source, said = _source(calibrated)
    return Section(
        "How to reproduce it", [said, f'gb.report({source}, {", ".join(data)}, path="report.html")']
    )


def _source(calibrated: Calibrated) -> tuple[str, str]:
    """Where the calibration comes from in a line of Python, and a sentence on it."""
    encoder = Encoder()
    encoder.encode(calibrated, "calibrated")
    needed = sorted(set(encoder.passed) - encoder.optional)
    data = "the data whose hash stands above"
    if "calibrated" in needed:
        return "calibrated", f"From the calibration, made again since gb.save cannot keep it, and {data}:"
    if not needed:
        return 'gb.load("FOLDER")', f"From a calibration that was kept with gb.save, and {data}:"
    holes = ", ".join(f"{name}=..." for name in needed)
    return (
        f'gb.load("FOLDER", {holes})',
        f"From a calibration that was kept with gb.save, {data}, and your own {' and '.join(needed)}, which "
        "gb.save does not keep:",
    )
