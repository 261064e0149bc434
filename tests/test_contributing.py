"""Every Python block of CONTRIBUTING.md runs, in order, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"]


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        exec(compile(block, "CONTRIBUTING.md", "exec"), names)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_every_file_it_names_exists() -> None:
    """Words between backticks that look like paths of this repository."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:src|tests|tools|\.ci)/[\w./]+)`", text)
    assert named and [name for name in named if not (ROOT / name).exists()] == []
