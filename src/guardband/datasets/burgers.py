"""Burgers' equation on a ring: u_t + u u_x = viscosity u_xx, from the velocity at time 0 to time 1."""

from __future__ import annotations

import os

import numpy as np

from guardband.datasets.base import Dataset, Part, drawn, solved
from guardband.datasets.spectral import on_ring, ring, states, waves
from guardband.values.grids import Fields

LENGTH, MODES, DECAY = 2 * np.pi, 8, 1.0
SIZES = 0.3, 1.5
BATCH = 100


def burgers(
    n: int = 1000,
    *,
    nodes: int = 64,
    alike: bool = False,
    viscosity: float = 0.1,
    seed: int = 0,
    refined: int = 4,
    folder: str | os.PathLike[str] | None = "usual",
    progress: bool = True,
) -> Dataset:
    """Return velocities on a ring of length 2 pi at time 0 and at time 1.

    Inputs are random fields of eight Fourier modes, whose sizes vary by a factor of five, so the errors of a
    surrogate vary in size too.

    Parameters
    ----------
    n
        Number of samples.
    nodes
        Number of nodes on the ring.
    alike
        Whether to draw all inputs with the same size.
    viscosity
        Viscosity of the equation.
    seed
        Seed of the inputs.
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
        Velocities at time 0 and at time 1, each of shape (n, nodes, 1). A thousand samples take a few
        seconds and 0.5 MiB.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.datasets.burgers(8, nodes=32, folder=None, progress=False)
    Dataset(8 rows, 0.00195 MiB: Burgers on a ring, time 0 to 1)
    """
    settings = {"nodes": nodes, "alike": alike, "viscosity": viscosity, "seed": seed, "refined": refined}

    def solve(first: int, last: int) -> Part:
        coefficients = ring(drawn(seed, first, last, lambda one: one.normal(size=(MODES, 2))), DECAY)
        sizes = drawn(seed + 1, first, last, lambda one: np.exp(one.uniform(*np.log(SIZES), size=1)))
        coefficients = coefficients * (1.0 if alike else sizes)
        return on_ring(coefficients, nodes)[..., None], after(coefficients, nodes, viscosity, refined)

    x, y = solved("burgers", settings, n, solve, batch=BATCH, folder=folder, progress=progress)
    places = {"x": LENGTH * np.arange(nodes) / nodes}
    fields = [Fields(part, dims="x", coordinates=places, periodic="x") for part in (x, y)]
    return Dataset(*fields, about="Burgers on a ring, time 0 to 1")


def after(coefficients: np.ndarray, nodes: int, viscosity: float, refined: int) -> np.ndarray:
    """The velocity at time 1, shape (n, nodes, 1)."""
    fine, steps = nodes * refined, 50 * refined
    k = waves(fine, LENGTH)
    dealiased = k < 2 / 3 * k[-1]

    def flux(v: np.ndarray) -> np.ndarray:
        return -0.5j * k * dealiased * np.fft.rfft(np.fft.irfft(v, n=fine) ** 2)

    start = np.fft.rfft(on_ring(coefficients, fine))
    (v,) = states(-viscosity * k**2, flux, start, step=1 / steps, between=steps, count=1)
    return np.fft.irfft(v, n=fine)[:, ::refined, None]
