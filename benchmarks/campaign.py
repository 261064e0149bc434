"""A campaign on two workers compared with one, and with a bare pool of processes.

    python benchmarks/campaign.py [--quick]

Sixteen equal training runs of about 20 s each (with `--quick`, six of 3 s) run on each of the three,
alternating two training runs at a time. The median of the ratios is robust to a machine that is slow for a
minute. Workers have started and imported torch before timing. Times are wall-clock seconds: run it on an idle
machine.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import torch

import guardband as gb
from guardband import lab, pinn
from guardband.base import engine
from guardband.lab.studies import Cell, Factory, Study, Training
from guardband.lab.studies.runner import CellRunner

Contender = Callable[[Sequence[Cell]], object]

TURN = 2
"""Number of training runs before the contenders alternate."""

RESULTS = Path(__file__).parent.parent / "results/data/campaign.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    cells = equal_cells(6 if quick else 16, 250 if quick else 2700)
    spent: dict[str, list[float]] = {}
    with on_dask(1) as one_worker, on_dask(2) as two_workers, on_pool(2) as bare_pool:
        contenders = {"one": one_worker, "two": two_workers, "pool": bare_pool}
        for first in range(0, len(cells), TURN):
            for name, contender in contenders.items():
                start = time.perf_counter()
                contender(cells[first : first + TURN])
                spent.setdefault(name, []).append(time.perf_counter() - start)
            print("  ".join(f"{name} {times[-1]:.1f} s" for name, times in spent.items()), flush=True)
    one, two, pool = (sum(times) for times in spent.values())
    print(f"{len(cells)} trainings: 1 worker {one:.1f} s, 2 workers {two:.1f} s, bare pool of 2 {pool:.1f} s")
    bounds = ("<= 4", "<= 4") if quick else ("<= 0.6", "<= 1.05")
    claims = [
        claim("two_workers_vs_one", median_ratio(spent["two"], spent["one"]), bounds[0]),
        claim("two_workers_vs_bare_pool", median_ratio(spent["two"], spent["pool"]), bounds[1]),
    ]
    if not quick:
        measured = {"one_worker": round(one, 1), "two_workers": round(two, 1), "bare_pool": round(pool, 1)}
        RESULTS.write_text(json.dumps({"claims": claims, **measured}, indent=1) + "\n")
    finish(claims)


def median_ratio(times: Sequence[float], others: Sequence[float]) -> float:
    return median(a / b for a, b in zip(times, others, strict=True))


def equal_cells(n: int, steps: int) -> list[Cell]:
    problem = pinn.problems.AllenCahn2D()
    widths = lab.paper.settings(problem).widths
    recipe = pinn.Recipe(steps=steps, finish=0)
    trainings = [Training(problem, widths, 300, seed=seed, recipe=recipe) for seed in range(n)]
    return [Cell("bench", "constant", t, Factory(gb.predictors.MeanOnly), draws=5) for t in trainings]


@contextmanager
def on_dask(workers: int) -> Iterator[Contender]:
    with tempfile.TemporaryDirectory() as folder, engine.connect(workers) as client:
        client.run(warm)
        yield lambda cells: lab.campaign.run(
            Study("bench", cells, lambda *_: None), folder, on=client, progress=False
        )


@contextmanager
def on_pool(workers: int) -> Iterator[Contender]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=warm) as pool:
        list(pool.map(time.sleep, [1] * workers))
        yield lambda cells: list(pool.map(bare, cells))


def bare(cell: Cell) -> float:
    return CellRunner(Path(tempfile.mkdtemp())).run(cell)["found"]["l2"]


def warm() -> None:
    """Import everything, and use one thread."""
    torch.set_num_threads(1)
    bare(equal_cells(1, 3)[0])


if __name__ == "__main__":
    main()
