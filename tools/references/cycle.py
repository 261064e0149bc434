"""Reference solution of prey and hunters, by Runge-Kutta of order 8: `python tools/references/cycle.py`."""

from __future__ import annotations

import numpy as np
from grids import differences, graded, write
from scipy.integrate import solve_ivp


def solve(t: np.ndarray, tolerance: float) -> np.ndarray:
    """Prey and hunters (t, 2)."""
    found = solve_ivp(
        lambda t, y: [2 / 3 * y[0] - 4 / 3 * y[0] * y[1], y[0] * y[1] - y[1]],
        (0, 25),
        (1, 1),
        method="DOP853",
        t_eval=t,
        rtol=tolerance,
        atol=tolerance,
    )
    return found.y.T


def invariant(y: np.ndarray) -> np.ndarray:
    """The invariant prey - log(prey) + 4/3 hunter - 2/3 log(hunter)."""
    return y[:, 0] - np.log(y[:, 0]) + 4 / 3 * y[:, 1] - 2 / 3 * np.log(y[:, 1])


if __name__ == "__main__":
    t = np.linspace(0, 25, 5001)
    fine = solve(t, 1e-13)
    drift = invariant(fine)
    bends = np.abs(np.gradient(np.gradient(fine, t, axis=0), t, axis=0)).max(1)
    write(
        "lotka_volterra",
        ["prey", "hunter"],
        [graded(t, bends, 600)],
        lambda t: solve(t, 1e-13),
        differences(solve(t, 1e-10), fine),
        {"drift of the invariant": float(np.ptp(drift) / drift[0])},
    )
