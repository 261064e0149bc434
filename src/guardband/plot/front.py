"""Front: a band, its width, its readings and what it missed, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.plot import curves
from guardband.plot.parts import Part
from guardband.plot.shapes import DrawnShape
from guardband.plot.sheets import sheet
from guardband.plot.style import SLICE, figure, legend, output_of, percent, points_of
from guardband.values import Band, Observations
from guardband.values.names import axis_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def overview(
    band: Band,
    *,
    truth: ArrayLike | None = None,
    data: Observations | None = None,
    domain: DrawnShape | None = None,
    output: int | str | None = None,
) -> Figure:
    """A band on one page: the prediction, how wide the band is, how far it is off, and what it missed.

    Over one axis the band with readings and truth, and below it the same less the prediction. Over two axes
    panels of the prediction, of half the width, and of the error where the truth is known. `data` are fresh
    readings: those outside of the band are crossed out and counted, and are about as many as the level says.
    Between the points of the band its ends are interpolated. One `output`, or all, each in a line of its own.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(np.sin, x, np.sin(x) + 0.1 * np.cos(50 * x))
    >>> fresh = gb.Observations([0.2, 0.6, 0.9], [0.2, 0.9, 0.8])
    >>> figure = gb.plot.overview(calibrated(x, level=0.9), truth=np.sin(x), data=fresh)
    >>> print(figure.get_suptitle())
    90 % band, width 0.1989 everywhere
    misses: 1 of 3 (33 %), 10 % expected
    """
    x = points_of(band)
    chosen = range(band.mean.shape[-1]) if output is None else [output_of(band, output)]
    parts = [Part.of(band, j, truth, data) for j in chosen]
    if not len(x):
        raise ValueError("This band has no points; there is nothing to draw.")
    if x.shape[1] > 2:
        raise ValueError(f"An overview is over one axis or two, got x {x.shape}. {SLICE}")
    whole = _lines(band, x[:, 0], parts) if x.shape[1] == 1 else sheet(band, x, parts, domain)
    said = [f"{percent(band.level)} band"]
    if len(parts) == 1:
        said = [", ".join(filter(None, [*said, parts[0].width(half=x.shape[1] == 2)])), parts[0].misses]
    whole.suptitle("\n".join(filter(None, said)), fontsize="medium")
    # Once colorbars have found their place, drawing it lays it out again, with room for the title.
    whole.get_layout_engine().execute(whole)  # type: ignore[union-attr]
    return whole


def _lines(band: Band, x: np.ndarray, parts: list[Part]) -> Figure:
    """Over one axis: the band above, and below it the same less the prediction."""
    compared = any(part.truth is not None or part.readings is not None for part in parts)
    below = compared or not all(part.width(half=False) for part in parts)
    heights = [2.0, 1.2] if below else [2.0]
    size = (6.4, 0.6 + 1.45 * sum(heights) * len(parts))
    whole, grid = figure(len(heights) * len(parts), 1, size, height_ratios=heights * len(parts), sharex=True)
    for part, axes in zip(parts, grid.reshape(len(parts), -1), strict=True):
        _above(axes[0], x, part)
        if len(parts) > 1:
            sentences = filter(None, [part.misses, part.width(half=False)])
            axes[0].set_title("; ".join(sentences), fontsize="medium")
        if below:
            _below(axes[1], x, part)
    grid[-1, 0].set(xlabel=axis_words(band.names, ["x"])[0])
    whole.align_ylabels()
    return whole


def _above(ax: Axes, x: np.ndarray, part: Part) -> None:
    found = part.readings
    dots = None if found is None else (found.x[:, 0], found.y)
    curves.curves(ax, x, part.ends, part.level, truth=part.truth, dots=dots)
    if found is not None and found.missed.any():
        ax.plot(found.x[found.missed, 0], found.y[found.missed], **curves.CROSS, label="missed")
    ax.set(ylabel=part.word)
    legend(ax, ncols=2)


def _below(ax: Axes, x: np.ndarray, part: Part) -> None:
    """All less the prediction: how wide the band is, and what lies outside."""
    mean, low, high = part.ends
    true = None if part.truth is None else part.truth - mean
    found, dots = part.readings, None
    if found is not None:
        dots = found.x[:, 0], found.y - found.mean
    curves.curves(ax, x, (mean - mean, low - mean, high - mean), part.level, truth=true, dots=dots)
    if found is not None and found.missed.any():
        ax.plot(found.x[found.missed, 0], (found.y - found.mean)[found.missed], **curves.CROSS)
    ax.set(ylabel=f"{part.word} - prediction")
