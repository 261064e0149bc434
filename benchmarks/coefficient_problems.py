"""Families, noise models and degenerate problems for `coefficients.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from guardband import pinn
from guardband.base.arrays import to_numpy
from guardband.pinn.inverse.design import Design
from guardband.pinn.inverse.family import Solver
from guardband.pinn.problems import Field


@dataclass(frozen=True, eq=False)
class Told:
    """A family, the noise of its readings, and the computation of its reference."""

    family: pinn.Family
    noise: float
    outputs: tuple[str, ...] | None = None
    solver: Solver | None = None
    """The reference, for a problem without a closed form."""
    network: bool = True
    only: tuple[int, tuple[str, ...]] | None = None
    """The only number of readings and noise models in the study, if restricted."""

    @cached_property
    def reference(self) -> pinn.SolvedFamily:
        """The family solved by its reference."""
        return self.family.exact() if self.solver is None else pinn.SolvedFamily(self.family, self.solver)

    def places(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Random locations of n readings."""
        return self.family.own.domain.uniform(n, seed=int(rng.integers(2**31)), dtype=torch.float64).numpy()

    def fits(self, n: int, noise: str) -> bool:
        """Whether the study includes a cell."""
        return self.only is None or (n == self.only[0] and noise in self.only[1])


@dataclass(frozen=True)
class Resonator(pinn.Problem):
    """laplacian(u) + k^2 u = f in [0, 1]^2, u = 0 on all sides; f belongs to k = pi, whatever k."""

    wavenumber: float = torch.pi
    domain = pinn.Rectangle((0, 0), (1, 1))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.laplacian + self.wavenumber**2 * u.value + torch.pi**2 * self._sines(x)

    def conditions(self) -> list[pinn.Dirichlet]:
        return [pinn.Dirichlet(0.0)]

    def solution(self, x: Tensor) -> Tensor:
        return torch.pi**2 / (2 * torch.pi**2 - self.wavenumber**2) * self._sines(x)

    def _sines(self, x: Tensor) -> Tensor:
        return torch.sin(torch.pi * x).prod(dim=1, keepdim=True)


class Integrated(Solver):
    """Lotka-Volterra by Runge-Kutta steps for many rates at once, to about nine digits."""

    certain = True
    STEPS, END, SOME = 2500, 25.0, 500

    def __call__(self, family: pinn.Family, x: Any, theta: np.ndarray) -> np.ndarray:
        times = to_numpy(x)[:, 0]
        parts = [self._some(times, theta[i : i + self.SOME]) for i in range(0, len(theta), self.SOME)]
        return np.concatenate(parts)

    def _some(self, times: np.ndarray, theta: np.ndarray) -> np.ndarray:
        a, b, d, g = theta.T
        h = self.END / self.STEPS

        def change(w: np.ndarray) -> np.ndarray:
            return np.stack([w[0] * (a - b * w[1]), w[1] * (d * w[0] - g)])

        path = np.ones((self.STEPS + 1, 2, len(theta)))
        for i in range(self.STEPS):
            w = path[i]
            k1 = change(w)
            k2 = change(w + h / 2 * k1)
            k3 = change(w + h / 2 * k2)
            k4 = change(w + h * k3)
            path[i + 1] = w + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        first = np.minimum((times / h).astype(int), self.STEPS - 1)
        s = (times / h - first)[:, None, None]
        left, right = path[first], path[first + 1]
        slopes = [h * np.stack([change(one) for one in ends]) for ends in (left, right)]
        found = (1 + 2 * s) * (1 - s) ** 2 * left + s**2 * (3 - 2 * s) * right
        return np.moveaxis(found + s * (1 - s) ** 2 * slopes[0] - s**2 * (1 - s) * slopes[1], 2, 0)


@dataclass(frozen=True)
class Product(pinn.problems.Heat1D):
    """A problem whose solution depends on two coefficients only through their product."""

    width: float = 1.0
    rate: float = 1.0

    def solution(self, x: Tensor) -> Tensor:
        return torch.exp(-self.width * self.rate * x[:, 1:]) * torch.sin(torch.pi * x[:, :1])


@dataclass(frozen=True)
class Late(pinn.Problem):
    """A coefficient that acts only after t = 1."""

    rate: float = 1.0
    domain = pinn.Time(0, 2)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") + self.rate * (x - 1).clamp(min=0)

    def solution(self, x: Tensor) -> Tensor:
        return 1 - self.rate * (x - 1).clamp(min=0) ** 2 / 2


@dataclass(frozen=True)
class Rod(pinn.problems.ReactionDiffusion1D):
    """The initial front of D = 0.05, r = 2 under diffusion alone: the heat equation, far from ends."""

    def solution(self, x: Tensor) -> Tensor:
        nodes, weights = (torch.from_numpy(part).to(x) for part in np.polynomial.hermite.hermgauss(40))
        moved = x[:, :1] + torch.sqrt(4 * self.diffusion * x[:, 1:]) * nodes
        start = torch.sigmoid(-((2.0 / (6 * 0.05)) ** 0.5) * moved) ** 2
        return (weights * start).sum(dim=1, keepdim=True) / torch.pi**0.5


@dataclass(frozen=True)
class Conductor(pinn.Problem):
    """(k u')' + f = 0 on a rod with fixed ends; k(x) is unknown except at the left end."""

    domain = pinn.Segment(0, 1)
    outputs = ("u", "k")

    def residual(self, x: Tensor, w: Field) -> Tensor:
        u, k, turn = w["u"], w["k"], torch.pi * x
        slope, bend = 1 + 0.1 * torch.pi * torch.cos(turn), -0.1 * torch.pi**2 * torch.sin(turn)
        source = -torch.pi * torch.cos(2 * turn) * slope - (1 + 0.5 * torch.sin(2 * turn)) * bend
        return k.d("x") * u.d("x") + k.value * u.d("x", "x") + source

    def conditions(self) -> list[pinn.Dirichlet]:
        return [pinn.Dirichlet(lambda x: x, output="u"), pinn.Dirichlet(1.0, on="left", output="k")]

    def solution(self, x: Tensor) -> Tensor:
        return torch.cat([x + 0.1 * torch.sin(torch.pi * x), 1 + 0.5 * torch.sin(2 * torch.pi * x)], dim=1)


P = pinn.problems
FAMILIES: dict[str, Told] = {
    "oscillator": Told(pinn.Family(P.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)), 0.15),
    "heat": Told(pinn.Family(P.Heat1D, diffusivity=(0.02, 0.2)), 0.05),
    "burgers": Told(pinn.Family(P.Burgers1D, viscosity=(0.02, 0.1)), 0.05),
    "reaction-diffusion": Told(
        pinn.Family(P.ReactionDiffusion1D, diffusion=(0.01, 0.1), growth=(1.0, 4.0)), 0.05
    ),
    "helmholtz": Told(pinn.Family(Resonator, wavenumber=(2.0, 4.0)), 0.05),
    "kovasznay": Told(pinn.Family(P.Kovasznay, reynolds=(20.0, 60.0)), 0.05, outputs=("u", "v")),
    "lotka-volterra": Told(
        pinn.Family(
            P.LotkaVolterra, birth=(0.5, 0.8), hunting=(1.1, 1.6), feeding=(0.8, 1.2), death=(0.8, 1.2)
        ),
        0.05,
        solver=Integrated(),
        network=False,
        only=(100, ("gaussian", "heteroskedastic")),
    ),
}

Noise = Callable[[np.random.Generator, np.ndarray, Design, float], np.ndarray]


def by_leverage(rng: np.random.Generator, exact: np.ndarray, design: Design, size: float) -> np.ndarray:
    """Noise that is large at informative readings: 0.3 to 3 times the size, by leverage."""
    middle = (design.lower + design.upper) / 2
    rows = design.slopes(middle[None])[0]
    q, _ = np.linalg.qr(rows)
    leverage = np.square(q).sum(axis=1).reshape(design.n, design.m).sum(axis=1)
    sd = size * (0.3 + 2.7 * leverage / leverage.max())
    return np.repeat(sd, design.m) * rng.normal(size=exact.shape)


NOISES: dict[str, Noise] = {
    "gaussian": lambda rng, exact, _, size: size * rng.normal(size=exact.shape),
    "laplace": lambda rng, exact, _, size: size / 2**0.5 * rng.laplace(size=exact.shape),
    "heteroskedastic": by_leverage,
    "lognormal": lambda rng, exact, _, size: (
        size * (rng.lognormal(size=exact.shape) - np.exp(0.5)) / ((np.e - 1) * np.e) ** 0.5
    ),
    "offset": lambda rng, exact, _, size: size * (0.3 + rng.normal(size=exact.shape)),
}
