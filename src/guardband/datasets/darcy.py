"""Darcy flow on the unit square: -div(a grad u) = 1, u = 0 at the boundary, from the permeability to u."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from guardband.datasets.base import Dataset, Part, drawn, solved, usual_folder
from guardband.values.grids import Fields

MODES, DECAY, SPREAD = 8, 1.5, 0.8
BATCH = 20


def darcy(
    n: int = 1000,
    *,
    nodes: int = 32,
    seed: int = 0,
    refined: int = 2,
    folder: str | os.PathLike[str] | None = "usual",
    progress: bool = True,
) -> Dataset:
    """A permeability, the exponential of a random field of 8 x 8 cosines, and the pressure on a grid.

    The permeability is that at the middle of a cell, the pressure the mean over it, by finite volumes
    `refined` times as fine. A thousand of 32 x 32 take about a minute and 8 MiB.

    >>> import guardband as gb
    >>> gb.datasets.darcy(2, nodes=8, folder=None, progress=False)
    Dataset(2 rows, 0.000977 MiB: Darcy on a square)
    """
    settings = {"nodes": nodes, "seed": seed, "refined": refined}

    def solve(first: int, last: int) -> Part:
        draws = drawn(seed, first, last, lambda one: one.normal(size=(MODES, MODES)))
        return permeability(draws, nodes)[..., None], pressure(draws, nodes, refined)[..., None]

    where = usual_folder() if folder == "usual" else folder
    x, y = solved("darcy", settings, n, solve, batch=BATCH, folder=where, progress=progress)
    places = {axis: (np.arange(nodes) + 0.5) / nodes for axis in ("x", "y")}
    return Dataset(
        *(Fields(part, dims=("x", "y"), coordinates=places) for part in (x, y)), about="Darcy on a square"
    )


def permeability(draws: np.ndarray, cells: int) -> np.ndarray:
    """The permeability (n, cells, cells) at the middle of each cell."""
    k = np.arange(MODES)
    size = (1.0 + k[:, None] ** 2 + k**2) ** (-DECAY / 2)
    size[0, 0] = 0
    waves = np.cos(np.pi * np.outer((np.arange(cells) + 0.5) / cells, k))
    return np.exp(SPREAD * np.einsum("nkl,ik,jl->nij", draws * size, waves, waves))


def pressure(draws: np.ndarray, nodes: int, refined: int) -> np.ndarray:
    """The pressure (n, nodes, nodes), means over refined x refined finite volumes each."""
    fine = nodes * refined
    found = np.stack([_solved(a) for a in permeability(draws, fine)])
    return found.reshape(-1, nodes, refined, nodes, refined).mean(axis=(2, 4))


def _solved(a: np.ndarray) -> np.ndarray:
    """Finite volumes: fluxes by harmonic means between cells, over half a cell at the boundary."""
    cells = len(a)
    across = _conductances(a)
    along = _conductances(a.T)
    diagonal = across[1:] + across[:-1] + (along[1:] + along[:-1]).T
    below, beside = -across[1:-1].ravel(), -along.T[:, 1:].copy()
    beside[:, -1] = 0
    offsets = [0, 1, -1, cells, -cells]
    bands = [diagonal.ravel(), beside.ravel()[:-1], beside.ravel()[:-1], below, below]
    matrix: Any = sparse.diags_array(bands, offsets=offsets, format="csc")  # type: ignore[arg-type]
    return np.asarray(spsolve(matrix, np.full(cells * cells, cells**-2.0))).reshape(cells, cells)


def _conductances(a: np.ndarray) -> np.ndarray:
    """Between cells along the first axis, (cells + 1, cells), the boundary included."""
    inner = 2 * a[1:] * a[:-1] / (a[1:] + a[:-1])
    return np.concatenate([2 * a[:1], inner, 2 * a[-1:]])
