"""guardband doctor: what is here, and whether the exact law holds on this machine."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from typing import Any

import torch

from guardband.conformal import Split
from guardband.testing import check_calibrator

EXTRAS: dict[str, tuple[str, ...]] = {
    "bayes": ("pyro-ppl", "arviz"),
    "scale": ("dask", "distributed", "h5netcdf", "h5py", "xarray", "zarr"),
    "export": ("onnx", "onnxscript", "onnxruntime"),
    "tables": ("pyarrow",),
}


def examine() -> dict[str, Any]:
    """What there is, and whether the exact law holds, in about five seconds."""
    found: dict[str, Any] = {"guardband": metadata.version("guardband"), "python": platform.python_version()}
    found |= {name: metadata.version(name) for name in ("torch", "numpy", "scipy")}
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if _version(package) is None]
        found[f"extra {extra}"] = (
            f'missing {", ".join(missing)}: pip install "guardband[{extra}]"'
            if missing
            else ", ".join(f"{package} {_version(package)}" for package in packages)
        )
    found["threads"] = f"{torch.get_num_threads()} of {os.cpu_count()} cores"
    found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    start = time.perf_counter()
    found["exact law"] = _law()
    found["seconds"] = round(time.perf_counter() - start, 1)
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _law() -> str:
    try:
        check_calibrator(Split())
    except AssertionError as broken:
        return f"BROKEN: {broken}"
    return "holds"
