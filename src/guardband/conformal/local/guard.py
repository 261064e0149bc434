"""The guard: residuals of a network that has learned its training noise say nothing about where it errs."""

from __future__ import annotations

import warnings

import numpy as np

OVERFITTED, CHANCE = 0.7, 0.01
"""Training residuals below this share of fresh ones say that the network has learned its noise.

Unless they are so by chance, which a rank test must call less likely than this.
"""


class OverfittedWarning(UserWarning):
    """The network's training residuals are too small to learn a shape from.

    >>> import warnings
    >>> import numpy as np
    >>> import guardband as gb
    >>> x, model = np.arange(40.0), np.sin
    >>> local = gb.Local(
    ...     gb.Observations(x, np.sin(x)), held_out=gb.Observations(x + 0.1, np.cos(x))
    ... )
    >>> with warnings.catch_warnings(
    ...     action="ignore", category=gb.conformal.OverfittedWarning
    ... ):
    ...     calibrated = gb.calibrate(model, x + 0.2, np.cos(x), calibrator=local)
    >>> calibrated.learned
    LocalShape(Flat())
    """


def overfitted(scores: np.ndarray, fresh: np.ndarray) -> bool:
    """Whether training scores are below their share of fresh ones, and not by chance; with a warning."""
    if np.median(scores) >= OVERFITTED * np.median(fresh):
        return False
    from scipy.stats import mannwhitneyu

    if mannwhitneyu(scores, fresh, alternative="less").pvalue >= CHANCE:
        return False
    ratio = np.median(scores) / np.median(fresh)
    warnings.warn(
        f"The network has overfitted: its residuals at training points are {ratio:.2f} of those at "
        "points it never saw, so they say little about where it errs. Plain conformal prediction is "
        "used instead. Train with more regularization, or on more data.",
        OverfittedWarning,
        stacklevel=5,
    )
    return True
