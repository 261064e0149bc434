"""Every block of the README runs, in order, prints what the README shows, and the first is short."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_block_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "docs/readme.py")
    assert spec is not None and spec.loader is not None
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    printed = readme.run(README, tmp_path)
    assert readme.with_output(README, printed) == README
    assert (tmp_path / "band.png").exists()


def test_the_first_block_has_at_most_twelve_lines() -> None:
    first = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert len(first.strip().splitlines()) <= 12


def test_pictures_of_the_readme_exist() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures and all((ROOT / picture).exists() for picture in pictures)
