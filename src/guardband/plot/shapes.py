"""Fields clipped to the shape of a domain, and the outline of its boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.tri import Triangulation

CELLS = 160_000
"""The number of cells of a raster, large enough that the outline hides their jagged edge."""

ALONG = 6000
"""The number of points of an outline, at least 16 on each piece."""

REACH = 1.5
"""How far values are extrapolated, in units of a large distance between neighbors (95 % quantile)."""

FEW = 10
"""Fewer scattered points than this are drawn as dots, without interpolation."""


@runtime_checkable
class DrawnShape(Protocol):
    """The interface of the argument `domain`: a shape that fields can be clipped to.

    Every shape of `pinn` implements it, and other objects may do so. All arrays are NumPy arrays.
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
        """The positions of the spatial axes; the others are time."""
        ...

    def in_plane(self, axes: Sequence[str]) -> DrawnShape | None:
        """Return the shape over the two axes of a plot, or None if it is not a shape over two axes."""
        ...

    def clearly_outside(self, x: np.ndarray) -> np.ndarray:
        """Return whether points (n, 2) lie outside by more than a thousandth of the extent, shape (n,)."""
        ...

    def outline(self, n: int) -> Mapping[str, Sequence[np.ndarray]]:
        """Return the boundary in about n points: the lines (k, 2) of each part, by name.

        Lines of one point are drawn as dots. A shape with such lines is a cloud of points, for which
        `clearly_outside` is not called.
        """
        ...


class Raster(NamedTuple):
    """A fine grid over a shape: coordinates (k,) and (l,), and values (l, k), NaN outside."""

    first: np.ndarray
    second: np.ndarray
    values: np.ndarray


def raster(x: np.ndarray, values: np.ndarray, domain: DrawnShape) -> Raster | None:
    """Interpolate values at scattered points by triangles that do not cross a boundary.

    Cells near a boundary that no triangle covers are means over the nearest points. If the nearest point
    has no value, neither has the cell. The result is None for too few points, or points on a line.
    """
    if any(map(_scattered, domain.outline(ALONG).values())):
        return None
    low, size = _box(domain)
    unit = (x - low) / size
    mesh = triangles(unit)
    if mesh is None:
        return None
    _mask_crossing(mesh, x, domain)
    axes = _axes(low, size)
    cells = np.stack(np.meshgrid(*axes, indexing="xy"), -1).reshape(-1, 2)
    inside = ~domain.clearly_outside(cells)
    at = (cells[inside] - low) / size
    filled = np.full(len(cells), np.nan)
    filled[inside] = _interpolated(mesh, unit, values, at)
    return Raster(*axes, filled.reshape(len(axes[1]), len(axes[0])))


def triangles(x: np.ndarray) -> Triangulation | None:
    """Return a triangulation of scattered points, or None for few points, or points on a line."""
    if len(x) < FEW or np.linalg.matrix_rank(x - x[0]) < 2:
        return None
    from matplotlib.tri import Triangulation

    try:
        return Triangulation(x[:, 0], x[:, 1])
    except (RuntimeError, ValueError):  # numerically on a line
        return None


def outline(ax: Axes, domain: DrawnShape, across: int, **style: Any) -> None:
    """Draw the boundary of a shape, each part with its name as gid, or the points of a cloud."""
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
    """Whether a part of a boundary consists of single points."""
    return any(len(line) == 1 for line in lines)


def _box(domain: DrawnShape) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array(domain.lower), np.array(domain.upper)
    return low, high - low


def _axes(low: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the centers of about square cells; the aspect ratio of the grid is limited to 10."""
    ratio = float(np.clip(size[0] / size[1], 0.1, 10))
    counts = max(2, round((CELLS * ratio) ** 0.5)), max(2, round((CELLS / ratio) ** 0.5))
    first, second = (low[j] + size[j] * (np.arange(n) + 0.5) / n for j, n in enumerate(counts))
    return first, second


def _mask_crossing(mesh: Triangulation, x: np.ndarray, domain: DrawnShape) -> None:
    """Mask triangles whose center, or the midpoint of a side, lies outside the shape."""
    corners = x[mesh.triangles]
    middles = [corners.mean(axis=1), *((corners[:, j] + corners[:, j - 1]) / 2 for j in range(3))]
    outside = [domain.clearly_outside(middle) for middle in middles]
    crossing = np.any(outside, axis=0)
    if not crossing.all():
        mesh.set_mask(crossing)


def _edge_lengths(x: np.ndarray, mesh: Triangulation) -> np.ndarray:
    ends = x[mesh.edges]
    return np.hypot(*(ends[:, 0] - ends[:, 1]).T)


def _interpolated(mesh: Triangulation, x: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return values at points `at`, from triangles or else from nearby points."""
    from matplotlib.tri import LinearTriInterpolator
    from scipy.spatial import KDTree

    finite = np.isfinite(values)
    hit = np.asarray(mesh.get_trifinder()(at[:, 0], at[:, 1]))
    outside = hit < 0
    whole = np.asarray(finite[mesh.triangles].all(axis=1))
    hit = np.where(outside | whole[hit], hit, -1)
    result = LinearTriInterpolator(mesh, np.where(finite, values, 0.0))(at[:, 0], at[:, 1])
    result = np.ma.filled(result, np.nan)
    rest = hit < 0
    far, near = map(np.asarray, KDTree(x).query(at[rest], k=4))
    reach = REACH * np.quantile(_edge_lengths(x, mesh), 0.95)
    means = _weighted_mean(far, np.where(finite, values, 0.0)[near], finite[near])
    means[(far[:, 0] > reach) & outside[rest]] = np.nan
    result[rest] = np.where(finite[near[:, 0]], means, values[near[:, 0]])
    return result


def _weighted_mean(far: np.ndarray, values: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Return means over neighbors, weighted by the inverse squared distance."""
    weights = finite / (far + 1e-9) ** 2
    total = weights.sum(axis=1)
    return (weights * values).sum(axis=1) / np.where(total > 0, total, 1)
