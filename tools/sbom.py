"""Write a bill of materials in CycloneDX 1.6: guardband and its runtime dependencies, as installed here.

python tools/sbom.py guardband.cdx.json
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from licenses import license_of, needed
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def bill() -> dict[str, Any]:
    """The bill, without time or serial number, so that equal packages give equal bills."""
    found: dict[str, metadata.Distribution | None] = {}
    needed("guardband", (), found)
    if missing := sorted(name for name, package in found.items() if package is None):
        raise SystemExit(f"All dependencies should be installed, missing: {', '.join(missing)}.")
    packages = {name: package for name, package in sorted(found.items()) if package}
    ours = packages["guardband"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(ours, "application")},
        "components": [component(package) for package in packages.values() if package is not ours],
        "dependencies": [
            {"ref": purl(package), "dependsOn": [purl(packages[name]) for name in direct(package, packages)]}
            for package in packages.values()
        ],
    }


def purl(package: metadata.Distribution) -> str:
    """The address of a package."""
    return f"pkg:pypi/{canonicalize_name(package.name)}@{package.version.replace('+', '%2B')}"


def component(package: metadata.Distribution, kind: str = "library") -> dict[str, Any]:
    """A package as an entry of the bill."""
    return {
        "type": kind,
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
        "licenses": [license_entry(license_of(package))],
    }


def license_entry(words: str) -> dict[str, Any]:
    """A license as an SPDX expression if it is one, otherwise by name."""
    try:
        return {"expression": canonicalize_license_expression(words)}
    except InvalidLicenseExpression:
        return {"license": {"name": words}}


def direct(package: metadata.Distribution, packages: dict[str, metadata.Distribution]) -> list[str]:
    """The direct dependencies of a package that are in the bill."""
    wanted = [Requirement(line) for line in package.requires or []]
    names = {
        canonicalize_name(one.name)
        for one in wanted
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }
    return sorted(str(name) for name in names & set(packages))


if __name__ == "__main__":
    made = bill()
    Path(sys.argv[1]).write_text(json.dumps(made, indent=1) + "\n")
    print(f"{sys.argv[1]}: {len(made['components'])} components")
