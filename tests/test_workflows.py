"""The GitHub workflows are pinned and have few rights; the public address works empty and set."""

import os
import re
import shutil
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT, script

yaml = pytest.importorskip("yaml")

FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
WORKFLOWS: dict[str, dict[Any, Any]] = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}
JOBS = [
    pytest.param(flow, job, id=f"{name}-{key}")
    for name, flow in WORKFLOWS.items()
    for key, job in flow["jobs"].items()
]
PUBLIC, RELEASE = script("tools/public.py"), script("tools/check_release.py")
URL = "https://github.com/Someone/guardband"


def commands(name: str) -> str:
    """All commands of a workflow."""
    jobs = WORKFLOWS[name]["jobs"].values()
    return "\n".join(step["run"] for job in jobs for step in job["steps"] if "run" in step)


def test_there_are_three_workflows() -> None:
    assert set(WORKFLOWS) == {"ci", "nightly", "publish"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_commit_with_its_version(path: Path) -> None:
    used = re.findall(r"^.*\buses:.*$", path.read_text(), re.MULTILINE)
    assert used
    for line in used:
        assert re.fullmatch(r" +- uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_one_version_of_each_action_is_used() -> None:
    pinned = set(re.findall(r"uses: (.*)@(.*) # (.*)", "".join(path.read_text() for path in FILES)))
    assert len(pinned) == len({name for name, _, _ in pinned})


@pytest.mark.parametrize(("flow", "job"), JOBS)
def test_every_job_ends_and_may_write_nothing(flow: dict[Any, Any], job: dict[str, Any]) -> None:
    assert 1 <= job["timeout-minutes"] <= 120
    assert flow["permissions"] in ({}, {"contents": "read"})
    rights = {name for name, right in job.get("permissions", {}).items() if right != "read"}
    assert rights <= ({"id-token"} if job is WORKFLOWS["publish"]["jobs"]["upload"] else set())


@pytest.mark.parametrize(("flow", "job"), JOBS)
def test_no_checkout_leaves_its_token_behind(flow: dict[Any, Any], job: dict[str, Any]) -> None:
    for step in job["steps"]:
        if "actions/checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_file_and_extra_that_a_command_names_exists(name: str) -> None:
    said = commands(name)
    for path in re.findall(r"(?<![\w/])(?:\.ci|tools|tests)/[\w./]+", said):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"^\.ci/\w+", said, re.MULTILINE):
        assert os.access(ROOT / command, os.X_OK), command
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"\.\[([\w-]+)\]", said)) <= set(extras)
    assert "${{" not in said, "expressions reach a command through `env`"


def test_the_workflows_use_the_tested_torch() -> None:
    tested = set(re.findall(r"torch==[\d.]+", (ROOT / "Dockerfile").read_text()))
    assert set(re.findall(r"torch==[\d.]+", commands("ci") + commands("publish"))) == tested


def test_the_shards_run_on_every_python_that_the_classifiers_name() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = [line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)]
    matrix = WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == named
    assert matrix["shard"] == list(range(1, matrix["shards"][0] + 1))
    assert {one["os"] for one in matrix["include"]} == {"macos-latest", "windows-latest"}
    assert all(one["shards"] == one["shard"] == 1 for one in matrix["include"])


def test_publishing_checks_the_release_before_it_uploads() -> None:
    build, upload = WORKFLOWS["publish"]["jobs"].values()
    assert upload["needs"] == "build" and upload["environment"]["name"] == "pypi"
    said = commands("publish")
    assert "twine check --strict" in said and "tools/check_release.py dist" in said
    assert said.index("check_release") > said.index("python -m build")
    assert not any("cache" in step.get("with", {}) for step in build["steps"])


# The public address: one value, empty until there is one.


README = """# Name

![A picture](docs/a.png) <img src="docs/b.png" alt="">
[link](docs/c.md#part) [there](https://a.b/c.md) [up](#name)

```python
x = f["a"](docs)
```

[![image](docs/d.png)](LICENSE)
"""


def test_links_of_the_readme_lead_to_the_tag() -> None:
    there = f"{URL}/blob/v1.0.0"
    made = PUBLIC.absolute(README, URL, "v1.0.0")
    assert f'[A picture]({URL}/raw/v1.0.0/docs/a.png) <img src="{URL}/raw/v1.0.0/docs/b.png"' in made
    assert f"[link]({there}/docs/c.md#part) [there](https://a.b/c.md) [up](#name)" in made
    assert f"[![image]({URL}/raw/v1.0.0/docs/d.png)]({there}/LICENSE)" in made
    assert 'x = f["a"](docs)' in made
    assert PUBLIC.absolute(README, "", "v1.0.0") == README


def built(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Message:
    """The metadata of this project when it is built with an address."""
    build = pytest.importorskip("hatchling.build")
    for name in ("LICENSE", "README.md", "pyproject.toml", "src/guardband/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(
        re.sub(r'^url = ".*"$', f'url = "{url}"', text, flags=re.MULTILINE)
    )
    monkeypatch.chdir(folder)
    name = build.prepare_metadata_for_build_wheel(str(folder))
    return message_from_string((folder / name / "METADATA").read_text(encoding="utf-8"))


def test_without_an_address_it_builds_and_may_not_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(tmp_path, "", monkeypatch)
    assert made.get_all("Project-URL") is None
    assert made.get_payload() == (ROOT / "README.md").read_text()
    assert "`url` of [tool.guardband] in pyproject.toml is empty" in RELEASE.problem(
        made, f"v{made['Version']}"
    )


def test_with_an_address_the_metadata_has_it_and_may_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(tmp_path, URL, monkeypatch)
    assert f"Source, {URL}" in made.get_all("Project-URL", [])
    assert "Documentation, https://someone.github.io/guardband/" in made.get_all("Project-URL", [])
    text = re.sub(r"^```.*?^```$", "", str(made.get_payload()), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets and all(target.startswith(("https://", "#")) for target in targets)
    assert f"]({URL}/raw/v{made['Version']}/docs/images/" in text
    assert RELEASE.problem(made, f"v{made['Version']}") == ""
    assert "The tag should be v" in RELEASE.problem(made, "v0.0.1")


def test_the_metadata_are_those_of_the_wheel(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("a-1.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: a\nVersion: 1.0\n")
    assert RELEASE.metadata(tmp_path)["Version"] == "1.0"


@pytest.mark.parametrize("url", ["", URL])
def test_the_site_has_the_address_once_it_is_known(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"))
    hooks = script("tools/docs/hooks.py")
    monkeypatch.setattr(hooks.runpy, "run_path", lambda _: {"url": lambda _: url, "site": PUBLIC.site})
    hooks.on_config(config)
    expected = (URL, "https://someone.github.io/guardband/") if url else ("", "")
    assert (config.repo_url or "", config.site_url or "") == expected
