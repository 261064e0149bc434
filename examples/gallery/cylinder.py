"""Flow past a cylinder: a band for the velocity from two hundred readings

The Navier-Stokes equations, the walls and 150 noisy readings of the velocity train the
network; 50 further readings calibrate the band. The pressure is never measured: the
network infers it from the equations, and the band guarantees nothing about it. The
truth is the reference solution of the catalogue, with the drag and lift of the
benchmark DFG 2D-1. `results/cylinder.md` shows the coverage over 200 calibrations.
"""

import torch

import guardband as gb
from guardband import pinn

problem = pinn.problems.Cylinder()


def velocity(n: int, seed: int) -> gb.Observations:
    """Noisy readings of the velocity, without the pressure."""
    data = problem.observe(n, noise=0.01, seed=seed)
    return gb.Observations(data.x, data.y[:, :2], outputs=("u", "v"))


train, cal, new = (velocity(n, seed) for seed, n in enumerate((150, 50, 200)))
fitted = pinn.fit(
    problem,
    pinn.mlp(problem),
    train,
    likelihood=pinn.Likelihood(data=0.01),
    progress=False,
)
both = gb.Absolute(units=[1.0, 1.0])  # both are velocities, in the same unit
calibrated = gb.calibrate(fitted, cal.x, cal.y, outputs=("u", "v"), score=both)
x = problem.domain.grid((331, 63))
x = x[problem.domain.contains(x)]
truth = problem.solution(x)
off = (torch.as_tensor(fitted(x)) - truth).norm(dim=0) / truth.norm(dim=0)
print(
    {
        name: f"{float(error):.3f}"
        for name, error in zip(problem.names.outputs, off, strict=True)
    }
)
figure = gb.plot.overview(
    calibrated(x, level=0.9), truth=truth[:, :2], data=new, domain=problem.domain
)
figure.savefig("cylinder.png", dpi=120)
