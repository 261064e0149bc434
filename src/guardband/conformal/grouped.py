"""`Grouped`: a separate threshold for each group, so that every sensor or regime is covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.base.limits import listed
from guardband.conformal.base import Calibrator, Pieces, Size, Threshold, Traits
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.rank import (
    INFINITE_SCORES,
    Level,
    checked_scores,
    kth,
    points_needed,
    rank_for,
    warn_infinite,
)
from guardband.conformal.split import level_text
from guardband.values import Prediction


@kept
@dataclass(frozen=True)
class Grouped(Calibrator):
    """Split conformal prediction within each group: coverage of at least `level` in every group.

    Group labels are passed at calibration, `calibrate(..., groups=labels)`, and at prediction,
    `calibrated(x, level, groups=labels)`, since a label such as the name of a sensor is not a function of x.

    Notes
    -----
    Readings within a group must be exchangeable with new readings of the same group. Each group needs its own
    calibration points, 19 for 95 %; a smaller group gets an infinite band and a warning. For readings of new
    sensors use `Clustered()`. This method is Mondrian conformal prediction (Vovk, Gammerman and Shafer 2005).

    Examples
    --------
    >>> import guardband as gb
    >>> y, sensors = [1.0] * 9 + [5.0] * 9, ["a"] * 9 + ["b"] * 9
    >>> calibrated = gb.calibrate_arrays(
    ...     [0.0] * 18, y, calibrator=gb.Grouped(), groups=sensors
    ... )
    >>> band = calibrated.band(
    ...     gb.Prediction(None, [0.0, 0.0]), level=0.9, groups=["a", "b"]
    ... )
    >>> band.upper.ravel().round(6)
    array([1., 5.])
    """

    whole_groups: ClassVar[bool] = False

    @property
    def promise(self) -> str:
        """The guarantee in every group."""
        return (
            "If within each group the calibration points and a new point are exchangeable, a new measurement "
            "of that group lies in the band with probability at least the level, in every group."
        )

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> GroupedThreshold:
        """Sort the scores of each group."""
        if groups is None:
            raise ValueError("Grouped() needs `groups=`, one label per calibration point.")
        names, which, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        order = np.argsort(which, kind="stable")
        parts = np.split(checked_scores(scores)[order], np.cumsum(sizes)[:-1])
        return GroupedThreshold(names, tuple(np.sort(part) for part in parts), confidence)


@dataclass(frozen=True, eq=False)
class GroupedThreshold(Threshold):
    """The names of the groups in ascending order, and the sorted scores of each group."""

    names: np.ndarray
    scores: tuple[np.ndarray, ...]
    confidence: Level | None = None
    traits: ClassVar[Traits] = Traits(needs_groups=True)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> np.ndarray:
        """Return the threshold of the group of each row, (n,)."""
        q = np.full(len(self.names), np.nan)
        present, which = self._members(groups)
        small = []
        for i in present:
            k = rank_for(len(self.scores[i]), level, self.confidence)
            q[i] = kth(self.scores[i], k)
            if k > len(self.scores[i]):
                small.append(f"{self.names[i]} ({len(self.scores[i])})")
        if small:
            warn_infinite(
                f"{level_text(level, self.confidence)} needs {points_needed(level, self.confidence)} "
                f"calibration points in each group; too few in {listed(small, most=8)}."
            )
        elif np.isinf(q[present]).any():
            warn_infinite(INFINITE_SCORES)
        return q[which]

    def size(self, level: Level) -> Size:
        """Return the number of points in the smallest group, which limits the available levels."""
        what = "calibration points in the smallest group"
        return Size(min(map(len, self.scores)), points_needed(level, self.confidence), what)

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces:
        """Return one piece per group that occurs: BetaBinomial with its own k, n and number of points."""
        present, which = self._members(groups)
        pieces = []
        for i in present:
            n = len(self.scores[i])
            law = CoverageLaw(rank_for(n, level, self.confidence), n)
            pieces.append((law, int((which == i).sum())))
        return pieces

    def _members(self, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the groups that occur, and the index of the group of each row."""
        if groups is None:
            raise ValueError(
                "This model was calibrated with Grouped(). Pass `groups=`, one label per row of x."
            )
        same_kind = (groups.dtype.kind == "U") == (self.names.dtype.kind == "U")
        known = np.isin(groups, self.names) & same_kind  # the string "1" is not the number 1
        if not known.all():
            raise ValueError(
                f"Group {groups[~known][0].item()!r} was not in the calibration data, whose groups are "
                f"{listed([repr(name) for name in self.names.tolist()], most=8)}. For new sensors or "
                "regimes use Clustered()."
            )
        which = np.searchsorted(self.names, groups)
        return np.unique(which), which
