"""Shared code of reference scripts: grids that are dense where the solution bends, and their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from guardband.pinn.problems.reference import Grid

DATA = Path(__file__).parents[2] / "src/guardband/pinn/problems/catalogue/data"
LIMIT = 200_000
"""The largest size of a file in bytes."""


def graded(x: np.ndarray, bends: np.ndarray, n: int, even: float = 0.5) -> np.ndarray:
    """n lines from the first x to the last, placed by the curvature of a solution; `even` of them evenly."""
    density = np.sqrt(np.abs(bends))
    width = max(3, len(x) // 64)
    density = np.convolve(np.pad(density, width, "edge"), np.ones(width) / width, "same")[width:-width]
    density = (1 - even) * density / np.trapezoid(density, x) + even / (x[-1] - x[0])
    share = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))])
    return np.interp(np.linspace(0, share[-1], n), share, x)


def write(
    name: str,
    outputs: Sequence[str],
    axes: Sequence[np.ndarray],
    exact: Callable[..., np.ndarray],
    refinement: tuple[np.ndarray, np.ndarray],
    checks: Mapping[str, float],
) -> None:
    """Store a solution on a grid, with the error measured at 20,000 points between its lines.

    `exact` gives the values (..., m) on the grid of some axes; `refinement` is the difference from a finer
    computation, for each output, in the root mean square and at its largest.
    """
    values = exact(*axes).astype(np.float32)
    kept: dict[str, Any] = {f"axis{i}": axis for i, axis in enumerate(axes)} | {"values": values}
    rng = np.random.default_rng(0)
    places = [np.sort(rng.uniform(axis[0], axis[-1], 20_000 if len(axes) == 1 else 141)) for axis in axes]
    truth = exact(*places).reshape(-1, len(outputs))
    x = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1).reshape(-1, len(axes))
    off = Grid(kept)(torch.from_numpy(x)).numpy() - truth
    error = np.sqrt((off**2).mean(0) / (truth**2).mean(0)) + refinement[0]
    largest = np.abs(off).max(0) / np.abs(truth).max(0) + refinement[1]
    file = DATA / f"{name}.npz"
    said = {"outputs": np.array(outputs), "error": error, "largest": largest, "checks": json.dumps(checks)}
    np.savez_compressed(file, allow_pickle=False, **kept, **said)
    size = file.stat().st_size
    print(f"{name}: {size:,} bytes, error {error}, largest {largest}, {dict(checks)}")
    assert size <= LIMIT, f"{name} should have at most {LIMIT:,} bytes, it has {size:,}"


def differences(coarse: np.ndarray, fine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The relative difference of a solution (..., m) from a finer one: root mean square, and largest."""
    off, size = (part.reshape(-1, fine.shape[-1]) for part in (coarse - fine, fine))
    rms = np.sqrt((off**2).mean(0) / (size**2).mean(0))
    return rms, np.abs(off).max(0) / np.abs(size).max(0)
