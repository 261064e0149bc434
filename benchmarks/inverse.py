"""Unknown coefficients inferred with the field, on inverse problems of DeepXDE's documentation.

    python benchmarks/inverse.py [--engines PYTHON] [--seeds 10 11 12] [--out FILE] [--page]

The problems are the Lorenz system and a diffusion-reaction system, with the parameters that DeepXDE documents
and noise-free readings integrated here. DeepXDE runs in `--engines` with the networks, points, optimizer and
iterations of its documentation; guardband uses the defaults of `pinn.fit` and a range for each
coefficient. Times are CPU seconds of the training call, on one thread. Each run appends a line, and finished
runs are not repeated.
"""

import argparse
import json
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ledger import Ledger
from peers.inverse_problems import PROBLEMS

import guardband as gb
from guardband import pinn
from guardband.base import files

torch.set_num_threads(1)
HERE = Path(__file__).parent
LEDGER = Ledger("inverse")
ITERATIONS = {"Lorenz": 60_000, "diffusion-reaction": 80_000}
"""From DeepXDE's documentation."""


@dataclass(frozen=True)
class Lorenz(pinn.Problem):
    """x' = C1 (y - x), y' = x (C2 - z) - y, z' = x y - C3 z, for three units of time."""

    C1: float | pinn.Unknown
    C2: float | pinn.Unknown
    C3: float | pinn.Unknown
    domain = pinn.Time(0, 3)
    outputs = ("x", "y", "z")

    def residual(self, at: torch.Tensor, w: pinn.problems.Field) -> dict[str, torch.Tensor]:
        x, y, z = (w[name] for name in ("x", "y", "z"))
        return {
            "x": x.d("t") - self.C1 * (y.value - x.value),
            "y": y.d("t") - x.value * (self.C2 - z.value) + y.value,
            "z": z.d("t") - x.value * y.value + self.C3 * z.value,
        }

    def conditions(self) -> list[pinn.problems.Condition]:
        starts = {"x": -8.0, "y": 7.0, "z": 27.0}
        return [pinn.Initial(value, output=name) for name, value in starts.items()]


@dataclass(frozen=True)
class DiffusionReaction(pinn.Problem):
    """a_t = D a_xx - k a b^2, b_t = D b_xx - 2 k a b^2, with D in thousandths."""

    rate: float | pinn.Unknown
    diffusivity: float | pinn.Unknown
    domain = pinn.Segment(0, 1) * pinn.Time(0, 10)
    outputs = ("a", "b")

    def residual(self, at: torch.Tensor, w: pinn.problems.Field) -> dict[str, torch.Tensor]:
        a, b = w["a"], w["b"]
        used = self.rate * a.value * b.value**2
        spread = 1e-3 * self.diffusivity
        return {
            "a": a.d("t") - spread * a.d("x", "x") + used,
            "b": b.d("t") - spread * b.d("x", "x") + 2 * used,
        }

    def conditions(self) -> list[pinn.problems.Condition]:
        return [
            pinn.Dirichlet(lambda x: 1 - x[:, :1]),
            pinn.Initial(lambda x: torch.exp(-20 * x[:, :1])),
        ]


KINDS = {"Lorenz": Lorenz, "diffusion-reaction": DiffusionReaction}


def main() -> None:
    options = arguments()
    LEDGER.move(options.out)
    for seed in [] if options.page else options.seeds:
        for name in options.problems:
            for engine in options.contenders:
                key = {"problem": name, "engine": engine, "seed": seed}
                if not LEDGER.rows(**key):
                    found = (
                        ours(name, seed) if engine == "guardband" else by_peer(name, seed, options.engines)
                    )
                    LEDGER.add([key | row for row in found])
    files.write_text(LEDGER.page, page())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--contenders", nargs="+", default=["guardband", "deepxde"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--engines", default=sys.executable, help="a Python that has deepxde")
    parser.add_argument("--out", type=Path, default=LEDGER.path)
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    return parser.parse_args()


def ours(name: str, seed: int) -> list[dict[str, Any]]:
    """A run of `pinn.fit` with its defaults."""
    stated = PROBLEMS[name]
    unknown = {key: pinn.Unknown(0.0, stated.high[key], start=stated.start[key]) for key in stated.truth}
    problem = KINDS[name](**unknown)
    data = gb.Observations(*stated.readings())
    net = pinn.mlp(problem, seed=seed)
    start = time.process_time()
    fitted = pinn.fit(problem, net, data, seed=seed, progress=False)
    seconds = round(time.process_time() - start, 1)
    values = {key: fitted.estimates[key] for key in stated.truth}
    return [{"seconds": seconds, "values": values, "verdict": fitted.verdict.word}]


def by_peer(name: str, seed: int, engines: str) -> list[dict[str, Any]]:
    """A run of DeepXDE in a separate process, which measures itself."""
    command = [engines, "-m", "peers.inverse_by_deepxde", name, "--seed", str(seed)]
    done = subprocess.run(
        [*command, "--iterations", str(ITERATIONS[name])],
        env=os.environ | {"PYTHONPATH": str(HERE), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def error(row: dict[str, Any]) -> float:
    """The largest relative error of a coefficient."""
    truth = PROBLEMS[row["problem"]].truth
    return max(abs(row["values"][name] / value - 1) for name, value in truth.items())


def page() -> str:
    """The Markdown page."""
    lines = [
        "# Unknown coefficients on inverse problems of DeepXDE",
        "",
        "Written by `python benchmarks/inverse.py`: the largest relative error of a coefficient and the CPU "
        "seconds of the training call, on one thread with noise-free readings. DeepXDE uses the networks, "
        "points, optimizer and iterations of its documentation and is evaluated ten times during training; "
        "the last column shows the time after which its largest error stays below 1 %. Guardband uses the "
        "defaults of `pinn.fit`.",
        "",
        "| problem | engine | seeds | error, median | worst | CPU s | below 1 % after |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in PROBLEMS:
        for engine in ("guardband", "deepxde"):
            runs = by_seed(LEDGER.rows(problem=name, engine=engine))
            if runs:
                errors = [error(run[-1]) for run in runs]
                seconds = statistics.median(run[-1]["seconds"] for run in runs)
                lines.append(
                    f"| {name} | {engine} | {len(runs)} | {statistics.median(errors):.1e} | "
                    f"{max(errors):.1e} | {seconds:.0f} | {settled(runs)} |"
                )
    return "\n".join([*lines, ""])


def by_seed(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each seed in the order of time."""
    return [[row for row in rows if row["seed"] == seed] for seed in sorted({row["seed"] for row in rows})]


def settled(runs: list[list[dict[str, Any]]]) -> str:
    """The median time after which the error stays below 1 %."""
    times = list[float]()
    for run in runs:
        late = [i for i, row in enumerate(run) if error(row) > 0.01]
        after = run[late[-1] + 1 :] if late else run
        times.append(after[0]["seconds"] if after else float("inf"))
    found = statistics.median(times)
    return "-" if found == float("inf") else f"{found:.0f}"


if __name__ == "__main__":
    main()
