"""A shape: a plate with a hole under tension

The picture shows a quarter of the plate; the hole is part of the domain's shape. The
equations of elasticity and 60 noisy readings of the displacements train the network.
150 noise-free values of Kirsch's solution of 1898 calibrate one joint band for both
displacements, each in its own units. `LastLayerLaplace` makes the band wide near the
hole and in the pulled corner, and narrow where symmetry fixes a displacement.
"""

import matplotlib.pyplot as plt
import torch

import guardband as gb
from guardband import pinn

problem = pinn.problems.PlateWithHole()
train = problem.observe(60, noise=0.01, seed=0)
cal, new = (problem.observe(n, noise=0.0, seed=i) for i, n in ((1, 150), (2, 1000)))
fitted = pinn.fit(
    problem,
    pinn.mlp(problem),
    train,
    likelihood=pinn.Likelihood(data=0.01),
    progress=False,
)
calibrated = gb.calibrate(pinn.predictors.LastLayerLaplace(fitted), cal.x, cal.y)
inside = calibrated(new.x, level=0.9).contains(new.y).double().mean()

x = problem.domain.grid(121)
x = x[problem.domain.contains(x)]
band = calibrated(x, level=0.9)
panels = {
    "predicted": band.mean,
    "half-width": band.width / 2,
    "true error": abs(band.mean - problem.solution(x)),
}
colors = {"limits": (0, 0.006), "cmap": "cividis"}
figure, axes = plt.subplots(2, 3, figsize=(7.5, 6), layout="constrained")
for row, name in enumerate(problem.names.outputs):
    for column, (title, values) in enumerate(panels.items()):
        options = colors if column else {}
        ax = gb.plot.heatmap(
            x,
            values[:, row],
            domain=problem.domain,
            names=problem.names,
            ax=axes[row, column],
            colorbar="bottom",
            **options,
        )
        ax.set_title(f"{name}, {title}", fontsize="medium")
        ax.label_outer()
top = torch.tensor([[0.0, 0.2]])
stress = problem.stress(problem.field(fitted, top))["xx"].item()
figure.suptitle(
    f"Joint 90 % band: {100 * inside:.0f} % of 1000 new points inside.\n"
    f"Stress at the top of the hole: {stress:.2f} times the tension; Kirsch: 3"
)
figure.savefig("shape.png", dpi=120)
