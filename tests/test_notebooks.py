"""Every notebook runs from top to bottom, is what its source says, and stays small."""

from pathlib import Path

import pytest

from helpers import script

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=240, resources=resources).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_what_its_source_says(path: Path) -> None:
    module = script("docs/notebooks/make.py")
    shown = nbformat.read(path, as_version=4)
    source = module.notebook(module.SOURCES[path.stem])
    assert [(cell.cell_type, cell.source) for cell in shown.cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ], f"python docs/notebooks/make.py {path.stem}"
    outputs = [output for cell in shown.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and not any(output.get("name") == "stderr" for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < 200_000
    assert 8 <= len(nbformat.read(path, as_version=4).cells) <= 15


def test_there_is_a_notebook_for_each_source() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(script("docs/notebooks/make.py").SOURCES)
