"""Draw the picture of docs/guides/which_promise.md: `python tools/regenerate.py promises`."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge

import guardband as gb

PATH = Path(__file__).parents[2] / "docs/images/promises.png"


def main() -> None:
    """One field with three guarantees."""
    data = gb.datasets.burgers(600, folder=None, progress=False)
    train, cal, test = data[:300], data[300:400], data[400:]
    ridge = KernelRidge(kernel="rbf", alpha=1e-3, gamma=0.01)  # type: ignore[arg-type]
    ridge.fit(train.x.values[..., 0], train.y.values[..., 0])

    def surrogate(x: Any) -> Any:
        return ridge.predict(x[..., 0])[..., None]

    x, row = test.y.grid.coordinates["x"], 3
    truth, mean = test.y.values[row, :, 0], surrogate(test.x.values)[row, :, 0]
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), sharey=True, layout="constrained")
    titles = ("at all nodes", "on 90 % of the area", "its maximum")
    scores = (gb.Simultaneous(), gb.Share(0.1), gb.Quantity(lambda u: u.max(axis=(1, 2))))
    for ax, title, score in zip(axes, titles, scores, strict=True):
        band = gb.calibrate(surrogate, cal.x, cal.y, score=score)(test.x.values, 0.9)
        if band.mean.shape == test.y.shape:
            ax.fill_between(
                x, band.lower[row, :, 0], band.upper[row, :, 0], color=gb.plot.BLUE, alpha=0.25, lw=0
            )
        else:
            ax.axhspan(band.lower[row, 0], band.upper[row, 0], color=gb.plot.BLUE, alpha=0.25, lw=0)
        ax.plot(x, mean, color=gb.plot.BLUE, label="surrogate")
        ax.plot(x, truth, "--", color=gb.plot.ORANGE, label="truth")
        ax.set(title=title, xlabel="x", xlim=(0, 2 * np.pi))
    axes[0].set_ylabel("u")
    axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(PATH, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
