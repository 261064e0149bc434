"""Your own equation in fifteen lines, and a band that follows its uncertainty

A pendulum swings with a large amplitude, so its equation is nonlinear, and the camera
was off in the shaded time. The equation is written as a residual. `LastLayerLaplace`
combines readings, equation and conditions: the equation determines the motion through
the gap (blue), where readings alone would leave it open (orange). Calibration sets the
size of the band, noise included. It needs readings over the whole time, exchangeable
with the new ones.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.integrate import solve_ivp

import guardband as gb
from guardband import pinn


@dataclass(frozen=True)
class Pendulum(pinn.Problem):
    """angle'' + friction angle' + sin(angle) = 0, for ten units of time."""

    outputs = ("angle",)
    friction: float = 0.1
    domain = pinn.Time(0, 10)

    def residual(self, x: torch.Tensor, u: pinn.problems.Field) -> torch.Tensor:
        """The residual, which should vanish."""
        return u.d("t", "t") + self.friction * u.d("t") + torch.sin(u.value)

    def conditions(self) -> list[pinn.problems.Condition]:
        """Released at rest from 2.5 radians."""
        return [pinn.Initial(2.5, velocity=0.0)]


def truth(times: np.ndarray) -> np.ndarray:
    """The true motion, from a solver that is not used in training."""
    swing = solve_ivp(
        lambda t, y: [y[1], -0.1 * y[1] - np.sin(y[0])],
        (0, 10),
        [2.5, 0],
        dense_output=True,
        rtol=1e-8,
    )
    return swing.sol(times.ravel())[0].reshape(times.shape)


def readings(n: int, seed: int) -> gb.Observations:
    """n readings at random times, with noise of 0.05."""
    rng = np.random.default_rng(seed)
    times = rng.uniform(0, 10, size=(n, 1))
    return gb.Observations(times, truth(times) + 0.05 * rng.normal(size=(n, 1)))


every = readings(80, seed=0)
seen = (every.x[:, 0] < 3) | (every.x[:, 0] > 6)
train, cal = gb.Observations(every.x[seen], every.y[seen]), readings(150, seed=1)

likelihood = pinn.Likelihood(data=0.05)
fitted = pinn.fit(
    Pendulum(),
    pinn.mlp(Pendulum(), [32, 32]),
    train,
    likelihood=likelihood,
    progress=False,
)
knowing = pinn.predictors.LastLayerLaplace(fitted)
ignorant = pinn.predictors.LastLayerLaplace(fitted, physics=False)
calibrated = gb.calibrate(knowing, cal.x, cal.y, score=gb.conformal.Total(noise=0.05))

times = np.linspace(0, 10, 500)
figure, (above, below) = plt.subplots(
    2, 1, figsize=(6.4, 4.8), sharex=True, layout="constrained"
)
gb.plot.band(calibrated(times, level=0.95), truth=truth(times), data=train, ax=above)
found = gb.evaluate(calibrated, *readings(2000, seed=2))
above.set_title(
    f"95 % asked, {100 * found.coverage:.0f} % covered, through the gap",
    fontsize="medium",
)
above.set(xlabel="")
for predictor, color, label in (
    (knowing, gb.plot.BLUE, "readings, equation and start"),
    (ignorant, gb.plot.ORANGE, "readings alone"),
):
    below.plot(times, predictor(times[:, None]).scale, color=color, label=label)
below.set(xlabel="t", ylabel="scale of the angle", yscale="log")
below.legend(frameon=False, fontsize="small")
for ax in (above, below):
    ax.axvspan(3, 6, color=gb.plot.GRAY, alpha=0.12, lw=0)
figure.savefig("own_equation.png", dpi=120)
