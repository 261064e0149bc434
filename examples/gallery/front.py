"""A front: Burgers' equation, and where its band is wide

A wave steepens until it stands as a wall at x = 0, a hundredth of the interval wide.
300 noisy readings and the equation train the network; 150 others calibrate the band.
`LastLayerLaplace` knows where readings and equation leave the field open, which is
along the front, and the band is wide there alone.
"""

import matplotlib.pyplot as plt

import guardband as gb

problem = gb.problems.Burgers1D(viscosity=0.01)
train, cal, new = (
    problem.observe(n, noise=0.03, seed=i) for i, n in enumerate((300, 150, 200))
)
fitted = gb.fit(
    problem, gb.mlp(problem), train, likelihood=gb.Likelihood(data=0.03), progress=False
)
calibrated = gb.calibrate(
    gb.predictors.LastLayerLaplace(fitted), cal.x, cal.y, score=gb.Total(noise=0.03)
)
x = problem.domain.grid((201, 101))
band, truth = calibrated(x, level=0.9), problem.solution(x)
print(f"relative L2 {gb.metrics.relative_l2(band.mean, truth):.3f}")
figure = gb.plot.overview(band, truth=truth, data=new, domain=problem.domain)
figure.savefig("front.png", dpi=120)
plt.close(figure)
