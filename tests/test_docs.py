"""Every block runs and prints the shown output, every link has a target, every number a source."""

import re
from pathlib import Path
from typing import Any

import pytest

from helpers import Later, needs, script
from wings import pinn

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


BLOCKS, QUOTED = script("tools/docs/blocks.py"), script("tools/docs/quoted.py")
RESULTS, REFERENCE = script("tools/docs/results.py"), script("tools/docs/reference.py")
PAGES: list[Path] = BLOCKS.pages()
EVERY = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


SLOW = (
    "README.md",
    "docs/bring_your_model.md",
    "docs/calibrators.md",
    "docs/equations.md",
    "docs/explanation/coefficients.md",
    "docs/guides/coefficients.md",
    "docs/guides/deploy.md",
    "docs/guides/rollouts.md",
    "docs/predictors.md",
    "docs/training.md",
    "docs/tutorial.md",
)
"""Pages whose blocks train for more than 2 CPU seconds."""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow(*SLOW)
@pytest.mark.usefixtures("only_our_kinds")
@pytest.mark.parametrize("page", [page for page in PAGES if "```python" in page.read_text()], ids=named)
def test_every_block_runs_and_prints_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    assert BLOCKS.with_output(text, page.name) == text, f"python tools/docs/blocks.py {named(page)}"
    assert page.name != "README.md" or (tmp_path / "band.png").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("only_our_kinds")
@pytest.mark.parametrize("name", SLOW)
def test_every_block_of_a_slow_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three training steps the output differs, but no block raises."""
    whole = pinn.fit

    def brief(*arguments: Any, **options: Any) -> pinn.Fitted:
        recipe = pinn.Recipe(steps=3, finish=0, n_interior=32, n_boundary=8)
        return whole(*arguments, **options | {"recipe": recipe, "progress": False})

    monkeypatch.setattr(pinn, "fit", brief)
    monkeypatch.chdir(tmp_path)
    page = ROOT / name
    BLOCKS.with_output(page.read_text(), page.name)
    assert name != "README.md" or (tmp_path / "band.png").exists()


@pytest.mark.parametrize("page", EVERY, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(
        r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    ):
        made = (page.parent / target).resolve().parent == ROOT / "docs" / "reference"  # with the site
        assert target.startswith("https://") or (page.parent / target).exists() or made, target
        assert not made or Path(target).name in REFERENCE.pages(), target


@pytest.mark.parametrize("page", EVERY, ids=named)
def test_every_number_is_what_its_source_says(page: Path) -> None:
    for quoted, measured in QUOTED.sources(page.read_text()):
        assert quoted == measured, "python tools/docs/quoted.py"


CATALOGUE = script("tools/docs/catalogue.py")


def test_the_page_of_the_catalogue_is_what_the_docstrings_say_with_a_picture_each() -> None:
    text = (DOCS / "catalogue.md").read_text()
    assert text == CATALOGUE.page(), "python tools/docs/catalogue.py --pages"
    drawn = re.findall(r"images/catalogue/(\w+)\.png", text)
    assert sorted(drawn) == sorted(CATALOGUE.catalogue.__all__)


@pytest.mark.parametrize("page", [page for page in EVERY if page.name != "catalogue.md"], ids=named)
def test_every_number_has_a_source(page: Path) -> None:
    assert QUOTED.without_source(page.read_text()) == []


def test_a_number_without_a_source_is_seen() -> None:
    assert QUOTED.without_source("It is 3.2x as fast, in 12 s, with an error of .014.") == [
        "3.2x",
        "12 s",
        ".014",
    ]
    assert QUOTED.without_source("At 95 % of `0.123` places, see [it](4.5.md).") == []
    (pair,) = QUOTED.sources("0.1x<!-- source: results/data/quantile.json claims.cpu_vs_partition -->")
    assert pair[0] != pair[1]


def test_the_results_page_is_what_the_script_writes() -> None:
    assert (ROOT / "results" / "README.md").read_text() == RESULTS.page(), "python tools/docs/results.py"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("prediction interval", "index.md"),
        ("prediction interval", "explanation/promise.md"),
        ("confidence interval", "guides/coefficients.md"),
        ("inverse problem", "guides/coefficients.md"),
        ("conformal prediction", "calibrators.md"),
        ("covariate shift", "calibrators.md"),
        ("FNO", "guides/fno.md"),
        ("drift", "guides/drift.md"),
    ],
)
def test_pages_have_the_words_that_readers_search_for(words: str, page: str) -> None:
    assert words in (DOCS / page).read_text()


# The README's first block is short, and its pictures exist; its blocks are run with those of the pages.

README = (ROOT / "README.md").read_text()


def test_the_first_block_has_at_most_twelve_lines() -> None:
    first = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert len(first.strip().splitlines()) <= 12


def test_the_readme_has_at_most_700_words() -> None:
    assert len(README.split()) <= 700


def test_pictures_of_the_readme_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures and all((ROOT / picture).exists() for picture in pictures)


# Links and file names in CONTRIBUTING.md exist; its blocks are run with those of the pages.

NAMED = ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"]


def test_every_kind_of_addition_has_an_example() -> None:
    assert (ROOT / "CONTRIBUTING.md").read_text().count("```python\n") >= 6


@pytest.mark.parametrize("name", NAMED)
def test_links_beside_the_pages_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_every_file_it_names_exists() -> None:
    """Words between backticks that look like paths of this repository."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:src|tests|tools|\.ci)/[\w./]+)`", text)
    assert named and [name for name in named if not (ROOT / name).exists()] == []


# Browsers render formulas without a script.


def test_formulas_of_a_page_become_mathml() -> None:
    markdown, hooks = pytest.importorskip("markdown"), script("tools/docs/hooks.py")
    settings = {"pymdownx.arithmatex": {"generic": True}}
    text = "For $a < b$, not for `$a$`:\n\n$$\n\\frac{a}{b}\n$$\n"
    page = hooks.on_page_content(
        markdown.markdown(text, extensions=list(settings), extension_configs=settings)
    )
    assert page.count("<math") == 2 and page.count('display="block"') == 1
    assert (
        "<mi>a</mi><mo>&#x0003C;</mo><mi>b</mi>" in page and "<mfrac>" in page and "<code>$a$</code>" in page
    )


def test_a_formula_that_would_show_its_source_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got \\nonsense in"):
        script("tools/docs/hooks.py").mathml(r"\nonsense x")


# Every notebook runs, agrees with its source, and stays small.

nbformat, nbclient = Later("nbformat"), Later("nbclient")
notebooks = needs("nbformat", "nbclient", "ipykernel")
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@notebooks
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=240, resources=resources).execute()


@notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_what_its_source_says(path: Path) -> None:
    module = script("tools/docs/notebooks.py")
    shown = nbformat.read(path, as_version=4)
    source = module.notebook(module.SOURCES[path.stem])
    assert [(cell.cell_type, cell.source) for cell in shown.cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ], f"python tools/regenerate.py notebook-{path.stem}"
    outputs = [output for cell in shown.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and not any(output.get("name") == "stderr" for output in outputs)


@notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < 200_000
    assert 8 <= len(nbformat.read(path, as_version=4).cells) <= 15


@notebooks
def test_there_is_a_notebook_for_each_source() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(script("tools/docs/notebooks.py").SOURCES)
