"""Covariate shift: weights restore coverage where sensors exist

Sensors are dense on the left, where the noise is small; queries are on the right, where
it is large. The plain band covers locations like those of the sensors only, and
`gb.check` raises an alarm before any new reading is taken. `gb.Weighted` weights each
calibration point by its density among the queries. Coverage is restored, and the band
is infinite at the right end, where no sensor is near. Only the locations may differ,
not the noise at a location, and the density ratio has to be right.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb

RNG = np.random.default_rng(1)


def read(x: np.ndarray) -> np.ndarray:
    """Readings of a field whose noise grows to the right."""
    return np.sin(3 * x) + (0.03 + 0.3 * x**2) * RNG.normal(size=x.shape)


def ratio(x: np.ndarray) -> np.ndarray:
    """Density ratio of queries, Beta(3, 1), to sensors, Beta(1, 2), up to a factor."""
    return x[:, 0] ** 2 / (1 - x[:, 0]).clip(1e-9)


x_cal, x_new = RNG.beta(1, 2, size=(400, 1)), RNG.beta(3, 1, size=(5000, 1))
y_cal, y_new = read(x_cal), read(x_new)
predictor = gb.predictors.MeanOnly(lambda x: np.sin(3 * x))
plain = gb.calibrate(predictor, x_cal, y_cal)
weighted = gb.calibrate(predictor, x_cal, y_cal, calibrator=gb.Weighted(ratio))

figure, axes = plt.subplots(1, 2, figsize=(6.8, 4.2), sharey=True, layout="constrained")
grid = np.linspace(0.001, 0.999, 400)[:, None]
for ax, (name, calibrated) in zip(
    axes, {"Plain": plain, "Weighted": weighted}.items(), strict=True
):
    with warnings.catch_warnings(
        action="ignore", category=gb.conformal.InfiniteBandWarning
    ):
        band, answers = calibrated(grid, level=0.9), calibrated(x_new, level=0.9)
    ax.set_ylim(-0.8, 2)
    gb.plot.band(band, ax=ax).legend().remove()
    ax.plot(x_cal, y_cal, ".", ms=3, color=gb.plot.GRAY, label="sensors")
    ax.plot(
        x_new[:150], y_new[:150], ".", ms=3, color=gb.plot.ORANGE, label="questions"
    )
    ax.set(xlim=(0, 1), ylabel="")
    share = 100 * gb.metrics.coverage(answers, y_new)
    ax.set_title(f"{name}: 90 % asked, {share:.0f} % covered", fontsize="medium")
axes[0].set_ylabel("u")
axes[0].legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
text = gb.check(plain, x_new[:200], level=0.9)["shift"].text
figure.supxlabel(
    "gb.check: " + textwrap.fill(text, 92), fontsize="small", color=gb.plot.GRAY
)
figure.savefig("shift.png", dpi=120)
