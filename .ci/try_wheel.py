"""The installed wheel, as a user meets it: it imports quickly, is typed, and the README runs."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import guardband

assert "site-packages" in guardband.__file__, guardband.__file__
assert (Path(guardband.__file__).parent / "py.typed").exists()


def seconds(statement: str) -> float:
    """CPU seconds of a fresh interpreter."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    start = spent()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return spent() - start


# Taken in turns, the best of each, as a share of torch's: other work on the machine slows all of them alike.
turns = [[seconds(statement) for statement in ("pass", "import guardband", "import torch")] for _ in range(5)]
bare, ours, torch = (min(column) for column in zip(*turns, strict=True))
share = (ours - bare) / (torch - bare)
print(f"guardband {guardband.__version__}: its import costs {share:.3f} of torch's")
assert share < 0.1, share

blocks = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
names: dict[str, object] = {}
for block in blocks:
    exec(compile(block, "README.md", "exec"), names)
print(f"{len(blocks)} README blocks ran")
