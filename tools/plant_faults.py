"""Plant one fault at a time, and show that a step of the gate detects it.

    python tools/plant_faults.py [--full]

Each step first passes on a clean copy of the last commit, so a failure is due to the fault. Run it in the
development environment. `--full` also plants the fault that only .ci/full detects.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Fault(NamedTuple):
    """A fault: the file, the replaced text and its replacement, and the command that should detect it.

    An empty `old` appends `new` to the file.
    """

    name: str
    file: str
    old: str
    new: str
    step: str


def gate(function: str) -> str:
    """A step of .ci/lanes.sh, as in .ci/run."""
    return f"bash -c 'source .ci/lanes.sh; {function}'"


FAULTS = [
    Fault("broken link", "docs/limits.md", "", "\n[Nothing](nowhere.md)\n", gate("site")),
    Fault("broken anchor", "docs/limits.md", "", "\n[Nothing](glossary.md#nowhere)\n", gate("site")),
    Fault("page outside nav", "docs/lost.md", "", "# Lost\n", gate("site")),
    Fault("empty alt text", "docs/limits.md", "", "\n![](images/band.png)\n", gate("site")),
    Fault("wide code", "docs/limits.md", "", f"\n```python\nx = {'1 + ' * 30}1\n```\n", gate("site")),
    Fault(
        "code block that raises",
        "docs/tutorial.md",
        "",
        "\n```python\nraise ValueError\n```\n",
        "pytest -q tests/test_docs.py -k 'tutorial and block'",
    ),
    Fault(
        "doctest with a wrong output",
        "src/guardband/conformal/scores.py",
        "array([[1.96]])",
        "array([[1.95]])",
        "pytest -q src/guardband/conformal/scores.py",
    ),
    Fault(
        "heavy import at collection",
        "tests/test_rank.py",
        "import math",
        "import math\n\nimport onnx",
        "pytest -q tests/test_rank.py",
    ),
    Fault(
        "import that points up",
        "src/guardband/base/arrays.py",
        "import torch\n",
        "import torch\n\nimport guardband.cli  # noqa: F401\n",
        gate("lint"),
    ),
    Fault("type error", "src/guardband/base/arrays.py", "", '\nwrong: int = "word"\n', gate("types")),
]
FULL = [
    Fault(
        "changed default recipe",
        "src/guardband/pinn/training/train.py",
        "if dropout or large or not cpu or not known:",
        "if True:",
        "python tools/regenerate.py --check notebook-i_have_an_equation gallery-system",
    )
]


def ended(step: str, folder: Path) -> tuple[int, str]:
    """The exit status of a step in a copy, and its last lines of output."""
    ours = {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    command = ["bash", "-c", f"{step} 2>&1"]
    done = subprocess.run(command, cwd=folder, env=os.environ | ours, capture_output=True, text=True)
    return done.returncode, "\n".join(done.stdout.strip().splitlines()[-3:])


def plant(fault: Fault, folder: Path) -> None:
    """Apply a fault to a copy."""
    path = folder / fault.file
    text = path.read_text() if path.exists() else ""
    if text.count(fault.old) == 0:
        raise ValueError(f"{fault.file} should have {fault.old!r}.")
    path.write_text(text.replace(fault.old, fault.new, 1) if fault.old else text + fault.new)


def main() -> None:
    """Run every step on the clean copy and with its faults."""
    faults, missed = FAULTS + FULL * ("--full" in sys.argv), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        for step in dict.fromkeys(fault.step for fault in faults):
            code, said = ended(step, folder)
            print(f"{'passes' if code == 0 else 'FAILS'} clean: {step}", flush=True)
            if code:
                sys.exit(said)
        for fault in faults:
            plant(fault, folder)
            code, said = ended(fault.step, folder)
            print(f"{fault.name}: exit {code}\n    " + said.replace("\n", "\n    "), flush=True)
            missed += [fault.name] * (code == 0)
            subprocess.run(["git", "checkout", "-q", "."], cwd=folder, check=True)
            subprocess.run(["git", "clean", "-qfd"], cwd=folder, check=True)
    sys.exit(f"Not detected: {', '.join(missed)}" if missed else None)


if __name__ == "__main__":
    main()
