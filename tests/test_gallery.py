"""Every gallery example runs and draws, and its page shows its code."""

import ast
import importlib.util
import re
import runpy
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from helpers import script

ROOT = Path(__file__).parent.parent
PNG = b"\x89PNG\r\n\x1a\n"


GALLERY = script("tools/docs/gallery.py")
NAMES: list[str] = GALLERY.names()
APART = {"field_to_zarr", "small_data"}
"""Examples that run in a separate process: one starts workers, the other tests the mechanism."""


def test_every_example_is_in_the_gallery_once() -> None:
    scripts = sorted(path.stem for path in GALLERY.EXAMPLES.glob("*.py"))
    assert sorted(NAMES) == scripts
    assert set(GALLERY.NEEDS) | set(GALLERY.QUICK) <= set(NAMES)


@pytest.mark.slow("front", "shape", "cylinder", "small_data", "field_to_zarr")
@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs_when_it_is_copied(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in GALLERY.NEEDS[name].modules if name in GALLERY.NEEDS else ():
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    if name in APART:
        picture = GALLERY.run(name, sys.executable, tmp_path, quick=True)
    else:  # in this process, where torch is already imported
        monkeypatch.chdir(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tests treat other packages' warnings as errors
            runpy.run_path(str(GALLERY.copy(name, tmp_path, quick=True)), run_name="__main__")
        plt.close("all")
        picture = tmp_path / f"{name}.png"
    assert picture.read_bytes().startswith(PNG)
    assert {file.name for file in tmp_path.iterdir()} <= {f"{name}.py", f"{name}.png", "__pycache__"}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_imports_no_file_of_the_repository_but_the_package(name: str) -> None:
    """The test above runs the copy in this process, where modules of tests and tools can be imported."""
    roots = {
        found.partition(".")[0]
        for node in ast.walk(ast.parse(GALLERY.script(name).read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for found in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or "."])
    }
    ours = {path.stem for folder in ("examples", "tests", "tools") for path in (ROOT / folder).rglob("*.py")}
    assert "guardband" in roots and roots & ours == set() and "" not in roots


@pytest.mark.parametrize("name", GALLERY.QUICK)
def test_a_quick_run_changes_the_copy_and_not_the_example(name: str, tmp_path: Path) -> None:
    """Includes examples whose packages are not installed here."""
    assert GALLERY.copy(name, tmp_path).read_text() == GALLERY.script(name).read_text()
    quick = GALLERY.copy(name, tmp_path, quick=True).read_text()
    compile(quick, name, "exec")
    assert quick != GALLERY.script(name).read_text()


def test_a_quick_run_whose_numbers_are_gone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GALLERY.QUICK, "small_data", {"no such text": ""})
    with pytest.raises(ValueError, match=r"small_data.py should have 'no such text' once"):
        GALLERY.copy("small_data", tmp_path, quick=True)


def test_an_example_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "broken.py").write_text("raise SystemExit('no luck')")
    monkeypatch.setattr(GALLERY, "EXAMPLES", scripts)
    with pytest.raises(RuntimeError, match=r"broken failed:\nno luck"):
        GALLERY.run("broken", sys.executable, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_titles_are_sentences_and_texts_are_short(name: str) -> None:
    example = GALLERY.example(name)
    assert example.title[0].isupper() and example.title[-1] not in ".!"
    assert 2 <= len(re.findall(r"[.:?](?:\s|$)", example.text)) <= 9
    assert len(example.code.splitlines()) <= 90


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_the_code_and_its_picture_exists(name: str) -> None:
    page = GALLERY.pages()[f"{name}.md"]
    assert GALLERY.example(name).code in page and "```python" not in page
    assert f"](images/{name}.png)" in page and (GALLERY.IMAGES / f"{name}.png").exists()


def test_the_index_is_what_the_script_writes() -> None:
    written = (GALLERY.PAGES / "index.md").read_text()
    assert written == GALLERY.index(), "out of date: python tools/docs/gallery.py"
    assert all(f"](../../examples/gallery/{name}.py)" in written for name in NAMES)
    assert [path.name for path in GALLERY.PAGES.glob("*.md")] == ["index.md"]


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_there_and_small(name: str) -> None:
    content = (GALLERY.IMAGES / f"{name}.png").read_bytes()
    assert content.startswith(PNG) and len(content) < 120_000
