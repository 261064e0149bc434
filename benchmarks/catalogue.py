"""Accuracy and cost of `fit` on each problem of the catalogue, with the default settings of version 0.1.

    python benchmarks/catalogue.py [--only Burgers1D] [--seeds 10-12] [--page]

Everything runs on one core. Every problem is trained on its equation alone, and with 300 noisy readings of
all its outputs. Each run appends a line to `results/data/catalogue.jsonl`, finished runs are not repeated,
and the page `results/catalogue.md` summarizes all of them. The error is relative L2 with respect to the
solution at 10 000 uniform points; the noise is a hundredth of the spread of each output. Settings were chosen
on the paper's four problems, not on these, and no bound is set.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
import warnings
from typing import Any

import numpy as np
import torch
from ledger import Ledger

import guardband as gb
from guardband import pinn
from guardband.base import files
from guardband.pinn.misses.likelihood import PHYSICS_SHARE, typical_residual
from guardband.pinn.problems import Problem, catalogue

torch.set_num_threads(1)
LEDGER = Ledger("catalogue")
PROBLEMS: dict[str, Problem] = {name: getattr(catalogue, name)() for name in catalogue.__all__}
PROBLEMS["Cavity, Re 400"] = catalogue.Cavity(reynolds=400)
READINGS = 300
NOISE = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PROBLEMS, help="one problem")
    parser.add_argument("--seeds", default="10-12", help="first-last")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    for seed in [] if options.page else range(first, last + 1):
        for name in [options.only] if options.only else PROBLEMS:
            for readings in (0, READINGS):
                if not LEDGER.rows(problem=name, readings=readings, seed=seed):
                    LEDGER.add([run(name, readings, seed)])
                    files.write_text(LEDGER.page, table())
    files.write_text(LEDGER.page, table())


def network(problem: pinn.Problem, seed: int) -> pinn.MLP:
    """The network of version 0.1: layers 16 times as wide as there are inputs and outputs."""
    names = problem.names
    width = min(64, max(32, 16 * (len(names.axes) + len(names.outputs))))
    return pinn.mlp(problem, [width] * 3, seed=seed)


def scales(problem: pinn.Problem, size: float, noise: float) -> pinn.Likelihood:
    """The noise scales of version 0.1: one for all equations and one for all conditions."""
    sizes = torch.full((len(problem.names.outputs),), size)
    typical = typical_residual(problem, problem.misses, None, sizes).square().sum().sqrt()
    return pinn.Likelihood(data=noise, physics=PHYSICS_SHARE * float(typical), boundary=noise)


def run(name: str, readings: int, seed: int) -> dict[str, object]:
    """One training run, and its error in each output."""
    problem = PROBLEMS[name]
    outputs = problem.names.outputs
    x = problem.domain.uniform(10_000, torch.Generator().manual_seed(seed), dtype=torch.float64)
    truth = problem.solution(x)
    data, likelihood = None, scales(problem, 1.0, 0.05)
    if readings:
        exact = problem.observe(readings, seed=1000 + seed)
        noise = NOISE * truth.std(0).to(exact.y.dtype)
        draw = torch.randn(exact.y.shape, generator=torch.Generator().manual_seed(2000 + seed))
        data = gb.Observations(exact.x, exact.y + noise * draw)
        size = float(data.y.square().mean().sqrt())
        likelihood = scales(problem, size, float(noise.mean()))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = pinn.fit(
            problem,
            network(problem, seed),
            data,
            likelihood=likelihood,
            recipe=pinn.Recipe(),
            seed=seed,
            progress=False,
        )
    seconds = time.process_time() - start
    found = torch.as_tensor(np.asarray(fitted(x.float()))).double()
    error = (found - truth).square().mean(0).sqrt() / truth.square().mean(0).sqrt()
    return {
        "problem": name,
        "readings": readings,
        "seed": seed,
        "error": dict(zip(outputs, (float(f"{e:.4g}") for e in error.tolist()), strict=True)),
        "finite": bool(torch.isfinite(found).all()),
        "cpu_seconds": round(seconds, 1),
        "torch": torch.__version__,
        "guardband": gb.__version__,
    }


def table() -> str:
    """The Markdown page."""
    lines = [
        "# The catalogue with Adam and L-BFGS",
        "",
        "Written by `python benchmarks/catalogue.py`: CPU seconds on one core. The network of version 0.1 is "
        "trained by `pinn.Recipe()` with one noise scale for all equations and one for all conditions, as in "
        f"that version, on the equation alone and with {READINGS} readings whose noise is a hundredth of the "
        "spread of each output. Entries are relative L2 errors of each output in percent, as medians over "
        "the seeds. No setting was chosen on these problems, and no bound is set.",
        "",
        "| problem | seeds | equation alone, % | CPU s | with readings, % | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for name in PROBLEMS:
        alone, helped = (LEDGER.rows(problem=name, readings=n) for n in (0, READINGS))
        if alone and helped:
            cells = [name, str(min(len(alone), len(helped)))]
            lines.append(f"| {' | '.join(cells + _cells(alone) + _cells(helped))} |")
    return "\n".join(lines) + "\n"


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    """The median error of each output, in percent, and the median time."""
    outputs = list(rows[0]["error"])
    medians = [f"{100 * np.median([row['error'][output] for row in rows]):.2g}" for output in outputs]
    said = medians if len(outputs) == 1 else [f"{o} {m}" for o, m in zip(outputs, medians, strict=True)]
    return [", ".join(said), f"{np.median([row['cpu_seconds'] for row in rows]):.0f}"]


if __name__ == "__main__":
    main()
