"""Three predictors of one solution: where is each of them uncertain?

A PINN of the Allen-Cahn equation has seen no readings in one quarter of the square
(white dots: training readings). 150 values of a solver calibrate three bands for the
solution; each covers about 95 %. `MeanOnly` has constant width. `Distance` is wide
wherever readings are far away, even where the boundary determines the solution.
`LastLayerLaplace` uses equation and boundary: it is wide at the extrema of the field,
like the true error, and widest in the empty quarter. Its mean width is the smallest.
The guarantee is the same for all three bands.
"""

import matplotlib.pyplot as plt

import guardband as gb
from guardband import pinn

NOISE = 0.005

problem = pinn.problems.AllenCahn2D()
every = problem.observe(150, noise=NOISE, seed=0)
cal, test = (problem.observe(n, noise=0.0, seed=i) for i, n in ((1, 150), (2, 3000)))
seen = (every.x < 0).any(dim=1)
train = gb.Observations(every.x[seen], every.y[seen])

likelihood = pinn.Likelihood(data=NOISE)
fitted = pinn.fit(
    problem, pinn.mlp(problem), train, likelihood=likelihood, progress=False
)
predictors = {
    "MeanOnly": gb.predictors.MeanOnly(fitted),
    "Distance": gb.predictors.Distance(fitted, n_neighbors=5),
    "LastLayerLaplace": pinn.predictors.LastLayerLaplace(fitted),
}

x = problem.domain.grid(80)
figure, axes = plt.subplots(2, 2, figsize=(6.4, 5.6), layout="constrained")
panels = [("Twice the true error", 2 * (fitted(x) - problem.solution(x)).abs())]
for name, predictor in predictors.items():
    calibrated = gb.calibrate(predictor, cal.x, cal.y)
    found = gb.evaluate(calibrated, test.x, test.y)
    says = f"{100 * found.coverage:.0f} % covered, width {found.sharpness:.4f}"
    panels.append((f"{name}\n{says}", calibrated(x).width))
colors = {"limits": (0, 0.012), "cmap": "cividis", "colorbar": False}
for ax, (title, values) in zip(axes.flat, panels, strict=True):
    gb.plot.heatmap(x, values, domain=problem.domain, ax=ax, **colors).label_outer()
    ax.plot(*train.x.T, ".", ms=2, color="white")
    ax.set_title(title, fontsize="medium")
bar = {"shrink": 0.8, "extend": "max", "label": "width of the 95 % band"}
figure.colorbar(axes[0, 0].collections[0], ax=axes, **bar)
figure.savefig("widest_where.png", dpi=120)
