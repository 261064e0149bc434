"""How often the verdict is right, on trainings of ten kinds that went well or wrong.

    python benchmarks/verdicts.py [--nets FOLDER]

One core, about 25 CPU minutes. `verdict_runs.py` lists the runs. Trained networks are kept in a folder, and
those that are there are not trained again.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import pickle
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from verdict_runs import RECIPES, Run, runs

import guardband as gb
from guardband import files
from guardband.pinn.likelihood import PHYSICS_SHARE, typical_residual

torch.set_num_threads(1)
READINGS, NOISE = 30, 0.02
"""Held-out readings, and how far they are off, as a share of the spread of each output."""
TRAINING, TRAINING_NOISE = 200, 0.05
"""The same of the readings that noisy runs are trained on, and of what is held out of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nets", type=Path, default=Path(tempfile.gettempdir()) / "guardband-verdicts")
    folder: Path = parser.parse_args().nets
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs():
        print(run, *trained(run, folder)[1:], flush=True)


def trained(run: Run, folder: Path) -> tuple[nn.Module, float]:
    """The network of a run and the CPU seconds of its training, from the folder if it is there."""
    path = folder / f"{'-'.join(map(str, run))}.pickle".replace(" ", "_")
    if not path.exists():
        start = time.process_time()
        net = train(run)
        files.write_bytes(path, pickle.dumps((net, time.process_time() - start)))
    return pickle.loads(path.read_bytes())


def train(run: Run) -> nn.Module:
    """One training, as its kind wants it."""
    problem, options = run.given, dict[str, Any]()
    if run.kind == "noisy data":
        noise = spread(run.true) * TRAINING_NOISE
        options["training_data"] = readings(run.true, TRAINING, noise, run.seed)
        options["likelihood"] = gb.Likelihood(
            data=dict(zip(problem.names.outputs, noise.tolist(), strict=True))
        )
    elif run.kind == "good" and run.problem == "AllenCahn2D":  # which only readings make unique
        options["training_data"] = readings(run.true, 20, torch.zeros(1), run.seed)
    elif run.kind == "spurious" and hasattr(problem, "another"):
        x = problem.domain.quasi(40, seed=run.seed, dtype=torch.float64)
        options["training_data"] = gb.Observations(x, problem.another(x, run.seed))  # type: ignore[attr-defined]
    elif run.kind == "badly scaled":
        options["likelihood"] = badly_scaled(run)
    widths = [16, 16] if problem.domain.d == 1 else [24, 24]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            net = gb.mlp(problem, widths, seed=run.seed)
            fitted = gb.fit(
                problem, net, recipe=RECIPES[run.recipe], seed=run.seed, progress=False, **options
            )
        except gb.TrainingDiverged as error:
            fitted = error.fitted
    return fitted.net


def badly_scaled(run: Run) -> gb.Likelihood:
    """Scales for fields of size 1: equation or conditions a thousand times too loose, or the units wrong."""
    ones = torch.ones(len(run.true.names.outputs))
    physics = PHYSICS_SHARE * float(
        typical_residual(run.true, run.true.misses, None, ones).square().mean().sqrt()
    )
    loose = 1.0 if "1000" in run.problem else 1000.0
    first = run.seed % 2 == 0
    return gb.Likelihood(
        data=0.05, physics=physics * (loose if first else 1.0), boundary=0.05 * (1.0 if first else loose)
    )


def spread(problem: gb.Problem) -> Tensor:
    """How much each output of the solution varies over the domain, (m,)."""
    return problem.solution(problem.domain.quasi(2000, dtype=torch.float64)).std(dim=0)


def readings(problem: gb.Problem, n: int, noise: Tensor, seed: int) -> gb.Observations:
    """n readings of the solution with noise of its own for each output."""
    exact = problem.observe(n, seed=seed, dtype=torch.float64)
    draw = torch.randn(exact.y.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return gb.Observations(exact.x, exact.y + noise * draw)


if __name__ == "__main__":
    main()
