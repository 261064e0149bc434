"""A joint band contains the whole curve, a pointwise band does not

One network has learned a family of oscillators, with the frequency as an input. The
gray lines are its errors at new frequencies. If each time is calibrated separately, far
more than a tenth of the curves leave a 90 % band somewhere. `gb.Simultaneous` uses one
score per curve, its largest error, and its band contains nine curves in ten entirely.
The curves must be exchangeable, here through their frequencies, and it is the number of
curves that counts, not the number of points.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch

import guardband as gb
from guardband import pinn

TIMES = np.linspace(0, 2, 80)


@dataclass(frozen=True)
class Oscillators(pinn.Problem):
    """u'' + w^2 u = 0 in time t, for frequencies w from 3 to 6: x = (w, t)."""

    domain = pinn.Segment(3, 6, names=("w",)) * pinn.Time(0, 2)

    def residual(self, x: torch.Tensor, u: pinn.problems.Field) -> torch.Tensor:
        """The equation divided by w^2."""
        return u.d("t", "t") / x[:, :1] ** 2 + u.value

    def conditions(self) -> list[pinn.problems.Condition]:
        """Released at 1, at rest."""
        return [pinn.Initial(1.0, velocity=0.0)]


def curves(model: pinn.Fitted, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and true curves (n, times, 1) of n frequencies drawn at random."""
    w = np.random.default_rng(seed).uniform(3, 6, size=(n, 1))
    t, w = np.broadcast_arrays(TIMES, w)
    mean = model(np.stack([w.ravel(), t.ravel()], axis=1))
    return mean.reshape(n, len(TIMES), 1), np.cos(w * t)[..., None]


recipe = pinn.Recipe(steps=600, finish=400)
model = pinn.fit(
    Oscillators(), pinn.mlp(Oscillators(), [32, 32]), recipe=recipe, progress=False
)

mean, truth = curves(model, 100, seed=1)
# The shape of the band is learned from a hundred curves.
score = gb.Simultaneous.fitted(truth - mean)
mean, truth = curves(model, 200, seed=2)
# Its size is calibrated on two hundred others.
joint = gb.calibrate_arrays(mean, truth, score=score)
instants = [gb.conformal.quantile(miss, 0.9) for miss in abs(truth - mean)[..., 0].T]

mean, truth = curves(model, 1000, seed=3)
band = joint.band(gb.Prediction(None, mean), level=0.9)
held = {
    "joint": band.contains(truth),
    "pointwise": (abs(truth - mean)[..., 0] <= instants).all(axis=1),
}

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(TIMES, (truth - mean)[:40, :, 0].T, color=gb.plot.GRAY, lw=0.6)
for name, color, half in (
    ("joint", gb.plot.BLUE, band.width[0, :, 0] / 2),
    ("pointwise", gb.plot.ORANGE, np.array(instants)),
):
    ax.plot(
        TIMES,
        half,
        color=color,
        lw=2,
        label=f"{name}: holds {100 * held[name].mean():.0f} %",
    )
    ax.plot(TIMES, -half, color=color, lw=2)
ax.set(xlabel="time t", ylabel="truth minus prediction", xlim=(0, 2))
ax.set_title("How many new curves lie wholly in their 90 % band?", fontsize="medium")
ax.legend(frameon=False, loc="upper left")
figure.savefig("whole_field.png", dpi=120)
