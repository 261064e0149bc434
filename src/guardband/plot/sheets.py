"""Sheets: the panels of an overview over two axes, a line for each output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.plot.parts import Part
from guardband.plot.planes import LONG, Plane, bar, frame, heatmap, panels, plane_of, tidy
from guardband.plot.shapes import DrawnShape
from guardband.plot.style import ORANGE, SIZES
from guardband.values import Band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def sheet(band: Band, x: np.ndarray, parts: list[Part], domain: DrawnShape | None) -> Figure:
    """Panels of the prediction, of half the width, and of what it is off by, for each output."""
    plane = plane_of(band.names, domain)
    ratio = plane.ratio(x)
    options = {"names": band.names, "domain": domain, "colorbar": "right" if ratio >= LONG else "bottom"}
    made = _Sheet(x, parts, plane, ratio >= LONG, options)
    drawn = [draw for part in parts for draw in made.panels(part)]
    whole, grid = panels(len(drawn), ratio, lines=len(parts))
    for ax, draw in zip(grid, drawn, strict=True):
        draw(ax)
    tidy(grid, ratio, len(drawn) // len(parts))
    return whole


@dataclass(frozen=True, eq=False)
class _Sheet:
    """What the panels share; those that are `stacked` need not be as many for each output."""

    x: np.ndarray
    parts: list[Part]
    plane: Plane
    stacked: bool
    options: dict[str, Any]

    def panels(self, part: Part) -> list[Callable[[Axes], None]]:
        """The panels of one output; where it has no picture and others do, a sentence."""
        found: list[Callable[[Axes], None]] = [lambda ax: self._prediction(ax, part)]
        others = [part] if self.stacked else self.parts
        if not all(other.width(half=True) for other in others):
            found.append(lambda ax: self._half_width(ax, part))
        if any(other.truth is not None or other.readings is not None for other in others):
            found.append(lambda ax: self._off(ax, part))
        return found

    def _field(self, ax: Axes, values: np.ndarray, title: str, **style: Any) -> None:
        heatmap(self.x, values, ax=ax, **self.options, **style)
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
            _say(ax, sentence)
        else:
            self._field(ax, part.widths / 2, f"{part.word}, half-width", cmap=SIZES)

    def _off(self, ax: Axes, part: Part) -> None:
        """The error where the truth is known, else how far the readings are off; misses are crossed out."""
        if part.truth is not None:
            self._field(ax, abs(part.ends[0] - part.truth), f"{part.word}, |error|", cmap=SIZES)
        elif part.readings is None:
            _say(ax, f"{part.word} was not measured")
        else:
            self._read(ax, part)
        if part.readings is not None:
            at = self.plane.turned(part.readings.x)
            if part.truth is not None:
                _dots(ax, at)
            _crosses(ax, at[part.readings.missed])
            self._count(ax, part)

    def _read(self, ax: Axes, part: Part) -> None:
        """Readings, colored by how far from the prediction they are."""
        assert part.readings is not None
        off = abs(part.readings.y - part.readings.mean)
        size = 6 * _size(len(off))
        drawn = ax.scatter(
            *self.plane.turned(part.readings.x).T, c=off, s=size, cmap=SIZES, ec="black", lw=0.4
        )
        bar(ax, drawn, "", self.options["colorbar"], None, ticks=3)
        frame(ax, self.plane, self.x)
        ax.set_title(f"{part.word}, |reading - prediction|", fontsize="medium")

    def _count(self, ax: Axes, part: Part) -> None:
        """The misses of one of several outputs in the title; of one alone they stand above all."""
        if len(self.parts) == 1:
            return
        sentence = part.misses if self.stacked else part.misses.replace("), ", "),\n")
        ax.set_title(f"{ax.get_title()}\n{sentence}", fontsize="medium")


def _say(ax: Axes, sentence: str) -> None:
    """A sentence in place of a picture."""
    ax.set_axis_off()
    words = sentence.replace(" everywhere", "\neverywhere")
    ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes)


def _size(n: int) -> float:
    """How large dots are, in points: many are small."""
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
