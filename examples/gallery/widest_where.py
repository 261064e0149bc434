"""Three predictors, one truth: where is each of them unsure?

A PINN of the Allen-Cahn equation has seen no readings in one quarter of the square
(white dots: those it has seen). Three bands are calibrated on the same points from
everywhere, and each covers 95 %. Constant width is unsure everywhere alike; `Distance`
is unsure wherever data are far, be the equation known or not; `LastLayerLaplace` knows
that equation and boundary values reach into the empty quarter. The guarantee is the
same for all, and so is what it needs, points that are drawn alike: what differs is the
width one pays.
"""

import matplotlib.pyplot as plt

import guardband as gb

NOISE = 0.005

problem = gb.problems.AllenCahn2D()
every, cal, test = (
    problem.observe(n, noise=NOISE, seed=seed)
    for seed, n in enumerate((150, 150, 3000))
)
seen = (every.x < 0).any(dim=1)
train = gb.Observations(every.x[seen], every.y[seen])

likelihood = gb.Likelihood(data=NOISE)
fitted = gb.fit(problem, gb.mlp(problem), train, likelihood=likelihood, progress=False)
predictors = {
    "MeanOnly": gb.predictors.MeanOnly(fitted),
    "Distance": gb.predictors.Distance(fitted, n_neighbors=5),
    "LastLayerLaplace": gb.predictors.LastLayerLaplace(fitted),
}

x = problem.domain.grid(80)
figure, axes = plt.subplots(2, 2, figsize=(6.4, 5.6), layout="constrained")
panels = [("Twice the true error", 2 * (fitted(x) - problem.solution(x)).abs())]
for name, predictor in predictors.items():
    calibrated = gb.calibrate(predictor, cal.x, cal.y, score=gb.Total(noise=NOISE))
    found = gb.evaluate(calibrated, test.x, test.y)
    says = f"{100 * found.coverage:.0f} % covered, width {found.sharpness:.3f}"
    panels.append((f"{name}\n{says}", calibrated(x).width))
colors = {"limits": (0, 0.08), "cmap": "cividis", "colorbar": False}
for ax, (title, values) in zip(axes.flat, panels, strict=True):
    gb.plot.heatmap(x, values, domain=problem.domain, ax=ax, **colors).label_outer()
    ax.plot(*train.x.T, ".", ms=2, color="white")
    ax.set_title(title, fontsize="medium")
bar = {"shrink": 0.8, "extend": "max", "label": "width of the 95 % band"}
figure.colorbar(axes[0, 0].collections[0], ax=axes, **bar)
figure.savefig("widest_where.png", dpi=120)
