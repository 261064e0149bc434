"""The paper's figures from results: bands of one network, and coverage over all training runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from guardband import plot
from guardband.lab.paper.experiments import EXPERIMENTS, Preset
from guardband.lab.studies.tables import MethodRow
from guardband.pinn.problems.noise import Noise
from guardband.plot.style import legend
from guardband.values import Band, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = dict[tuple[str, str], MethodRow]
"""The rows of one preset, by experiment and method."""

RED = "#b3262e"
AFTER: dict[str, tuple[str, str]] = {
    "distance, scaled": ("CP on the distance", plot.ORANGE),
    "distance, pinball network, local": ("local CP, pinball network", plot.GRAY),
    "constant width, local": ("local CP, ours", plot.BLUE),
}


def draw_all(rows: Sequence[MethodRow], preset: Preset, folder: Path) -> dict[str, str]:
    """Draw every figure with complete rows as `figureN-preset.png`; return the names by number."""
    import matplotlib.pyplot as plt

    mine: Rows = {
        (row.experiment.split(", ")[0], row.method): row
        for row in rows
        if row.experiment.endswith(f", {preset}") and _drawable(row)
    }
    drawn = {}
    for number, (needed, draw) in FIGURES.items():
        if all(key in mine for key in needed):
            figure = draw(mine)
            figure.suptitle(f"{TITLES[number]} ({preset})", fontsize="medium")
            name = f"{number}-{preset}.png"
            figure.savefig(folder / name, dpi=80)
            plt.close(figure)
            drawn[number] = name
    return drawn


def _poisson(rows: Rows) -> Figure:
    row = rows["poisson", "VI, scaled"]
    figure, (left, middle, right) = _panels(1, 3, 13, 3.8, width_ratios=[2, 1, 1])
    field, x, truth = _field(row)
    for width, color, label in (
        (field["before"], RED, "before calibration"),
        (field["width"], plot.BLUE, "after"),
    ):
        ends = field["mean"] - width / 2, field["mean"] + width / 2
        left.fill_between(x[:, 0], *ends, color=color, alpha=0.25, lw=0, label=label)
    left.plot(x[:, 0], field["mean"], color=plot.BLUE, lw=1.4, label="prediction")
    left.plot(x[:, 0], truth, "--", color=plot.GRAY, lw=1.2, label="truth")
    left.set(xlabel="x", ylabel="u", title="one training, 95 %")
    legend(left)
    for ax, what, (before, after) in (
        (middle, "coverage at 95 %", (row.coverage("before"), row.coverage())),
        (right, "ACD", (row.find("before", "acd"), row.find("acd"))),
    ):
        for at, values, color in ((0, before, RED), (1, after, plot.BLUE)):
            middle_value = np.median(values)
            reach = [[middle_value - values.min()], [values.max() - middle_value]]
            ax.bar(at, middle_value, color=color, alpha=0.7, yerr=reach, capsize=4)
        ax.set(xticks=[0, 1])
        ax.set_title(f"{what}, median and range", fontsize="small")
        ax.set_xticklabels(["before", "after"])
    middle.axhline(0.95, ls=":", color=plot.GRAY)
    return figure


def _allen_cahn_fields(rows: Rows) -> Figure:
    row = rows["allen-cahn", "distance, scaled"]
    figure, axes = _panels(2, 3, 13, 7)
    field, x, truth = _field(row)
    widths = (0.0, max(field["before"].max(), field["width"].max()))
    panels = (
        ("|truth|", abs(truth), (0.0, 1.05)),
        ("|prediction|", abs(field["mean"]), (0.0, 1.05)),
        ("|error|", field["error"], None),
        ("width before, 95 %", field["before"], widths),
        ("width after, 95 %", field["width"], widths),
    )
    for ax, (title, values, limits) in zip(axes.flat, panels, strict=False):
        plot.heatmap(x, values, limits=limits, names=_names(row), ax=ax)
        ax.set_title(title, fontsize="medium")
    _before_after(axes.flat[-1], row)
    axes.flat[-1].set_title("coverage, all trainings", fontsize="medium")
    return figure


def _before_and_after(experiment: str, methods: Sequence[str]) -> Callable[[Rows], Figure]:
    """Return a function that draws coverage before and after calibration, one panel per method."""

    def draw(rows: Rows) -> Figure:
        figure, axes = _panels(1, len(methods), 3.4 * len(methods), 3.9, sharey=True)
        for ax, method in zip(axes.flat, methods, strict=True):
            _before_after(ax, rows[experiment, f"{method}, scaled"])
            ax.set_title(method, fontsize="medium")
            ax.label_outer()
        return figure

    return draw


def _oscillator_bands(rows: Rows) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [[*AFTER], ["width", "width", "noise"]], figsize=(14.5, 6.8), layout="constrained"
    )
    islands = EXPERIMENTS["oscillator"].noise
    for method, (label, color) in AFTER.items():
        field, x, truth = _field(rows["oscillator", method])
        ends = field["mean"] - field["width"] / 2, field["mean"] + field["width"] / 2
        around = Band(x, field["mean"], *ends, 0.95, _names(rows["oscillator", method]))
        plot.band(around, truth=truth, ax=axes[method])
        axes[method].set(title=f"{label}, 95 %", ylim=(-2, 2))
        axes["width"].plot(x[:, 0], field["width"], color=color, label=label)
    before, x, _ = _field(rows["oscillator", "distance, scaled"])
    axes["width"].plot(x[:, 0], before["before"], color=RED, lw=1, label="before calibration")
    axes["width"].set(title="width, 95 %", ylim=(0, None), xlabel="t")
    legend(axes["width"], ncols=4, loc="upper right")
    axes["noise"].plot(x[:, 0], before["error"], color=plot.GRAY, label="|error| of the network")
    axes["noise"].plot(x[:, 0], 1.96 * _noise(islands, x), color=RED, lw=1, label="1.96 noise")
    axes["noise"].set(title="what the band must hold", xlabel="t")
    legend(axes["noise"])
    for ax in axes.values():
        _islands(ax, islands)
        ax.set_xlim(x[0, 0], x[-1, 0])
    return figure


def _local_curves(experiments: Sequence[str]) -> Callable[[Rows], Figure]:
    """Return a function that draws coverage of plain and local CP in the noisy region and everywhere."""

    def draw(rows: Rows) -> Figure:
        if len(experiments) == 1:
            figure, axes = _panels(1, 2, 8, 4.2, sharey=True)
        else:
            figure, axes = _panels(2, len(experiments), 3.6 * len(experiments) + 0.6, 7.4, sharey=True)
        axes = axes.reshape(2, -1)
        for j, experiment in enumerate(experiments):
            for ax, path, place in (
                (axes[0, j], ("regions", "mask"), "noisy region"),
                (axes[1, j], (), "everywhere"),
            ):
                for method, (label, color) in AFTER.items():
                    _curve(ax, rows[experiment, method], path, color, label)
                _frame(ax)
                ax.set_title(f"{experiment}: {place}", fontsize="medium")
                ax.label_outer()
        return figure

    return draw


def _scenarios(rows: Rows) -> Figure:
    figure, axes = _panels(3, 2 + len(AFTER), 17.5, 8.8)
    for line, experiment in zip(axes, ("A", "B", "C"), strict=True):
        fields = {method: _field(rows[experiment, method])[0] for method in AFTER}
        plain, x, _ = _field(rows[experiment, "distance, scaled"])
        noise = EXPERIMENTS[experiment].noise
        widths = np.concatenate([plain["before"], *(field["width"] for field in fields.values())])
        limits = (0.0, float(np.quantile(widths, 0.99)))
        panels = [("|error|", plain["error"], None), ("width before CP", plain["before"], limits)]
        panels += [(f"width, {AFTER[method][0]}", field["width"], limits) for method, field in fields.items()]
        for ax, (title, values, its) in zip(line, panels, strict=True):
            plot.heatmap(x, values, limits=its, names=_names(rows[experiment, "distance, scaled"]), ax=ax)
            ax.set_title(f"{experiment}: {title}", fontsize="small")
            _outline(ax, noise)
    return figure


TITLES = {
    "figure2": "Poisson, variational inference before and after calibration",
    "figure3": "Allen-Cahn, geometric distance",
    "figure4": "Allen-Cahn, coverage of all trainings",
    "figure5": "Helmholtz, coverage of all trainings",
    "figure6": "Oscillator with noisy islands",
    "figure7": "Oscillator, coverage of all trainings",
    "figure8": "Allen-Cahn with three noise fields, one training",
    "figure9": "Allen-Cahn with three noise fields, coverage of all trainings",
}
FIGURES: dict[str, tuple[list[tuple[str, str]], Callable[[Rows], Figure]]] = {
    "figure2": ([("poisson", "VI, scaled")], _poisson),
    "figure3": ([("allen-cahn", "distance, scaled")], _allen_cahn_fields),
    "figure4": (
        [("allen-cahn", f"{m}, scaled") for m in ("latent distance", "dropout", "VI", "HMC")],
        _before_and_after("allen-cahn", ("latent distance", "dropout", "VI", "HMC")),
    ),
    "figure5": (
        [("helmholtz", f"{m}, scaled") for m in ("distance", "latent distance", "dropout")],
        _before_and_after("helmholtz", ("distance", "latent distance", "dropout")),
    ),
    "figure6": ([("oscillator", m) for m in AFTER], _oscillator_bands),
    "figure7": ([("oscillator", m) for m in AFTER], _local_curves(["oscillator"])),
    "figure8": ([(e, m) for e in "ABC" for m in AFTER], _scenarios),
    "figure9": ([(e, m) for e in "ABC" for m in AFTER], _local_curves("ABC")),
}


def _panels(
    lines: int,
    columns: int,
    width: float,
    height: float,
    sharey: bool = False,
    width_ratios: Sequence[float] | None = None,
) -> tuple[Figure, np.ndarray]:
    import matplotlib.pyplot as plt

    return plt.subplots(
        lines,
        columns,
        figsize=(width, height),
        layout="constrained",
        sharey=sharey,
        width_ratios=width_ratios,
    )


def _before_after(ax: Axes, row: MethodRow) -> None:
    _curve(ax, row, ("before",), RED, "before calibration")
    _curve(ax, row, (), plot.BLUE, "after")
    _frame(ax)


def _curve(ax: Axes, row: MethodRow, path: tuple[str, ...], color: str, label: str) -> None:
    """Draw the median over training runs as a line, and their range shaded."""
    levels, curves = [float(level) for level in row.levels], row.curves(*path)
    acd = np.median(row.find(*path, "acd"))
    ax.fill_between(levels, curves.min(0), curves.max(0), color=color, alpha=0.18, lw=0)
    ax.plot(levels, np.median(curves, 0), "o-", ms=2.5, lw=1.3, color=color, label=f"{label}, ACD {acd:.3f}")


def _frame(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], ":", color=plot.GRAY, lw=1)
    ax.set(xlim=(0, 1), ylim=(0, 1.01), xlabel="level asked", ylabel="coverage measured", aspect="equal")
    legend(ax, fontsize="x-small")


def _drawable(row: MethodRow) -> bool:
    """Whether the training run with a stored field is complete; in an unfinished study it may not be."""
    no_field = EXPERIMENTS[row.experiment.split(", ")[0]].grid == 0
    return no_field or any("field" in result["found"] for result in row.results)


def _field(row: MethodRow) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return the stored field of the first training run, its points and the truth at these points."""
    experiment = EXPERIMENTS[row.experiment.split(", ")[0]]
    kept = next(r["found"]["field"] for r in row.results if "field" in r["found"])
    x = experiment.problem.domain.grid(experiment.grid).double()
    values = {name: np.array(its, dtype=float) for name, its in kept.items()}
    return values, x.numpy(), experiment.problem.solution(x).numpy()[:, 0]


def _names(row: MethodRow) -> Names:
    """Return the names of axes and outputs of the problem."""
    return EXPERIMENTS[row.experiment.split(", ")[0]].problem.names


def _noise(noise: float | Noise, x: np.ndarray) -> np.ndarray:
    assert isinstance(noise, Noise)
    return noise(torch.tensor(x)).numpy()[:, 0]


def _islands(ax: Axes, noise: float | Noise) -> None:
    for center in noise.centers:  # type: ignore[union-attr]
        ax.axvspan(center - 0.2, center + 0.2, color=plot.GRAY, alpha=0.12, lw=0)


def _outline(ax: Axes, noise: float | Noise) -> None:
    """Outline the region in which the authors measured, dashed."""
    assert isinstance(noise, Noise)
    axis = torch.linspace(-1, 1, 200)
    grid = torch.cartesian_prod(axis, axis)
    inside = noise.authors_region(grid).double().reshape(200, 200).T
    ax.contour(axis, axis, inside, levels=[0.5], colors="white", linestyles="dashed", linewidths=1)
