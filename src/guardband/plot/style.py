"""Colors and marks of all plots, and access to the values of a band that are plotted."""

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
"""Colors of lines, safe for color-blind readers (Okabe and Ito 2008)."""

KINDS = {"this band": BLUE, "constant width": ORANGE, "before calibration": GRAY}
"""Colors of compared bands, by the beginning of their names."""

VALUES, SIZES, SIGNED = "viridis", "cividis", "RdBu_r"
"""Color maps of fields, of widths and errors, and of differences around 0."""

HATCH: dict[str, Any] = {"hatch": "////", "facecolor": "none", "edgecolor": GRAY, "linewidth": 0}
"""Style of regions where a band is infinite."""

SLICE = (
    "Plot a slice: choose points in a plane, with all but two coordinates fixed, and pass the two that vary, "
    "as in gb.plot.heatmap(x[:, :2], values)."
)


def axes(ax: Axes | None) -> Axes:
    """Return the given axes, or new ones."""
    return ax if ax is not None else figure(1, 1, None)[1][0, 0]


def figure(
    lines: int, columns: int, size: tuple[float, float] | None, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return a new figure and its axes, shape (lines, columns)."""
    import matplotlib.pyplot as plt

    return plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False, **options)


def legend(ax: Axes, **options: Any) -> None:
    """Add a legend at the best position, or at `loc`.

    An explicit "best" avoids Matplotlib's warning that the default search was slow, which depends on the
    number of points and the load of the machine.
    """
    ax.legend(**{"frameon": False, "fontsize": "small", "loc": "best", **options})


def points(band: Band, d: int) -> np.ndarray:
    """Return the band's points as numpy (n, d); the error names a suitable plot."""
    at = points_of(band)
    if at.shape[1] != d:
        raise ValueError(
            f"This plot is for {d}-dimensional x, got shape {at.shape}. "
            "`plot.overview`, `plot.width` and `plot.heatmap` draw two dimensions; for a slice, pass "
            "the band with the one coordinate that varies: gb.Band(x[:, :1], mean, lower, upper, level)."
        )
    return at


def points_of(band: Band) -> np.ndarray:
    """Return the band's points as numpy (n, d); refuse bands without points, or around fields."""
    if not isinstance(band, Band):
        raise TypeError(
            f"`band` should be a gb.Band, such as calibrated(x, level=0.95), got {type(band).__name__}."
        )
    if band.x is None and band.mean.ndim == 2:
        raise ValueError("This band was made from arrays, without points x to plot it over.")
    if band.x is None or band.mean.ndim != 2 or band.x.ndim != 2:
        raise ValueError(
            f"A plot needs a row per point, but this band is around fields {tuple(band.mean.shape)}. "
            "Plot one of the fields: band.one(0)."
        )
    return to_numpy(band.x)


def output_of(band: Band, output: int | str) -> int:
    """Return the number of an output given by number or name."""
    m = band.mean.shape[-1]
    if isinstance(output, str):
        if band.names is None:
            raise ValueError(f"The outputs of this band have no names; pass a number instead of {output!r}.")
        return band.names.positions(output)[0]
    if not -m <= output < m:
        raise ValueError(f"Unknown output {output}. The outputs are numbered from 0 to {m - 1}.")
    return output % m


def output_word(band: Band, output: int) -> str:
    """Return the label of an output."""
    if band.names is not None:
        return word(band.names.outputs[output])
    return "y" if band.mean.shape[-1] == 1 else f"y{output}"


def ends(band: Band, output: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean and both ends of one output, each (n,)."""
    mean, lower, upper = (to_numpy(part)[:, output] for part in (band.mean, band.lower, band.upper))
    return mean, lower, upper


def true_values(truth: ArrayLike, band: Band, output: int) -> np.ndarray:
    """Return the true values of one output at the band's points, (n,)."""
    values = to_numpy(rows(truth, "truth"))
    if values.shape != tuple(band.mean.shape):
        raise ValueError(
            f"`truth` should be {tuple(band.mean.shape)}, a value for each point and output of the band, got "
            f"{values.shape}. Evaluate it at the points of the band, band.x."
        )
    return values[:, output]


def widths(band: Band, output: int) -> tuple[np.ndarray, float | None]:
    """Return the widths (n,) of one output, and the width if all finite ones are equal up to rounding.

    The ends of a band are rounded, so if the mean is large, the widths of a narrow band vary by rounding.
    """
    mean, values = (to_numpy(part)[:, output] for part in (band.mean, band.width))
    finite = np.isfinite(values)
    largest = float((abs(mean[finite]) + values[finite]).max(initial=0))
    ulp = float(np.finfo(np.result_type(values, np.float16)).eps) * largest
    same = constant(values, 32 * ulp)  # each end may be off by several ulp
    values = values.astype(float)
    return (values if same is None else np.where(finite, same, values)), same


def constant(values: np.ndarray, rounding: float = 0.0) -> float | None:
    """Return the value of a field whose finite values are equal up to rounding, otherwise None."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    return (low + high) / 2 if high - low <= max(rounding, 1e-6 * max(abs(low), abs(high))) else None


def annotated(label: str, same: float | None, values: np.ndarray) -> str:
    """Add to a label what colors cannot show: a constant or an infinite value."""
    infinite = np.isinf(values)
    if infinite.all():
        tail = "infinite everywhere" if infinite.size else ""
    elif same is not None:
        tail = f"{same:.4g} {'where it is finite' if not np.isfinite(values).all() else 'everywhere'}"
    else:
        tail = "infinite where hatched" if infinite.any() else ""
    return f"{label}{': ' if label and tail else ''}{tail}"


def percent(share: float) -> str:
    """Return a share as a percentage with up to three digits.

    >>> percent(0.1), percent(1 - 0.975), percent(1 / 3)
    ('10 %', '2.5 %', '33.3 %')
    """
    return f"{100 * share:.3g} %"
