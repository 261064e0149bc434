"""References on a ring: Allen-Cahn, Korteweg-de Vries and Kuramoto-Sivashinsky, by ETDRK4 on a Fourier grid.

`python tools/references/fourier.py` writes the files and prints their errors relative to finer computations.
The method is that of Kassam and Trefethen (2005): the linear part exactly, the rest by Runge-Kutta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from grids import differences, graded, write
from scipy.integrate import simpson

from guardband.pinn.problems.reference import Grid

SAMPLES = 800
"""The number of stored times, between which the solution is interpolated."""


@dataclass(frozen=True)
class Ring:
    """u_t = linear(u) + rest(u) on a ring: the symbol of `linear` at wavenumbers, and `rest` of waves."""

    name: str
    left: float
    length: float
    end: float
    start: Callable[[np.ndarray], np.ndarray]
    symbol: Callable[[np.ndarray], np.ndarray]
    rest: Callable[[np.ndarray, np.ndarray], np.ndarray]
    balance: Callable[..., tuple[np.ndarray, np.ndarray]]
    """A quantity and its rate of change, as a function of u, u_x, u_xx and u_t at a time."""
    points: int
    steps: int
    lines: tuple[int, int]


def etdrk4(ring: Ring, points: int, steps: int, every: int) -> np.ndarray:
    """The Fourier coefficients initially and at regular intervals, (times, points / 2 + 1)."""
    k = 2 * np.pi / ring.length * np.arange(points // 2 + 1)
    x = ring.left + ring.length / points * np.arange(points)
    h = ring.end / steps
    linear = ring.symbol(k).astype(complex)
    around = np.exp(1j * np.pi * (np.arange(64) + 0.5) / 32)  # means over a circle avoid cancellation
    z = h * linear[:, None] + around
    half = h * np.mean((np.exp(z / 2) - 1) / z, axis=1)
    first = h * np.mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3, axis=1)
    middle = h * np.mean((2 + z + np.exp(z) * (z - 2)) / z**3, axis=1)
    last = h * np.mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3, axis=1)
    whole, partly = np.exp(h * linear), np.exp(h * linear / 2)
    waves = np.fft.rfft(ring.start(x))
    found = [waves]
    for step in range(1, steps + 1):
        n = ring.rest(waves, k)
        a = partly * waves + half * n
        na = ring.rest(a, k)
        b = partly * waves + half * na
        nb = ring.rest(b, k)
        c = partly * a + half * (2 * nb - n)
        waves = whole * waves + first * n + 2 * middle * (na + nb) + last * ring.rest(c, k)
        if step % every == 0:
            found.append(waves)
    return np.array(found)


def product(waves: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The Fourier coefficients of a function of u, dealiased up to cubes on twice as many points."""
    n = 2 * (len(waves) - 1)
    wide = np.zeros(n + 1, complex)
    wide[: len(waves)] = waves
    return np.fft.rfft(function(2 * np.fft.irfft(wide)))[: len(waves)] / 2


def at(ring: Ring, waves: np.ndarray, x: np.ndarray, derivative: int = 0) -> np.ndarray:
    """The solution at some times and any x, or a derivative of it, (times, x)."""
    n = 2 * (waves.shape[1] - 1)
    k = 2 * np.pi / ring.length * np.arange(waves.shape[1])
    share = np.where(np.arange(waves.shape[1]) % (n // 2) == 0, 1, 2) / n
    return (waves * share * (1j * k) ** derivative @ np.exp(1j * np.outer(k, x - ring.left))).real


def balance(ring: Ring, waves: np.ndarray, times: np.ndarray) -> float:
    """The difference between a quantity at the end and the integral of its rate, relative to its size."""
    x = ring.left + np.linspace(0, ring.length, 2001)
    u, slope, bend = (at(ring, waves, x, order) for order in range(3))
    k = 2 * np.pi / ring.length * np.arange(waves.shape[1])
    moves = ring.symbol(k) * waves + np.array([ring.rest(row, k) for row in waves])
    parts = ring.balance(u, slope, bend, at(ring, moves, x))
    amount, rate = (np.asarray(simpson(part, x=x)) for part in parts)
    return float(abs(amount[-1] - amount[0] - simpson(rate, x=times)) / abs(amount).max())


def make(ring: Ring) -> None:
    """Compute, refine, and write the file."""
    coarse = etdrk4(ring, ring.points, ring.steps, ring.steps // 100)
    waves = etdrk4(ring, 2 * ring.points, 2 * ring.steps, 2 * ring.steps // SAMPLES)
    times = np.linspace(0, ring.end, SAMPLES + 1)
    x = ring.left + np.linspace(0, ring.length, 2001)
    fields = at(ring, waves, x)
    refinement = differences(at(ring, coarse, x)[..., None], fields[:: SAMPLES // 100, :, None])
    print(f"{ring.name}: {ring.points} points and {ring.steps} steps are off by", *refinement)

    def exact(at_x: np.ndarray, at_t: np.ndarray) -> np.ndarray:
        kept = Grid({"axis0": times, "values": at(ring, waves, at_x)})
        return kept(torch.from_numpy(at_t)[:, None]).numpy().T[..., None]

    bends = [
        np.abs(np.gradient(np.gradient(fields, s, axis=i), s, axis=i)).max(1 - i)
        for i, s in enumerate((times, x))
    ]
    axes = [graded(x, bends[1], ring.lines[0]), graded(times, bends[0], ring.lines[1])]
    write(ring.name, ["u"], axes, exact, refinement, {"balance": balance(ring, waves, times)})


def allen_cahn() -> Ring:
    """u_t = 1e-4 u_xx + 5 (u - u^3): the energy decreases at the rate of u_t^2."""
    return Ring(
        name="allen_cahn",
        left=-1.0,
        length=2.0,
        end=1.0,
        start=lambda x: x**2 * np.cos(np.pi * x),
        symbol=lambda k: 5 - 1e-4 * k**2,
        rest=lambda waves, k: -5 * product(waves, lambda u: u**3),
        balance=lambda u, u_x, u_xx, u_t: (0.5e-4 * u_x**2 + 1.25 * (u**2 - 1) ** 2, -(u_t**2)),
        points=4096,
        steps=1600,
        lines=(320, 90),
    )


def korteweg_de_vries() -> Ring:
    """u_t + u u_x + .022^2 u_xxx = 0: the integral of u^2 is conserved."""
    return Ring(
        name="korteweg_de_vries",
        left=-1.0,
        length=2.0,
        end=1.0,
        start=lambda x: np.cos(np.pi * x),
        symbol=lambda k: 1j * 0.022**2 * k**3,
        rest=lambda waves, k: -0.5j * k * product(waves, np.square),
        balance=lambda u, u_x, u_xx, u_t: (u**2, 0 * u),
        points=512,
        steps=8000,
        lines=(240, 200),
    )


def kuramoto_sivashinsky() -> Ring:
    """u_t + a u u_x + b u_xx + c u_xxxx = 0: the integral of u^2 / 2 grows by b u_x^2 - c u_xx^2."""
    a, b, c = 100 / 16, 100 / 16**2, 100 / 16**4
    return Ring(
        name="kuramoto_sivashinsky",
        left=0.0,
        length=2 * np.pi,
        end=0.4,
        start=lambda x: np.cos(x) * (1 + np.sin(x)),
        symbol=lambda k: b * k**2 - c * k**4,
        rest=lambda waves, k: -0.5j * a * k * product(waves, np.square),
        balance=lambda u, u_x, u_xx, u_t: (u**2 / 2, b * u_x**2 - c * u_xx**2),
        points=512,
        steps=8000,
        lines=(256, 180),
    )


if __name__ == "__main__":
    for one in (allen_cahn(), korteweg_de_vries(), kuramoto_sivashinsky()):
        make(one)
