"""Detection of overfitting, which makes training residuals useless for learning a local shape."""

from __future__ import annotations

import warnings

import numpy as np

OVERFITTED, CHANCE = 0.7, 0.01
"""Overfitting: the median training score is below this share of the median held-out score, and the one-sided
Mann-Whitney test has a p-value below CHANCE.
"""


class OverfittedWarning(UserWarning):
    """The training residuals of the model are too small to learn a local shape from.

    Examples
    --------
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
    """Whether training scores are significantly smaller than held-out scores; warns if they are."""
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
