"""Readings: the measurements of one output beside a band, and which of them it missed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.plot.style import ends, percent
from guardband.values import Band, Observations

ENDLESS = 1e300
"""What stands for an infinite end where ends are interpolated."""


class Readings(NamedTuple):
    """Where an output was measured, (k, d), what was read there, (k,), and which readings were missed.

    `judged` are those at which the band is known: at its points, and between them.
    """

    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    missed: np.ndarray
    judged: np.ndarray

    def sentence(self, level: float, several: bool) -> str:
        """How many were missed, and how many are to be expected of fresh readings."""
        missed, known = int(self.missed.sum()), int(self.judged.sum())
        if not known:
            return "no reading where the band is known"
        most = "at most " if several else ""
        return (
            f"misses: {missed} of {known} ({_rounded(missed / known)}), {most}{percent(1 - level)} expected"
        )


def _rounded(share: float) -> str:
    """A share as it is measured: 6 %, 6.7 %, 17 %, 100 %."""
    return f"{100 * share:.{0 if share >= 0.1 else 1}f} %".replace(".0 %", " %")


def readings(band: Band, data: Observations | None, output: int) -> Readings | None:
    """What was read of an output, or None if it was not measured."""
    if data is None:
        return None
    column = _column(band, data, output)
    if column is None:
        return None
    x, y = to_numpy(data.x).astype(float), to_numpy(data.y)[:, column].astype(float)
    if band.x is None or x.shape[1] != band.x.shape[1]:
        raise ValueError(
            f"`data` should have the {0 if band.x is None else band.x.shape[1]} coordinates of the band, got "
            f"{x.shape[1]}. Give the same columns of both."
        )
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]  # what was not measured is NaN
    if not len(y):
        return None
    lower, upper, mean = _at(to_numpy(band.x).astype(float), ends(band, output), x)
    judged = ~np.isnan(lower) & ~np.isnan(upper)
    return Readings(x, y, mean, judged & ~((lower <= y) & (y <= upper)), judged)


def _column(band: Band, data: Observations, output: int) -> int | None:
    """Which column of the data is about an output; None if none is."""
    if not isinstance(data, Observations):
        raise TypeError(f"`data` should be gb.Observations(x, y), got {type(data).__name__}.")
    m, columns = band.mean.shape[-1], data.y.shape[-1]
    if data.outputs is not None and band.names is not None:
        name = band.names.outputs[output]
        return list(data.outputs).index(name) if name in data.outputs else None
    if data.y.ndim != 2 or columns != m:
        raise ValueError(
            f"`data` should have a column for each of the {m} outputs of the band, got {columns}. Say which "
            "were measured, gb.Observations(x, y, outputs=...), of a band that knows their names."
        )
    return output


def _at(
    x: np.ndarray, known: tuple[np.ndarray, np.ndarray, np.ndarray], at: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both ends and the mean at readings: at a point of the band its own, else in between; NaN elsewhere."""
    from scipy.spatial import KDTree

    mean, lower, upper = known
    table = np.stack([lower, upper, mean], axis=1).astype(float)
    size = np.ptp(x, axis=0)
    size[size == 0] = 1.0
    far, near = map(np.asarray, KDTree(x / size).query(at / size))
    found = _between(x / size, table, at / size, far, near)
    found[far == 0] = table[near[far == 0]]
    return found[:, 0], found[:, 1], found[:, 2]


def _between(
    x: np.ndarray, table: np.ndarray, at: np.ndarray, far: np.ndarray, near: np.ndarray
) -> np.ndarray:
    """Linear interpolation; just outside of all points, as near a round boundary, the nearest point's."""
    from scipy.interpolate import LinearNDInterpolator
    from scipy.spatial import KDTree, QhullError

    wide = np.clip(table, -ENDLESS, ENDLESS)
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0])
        place, line = at[:, 0], x[order, 0]
        found = np.stack([np.interp(place, line, column, np.nan, np.nan) for column in wide[order].T], axis=1)
    else:
        try:
            found = LinearNDInterpolator(x, wide)(at)
        except (QhullError, ValueError):  # too few points, or a line
            found = np.full((len(at), 3), np.nan)
    spacing = np.median(KDTree(x).query(x, k=2)[0][:, 1]) if len(x) > 1 else 0.0
    close = np.isnan(found).any(axis=1) & (far <= 2 * spacing)
    found[close] = table[near[close]]
    return np.where(abs(found) > 1e-6 * ENDLESS, np.copysign(np.inf, found), found)
