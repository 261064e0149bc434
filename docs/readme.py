"""Run the README's blocks and put what they draw and print back into it: `python docs/readme.py`."""

import contextlib
import io
import os
import re
import shutil
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def run(text: str, folder: Path) -> str:
    """Run all blocks in order, in a folder; return what the last one printed."""
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.chdir(folder):
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, "README.md", "exec"), names)
    return printed.getvalue()


def with_output(text: str, printed: str) -> str:
    """The README with what was printed in its text block."""
    return re.sub(r"```text\n.*?```", lambda _: f"```text\n{printed}```", text, flags=re.DOTALL)


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    text = README.read_text()
    README.write_text(with_output(text, run(text, folder)))
    shutil.copy(folder / "band.png", ROOT / "docs/images/readme.png")
    print(f"README and picture made anew{os.linesep}")
