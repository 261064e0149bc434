"""Several exact solutions of the Allen-Cahn equation with the same forcing and boundary, and their verdicts.

    python benchmarks/solutions.py

Takes about two CPU minutes on one core. Solutions are found by Newton's method on a sine series from random
starts. For each, a network is trained with 40 readings and then on the equation alone; it is judged without
readings, and with 30 readings of the catalogue's solution. Writes `results/solutions.md` and the picture
`docs/images/solutions.png`.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.base import files

torch.set_num_threads(1)
ROOT = Path(__file__).parents[1]
PROBLEM = pinn.problems.AllenCahn2D()
WAVES, STARTS = 16, 60
NOISES = (0.02, 0.002)
"""Noise of 30 readings of the known solution: as large as the difference, and far below it."""


class Sines:
    """The difference from the known solution: a sine series that vanishes on the boundary of [-1, 1]^2."""

    def __init__(self) -> None:
        n, count = np.arange(1, WAVES + 1), 3 * WAVES
        nodes = -1 + 2 * (np.arange(count) + 0.5) / count
        self.x = torch.cartesian_prod(*2 * [torch.from_numpy(nodes)])
        self._basis = self.at(self.x)
        self._project = self._basis.T * (2 / count) ** 2
        squares = (np.pi * n / 2) ** 2
        self._laplace = -PROBLEM.diffusion * np.add.outer(squares, squares).ravel()
        self._known = PROBLEM.solution(self.x).numpy()[:, 0]

    @staticmethod
    def at(x: Tensor) -> np.ndarray:
        """All sines at the points."""
        n = np.arange(1, WAVES + 1)
        along = [np.sin(np.pi * n * (x[:, [axis]].numpy() + 1) / 2) for axis in (0, 1)]
        return (along[0][:, :, None] * along[1][:, None]).reshape(len(x), -1)

    def miss(self, c: np.ndarray) -> np.ndarray:
        """The residual of the equation by wave."""
        u = self._known + self._basis @ c
        return self._laplace * c + self._project @ (u**3 - u - self._known**3 + self._known)

    def slope(self, c: np.ndarray) -> np.ndarray:
        """The derivative of the residual with respect to each coefficient."""
        u = self._known + self._basis @ c
        return np.diag(self._laplace) + (self._project * (3 * u**2 - 1)) @ self._basis

    def solved(self, start: np.ndarray) -> np.ndarray | None:
        """Newton's method, which converges to a solution or returns None."""
        c = start
        for _ in range(25):
            miss = self.miss(c)
            if np.abs(miss).max() < 1e-12:
                return c
            if not np.abs(c).max() < 5:
                return None
            c = c - np.linalg.solve(self.slope(c), miss)
        return None

    def distance(self, c: np.ndarray) -> float:
        """Relative distance from the known solution."""
        return float(np.linalg.norm(self._basis @ c) / np.linalg.norm(self._known))


def others(sines: Sines) -> Iterator[np.ndarray]:
    """Solutions that differ from the known one and from each other."""
    draw, known = np.random.default_rng(0), [np.zeros(WAVES**2)]
    n = np.arange(1, WAVES + 1)
    for _ in range(STARTS):
        start = draw.normal(size=(WAVES, WAVES)) / (1 + np.add.outer(n**2, n**2)) * draw.uniform(0.2, 1.5)
        found = sines.solved(start.ravel())
        if found is not None and all(np.abs(found - one).max() > 1e-6 for one in known):
            known.append(found)
            yield found


def sum_of(c: np.ndarray, x: Tensor) -> Tensor:
    """The known solution at points, plus the difference."""
    return PROBLEM.solution(x) + torch.from_numpy(Sines.at(x) @ c)[:, None]


def judged(values: Tensor, x: Tensor) -> tuple[pinn.Fitted, list[str]]:
    """A network trained with readings and then on the equation alone, with its verdicts."""
    net, recipe = pinn.mlp(PROBLEM), pinn.Recipe.by_newton(150, n_interior=1024)
    exact = pinn.Likelihood(data=0.001)
    led = pinn.fit(PROBLEM, net, gb.Observations(x, values), likelihood=exact, recipe=recipe, progress=False)
    alone = pinn.fit(PROBLEM, led.net, recipe=recipe, progress=False)
    words = [alone.verdict.word]
    for noise in NOISES:
        readings = PROBLEM.observe(30, noise=noise, seed=3, dtype=torch.float64)
        words.append(pinn.verdict(PROBLEM, alone, readings, noise=noise).word)
    return alone, words


def main() -> None:
    sines = Sines()
    found = [np.zeros(WAVES**2), *others(sines)]
    found = sorted(found, key=sines.distance)
    x = PROBLEM.domain.quasi(40, seed=1, dtype=torch.float64)
    fresh = PROBLEM.domain.uniform(2000, seed=2, dtype=torch.float64)
    lines = [
        "# Several solutions of one equation",
        "",
        "Written by `python benchmarks/solutions.py`: solutions of `pinn.problems.AllenCahn2D` with the same "
        f"forcing and boundary values, found by Newton's method on {WAVES} x {WAVES} sines from {STARTS} "
        "random starts. For each, a network was trained with 40 readings of it and then on the equation "
        "alone. Distances are relative L2. The verdict is computed without readings, and with 30 noisy "
        "readings of the known solution.",
        "",
        "| distance from the known solution | residual | error of the network | verdict | "
        f"{' | '.join(f'with noise of {noise}' for noise in NOISES)} |",
        "|---|---|---|---|---|---|",
    ]
    fields = list[pinn.Fitted]()
    for c in found[:3]:
        here, there = (sum_of(c, part) for part in (x, fresh))
        fitted, words = judged(here, x)
        fields.append(fitted)
        off = gb.metrics.relative_l2(fitted(fresh), there)
        cells = [f"{sines.distance(c):.4f}", f"{np.abs(sines.miss(c)).max():.0e}", f"{off:.0e}"]
        lines.append(f"| {' | '.join([*cells, *words])} |")
        print(lines[-1], flush=True)
    lines += ["", f"Solutions found: {len(found)}, at distances up to {sines.distance(found[-1]):.3f}."]
    files.write_text(ROOT / "results/solutions.md", "\n".join(lines) + "\n")
    draw(sines, fields[:2])


def draw(sines: Sines, fields: list[pinn.Fitted]) -> None:
    """Draw two solutions and their difference."""
    side = int(len(sines.x) ** 0.5)
    first, second = (fitted(sines.x).numpy().reshape(side, side) for fitted in fields)
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    titles = ("The known solution", "Another solution", "The difference")
    for axis, field, title in zip(axes, (first, second, second - first), titles, strict=True):
        size = float(np.abs(field).max())
        image = axis.imshow(
            field.T, origin="lower", extent=(-1, 1, -1, 1), cmap="RdBu_r", vmin=-size, vmax=size
        )
        axis.set(title=title, xlabel="x", ylabel="y")
        figure.colorbar(image, ax=axis, shrink=0.8)
    figure.savefig(ROOT / "docs/images/solutions.png", dpi=110)


if __name__ == "__main__":
    main()
