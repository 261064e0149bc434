"""Local bands are wide on the noise islands and narrow between them

The readings of a damped oscillator are up to six times noisier in three time intervals.
Plain conformal prediction has one width for all times: right on average, too narrow on
the islands, too wide between them. `gb.Local` learns from the training residuals where
they are large, and calibrates that shape as exactly as the plain band. It needs
exchangeable calibration points and new points, enough readings on the islands, and a
network that has not memorized its noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb
from guardband import pinn

oscillator, noise = pinn.problems.DampedOscillator(), pinn.problems.noise.Islands()
sizes = (500, 300, 3000)
train, cal, test = (
    oscillator.observe(n, noise=noise, seed=seed) for seed, n in enumerate(sizes)
)

net, likelihood = pinn.mlp(oscillator), pinn.Likelihood(data=0.05)
fitted = pinn.fit(oscillator, net, train, likelihood=likelihood, progress=False)

predictor = gb.predictors.MeanOnly(fitted)
bands = {
    "Plain": gb.calibrate(predictor, cal.x, cal.y),
    "Local": gb.calibrate(predictor, cal.x, cal.y, calibrator=gb.Local(train)),
}

figure, axes = plt.subplots(
    2, 1, figsize=(6.4, 4.8), sharex=True, sharey=True, layout="constrained"
)
for ax, (name, calibrated) in zip(axes, bands.items(), strict=True):
    evaluation = gb.evaluate(
        calibrated, test.x, test.y, regions={"islands": noise.region}
    )
    everywhere, islands = evaluation.rows[:2]
    gb.plot.band(
        calibrated(np.linspace(0, 5, 600), level=0.95), data=cal, ax=ax
    ).legend().remove()
    for center in noise.centers:
        ax.axvspan(
            center - noise.half_width,
            center + noise.half_width,
            color=gb.plot.ORANGE,
            alpha=0.12,
        )
    ax.set(ylim=(-1.8, 1.8))
    ax.set_title(
        f"{name}: 95 % asked, {100 * everywhere.coverage:.0f} % covered, "
        f"{100 * islands.coverage:.0f} % on the islands",
        fontsize="medium",
    )
axes[0].set(xlabel="")
axes[0].legend(frameon=False, fontsize="small", ncols=3, loc="lower right")
figure.savefig("noise_islands.png", dpi=120)
