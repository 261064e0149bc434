"""Every block runs and prints what is shown, every link leads somewhere, every number is measured."""

import re
from pathlib import Path

import pytest

from helpers import script

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


BLOCKS, QUOTED = script("docs/blocks.py"), script("docs/quoted.py")
RESULTS = script("docs/results.py")
PAGES: list[Path] = BLOCKS.pages()
EVERY = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.usefixtures("only_our_kinds")
@pytest.mark.parametrize("page", [page for page in PAGES if "```python" in page.read_text()], ids=named)
def test_every_block_runs_and_prints_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    assert BLOCKS.with_output(text, page.name) == text, f"python docs/blocks.py {named(page)}"
    assert page.name != "README.md" or (tmp_path / "band.png").exists()


@pytest.mark.parametrize("page", EVERY, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(
        r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    ):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", EVERY, ids=named)
def test_every_number_is_what_its_source_says(page: Path) -> None:
    for quoted, measured in QUOTED.sources(page.read_text()):
        assert quoted == measured, "python docs/quoted.py"


@pytest.mark.parametrize("page", [page for page in EVERY if "reference" not in page.parts], ids=named)
def test_every_number_has_a_source(page: Path) -> None:
    assert QUOTED.without_source(page.read_text()) == []


def test_a_number_without_a_source_is_seen() -> None:
    assert QUOTED.without_source("It is 3.2x as fast, in 12 s, with an error of .014.") == [
        "3.2x",
        "12 s",
        ".014",
    ]
    assert QUOTED.without_source("At 95 % of `0.123` places, see [it](4.5.md).") == []
    (pair,) = QUOTED.sources("0.1x<!-- source: results/quantile.json claims.cpu_vs_partition -->")
    assert pair[0] != pair[1]


def test_the_results_page_is_what_the_script_writes() -> None:
    assert (ROOT / "results" / "README.md").read_text() == RESULTS.page(), "python docs/results.py"
