"""Draw the pictures of the explanations and update the output of their blocks.

`python tools/regenerate.py explanation-promise` runs one of them.
"""

import contextlib
import math
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from scipy.stats import beta

import guardband as gb
from guardband import pinn
from guardband.conformal import CoverageLaw, rank
from guardband.lab.paper.verdicts import PAPER

FOLDER = Path(__file__).parents[2] / "docs/explanation"
BLOCKS = runpy.run_path(str(Path(__file__).with_name("blocks.py")))
BLUE, ORANGE, GRAY = gb.plot.BLUE, gb.plot.ORANGE, gb.plot.GRAY


def panels(n: int, width: float = 3.5, height: float = 3.6, **options: Any) -> Sequence[Axes]:
    """A new picture with n panels side by side."""
    return plt.subplots(1, n, figsize=(n * width, height), layout="constrained", squeeze=False, **options)[1][
        0
    ]


def save(name: str) -> None:
    """Write the newest picture, with titles that fit above its panels."""
    for ax in plt.gcf().axes:
        ax.title.set_fontsize("medium")
    BLOCKS["save"](FOLDER / "images" / f"{name}.png")


def legend(axes: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    found: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
        if (own := ax.get_legend()) is not None:
            own.remove()
    plt.gcf().legend(
        list(found.values()), list(found), loc="outside lower center", ncols=len(found), frameon=False
    )


def promise() -> None:
    """The rank of a new score, the Beta law, and what is not promised."""
    rng = np.random.default_rng(0)
    left, right = panels(2)
    tickets = rng.exponential(size=(12, 20))
    for row, scores in enumerate(tickets):
        inside = scores[19] <= scores[:19].max()
        left.plot([0, scores[:19].max()], [row, row], color=BLUE, alpha=0.25, lw=6, solid_capstyle="butt")
        left.plot(scores[:19], [row] * 19, ".", color=GRAY, ms=4)
        left.plot(scores[19], row, "o" if inside else "X", color=ORANGE, ms=7)
    left.set(title="19 scores (gray), a new one (orange)", xlabel="score", ylabel="experiment", yticks=[])
    left.set_xlim(0, None)
    many = rng.exponential(size=(20_000, 20))
    ranks = 1 + (many[:, :19] < many[:, 19:]).sum(axis=1)
    shares = np.bincount(ranks, minlength=21)[1:] / len(ranks)
    right.bar(np.arange(1, 21), shares, color=[BLUE] * 19 + [ORANGE], alpha=0.7)
    right.axhline(1 / 20, color=GRAY, ls="--", lw=1)
    right.set(title="rank of the new one, 20 000 times", xlabel="rank among twenty", ylabel="share")
    right.set_xticks([1, 5, 10, 15, 20])
    save("promise-rank")

    (ax,) = panels(1, width=6.5)
    shares = np.linspace(0.75, 1, 800)
    for n, color in ((19, GRAY), (100, BLUE), (1000, ORANGE)):
        k = rank(n, 0.95)
        ax.fill_between(shares, beta.pdf(shares, k, n + 1 - k), color=color, alpha=0.35, lw=0)
        ax.plot(shares, beta.pdf(shares, k, n + 1 - k), color=color, label=f"{n} calibration points")
    ax.axvline(0.95, color="black", ls="--", lw=1)
    ax.set(title="the coverage that a 95 % band really has", xlabel="coverage", yticks=[], xlim=(0.75, 1))
    ax.set_ylabel("density")
    ax.set_ylim(0, None)
    ax.legend(frameon=False, loc="upper left")
    save("promise-law")
    not_promised(rng)


def not_promised(rng: np.random.Generator) -> None:
    """Uneven coverage, shifted queries, and a biased sensor."""
    grid = np.linspace(0, 1, 300)[:, None]

    def wave(x: np.ndarray) -> np.ndarray:
        return np.sin(3 * x)

    def middle(x: np.ndarray) -> np.ndarray:
        return np.where(abs(x - 0.5) < 0.1, 0.3, 0.03)

    def growing(x: np.ndarray) -> np.ndarray:
        return 0.02 + 0.3 * x**2

    model = gb.predictors.MeanOnly(wave)
    axes = panels(3, width=2.6, height=3.9, sharey=True)
    x = rng.uniform(size=(150, 1))
    _band(axes[0], model, x, wave(x) + middle(x) * rng.normal(size=x.shape), x, grid, middle, rng)
    axes[0].axvspan(0.4, 0.6, color=GRAY, alpha=0.15, lw=0)
    axes[0].set_title("not at every place")
    left, right = rng.beta(1, 4, size=(150, 1)), rng.beta(4, 1, size=(150, 1))
    y = wave(left) + growing(left) * rng.normal(size=left.shape)
    _band(axes[1], model, left, y, right, grid, growing, rng)
    axes[1].set_title("not elsewhere")
    high = gb.predictors.MeanOnly(lambda x: wave(x) + 0.4)
    y = wave(x) + 0.4 + 0.08 * rng.normal(size=x.shape)
    band = gb.calibrate(high, x, y)(grid)
    gb.plot.band(band, truth=wave(grid), data=gb.Observations(x, y), ax=axes[2])
    axes[2].set_title("not the truth")
    for ax in axes:
        ax.set(ylim=(-0.7, 2), xlabel="x", ylabel="", xticks=[0, 0.5, 1])
    legend(axes)
    axes[0].set_ylabel("y")
    save("promise-not")


def _band(
    ax: Axes,
    model: gb.Predictor,
    x: np.ndarray,
    y: np.ndarray,
    places: np.ndarray,
    grid: np.ndarray,
    noise: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
) -> None:
    """A band from (x, y), and new measurements at `places`; crosses mark those outside the band."""
    calibrated = gb.calibrate(model, x, y)
    new = model(places).mean + noise(places) * rng.normal(size=places.shape)
    outside = ~calibrated(places).contains(new)
    gb.plot.band(calibrated(grid), data=gb.Observations(x, y), ax=ax)
    ax.plot(places[outside], new[outside], "x", color=ORANGE, ms=6, label="new, missed")


def coverage_alone() -> None:
    """Three networks whose bands have the same coverage."""
    names: dict[str, Any] = {}
    first = BLOCKS["BLOCK"].search((FOLDER / "coverage_alone.md").read_text())
    with contextlib.redirect_stdout(None):
        exec(compile(first["code"], "coverage_alone.md", "exec"), names)
    problem, cal, networks = names["problem"], names["cal"], names["networks"]
    grid = problem.domain.grid(200)
    axes = panels(3, width=2.6, height=3.9, sharey=True)
    for ax, (name, network) in zip(axes, networks.items(), strict=True):
        band = gb.calibrate(gb.predictors.MeanOnly(network), cal.x, cal.y)(grid)
        gb.plot.band(band, truth=problem.solution(grid), data=cal, ax=ax)
        covered = names["evaluations"][name].coverage
        ax.set(title=f"{name}: {covered:.1%} covered", ylabel="", ylim=(-3.2, 2.5), xticks=[0, 0.5, 1])
    legend(axes)
    axes[0].set_ylabel("u")
    save("coverage-zero")

    axes = panels(3, width=2.6, height=3.4)
    levels = np.array(gb.conformal.LEVELS, dtype=float)
    colors = (BLUE, ORANGE, GRAY)
    low, high = names["evaluations"]["trained"].ranges.T
    axes[0].fill_between(levels, low, high, color=GRAY, alpha=0.2, lw=0, label="valid (99 %)")
    for i, (name, found) in enumerate(names["evaluations"].items()):
        axes[0].plot(levels, found.rows[0].coverages, "o-", ms=3, color=colors[i], label=name)
        error = gb.metrics.relative_l2(networks[name](grid), problem.solution(grid))
        axes[1].bar(i, found.sharpness, color=colors[i])
        axes[2].bar(i, error, color=colors[i])
    axes[0].plot([0, 1], [0, 1], ":", color=GRAY, lw=1)
    axes[0].set(title="coverage", xlabel="level asked", ylabel="coverage measured")
    axes[0].legend(frameon=False, fontsize="small")
    for ax, title in zip(axes[1:], ("width of the 95 % band", "relative L2 error"), strict=True):
        ax.set(title=title, xticks=range(3), xticklabels=list(networks))
    save("coverage-curves")


def acd() -> None:
    """The ACD of perfect bands, and its dependence on the number of points."""
    rng = np.random.default_rng(0)
    levels = np.array(gb.conformal.LEVELS, dtype=float)
    ranks = np.array([rank(100, level) for level in gb.conformal.LEVELS])
    thresholds = np.sort(rng.uniform(size=(20_000, 100)))[:, ranks - 1]
    test = np.sort(rng.uniform(size=(20_000, 100)))
    covered = (
        np.array([np.searchsorted(t, q, side="right") for t, q in zip(test, thresholds, strict=True)]) / 100
    )
    found = np.abs(covered - levels).mean(axis=1)
    (ax,) = panels(1, width=7, height=3.8)
    bins = np.arange(-0.5, 270, 6) / 1900  # with 100 points and 19 levels an ACD is a multiple of 1 / 1900
    ax.hist(found, bins=list(bins), density=True, color=BLUE, alpha=0.4, label="perfect bands")
    ax.axvline(gb.metrics.acd_floor(100, 100).mean, color=BLUE, lw=1.6, label="their exact mean")
    values = {name: after for (problem, name), (*_, after) in PAPER.items() if problem == "allen-cahn"}
    top = ax.get_ylim()[1]
    for row, (name, value) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        height = top * (0.08 + 0.09 * row)
        ax.plot([value, value], [0, height], color=ORANGE, lw=1)
        ax.plot(value, height, "o", color=ORANGE, ms=5, label="the paper's values" if row == 0 else None)
        ax.annotate(name, (value, height), (5, -3), textcoords="offset points", fontsize="small")
    ax.set(title="ACD with 100 calibration and 100 test points", xlabel="ACD", yticks=[], xlim=(0, 0.14))
    ax.set_ylabel("density")
    ax.legend(frameon=False)
    save("acd-floor")

    (ax,) = panels(1, width=6.5)
    sizes = [20, 50, 100, 200, 500, 1000, 2000]
    for name, of, color in (("as many test points", 1, BLUE), ("ten times as many", 10, ORANGE)):
        floors = [gb.metrics.acd_floor(n, of * n) for n in sizes]
        ax.loglog(sizes, [floor.mean for floor in floors], "o-", ms=4, color=color, label=name)
        low, high = [floor.low for floor in floors], [floor.high for floor in floors]
        ax.fill_between(sizes, low, high, color=color, alpha=0.15, lw=0)
    ax.set(
        title="the floor of ACD, and the range of 95 % of cases", xlabel="calibration points", ylabel="ACD"
    )
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.set_yticks([0.01, 0.03, 0.1], ["0.01", "0.03", "0.1"])
    ax.minorticks_off()
    ax.legend(frameon=False)
    save("acd-points")


def paper() -> None:
    """Three ranks, and noise once or twice."""
    (ax,) = panels(1, width=7, height=3.8)
    n = np.arange(5, 121)
    displayed = [CoverageLaw(math.ceil(95 * size / 100), int(size)).mean for size in n]
    right = np.array([rank(int(size), "0.95") for size in n])
    ax.plot(n, displayed, drawstyle="steps-mid", color=ORANGE, label="as displayed: ceil(n level)")
    clipped = np.minimum(right + 1, n) / (n + 1)
    ax.plot(
        n, clipped, drawstyle="steps-mid", color=GRAY, label="as in the code: one too high, or the largest"
    )
    exact = np.where(right <= n, right / (n + 1), 1.0)
    ax.plot(
        n, exact, drawstyle="steps-mid", color=BLUE, label="exact: ceil((n + 1) level), infinite below 19"
    )
    ax.axhline(0.95, color="black", ls="--", lw=1)
    ax.set(title="the coverage of three ranks, level 0.95", xlabel="calibration points n", ylabel="coverage")
    ax.set(ylim=(0.82, 1.005), xlim=(5, 120))
    ax.legend(frameon=False, loc="lower right")
    save("paper-rank")

    problem, once = pinn.problems.DampedOscillator(), pinn.problems.noise.Islands()

    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.hypot(once(x), once.extra(x))

    perfect = gb.predictors.MeanOnly(problem.solution)
    cal = problem.observe(20_000, noise=once, seed=0)
    calibrated = gb.calibrate(perfect, cal.x, cal.y)
    grid = problem.domain.grid(600)
    axes = plt.subplots(2, 1, figsize=(7, 5.6), layout="constrained", sharex=True, sharey=True)[1]
    for ax, (name, noise) in zip(axes, (("once", once), ("twice", twice)), strict=True):
        data = problem.observe(600, noise=noise, seed=1)
        gb.plot.band(calibrated(grid), ax=ax)
        inside = calibrated(data.x).contains(data.y)
        for mask, mark, color in ((inside, ".", GRAY), (~inside, "x", ORANGE)):
            ax.plot(
                data.x[mask],
                data.y[mask],
                mark,
                color=color,
                ms=4,
                label="missed" if mark == "x" else "new data",
            )
        for center in once.centers:
            ax.axvspan(center - once.half_width, center + once.half_width, color=GRAY, alpha=0.12, lw=0)
        ax.set(title=f"test points with the island noise {name}", xlabel="", ylabel="u", ylim=(-1.4, 1.9))
    axes[1].set_xlabel("t")
    legend(axes)
    save("paper-islands")


def coefficients() -> None:
    """The regions of twenty data sets, with noise that is loud late and quiet early."""
    family = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    rng = np.random.default_rng(0)
    (ax,) = panels(1, width=6.5)
    for row in range(20):
        x = rng.uniform(size=(30, 2))
        loud = 0.02 + 0.15 * (x[:, 1:] > 0.5)
        clean = np.asarray(family(x, [0.1])[0])
        data = gb.Observations(x, clean + loud * rng.laplace(size=(30, 1)))
        region = pinn.inverse.sign_perturbed(family, data, seed=row)
        held = region.contains(diffusivity=0.1)
        color = BLUE if held else ORANGE
        ax.plot(
            region.interval("diffusivity"), [row, row], color=color, lw=5, alpha=0.5, solid_capstyle="butt"
        )
        ax.plot(region.estimate[0], row, "o", color=color, ms=4)
    ax.axvline(0.1, color="black", ls="--", lw=1, label="the true diffusivity")
    ax.set(title="twenty data sets of thirty readings, 95 % regions", xlabel="diffusivity", yticks=[])
    ax.set_ylabel("data set")
    ax.legend(frameon=False, loc="upper right")
    save("coefficients-regions")


def main(chosen: Sequence[str]) -> None:
    """Pictures and printed text of the pages chosen."""
    drawn = {
        "promise": promise,
        "coverage_alone": coverage_alone,
        "acd": acd,
        "paper": paper,
        "coefficients": coefficients,
    }
    for name in chosen or drawn:
        page = FOLDER / f"{name}.md"
        BLOCKS["renew"](page)
        drawn[name]()
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
