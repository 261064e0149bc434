"""Report of `guardband doctor`: versions, extras, threads, device, and a test of the exact law."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from importlib import metadata

from guardband.base.extras import load
from guardband.conformal import Split
from guardband.testing import check_calibrator


def examine() -> dict[str, object]:
    """Return versions, extras, threads, device and the result of a test of the exact law (5 seconds)."""
    found: dict[str, object] = {
        "guardband": metadata.version("guardband"),
        "python": platform.python_version(),
    }
    found |= {name: version for name in ("torch", "numpy", "scipy") if (version := _version(name))}
    for extra in metadata.metadata("guardband").get_all("Provides-Extra") or ():
        versions = {package: _version(package) for package in dict.fromkeys(packages("guardband", extra))}
        missing = [package for package, version in versions.items() if version is None]
        found[f"extra {extra}"] = (
            f'missing {", ".join(missing)}: pip install "guardband[{extra}]"'
            if missing
            else ", ".join(f"{package} {version}" for package, version in versions.items())
        )
    found |= _torch() if "torch" in found else {"threads": f"{os.cpu_count()} cores"}
    start = time.perf_counter()
    found["exact law"] = _law_test()
    found["seconds"] = round(time.perf_counter() - start, 1)
    return found


def packages(name: str, extra: str) -> Iterator[str]:
    """Yield the packages required by an extra of an installed package, including nested extras."""
    for line in metadata.requires(name) or ():
        found = re.fullmatch(r"""([\w.-]+)(?:\[([^]]*)\])?[^;]*; *extra *== *['"](.*)['"]""", line)
        if found is None or found[3] != extra:
            continue
        package, inner = found[1], found[2]
        if package != name:
            yield package
        if inner and _version(package) is not None:
            for one in inner.split(","):
                yield from packages(package, one.strip())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, str]:
    """Return the threads and device of torch, or the reason why it cannot be imported."""
    try:
        torch = load("torch", "pinn")
    except (ImportError, OSError) as error:
        return {"device": f"torch cannot be imported: {error}"}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"threads": f"{torch.get_num_threads()} of {os.cpu_count()} cores", "device": device}


def _law_test() -> str:
    try:
        check_calibrator(Split())
    except AssertionError as broken:
        return f"BROKEN: {broken}"
    return "holds"
