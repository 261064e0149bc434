"""Draw the pictures of docs/calibrators.md: `python tools/regenerate.py calibrators`."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes

import guardband as gb
from guardband import pinn

FOLDER = Path(__file__).parents[2] / "docs"
RNG = np.random.default_rng(0)
GRID = np.linspace(0, 1, 400)[:, None]
PREDICTOR = gb.predictors.MeanOnly(lambda x: np.sin(3 * x))


def noise(x: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise, ten times larger in the middle."""
    return np.where(abs(x - 0.5) < 0.1, 0.3, 0.03)


def measure(x: np.ndarray) -> np.ndarray:
    """A noisy reading at each x."""
    return np.sin(3 * x) + noise(x) * RNG.normal(size=x.shape)


def draw(ax: Axes, band: gb.Band, data: gb.Observations, title: str) -> None:
    """One band with its data."""
    ax.set_ylim(-1, 2.2)  # first, since infinite bands extend to these limits
    gb.plot.band(band, data=data, ax=ax)
    ax.set(xlim=(0, 1))
    ax.set_title(title, fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left", ncols=4)


def save(figure: Any, name: str) -> None:
    """Write a picture of the page."""
    figure.savefig(FOLDER / "images" / f"{name}.png", dpi=120)
    plt.close(figure)


def pictures() -> None:
    """Draw all pictures."""
    x_train, x_cal = (RNG.uniform(size=(n, 1)) for n in (300, 100))
    train, cal = (gb.Observations(x, measure(x)) for x in (x_train, x_cal))
    for name, calibrator in (
        ("split", gb.Split()),
        ("local", gb.Local(train)),
        ("randomly_localized", gb.conformal.RandomlyLocalized(inputs=x_train)),
    ):
        figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        calibrated = gb.calibrate(PREDICTOR, cal.x, cal.y, calibrator=calibrator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gb.conformal.InfiniteBandWarning)
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
    tree()
    few_points()
    conditional()
    risk()
    drifting()


def weighted() -> None:
    """Covariate shift: sensors crowd on the left, queries on the right."""
    x = RNG.beta(1, 3, size=(150, 1))
    crowded = gb.Observations(x, np.sin(3 * x) + (0.03 + 0.3 * x) * RNG.normal(size=x.shape))

    def ratio(x: np.ndarray) -> np.ndarray:
        return x[:, 0] ** 2 / np.maximum((1 - x[:, 0]) ** 2, 1e-12)

    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    plain = gb.calibrate(PREDICTOR, crowded.x, crowded.y)
    shifted = gb.calibrate(PREDICTOR, crowded.x, crowded.y, calibrator=gb.Weighted(ratio))
    draw(axes[0], plain(GRID, 0.9), crowded, "Split: sensors crowd to the left, queries to the right")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.conformal.InfiniteBandWarning)
        band = shifted(GRID, 0.9)
    draw(axes[1], band, crowded, "Weighted: wider, and infinite where nothing is known")
    axes[0].set(xlabel="")
    save(figure, "weighted")


def simultaneous() -> None:
    """Run the page's block, and draw three of its curves."""
    blocks = re.findall(r"```python\n(.*?)```", (FOLDER / "calibrators.md").read_text(), re.S)
    names: dict[str, Any] = {"gb": gb, "np": np, "__name__": "page"}
    exec(next(block for block in blocks if "Simultaneous" in block), names)
    band, truth = names["band"], names["truth"]
    t = np.linspace(0, 2, 60)
    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for i, color in enumerate((gb.plot.BLUE, gb.plot.ORANGE, gb.plot.GRAY)):
        ax.fill_between(t, band.lower[i, :, 0], band.upper[i, :, 0], color=color, alpha=0.3, lw=0)
        ax.plot(t, truth[i, :, 0], color=color, lw=1)
    ax.set(xlabel="t", ylabel="u", title="Simultaneous: 90 % of curves lie wholly in their band")
    ax.title.set_fontsize("medium")
    save(figure, "simultaneous")


QUESTIONS = (
    ("One row is a whole field?", "Simultaneous, Share, Norm, Quantity"),
    ("Under 100 readings in all?", "Tangent, or calibrate_cross"),
    ("Does the sensor drift?", "Stream"),
    ("Is it the truth you want,\nand you know the noise?", 'target="truth"'),
    ("Are queries elsewhere?", "Weighted"),
    ("New sensors to come?", "Clustered"),
    ("Must each regime be right?", "Grouped, or Conditional"),
    ("A cost rather than a count?", "RiskControl"),
    ("Does the noise vary?", "Local, or Quantiles"),
)
"""The questions in order, each with the method for yes."""


def tree() -> None:
    """Draw the decision tree of the page."""
    figure, ax = plt.subplots(figsize=(6.4, 7.2), layout="constrained")
    question = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": gb.plot.GRAY}
    answer = {"boxstyle": "round,pad=0.4", "facecolor": gb.plot.BLUE, "edgecolor": "none"}
    arrow = {"arrowstyle": "->", "color": gb.plot.GRAY}
    for i, (asked, leads) in enumerate((*QUESTIONS, ("", "Split, the default"))):
        y = -float(i)
        last = i == len(QUESTIONS)
        x = 0.27 if last else 0.76
        ax.text(x, y, leads, ha="center", va="center", color="white", bbox=answer, fontsize="small")
        if last:
            break
        ax.text(0.27, y, asked, ha="center", va="center", bbox=question, fontsize="small")
        ax.annotate("", (0.56, y), (0.48, y), arrowprops=arrow)
        ax.text(0.52, y + 0.1, "yes", ha="center", fontsize="small", color=gb.plot.GRAY)
        ax.annotate("", (0.27, y - 0.72), (0.27, y - 0.28), arrowprops=arrow)
        ax.text(0.29, y - 0.55, "no", fontsize="small", color=gb.plot.GRAY)
    ax.set(xlim=(0, 1), ylim=(-len(QUESTIONS) - 0.5, 0.5))
    ax.axis("off")
    save(figure, "tree")


def few_points() -> None:
    """Thirty readings of an oscillator whose frequency and damping differ from the assumed ones."""
    believed = pinn.problems.DampedOscillator(damping=0.08, frequency=1.02 * 2 * np.pi)
    few = pinn.problems.DampedOscillator().observe(30, noise=0.05, seed=1)
    net, recipe = pinn.mlp(believed, [24, 24], fourier=(8, 6.0)), pinn.Recipe.by_newton(60)
    alone = pinn.fit(believed, net, recipe=recipe, progress=False)
    t = np.linspace(0, 5, 400)[:, None]
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    for ax, calibrated, title in (
        (axes[0], gb.calibrate(alone, *few), "Equation only: 90 %, 30 readings calibrate"),
        (axes[1], pinn.Tangent(alone, noise=0.05).calibrate(*few), "Tangent: the same readings move it too"),
    ):
        gb.plot.band(calibrated(t, 0.9), data=few, ax=ax)
        ax.plot(t, few_truth(t), "--", color=gb.plot.ORANGE, lw=1, label="truth")
        ax.set_title(title, fontsize="medium")
        ax.legend(frameon=False, fontsize="small", loc="upper right", ncols=4)
    axes[0].set(xlabel="")
    save(figure, "few_points")


def few_truth(t: np.ndarray) -> np.ndarray:
    """The solution that the readings sample."""
    return pinn.problems.DampedOscillator().solution(torch.from_numpy(t)).numpy()


def conditional() -> None:
    """Features for two regimes and a trend."""
    x = RNG.uniform(size=(300, 1))
    data = gb.Observations(x, measure(x))

    def features(x: np.ndarray) -> np.ndarray:
        return np.hstack([abs(x - 0.5) < 0.1, x < 0.3, x])

    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    made = gb.calibrate(PREDICTOR, data.x, data.y, calibrator=gb.Conditional(features))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.conformal.InfiniteBandWarning)
        draw(ax, made(GRID[::2], 0.9), data, "Conditional: 90 % in each regime, over a draw for each query")
    save(figure, "conditional")


def risk() -> None:
    """The same readings, with coverage and with the distance outside as the loss."""
    x = RNG.uniform(size=(300, 1))
    data = gb.Observations(x, measure(x))

    def cost(band: gb.Band, y: np.ndarray) -> np.ndarray:
        outside = np.maximum(band.lower - y, y - band.upper).max(axis=1)
        return np.clip(outside / 0.1, 0, 1)

    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    both: dict[str, Any] = {"Split: 90 % of readings inside": gb.Split()}
    both["RiskControl: expected cost, distance over 0.1, at most 10 %"] = gb.RiskControl(cost)
    for ax, (title, calibrator) in zip(axes, both.items(), strict=True):
        draw(ax, gb.calibrate(PREDICTOR, data.x, data.y, calibrator=calibrator)(GRID, 0.9), data, title)
    axes[0].set(xlabel="")
    save(figure, "risk")


def drifting() -> None:
    """A sensor whose noise grows: a static band, an adaptive one, and alarms."""
    t, generator = np.arange(3000.0), np.random.default_rng(0)
    before = np.arange(-300.0, 0.0)
    made = gb.calibrate(
        lambda t: np.sin(t / 50), before, np.sin(before / 50) + 0.1 * generator.normal(size=300)
    )
    y = np.sin(t / 50) + 0.1 * (1 + t / 1000) * generator.normal(size=3000)
    stream = gb.Stream(made, 0.9)
    found, static = stream.follow(t, y), made(t, 0.9)
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.6), layout="constrained", sharex=True)
    residual = y - np.sin(t / 50)
    axes[0].plot(t, residual, ".", color=gb.plot.GRAY, ms=2)
    for band, color, name in ((static, gb.plot.ORANGE, "static"), (found.band, gb.plot.BLUE, "stream")):
        for end in (band.lower, band.upper):
            axes[0].plot(t, end[:, 0] - np.sin(t / 50), color=color, lw=1, label=name)
            name = None
    for alarm in stream.alarms:
        axes[0].axvline(alarm - 1, color="k", lw=0.8, ls=":")
    axes[0].set(
        ylabel="reading - model", title="90 % bands around a sensor whose noise grows; dotted: alarms"
    )
    kernel = np.ones(300) / 300
    for missed, color in ((~static.contains(y), gb.plot.ORANGE), (found.missed, gb.plot.BLUE)):
        axes[1].plot(t[299:], np.convolve(missed, kernel, "valid"), color=color)
    axes[1].axhline(0.1, color=gb.plot.GRAY, lw=0.8)
    axes[1].set(xlabel="t", ylabel="missed, of the last 300", ylim=(0, None))
    axes[0].legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
    axes[0].title.set_fontsize("medium")
    save(figure, "drifting")


if __name__ == "__main__":
    for asked in sys.argv[1:] or ["pictures"]:
        globals()[asked]()
