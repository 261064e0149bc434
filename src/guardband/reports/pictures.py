"""Pictures of a report: predicted and measured values, curves or fields with misses, coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from guardband import plot
from guardband.base.arrays import ArrayLike, rows, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level
from guardband.evaluation import Evaluation
from guardband.plot.planes import LONG, panels, plane_of, tidy
from guardband.plot.style import legend, output_word
from guardband.reports.page import png, png_of
from guardband.values import Band, Names, NormBand
from guardband.values.names import axis_words, output_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Drawing: TypeAlias = "tuple[str, Callable[[Axes], object]]"
"""A caption, and the function that draws the picture into axes."""

WIDTH = "width of the band"

MOST_POINTS, MOST_BARS = 5000, 400
"""The largest numbers of points and of error bars in a picture."""


def rows_word(calibrated: Calibrated) -> str:
    """Return "fields" if whole fields were calibrated, otherwise "points"."""
    whole = calibrated.prediction is not None and calibrated.prediction.mean.ndim > 2
    return "fields" if whole else "points"


def names_of(calibrated: Calibrated) -> Names | None:
    """Return the names of axes and outputs, from the predictor or the numeric columns."""
    columns, at = calibrated.columns, calibrated.prediction
    if calibrated.field_names is not None or columns is None or at is None or at.x is None:
        return calibrated.field_names
    m = at.mean.shape[-1]
    outputs = ("y",) if m == 1 else tuple(f"y{j}" for j in range(m))
    return Names(tuple(map(str, columns.numeric)), outputs, ())


def pictures_of(
    calibrated: Calibrated,
    band: Band | NormBand | None,
    y: ArrayLike | None,
    level: Level,
    found: Evaluation | None,
    names: Names | None = None,
) -> list[tuple[str, bytes]]:
    """Return captions and pictures, the most important ones first."""
    drawn: list[Drawing] = []
    fields: list[tuple[str, bytes]] = []
    fresh = None if y is None else to_numpy(rows(calibrated.targets(y), "y")).astype(float)
    if isinstance(band, Band) and band.mean.ndim > 2:
        known = None if fresh is None or fresh.shape != tuple(band.mean.shape) else fresh[0]
        one = band.one(0)
        drawn += _one_curve(one, None if known is None else known.reshape(len(one), -1))
        fields += _one_field(one, None if known is None else known.reshape(len(one), -1), calibrated.about)
    if isinstance(band, Band) and band.mean.ndim == 2:
        if fresh is not None and found is not None and fresh.shape == tuple(band.mean.shape):
            caption = f"Measured{_of(band)} against predicted, with the band; misses in orange."
            drawn.append((caption, lambda ax: _measured_over_predicted(band, fresh, ax)))
        if band.x is not None and band.x.ndim == 2:
            drawn += _over_places(band, fresh)
    share = calibrated.misses(level)
    if found is not None:
        drawn.append(
            (
                "Coverage at every level"
                + ("." if found.laws is None else "; gray is what a valid band shows."),
                lambda ax: plot.coverage_curve(found, ax=ax),
            )
        )
    if share is not None:
        what = f"calibration {rows_word(calibrated)}"
        drawn.append((f"Sizes of the misses of the {what}.", lambda ax: _misses(share, ax, what)))
    known = calibrated.prediction
    if known is not None and known.x is not None and known.x.ndim == 2 and known.mean.ndim == 2:
        shown = band if isinstance(band, Band) and band.mean.ndim == 2 else None
        of = "" if shown is None or not _of(shown) else f", in{_of(shown)[3:]}"
        drawn.append(
            (f"Where the model errs{of}: calibration points.", lambda ax: _residuals(calibrated, names, ax))
        )
    return [*fields, *((caption, png(draw)) for caption, draw in drawn)]


def _over_places(band: Band, fresh: np.ndarray | None) -> Iterable[Drawing]:
    """Yield the curve or the plane, with fresh measurements and misses."""
    x = to_numpy(band.x)
    some = slice(None, None, -(-len(x) // MOST_POINTS))
    mean, lower, upper = (to_numpy(part)[some] for part in (band.mean, band.lower, band.upper))
    few = Band(x[some], mean, lower, upper, band.level, band.names)
    read = None if fresh is None or fresh.shape != tuple(band.mean.shape) else fresh[some]
    missed = "" if read is None else ", and its misses"
    if x.shape[1] == 1:
        yield f"The band{_of(band)}{missed}.", lambda ax: _curve(few, read, ax)
    if x.shape[1] == 2 and len(few) > 3:
        any_of = " in any output" if missed and _of(band) else ""
        yield f"Width of the band{_of(band)}{missed}{any_of}.", lambda ax: _plane(few, read, ax)
    if x.shape[1] > 2:
        yield f"Width of the band{_of(band)} over the first coordinate.", lambda ax: _widths(few, ax)


def _outside(band: Band, y: np.ndarray) -> np.ndarray:
    """Return which measurements (n, m) lie outside the band's ends."""
    return (y < to_numpy(band.lower)) | (y > to_numpy(band.upper))


def _of(band: Band) -> str:
    """Return the name of the output in a picture: the first one if there are several."""
    return "" if band.mean.shape[-1] == 1 else f" of {words_of(band)[0]}"


def words_of(band: Band) -> tuple[str, ...]:
    """Return the names of the outputs of a band; those of fields as in `Band.one`."""
    letter = "u" if band.mean.ndim > 2 else "y"
    return output_words(band.names) or tuple(f"{letter}{j}" for j in range(band.mean.shape[-1]))


def _measured_over_predicted(band: Band, y: np.ndarray, ax: Axes) -> None:
    """Plot measured over predicted values, with the band as bars."""
    some = np.linspace(0, len(y) - 1, min(len(y), MOST_BARS)).astype(int)
    mean, low, high = (to_numpy(part)[some, 0].astype(float) for part in (band.mean, band.lower, band.upper))
    read, out = y[some, 0], _outside(band, y)[some, 0]
    finite = np.isfinite(low) & np.isfinite(high)
    ax.vlines(mean[finite], low[finite], high[finite], color=plot.BLUE, alpha=0.25, lw=1)
    ax.plot(mean[~out], read[~out], ".", color=plot.GRAY, ms=3)
    ax.plot(mean[out], read[out], "x", color=plot.ORANGE, ms=6, mew=1.5)
    ends = [min(mean.min(), read.min()), max(mean.max(), read.max())]
    ax.plot(ends, ends, color=plot.BLUE, lw=1)
    word = output_word(band, 0)
    ax.set(xlabel=f"{word}, predicted", ylabel=f"{word}, measured")


def _curve(band: Band, y: np.ndarray | None, ax: Axes) -> None:
    plot.band(band, ax=ax)
    if y is not None:
        _crosses(ax, to_numpy(band.x)[:, 0], y[:, 0], _outside(band, y)[:, 0])


def _plane(band: Band, y: np.ndarray | None, ax: Axes) -> None:
    plot.width(band, ax=ax)
    if y is not None:
        at = plane_of(band.names, None).turned(to_numpy(band.x))
        _crosses(ax, at[:, 0], at[:, 1], np.asarray(_outside(band, y).any(axis=1)))


def _crosses(ax: Axes, across: np.ndarray, up: np.ndarray, out: np.ndarray) -> None:
    """Draw measurements as dots, and misses as crosses."""
    ax.plot(across[~out], up[~out], ".", color="white", mec=plot.GRAY, mew=0.5, ms=4, zorder=3)
    ax.plot(across[out], up[out], "X", color=plot.ORANGE, mec="white", mew=0.6, ms=7, zorder=4)


def _one_curve(band: Band, fresh: np.ndarray | None) -> Iterable[Drawing]:
    """Yield the first of whole fields over its one axis, with its measurements."""
    assert band.x is not None
    if band.x.shape[1] == 1:
        missed = "" if fresh is None else ", and its misses"
        yield f"The band{_of(band)} around the first field{missed}.", lambda ax: _curve(band, fresh, ax)


def _one_field(band: Band, fresh: np.ndarray | None, about: str) -> Iterable[tuple[str, bytes]]:
    """Yield the first of whole fields over two axes: predicted, measured or true, and the width."""
    assert band.x is not None
    if band.x.shape[1] != 2 or len(band) <= 3:
        return
    import matplotlib.pyplot as plt

    known = "true" if about == "truth" else "measured"
    shown = {"predicted": band.mean, known: fresh, WIDTH: band.width}
    parts = {title: to_numpy(part).astype(float)[:, 0] for title, part in shown.items() if part is not None}
    x, both = to_numpy(band.x), np.stack(list(parts.values())[:-1])
    limits = float(both.min()), float(both.max())  # one scale for what is compared
    ratio = plane_of(band.names, None).ratio(x)
    figure, grid = panels(len(parts), ratio)
    place = "right" if ratio >= LONG else "bottom"
    for ax, (title, values) in zip(grid, parts.items(), strict=True):
        its = limits if title != WIDTH and limits[0] < limits[1] else None
        plot.heatmap(x, values, names=band.names, limits=its, colorbar=place, ax=ax).set_title(title)
    tidy(grid, ratio, 3)
    caption = f"The first field{_of(band)}: {', '.join(list(parts)[:-1])} and {list(parts)[-1]}."
    picture = png_of(figure)
    plt.close(figure)
    yield caption, picture


def _widths(band: Band, ax: Axes) -> None:
    ax.plot(to_numpy(band.x)[:, 0], to_numpy(band.width)[:, 0], ".", ms=3, color=plot.BLUE, alpha=0.5)
    ax.set(xlabel=axis_words(band.names, ["x0"])[0], ylabel="width", ylim=(0, None))


FARTHEST = 5.0
"""The histogram of misses is clipped here, in half widths of the band."""


def _misses(share: np.ndarray, ax: Axes, what: str = "calibration points") -> None:
    """Plot misses relative to the threshold at each point, which holds for every calibrator."""
    inside, n = int((share <= 1).sum()), len(share)
    share = np.minimum(share[np.isfinite(share)], FARTHEST)
    if len(share):
        step = 1 / max(3, min(20, len(share) // 8))  # with an edge at 1, no bar is both inside and outside
        ax.hist(share, bins=np.arange(0, share.max() + step, step).tolist(), color=plot.BLUE, alpha=0.6)
        if share.max() == FARTHEST:
            ax.text(
                FARTHEST, 0, f"{FARTHEST:g} or more", ha="right", va="bottom", rotation=90, fontsize="small"
            )
    ax.axvline(1, color=plot.ORANGE, lw=1.6, label=f"the end of the band: {inside} of {n} inside")
    legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1))
    ax.set(xlabel="miss, as a share of the band's half width there", ylabel=what)


def _residuals(calibrated: Calibrated, names: Names | None, ax: Axes) -> None:
    assert calibrated.prediction is not None
    x = to_numpy(calibrated.prediction.x)
    miss = (to_numpy(calibrated.y) - to_numpy(calibrated.prediction.mean))[:, 0]
    if x.shape[1] == 1:
        ax.plot(x[:, 0], miss, ".", color=plot.GRAY, ms=4)
        ax.axhline(0, color=plot.BLUE, lw=1)
        ax.set(xlabel=axis_words(names, ["x"])[0], ylabel="measured - predicted")
        return
    most = float(np.abs(miss).max()) or 1.0
    plane = plane_of(names, None)
    colors: dict[str, Any] = {"cmap": plot.SIGNED, "vmin": -most, "vmax": most, "ec": "black", "lw": 0.3}
    dots = ax.scatter(*plane.turned(x[:, :2]).T, c=miss, s=18, **colors)
    ax.figure.colorbar(dots, ax=ax, label="measured - predicted")
    ax.set(xlabel=plane.words[0], ylabel=plane.words[1])
