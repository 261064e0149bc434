"""Screening: which of many designs meet a limit, with a bound on the expected share of wrong ones.

A band promises coverage for one query and nothing about the queries that are selected because their band
looks good. Conformal selection bounds the expected share of wrong ones among these: a design gets a p-value
from the calibration runs that violate the limit although they look at least as safe, and the
Benjamini-Hochberg procedure selects designs by their p-values. (Jin and Candes 2023)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from guardband.base.arrays import ArrayLike, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Side
from guardband.decisions.limits import Limit, ToleranceLimits
from guardband.decisions.safety import outputs_of, predicted, safety
from guardband.values import Prediction

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Selection:
    """The designs that `screen` selects.

    Attributes
    ----------
    selected
        Which designs are selected, shape (n,) booleans.
    p
        The conformal p-value of each design, shape (n,).
    safety
        The predicted distance to the nearest limit in units of the score, shape (n,).
    fdr
        The bound on the expected share of designs beyond a limit among the selected.
    limits
        The limits that the designs were screened against.
    n
        The number of calibration runs.
    weighted
        Whether designs and calibration runs were reweighted by a density ratio.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 101)
    >>> calibrated = gb.calibrate(lambda x: x, x, x + 0.05 * np.sin(99 * x))
    >>> selection = gb.screen(calibrated, [0.2, 0.1, 0.8], limit=0.5, fdr=0.1)
    >>> selection.indices
    array([1, 0])
    """

    selected: np.ndarray
    p: np.ndarray
    safety: np.ndarray
    fdr: float
    limits: ToleranceLimits
    n: int
    weighted: bool = False

    def __len__(self) -> int:
        return len(self.selected)

    @property
    def indices(self) -> np.ndarray:
        """The rows of the selected designs, the safest first."""
        chosen = np.flatnonzero(self.selected)
        return chosen[np.argsort(-self.safety[chosen], kind="stable")]

    @property
    def promise(self) -> str:
        """What is guaranteed, and under which assumptions."""
        drawn = (
            "designs and calibration runs are drawn independently, the law of the result given the inputs "
            "is the "
            "same for both, and `ratio` is the true density ratio up to a constant factor"
            if self.weighted
            else "designs and calibration runs are exchangeable, which the proposals of an optimizer are not"
        )
        return (
            f"On average over calibration runs and designs, at most {self.fdr:g} of the selected designs "
            f"violate "
            f"{self.limits}, provided that {drawn}, and that limits, model and score were fixed without the "
            "calibration runs. The share in one selection varies around this average."
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table of the designs.

        Returns
        -------
        pandas.DataFrame
            One row per design with the columns selected, p and safety.
        """
        import pandas

        return pandas.DataFrame({"selected": self.selected, "p": self.p, "safety": self.safety})

    def __repr__(self) -> str:
        return f"Selection({int(self.selected.sum())} of {len(self)} designs, fdr={self.fdr:g})"


def screen(
    calibrated: Calibrated,
    designs: ArrayLike | Prediction,
    limit: Limit,
    *,
    side: Side = "upper",
    fdr: Level = 0.1,
) -> Selection:
    """Select the designs that meet a limit, at a bounded false discovery rate.

    Parameters
    ----------
    calibrated
        A calibration that keeps its runs, from `gb.calibrate`. With `calibrator=gb.Weighted(ratio)` the
        designs may be drawn from another distribution than the calibration runs.
    designs
        Inputs of the designs, shape (n, d), or a prediction at them.
    limit
        The limit: a number, one per output, or strings such as "p_drop <= 120". With several limits a
        design has to meet all of them.
    side
        "upper" if `limit` is a largest admissible number, "lower" if it is a smallest one.
    fdr
        The largest expected share of designs beyond a limit among the selected.

    Returns
    -------
    Selection
        The selected designs with their p-values.

    Notes
    -----
    The p-value of a design is (1 + k) / (n + 1), where k counts the calibration runs that violate the limit
    and look at least as safe; designs are selected by the Benjamini-Hochberg procedure. With weights,
    p-values weigh runs by the density ratio and the selection is pruned as in Jin and Candes (2023b),
    because Benjamini-Hochberg on weighted p-values alone is not proved.

    The limit has to be fixed beforehand. The guarantee is about the average share; it is not a statement
    about each selected design.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> x = draw.uniform(size=(200, 1))
    >>> y = x + 0.05 * draw.normal(size=x.shape)
    >>> calibrated = gb.calibrate(lambda x: x, x, y)
    >>> designs = draw.uniform(size=(1000, 1))
    >>> gb.screen(calibrated, designs, limit=0.5, fdr=0.1)
    Selection(548 of 1000 designs, fdr=0.1)
    """
    bound = exact(fdr, "fdr")
    limits = ToleranceLimits.of(limit, side, outputs_of(calibrated))
    runs, y = calibrated.prediction, calibrated.y
    if runs is None or y is None or len(y) == 0:
        raise ValueError(
            "Screening compares designs with the calibration runs, and this calibration kept none."
        )
    if calibrated.covers_new_groups or calibrated.about != "measurement":
        raise ValueError(
            "Screening compares single designs with single calibration runs by their readings. It does "
            "not apply to groups of dependent runs or to bands about the truth."
        )
    if limits.lower.ndim > 1:
        raise ValueError("Screening needs limits that are the same for all designs, fixed beforehand.")
    at_designs = predicted(calibrated, designs)
    known, asked = safety(calibrated, runs, limits), safety(calibrated, at_designs, limits)
    violating = ~limits.met_by(to_numpy(y).astype(float).reshape(len(y), -1))
    weights = calibrated.shift_weights(runs), calibrated.shift_weights(at_designs)
    if weights[0] is None or weights[1] is None:
        p = p_values(known[violating], asked, len(y))
        return Selection(benjamini_hochberg(p, bound), p, asked, float(bound), limits, len(y))
    selected, p = weighted_selection(known, violating, weights[0], asked, weights[1], bound)
    return Selection(selected, p, asked, float(bound), limits, len(y), weighted=True)


def p_values(violating: np.ndarray, asked: np.ndarray, n: int) -> np.ndarray:
    """Return (1 + number of violating runs at least as safe) / (n + 1) for each design."""
    below = np.searchsorted(np.sort(violating), asked, side="left")
    return (1 + len(violating) - below) / (n + 1)


def benjamini_hochberg(p: np.ndarray, fdr: Fraction) -> np.ndarray:
    """Which hypotheses the Benjamini-Hochberg procedure rejects at level `fdr`."""
    order = np.argsort(p, kind="stable")
    # In floating point k fdr / m may round to below a p-value that equals it.
    allowed = np.arange(1, len(p) + 1) * float(fdr) / max(1, len(p)) * (1 + 1e-12)
    passing = np.flatnonzero(p[order] <= allowed)
    rejected = np.zeros(len(p), dtype=bool)
    if len(passing):
        rejected[order[: passing[-1] + 1]] = True
    return rejected


def weighted_selection(
    known: np.ndarray,
    violating: np.ndarray,
    weights: np.ndarray,
    asked: np.ndarray,
    own: np.ndarray,
    fdr: Fraction,
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted conformal selection with deterministic pruning: the selected designs and their p-values.

    For design j, the auxiliary p-value of design l is (A_l + w_j 1{j looks safer than l}) / (W + w_j),
    where A_l is the weight of the violating runs that look at least as safe as l and W that of all runs.
    R_j is the number of rejections of Benjamini-Hochberg on these with that of j set to 0.
    """
    m, bound, total = len(asked), float(fdr) * (1 + 1e-12), weights.sum()
    order = np.argsort(known[violating], kind="stable")
    ascending = known[violating][order]
    above = np.append(np.cumsum(weights[violating][order][::-1])[::-1], 0.0)
    weight_above = above[np.searchsorted(ascending, asked, side="left")]
    p = (weight_above + own) / np.where(total + own > 0, total + own, 1.0)
    p[total + own <= 0] = 1.0
    candidates = np.flatnonzero(p <= bound)  # R_j is at most m, so no other design can be selected
    counts = np.zeros(m, dtype=int)
    allowed = np.arange(1, m + 1) * bound / m
    for j in candidates:
        auxiliary = (weight_above + own[j] * (asked[j] >= asked)) / (total + own[j])
        auxiliary[j] = 0.0
        passing = np.flatnonzero(np.sort(auxiliary) <= allowed)
        counts[j] = passing[-1] + 1
    first = candidates[p[candidates] <= bound * counts[candidates] / m]
    sizes = np.sort(counts[first])
    largest = next((r for r in range(len(first), 0, -1) if np.searchsorted(sizes, r, side="right") >= r), 0)
    selected = np.zeros(m, dtype=bool)
    selected[first[counts[first] <= largest]] = True
    return selected, p
