"""Planes: fields over two axes, drawn as their owner would: by name, to scale, within their shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike, rows, to_numpy
from guardband.plot import shapes
from guardband.plot.shapes import DrawnShape
from guardband.plot.style import HATCH, SIGNED, SLICE, VALUES, constant, figure, said
from guardband.values import Names
from guardband.values.names import word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Aspect: TypeAlias = float | Literal["equal", "auto"] | None
"""How long the vertical unit is beside the horizontal one; None is what fits the axes."""

Bar: TypeAlias = bool | Literal["right", "bottom"]
"""Where the colorbar is, if there is one."""

LONGEST = 8.0
"""A field of space that is longer than so many times its height is stretched."""

STEPS = [1, 2, 5, 10]
"""Between the ticks of an axis."""

TIMES = ("t", "time")
"""What time is called where nobody says which axes are space."""


class Plane(NamedTuple):
    """How two axes are drawn: which of them goes across, what both are called, and the shape they lie in.

    `alike` says whether both are lengths: True, False, or None where it is not known.
    """

    across: int
    words: tuple[str, str]
    alike: bool | None
    domain: DrawnShape | None

    def turned(self, x: np.ndarray) -> np.ndarray:
        """Points (n, 2) as they are drawn, the horizontal axis first."""
        return x[:, [self.across, 1 - self.across]]

    def ratio(self, x: np.ndarray) -> float:
        """How many times wider than high a field over these points is drawn."""
        wide, high = self.extent(x)
        if self.alike is False or min(wide, high) <= 0:
            return 4 / 3
        if self.alike is None and not 1 / 3 <= wide / high <= 3:
            return 4 / 3
        return float(np.clip(wide / high, 1 / LONGEST, LONGEST))

    def extent(self, x: np.ndarray) -> tuple[float, float]:
        """How wide and how high the points reach, or the shape."""
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
    """Values (n,) over a two-dimensional x (n, 2): on a regular grid as pixels, else by triangles.

    `names` are those of a problem, problem.names, or two words. Two axes of space are drawn to scale; time
    goes across, and space upwards. Within a `domain`, a shape of `pinn` or another object with the interface
    `plot.shapes.DrawnShape`, colors end where it ends, at holes too, and its boundary is drawn. `limits`
    fixes the colors, so that fields can be compared; `signed` is for differences, in two colors around 0.
    Infinite values are hatched. Without its own `colorbar`, several can share one:
    `figure.colorbar(ax.collections[0], ax=axes)`. Values that are the same everywhere, but for rounding, are
    drawn in one color, and the label says the value.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.random.default_rng(0).uniform(size=(300, 2))
    >>> ax = gb.plot.heatmap(x, np.sin(x[:, 0]) * x[:, 1], label="u", names=("x", "y"))
    >>> ax.get_xlabel(), ax.get_ylabel(), ax.get_aspect()
    ('x', 'y', 1.0)
    """
    x, values = to_numpy(rows(x, "x")), np.asarray(to_numpy(values), float).reshape(-1)
    if x.shape != (len(values), 2):
        cure = f" {SLICE}" if x.shape[-1] > 2 else ""
        raise ValueError(f"`x` should be ({len(values)}, 2) for a field, got {x.shape}.{cure}")
    plane = plane_of(names, domain)
    known = np.isfinite(x).all(axis=1)  # of a frame, some numbers may be missing
    x, values = x[known].astype(float), values[known]
    ax = new_axes(ax, plane.ratio(x))
    same = constant(values)
    shown = values if same is None else np.where(np.isfinite(values), same, values)
    style = {"cmap": SIGNED if signed else VALUES} | _limits(shown, limits, signed) | style
    colors = _draw(ax, x, shown, plane, style)
    label = said(label, same, values)
    if len(values) and np.isinf(values).all():
        ax.text(0.5, 0.5, label, transform=ax.transAxes, ha="center", va="center", bbox=WHITE)
    elif colorbar:
        place = "right" if colorbar is True else colorbar
        ticks = 3 if place == "bottom" or plane.ratio(x) >= LONG else 6
        bar(ax, colors, label, place, same if limits is None else None, ticks)
    frame(ax, plane, x, aspect)
    return ax


WHITE: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 3}


def new_axes(ax: Axes | None, ratio: float) -> Axes:
    """The axes that were given, or new ones for a field of this ratio of width to height."""
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
    """Several fields over the same points, values (n, m): a panel with its own colors for each.

    Titles are the outputs of `names`, unless given. More is said at `heatmap`, which draws each.

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
        raise ValueError(f"`values` should be (n, m), a column for each output, got {values.shape}.")
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
    """Name the axes once: stacked panels at the bottom, those side by side on the left."""
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
"""Fields that are this many times wider than high stand one above the other."""


def panels(m: int, ratio: float, lines: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with m panels for fields of this ratio of width to height, and not one more.

    There are up to three in a line, or as many as fit in so many `lines`; wide ones are stacked.
    """
    if ratio >= LONG:
        whole, grid = figure(m, 1, (6.8, m * (5.2 / ratio + 0.55) + 0.6), sharex=True)
        return whole, list(grid[:, 0])
    columns = m // lines if lines > 1 else 2 if m == 4 else min(m, 3)
    lines = -(-m // columns)
    wide = (4.6, 6.0, 7.0)[min(columns, 3) - 1]
    high = (wide / columns - 0.75) / max(ratio, 0.4) + (1.15 if lines == 1 else 1.5)
    whole, grid = figure(lines, columns, (wide, lines * high + 0.55))
    if lines > 1:
        whole.get_layout_engine().set(h_pad=0.13)  # type: ignore[union-attr]
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
    """How two axes are drawn, by what is known of them."""
    if domain is not None and not isinstance(domain, DrawnShape):
        cure = " Give problem.domain." if hasattr(domain, "domain") else ""
        raise TypeError(f"`domain` should be a shape, got {domain!r:.80}.{cure}")
    if names is None and domain is None:
        return Plane(0, ("x0", "x1"), None, None)
    words = names.axes if isinstance(names, Names) else names if names is not None else domain.names  # type: ignore[union-attr]
    shape = _flat(domain, words[:2])
    if isinstance(words, str) or len(words) < 2:
        raise ValueError(f'`names` should be problem.names, or two words such as ("x", "t"), got {names!r}.')
    known = names if isinstance(names, Names) else domain if names is None else None
    space = (0, 1) if known is None else known.space
    time = [j for j in (0, 1) if j not in space or words[j] in TIMES]
    across = time[0] if len(time) == 1 else 0
    return Plane(across, (word(words[across]), word(words[1 - across])), not time, shape)


def _flat(domain: DrawnShape | None, words: Sequence[str]) -> DrawnShape | None:
    """The shape in the plane that is drawn."""
    if domain is None:
        return None
    shape = domain.in_plane(words)
    if shape is not None:
        return shape
    raise ValueError(
        f"`domain` should be a shape of the two axes that are drawn, got one of {', '.join(domain.names)}. "
        "Leave it out, or give the shape that the plane cuts out of it."
    )


def frame(ax: Axes, plane: Plane, x: np.ndarray, aspect: Aspect = None) -> None:
    """Name the axes, set their scale, and draw the outline of the shape."""
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
    """Equal for two lengths, unless the field is so long that it would be a line."""
    wide, high = plane.extent(x)
    if plane.alike is False or min(wide, high) <= 0:
        return "auto"
    if plane.alike is None:
        return "equal" if 1 / 3 <= wide / high <= 3 else "auto"
    if wide > LONGEST * high:
        return wide / high / LONGEST
    return LONGEST * wide / high if high > LONGEST * wide else "equal"


def _limits(values: np.ndarray, limits: tuple[float, float] | None, signed: bool) -> dict[str, float]:
    """The ends of the color scale."""
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


def _draw(ax: Axes, x: np.ndarray, values: np.ndarray, plane: Plane, style: dict[str, Any]) -> Any:
    """The colors: on a shape within it, on a grid as pixels, else by triangles or as dots."""
    if plane.domain is not None:
        made = shapes.raster(x, values, plane.domain)
        if made is not None:
            picture = made.values if plane.across == 0 else made.values.T
            first, second = (made.first, made.second)[:: 1 if plane.across == 0 else -1]
            return _pixels(ax, first, second, picture, {"rasterized": True} | style)
    x = plane.turned(x)
    grid = grid_of(x) if plane.domain is None else None
    if grid is not None:
        (first, second), order = grid
        return _pixels(ax, first, second, values[order].reshape(len(first), len(second)).T, style)
    return _triangles(ax, x, values, style)


def _pixels(
    ax: Axes, first: np.ndarray, second: np.ndarray, picture: np.ndarray, style: dict[str, Any]
) -> Any:
    """Cells around the middles, hatched where the values are infinite."""
    colors = ax.pcolormesh(first, second, np.ma.masked_invalid(picture), shading="nearest", **style)
    endless = np.isinf(picture)
    if endless.any():
        across, upwards = (_doubled(middles) for middles in (first, second))
        cells = np.repeat(np.repeat(endless, 2, axis=0), 2, axis=1)
        hatched = ax.contourf(across, upwards, cells, levels=[0.5, 1.5], colors="none", hatches=["////"])
        hatched.set(edgecolor=HATCH["edgecolor"], linewidth=0)
    return colors


def _doubled(middles: np.ndarray) -> np.ndarray:
    """Both edges of each cell."""
    inner = (middles[1:] + middles[:-1]) / 2
    edges = np.concatenate([[2 * middles[0] - inner[0]], inner, [2 * middles[-1] - inner[-1]]])
    return np.repeat(edges, 2)[1:-1]


def _triangles(ax: Axes, x: np.ndarray, values: np.ndarray, style: dict[str, Any]) -> Any:
    """Colors between scattered points, or dots where there is nothing between: few points, or a line."""
    size = np.ptp(x, axis=0) if len(x) else np.ones(2)
    between = None if (size == 0).any() else shapes.triangles((x - x.min(axis=0)) / size)
    finite = np.isfinite(values)
    if between is None:
        ax.scatter(*x[np.isinf(values)].T, marker="x", color=HATCH["edgecolor"])
        return ax.scatter(*x[finite].T, c=values[finite], edgecolor="black", linewidth=0.5, **style)
    whole = finite[between.triangles].all(axis=1)
    endless = np.isinf(values)[between.triangles].any(axis=1)
    from matplotlib.collections import PolyCollection
    from matplotlib.tri import Triangulation

    drawn = Triangulation(x[:, 0], x[:, 1], between.triangles, mask=~whole)
    colors = ax.tripcolor(drawn, np.where(finite, values, 0.0), shading="gouraud", **style)
    if endless.any():
        ax.add_collection(PolyCollection(list(x[between.triangles[endless]]), **HATCH))
    return colors


def bar(ax: Axes, colors: Any, label: str, place: str, same: float | None, ticks: int = 5) -> None:
    """A colorbar as long as the picture; of one value alone, with that value."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    made = ax.figure.colorbar(colors, ax=ax, label=label, location=place, pad=0.03)
    made.ax.set_axes_locator(_Beside(ax, place))
    if same is not None:
        below = place == "bottom" and bool(label)  # there the label would say it twice
        made.set_ticks([same], labels=[label if below else f"{same:.4g}"])
        made.set_label("" if below else label)
        return
    short = ScalarFormatter(useMathText=True)
    short.set_powerlimits((-3, 4))
    made.locator, made.formatter = MaxNLocator(ticks), short
    made.update_ticks()


class _Beside(NamedTuple):
    """Where a colorbar is drawn: along a picture that may fill but a part of its place."""

    ax: Axes
    place: str

    def __call__(self, bar: Any, renderer: Any) -> Any:
        from matplotlib.transforms import Bbox

        bar.set_box_aspect(None)  # the layout sets one again and again
        picture, mine = self.ax.get_position(), bar.get_position(original=True)
        wide, high = bar.figure.get_size_inches()
        if self.place == "right":
            return Bbox.from_bounds(picture.x1 + 0.08 / wide, picture.y0, 0.14 / wide, picture.height)
        return Bbox.from_bounds(picture.x0, mine.y1 - 0.14 / high, picture.width, 0.14 / high)


def grid_of(x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray] | None:
    """The two axes and the order of the points if x is a full regular grid, else None."""
    axes = [np.unique(x[:, j]) for j in range(2)]
    if len(axes[0]) * len(axes[1]) != len(x) or min(map(len, axes)) < 2:
        return None
    order = np.lexsort((x[:, 1], x[:, 0]))
    known = x[order].reshape(len(axes[0]), len(axes[1]), 2)
    on = (known[..., 0] == axes[0][:, None]).all() and (known[..., 1] == axes[1][None, :]).all()
    return (axes, order) if on else None
