"""Speed of this guardband relative to another release, measured in one run.

    python benchmarks/releases.py --old FOLDER [--quick]

FOLDER holds the package of the other release, such as the `src` of a checkout. Each release runs in a
separate process, with one thread and an allocator that keeps its memory. Tasks alternate, and a ratio is the
median over rounds of old seconds over new seconds. The last line is one JSON object of claims.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from claims import claim, finish

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MEMORY = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**32))
NEW = Path(__file__).parent.parent / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--old", type=Path, help="where the other release's package is")
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.quick)
    if options.old is None:
        parser.error("--old FOLDER is needed")
    old, new = (Worker(path, options.quick) for path in (options.old, NEW))
    bounds = {"bands": ">= 0.95", "evaluate": ">= 3", "local": ">= 4"}
    bounds |= dict.fromkeys(("allen_cahn", "helmholtz"), ">= 0.95")  # W2 and W3 of training.py
    claims = []
    for task, bound in bounds.items():
        rounds = 3 if task == "local" else 7
        pairs = [(old.seconds(task), new.seconds(task)) for _ in range(rounds)]
        claims.append(claim(f"{task}_old_over_new", statistics.median(a / b for a, b in pairs), bound))
    calls = old.count(), new.count()
    print(f"Python calls at one point: {calls[0]} then, {calls[1]} now")
    claims.append(claim("calls_now_over_then", calls[1] / calls[0], "<= 0.5"))
    imports = [(started(options.old, "-c", "import guardband"), started(NEW, "-c", "import guardband"))]
    imports += [(started(options.old, "-c", USE), started(NEW, "-c", USE)) for _ in range(5)]
    claims.append(claim("import_old_over_new", imports[0][0] / imports[0][1], ">= 0.95"))
    ratio = statistics.median(a / b for a, b in imports[1:])
    claims.append(claim("import_and_first_band_old_over_new", ratio, ">= 0.95"))
    for words in ("--version", "--help"):
        with_torch = float("True" in output(NEW, "-c", COMMAND.format(words=words)))
        claims.append(claim(f"torch_is_imported_by{words.replace('--', '_')}", with_torch, "<= 0"))
    finish(claims)


USE = "import numpy as np, guardband as gb; gb.calibrate_arrays(np.zeros(9), np.arange(9.0))"
COMMAND = """
import sys
sys.argv = ["guardband", "{words}"]
from guardband.cli import app
try:
    app()
except SystemExit:
    print("torch" in sys.modules)
"""


class Worker:
    """A process with one release, which runs tasks on request."""

    def __init__(self, path: Path, quick: bool) -> None:
        words = [sys.executable, __file__, "--worker", *(["--quick"] if quick else [])]
        self.process = subprocess.Popen(
            words, env=environment(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, task: str) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def seconds(self, task: str) -> float:
        return self.ask(task)

    def count(self) -> int:
        return int(self.ask("calls"))


def environment(path: Path) -> dict[str, str]:
    return {**os.environ, **THREADS, **MEMORY, "PYTHONPATH": str(path.resolve())}


def started(path: Path, *words: str) -> float:
    """CPU seconds of a Python process from start to end."""
    before = os.times()
    output(path, *words)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def output(path: Path, *words: str) -> str:
    made = subprocess.run([sys.executable, *words], env=environment(path), capture_output=True, text=True)
    return made.stdout


def work(quick: bool) -> None:
    """Run the tasks named on standard input, and print their CPU seconds."""
    tasks = made_tasks(quick)
    for line in sys.stdin:
        task = line.strip()
        if task == "calls":
            print(json.dumps(tasks[task]()), flush=True)
            continue
        start = time.process_time()
        tasks[task]()
        print(json.dumps(time.process_time() - start), flush=True)


def made_tasks(quick: bool) -> dict[str, Callable[[], object]]:
    import numpy as np

    import guardband as gb
    from guardband import pinn

    mean_only = getattr(gb.predictors, "MeanOnly", None) or gb.predictors.Constant  # type: ignore
    generator = np.random.default_rng(0)
    n, m = (100_000, 1_000_000) if quick else (1_000_000, 10_000_000)
    mean_cal, scale_cal = generator.normal(size=n), 0.1 + generator.uniform(size=n)
    y_cal = mean_cal + scale_cal * generator.normal(size=n)
    mean, scale = generator.normal(size=m), 0.1 + generator.uniform(size=m)

    def bands() -> None:
        calibrated = gb.calibrate_arrays(mean_cal, y_cal, scale_cal)
        prediction = gb.Prediction(None, mean, scale)
        for level in gb.conformal.LEVELS:
            calibrated.band(prediction, level)

    x, y = generator.uniform(size=(200, 1)), generator.normal(size=200)
    small = gb.calibrate(gb.predictors.Given(np.sin, lambda x: 1 + x), x[:100], y[:100])

    def evaluate() -> None:
        for _ in range(20):
            gb.evaluate(small, x[100:], y[100:])

    where = generator.uniform(size=(600, 3))
    noisy = (0.1 + (where[:, 0] > 0.5)) * generator.normal(size=600)
    train = gb.Observations(where[:500], noisy[:500])

    def local() -> None:
        zero = mean_only(lambda x: 0 * x[:, :1])
        gb.calibrate(zero, where[500:], noisy[500:], calibrator=gb.Local(train))

    one = gb.calibrate(mean_only(np.sin), x[:100], y[:100])
    one(x[:1])

    def calls() -> int:
        """Number of library functions called for the band at one point."""
        seen = 0

        def count(frame: object, event: str, _: object) -> None:
            nonlocal seen
            name = frame.f_code.co_filename  # type: ignore[attr-defined]
            seen += event == "call" and (f"{os.sep}guardband{os.sep}" in name or name == "<string>")

        sys.setprofile(count)
        one(x[:1])
        sys.setprofile(None)
        return seen

    tasks = {"bands": bands, "evaluate": evaluate, "local": local, "calls": calls}
    problems = pinn.problems if hasattr(pinn, "problems") else import_module("guardband.problems")
    allen_cahn, helmholtz = problems.AllenCahn2D(), problems.Helmholtz3D()
    tasks["allen_cahn"] = training(
        allen_cahn, [16, 32, 64, 64, 64, 32, 16], 300, (1024, 800), steps=2 if quick else 60
    )
    tasks["helmholtz"] = training(
        helmholtz, [32, 64, 128, 128, 128, 64, 32], 600, (8000, 6144), steps=2 if quick else 3
    )
    return tasks


def training(
    problem: Any, widths: list[int], measured: int, points: tuple[int, int], steps: int
) -> Callable[[], object]:
    """Some training steps on all points at once, in the interface of either release."""
    from guardband import pinn

    renamed = "n_interior" in pinn.Recipe.__dataclass_fields__
    words = ("n_interior", "n_boundary") if renamed else ("inside", "faces")
    recipe: Any = dict(zip(words, points, strict=True)) | {"steps": steps, "finish": 0, "batch": None}
    data, net = problem.observe(measured, noise=0.05, seed=0), pinn.mlp(problem.domain.d, widths)
    return lambda: pinn.fit(problem, net, data, recipe=pinn.Recipe(**recipe), progress=False)


if __name__ == "__main__":
    main()
