"""Provenance: whose data, by hashes that anybody can make again, and the lines that make the page again."""

from __future__ import annotations

from typing import Any

import numpy as np

from guardband.arrays import ArrayLike, fingerprint, rows
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.frames import is_frame
from guardband.report.page import Section
from guardband.store.codec import Encoder


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
    arrays = [part.to_numpy() if hasattr(part, "to_numpy") else rows(part, "x") for part in parts]
    shapes = " and ".join(str(tuple(np.shape(part))) for part in parts)
    return f"{shapes}{named}, sha256 {fingerprint(arrays)[:16]}"


def again(calibrated: Calibrated, level: Level, given: dict[str, Any], command: str | None) -> Section:
    """The line that makes this page again: a command, or a call with all that was given to this one."""
    if command is not None:
        said = "On the command line, from the folder and the file whose hashes stand above:"
        return Section("How to reproduce it", [said, command])
    data = ["x", *(name for name in ("y",) if given.get(name) is not None)]
    data.append(f"level={float(exact(level))!r}")
    data += [f"{name}={name}" for name in ("groups", "regions", "facts") if given.get(name) is not None]
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
    needed = sorted(set(encoder.yours) - encoder.optional)
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
