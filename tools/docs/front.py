"""Draw the picture of the front page: `python tools/regenerate.py front`.

A network that learned the equations of elasticity alone stands for the plate with a hole. Its gauges are
noisier near the grip that pulls at the right: 200 readings teach `gb.Local` where, 300 others calibrate, 300
fresh ones are looked up in the band.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import guardband as gb

PLATE = gb.problems.PlateWithHole()
LEVEL = 0.9


def readings(n: int, seed: int) -> gb.Observations:
    """The displacement along the pull, read at n places, with noise that grows towards the grip."""
    generator = torch.Generator().manual_seed(seed)
    x = PLATE.domain.uniform(n, generator)
    noise = 0.01 * (1 + 5 * x[:, :1] ** 3)
    return gb.Observations(x, PLATE.solution(x)[:, :1] + noise * torch.randn(n, 1, generator=generator))


def drawn(fitted: gb.Fitted) -> Figure:
    """Truth, prediction, half the width of the band, and which fresh readings it misses."""
    learn, cal, fresh = (readings(n, seed) for seed, n in enumerate((200, 300, 300)))
    model = gb.predictors.MeanOnly(lambda x: fitted(x)[:, :1])
    calibrated = gb.calibrate(model, cal.x, cal.y, calibrator=gb.Local(learn))
    x = PLATE.domain.grid(121)
    x = x[PLATE.domain.contains(x)]
    band, truth = calibrated(x, level=LEVEL), PLATE.solution(x)[:, :1]
    missed = ~calibrated(fresh.x, level=LEVEL).contains(fresh.y)
    figure, axes = plt.subplots(2, 2, figsize=(6.4, 6), layout="constrained", sharex=True, sharey=True)
    limits = (float(truth.min()), float(truth.max()))
    values = (truth, band.mean, band.width / 2, abs(band.mean - truth))
    titles = (
        "Displacement, truth",
        f"Predicted, off by {100 * gb.metrics.relative_l2(band.mean, truth):.1g} %",
        f"Half the width of the {100 * LEVEL:.0f} % band",
        f"Error; {int(missed.sum())} of {len(missed)} fresh readings missed",
    )
    for number, (ax, value, title) in enumerate(zip(axes.flat, values, titles, strict=True)):
        gb.plot.heatmap(
            x,
            value,
            limits=limits if number < 2 else None,
            ax=ax,
            domain=PLATE.domain,
            names=PLATE.names,
            colorbar="bottom",
        )
        ax.set_title(title, fontsize="medium")
        ax.label_outer()
    axes[1, 1].plot(*fresh.x.T, ".", color="white", ms=4, mec="black", mew=0.4)
    axes[1, 1].plot(*fresh.x[missed.ravel()].T, "X", color=gb.plot.ORANGE, ms=9, mec="white", mew=0.8)
    return figure


def main() -> None:
    """Train, calibrate, draw."""
    path = Path(__file__).parents[2] / "docs/images/front.png"
    drawn(gb.fit(PLATE, gb.mlp(PLATE))).savefig(path, dpi=140)


if __name__ == "__main__":
    main()
