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
    """CPU seconds, the best of several fresh interpreters."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    best = float("inf")
    for _ in range(5):
        start = spent()
        subprocess.run([sys.executable, "-c", statement], check=True)
        best = min(best, spent() - start)
    return best


extra = seconds("import torch, guardband") - seconds("import torch")
print(f"guardband {guardband.__version__}: import costs {extra:.2f} CPU s over torch")
assert extra < 0.5, extra

blocks = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
names: dict[str, object] = {}
for block in blocks:
    exec(compile(block, "README.md", "exec"), names)
print(f"{len(blocks)} README blocks ran")
