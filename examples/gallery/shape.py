"""A shape: a plate with a hole, pulled from both sides

A quarter of the plate is drawn; the hole stays a hole. 60 noisy readings of the
displacements and the equations of elasticity train the network, 60 others calibrate one
joint band about both displacements, each in units of its own. Kirsch's solution of 1898
is the truth that it is held against.
"""

import torch

import guardband as gb

problem = gb.problems.PlateWithHole()
train, cal, new = (
    problem.observe(n, noise=0.01, seed=i) for i, n in enumerate((60, 60, 150))
)
fitted = gb.fit(
    problem, gb.mlp(problem), train, likelihood=gb.Likelihood(data=0.01), progress=False
)
calibrated = gb.calibrate(
    gb.predictors.LastLayerLaplace(fitted), cal.x, cal.y, score=gb.Total(noise=0.01)
)
x = problem.domain.grid(81)
x = x[problem.domain.contains(x)]
figure = gb.plot.overview(
    calibrated(x, level=0.9), truth=problem.solution(x), data=new, domain=problem.domain
)
top = torch.tensor([[0.0, 0.2]])
stress = problem.stress(problem.field(fitted, top))["xx"].item()
print(f"stress over tension at the top of the hole: {stress:.2f}, by Kirsch 3")
figure.savefig("shape.png", dpi=120)
