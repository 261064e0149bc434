"""A network that predicts zero is covered too, and its width reveals it

Two models of Poisson's equation share the same calibration points: a trained PINN, and
a function that returns zero everywhere. Both bands cover 95 % of new readings, because
the guarantee holds for any model. Coverage alone therefore says little about the model:
look at the mean width (sharpness) and at the relative L2 error, which is one for the
zero function. Calibration points and new points have to be exchangeable.
"""

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb
from guardband import pinn

problem = pinn.problems.Poisson1D()
train, cal, test = (
    problem.observe(n, noise=0.05, seed=seed) for seed, n in enumerate((60, 400, 5000))
)
fitted = pinn.fit(problem, pinn.mlp(1, [16, 16]), train, progress=False)

figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.8), sharey=True, layout="constrained")
for ax, (name, model) in zip(
    axes, {"A PINN": fitted, "Zero": lambda x: 0 * x}.items(), strict=True
):
    calibrated = gb.calibrate(gb.predictors.MeanOnly(model), cal.x, cal.y)
    found = gb.evaluate(calibrated, test.x, test.y)
    gb.plot.band(calibrated(np.linspace(0, 1, 200)), data=cal, ax=ax).legend().remove()
    ax.set(ylabel="u" if name == "A PINN" else "", ylim=(-1.5, 1.5))
    ax.set_title(
        f"{name}: {100 * found.coverage:.0f} % covered\n"
        f"width {found.sharpness:.2f}, relative L2 error {found.relative_l2:.2f}",
        fontsize="medium",
    )
axes[0].legend(frameon=False, loc="lower left")
figure.savefig("zero_predictor.png", dpi=120)
