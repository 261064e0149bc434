"""Run the tutorial, save what its blocks draw, put back what they print: `python docs/tutorial.py`."""

import contextlib
import io
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

FOLDER = Path(__file__).parent
PAGE = FOLDER / "tutorial.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n.*?```)?", re.DOTALL)
"""A Python block, and the text block right below it that holds what it printed."""


def run(text: str, after: Callable[[int], None] = lambda number: None) -> list[str]:
    """Run a page's blocks in order, in a folder of their own; return what each printed.

    `after(number)` is called when a block is done, counted from 1.
    """
    names: dict[str, object] = {}
    printed = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, block in enumerate(BLOCK.findall(text), 1):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, f"block {number}", "exec"), names)
            printed.append(out.getvalue())
            after(number)
    return printed


def with_outputs(text: str, printed: Sequence[str]) -> str:
    """The page with what each block printed in a text block right below it."""
    outputs = iter(printed)

    def put(found: re.Match[str]) -> str:
        output = next(outputs)
        block = f"```python\n{found[1]}```"
        return f"{block}\n\n```text\n{output}```" if output else block

    return BLOCK.sub(put, text)


def save(path: Path) -> None:
    """Write the newest picture, with 256 colours to keep it small, and close it."""
    if plt.get_fignums():
        drawn = io.BytesIO()
        plt.gcf().savefig(drawn, dpi=100)
        Image.open(drawn).convert("RGB").quantize(256).save(path, optimize=True)
        plt.close("all")


if __name__ == "__main__":
    text = PAGE.read_text()
    printed = run(text, lambda number: save(FOLDER / "images" / f"tutorial-{number}.png"))
    PAGE.write_text(with_outputs(text, printed))
    print("The tutorial and its pictures are made anew.")
