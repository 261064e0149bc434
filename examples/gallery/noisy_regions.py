"""In the plane, local widths find the noisy disc and the noisy corner

The Allen-Cahn field is measured with noise that is up to eleven times larger in a disc and in an L-shaped
corner (white outlines). Nobody tells the band where these are. On the left the width that someone who knows
the noise would choose; in the middle the one width of plain conformal prediction; on the right what
`gb.Local` learns from the training residuals. Both bands need no more than calibration points that are drawn
like the new ones.
"""

from typing import Any

import matplotlib.pyplot as plt
import torch

import guardband as gb
from _options import options

FRAME: dict[str, Any] = {"extent": (-1, 1, -1, 1), "origin": "lower"}


def square(values: torch.Tensor) -> torch.Tensor:
    """Values on a square grid as a picture of it."""
    side = round(len(values) ** 0.5)
    return values.reshape(side, side).T


def main() -> None:
    """Train a PINN, calibrate it in both ways, and draw three widths in one color scale."""
    smoke, out = options()
    problem, noise = gb.problems.AllenCahn2D(), gb.problems.noise.DiscAndCorner()
    sizes = (60, 50, 200) if smoke else (600, 300, 3000)
    train, cal, test = (problem.observe(n, noise=noise, seed=seed) for seed, n in enumerate(sizes))

    recipe = gb.Recipe(steps=30, finish=10) if smoke else gb.Recipe(steps=600, finish=400)
    net = gb.mlp(2, [32, 32, 32])
    fitted = gb.fit(problem, net, train, likelihood=gb.Likelihood(data=0.2), recipe=recipe, progress=False)

    predictor = gb.predictors.MeanOnly(fitted)
    plain = gb.calibrate(predictor, cal.x, cal.y)
    local = gb.calibrate(predictor, cal.x, cal.y, calibrator=gb.Local(train))

    grid = problem.domain.grid
    x, fine = grid(25 if smoke else 80), grid(400)
    panels = {
        "Known noise:\n95 % everywhere": 2 * 1.96 * noise(x),
        "Plain": plain(x).width,
        "Local": local(x).width,
    }

    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.4), sharey=True, layout="constrained")
    for ax, (name, width) in zip(axes, panels.items(), strict=True):
        ax.imshow(square(width), vmin=0, vmax=3, **FRAME)
        ax.contour(square(noise.region(fine)), levels=[0.5], colors="white", linewidths=1, **FRAME)
        ax.set(xlabel="x")
        ax.set_title(name, fontsize="medium")
    for ax, (name, calibrated) in zip(axes[1:], {"Plain": plain, "Local": local}.items(), strict=True):
        noisy = gb.evaluate(calibrated, test.x, test.y, regions={"noisy": noise.region}).rows[1]
        ax.set_title(f"{name}:\n{100 * noisy.coverage:.0f} % covered where noisy", fontsize="medium")
    axes[0].set_ylabel("y")
    figure.colorbar(axes[0].images[0], ax=axes, label="width of the 95 % band", shrink=0.8, extend="max")
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
