"""A system: prey are counted, hunters are not

Prey and hunters follow a closed curve. Sixty noisy counts of prey and the two equations
train the network, which infers the hunters; forty other counts calibrate a band for the
prey. The band makes no promise about the hunters: their prediction is drawn with the
truth, which was not used in training.
"""

import matplotlib.pyplot as plt
import torch

import guardband as gb
from guardband import pinn

problem = pinn.problems.LotkaVolterra()
rng = torch.Generator().manual_seed(0)


def counts(n: int) -> gb.Observations:
    """Noisy counts of the prey alone, at random times."""
    t = problem.domain.uniform(n, rng)
    noise = 0.05 * torch.randn(n, 1, generator=rng)
    return gb.Observations(t, problem.solution(t)[:, :1] + noise, outputs="prey")


train, cal, new = counts(60), counts(40), counts(80)
fitted = pinn.fit(
    problem,
    pinn.mlp(problem),
    train,
    likelihood=pinn.Likelihood(data=0.05),
    progress=False,
)
calibrated = gb.calibrate(fitted, cal.x, cal.y, outputs="prey")
print(calibrated.promise)
t = problem.domain.grid(500)
truth = problem.solution(t.double())
for name, error in zip(
    problem.names.outputs,
    (fitted(t) - truth).norm(dim=0) / truth.norm(dim=0),
    strict=True,
):
    print(f"{name}: relative L2 {float(error):.3f}")
figure, (above, below) = plt.subplots(
    2, 1, figsize=(6.4, 4.8), sharex=True, layout="constrained"
)
gb.plot.band(calibrated(t, level=0.9), truth=truth[:, :1], data=new, ax=above)
above.set_title("counted: a band", fontsize="medium")
above.set(xlabel="")
below.plot(t, truth[:, 1], "--", color=gb.plot.ORANGE, label="truth")
below.plot(t, fitted(t)[:, 1], color=gb.plot.BLUE, label="prediction")
below.set_title("never counted: nothing is promised", fontsize="medium")
below.set(xlabel="t", ylabel="hunter")
below.legend(frameon=False, fontsize="small")
figure.savefig("system.png", dpi=120)
