"""Inverse problems of DeepXDE's documentation, with readings integrated here by numpy and scipy."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp


class Inverse(NamedTuple):
    """The true coefficients, the range of the search, and the noise-free readings (x, y)."""

    truth: dict[str, float]
    start: dict[str, float]
    high: dict[str, float]
    readings: Callable[[], tuple[np.ndarray, np.ndarray]]


def lorenz() -> tuple[np.ndarray, np.ndarray]:
    """25 readings of the three outputs, evenly in time."""
    times = np.linspace(0, 3, 25)
    x, y, z = 0, 1, 2

    def slope(_: float, w: np.ndarray) -> list[float]:
        return [10 * (w[y] - w[x]), w[x] * (15 - w[z]) - w[y], w[x] * w[y] - 8 / 3 * w[z]]

    found = solve_ivp(slope, (0, 3), [-8, 7, 27], t_eval=times, rtol=1e-10, atol=1e-10)
    return times[:, None], found.y.T


def reaction() -> tuple[np.ndarray, np.ndarray]:
    """Both concentrations at 40 locations and 20 times, by second-order finite differences on 1001 nodes."""
    nodes, times = np.linspace(0, 1, 1001), np.linspace(0, 10, 20)
    start = np.exp(-20 * nodes)
    start[0], start[-1] = 1, 0

    def slope(_: float, w: np.ndarray) -> np.ndarray:
        now = w.reshape(-1, 2)  # interleave a and b, so that the Jacobian is a narrow band
        change = np.zeros_like(now)
        change[1:-1] = 2e-3 * np.diff(now, 2, axis=0) / (nodes[1] - nodes[0]) ** 2
        change[1:-1] -= 0.1 * now[1:-1, :1] * now[1:-1, 1:] ** 2 * [1, 2]
        return change.ravel()

    both = np.repeat(start, 2)
    found = solve_ivp(slope, (0, 10), both, "LSODA", times, lband=2, uband=2, rtol=1e-9, atol=1e-11)
    at = np.arange(0, 1000, 25)
    places, moments = np.meshgrid(nodes[at], times)
    values = found.y.reshape(-1, 2, len(times))[at].transpose(2, 0, 1)
    return np.stack([places.ravel(), moments.ravel()], axis=1), values.reshape(-1, 2)


PROBLEMS = {
    "Lorenz": Inverse(
        {"C1": 10.0, "C2": 15.0, "C3": 8 / 3},
        dict.fromkeys(("C1", "C2", "C3"), 1.0),
        dict.fromkeys(("C1", "C2", "C3"), 30.0),
        lorenz,
    ),
    "diffusion-reaction": Inverse(
        {"rate": 0.1, "diffusivity": 2.0},
        {"rate": 0.05, "diffusivity": 1.0},
        {"rate": 1.0, "diffusivity": 10.0},
        reaction,
    ),
}
