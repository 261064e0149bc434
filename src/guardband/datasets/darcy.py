"""Darcy flow on the unit square, -div(a grad u) = 1 with u = 0 at the boundary: from permeability to u."""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from guardband.datasets.base import Dataset, Part, drawn, solved
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
    """Return permeabilities and the pressures of Darcy flow on a square grid.

    The permeability is the exponential of a random field of 8 x 8 cosines, evaluated at the center of each
    cell. The pressure is the mean over the cell, computed with finite volumes.

    Parameters
    ----------
    n
        Number of samples.
    nodes
        Number of cells along each axis.
    seed
        Seed of the permeabilities.
    refined
        Factor by which the solver's grid is finer than the returned one.
    folder
        Folder in which solutions are stored, by default `GUARDBAND_DATA` or the user's cache; None stores
        nothing.
    progress
        Show a progress bar.

    Returns
    -------
    Dataset
        Permeability and pressure, each of shape (n, nodes, nodes, 1). A thousand samples on 32 x 32 cells
        take about a minute and 8 MiB.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.datasets.darcy(2, nodes=8, folder=None, progress=False)
    Dataset(2 rows, 0.000977 MiB: Darcy on a square)
    """
    settings = {"nodes": nodes, "seed": seed, "refined": refined}

    def solve(first: int, last: int) -> Part:
        draws = drawn(seed, first, last, lambda one: one.normal(size=(MODES, MODES)))
        return permeability(draws, nodes)[..., None], pressure(draws, nodes, refined)[..., None]

    x, y = solved("darcy", settings, n, solve, batch=BATCH, folder=folder, progress=progress)
    places = {axis: (np.arange(nodes) + 0.5) / nodes for axis in ("x", "y")}
    return Dataset(
        *(Fields(part, dims=("x", "y"), coordinates=places) for part in (x, y)), about="Darcy on a square"
    )


def permeability(draws: np.ndarray, cells: int) -> np.ndarray:
    """The permeability at the center of each cell, shape (n, cells, cells)."""
    k = np.arange(MODES)
    size = (1.0 + k[:, None] ** 2 + k**2) ** (-DECAY / 2)
    size[0, 0] = 0
    waves = np.cos(np.pi * np.outer((np.arange(cells) + 0.5) / cells, k))
    return np.exp(SPREAD * np.einsum("nkl,ik,jl->nij", draws * size, waves, waves))


def pressure(draws: np.ndarray, nodes: int, refined: int) -> np.ndarray:
    """The pressure, shape (n, nodes, nodes), each a mean over refined x refined finite volumes."""
    fine = nodes * refined
    solutions = np.stack([_solution(a) for a in permeability(draws, fine)])
    return solutions.reshape(-1, nodes, refined, nodes, refined).mean(axis=(2, 4))


def _solution(a: np.ndarray) -> np.ndarray:
    """The pressure by finite volumes: fluxes use harmonic means, and half a cell at the boundary."""
    cells = len(a)
    across = _conductances(a)
    along = _conductances(a.T)
    diagonal = across[1:] + across[:-1] + (along[1:] + along[:-1]).T
    lower, side = -across[1:-1].ravel(), -along.T[:, 1:].copy()
    side[:, -1] = 0
    offsets = [0, 1, -1, cells, -cells]
    diagonals = [diagonal.ravel(), side.ravel()[:-1], side.ravel()[:-1], lower, lower]
    matrix = sparse.diags_array(diagonals, offsets=offsets, format="csc")  # type: ignore[arg-type]
    return np.asarray(spsolve(matrix, np.full(cells * cells, cells**-2.0))).reshape(cells, cells)


def _conductances(a: np.ndarray) -> np.ndarray:
    """Conductances along the first axis, between cells and at the boundary, shape (cells + 1, cells)."""
    inner = 2 * a[1:] * a[:-1] / (a[1:] + a[:-1])
    return np.concatenate([2 * a[:1], inner, 2 * a[-1:]])
