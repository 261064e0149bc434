"""Trainings that are killed at random moments, in every stage, end as if nothing had happened."""

import multiprocessing
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guardband import pinn

SMALL: dict[str, Any] = {"warmup": 10, "batch": 64, "n_interior": 128, "n_boundary": 64}
ROWS = {"Adam": 50, "Gauss-Newton": 5, "windows": 5, "L-BFGS": 50}
"""Steps between two checkpoints."""


def recipe(stage: str, rows: int) -> pinn.Recipe:
    """A stage of so many rows of the history, or the stages before it that it needs."""
    steps = ROWS[stage] * rows
    if stage == "Adam":
        return pinn.Recipe(steps=steps, finish=0, **SMALL)
    if stage == "L-BFGS":
        return pinn.Recipe(steps=50, finish=steps, min_improvement=0.0, **SMALL)
    windows = 3 if stage == "windows" else 1
    counts = ((0, steps // windows, 0),) * windows  # made in any case, whether they gain anything or not
    return pinn.Recipe(steps=0, finish=0, newton=steps, windows=windows, counts=counts, n_interior=64)


def train(stage: str, rows: int, checkpoint: Path | None, result: Path) -> None:
    """One training, to a file of weights."""
    torch.set_num_threads(1)
    heat = stage == "windows"
    problem: pinn.Problem = pinn.problems.Heat1D() if heat else pinn.problems.AllenCahn2D()
    dropout = 0.05 if stage == "Adam" else 0.0
    net = pinn.mlp(2, [8, 8], dropout=dropout)
    data = None if heat else problem.observe(40, noise=0.05)
    fitted = pinn.fit(problem, net, data, recipe=recipe(stage, rows), checkpoint=checkpoint, progress=False)
    part = result.with_suffix(".part")
    torch.save(fitted.net.state_dict(), part)
    part.rename(result)


def killed(stage: str, rows: int, times: int, folder: Path) -> int:
    """A training that is killed so many times, each at a random moment after its next checkpoint."""
    draw = np.random.default_rng(times)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["guardband.pinn", "guardband.pinn.problems"])
    checkpoint, result = folder / "run.ckpt", folder / "killed.pt"
    kills = 0
    while not result.exists():
        before = stamp(checkpoint)
        process = processes.Process(target=train, args=(stage, rows, checkpoint, result))
        process.start()
        while process.is_alive() and (kills >= times or stamp(checkpoint) == before):
            time.sleep(0.005)
        if process.is_alive():
            time.sleep(float(draw.uniform(0, 0.05)))
            process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    return kills


def stamp(path: Path) -> int | None:
    """When a file was last written."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("stage", ROWS)
def test_a_run_that_is_killed_again_and_again_ends_bit_for_bit_alike(
    tmp_path: Path, stage: str, times: int
) -> None:
    rows = 3 * (1 + times)
    train(stage, rows, None, tmp_path / "whole.pt")
    assert killed(stage, rows, times, tmp_path) == times
    whole, again = (torch.load(tmp_path / name, weights_only=True) for name in ("whole.pt", "killed.pt"))
    assert list(whole) == list(again)
    for name in whole:
        assert torch.equal(whole[name], again[name]), name
    assert not (tmp_path / "run.ckpt").exists()
