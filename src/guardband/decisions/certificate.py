"""Certificates: bounds on how often the answers of a surrogate are wrong, with a stated confidence.

Thresholds of the predicted scale are tested one after the other, from the smallest one that can pass, until
one fails. Each test is an exact binomial test on the calibration runs that would be served, so the last
threshold that passes has the stated confidence (Learn then Test; Angelopoulos, Bates, Candes, Jordan and
Lei 2021). In use, audits of served queries feed a sequential test, which is valid after every audit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaincc, betaln, xlog1py, xlogy
from scipy.stats import binom

from guardband.conformal.rank import Level, exact, points_needed


@dataclass(frozen=True)
class Certificate:
    """A surrogate may answer where its scale is at most a threshold.

    Attributes
    ----------
    threshold
        The largest scale at which the surrogate answers; None if no threshold passed.
    risk
        The bound on P(error > tolerance | served).
    confidence
        The probability, over calibration runs, that the bound holds.
    n
        The number of calibration runs.
    served
        The number of calibration runs at or below the threshold.
    wrong
        How many of these have an error above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband.decisions import certify
    >>> certify(np.zeros(59), np.zeros(59, dtype=bool), [0.0])
    Certificate(threshold=0.0, risk=0.05, confidence=0.95, n=59, served=59, wrong=0)
    """

    threshold: float | None
    risk: float
    confidence: float
    n: int
    served: int = 0
    wrong: int = 0

    @property
    def share(self) -> float:
        """The share of the calibration runs that the surrogate would have answered."""
        return self.served / self.n

    @property
    def promise(self) -> str:
        """What is certified, and under which assumptions."""
        if self.threshold is None:
            return (
                f"No threshold passed with {self.n} calibration runs, so every query goes to the solver. At "
                f"least "
                f"{points_needed(1 - exact(self.risk), self.confidence)} served runs without an error above "
                f"the "
                "tolerance are needed."
            )
        return (
            f"With confidence {self.confidence:g} over calibration runs, an answer of the surrogate has an "
            f"error above "
            f"the tolerance with probability at most {self.risk:g}, provided that calibration runs and "
            f"queries are "
            "drawn independently from one distribution and that surrogate, tolerance and the tested "
            "thresholds were "
            f"fixed without the calibration runs. It would have answered {self.share:.0%} of them."
        )


def certify(
    scale: np.ndarray,
    wrong: np.ndarray,
    thresholds: Sequence[float] | np.ndarray,
    *,
    risk: Level = 0.05,
    confidence: Level = 0.95,
) -> Certificate:
    """Return the largest threshold of the scale at which the risk is certified.

    Parameters
    ----------
    scale
        The predicted scale of each calibration run, shape (n,).
    wrong
        Whether the error of each calibration run exceeds the tolerance, shape (n,).
    thresholds
        Thresholds to test, fixed without the calibration runs.
    risk
        The largest P(error > tolerance | served).
    confidence
        The probability over calibration runs that the risk is kept.

    Returns
    -------
    Certificate
        The certified threshold, or None as its threshold if no test passed.

    Notes
    -----
    Which thresholds can pass depends on the number of served runs alone, hence on the inputs; given the
    inputs, the tests form a fixed sequence, so no correction for their number is needed.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband.decisions import certify
    >>> scale = np.linspace(0, 1, 200)
    >>> certify(scale, scale > 0.8, [0.25, 0.5, 0.75, 1.0]).threshold
    0.75
    """
    bound, sure = float(exact(risk, "risk")), float(exact(confidence, "confidence"))
    passed = Certificate(None, bound, sure, len(scale))
    for threshold in np.unique(np.asarray(thresholds, dtype=float)):
        served = scale <= threshold
        count, errors = int(served.sum()), int(wrong[served].sum())
        if binom.cdf(0, count, bound) > 1 - sure:
            continue  # too few served runs: no number of errors could pass
        if binom.cdf(errors, count, bound) > 1 - sure:
            break
        passed = Certificate(float(threshold), bound, sure, len(scale), count, errors)
    return passed


@dataclass
class Audit:
    """A sequential test of the risk among served queries, valid at any time.

    Parameters
    ----------
    risk
        The certified risk.
    alarm
        The probability of a false alarm, ever, while the risk is within the certified one.

    Notes
    -----
    The evidence is a likelihood ratio of risks above the certified one, mixed by a uniform law, against the
    certified one. It is a supermartingale while the true risk is at most the certified one, so by Ville's
    inequality it exceeds 1 / alarm with probability at most `alarm`.

    Examples
    --------
    >>> from guardband.decisions import Audit
    >>> audit = Audit(risk=0.05, alarm=0.01)
    >>> [audit.update(wrong=True) for _ in range(4)]
    [False, True, True, True]
    """

    risk: float
    alarm: float = 0.01
    audits: int = field(default=0, init=False)
    wrong: int = field(default=0, init=False)
    alarmed: bool = field(default=False, init=False)

    def update(self, wrong: bool) -> bool:
        """Count one audit and return whether the alarm has been raised.

        Parameters
        ----------
        wrong
            Whether the error of the audited answer exceeds the tolerance.

        Returns
        -------
        bool
            Whether the evidence has ever exceeded 1 / alarm.
        """
        self.audits += 1
        self.wrong += bool(wrong)
        self.alarmed = self.alarmed or self.log_evidence >= -math.log(self.alarm)
        return self.alarmed

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence that the risk is exceeded."""
        right = self.audits - self.wrong
        with np.errstate(divide="ignore"):  # after very many right answers there is no evidence at all
            above = np.log(betaincc(self.wrong + 1, right + 1, self.risk))
        mixed = betaln(self.wrong + 1, right + 1) + above
        at_risk = xlogy(self.wrong, self.risk) + xlog1py(right, -self.risk)
        return float(mixed - np.log1p(-self.risk) - at_risk)
