"""Periodic equations in Fourier space, by exponential time differencing of fourth order.

The scheme solves u_t = L u + N(u), where L is diagonal in Fourier space and integrated exactly. (Cox and
Matthews 2002, with the contour integrals of Kassam and Trefethen 2005)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

CIRCLE = np.exp(1j * np.pi * (np.arange(1, 33) - 0.5) / 32)
"""Points on a circle around each value of L dt, at which the contour integrals are evaluated."""


def states(
    linear: np.ndarray,
    nonlinear: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    step: float,
    between: int,
    count: int,
) -> Iterator[np.ndarray]:
    """The Fourier coefficients at `count` times, with `between` steps from one time to the next."""
    whole, half = np.exp(step * linear), np.exp(step * linear / 2)
    z = step * linear[..., None] + CIRCLE
    e = np.exp(z)

    def mean(values: np.ndarray) -> np.ndarray:
        return step * np.real(values.mean(axis=-1))

    q = mean((np.exp(z / 2) - 1) / z)
    first = mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3)
    middle = mean((2 + z + e * (z - 2)) / z**3)
    last = mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3)
    v = start
    for _ in range(count):
        for _ in range(between):
            n = nonlinear(v)
            a = half * v + q * n
            n_a = nonlinear(a)
            n_b = nonlinear(half * v + q * n_a)
            n_c = nonlinear(half * a + q * (2 * n_b - n))
            v = whole * v + first * n + 2 * middle * (n_a + n_b) + last * n_c
        yield v


def waves(size: int, length: float) -> np.ndarray:
    """The wave numbers of real fields with `size` nodes on a ring."""
    return 2 * np.pi / length * np.arange(size // 2 + 1)


def ring(draws: np.ndarray, decay: float) -> np.ndarray:
    """Coefficients (n, modes) of smooth random fields on a ring, from normal draws (n, modes, 2).

    The fields have mean 0, and a root mean square of 1 on average.
    """
    size = (1.0 + np.arange(draws.shape[1])) ** -decay
    return draws @ np.array([1, 1j]) * size / (2 * np.sqrt(np.sum(size**2)))


def on_ring(coefficients: np.ndarray, nodes: int) -> np.ndarray:
    """The fields (n, nodes) with these Fourier coefficients."""
    if nodes < 2 * coefficients.shape[1]:
        raise ValueError(
            f"`nodes` should be at least {2 * coefficients.shape[1]}, for {coefficients.shape[1]} modes, "
            f"got {nodes}."
        )
    spectrum = np.zeros((len(coefficients), nodes // 2 + 1), dtype=complex)
    spectrum[:, 1 : 1 + coefficients.shape[1]] = coefficients
    return np.fft.irfft(spectrum, n=nodes, norm="forward")
