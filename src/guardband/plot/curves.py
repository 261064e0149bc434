"""Plots over one axis: bands, their width, slices of a field in time, and coverage over levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.evaluation import Evaluation
from guardband.plot.planes import Aspect, grid_of, heatmap, plane_of
from guardband.plot.readings import Readings, readings
from guardband.plot.shapes import FEW, DrawnShape
from guardband.plot.style import (
    BLUE,
    GRAY,
    HATCH,
    KINDS,
    ORANGE,
    SIZES,
    SLICE,
    annotated,
    axes,
    ends,
    figure,
    legend,
    output_of,
    output_word,
    points,
    points_of,
    true_values,
    widths,
)
from guardband.values import Band, Observations
from guardband.values.names import axis_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOT: dict[str, Any] = {"marker": ".", "ls": "", "color": GRAY, "ms": 5, "alpha": 0.8, "mew": 0}
CROSS: dict[str, Any] = {"marker": "x", "ls": "", "color": ORANGE, "ms": 7, "mew": 2, "zorder": 4}
"""Styles of readings inside and outside a band."""


def band(
    band: Band,
    *,
    raw: Band | None = None,
    truth: ArrayLike | None = None,
    data: Observations | None = None,
    output: int | str = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot a band over a one-dimensional x: the mean as a line, and the band shaded.

    An infinite band is hatched over the whole height.

    Parameters
    ----------
    band
        The band, at points x of shape (n, 1).
    raw
        The band before calibration (`gb.conformal.raw_band`) at the same points; its ends are dashed.
    truth
        True values at the points of the band, shape (n, m).
    data
        Readings, drawn as dots.
    output
        The output to plot, by number, or by name if the band has names.
    ax
        The axes to draw into; by default new ones.

    Returns
    -------
    Axes
        The Matplotlib axes.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> ax = gb.plot.band(calibrated(x, level=0.9), truth=np.sin(x))
    >>> ax.get_legend_handles_labels()[1]
    ['truth', 'prediction', '0.9 band']
    """
    x, output = points(band, 1)[:, 0], output_of(band, output)
    measured = readings(band, data, output)
    ax = axes(ax)
    true = None if truth is None else true_values(truth, band, output)
    dots = None if measured is None else (measured.x[:, 0], measured.y)
    curves(ax, x, ends(band, output), band.level, truth=true, dots=dots)
    if raw is not None:
        _dashed(ax, x, raw, output)
    ax.set(xlabel=axis_words(band.names, ["x"])[0], ylabel=output_word(band, output))
    legend(ax)
    return ax


def curves(
    ax: Axes,
    x: np.ndarray,
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
    level: float,
    *,
    truth: np.ndarray | None = None,
    dots: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Draw the mean, the band, the readings and the truth over x (n,)."""
    mean, low, high = drawn
    order = np.argsort(x)
    if dots is not None:
        ax.plot(*dots, **DOT, label="data")
    mark = {"marker": "o", "ms": 4} if len(x) < FEW else {}
    if truth is not None:
        ax.plot(x[order], truth[order], "--", color=ORANGE, lw=1.8, label="truth", **mark)
    ax.plot(x[order], mean[order], color=BLUE, lw=1.8, label="prediction", **mark)
    _shade(ax, x[order], low[order], high[order], f"{level:.4g} band")


def _dashed(ax: Axes, x: np.ndarray, raw: Band, output: int) -> None:
    """Draw the ends of the band before calibration."""
    if not np.array_equal(points(raw, 1)[:, 0], x):
        raise ValueError(
            "`raw` should be a band at the points of `band`, as gb.conformal.raw_band(model(x), level) is."
        )
    order = np.argsort(x)
    for end, label in zip(ends(raw, output)[1:], ("before calibration", None), strict=True):
        ax.plot(x[order], end[order], "--", color=ORANGE, lw=1.2, label=label)


def _shade(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> None:
    """Shade the band; where an end is infinite, it reaches the edge of the plot and is hatched."""
    style: dict[str, Any] = {"color": BLUE, "alpha": 0.22, "lw": 0}
    infinite = np.isinf(low) | np.isinf(high)
    bottom, top = ax.get_ylim()
    if infinite.any():
        ax.set_ylim(bottom, top)  # infinite ends should not change the scale
    clipped = np.nan_to_num(low, nan=np.nan, neginf=bottom), np.nan_to_num(high, nan=np.nan, posinf=top)
    if len(np.unique(x)) < 2:
        ax.vlines(x, *clipped, color=BLUE, alpha=0.22, lw=9, label=label)
        return
    ax.fill_between(x, *clipped, **style, label=label)
    if infinite.any():
        ax.fill_between(x, *clipped, where=_with_neighbors(infinite).tolist(), label="infinite", **HATCH)
    ax.set_xlim(x.min(), x.max())


def _with_neighbors(chosen: np.ndarray) -> np.ndarray:
    """Add the neighbors of the chosen points, since a single point has no area."""
    wide = chosen.copy()
    wide[1:] |= chosen[:-1]
    wide[:-1] |= chosen[1:]
    return wide


def width(
    band: Band,
    *,
    output: int | str = 0,
    domain: DrawnShape | None = None,
    aspect: Aspect = None,
    ax: Axes | None = None,
    **style: Any,
) -> Axes:
    """Plot the width of a band over x: a line in one dimension, a field in two.

    A width that is constant up to rounding is drawn as a constant, with its value in the label.

    Parameters
    ----------
    band
        The band, at points x of shape (n, 1) or (n, 2).
    output
        The output to plot, by number, or by name if the band has names.
    domain
        In two dimensions, the shape to clip the colors to; see `heatmap`.
    aspect
        In two dimensions, the aspect ratio of the axes; see `heatmap`.
    ax
        The axes to draw into; by default new ones.
    **style
        Options of Matplotlib's `plot`, or of `heatmap`.

    Returns
    -------
    Axes
        The Matplotlib axes.

    Examples
    --------
    >>> import guardband as gb
    >>> band = gb.Band([0.0, 1.0], [0.0, 0.0], [-1.0, -2.0], [1.0, 2.0], level=0.9)
    >>> gb.plot.width(band).get_ylabel()
    'width of the 0.9 band'
    """
    x, output = points_of(band), output_of(band, output)
    values, same = widths(band, output)
    label = f"width of the {band.level:.4g} band"
    if x.shape[1] == 2:
        style = {"cmap": SIZES, **style}
        return heatmap(x, values, label=label, names=band.names, domain=domain, aspect=aspect, ax=ax, **style)
    if x.shape[1] > 2:
        raise ValueError(f"A width is plotted over one or two axes, got shape {x.shape}. {SLICE}")
    ax = axes(ax)
    order = np.argsort(x[:, 0])
    mark = {"marker": "o", "ms": 4} if len(x) < FEW else {}
    ax.plot(x[order, 0], values[order], **{"color": BLUE, "lw": 1.8, **mark, **style})
    top = None if same is None else 1.5 * same or 1.0
    ax.set(xlabel=axis_words(band.names, ["x"])[0], ylabel=annotated(label, same, values), ylim=(0, top))
    infinite = np.isinf(values[order])
    if infinite.any() and len(np.unique(x)) > 1:
        top = ax.get_ylim()[1]
        ax.fill_between(x[order, 0], 0, top, where=_with_neighbors(infinite).tolist(), **HATCH)
        ax.set_ylim(0, top)
    return ax


def slices(
    band: Band,
    *,
    at: Sequence[float] | None = None,
    truth: ArrayLike | None = None,
    data: Observations | None = None,
    output: int | str = 0,
) -> Figure:
    """Plot a band over a grid of x and t at several times, one panel each.

    If neither axis is time, the band is cut along the last axis.

    Parameters
    ----------
    band
        The band at the points of a full grid, shape (n, 2).
    at
        Times; the nearest times of the grid are shown. By default a quarter, half and three quarters of
        the time span.
    truth
        True values at the points of the band, shape (n, m).
    data
        Readings; each panel shows those within half a time step.
    output
        The output to plot, by number, or by name if the band has names.

    Returns
    -------
    Figure
        The Matplotlib figure.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> grid = np.meshgrid(np.linspace(0, 1, 40), np.linspace(0, 2, 21))
    >>> x = np.stack(grid, axis=-1).reshape(-1, 2)
    >>> u = np.exp(-x[:, 1]) * np.sin(np.pi * x[:, 0])
    >>> names = gb.values.Names(("x", "t"), ("u",), (0,))
    >>> figure = gb.plot.slices(gb.Band(x, u, u - 0.1, u + 0.1, 0.9, names), at=(0.5, 1.0))
    >>> [ax.get_title() for ax in figure.axes]
    ['t = 0.5', 't = 1']
    """
    x, output = points_of(band), output_of(band, output)
    grid = grid_of(x) if x.shape[1] == 2 else None
    if grid is None:
        raise ValueError(
            f"Slices need a band over a full grid of two axes, got x of shape {x.shape}, not a grid. Compute "
            "the band on a grid: calibrated(problem.domain.grid((100, 50)), level=0.9)."
        )
    plane, words = plane_of(band.names, None), axis_words(band.names, ["x0", "x1"])
    cut = plane.across if plane.both_lengths is False else 1
    times = _nearest(grid[0][cut], at)
    whole, panels = figure(1, len(times), (1.2 + 2.3 * max(2, len(times)), 3.0), sharey=True)
    true = None if truth is None else true_values(truth, band, output)
    measured, drawn = readings(band, data, output), ends(band, output)
    for ax, time in zip(panels[0], times, strict=True):
        rows = x[:, cut] == time
        dots = None if measured is None else _readings_near(measured, cut, time, grid[0][cut])
        part = drawn[0][rows], drawn[1][rows], drawn[2][rows]
        curves(ax, x[rows, 1 - cut], part, band.level, truth=None if true is None else true[rows], dots=dots)
        ax.set_title(f"{words[cut]} = {time:.4g}", fontsize="medium")
        ax.set(xlabel=words[1 - cut])
    panels[0, 0].set(ylabel=output_word(band, output))
    labels = panels[0, 0].get_legend_handles_labels()
    whole.legend(*labels, loc="outside lower center", ncols=len(labels[0]), frameon=False)
    return whole


def _nearest(times: np.ndarray, at: Sequence[float] | None) -> list[float]:
    """Return the times of the grid nearest to the requested ones, without duplicates."""
    low, high = float(times[0]), float(times[-1])
    wanted = low + np.array([0.25, 0.5, 0.75]) * (high - low) if at is None else np.atleast_1d(at)
    room = 1e-6 * (high - low)
    if len(wanted) == 0 or not ((low - room <= wanted) & (wanted <= high + room)).all():
        given = ", ".join(f"{time:g}" for time in wanted) or "none"
        raise ValueError(f"`at` should be times of the band, {low:g} to {high:g}, got {given}.")
    return list(dict.fromkeys(float(times[abs(times - time).argmin()]) for time in wanted))


def _readings_near(
    measured: Readings, cut: int, time: float, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions on the other axis and values of the readings within half a step of a time."""
    step = abs(times[times != time] - time).min()
    near = abs(measured.x[:, cut] - time) <= step / 2
    return measured.x[near, 1 - cut], measured.y[near]


def coverage_curve(evaluation: Evaluation, *, ax: Axes | None = None) -> Axes:
    """Plot measured coverage over the level, for every band of an evaluation.

    The shaded region contains the coverage of a valid band in 99 % of cases at each level, for these
    numbers of calibration and test points. A curve inside it is consistent with a valid band.

    Parameters
    ----------
    evaluation
        The result of `gb.evaluate`.
    ax
        The axes to draw into; by default new ones.

    Returns
    -------
    Axes
        The Matplotlib axes.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
    >>> ax = gb.plot.coverage_curve(gb.evaluate(calibrated, draw(size=500), draw(size=500)))
    >>> ax.get_legend_handles_labels()[1]
    ['valid (99 %)', 'this band']
    """
    ax = axes(ax)
    main = evaluation.rows[0]
    levels = np.array([float(level) for level in main.levels])
    if evaluation.ranges is not None:
        low, high = evaluation.ranges.T
        ax.fill_between(levels, low, high, color=GRAY, alpha=0.2, lw=0, label="valid (99 %)")
    ax.plot([0, 1], [0, 1], ":", color=GRAY, lw=1)
    drawn: Counter[str] = Counter()
    for row in evaluation.rows:
        if row.region:
            continue
        color = next((color for kind, color in KINDS.items() if row.name.startswith(kind)), GRAY)
        style = ("o-", "o--", "o-.", "o:")[drawn[color] % 4]  # for outputs that are covered separately
        ax.plot(levels, row.coverages, style, ms=3, lw=1.4, color=color, label=row.name)
        drawn[color] += 1
    ax.set(xlabel="level asked", ylabel="coverage measured", xlim=(0, 1), ylim=(0, 1.01))
    ax.set_aspect("equal")
    legend(ax, loc="lower right")
    return ax
