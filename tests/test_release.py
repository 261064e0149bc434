"""The parts of a release agree: versions, oldest dependencies, recipe, container and bill of materials."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import guardband as gb
from helpers import script

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {one.name: one for one in map(Requirement, PROJECT["dependencies"])}
EXTRAS = PROJECT["optional-dependencies"]
WINGS = {one.name: one for one in map(Requirement, EXTRAS["pinn"] + EXTRAS["lab"]) if one.name != "guardband"}
ON_CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
"""Packages that have another name there."""


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    return pytest.importorskip("yaml").safe_load((ROOT / "recipe/recipe.yaml").read_text())


def test_the_tested_floors_are_those_that_are_promised() -> None:
    lines = (ROOT / ".ci/floors.txt").read_text().splitlines()[1:]
    tested = dict(line.split("==") for line in lines)
    promised = NEEDED | WINGS
    assert sorted(tested) == sorted(promised)
    for name, version in tested.items():
        (floor,) = promised[name].specifier
        assert floor.operator == ">=" and Version(floor.version) == Version(version), name


def test_the_recipe_has_our_version_and_what_pip_would_install(recipe: dict[str, Any]) -> None:
    assert recipe["context"]["version"] == gb.__version__
    asked, allowed = (
        {f"{ON_CONDA.get(name, name)} {one.specifier}" for name, one in known.items()}
        for known in (NEEDED, WINGS)
    )
    assert set(recipe["requirements"]["run"]) == asked | {f"python {PROJECT['requires-python']}"}
    assert set(recipe["requirements"]["run_constraints"]) == allowed
    assert recipe["build"]["python"]["entry_points"] == [f"guardband = {PROJECT['scripts']['guardband']}"]


def test_the_container_runs_the_tested_torch_as_a_user_without_rights() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    tested = re.findall(r"torch==[\d.]+", (ROOT / ".ci/lanes.sh").read_text())
    assert re.findall(r"torch==[\d.]+", "\n".join(lines)) == tested
    user = lines.index("USER guardband")
    assert not any(line.startswith(("RUN", "USER root")) for line in lines[user:])
    assert lines.index('ENTRYPOINT ["guardband"]') > user


def test_the_bill_names_all_that_is_needed_and_where_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    bill = script("tools/sbom.py").bill()
    assert set(NEEDED) <= {one["name"] for one in bill["components"]}
    known = {one["bom-ref"] for one in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    leads = {entry["ref"]: set(entry["dependsOn"]) for entry in bill["dependencies"]}
    assert set(leads) == known and set().union(*leads.values()) < known
    assert all(one["licenses"] for one in bill["components"])
