"""Run the code blocks of pages and update their output: `python tools/docs/blocks.py [page ...]`.

A text block directly below a Python block contains its output.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<said>.*?)```)?", re.DOTALL)
MADE = ("gallery", "reference")
"""Folders whose pages are generated from tested code."""


def pages() -> list[Path]:
    """The pages whose code blocks are run."""
    written = [page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in MADE]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


def with_output(text: str, name: str, after: Callable[[int], object] = lambda number: None) -> str:
    """The page with the output of its blocks, which are run in order.

    `after(number)` is called after each block, counted from 1.
    """
    names: dict[str, object] = {"__name__": name}
    number = 0

    def ran(found: re.Match[str]) -> str:
        nonlocal number
        number += 1
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(found["code"], f"{name}, block {number}", "exec"), names)
        after(number)
        if found["said"] is None:
            return found[0]
        return f"```python\n{found['code']}```\n\n```text\n{printed.getvalue().rstrip()}\n```"

    return BLOCK.sub(ran, text)


def renew(page: Path, after: Callable[[int], object] = lambda number: None) -> None:
    """Run a page in a temporary folder, and update its output and its pictures."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        made = with_output(text, page.name, after)
        for picture in Path(folder).glob("*.png"):
            if f"images/{picture.name})" in text:
                shutil.copyfile(picture, DOCS / "images" / picture.name)
    if made != text:
        page.write_text(made)
        print(os.path.relpath(page))


def save(path: Path) -> None:
    """Write the latest picture, if any."""
    import matplotlib.pyplot as plt

    if plt.get_fignums():
        plt.gcf().savefig(path, dpi=100)
        plt.close("all")


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        renew(page)
