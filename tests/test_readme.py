"""The README's first block is short, and its pictures exist; that its blocks run is tested with the pages."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_first_block_has_at_most_twelve_lines() -> None:
    first = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert len(first.strip().splitlines()) <= 12


def test_pictures_of_the_readme_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures and all((ROOT / picture).exists() for picture in pictures)
