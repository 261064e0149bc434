"""With few calibration points a band is infinite rather than clipped, and then exact

Each gray dot is one calibration set of n points, and its height is the true coverage of
the resulting band at 95 %. Below 19 points no finite band can promise 95 %, so it is
infinite and covers everything. Above, coverage is random, since the set is, and follows
Beta(k, n + 1 - k) exactly (blue: its mean, and the range of 90 % of all sets), whatever
the model and the noise. It needs continuous noise and exchangeable points. If single
sets below the level are not acceptable, set `confidence=0.9`.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import guardband as gb

LEVEL = 0.95


def true_coverages(n: int, sets: int) -> list[float]:
    """The coverage of bands from calibration sets of n points, with normal noise."""
    noise = np.random.default_rng(n).normal(size=(sets, n))
    halves = [
        gb.calibrate_arrays(0 * y, y)
        .band(gb.Prediction(None, [0.0]), LEVEL)
        .upper.item()
        for y in noise
    ]
    return [float(norm.cdf(half) - norm.cdf(-half)) for half in halves]


sizes = np.arange(8, 101)
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
with warnings.catch_warnings(
    action="ignore", category=gb.conformal.InfiniteBandWarning
):
    for n in sizes:
        found = true_coverages(int(n), 40)
        ax.plot([n] * len(found), found, ".", ms=2.5, color=gb.plot.GRAY, alpha=0.5)

enough = gb.conformal.points_needed(LEVEL)
n = np.arange(enough, 101)
laws = [
    gb.conformal.CoverageLaw(gb.conformal.rank(int(size), LEVEL), int(size))
    for size in n
]
low, high = np.transpose([law.interval(0.9) for law in laws])
ax.fill_between(
    n,
    low,
    high,
    color=gb.plot.BLUE,
    alpha=0.25,
    lw=0,
    step="mid",
    label="90 % of all sets",
)
ax.step(
    n,
    [law.mean for law in laws],
    where="mid",
    color=gb.plot.BLUE,
    label="mean over all sets",
)
ax.axhline(LEVEL, color=gb.plot.ORANGE, ls=":", label="95 %, as asked")
ax.axvspan(8, enough - 0.5, color=gb.plot.GRAY, alpha=0.15, lw=0)
ax.text(
    13.2, 0.9, "infinite", rotation=90, ha="center", va="center", color=gb.plot.GRAY
)
ax.set(
    xlabel="calibration points n",
    ylabel="coverage of the band",
    xlim=(8, 100),
    ylim=(0.8, 1.005),
)
ax.set_title(
    "A 95 % band needs 19 points; from there on its law is exact", fontsize="medium"
)
ax.legend(frameon=False, loc="lower right")
figure.savefig("small_data.png", dpi=120)
