"""Draw the picture of docs/guides/rollouts.md: `python tools/regenerate.py rollouts`."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import guardband as gb
from guardband.conformal import quantile

DOCS = Path(__file__).parents[2] / "docs"
PATH = DOCS / "images" / "rollouts.png"


def main() -> None:
    """Widths by step, and one node of one trajectory with its band."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for code in re.findall(
            r"```python\n(.*?)```", (DOCS / "guides" / "rollouts.md").read_text(), re.DOTALL
        ):
            exec(code, names)
    calibrated, found, cal, test = (names[name] for name in ("calibrated", "found", "cal", "test"))
    steps = np.arange(1, 1 + len(found.widths))
    misses = [largest(calibrated, part) for part in (cal, test)]
    apart = np.array([quantile(misses[0][:, k], 0.9) for k in range(len(steps))])
    jointly = float((misses[1] <= apart).all(axis=1).mean())

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained")
    left.plot(steps, found.widths, color=gb.plot.BLUE, label="one score per trajectory")
    said = f"steps apart: {jointly:.0%} of trajectories inside"
    left.plot(steps, 2 * apart, ":", color=gb.plot.BLUE, label=said)
    left.plot(steps, found.rival, "--", color=gb.plot.GRAY, label="around the mean of known trajectories")
    if found.step is not None:
        left.axvline(found.step, color=gb.plot.ORANGE, lw=1)
        left.annotate(
            "horizon",
            (found.step, 0),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            color=gb.plot.ORANGE,
        )
    left.set(
        xlabel="step", ylabel="width of the 90 % band", xlim=(1, steps[-1]), ylim=(0, 1.5 * found.rival.max())
    )
    left.legend(frameon=False, fontsize="small", loc="upper left")

    band, node = calibrated(test.x.values[:1], 0.9), 20
    ends = band.lower[0, :, node, 0], band.upper[0, :, node, 0]
    right.fill_between(
        steps, *ends, color=gb.plot.BLUE, alpha=0.25, lw=0, label="90 % band, all steps at once"
    )
    right.plot(steps, band.mean[0, :, node, 0], color=gb.plot.BLUE, label="rollout")
    right.plot(steps, test.y.values[0, :, node, 0], "--", color=gb.plot.ORANGE, label="solver")
    right.set(xlabel="step", ylabel="u at one node", xlim=(1, steps[-1]))
    right.legend(frameon=False, fontsize="small")
    for ax in (left, right):
        ax.set_xticks([1, 5, 10, 15, 20])
    figure.savefig(PATH, dpi=110)


def largest(calibrated: gb.Calibrated, part: gb.datasets.Dataset) -> np.ndarray:
    """The largest error at each step, (n, steps)."""
    off = abs(part.y.values - calibrated.predict(part.x.values).mean)
    return off.reshape(*off.shape[:2], -1).max(axis=2)


if __name__ == "__main__":
    main()
