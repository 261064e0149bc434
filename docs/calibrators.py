"""Draw the pictures of docs/calibrators.md: `python docs/calibrators.py`."""

import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from PIL import Image

import guardband as gb

FOLDER = Path(__file__).parent
RNG = np.random.default_rng(0)
GRID = np.linspace(0, 1, 400)[:, None]
PREDICTOR = gb.predictors.MeanOnly(lambda x: np.sin(3 * x))


def noise(x: np.ndarray) -> np.ndarray:
    """Ten times more in the middle."""
    return np.where(abs(x - 0.5) < 0.1, 0.3, 0.03)


def measure(x: np.ndarray) -> np.ndarray:
    """A reading at each x."""
    return np.sin(3 * x) + noise(x) * RNG.normal(size=x.shape)


def draw(ax: Axes, band: gb.Band, data: gb.Observations, title: str) -> None:
    """One band with its data."""
    ax.set_ylim(-1, 2.2)  # first, for infinite bands reach its ends
    gb.plot.band(band, data=data, ax=ax)
    ax.set(xlim=(0, 1))
    ax.set_title(title, fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left", ncols=4)


def save(figure: Any, name: str) -> None:
    """Write a picture of the page."""
    path = FOLDER / "images" / f"{name}.png"
    figure.savefig(path, dpi=120)
    Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
    plt.close(figure)


def pictures() -> None:
    """All of them."""
    x_train, x_cal = (RNG.uniform(size=(n, 1)) for n in (300, 100))
    train, cal = (gb.Observations(x, measure(x)) for x in (x_train, x_cal))
    for name, calibrator in (
        ("split", gb.Split()),
        ("local", gb.Local(train)),
        ("randomly_localized", gb.RandomlyLocalized(inputs=x_train)),
    ):
        figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        calibrated = gb.calibrate(PREDICTOR, cal.x, cal.y, calibrator=calibrator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gb.InfiniteBandWarning)
            band = calibrated(GRID)
        draw(ax, band, cal, f"{type(calibrator).__name__}: 95 %, 100 calibration points")
        save(figure, name)
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    groups = np.where(abs(x_cal[:, 0] - 0.5) < 0.1, "noisy", "quiet")
    grid_groups = np.where(abs(GRID[:, 0] - 0.5) < 0.1, "noisy", "quiet")
    grouped = gb.calibrate(PREDICTOR, cal.x, cal.y, calibrator=gb.Grouped(), groups=groups)
    draw(axes[0], grouped(GRID, 0.9, groups=grid_groups), cal, "Grouped: 90 % in each regime")
    sensor = np.repeat(np.arange(25), 8)
    x = RNG.uniform(size=(200, 1))
    biased = gb.Observations(
        x, np.sin(3 * x) + 0.2 * RNG.normal(size=25)[sensor][:, None] + 0.02 * RNG.normal(size=(200, 1))
    )
    clustered = gb.calibrate(PREDICTOR, biased.x, biased.y, calibrator=gb.Clustered(), groups=sensor)
    draw(axes[1], clustered(GRID, 0.9), biased, "Clustered: 90 % for a new sensor, 25 sensors x 8 readings")
    axes[0].set(xlabel="")
    save(figure, "grouped")
    weighted()
    simultaneous()
    few_points()


def weighted() -> None:
    """Sensors crowd to the left, queries to the right."""
    x = RNG.beta(1, 3, size=(150, 1))
    crowded = gb.Observations(x, np.sin(3 * x) + (0.03 + 0.3 * x) * RNG.normal(size=x.shape))

    def ratio(x: np.ndarray) -> np.ndarray:
        return x[:, 0] ** 2 / np.maximum((1 - x[:, 0]) ** 2, 1e-12)

    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    plain = gb.calibrate(PREDICTOR, crowded.x, crowded.y)
    shifted = gb.calibrate(PREDICTOR, crowded.x, crowded.y, calibrator=gb.Weighted(ratio))
    draw(axes[0], plain(GRID, 0.9), crowded, "Split: sensors crowd to the left, queries to the right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.InfiniteBandWarning)
        band = shifted(GRID, 0.9)
    draw(axes[1], band, crowded, "Weighted: wider, and infinite where nothing is known")
    axes[0].set(xlabel="")
    save(figure, "weighted")


def simultaneous() -> None:
    """Runs the page's own block, and draws three of its curves."""
    blocks = re.findall(r"```python\n(.*?)```", (FOLDER / "calibrators.md").read_text(), re.S)
    names: dict[str, Any] = {"gb": gb, "np": np, "__name__": "page"}
    exec(next(block for block in blocks if "Simultaneous" in block), names)
    band, truth = names["band"], names["truth"]
    t = np.linspace(0, 2, 60)
    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for i, color in enumerate((gb.plot.BLUE, gb.plot.ORANGE, gb.plot.GREY)):
        ax.fill_between(t, band.lower[i, :, 0], band.upper[i, :, 0], color=color, alpha=0.3, lw=0)
        ax.plot(t, truth[i, :, 0], color=color, lw=1)
    ax.set(xlabel="t", ylabel="u", title="Simultaneous: 90 % of curves lie wholly in their band")
    ax.title.set_fontsize("medium")
    save(figure, "simultaneous")


def few_points() -> None:
    """Thirty readings of an oscillator whose frequency and damping are not what is believed."""
    believed = gb.problems.DampedOscillator(damping=0.08, frequency=1.02 * 2 * np.pi)
    few = gb.problems.DampedOscillator().observe(30, noise=0.05, seed=1)
    net, recipe = gb.mlp(believed, [24, 24], fourier=(8, 6.0)), gb.Recipe.by_newton(60)
    alone = gb.fit(believed, net, recipe=recipe, progress=False)
    t = np.linspace(0, 5, 400)[:, None]
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    for ax, calibrated, title in (
        (axes[0], gb.calibrate(alone, *few), "Equation only: 90 %, 30 readings calibrate"),
        (axes[1], gb.Tangent(alone, noise=0.05).calibrate(*few), "Tangent: the same readings move it too"),
    ):
        gb.plot.band(calibrated(t, 0.9), data=few, ax=ax)
        ax.plot(t, few_truth(t), "--", color=gb.plot.ORANGE, lw=1, label="truth")
        ax.set_title(title, fontsize="medium")
        ax.legend(frameon=False, fontsize="small", loc="upper right", ncols=4)
    axes[0].set(xlabel="")
    save(figure, "few_points")


def few_truth(t: np.ndarray) -> np.ndarray:
    """What the readings are of."""
    return gb.problems.DampedOscillator().solution(torch.from_numpy(t)).numpy()


if __name__ == "__main__":
    pictures()
