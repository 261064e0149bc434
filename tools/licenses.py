"""List the licenses of all runtime dependencies, extras included; exit with 1 if one is a GPL.

python tools/licenses.py
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("bayes", "lab", "scale", "export", "tables", "geometry")
REFUSED = re.compile(r"\bA?GPL|\bGNU (?:Affero )?General Public", re.IGNORECASE)


def needed(name: str, extras: tuple[str, ...], found: dict[str, metadata.Distribution | None]) -> None:
    """Add the dependencies of a package recursively; None for those not installed."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        found[canonicalize_name(name)] = None
        return
    known = canonicalize_name(name) in found
    found[canonicalize_name(name)] = package
    if known and not extras:
        return
    for line in package.requires or []:
        wanted = Requirement(line)
        cases = [{"extra": extra} for extra in ("", *extras)]
        if wanted.marker is None or any(wanted.marker.evaluate(case) for case in cases):
            needed(wanted.name, tuple(sorted(wanted.extras)), found)


def license_of(package: metadata.Distribution) -> str:
    """The license that a package declares, in a few words."""
    about = package.metadata
    classes = [
        line.split("::")[-1].strip() for line in about.get_all("Classifier") or [] if "License ::" in line
    ]
    words, expression = ((about.get_all(key) or [""])[0] for key in ("License", "License-Expression"))
    lines = words.strip().splitlines() or [""]
    return expression or ", ".join(classes) or lines[0] or "not stated"


def main() -> int:
    """List all licenses, and return 1 if one is refused."""
    found: dict[str, metadata.Distribution | None] = {}
    needed("guardband", EXTRAS, found)
    said = {name: license_of(package) for name, package in sorted(found.items()) if package}
    for name, words in said.items():
        print(f"{name:22} {words[:80]}")
    if missing := sorted(name for name, package in found.items() if package is None):
        print(f"not installed here: {', '.join(missing)}")
    refused = [name for name, words in said.items() if REFUSED.search(words) or words == "not stated"]
    print(f"{len(said)} packages, " + (f"refused: {', '.join(refused)}" if refused else "none of the GPL"))
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
