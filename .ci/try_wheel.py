"""The installed wheel, as a user meets it: it imports quickly, is typed, and the README runs."""

import re
import subprocess
import sys
import time
from pathlib import Path

import guardband

assert "site-packages" in guardband.__file__, guardband.__file__
assert (Path(guardband.__file__).parent / "py.typed").exists()


def seconds(statement: str) -> float:
    """The best of several fresh interpreters."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        best = min(best, time.perf_counter() - start)
    return best


extra = seconds("import torch, guardband") - seconds("import torch")
print(f"guardband {guardband.__version__}: import costs {extra:.2f} s over torch")
assert extra < 0.5, extra

blocks = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
names: dict[str, object] = {}
for block in blocks:
    exec(compile(block, "README.md", "exec"), names)
print(f"{len(blocks)} README blocks ran")
