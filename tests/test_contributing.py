"""What CONTRIBUTING.md links to and names exists; that its blocks run is tested with the pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"]


def test_every_kind_of_addition_has_an_example() -> None:
    assert (ROOT / "CONTRIBUTING.md").read_text().count("```python\n") >= 6


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_every_file_it_names_exists() -> None:
    """Words between backticks that look like paths of this repository."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:src|tests|tools|\.ci)/[\w./]+)`", text)
    assert named and [name for name in named if not (ROOT / name).exists()] == []
