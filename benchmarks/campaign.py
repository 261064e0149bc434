"""A campaign on two workers against one, and against a bare pool of processes doing the same.

    python benchmarks/campaign.py [--quick]

Sixteen equal trainings of some 20 s each (with `--quick`, six of 3 s). Workers are started and have imported
torch before the clock starts, in all three. Wall-clock seconds: run it on a quiet machine.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import torch

import guardband as gb
from guardband import engine
from guardband.studies import Cell, Study, Training, Use
from guardband.studies.workshop import Workshop

RESULTS = Path(__file__).parent.parent / "results" / "campaign.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    cells = equal_cells(6 if quick else 16, 250 if quick else 2700)
    one, two, pool = on_dask(cells, 1), on_dask(cells, 2), on_pool(cells, 2)
    print(f"{len(cells)} trainings: 1 worker {one:.1f} s, 2 workers {two:.1f} s, bare pool of 2 {pool:.1f} s")
    claims = [
        claim("two_workers_vs_one", two / one, 0.6),
        claim("two_workers_vs_bare_pool", two / pool, 1.05),
    ]
    print(json.dumps({"claims": [] if quick else claims}))
    if not quick:
        measured = {"one_worker": round(one, 1), "two_workers": round(two, 1), "bare_pool": round(pool, 1)}
        RESULTS.write_text(json.dumps({"claims": claims, **measured}, indent=1) + "\n")


def claim(name: str, value: float, bound: float) -> dict[str, object]:
    return {"name": name, "value": round(value, 3), "bound": f"<= {bound}", "holds": value <= bound}


def equal_cells(n: int, steps: int) -> list[Cell]:
    problem = gb.problems.AllenCahn2D()
    assert problem.paper is not None
    recipe = gb.Recipe(steps=steps, finish=0)
    trainings = [Training(problem, problem.paper.widths, 300, seed=seed, recipe=recipe) for seed in range(n)]
    return [Cell("bench", "constant", t, Use(gb.predictors.Constant), draws=5) for t in trainings]


def on_dask(cells: Sequence[Cell], workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder, engine.connect(workers) as client:
        client.run(warm)
        start = time.perf_counter()
        gb.campaign.run(Study("bench", cells, lambda *_: None), folder, client=client, progress=False)
        return time.perf_counter() - start


def on_pool(cells: Sequence[Cell], workers: int) -> float:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=warm) as pool:
        list(pool.map(time.sleep, [1] * workers))
        start = time.perf_counter()
        list(pool.map(bare, cells))
        return time.perf_counter() - start


def bare(cell: Cell) -> float:
    return Workshop(Path(tempfile.mkdtemp())).run(cell)["found"]["l2"]


def warm() -> None:
    """Import everything, and use one thread."""
    torch.set_num_threads(1)
    bare(equal_cells(1, 3)[0])


if __name__ == "__main__":
    main()
