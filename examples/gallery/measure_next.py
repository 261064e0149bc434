"""Where to measure next: ten more readings of a rod, chosen or random

Given twenty readings of a cooling rod, where should ten more be taken?
`pinn.next_points` finds the places where the solution is most sensitive to the
diffusivity, given the existing readings. On the left, these places over the
sensitivity. On the right, the lengths of the resulting intervals over many repetitions:
chosen readings shorten them more than random ones. The price of choosing places after
seeing readings is that a region from all readings no longer has an exact level.
"""

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb
from guardband import pinn

ROD = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
TRUTH, NOISE = 0.08, 0.05


def read(x: np.ndarray, rng: np.random.Generator) -> gb.Observations:
    """Readings at locations x."""
    return gb.Observations(
        x, np.asarray(ROD(x, [TRUTH])[0]) + NOISE * rng.normal(size=(len(x), 1))
    )


def both(first: gb.Observations, more: gb.Observations) -> gb.Observations:
    """All readings together."""
    return gb.Observations(
        np.concatenate([first.x, more.x]), np.concatenate([first.y, more.y])
    )


def length(data: gb.Observations) -> float:
    """The length of the interval."""
    low, high = pinn.inverse.profile(ROD, data).interval("diffusivity")
    return high - low


figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
grid = pinn.problems.Heat1D().domain.grid((60, 60)).double().numpy()
change = np.abs(np.asarray(ROD(grid, [TRUTH + 1e-3])[0] - ROD(grid, [TRUTH])[0]) / 1e-3)
candidates = pinn.problems.Heat1D().domain.grid((21, 21)).double().numpy()

lengths = []
for seed in range(60):
    rng = np.random.default_rng(seed)
    first = read(rng.uniform(size=(20, 2)), rng)
    chosen = pinn.next_points(ROD, candidates, 10, data=first)
    more = [read(np.asarray(x), rng) for x in (rng.uniform(size=(10, 2)), chosen.x)]
    lengths.append([length(first), *(length(both(first, one)) for one in more)])
    if seed == 0:
        names = pinn.problems.Heat1D().names
        gb.plot.heatmap(
            grid, change[:, 0], label="|du / d diffusivity|", names=names, ax=left
        )
        left.plot(*first.x[:, ::-1].T, ".", color="white", label="there")
        left.plot(
            *np.asarray(chosen.x)[:, ::-1].T,
            "x",
            color=gb.plot.ORANGE,
            mew=2,
            label="next",
        )
        left.legend(fontsize="small", loc="upper left")
right.boxplot(
    np.array(lengths), showfliers=False, medianprops={"color": gb.plot.ORANGE}
)
right.set_xticklabels(["20 readings", "10 more\nat random", "10 more\nchosen"])
right.set(ylabel="length of the 95 % interval", ylim=(0, None))
figure.savefig("measure_next.png", dpi=120)
