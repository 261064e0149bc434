"""In the plane, local widths find the noisy disc and the noisy corner

The Allen-Cahn field is measured with noise that is up to eleven times larger in a disc
and in an L-shaped corner (white outlines). The band is not given these regions. Left:
the ideal width, for known noise. Middle: the constant width of plain conformal
prediction. Right: the width that `gb.Local` learns from the training residuals. Both
bands only need calibration points that are exchangeable with the new ones.
"""

import matplotlib.pyplot as plt

import guardband as gb
from guardband import pinn

problem, noise = pinn.problems.AllenCahn2D(), pinn.problems.noise.DiscAndCorner()
sizes = (600, 300, 3000)
train, cal, test = (
    problem.observe(n, noise=noise, seed=seed) for seed, n in enumerate(sizes)
)

likelihood = pinn.Likelihood(data=0.2)
fitted = pinn.fit(
    problem, pinn.mlp(problem), train, likelihood=likelihood, progress=False
)

predictor = gb.predictors.MeanOnly(fitted)
plain = gb.calibrate(predictor, cal.x, cal.y)
local = gb.calibrate(predictor, cal.x, cal.y, calibrator=gb.Local(train))

x, fine = problem.domain.grid(80), problem.domain.grid(400)
panels = [("Known noise:\n95 % everywhere", 2 * 1.96 * noise(x))]
for name, calibrated in {"Plain": plain, "Local": local}.items():
    noisy = gb.evaluate(
        calibrated, test.x, test.y, regions={"noisy": noise.region}
    ).rows[1]
    panels.append(
        (
            f"{name}: {100 * noisy.coverage:.0f} %\ncovered where noisy",
            calibrated(x).width,
        )
    )

figure, axes = plt.subplots(1, 3, figsize=(6.8, 3.6), layout="constrained")
colors = {"limits": (0, 3), "cmap": "cividis", "colorbar": False}
edge = noise.region(fine).reshape(400, 400).T
for ax, (title, width) in zip(axes, panels, strict=True):
    gb.plot.heatmap(x, width, domain=problem.domain, ax=ax, **colors).label_outer()
    ax.contour(edge, levels=[0.5], colors="white", linewidths=1, extent=(-1, 1, -1, 1))
    ax.set_title(title, fontsize="medium")
    ax.set_xticks([-1, 0, 1])
bar = {
    "location": "bottom",
    "shrink": 0.6,
    "extend": "max",
    "label": "width of the 95 % band",
}
figure.colorbar(axes[0].collections[0], ax=axes, **bar)
figure.savefig("noisy_regions.png", dpi=120)
