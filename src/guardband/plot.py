"""Plots: a band, its width, a field, a coverage curve, chains. Each draws on an Axes and returns it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.arrays import Array, ArrayLike, rows, to_numpy, to_torch
from guardband.evaluation import Evaluation
from guardband.geometry import Domain
from guardband.labels import axis_words, word
from guardband.values import Band, Observations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from guardband.predictors.diagnostics import Diagnostics

BLUE, ORANGE, GREY = "#1f5fa8", "#d9730d", "#5f6670"
KINDS = {"this band": BLUE, "constant width": ORANGE, "before calibration": GREY}
"""The colors of bands that are compared, by how the names of their rows start."""

SLICE = (
    "Draw a slice: take points of a plane, with all coordinates but two held, and give the two that vary, as "
    "in gb.plot.heatmap(x[:, :2], values)."
)


def band(
    band: Band,
    *,
    truth: ArrayLike | None = None,
    data: Observations | None = None,
    output: int | str = 0,
    ax: Axes | None = None,
) -> Axes:
    """A band over a one-dimensional x: the mean as a line, the band shaded, truth and data if given.

    An infinite band is shaded over the whole height. `output` picks one of several outputs, by number, or by
    name where the band knows it.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> ax = gb.plot.band(calibrated(x, level=0.9), truth=np.sin(x))
    >>> ax.get_legend_handles_labels()[1]
    ['truth', 'prediction', '0.9 band']
    """
    x, output = _points(band, 1)[:, 0], _output(band, output)
    mean = to_numpy(band.mean)[:, output]
    order = np.argsort(x)
    ax = _axes(ax)
    low, high = (to_numpy(end)[order, output] for end in (band.lower, band.upper))
    if data is not None:
        ax.plot(
            to_numpy(data.x)[:, 0],
            to_numpy(data.y)[:, output],
            ".",
            color=GREY,
            ms=4,
            alpha=0.7,
            label="data",
        )
    if truth is not None:
        true_values = to_numpy(rows(truth, "truth"))[order, output]
        ax.plot(x[order], true_values, "--", color=ORANGE, lw=1.4, label="truth")
    ax.plot(x[order], mean[order], color=BLUE, lw=1.6, label="prediction")
    bottom, top = ax.get_ylim()
    label = f"{band.level:.4g} band"
    ends = np.nan_to_num(low, neginf=bottom), np.nan_to_num(high, posinf=top)
    ax.fill_between(x[order], *ends, color=BLUE, alpha=0.2, lw=0, label=label)
    of = "y" if band.names is None else word(band.names.outputs[output])
    ax.set(xlabel=axis_words(band.names, ["x"])[0], ylabel=of, xlim=(x.min(), x.max()))
    ax.legend(frameon=False, fontsize="small")
    return ax


def heatmap(
    x: ArrayLike,
    values: ArrayLike,
    *,
    label: str = "",
    limits: tuple[float, float] | None = None,
    colorbar: bool = True,
    names: Sequence[str] = ("x0", "x1"),
    domain: Domain | None = None,
    ax: Axes | None = None,
    **style: Any,
) -> Axes:
    """Values (n,) over a two-dimensional x (n, 2): on a regular grid as pixels, else by triangles.

    `names` are those of the axes; what lies outside of the `domain`, such as a hole between scattered points,
    stays blank. `limits` fixes the colors, so that fields can be compared; infinite values
    stay blank. Without its own `colorbar`, several can share one:
    `figure.colorbar(ax.collections[0], ax=axes)`. Values that are the same everywhere, but for rounding, are
    drawn in one color, and the label says the value.

    >>> import guardband as gb
    >>> x = gb.problems.Box((-1, -1), (1, 1)).grid(20)
    >>> ax = gb.plot.heatmap(x, gb.problems.AllenCahn2D().solution(x), label="u", limits=(-1, 1))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    """
    x, values = to_numpy(rows(x, "x")), np.asarray(to_numpy(values), float).reshape(-1)
    if x.shape != (len(values), 2):
        cure = f" {SLICE}" if x.shape[-1] > 2 else ""
        raise ValueError(f"`x` should be ({len(values)}, 2) for a field, got {x.shape}.{cure}")
    if domain is not None and not isinstance(domain, Domain):
        cure = " Give problem.domain." if hasattr(domain, "domain") else ""
        raise TypeError(f"`domain` should be a shape, got {domain!r:.80}.{cure}")
    known = np.isfinite(x).all(axis=1)  # of a frame, some numbers may be missing
    x, values = x[known], values[known]
    ax = _axes(ax)
    same = _constant(values)
    if same is not None:
        values, label = np.where(np.isfinite(values), same, values), _everywhere(label, same, values)
    shown = np.ma.masked_invalid(values)
    low, high = limits or (shown.min(), shown.max()) if shown.count() else (0.0, 1.0)
    if low == high:
        low, high = low - 0.05 * abs(low) - 1e-12, high + 0.05 * abs(high) + 1e-12
    style = {"cmap": "viridis", "vmin": low, "vmax": high, **style}
    grid = _grid(x)
    if grid is not None:
        (first, second), order = grid
        picture = shown[order].reshape(len(first), len(second)).T
        colors = ax.pcolormesh(first, second, picture, shading="nearest", **style)
    else:
        good = ~np.ma.getmaskarray(shown)
        colors = _triangles(ax, x[good], values[good], style, domain)
    if colorbar:
        bar = ax.figure.colorbar(colors, ax=ax, label=label)
        if same is not None and limits is None:
            bar.set_ticks([same], labels=[f"{same:.4g}"])
    ax.set(xlabel=names[0], ylabel=names[1], aspect="equal")
    return ax


def _output(band: Band, output: int | str) -> int:
    """The number of an output, which a band may know by name."""
    if isinstance(output, int):
        return output
    if band.names is None:
        raise ValueError(f"This band does not know its outputs by name; give {output!r} as a number.")
    return band.names.positions(output)[0]


def _triangles(
    ax: Axes, x: np.ndarray, values: np.ndarray, style: dict[str, Any], domain: Domain | None
) -> Any:
    """Colors between scattered points, or dots where there is nothing between: few points, or a line."""
    if len(x) and np.linalg.matrix_rank(x - x[0]) == 2:
        from matplotlib.tri import Triangulation

        try:
            between = Triangulation(x[:, 0], x[:, 1])
            if domain is not None:
                middles = to_torch(x[between.triangles].mean(axis=1))
                between.set_mask(~domain.contains(middles).numpy())
            return ax.tripcolor(between, values, shading="gouraud", **style)
        except RuntimeError:  # as good as on a line, in the eyes of the triangulation
            pass
    return ax.scatter(x[:, 0], x[:, 1], c=values, **style)


def _constant(values: np.ndarray, rounding: float = 0.0) -> float | None:
    """The one value of a field that varies by rounding alone, among those that are finite; else None."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    return (low + high) / 2 if high - low <= max(rounding, 1e-6 * max(abs(low), abs(high))) else None


def _everywhere(label: str, value: float, values: np.ndarray) -> str:
    where = "everywhere" if np.isfinite(values).all() else "where it is finite"
    return f"{label}{': ' if label else ''}{value:.4g} {where}"


def width(band: Band, *, output: int | str = 0, ax: Axes | None = None, **style: Any) -> Axes:
    """The width of a band over x: a line in one dimension, a field in two.

    A width that is the same everywhere is drawn so, and the label says the value: the ends of a band are
    rounded, and their difference is rounding where the band is narrow and the mean is large.

    >>> import guardband as gb
    >>> band = gb.Band([0.0, 1.0], [0.0, 0.0], [-1.0, -2.0], [1.0, 2.0], level=0.9)
    >>> gb.plot.width(band).get_ylabel()
    'width of the 0.9 band'
    """
    output = _output(band, output)
    mean, values = (to_numpy(part)[:, output] for part in (band.mean, band.width))
    finite = np.isfinite(values)
    largest = float((abs(mean[finite]) + values[finite]).max(initial=0))
    ulp = float(np.finfo(np.result_type(values, np.float16)).eps) * largest
    same = _constant(values, 32 * ulp)  # either end may be off by some
    label = f"width of the {band.level:.4g} band"
    if same is not None:
        values = np.where(finite, same, values.astype(float))
    if band.x is not None and band.x.shape[-1] == 2:
        axes = axis_words(band.names, ["x0", "x1"])
        return heatmap(band.x, values, label=label, names=axes, ax=ax, **style)
    if band.x is not None and band.x.shape[-1] > 2:
        raise ValueError(f"A width is drawn over one axis or two, got shape {tuple(band.x.shape)}. {SLICE}")
    x = _points(band, 1)[:, 0]
    order = np.argsort(x)
    ax = _axes(ax)
    ax.plot(x[order], values[order], **{"color": BLUE, "lw": 1.6, **style})
    top = None
    if same is not None:
        label, top = _everywhere(label, same, values), 1.5 * same or 1.0
    ax.set(xlabel=axis_words(band.names, ["x"])[0], ylabel=label, ylim=(0, top))
    return ax


def coverage_curve(evaluation: Evaluation, *, ax: Axes | None = None) -> Axes:
    """Coverage against level, for every band of an evaluation over all test points.

    The shaded region holds the coverage of a perfectly valid band, at each level in 99 % of cases,
    for this number of calibration and test points; a curve inside it cannot be told from perfect.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
    >>> ax = gb.plot.coverage_curve(gb.evaluate(calibrated, draw(size=500), draw(size=500)))
    >>> ax.get_legend_handles_labels()[1]
    ['valid (99 %)', 'this band']
    """
    ax = _axes(ax)
    main = evaluation.rows[0]
    levels = np.array([float(level) for level in main.levels])
    if evaluation.ranges is not None:
        low, high = evaluation.ranges.T
        ax.fill_between(levels, low, high, color=GREY, alpha=0.2, lw=0, label="valid (99 %)")
    ax.plot([0, 1], [0, 1], ":", color=GREY, lw=1)
    drawn: Counter[str] = Counter()
    for row in evaluation.rows:
        if row.region:
            continue
        color = next((color for kind, color in KINDS.items() if row.name.startswith(kind)), GREY)
        style = ("o-", "o--", "o-.", "o:")[drawn[color] % 4]  # outputs that are covered each by itself
        ax.plot(levels, row.coverages, style, ms=3, lw=1.4, color=color, label=row.name)
        drawn[color] += 1
    ax.set(xlabel="level asked", ylabel="coverage measured", xlim=(0, 1), ylim=(0, 1.01))
    ax.set_aspect("equal")
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    return ax


def trace(diagnostics: Diagnostics, of: str | int = "U", *, ax: Axes | None = None) -> Axes:
    """How U, |theta| or the prediction at one of the probe points (its number) moved along each chain.

    >>> import guardband as gb
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=20, finish=0)
    >>> fitted = gb.fit(problem, gb.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False)
    >>> chains = gb.predictors.HMC(fitted, draws=5, warmup=3, progress=False)
    >>> gb.plot.trace(chains.diagnostics, "U").get_xlabel()
    'draw'
    """
    ax = _axes(ax)
    known = {"U": diagnostics.potential, "|theta|": diagnostics.norm}
    if isinstance(of, str) and of not in known:
        raise ValueError(f"`of` should be one of {', '.join(known)} or the number of a probe, got {of!r}.")
    series = known[of] if isinstance(of, str) else diagnostics.predictions[..., of]
    for number, chain in enumerate(series):
        ax.plot(chain, lw=0.8, alpha=0.8, label=f"chain {number}")
    ax.set(xlabel="draw", ylabel=of if isinstance(of, str) else f"prediction at probe {of}")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _points(band: Band, d: int) -> np.ndarray:
    """The band's points as numpy (n, d), or an error that says which plot fits."""
    if band.x is None:
        raise ValueError("This band came from arrays without points x; there is nothing to plot over.")
    if band.x.ndim != 2 or band.x.shape[1] != d:
        raise ValueError(
            f"This plot is for {d}-dimensional x, got shape {tuple(band.x.shape)}. "
            "`plot.width` and `plot.heatmap` draw two dimensions; of a slice, give "
            "the band with the one coordinate that varies: gb.Band(x[:, :1], mean, lower, upper, level)."
        )
    return to_numpy(band.x)


def _grid(x: Array) -> tuple[list[np.ndarray], np.ndarray] | None:
    """The two axes and the order of the points if x is a full regular grid, else None."""
    axes = [np.unique(x[:, j]) for j in range(2)]
    if len(axes[0]) * len(axes[1]) != len(x) or min(map(len, axes)) < 2:
        return None
    return axes, np.lexsort((x[:, 1], x[:, 0]))
