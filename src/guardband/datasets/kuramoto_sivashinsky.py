"""The Kuramoto-Sivashinsky equation on a ring, u_t = -u u_x - u_xx - u_xxxx: chaotic trajectories."""

from __future__ import annotations

import os

import numpy as np

from guardband.datasets.base import Dataset, Part, drawn, solved
from guardband.datasets.spectral import on_ring, ring, states, waves
from guardband.values.grids import Fields

MODES, DECAY = 8, 0.5
BATCH = 50
SPIN_UP = 100.0
"""Time after which a state no longer depends on how it was sampled."""


def kuramoto_sivashinsky(
    n: int = 500,
    *,
    nodes: int = 64,
    steps: int = 20,
    length: float = 22.0,
    interval: float = 1.0,
    seed: int = 0,
    refined: int = 1,
    folder: str | os.PathLike[str] | None = "usual",
    progress: bool = True,
) -> Dataset:
    """Return states on the attractor and their trajectories.

    Parameters
    ----------
    n
        Number of trajectories.
    nodes
        Number of nodes on the ring.
    steps
        Number of steps of a trajectory.
    length
        Length of the ring.
    interval
        Time between two steps.
    seed
        Seed of the initial states.
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
        Initial states, shape (n, nodes, 1), and the following states, shape (n, steps, nodes, 1). Five
        hundred trajectories of twenty steps take a few seconds and 2.5 MiB.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.datasets.kuramoto_sivashinsky(
    ...     2, nodes=32, steps=3, folder=None, progress=False
    ... ).y
    Fields(2 trajectories, t=3, x=32, 1 output)
    """
    settings = {
        "nodes": nodes,
        "steps": steps,
        "length": length,
        "interval": interval,
        "seed": seed,
        "refined": refined,
    }

    def solve(first: int, last: int) -> Part:
        coefficients = ring(drawn(seed, first, last, lambda one: one.normal(size=(MODES, 2))), DECAY)
        start = evolved(on_ring(coefficients, nodes), length, SPIN_UP, 1)[:, 0]
        return start[..., None], evolved(start, length, interval, steps, refined=refined)[..., None]

    x, y = solved("kuramoto-sivashinsky", settings, n, solve, batch=BATCH, folder=folder, progress=progress)
    places = {"x": length * np.arange(nodes) / nodes}
    times = interval * np.arange(1, steps + 1)
    return Dataset(
        Fields(x, dims="x", coordinates=places, periodic="x"),
        Fields(y, dims=("t", "x"), coordinates={"t": times, **places}, periodic="x"),
        f"Kuramoto-Sivashinsky on a ring, {steps} steps of {interval:g}",
    )


def evolved(
    start: np.ndarray, length: float, interval: float, count: int, *, refined: int = 1, step: float = 0.05
) -> np.ndarray:
    """The states after each interval, shape (n, count, nodes)."""
    nodes = start.shape[-1]
    fine = nodes * refined
    k = waves(fine, length)
    dealiased = k < 2 / 3 * k[-1]

    def flux(v: np.ndarray) -> np.ndarray:
        return -0.5j * k * dealiased * np.fft.rfft(np.fft.irfft(v, n=fine) ** 2)

    between = round(interval / step) * refined
    spectrum = np.zeros((len(start), len(k)), dtype=complex)
    spectrum[:, : nodes // 2] = refined * np.fft.rfft(start)[:, : nodes // 2]
    found = states(k**2 - k**4, flux, spectrum, step=interval / between, between=between, count=count)
    return np.stack([np.fft.irfft(v, n=fine)[:, ::refined] for v in found], axis=1)
