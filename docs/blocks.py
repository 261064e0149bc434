"""Run the blocks of pages, and put what they print into the text below them: `python docs/blocks.py`."""

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?P<between>\n\n```text\n(?P<said>.*?)```)?", re.DOTALL)


def pages() -> list[Path]:
    """The pages with code of their own: the gallery and the reference are made from code that is tested."""
    made = {DOCS / "gallery", DOCS / "reference"}
    return [page for page in sorted(DOCS.rglob("*.md")) if not made & set(page.parents)]


def with_output(text: str, name: str) -> str:
    """A page as it should be: its blocks run in order, each text block holding what the one above printed."""
    names: dict[str, object] = {"__name__": name}

    def ran(found: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(found["code"], name, "exec"), names)
        if found["said"] is None:
            return found[0]
        return f"```python\n{found['code']}```\n\n```text\n{printed.getvalue().rstrip()}\n```"

    return BLOCK.sub(ran, text)


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            made = with_output(page.read_text(), page.name)
        if made != page.read_text():
            page.write_text(made)
            print(os.path.relpath(page))
