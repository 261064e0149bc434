"""Shapes: colors that end where a domain ends, and the outline of its boundary, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.tri import Triangulation

CELLS = 160_000
"""How many cells a picture of a shape has: so many that their steps hide behind the outline."""

ALONG = 6000
"""How many points an outline has, at least 16 on each piece."""

REACH = 1.5
"""How far values reach beyond the last points, in long distances between neighbors."""

FEW = 10
"""Fewer scattered points than this are drawn as dots: there is too little to say of what lies between."""


@runtime_checkable
class DrawnShape(Protocol):
    """A shape that a picture can be drawn in: the interface of the argument `domain`.

    Every shape of `pinn` has it, and so may any other object. All arrays are NumPy's.
    """

    @property
    def lower(self) -> Sequence[float]:
        """The lower end of each axis."""
        ...

    @property
    def upper(self) -> Sequence[float]:
        """The upper end of each axis."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of the axes."""
        ...

    @property
    def space(self) -> Sequence[int]:
        """The positions of the axes of space; the others are time."""
        ...

    def in_plane(self, axes: Sequence[str]) -> DrawnShape | None:
        """The shape over the two axes of a picture; None if it is not a shape over two axes."""
        ...

    def clearly_outside(self, x: np.ndarray) -> np.ndarray:
        """Whether points (n, 2) lie outside by more than a thousandth of the extent, (n,) booleans."""
        ...

    def outline(self, n: int) -> Mapping[str, Sequence[np.ndarray]]:
        """The boundary in about n points: the lines (k, 2) of each part, by name.

        Lines of one point are drawn as dots. A shape with such a line is known at points only, and
        `clearly_outside` is not called.
        """
        ...


class Raster(NamedTuple):
    """A fine grid over a shape: its columns (k,), its lines (l,), and values (l, k), NaN outside."""

    first: np.ndarray
    second: np.ndarray
    values: np.ndarray


def raster(x: np.ndarray, values: np.ndarray, domain: DrawnShape) -> Raster | None:
    """Values at scattered points, between them by triangles that do not cross a boundary.

    Near a boundary, where there is no such triangle, they are means over the nearest points. Where the
    nearest point has none, there is none. Too few points, or points on a line, have no raster.
    """
    if any(map(_scattered, domain.outline(ALONG).values())):
        return None
    low, size = _box(domain)
    unit = (x - low) / size
    between = triangles(unit)
    if between is None:
        return None
    _stay_inside(between, x, domain)
    axes = _axes(low, size)
    cells = np.stack(np.meshgrid(*axes, indexing="xy"), -1).reshape(-1, 2)
    inside = ~domain.clearly_outside(cells)
    at = (cells[inside] - low) / size
    found = np.full(len(cells), np.nan)
    found[inside] = _between(between, unit, values, at)
    return Raster(*axes, found.reshape(len(axes[1]), len(axes[0])))


def triangles(x: np.ndarray) -> Triangulation | None:
    """Triangles between scattered points, or None where there are none: few points, or a line."""
    if len(x) < FEW or np.linalg.matrix_rank(x - x[0]) < 2:
        return None
    from matplotlib.tri import Triangulation

    try:
        return Triangulation(x[:, 0], x[:, 1])
    except (RuntimeError, ValueError):  # as good as on a line, in the eyes of the triangulation
        return None


def outline(ax: Axes, domain: DrawnShape, across: int, **style: Any) -> None:
    """Draw the boundary of a shape, each part under its own name; of a cloud its points."""
    from matplotlib.collections import LineCollection

    style = {"color": "black", "lw": 1.0, **style}
    order = [across, 1 - across]
    for part, lines in domain.outline(ALONG).items():
        if _scattered(lines):
            at = np.concatenate(lines)[:, order]
            ax.plot(*at.T, ".", ms=3, color=style["color"], gid=part)
            continue
        drawn = LineCollection(
            [line[:, order] for line in lines], capstyle="round", clip_on=False, zorder=3, **style
        )
        drawn.set_gid(part)
        ax.add_collection(drawn, autolim=False)


def _scattered(lines: Sequence[np.ndarray]) -> bool:
    """Whether a part of a boundary is known at points only."""
    return any(len(line) == 1 for line in lines)


def _box(domain: DrawnShape) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array(domain.lower), np.array(domain.upper)
    return low, high - low


def _axes(low: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middles of cells that are about square on paper; none is thinner than a tenth of the picture."""
    ratio = float(np.clip(size[0] / size[1], 0.1, 10))
    counts = max(2, round((CELLS * ratio) ** 0.5)), max(2, round((CELLS / ratio) ** 0.5))
    first, second = (low[j] + size[j] * (np.arange(n) + 0.5) / n for j, n in enumerate(counts))
    return first, second


def _stay_inside(between: Triangulation, x: np.ndarray, domain: DrawnShape) -> None:
    """Leave out triangles whose middle, or the middle of a side, lies outside of the shape."""
    corners = x[between.triangles]
    middles = [corners.mean(axis=1), *((corners[:, j] + corners[:, j - 1]) / 2 for j in range(3))]
    outside = [domain.clearly_outside(middle) for middle in middles]
    crossing = np.any(outside, axis=0)
    if not crossing.all():
        between.set_mask(crossing)


def _edges(x: np.ndarray, between: Triangulation) -> np.ndarray:
    """The lengths of all sides."""
    ends = x[between.edges]
    return np.hypot(*(ends[:, 0] - ends[:, 1]).T)


def _between(between: Triangulation, x: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values at points `at`: by triangles, else by the nearest points where they are in reach."""
    from matplotlib.tri import LinearTriInterpolator
    from scipy.spatial import KDTree

    finite = np.isfinite(values)
    hit = np.asarray(between.get_trifinder()(at[:, 0], at[:, 1]))
    outside = hit < 0
    whole = np.asarray(finite[between.triangles].all(axis=1))
    hit = np.where(outside | whole[hit], hit, -1)
    found = LinearTriInterpolator(between, np.where(finite, values, 0.0))(at[:, 0], at[:, 1])
    found = np.ma.filled(found, np.nan)
    rest = hit < 0
    far, near = map(np.asarray, KDTree(x).query(at[rest], k=4))
    reach = REACH * np.quantile(_edges(x, between), 0.95)
    means = _mean_of(far, np.where(finite, values, 0.0)[near], finite[near])
    means[(far[:, 0] > reach) & outside[rest]] = np.nan
    found[rest] = np.where(finite[near[:, 0]], means, values[near[:, 0]])
    return found


def _mean_of(far: np.ndarray, values: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Means over neighbors, those nearby counting most."""
    weights = finite / (far + 1e-9) ** 2
    total = weights.sum(axis=1)
    return (weights * values).sum(axis=1) / np.where(total > 0, total, 1)
