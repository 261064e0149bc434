"""The overview of a band on one page: prediction, width, readings and misses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.plot import curves
from guardband.plot.planes import LONG, Plane, add_colorbar, decorate, heatmap, panels, plane_of, tidy
from guardband.plot.readings import Readings, readings
from guardband.plot.shapes import DrawnShape
from guardband.plot.style import (
    ORANGE,
    SIZES,
    SLICE,
    VALUES,
    annotated,
    ends,
    figure,
    legend,
    output_of,
    output_word,
    percent,
    points_of,
    true_values,
    widths,
)
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
    """Plot a band on one page: the prediction, the width, the error, and the misses.

    Over one axis, the upper panel shows the band with readings and truth, and the lower panel the same
    minus the prediction. Over two axes, panels show the prediction, half the width, and the error if the
    truth is given.

    Parameters
    ----------
    band
        The band, at points x of shape (n, 1) or (n, 2).
    truth
        True values at the points of the band, shape (n, m).
    data
        Fresh readings. Readings outside the band are marked with a cross and counted; their expected share
        is 1 - level. Between its points, the ends of the band are interpolated.
    domain
        The shape in which a field is drawn, for x of shape (n, 2).
    output
        The output to plot, by number or name; by default all, one row each.

    Returns
    -------
    Figure
        The Matplotlib figure.

    Examples
    --------
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
    selected = range(band.mean.shape[-1]) if output is None else [output_of(band, output)]
    parts = [Part.of(band, j, truth, data) for j in selected]
    if not len(x):
        raise ValueError("This band has no points; there is nothing to draw.")
    if x.shape[1] > 2:
        raise ValueError(f"An overview is over one or two axes, got x of shape {x.shape}. {SLICE}")
    whole = _over_one_axis(band, x[:, 0], parts) if x.shape[1] == 1 else _over_plane(band, x, parts, domain)
    title = [f"{percent(band.level)} band"]
    if len(parts) == 1:
        title = [", ".join(filter(None, [*title, parts[0].width(half=x.shape[1] == 2)])), parts[0].misses]
    whole.suptitle("\n".join(filter(None, title)), fontsize="medium")
    layout = whole.get_layout_engine()
    assert layout is not None
    layout.execute(whole)  # make room for the title, now that the colorbars are placed
    return whole


def _over_one_axis(band: Band, x: np.ndarray, parts: list[Part]) -> Figure:
    """Plot the band in the upper panel, and the band minus the prediction in the lower one."""
    compared = any(part.truth is not None or part.readings is not None for part in parts)
    below = compared or not all(part.width(half=False) for part in parts)
    heights = [2.0, 1.2] if below else [2.0]
    size = (6.4, 0.6 + 1.45 * sum(heights) * len(parts))
    whole, grid = figure(len(heights) * len(parts), 1, size, height_ratios=heights * len(parts), sharex=True)
    for part, axes in zip(parts, grid.reshape(len(parts), -1), strict=True):
        _plot_band(axes[0], x, part)
        if len(parts) > 1:
            sentences = filter(None, [part.misses, part.width(half=False)])
            axes[0].set_title("; ".join(sentences), fontsize="medium")
        if below:
            _plot_minus_prediction(axes[1], x, part)
    grid[-1, 0].set(xlabel=axis_words(band.names, ["x"])[0])
    whole.align_ylabels()
    return whole


def _plot_band(ax: Axes, x: np.ndarray, part: Part) -> None:
    read = part.readings
    dots = None if read is None else (read.x[:, 0], read.y)
    curves.curves(ax, x, part.ends, part.level, truth=part.truth, dots=dots)
    if read is not None and read.missed.any():
        ax.plot(read.x[read.missed, 0], read.y[read.missed], **curves.CROSS, label="missed")
    ax.set(ylabel=part.word)
    legend(ax, ncols=2)


def _plot_minus_prediction(ax: Axes, x: np.ndarray, part: Part) -> None:
    mean, low, high = part.ends
    true = None if part.truth is None else part.truth - mean
    read, dots = part.readings, None
    if read is not None:
        dots = read.x[:, 0], read.y - read.mean
    curves.curves(ax, x, (mean - mean, low - mean, high - mean), part.level, truth=true, dots=dots)
    if read is not None and read.missed.any():
        ax.plot(read.x[read.missed, 0], (read.y - read.mean)[read.missed], **curves.CROSS)
    ax.set(ylabel=f"{part.word} - prediction")


class Part(NamedTuple):
    """The values of one output of a band that are plotted, and the sentences about them."""

    word: str
    several: bool
    level: float
    ends: tuple[np.ndarray, np.ndarray, np.ndarray]
    widths: np.ndarray
    constant_width: float | None
    truth: np.ndarray | None
    readings: Readings | None

    @classmethod
    def of(cls, band: Band, output: int, truth: ArrayLike | None, data: Observations | None) -> Part:
        """Collect the values of one output."""
        values, constant_width = widths(band, output)
        return cls(
            output_word(band, output),
            band.mean.shape[-1] > 1,
            band.level,
            ends(band, output),
            values,
            constant_width,
            None if truth is None else true_values(truth, band, output),
            readings(band, data, output),
        )

    @property
    def infinite(self) -> bool:
        """Whether the band is infinite everywhere."""
        return bool(np.isinf(self.widths).all())

    @property
    def misses(self) -> str:
        """A sentence with the number of misses; empty without readings."""
        return "" if self.readings is None else self.readings.sentence(self.level, self.several)

    def width(self, half: bool) -> str:
        """A sentence about a constant or infinite width; empty if the width varies and needs a plot."""
        name, share = ("half-width", 0.5) if half else ("width", 1.0)
        if self.infinite:
            return f"{name} infinite everywhere"
        if self.constant_width is not None:
            return f"{name} {annotated('', share * self.constant_width, self.widths)}"
        return ""


def _over_plane(band: Band, x: np.ndarray, parts: list[Part], domain: DrawnShape | None) -> Figure:
    """Plot the prediction, half the width and the error of each output in panels."""
    plane = plane_of(band.names, domain)
    ratio = plane.ratio(x)
    options = {"names": band.names, "domain": domain, "colorbar": "right" if ratio >= LONG else "bottom"}
    sheet = _Sheet(x, parts, plane, ratio >= LONG, options)
    drawn = [draw for part in parts for draw in sheet.panels(part)]
    whole, grid = panels(len(drawn), ratio, lines=len(parts))
    for ax, draw in zip(grid, drawn, strict=True):
        draw(ax)
    tidy(grid, ratio, len(drawn) // len(parts))
    return whole


@dataclass(frozen=True, eq=False)
class _Sheet:
    """The common settings of the panels; `stacked` panels may differ in number between outputs."""

    x: np.ndarray
    parts: list[Part]
    plane: Plane
    stacked: bool
    options: dict[str, Any]

    def panels(self, part: Part) -> list[Callable[[Axes], None]]:
        """Return the panels of one output; a sentence replaces a plot that only other outputs need."""
        made: list[Callable[[Axes], None]] = [lambda ax: self._prediction(ax, part)]
        others = [part] if self.stacked else self.parts
        if not all(other.width(half=True) for other in others):
            made.append(lambda ax: self._half_width(ax, part))
        if any(other.truth is not None or other.readings is not None for other in others):
            made.append(lambda ax: self._error(ax, part))
        return made

    def _field(self, ax: Axes, values: np.ndarray, title: str, cmap: str = VALUES) -> None:
        heatmap(self.x, values, ax=ax, cmap=cmap, **self.options)
        ax.set_title(title, fontsize="medium")

    def _prediction(self, ax: Axes, part: Part) -> None:
        alone = self.stacked or all(other.width(half=True) for other in self.parts)
        sentence = part.width(half=True) if alone and len(self.parts) > 1 else ""
        between = ", " if self.stacked else "\n"
        self._field(ax, part.ends[0], between.join(filter(None, [f"{part.word}, predicted", sentence])))
        if part.readings is not None:
            _dots(ax, self.plane.turned(part.readings.x))

    def _half_width(self, ax: Axes, part: Part) -> None:
        sentence = part.width(half=True)
        if sentence:
            _write(ax, sentence)
        else:
            self._field(ax, part.widths / 2, f"{part.word}, half-width", cmap=SIZES)

    def _error(self, ax: Axes, part: Part) -> None:
        """Plot the error if the truth is known, otherwise the residuals of the readings; mark misses."""
        if part.truth is not None:
            self._field(ax, abs(part.ends[0] - part.truth), f"{part.word}, |error|", cmap=SIZES)
        elif part.readings is None:
            _write(ax, f"{part.word} was not measured")
        else:
            self._residuals(ax, part)
        if part.readings is not None:
            at = self.plane.turned(part.readings.x)
            if part.truth is not None:
                _dots(ax, at)
            _crosses(ax, at[part.readings.missed])
            self._add_count(ax, part)

    def _residuals(self, ax: Axes, part: Part) -> None:
        """Plot the readings, colored by their distance from the prediction."""
        assert part.readings is not None
        residuals = abs(part.readings.y - part.readings.mean)
        size = 6 * _size(len(residuals))
        at = self.plane.turned(part.readings.x)
        drawn = ax.scatter(*at.T, c=residuals, s=size, cmap=SIZES, ec="black", lw=0.4)
        add_colorbar(ax, drawn, "", self.options["colorbar"], None, ticks=3)
        decorate(ax, self.plane, self.x)
        ax.set_title(f"{part.word}, |reading - prediction|", fontsize="medium")

    def _add_count(self, ax: Axes, part: Part) -> None:
        """Add the number of misses to the title; with a single output, the figure's title has it."""
        if len(self.parts) == 1:
            return
        sentence = part.misses if self.stacked else part.misses.replace("), ", "),\n")
        ax.set_title(f"{ax.get_title()}\n{sentence}", fontsize="medium")


def _write(ax: Axes, sentence: str) -> None:
    """Write a sentence instead of a plot."""
    ax.set_axis_off()
    words = sentence.replace(" everywhere", "\neverywhere")
    ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes)


def _size(n: int) -> float:
    """Return the size of dots in points; it decreases with their number."""
    return float(np.clip(26 / max(1, n) ** 0.5, 1.4, 4.0))


def _dots(ax: Axes, at: np.ndarray) -> None:
    size = _size(len(at))
    ax.plot(*at.T, "o", ms=size, mfc="white", mec="black", mew=size / 6, label="data", zorder=3)


def _crosses(ax: Axes, at: np.ndarray) -> None:
    from matplotlib.patheffects import withStroke

    size = float(np.clip(26 / max(1, len(at)) ** 0.5, 4.0, 6.5))
    around = [withStroke(linewidth=0.55 * size, foreground="white")]
    style: dict[str, Any] = {"ms": size, "mew": 0.3 * size, "color": ORANGE, "path_effects": around}
    ax.plot(*at.T, "x", label="missed", zorder=5, **style)
