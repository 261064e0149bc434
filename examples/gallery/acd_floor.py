"""The average coverage deviation of a perfect band is not zero

ACD is the mean distance between coverage and level over a curve of 19 levels, and
methods are often ranked by it. Every dot is one experiment with a perfect model and an
exactly valid band: n points to calibrate, n to test. Its ACD is not zero, because both
sets are finite; `gb.metrics.acd_floor` gives the exact mean and the range of 95 % of
experiments. ACD cannot distinguish two methods that both lie in the shaded range. The
only assumption is that calibration and test points are exchangeable.
"""

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb


def acd_of_a_perfect_band(n: int, rng: np.random.Generator) -> float:
    """Calibrate on n normal residuals, test on n others."""
    y, new = rng.normal(size=(2, n))
    calibrated = gb.calibrate_arrays(0 * y, y)
    bands = (
        calibrated.band(gb.Prediction(None, 0 * new), level)
        for level in gb.conformal.LEVELS
    )
    return gb.metrics.acd([gb.metrics.coverage(band, new) for band in bands])


rng = np.random.default_rng(0)
sizes = np.unique(np.geomspace(20, 2000, 14).astype(int))
floors = [gb.metrics.acd_floor(n_cal=int(n), n_test=int(n)) for n in sizes]

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for n in sizes:
    found = [acd_of_a_perfect_band(int(n), rng) for _ in range(40)]
    jitter = n * rng.uniform(0.93, 1.07, len(found))
    label = "a perfect band" if n == sizes[0] else ""
    ax.plot(jitter, found, ".", ms=3, color=gb.plot.GRAY, alpha=0.7, label=label)
low, high = [f.low for f in floors], [f.high for f in floors]
ax.fill_between(
    sizes, low, high, color=gb.plot.BLUE, alpha=0.2, lw=0, label="95 % of cases"
)
ax.plot(
    sizes,
    [f.mean for f in floors],
    color=gb.plot.BLUE,
    lw=1.6,
    label="the floor, exactly",
)

usual = gb.metrics.acd_floor(n_cal=100, n_test=100)
ax.plot([100], [usual.mean], "o", color=gb.plot.ORANGE)
ax.annotate(
    f"100 and 100 points:\nanything from {usual.low:.3f}\nto {usual.high:.3f} is noise",
    (100, usual.mean),
    (250, 0.1),
    color=gb.plot.ORANGE,
    arrowprops={"arrowstyle": "-", "color": gb.plot.ORANGE},
)
ax.set(
    xscale="log", yscale="log", xlabel="points to calibrate, and to test", ylabel="ACD"
)
ax.set_xticks([20, 100, 500, 2000], ["20", "100", "500", "2000"])
ax.set_yticks([0.01, 0.03, 0.1], ["0.01", "0.03", "0.1"])
ax.minorticks_off()
ax.set_title("What a perfectly valid band shows as ACD", fontsize="medium")
ax.legend(frameon=False, loc="lower left")
figure.savefig("acd_floor.png", dpi=120)
