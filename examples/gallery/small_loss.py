"""A small loss and a wrong field: held-out readings detect it

A slab heats itself, faster at higher temperature, and is cooled at both faces. The
equation has a cool and a hot solution, and this slab is hot. A network trained on the
equation alone finds the cool solution: the loss is small, the field is wrong, and no
residual can detect it. Held-out readings can: with them the verdict is no longer
"converged", and the calibrated band, which is valid for any model, becomes too wide to
be useful. With a dozen readings in training, the same network finds the hot solution.
"""

from dataclasses import dataclass
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import root_scalar

import guardband as gb
from guardband import pinn


@dataclass(frozen=True)
class Slab(pinn.Problem):
    """Bratu's equation, u'' + heating exp(u) = 0, with u = 0 at both faces."""

    heating: float = 2.0
    domain = pinn.Segment(0, 1)

    def residual(self, x: torch.Tensor, u: pinn.problems.Field) -> torch.Tensor:
        """The residual of the equation."""
        return u.d("x", "x") + self.heating * torch.exp(u.value)

    def conditions(self) -> list[pinn.problems.Condition]:
        """Both faces are kept cold."""
        return [pinn.Dirichlet(0.0)]

    @cached_property
    def slope(self) -> float:
        """The larger root of s = sqrt(2 heating) cosh(s / 4): the hot solution."""
        return root_scalar(
            lambda s: s - np.sqrt(2 * self.heating) * np.cosh(s / 4), bracket=(5, 20)
        ).root

    def solution(self, x: torch.Tensor) -> torch.Tensor:
        """The hot solution, source of the readings; it is not used in training."""
        return -2 * torch.log(
            torch.cosh((x - 0.5) * self.slope / 2) / np.cosh(self.slope / 4)
        )


problem, noise = Slab(), 0.05
train, held_out, cal, test = (
    problem.observe(n, noise=noise, seed=seed)
    for seed, n in enumerate((12, 30, 100, 2000))
)
recipe = pinn.Recipe.by_newton(150)
likelihood, grid = pinn.Likelihood(data=noise), np.linspace(0, 1, 200)
truth = problem.solution(torch.as_tensor(grid)[:, None])
figure, axes = plt.subplots(1, 2, figsize=(6.8, 4), sharey=True, layout="constrained")
cases = {"The equation alone": None, "The equation and 12 readings": train}
for ax, (name, data) in zip(axes, cases.items(), strict=True):
    fitted = pinn.fit(
        problem,
        pinn.mlp(problem),
        data,
        likelihood=likelihood,
        recipe=recipe,
        progress=False,
    )
    alone, checked = (
        pinn.verdict(problem, fitted, rows, noise=noise) for rows in (None, held_out)
    )
    calibrated = gb.calibrate(fitted, cal.x, cal.y)
    found = gb.evaluate(calibrated, test.x, test.y)
    gb.plot.band(calibrated(grid), truth=truth, data=cal, ax=ax)
    ax.set_title(
        f"{name}\n"
        f"its terms cancel to {max(alone.equations.values()):.0e}: {alone.word}\n"
        f"with held-out readings: {checked.word}\n"
        f"{100 * found.coverage:.0f} % covered, width {found.sharpness:.2f}",
        fontsize="medium",
    )
    ax.set(xlabel="x", ylabel="u" if data is None else "")
axes[0].legend().remove()
axes[1].legend(frameon=False, loc="lower center")
figure.savefig("small_loss.png", dpi=120)
