"""Scores of ensembles and quantiles, each with its standard error over rows.

Draws have shape (k, n, m): the predictions of k members, or sets of weights, at n rows of m outputs, as
returned by `predictor.outputs(x)`. Standard errors assume independent rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.base.arrays import ArrayLike, finite, floats, rows, to_numpy
from guardband.values import Band
from guardband.values.bands import targets_of


@dataclass(frozen=True)
class Average:
    """A mean over rows with its standard error.

    Attributes
    ----------
    mean
        The mean.
    standard_error
        Its standard error, for independent rows; NaN for a single row.
    n
        Number of rows.

    Examples
    --------
    >>> import guardband as gb
    >>> print(gb.metrics.Average(0.25, 0.0123, n=100))
    0.25 +- 0.012 (100 rows)
    """

    mean: float
    standard_error: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.4g} +- {self.standard_error:.2g} ({self.n} rows)"


@dataclass(frozen=True, eq=False)
class Histogram:
    """A histogram of PIT values, which is flat for a calibrated ensemble.

    Attributes
    ----------
    values
        The PIT values, between 0 and 1.
    bins
        Number of bins.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> found = gb.metrics.Histogram(np.array([0.05, 0.15, 0.18, 0.95]))
    >>> found.counts
    array([1, 2, 0, 0, 0, 0, 0, 0, 0, 1])
    """

    values: np.ndarray
    bins: int = 10

    @property
    def counts(self) -> np.ndarray:
        """Number of values in each bin."""
        return np.histogram(self.values, bins=self.bins, range=(0, 1))[0]

    @property
    def p(self) -> float:
        """P-value of a chi-squared test of equal counts, for independent rows of one output."""
        from scipy.stats import chisquare

        return float(chisquare(self.counts).pvalue)


def crps(draws: ArrayLike, y: ArrayLike, *, fair: bool = False) -> Average:
    """Return the continuous ranked probability score (CRPS) of an ensemble; smaller is better.

    Parameters
    ----------
    draws
        Predictions of the members, shape (k, n, m).
    y
        Targets, shape (n, m).
    fair
        Whether to average over pairs of different members, which is unbiased for the distribution from which
        the members of a small ensemble were drawn.

    Returns
    -------
    Average
        The mean score in the units of y.

    Notes
    -----
    The score is E |X - y| - E |X - X'| / 2, averaged over outputs (Gneiting and Raftery 2007; Ferro 2014 for
    the fair version). For one member it is the absolute error.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> print(gb.metrics.crps(np.array([[[0.0], [0.0]], [[1.0], [1.0]]]), [0.0, 2.0]))
    0.75 +- 0.5 (2 rows)
    """
    draws, y = _pair(draws, y)
    k = len(draws)
    if fair and k < 2:
        raise ValueError("A fair score needs at least two draws, got one.")
    error = abs(draws - y).mean(axis=0)
    weights = (2 * np.arange(1, k + 1) - k - 1).reshape(-1, *[1] * (draws.ndim - 1))
    spread = (weights * np.sort(draws, axis=0)).sum(axis=0) / (k * (k - 1) if fair else k**2)
    return _average(error - spread)


def energy_score(draws: ArrayLike, y: ArrayLike) -> Average:
    """Return the energy score of an ensemble, the CRPS for vectors; smaller is better.

    Parameters
    ----------
    draws
        Predictions of the members, shape (k, n, m).
    y
        Targets, shape (n, m). Scale outputs with different units to a common unit first.

    Returns
    -------
    Average
        The mean score.

    Notes
    -----
    The score is E |X - y| - E |X - X'| / 2 in the Euclidean norm over all outputs of a row. Memory grows with
    rows times outputs, and time with the square of the number of draws.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> print(gb.metrics.energy_score(np.zeros((5, 2, 2)), [[3.0, 4.0], [0.0, 0.0]]))
    2.5 +- 2.5 (2 rows)
    """
    draws, y = _pair(draws, y)
    draws, y = draws.reshape(*draws.shape[:2], -1), y.reshape(len(y), -1)
    error = np.linalg.norm(draws - y, axis=-1).mean(axis=0)
    pairs = sum(np.linalg.norm(draws - one, axis=-1).sum(axis=0) for one in draws)
    return _average(error - pairs / (2 * len(draws) ** 2))


def pit(draws: ArrayLike, y: ArrayLike, *, seed: int = 0) -> Histogram:
    """Return the probability integral transform (PIT) of an ensemble: the rank of y among the draws.

    Parameters
    ----------
    draws
        Predictions of the members, shape (k, n, m).
    y
        Targets, shape (n, m).
    seed
        Seed for breaking ties at random.

    Returns
    -------
    Histogram
        The PIT values, uniform if y has the distribution of the draws. A U shape shows an overconfident
        ensemble, and a hump an underconfident one.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> sure = gb.metrics.pit(0.3 * draw(size=(50, 1000, 1)), draw(size=1000))
    >>> sure.counts[[0, 5, 9]], sure.p < 1e-6
    (array([366,  17, 340]), True)
    """
    draws, y = _pair(draws, y)
    below, ties = (draws < y).sum(axis=0), (draws == y).sum(axis=0)
    shift = np.random.default_rng(seed).uniform(size=below.shape) * (ties + 1)
    return Histogram((below + shift) / (len(draws) + 1))


def quantile_loss(quantiles: Band | ArrayLike, y: ArrayLike, at: float | None = None) -> Average:
    """Return the mean pinball loss of quantiles; smaller is better.

    Parameters
    ----------
    quantiles
        Predicted quantiles, shape (n, m), or a band, whose ends count as the quantiles at (1 - level)/2 and
        (1 + level)/2.
    y
        Targets, shape (n, m).
    at
        The probability of the quantiles; omit it for a band.

    Returns
    -------
    Average
        The mean loss. For a band it is the mean over both ends, which is (1 - level)/4 times the interval
        score.

    Examples
    --------
    >>> import guardband as gb
    >>> print(gb.metrics.quantile_loss([0.0, 0.0], [1.0, -1.0], at=0.9))
    0.5 +- 0.4 (2 rows)
    """
    if isinstance(quantiles, Band):
        if at is not None:
            raise ValueError("A band has its own level; use `at` only for quantiles in an array.")
        low, high = (1 - quantiles.level) / 2, (1 + quantiles.level) / 2
        parts = [(quantiles.lower, low), (quantiles.upper, high)]
    elif at is None or not 0 < at < 1:
        raise ValueError(f"`at` should be the probability of the quantiles, between 0 and 1, got {at!r}.")
    else:
        parts = [(quantiles, at)]
    y = targets_of(quantiles, y) if isinstance(quantiles, Band) else rows(y, "y")
    y = to_numpy(finite(y, "y")).astype(float)
    losses = []
    for ends, p in parts:
        ends = to_numpy(rows(ends, "quantiles")).astype(float)
        if ends.shape != y.shape:
            raise ValueError(f"`y` should have the shape of the quantiles, {ends.shape}, got {y.shape}.")
        losses.append(np.maximum(p * (y - ends), (p - 1) * (y - ends)))
    return _average(np.mean(losses, axis=0))


def _pair(draws: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Validated draws (k, n, ...) and targets (n, ...); draws (k, n) are of one output."""
    draws = to_numpy(finite(floats(draws, "draws"), "draws")).astype(float)
    y = to_numpy(finite(rows(y, "y"), "y")).astype(float)
    draws = draws[..., None] if draws.ndim == 2 else draws
    if draws.ndim < 3 or draws.shape[1:] != y.shape or not draws.size:
        raise ValueError(
            f"`draws` should have shape (k, {', '.join(map(str, y.shape))}) for y of shape {y.shape}, got "
            f"{draws.shape}."
        )
    return draws, y


def _average(values: np.ndarray) -> Average:
    """The mean over rows and its standard error; outputs of a row are averaged first."""
    each = values.reshape(len(values), -1).mean(axis=1)
    error = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else float("nan")
    return Average(float(each.mean()), error, len(each))
