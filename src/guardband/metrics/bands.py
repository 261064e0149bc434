"""Metrics of bands: coverage, sharpness, interval score, and ACD with its noise floor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from guardband.base.arrays import Array, ArrayLike, copy, refuse_masked, rows, to_numpy
from guardband.conformal.base import Pieces
from guardband.conformal.laws import LEVELS, expected_deviation, simulated_deviations
from guardband.conformal.rank import Level, exact
from guardband.conformal.split import SplitThreshold
from guardband.values import Band, Prediction
from guardband.values.bands import targets_of

Region: TypeAlias = ArrayLike | Callable[[Array], Array]
"""A subset of the points: booleans (n,), or a function from x (n, d) to booleans."""


def coverage(band: Band, y: ArrayLike, *, region: Region | None = None) -> float:
    """Return the fraction of targets that lie in the band with all their outputs.

    Parameters
    ----------
    band
        The band.
    y
        Targets, shape (n, m).
    region
        Points to include: booleans of shape (n,), or a function of x that returns them. By default all points
        are included.

    Returns
    -------
    float
        The coverage.

    Examples
    --------
    >>> import guardband as gb
    >>> band = gb.Band(None, [0.0, 0.0], [-1.0, -1.0], [1.0, 1.0], level=0.9)
    >>> gb.metrics.coverage(band, [0.5, 3.0])
    0.5
    """
    return mean_over(to_numpy(band.contains(y)), rows_in(region, band))


def sharpness(band: Band, *, region: Region | None = None) -> float:
    """Return the mean width of a band.

    Parameters
    ----------
    band
        The band.
    region
        Points to include: booleans of shape (n,), or a function of x that returns them. By default all points
        are included.

    Returns
    -------
    float
        The mean width in the units of y, infinite if any width is infinite.

    Examples
    --------
    >>> import guardband as gb
    >>> band = gb.Band(None, [0.0, 0.0], [-1.0, -1.0], [1.0, 3.0], level=0.9)
    >>> gb.metrics.sharpness(band)
    3.0
    """
    return mean_over(to_numpy(band.width), rows_in(region, band))


def interval_score(band: Band, y: ArrayLike, *, region: Region | None = None) -> float:
    """Return the mean interval score, which rewards narrow bands and penalizes misses; smaller is better.

    Parameters
    ----------
    band
        The band.
    y
        Targets, shape (n, m).
    region
        Points to include: booleans of shape (n,), or a function of x that returns them. By default all points
        are included.

    Returns
    -------
    float
        The mean interval score in the units of y.

    Notes
    -----
    The score of one interval is its width plus 2 / (1 - level) times the distance of y from the interval
    (Gneiting and Raftery 2007), and that of a one-sided bound its margin plus 1 / (1 - level) times the
    distance of y beyond it. It treats each output separately, so it favors narrower bands over a joint
    band for several outputs.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.metrics.interval_score(gb.Band(None, [0.0], [-1.0], [1.0], level=0.5), [1.5])
    4.0
    """
    y, lower, upper = (to_numpy(part).astype(float) for part in (targets_of(band, y), band.lower, band.upper))
    if y.shape != lower.shape:
        raise ValueError(f"`y` should have the shape of the band, {lower.shape}, got {y.shape}.")
    below, above = (lower - y).clip(min=0), (y - upper).clip(min=0)
    width = to_numpy(band.width).astype(float)
    shares = np.array([2.0 if side == "both" else 1.0 for side in band.sides])
    return mean_over(width + shares / (1 - band.level) * (below + above), rows_in(region, band))


def relative_l2(mean: ArrayLike, truth: ArrayLike) -> float:
    """Return the relative L2 error, |mean - truth| / |truth| in the Euclidean norm.

    Parameters
    ----------
    mean
        Predicted values, shape (n, m).
    truth
        True values, shape (n, m).

    Returns
    -------
    float
        The error: 0 is perfect, and 1 is as good as predicting zero. NaN if the truth is zero everywhere.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.metrics.relative_l2([0.0, 0.0], [3.0, 4.0])
    1.0
    """
    mean, truth = (to_numpy(rows(a, name)).astype(float) for a, name in ((mean, "mean"), (truth, "truth")))
    if mean.shape != truth.shape:
        raise ValueError(f"`mean` and `truth` differ in shape: {mean.shape} and {truth.shape}.")
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(mean - truth)) / size if size > 0 else math.nan


def acd(coverages: Sequence[float], levels: Sequence[Level] = LEVELS) -> float:
    """Return the average coverage deviation (ACD), the mean of |coverage - level| over levels.

    Parameters
    ----------
    coverages
        The coverage at each level.
    levels
        The levels.

    Returns
    -------
    float
        The ACD. A perfectly valid band does not reach zero; see `acd_floor`.

    Examples
    --------
    >>> import guardband as gb
    >>> round(gb.metrics.acd([0.5, 0.8], levels=[0.6, 0.8]), 3)
    0.05
    """
    return float(np.mean([abs(c - exact(t)) for c, t in zip(coverages, levels, strict=True)]))


@dataclass(frozen=True)
class Floor:
    """The noise floor of ACD: its distribution for a perfectly valid band.

    Attributes
    ----------
    mean
        The exact mean.
    low, high
        The range that contains 95 % of cases.

    Examples
    --------
    >>> import guardband as gb
    >>> floor = gb.metrics.acd_floor(n_cal=1000, n_test=1000)
    >>> print(f"{floor.mean:.3f}, {floor.low:.3f} to {floor.high:.3f}")
    0.015, 0.006 to 0.031
    """

    mean: float
    low: float
    high: float


def acd_floor(n_cal: int, n_test: int, levels: Sequence[Level] = LEVELS) -> Floor:
    """Return the noise floor of ACD for split calibration.

    An ACD in this range is not evidence against a band, nor evidence that one band is better than another.

    Parameters
    ----------
    n_cal
        Number of calibration points.
    n_test
        Number of test points.
    levels
        The levels.

    Returns
    -------
    Floor
        The exact mean, and the range of 95 % of cases from 20 000 draws.

    Examples
    --------
    >>> import guardband as gb
    >>> floor = gb.metrics.acd_floor(n_cal=100, n_test=100)
    >>> print(f"{floor.mean:.3f}")
    0.046
    """
    for name, n in (("n_cal", n_cal), ("n_test", n_test)):
        if n < 1:
            raise ValueError(f"`{name}` should be at least 1, got {n}.")
    levels = sorted(levels, key=exact)
    threshold = SplitThreshold(np.zeros(n_cal))
    return floor_of([threshold.laws(level, n_test) for level in levels], levels)


def floor_of(laws: Sequence[Pieces], levels: Sequence[Level]) -> Floor:
    """The noise floor of ACD for bands whose coverage follows these laws, one at each level."""
    mean = np.mean([expected_deviation(law, at) for law, at in zip(laws, levels, strict=True)])
    pieces = zip(*laws, strict=True)
    sizes = [([law.k for law, _ in piece], piece[0][0].n, piece[0][1]) for piece in pieces]
    low, high = np.quantile(simulated_deviations(sizes, levels), [0.025, 0.975])
    return Floor(float(mean), float(low), float(high))


def rows_in(region: Region | None, at: Band | Prediction) -> np.ndarray | None:
    """A region as booleans (n,), or None for everywhere."""
    if region is None:
        return None
    if callable(region):
        if at.x is None:
            raise ValueError("A region that is a function needs the points x. Pass a mask instead.")
        region = region(copy(at.x))
    refuse_masked(region, "region")
    mask = to_numpy(region)
    if mask.dtype != bool or mask.reshape(-1).shape != (len(at),):
        raise ValueError(f"A region should be {len(at)} booleans, got {mask.dtype} {mask.shape}.")
    return mask.reshape(-1)


def mean_over(values: np.ndarray, mask: np.ndarray | None) -> float:
    """The mean over the rows in a mask, or over all rows; NaN if there are none."""
    values = values if mask is None else values[mask]
    return float(values.mean()) if values.size else math.nan
