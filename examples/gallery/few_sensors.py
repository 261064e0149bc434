"""Six sensors are six points, however many readings each has

Every sensor has a constant bias, so its readings are dependent. Left: a plain 95 % band
from 6 sensors with 100 readings each. It is calibrated on 600 readings but only six
biases, and new sensors fall outside as a whole. Right: coverage of readings from a new
sensor, averaged over many repetitions. `gb.Clustered` counts sensors and keeps its
level; with fewer than 19 sensors a 95 % band is infinite. New sensors have to be built
and placed like the old ones.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb

RNG = np.random.default_rng(5)
READINGS = 100


def readings(sensors: int) -> tuple[np.ndarray, np.ndarray]:
    """Readings of a zero field, bias plus noise, and the sensor of each reading."""
    sensor = np.repeat(np.arange(sensors), READINGS)
    return RNG.normal(size=sensors)[sensor] + 0.3 * RNG.normal(size=len(sensor)), sensor


def covered(calibrator: gb.Split | gb.Clustered, sensors: int, repeats: int) -> float:
    """Coverage of a 95 % band on readings of new sensors, over many sets of sensors."""
    hits = []
    for _ in range(repeats):
        y, sensor = readings(sensors)
        groups = sensor if isinstance(calibrator, gb.Clustered) else None
        calibrated = gb.calibrate_arrays(0 * y, y, calibrator=calibrator, groups=groups)
        new, _ = readings(20)
        hits.append(
            gb.metrics.coverage(
                calibrated.band(gb.Prediction(None, 0 * new), level=0.95), new
            )
        )
    return float(np.mean(hits))


figure, (left, right) = plt.subplots(
    1, 2, figsize=(6.8, 3.8), width_ratios=(3, 2), layout="constrained"
)
(y, sensor), (new, which) = readings(6), readings(14)
half = (
    gb.calibrate_arrays(0 * y, y)
    .band(gb.Prediction(None, [0.0]), level=0.95)
    .upper.item()
)
left.axhspan(-half, half, color=gb.plot.BLUE, alpha=0.2, lw=0)
left.plot(sensor + RNG.uniform(-0.3, 0.3, len(y)), y, ".", ms=2, color=gb.plot.GRAY)
left.plot(
    which + 7 + RNG.uniform(-0.3, 0.3, len(new)), new, ".", ms=2, color=gb.plot.ORANGE
)
left.set(xlabel="sensor", ylabel="reading minus prediction", xticks=[2.5, 13.5])
left.set_xticklabels(["6 to calibrate", "14 new ones"])
left.set_title("Plain band: whole sensors fall out", fontsize="medium")

counts = [4, 6, 10, 19, 30, 50]
for calibrator, color in ((gb.Split(), gb.plot.GRAY), (gb.Clustered(), gb.plot.BLUE)):
    with warnings.catch_warnings(
        action="ignore", category=gb.conformal.InfiniteBandWarning
    ):
        shares = [covered(calibrator, n, 1000) for n in counts]
    right.plot(
        counts, shares, "o-", ms=4, color=color, label=f"{type(calibrator).__name__}()"
    )
right.axhline(0.95, color=gb.plot.ORANGE, ls=":", lw=1)
right.axvspan(3, 18.5, color=gb.plot.GRAY, alpha=0.12, lw=0)
right.text(3.4, 0.985, "Clustered: infinite", fontsize="small", color=gb.plot.BLUE)
right.set(
    xscale="log",
    xlim=(3, 60),
    ylim=(0.8, 1.01),
    xlabel="sensors to calibrate",
    ylabel="coverage",
)
right.set_yticks([0.8, 0.85, 0.9, 0.95, 1])
right.set_xticks(counts, counts, minor=False)
right.set_xticks([], minor=True)
right.set_title("Readings of new sensors", fontsize="medium")
right.legend(frameon=False, loc="lower right")
figure.savefig("few_sensors.png", dpi=120)
