"""Plots of fields over two axes: labeled, to scale, and clipped to the shape of a domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike, rows, to_numpy
from guardband.plot import shapes
from guardband.plot.shapes import DrawnShape
from guardband.plot.style import HATCH, SIGNED, SLICE, VALUES, annotated, constant, figure
from guardband.values import Names
from guardband.values.names import word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

Aspect: TypeAlias = float | Literal["equal", "auto"] | None
"""The ratio of the vertical to the horizontal unit; None chooses one from the axes."""

Bar: TypeAlias = bool | Literal["right", "bottom"]
"""Whether there is a colorbar, and on which side."""

LONGEST = 8.0
"""The largest ratio of the sides of a spatial field; longer fields are stretched."""

STEPS = [1, 2, 5, 10]
"""Multiples allowed between the ticks of an axis."""

TIMES = ("t", "time")
"""Names of the time axis, if the spatial axes are not declared."""


class Plane(NamedTuple):
    """How two axes are drawn: the position of the horizontal one, the labels, and the shape.

    `both_lengths` is True for two spatial axes, False if one is time, and None if this is unknown.
    """

    across: int
    words: tuple[str, str]
    both_lengths: bool | None
    domain: DrawnShape | None

    def turned(self, x: np.ndarray) -> np.ndarray:
        """Return points (n, 2) with the horizontal axis first."""
        return x[:, [self.across, 1 - self.across]]

    def ratio(self, x: np.ndarray) -> float:
        """Return the ratio of width to height of a plot over these points."""
        wide, high = self.extent(x)
        if self.both_lengths is False or min(wide, high) <= 0:
            return 4 / 3
        if self.both_lengths is None and not 1 / 3 <= wide / high <= 3:
            return 4 / 3
        return float(np.clip(wide / high, 1 / LONGEST, LONGEST))

    def extent(self, x: np.ndarray) -> tuple[float, float]:
        """Return the width and height of the points, or of the shape."""
        known = x[np.isfinite(x).all(axis=1)]
        size = np.ptp(known, axis=0) if len(known) else np.zeros(2)
        if self.domain is not None:
            size = np.array(self.domain.upper) - np.array(self.domain.lower)
        return float(size[self.across]), float(size[1 - self.across])


def heatmap(
    x: ArrayLike,
    values: ArrayLike,
    *,
    label: str = "",
    limits: tuple[float, float] | None = None,
    signed: bool = False,
    colorbar: Bar = True,
    names: Names | Sequence[str] | None = None,
    domain: DrawnShape | None = None,
    aspect: Aspect = None,
    ax: Axes | None = None,
    **style: Any,
) -> Axes:
    """Plot values over a two-dimensional x, as pixels on a regular grid or by triangulation otherwise.

    Two spatial axes are drawn to scale; time is the horizontal axis. Infinite values are hatched. Values
    that are constant up to rounding are drawn in one color, with the value in the label.

    Parameters
    ----------
    x
        Points, shape (n, 2).
    values
        Values at the points, shape (n,).
    label
        The label of the colorbar.
    limits
        The range of the color scale, to make fields comparable; by default that of the values.
    signed
        Whether the values are differences, drawn in two colors around 0.
    colorbar
        Whether to draw a colorbar, or its side. Several plots without one can share
        `figure.colorbar(ax.collections[0], ax=axes)`.
    names
        The names of a problem, `problem.names`, or two words.
    domain
        A shape of `pinn`, or another object with the interface `plot.shapes.DrawnShape`. Colors are clipped
        to it, holes included, and its boundary is drawn.
    aspect
        The aspect ratio of the axes; by default it follows from the axes.
    ax
        The axes to draw into; by default new ones.
    **style
        Options of Matplotlib's `pcolormesh`, `tripcolor` or `scatter`.

    Returns
    -------
    Axes
        The Matplotlib axes.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.random.default_rng(0).uniform(size=(300, 2))
    >>> ax = gb.plot.heatmap(x, np.sin(x[:, 0]) * x[:, 1], label="u", names=("x", "y"))
    >>> ax.get_xlabel(), ax.get_ylabel(), ax.get_aspect()
    ('x', 'y', 1.0)
    """
    x, values = to_numpy(rows(x, "x")), np.asarray(to_numpy(values), float).reshape(-1)
    if x.shape != (len(values), 2):
        remedy = f" {SLICE}" if x.shape[-1] > 2 else ""
        raise ValueError(f"`x` should be ({len(values)}, 2) for a field, got {x.shape}.{remedy}")
    plane = plane_of(names, domain)
    known = np.isfinite(x).all(axis=1)  # a frame may have missing numbers
    x, values = x[known].astype(float), values[known]
    ax = new_axes(ax, plane.ratio(x))
    same = constant(values)
    shown = values if same is None else np.where(np.isfinite(values), same, values)
    style = {"cmap": SIGNED if signed else VALUES} | _limits(shown, limits, signed) | style
    colors = _draw(ax, x, shown, plane, style)
    label = annotated(label, same, values)
    if len(values) and np.isinf(values).all():
        ax.text(0.5, 0.5, label, transform=ax.transAxes, ha="center", va="center", bbox=WHITE)
    elif colorbar:
        place = "right" if colorbar is True else colorbar
        ticks = 3 if place == "bottom" or plane.ratio(x) >= LONG else 6
        add_colorbar(ax, colors, label, place, same if limits is None else None, ticks)
    decorate(ax, plane, x, aspect)
    return ax


WHITE: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 3}


def new_axes(ax: Axes | None, ratio: float) -> Axes:
    """Return the given axes, or new ones for a field with this ratio of width to height."""
    return ax if ax is not None else figure(1, 1, (6.4, float(np.clip(4.9 / ratio, 0.7, 6.4)) + 0.8))[1][0, 0]


def fields(
    x: ArrayLike,
    values: ArrayLike,
    *,
    names: Names | Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
    domain: DrawnShape | None = None,
    aspect: Aspect = None,
    **style: Any,
) -> Figure:
    """Plot several fields over the same points, each in a panel with its own colors.

    Parameters
    ----------
    x
        Points, shape (n, 2).
    values
        Values at the points, shape (n, m).
    names
        The names of a problem, `problem.names`, or two words.
    titles
        The titles of the m panels; by default the outputs of `names`.
    domain, aspect
        The shape to clip the colors to, and the aspect ratio of the axes; see `heatmap`.
    **style
        Further options of `heatmap`.

    Returns
    -------
    Figure
        The Matplotlib figure.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> names = gb.values.Names(("x", "y"), ("u", "v", "p"), (0, 1))
    >>> x = np.random.default_rng(0).uniform(size=(300, 2))
    >>> figure = gb.plot.fields(x, x[:, [0, 1, 0]], names=names)
    >>> [ax.get_title() for ax in figure.axes[:3]]
    ['u', 'v', 'p']
    """
    x, values = to_numpy(rows(x, "x")), to_numpy(rows(values, "values"))
    if values.ndim != 2:
        raise ValueError(f"`values` should be (n, m), one column per output, got {values.shape}.")
    plane, m = plane_of(names, domain), values.shape[1]
    titles = _titles(titles, names, m)
    ratio = plane.ratio(x) if x.ndim == 2 and x.shape[1] == 2 else 1.0
    whole, grid = panels(m, ratio)
    place = "right" if ratio >= LONG else "bottom"
    for ax, title, column in zip(grid, titles, values.T, strict=True):
        heatmap(
            x, column, names=names, domain=domain, aspect=aspect, colorbar=place, ax=ax, **style
        ).set_title(word(title), fontsize="medium")
    tidy(grid, ratio, 2 if m == 4 else 3)
    return whole


def tidy(grid: Sequence[Axes], ratio: float, columns: int) -> None:
    """Label shared axes once: below stacked panels, or to the left of panels side by side."""
    from matplotlib.ticker import MaxNLocator

    for number, ax in enumerate(grid):
        if ratio >= LONG and number < len(grid) - 1:
            ax.set(xlabel="")
        if ratio < LONG:
            ax.xaxis.set_major_locator(MaxNLocator(3 if columns > 2 else 5, steps=STEPS))
        if ratio < LONG and number % columns:
            ax.set(ylabel="", yticks=[])
            ax.spines["left"].set_visible(ax.spines["right"].get_visible())


LONG = 2.5
"""Fields with at least this ratio of width to height are stacked."""


def panels(m: int, ratio: float, lines: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with m panels for fields with this ratio of width to height.

    A row has up to three panels, or as many as `lines` rows require; wide panels are stacked.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if ratio >= LONG:
        whole, grid = figure(m, 1, (6.8, m * (5.2 / ratio + 0.55) + 0.6), sharex=True)
        return whole, list(grid[:, 0])
    columns = m // lines if lines > 1 else 2 if m == 4 else min(m, 3)
    lines = -(-m // columns)
    wide = (4.6, 6.0, 7.0)[min(columns, 3) - 1]
    high = (wide / columns - 0.75) / max(ratio, 0.4) + (1.15 if lines == 1 else 1.5)
    whole, grid = figure(lines, columns, (wide, lines * high + 0.55))
    layout = whole.get_layout_engine()
    if lines > 1 and isinstance(layout, ConstrainedLayoutEngine):
        layout.set(h_pad=0.13)
    cells = list(grid.flat)
    for unused in cells[m:]:
        unused.remove()
    return whole, cells[:m]


def _titles(titles: Sequence[str] | None, names: object, m: int) -> Sequence[str]:
    known = names.outputs if isinstance(names, Names) else ()
    if titles is None:
        return known if len(known) == m else [f"u{j}" for j in range(m)] if m > 1 else ["u"]
    if len(titles) != m:
        raise ValueError(f"`titles` should name the {m} columns of the values, got {len(titles)}.")
    return titles


def plane_of(names: Names | Sequence[str] | None, domain: DrawnShape | None) -> Plane:
    """Choose the layout of two axes from their names and the domain."""
    if domain is not None and not isinstance(domain, DrawnShape):
        remedy = " Pass problem.domain." if hasattr(domain, "domain") else ""
        raise TypeError(f"`domain` should be a shape, got {domain!r:.80}.{remedy}")
    if names is not None:
        words = names.axes if isinstance(names, Names) else names
    elif domain is not None:
        words = domain.names
    else:
        return Plane(0, ("x0", "x1"), None, None)
    shape = _in_plane(domain, words[:2])
    if isinstance(words, str) or len(words) < 2:
        raise ValueError(f'`names` should be problem.names, or two words such as ("x", "t"), got {names!r}.')
    known = names if isinstance(names, Names) else domain if names is None else None
    space = (0, 1) if known is None else known.space
    time = [j for j in (0, 1) if j not in space or words[j] in TIMES]
    across = time[0] if len(time) == 1 else 0
    return Plane(across, (word(words[across]), word(words[1 - across])), not time, shape)


def _in_plane(domain: DrawnShape | None, words: Sequence[str]) -> DrawnShape | None:
    """Return the shape over the two axes of the plot."""
    if domain is None:
        return None
    shape = domain.in_plane(words)
    if shape is not None:
        return shape
    raise ValueError(
        f"`domain` should be a shape over the two axes of the plot, got one over {', '.join(domain.names)}. "
        "Omit it, or pass its cross-section with the plane."
    )


def decorate(ax: Axes, plane: Plane, x: np.ndarray, aspect: Aspect = None) -> None:
    """Label the axes, set their scale, and draw the outline of the shape."""
    across, upwards = plane.words
    chosen = _aspect(plane, x) if aspect is None else aspect
    if isinstance(chosen, float) and aspect is None:
        wide, high = plane.extent(x)
        across, upwards = (
            (across, f"{upwards} (stretched)") if wide > high else (f"{across} (stretched)", upwards)
        )
    ax.set(xlabel=across, ylabel=upwards, aspect=chosen)
    if plane.domain is not None:
        lower, upper = (plane.turned(np.array([end]))[0] for end in (plane.domain.lower, plane.domain.upper))
        ax.set(xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]))
        shapes.outline(ax, plane.domain, plane.across)
        ax.spines[["top", "right"]].set_visible(False)


def _aspect(plane: Plane, x: np.ndarray) -> float | Literal["equal", "auto"]:
    """Return an equal aspect for two lengths, unless the field is too long."""
    wide, high = plane.extent(x)
    if plane.both_lengths is False or min(wide, high) <= 0:
        return "auto"
    if plane.both_lengths is None:
        return "equal" if 1 / 3 <= wide / high <= 3 else "auto"
    if wide > LONGEST * high:
        return wide / high / LONGEST
    return LONGEST * wide / high if high > LONGEST * wide else "equal"


def _limits(values: np.ndarray, limits: tuple[float, float] | None, signed: bool) -> dict[str, float]:
    """Return the limits of the color scale."""
    shown = values[np.isfinite(values)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    if limits is not None:
        low, high = limits
    elif signed:
        high = max(abs(low), abs(high))
        low = -high
    if low == high:
        room = 0.05 * abs(low) or 1.0
        low, high = low - room, high + room
    return {"vmin": low, "vmax": high}


def _draw(ax: Axes, x: np.ndarray, values: np.ndarray, plane: Plane, style: dict[str, Any]) -> ScalarMappable:
    """Draw the colors clipped to a shape, as pixels of a grid, by triangulation, or as dots."""
    if plane.domain is not None:
        raster = shapes.raster(x, values, plane.domain)
        if raster is not None:
            picture = raster.values if plane.across == 0 else raster.values.T
            first, second = (raster.first, raster.second)[:: 1 if plane.across == 0 else -1]
            return _pixels(ax, first, second, picture, {"rasterized": True} | style)
    x = plane.turned(x)
    grid = grid_of(x) if plane.domain is None else None
    if grid is not None:
        (first, second), order = grid
        return _pixels(ax, first, second, values[order].reshape(len(first), len(second)).T, style)
    return _triangles(ax, x, values, style)


def _pixels(
    ax: Axes, first: np.ndarray, second: np.ndarray, picture: np.ndarray, style: dict[str, Any]
) -> ScalarMappable:
    """Draw cells around their centers, hatched where the values are infinite."""
    colors = ax.pcolormesh(first, second, np.ma.masked_invalid(picture), shading="nearest", **style)
    infinite = np.isinf(picture)
    if infinite.any():
        across, upwards = (_doubled(middles) for middles in (first, second))
        cells = np.repeat(np.repeat(infinite, 2, axis=0), 2, axis=1)
        hatched = ax.contourf(across, upwards, cells, levels=[0.5, 1.5], colors="none", hatches=["////"])
        hatched.set(edgecolor=HATCH["edgecolor"], linewidth=0)
    return colors


def _doubled(middles: np.ndarray) -> np.ndarray:
    """Return both edges of each cell."""
    inner = (middles[1:] + middles[:-1]) / 2
    edges = np.concatenate([[2 * middles[0] - inner[0]], inner, [2 * middles[-1] - inner[-1]]])
    return np.repeat(edges, 2)[1:-1]


def _triangles(ax: Axes, x: np.ndarray, values: np.ndarray, style: dict[str, Any]) -> ScalarMappable:
    """Draw colors between scattered points, or dots for few points, or points on a line."""
    size = np.ptp(x, axis=0) if len(x) else np.ones(2)
    mesh = None if (size == 0).any() else shapes.triangles((x - x.min(axis=0)) / size)
    finite = np.isfinite(values)
    if mesh is None:
        ax.scatter(*x[np.isinf(values)].T, marker="x", color=HATCH["edgecolor"])
        return ax.scatter(*x[finite].T, c=values[finite], edgecolor="black", linewidth=0.5, **style)
    whole = finite[mesh.triangles].all(axis=1)
    infinite = np.isinf(values)[mesh.triangles].any(axis=1)
    from matplotlib.collections import PolyCollection
    from matplotlib.tri import Triangulation

    drawn = Triangulation(x[:, 0], x[:, 1], mesh.triangles, mask=~whole)
    colors = ax.tripcolor(drawn, np.where(finite, values, 0.0), shading="gouraud", **style)
    if infinite.any():
        ax.add_collection(PolyCollection(list(x[mesh.triangles[infinite]]), **HATCH))
    return colors


def add_colorbar(
    ax: Axes, colors: ScalarMappable, label: str, place: str, same: float | None, ticks: int = 5
) -> None:
    """Add a colorbar as long as the plot; for a constant field its only tick is the value."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    colorbar = ax.figure.colorbar(colors, ax=ax, label=label, location=place, pad=0.03)
    colorbar.ax.set_axes_locator(_ColorbarLocator(ax, place))
    if same is not None:
        below = place == "bottom" and bool(label)  # the label already contains the value
        colorbar.set_ticks([same], labels=[label if below else f"{same:.4g}"])
        colorbar.set_label("" if below else label)
        return
    short = ScalarFormatter(useMathText=True)
    short.set_powerlimits((-3, 4))
    colorbar.locator, colorbar.formatter = MaxNLocator(ticks), short
    colorbar.update_ticks()


class _ColorbarLocator(NamedTuple):
    """Places a colorbar along a plot, which may fill only a part of its axes' original position."""

    ax: Axes
    place: str

    def __call__(self, bar: Any, renderer: RendererBase | None) -> Bbox:
        from matplotlib.transforms import Bbox

        bar.set_box_aspect(None)  # the layout sets it repeatedly
        picture, mine = self.ax.get_position(), bar.get_position(original=True)
        wide, high = bar.figure.get_size_inches()
        if self.place == "right":
            return Bbox.from_bounds(picture.x1 + 0.08 / wide, picture.y0, 0.14 / wide, picture.height)
        return Bbox.from_bounds(picture.x0, mine.y1 - 0.14 / high, picture.width, 0.14 / high)


def grid_of(x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Return both axes and the order of the points if x is a full grid, otherwise None."""
    axes = [np.unique(x[:, j]) for j in range(2)]
    if len(axes[0]) * len(axes[1]) != len(x) or min(map(len, axes)) < 2:
        return None
    order = np.lexsort((x[:, 1], x[:, 0]))
    known = x[order].reshape(len(axes[0]), len(axes[1]), 2)
    on = (known[..., 0] == axes[0][:, None]).all() and (known[..., 1] == axes[1][None, :]).all()
    return (axes, order) if on else None
