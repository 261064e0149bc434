"""A front: Burgers' equation, and where its band is wide

A wave steepens into a front at x = 0, a hundredth of the interval wide. The equation
and 300 noisy readings train the network. 150 noise-free values of a solver calibrate a
band for the solution. The scale of `LastLayerLaplace` is largest along the front, so
the band is wide there, where the error is largest.
"""

import matplotlib.pyplot as plt

import guardband as gb
from guardband import pinn

problem = pinn.problems.Burgers1D(viscosity=0.01)
train = problem.observe(300, noise=0.03, seed=0)
cal, new = (problem.observe(n, noise=0.0, seed=i) for i, n in ((1, 150), (2, 1000)))
fitted = pinn.fit(
    problem,
    pinn.mlp(problem),
    train,
    likelihood=pinn.Likelihood(data=0.03),
    progress=False,
)
calibrated = gb.calibrate(pinn.predictors.LastLayerLaplace(fitted), cal.x, cal.y)
inside = calibrated(new.x, level=0.9).contains(new.y).double().mean()

x = problem.domain.grid((201, 401))
band, truth = calibrated(x, level=0.9), problem.solution(x)
panels = {
    "u, predicted": band.mean,
    "half the width of the 90 % band": band.width / 2,
    "true error": abs(band.mean - truth),
}
figure, axes = plt.subplots(3, 1, figsize=(6.4, 7), layout="constrained")
for row, (ax, (title, values)) in enumerate(zip(axes, panels.items(), strict=True)):
    colors = {"limits": (0, 0.001), "cmap": "cividis"} if row else {}
    gb.plot.heatmap(
        x, values, domain=problem.domain, names=problem.names, ax=ax, **colors
    )
    ax.set_title(title, fontsize="medium")
    ax.label_outer()
figure.suptitle(f"{100 * inside:.0f} % of 1000 new points inside the 90 % band")
figure.savefig("front.png", dpi=120)
