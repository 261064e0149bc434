"""Run the blocks of docs/guides/fno.md and update its output: `python tools/regenerate.py fno`.

The page needs neuraloperator, so its blocks are not `python` blocks, which run with all other pages.
"""

import contextlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/guides/fno.md"
BLOCK = re.compile(r"```py\n(?P<code>.*?)```(?:\n\n```text\n(?P<said>.*?)```)?", re.DOTALL)


def ran(text: str) -> tuple[str, dict[str, Any]]:
    """The page with what its blocks print, run in this folder, and all that they define."""
    names: dict[str, Any] = {"__name__": PAGE.name}

    def run(found: re.Match[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(found["code"], PAGE.name, "exec"), names)
        if found["said"] is None:
            return found[0]
        return f"```py\n{found['code']}```\n\n```text\n{printed.getvalue().rstrip()}\n```"

    return BLOCK.sub(run, text), names


def main() -> None:
    """Update the page and its picture."""
    import matplotlib

    matplotlib.use("Agg")
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text, _ = ran(PAGE.read_text())
        picture = Image.open("fno.png").convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        picture.save(PAGE.parent.parent / "images" / "fno.png", optimize=True)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
