"""Readings of one output, and which of them lie outside a band."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.plot.style import ends, percent
from guardband.values import Band, Observations

INFINITE = 1e300
"""Replaces an infinite end during interpolation."""


class Readings(NamedTuple):
    """Points (k, d) and values (k,) of the readings of one output, and which ones the band missed.

    A reading is `judged` if the band is known at its position: at or between the band's points.
    """

    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    missed: np.ndarray
    judged: np.ndarray

    def sentence(self, level: float, several: bool) -> str:
        """Return the number of misses and the share that is expected of fresh readings."""
        missed, known = int(self.missed.sum()), int(self.judged.sum())
        if not known:
            return "no reading where the band is known"
        most = "at most " if several else ""
        return (
            f"misses: {missed} of {known} ({_rounded(missed / known)}), {most}{percent(1 - level)} expected"
        )


def _rounded(share: float) -> str:
    """Return a measured share as a percentage: 6 %, 6.7 %, 17 %, 100 %."""
    return f"{100 * share:.{0 if share >= 0.1 else 1}f} %".replace(".0 %", " %")


def readings(band: Band, data: Observations | None, output: int) -> Readings | None:
    """Return the readings of an output, or None if it was not measured."""
    if data is None:
        return None
    column = _column(band, data, output)
    if column is None:
        return None
    x, y = to_numpy(data.x).astype(float), to_numpy(data.y)[:, column].astype(float)
    if band.x is None or x.shape[1] != band.x.shape[1]:
        raise ValueError(
            f"`data` should have the {0 if band.x is None else band.x.shape[1]} coordinates of the band, got "
            f"{x.shape[1]}. Pass the same columns for both."
        )
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]  # NaN denotes a missing reading
    if not len(y):
        return None
    lower, upper, mean = _band_at(to_numpy(band.x).astype(float), ends(band, output), x)
    judged = ~np.isnan(lower) & ~np.isnan(upper)
    return Readings(x, y, mean, judged & ~((lower <= y) & (y <= upper)), judged)


def _column(band: Band, data: Observations, output: int) -> int | None:
    """Return the column of the data that holds an output, or None."""
    if not isinstance(data, Observations):
        raise TypeError(f"`data` should be gb.Observations(x, y), got {type(data).__name__}.")
    m, columns = band.mean.shape[-1], data.y.shape[-1]
    if data.outputs is not None and band.names is not None:
        name = band.names.outputs[output]
        return list(data.outputs).index(name) if name in data.outputs else None
    if data.y.ndim != 2 or columns != m:
        raise ValueError(
            f"`data` should have a column for each of the {m} outputs of the band, got {columns}. If only "
            "some were measured and the band has names, use gb.Observations(x, y, outputs=...)."
        )
    return output


def _band_at(
    x: np.ndarray, known: tuple[np.ndarray, np.ndarray, np.ndarray], at: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both ends and the mean at points `at`: exact or interpolated, NaN outside the points' range."""
    from scipy.spatial import KDTree

    mean, lower, upper = known
    table = np.stack([lower, upper, mean], axis=1).astype(float)
    size = np.ptp(x, axis=0)
    size[size == 0] = 1.0
    far, near = map(np.asarray, KDTree(x / size).query(at / size))
    values = _interpolated(x / size, table, at / size, far, near)
    values[far == 0] = table[near[far == 0]]
    return values[:, 0], values[:, 1], values[:, 2]


def _interpolated(
    x: np.ndarray, table: np.ndarray, at: np.ndarray, far: np.ndarray, near: np.ndarray
) -> np.ndarray:
    """Interpolate linearly; just outside all points, as near a round boundary, use the nearest."""
    from scipy.interpolate import LinearNDInterpolator
    from scipy.spatial import KDTree, QhullError

    wide = np.clip(table, -INFINITE, INFINITE)
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0])
        new, known = at[:, 0], x[order, 0]
        values = np.stack([np.interp(new, known, column, np.nan, np.nan) for column in wide[order].T], axis=1)
    else:
        try:
            values = LinearNDInterpolator(x, wide)(at)
        except (QhullError, ValueError):  # too few points, or points on a line
            values = np.full((len(at), 3), np.nan)
    spacing = np.median(KDTree(x).query(x, k=2)[0][:, 1]) if len(x) > 1 else 0.0
    close = np.isnan(values).any(axis=1) & (far <= 2 * spacing)
    values[close] = table[near[close]]
    return np.where(abs(values) > 1e-6 * INFINITE, np.copysign(np.inf, values), values)
