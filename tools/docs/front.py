"""Draw the picture of the front page: `python tools/regenerate.py front`.

A network trained on the equations of elasticity alone represents the plate with a hole. Its gauges are
noisier near the grip that pulls at the right: `gb.Local` learns the noise from 200 readings, 300 others
calibrate, and 300 fresh readings test the band.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import guardband as gb
from guardband import pinn

PLATE = pinn.problems.PlateWithHole()
LEVEL = 0.9


def readings(n: int, seed: int) -> gb.Observations:
    """The displacement along the pull, read at n points, with noise that grows toward the grip."""
    generator = torch.Generator().manual_seed(seed)
    x = PLATE.domain.uniform(n, generator)
    noise = 0.01 * (1 + 5 * x[:, :1] ** 3)
    return gb.Observations(x, PLATE.solution(x)[:, :1] + noise * torch.randn(n, 1, generator=generator))


def drawn(fitted: pinn.Fitted) -> Figure:
    """Prediction, half the width of the band, and fresh readings relative to the prediction."""
    learn, cal, fresh = (readings(n, seed) for seed, n in enumerate((200, 300, 300)))
    model = gb.predictors.MeanOnly(lambda x: fitted(x)[:, :1])
    calibrated = gb.calibrate(model, cal.x, cal.y, calibrator=gb.Local(learn))
    x = PLATE.domain.grid(121)
    x = x[PLATE.domain.contains(x)]
    band, there = calibrated(x, level=LEVEL), calibrated(fresh.x, level=LEVEL)
    figure = plt.figure(figsize=(6.4, 6.4), layout="constrained")
    axes = figure.subplot_mosaic([["mean", "width"], ["fresh", "fresh"]], height_ratios=[1.25, 1])
    for name, values, title in (
        ("mean", band.mean, "Predicted displacement"),
        ("width", band.width / 2, f"Half the width of the {100 * LEVEL:.0f} % band"),
    ):
        options = {"domain": PLATE.domain, "names": PLATE.names, "colorbar": "bottom"}
        gb.plot.heatmap(x, values, ax=axes[name], **options).set_title(title, fontsize="medium")
    axes["width"].set(ylabel="", yticklabels=[])

    ax, place = axes["fresh"], fresh.x[:, 0]
    off, half = (fresh.y - there.mean).ravel(), (there.width / 2).ravel()
    missed = ~there.contains(fresh.y).ravel()
    ax.vlines(place, -half, half, color=gb.plot.BLUE, alpha=0.25, lw=2.5, label=f"{100 * LEVEL:.0f} % band")
    ax.plot(place[~missed], off[~missed], ".", color=gb.plot.GRAY, ms=5, label="fresh readings inside")
    ax.plot(place[missed], off[missed], "X", color=gb.plot.ORANGE, ms=7, mec="white", mew=0.5, label="missed")
    ax.set(xlabel="x, from the hole to the grip", ylabel="reading - prediction", xlim=(0, 1))
    ax.set_title(f"{int(missed.sum())} of {len(missed)} fresh readings missed", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return figure


def main() -> None:
    """Train, calibrate, draw."""
    path = Path(__file__).parents[2] / "docs/images/front.png"
    drawn(pinn.fit(PLATE, pinn.mlp(PLATE))).savefig(path, dpi=140)


if __name__ == "__main__":
    main()
