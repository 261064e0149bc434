"""Decisions: accept, reject or leave open each query against a tolerance limit.

The acceptance limit lies inside the tolerance limit by a guard band, the distance from the prediction to its
one-sided bound. The terms are those of JCGM 106 (tolerance limit, acceptance limit, guard band, consumer's
and producer's risk); "conditional" comes from ILAC-G8, for results inside a guard band.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.base.arrays import ArrayLike, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Side
from guardband.decisions.limits import Limit, ToleranceLimits
from guardband.decisions.safety import outputs_of, predicted
from guardband.values import Band, Prediction

if TYPE_CHECKING:
    import pandas

ACCEPT, CONDITIONAL, REJECT = "accept", "conditional", "reject"
OPPOSITE: dict[Side, Side] = {"upper": "lower", "lower": "upper", "both": "both"}


@dataclass(frozen=True, eq=False)
class Decisions:
    """A decision for each query, from `decide`.

    Attributes
    ----------
    decision
        "accept", "conditional" or "reject", shape (n,).
    limits
        The tolerance limits.
    accepting
        The bounds that have to meet the limits for acceptance, a `Band` with infinite other ends.
    rejecting
        The bounds that have to lie beyond a limit for rejection.
    level
        The level of each of the two bounds.
    about
        Whether a new "measurement" or the noise-free "truth" is decided on.
    assumption
        What the bounds assume, in words.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 101)
    >>> calibrated = gb.calibrate(lambda x: x, x, x + 0.05 * np.sin(99 * x))
    >>> gb.decide(calibrated, [0.2, 0.5, 0.8], limit=0.5).counts
    {'accept': 1, 'conditional': 1, 'reject': 1}
    """

    decision: np.ndarray
    limits: ToleranceLimits
    accepting: Band
    rejecting: Band
    level: float
    about: str
    assumption: str

    def __len__(self) -> int:
        return len(self.decision)

    @property
    def counts(self) -> dict[str, int]:
        """The number of queries of each decision."""
        found = Counter(self.decision.tolist())
        return {word: found[word] for word in (ACCEPT, CONDITIONAL, REJECT)}

    @property
    def guard_band(self) -> np.ndarray:
        """The distance between tolerance and acceptance limit, shape (n, m); the smaller one of two sides."""
        mean = to_numpy(self.accepting.mean).astype(float)
        above, below = to_numpy(self.accepting.upper) - mean, mean - to_numpy(self.accepting.lower)
        return np.fmin(
            np.where(np.isfinite(self.limits.upper), above, np.inf),
            np.where(np.isfinite(self.limits.lower), below, np.inf),
        )

    @property
    def acceptance_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper acceptance limits for the prediction, each of shape (n, m)."""
        mean = to_numpy(self.accepting.mean).astype(float)
        below, above = mean - to_numpy(self.accepting.lower), to_numpy(self.accepting.upper) - mean
        low, high = self.limits.lower, self.limits.upper
        return low + np.where(np.isfinite(low), below, 0.0), high - np.where(np.isfinite(high), above, 0.0)

    @property
    def risk(self) -> str:
        """The bound on each wrong decision, and what it assumes."""
        missed = f"{float(1 - exact(self.level)):.12g}"
        thing = "the noise-free truth" if self.about == "truth" else "a reading"
        return (
            f"For one query, the probability that it is accepted although {thing} violates {self.limits} is "
            f"at most "
            f"{missed} (global consumer's risk), and the probability that it is rejected although {thing} "
            f"conforms "
            f"is at most {missed} (global producer's risk). Among accepted queries the share of violations "
            f"may be "
            f"larger; `gb.screen` bounds that share. {self.assumption}"
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table of the decisions.

        Returns
        -------
        pandas.DataFrame
            One row per query: the decision, and per limited output the prediction and its bounds.
        """
        import pandas

        return pandas.DataFrame(self.columns())

    def columns(self) -> dict[str, Any]:
        """Return the columns of the table by name.

        Returns
        -------
        dict
            The decision, and per limited output the prediction, its bounds and its acceptance limits.
        """
        table: dict[str, Any] = {"decision": self.decision}
        low, high = self.acceptance_limits
        for j in np.flatnonzero(self.limits.limited):
            name = self.limits.outputs[j]
            table[f"{name} predicted"] = to_numpy(self.accepting.mean)[:, j]
            table[f"{name} lower bound"] = _finite_of(self.accepting.lower, self.rejecting.lower)[:, j]
            table[f"{name} upper bound"] = _finite_of(self.accepting.upper, self.rejecting.upper)[:, j]
            for end, values, limit in (("lower", low, self.limits.lower), ("upper", high, self.limits.upper)):
                if np.isfinite(limit[..., j]).any():
                    table[f"{name} {end} acceptance limit"] = values[:, j]
        return table

    def __repr__(self) -> str:
        counted = ", ".join(f"{count} {word}" for word, count in self.counts.items())
        return f"Decisions({counted}; {self.limits}, level={self.level:g})"


def decide(
    calibrated: Calibrated,
    x: ArrayLike | Prediction,
    limit: Limit,
    *,
    side: Side = "upper",
    level: Level = 0.95,
) -> Decisions:
    """Accept, reject or leave open each query against a tolerance limit.

    Parameters
    ----------
    calibrated
        A calibration from `gb.calibrate`. If it keeps its calibration points, each decision uses a
        one-sided bound at the full level; otherwise it uses the ends of the two-sided band.
    x
        Queries, shape (n, d), or a prediction at them.
    limit
        The tolerance limit: a number, one per output, one row per query, or strings such as "p_drop <=
        120" and "280 <= T <= 360". With several limits, a query is accepted if all are met.
    side
        "upper" if a number `limit` is the largest admissible value, "lower" if it is the smallest.
    level
        The level of the bounds; 1 - level is the largest probability of each wrong decision.

    Returns
    -------
    Decisions
        "accept" where the bound toward each limit meets it, "reject" where the bound away from a limit
        lies beyond it, and "conditional" otherwise.

    Notes
    -----
    Acceptance compares the prediction with the acceptance limit, which lies inside the tolerance limit by
    the guard band w(x) = bound(x) - prediction(x) (JCGM 106, clause 8.3). P(accepted and beyond the limit)
    is at most P(y beyond its bound) <= 1 - level, whatever the limit is, as long as it was set without
    knowledge of y. This is a statement about one query; it does not bound the share of violations among the
    accepted ones.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> x = draw.uniform(size=(200, 1))
    >>> calibrated = gb.calibrate(lambda x: x, x, x + 0.05 * draw.normal(size=x.shape))
    >>> decisions = gb.decide(calibrated, [[0.3], [0.48], [0.7]], limit=0.5)
    >>> decisions.decision.tolist()
    ['accept', 'conditional', 'reject']
    """
    limits = ToleranceLimits.of(limit, side, outputs_of(calibrated))
    prediction = predicted(calibrated, x)
    if limits.lower.ndim > 1 and len(limits.lower) != len(prediction):
        raise ValueError(f"There are limits for {len(limits.lower)} queries, and {len(prediction)} queries.")
    sides = limits.sides
    accepting = _bounds(calibrated, prediction, sides, level)
    rejecting = _bounds(calibrated, prediction, tuple(OPPOSITE.get(one, one) for one in sides), level)
    lower, upper = to_numpy(accepting.lower), to_numpy(accepting.upper)
    accepted = ((lower >= limits.lower) & (upper <= limits.upper)).all(axis=-1)
    lower, upper = to_numpy(rejecting.lower), to_numpy(rejecting.upper)
    rejected = ((upper < limits.lower) | (lower > limits.upper)).any(axis=-1) & ~accepted
    decision = np.where(accepted, ACCEPT, np.where(rejected, REJECT, CONDITIONAL))
    return Decisions(
        decision,
        limits,
        accepting.numpy(),
        rejecting.numpy(),
        float(exact(level)),
        calibrated.about,
        calibrated.promise,
    )


def _bounds(calibrated: Calibrated, prediction: Prediction, sides: tuple[Side, ...], level: Level) -> Band:
    """The one-sided bounds of a calibration that keeps its points, else the ends of its two-sided band."""
    one_sided = calibrated.one_sided(sides)
    band = (one_sided or calibrated).band(prediction, level)
    if not isinstance(band, Band) or not calibrated.is_box or not calibrated.joint:
        raise TypeError(
            "A decision compares the ends of an interval with a limit, for all outputs at once. Use a score "
            "whose "
            "sets are intervals, such as gb.Scaled(), with joint=True."
        )
    return band


def _finite_of(one: ArrayLike, other: ArrayLike) -> np.ndarray:
    """The ends of one band, and those of the other where they are infinite."""
    ends = to_numpy(one)
    return np.where(np.isfinite(ends), ends, to_numpy(other))
