"""The installed wheel, as a user meets it, with torch or without: small, fast, typed, and the README runs."""

import re
import resource
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import guardband

assert "site-packages" in guardband.__file__, guardband.__file__
assert (Path(guardband.__file__).parent / "py.typed").exists()
TORCH = find_spec("torch") is not None
BAND = """
import numpy as np
import guardband as gb

x = np.linspace(0, 1, 100)
gb.calibrate(np.sin, x, np.cos(9 * x))(x, level=0.9)
"""


def seconds(*words: str) -> float:
    """CPU seconds of a fresh interpreter."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    start = spent()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return spent() - start


def best(**asked: str | list[str]) -> dict[str, float]:
    """The best of five of each, Python or a command, in turns: other work slows all of them alike."""
    commands = {name: [sys.executable, "-c", a] if isinstance(a, str) else a for name, a in asked.items()}
    turns = [{name: seconds(*words) for name, words in commands.items()} for _ in range(5)]
    return {name: min(turn[name] for turn in turns) for name in asked}


def with_torch() -> None:
    """The import is a small share of torch's."""
    found = best(bare="pass", ours="import guardband", torch="import torch")
    share = (found["ours"] - found["bare"]) / (found["torch"] - found["bare"])
    print(f"its import costs {share:.3f} of torch's")
    assert share < 0.1, share


def without_torch() -> None:
    """All packages are small, and the first answers come soon."""
    installed = Path(sysconfig.get_path("purelib"))
    files = (path for path in installed.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"site-packages, pip and pandas among them, have {size:.0f} MB")
    assert size <= 350, size
    found = best(band=BAND, version=[str(Path(sys.executable).with_name("guardband")), "--version"])
    print(f"the first band takes {found['band']:.2f} CPU seconds, --version {found['version']:.2f}")
    assert found["band"] <= 1.2 and found["version"] <= 0.5, found


print(f"guardband {guardband.__version__}, {'next to torch' if TORCH else 'without torch'}")
with_torch() if TORCH else without_torch()

blocks = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
names: dict[str, object] = {}
ran = [block for block in blocks if TORCH or not re.search(r"\b(fitted|pinn|torch)\b", block)]
for block in ran:
    exec(compile(block, "README.md", "exec"), names)
print(f"{len(ran)} of {len(blocks)} README blocks ran")
assert ran and ran[0] == blocks[0]
