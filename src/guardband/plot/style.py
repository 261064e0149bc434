"""Style: the colors and marks that all pictures share, and what is asked of a band before it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.base.arrays import ArrayLike, rows, to_numpy
from guardband.values import Band
from guardband.values.names import word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#5f6670"
COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colors of lines, which all eyes tell apart (Okabe and Ito 2008)."""

KINDS = {"this band": BLUE, "constant width": ORANGE, "before calibration": GRAY}
"""The colors of bands that are compared, by how the names of their rows start."""

VALUES, SIZES, SIGNED = "viridis", "cividis", "RdBu_r"
"""The color maps of a field, of widths and errors, and of differences around 0."""

HATCH: dict[str, Any] = {"hatch": "////", "facecolor": "none", "edgecolor": GRAY, "linewidth": 0}
"""How places are drawn where a band is infinite."""

SLICE = (
    "Draw a slice: take points of a plane, with all coordinates but two held, and give the two that vary, as "
    "in gb.plot.heatmap(x[:, :2], values)."
)


def axes(ax: Axes | None) -> Axes:
    """The axes that were given, or new ones."""
    return ax if ax is not None else figure(1, 1, None)[1][0, 0]


def figure(lines: int, columns: int, size: tuple[float, float] | None, **options: Any) -> tuple[Figure, Any]:
    """A new figure and its axes (lines, columns)."""
    import matplotlib.pyplot as plt

    return plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False, **options)


def legend(ax: Axes, **options: Any) -> None:
    """A legend where it hides the least, or where `loc` says.

    By default Matplotlib looks for that place too, and warns when that took long: of many points, or on a
    machine that is busy.
    """
    ax.legend(**{"frameon": False, "fontsize": "small", "loc": "best", **options})


def points(band: Band, d: int) -> np.ndarray:
    """The band's points as numpy (n, d), or an error that says which plot fits."""
    at = points_of(band)
    if at.shape[1] != d:
        raise ValueError(
            f"This plot is for {d}-dimensional x, got shape {at.shape}. "
            "`plot.overview`, `plot.width` and `plot.heatmap` draw two dimensions; of a slice, give "
            "the band with the one coordinate that varies: gb.Band(x[:, :1], mean, lower, upper, level)."
        )
    return at


def points_of(band: Band) -> np.ndarray:
    """The band's points as numpy (n, d), or an error that says what it lacks."""
    if not isinstance(band, Band):
        raise TypeError(
            f"`band` should be a gb.Band, such as calibrated(x, level=0.95), got {type(band).__name__}."
        )
    if band.x is None and band.mean.ndim == 2:
        raise ValueError("This band came from arrays without points x; there is nothing to plot over.")
    if band.mean.ndim != 2 or band.x.ndim != 2:  # type: ignore[union-attr]
        raise ValueError(
            f"A picture has a row per point, and this band is around fields {tuple(band.mean.shape)}. "
            "Draw one of the fields: band.one(0)."
        )
    return to_numpy(band.x)


def output_of(band: Band, output: int | str) -> int:
    """The number of an output, which a band may know by name."""
    m = band.mean.shape[-1]
    if isinstance(output, str):
        if band.names is None:
            raise ValueError(f"This band does not know its outputs by name; give {output!r} as a number.")
        return band.names.positions(output)[0]
    if not -m <= output < m:
        raise ValueError(f"There is no output {output}: this band has {m}, 0 to {m - 1}.")
    return output % m


def output_word(band: Band, output: int) -> str:
    """What an output is called in a picture."""
    if band.names is not None:
        return word(band.names.outputs[output])
    return "y" if band.mean.shape[-1] == 1 else f"y{output}"


def ends(band: Band, output: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean and both ends of one output, each (n,)."""
    mean, lower, upper = (to_numpy(part)[:, output] for part in (band.mean, band.lower, band.upper))
    return mean, lower, upper


def true_values(truth: ArrayLike, band: Band, output: int) -> np.ndarray:
    """The truth of one output at the band's points, (n,)."""
    found = to_numpy(rows(truth, "truth"))
    if found.shape != tuple(band.mean.shape):
        raise ValueError(
            f"`truth` should be {tuple(band.mean.shape)}, a value for each point and output of the band, got "
            f"{found.shape}. Evaluate it at the points of the band, band.x."
        )
    return found[:, output]


def widths(band: Band, output: int) -> tuple[np.ndarray, float | None]:
    """The widths (n,) of one output, and the one width if all that are finite are the same.

    The ends of a band are rounded, and their difference is rounding where the band is narrow and the mean is
    large.
    """
    mean, values = (to_numpy(part)[:, output] for part in (band.mean, band.width))
    finite = np.isfinite(values)
    largest = float((abs(mean[finite]) + values[finite]).max(initial=0))
    ulp = float(np.finfo(np.result_type(values, np.float16)).eps) * largest
    same = constant(values, 32 * ulp)  # either end may be off by some
    values = values.astype(float)
    return (values if same is None else np.where(finite, same, values)), same


def constant(values: np.ndarray, rounding: float = 0.0) -> float | None:
    """The one value of a field that varies by rounding alone, among those that are finite; else None."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    return (low + high) / 2 if high - low <= max(rounding, 1e-6 * max(abs(low), abs(high))) else None


def said(label: str, same: float | None, values: np.ndarray) -> str:
    """A label with what a picture cannot show: one value for all places, or an infinite one."""
    endless = np.isinf(values)
    if endless.all():
        tail = "infinite everywhere" if endless.size else ""
    elif same is not None:
        tail = f"{same:.4g} {'where it is finite' if not np.isfinite(values).all() else 'everywhere'}"
    else:
        tail = "infinite where hatched" if endless.any() else ""
    return f"{label}{': ' if label and tail else ''}{tail}"


def percent(share: float) -> str:
    """A share as people write it: 10 %, 2.5 %.

    >>> percent(0.1), percent(1 - 0.975), percent(1 / 3)
    ('10 %', '2.5 %', '33.3 %')
    """
    return f"{100 * share:.3g} %"
