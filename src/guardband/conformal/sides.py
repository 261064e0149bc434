"""One-sided bounds on how far y lies above or below the prediction.

The two-sided score of a box is the larger of two signed excesses, one at each end. A bound on one side uses
the excess at that end alone, which may be negative, so one exact rank gives the bound and no
miscoverage is spent on the other side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from guardband.base.arrays import Array, copy, flat, namespace
from guardband.base.kept import kept
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Score, Side
from guardband.values import Band, Observations, Prediction
from guardband.values.grids import FieldGrid

SIDES = ("upper", "lower", "both", "none")


@kept
@dataclass(frozen=True, repr=False)
class OneSided(Score):
    """A score that counts errors in one direction: the set is a bound from above or from below.

    Parameters
    ----------
    score
        A score whose sets are boxes, such as `Scaled()`, `CQR()` or `Simultaneous()`.
    side
        "upper" for bounds from above, "lower" for bounds from below, or one of "upper", "lower", "both" and
        "none" for each output.

    Notes
    -----
    With `side="upper"` the score of an output is (y - mean) / unit for scores with a unit and y - upper for
    `CQR`; with several outputs, or the nodes of a field, it is the largest of them, so all lie below their
    bounds at once. The law is that of the calibrator, as for intervals. With `confidence`, the bound is a
    one-sided tolerance bound. For 95 % coverage with 95 % confidence, at least 59 calibration runs are
    needed; with exactly 59, the bound is the prediction plus the largest error (Wilks' formula).

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> y = np.arange(-9.0, 10.0)
    >>> calibrated = gb.calibrate_arrays(
    ...     0 * y, y, score=gb.conformal.OneSided(gb.Scaled(), "upper")
    ... )
    >>> band = calibrated.band(gb.Prediction(None, [100.0]), level=0.9)
    >>> float(band.lower[0, 0]), float(band.upper[0, 0].round(6))
    (-inf, 108.0)
    """

    score: Score
    side: Side | tuple[Side, ...] = "upper"

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score) or isinstance(self.score, OneSided) or not self.score.is_box:
            raise TypeError(
                f"A bound on one side needs a score whose sets are intervals, such as Scaled(), got "
                f"{self.score!r}."
            )
        sides = (self.side,) if isinstance(self.side, str) else tuple(self.side)
        if not sides or not set(sides) <= set(SIDES):
            raise ValueError(
                f"`side` should be one of {', '.join(SIDES)}, or one per output, got {self.side!r}."
            )
        if not isinstance(self.side, str):
            object.__setattr__(self, "side", sides)

    def __repr__(self) -> str:
        return f"OneSided({self.score!r}, {self.side!r})"

    @property
    def joint(self) -> bool:  # type: ignore[override]
        """Whether one score covers all outputs of a row."""
        return self.score.joint

    @property
    def grid(self) -> FieldGrid | None:  # type: ignore[override]
        """The named axes of whole fields."""
        return self.score.grid

    def on(self, grid: FieldGrid) -> Self:
        """The same score for fields on this grid."""
        return type(self)(self.score.on(grid), self.side)

    @property
    def is_box(self) -> bool:
        """Its sets are half-lines, which are boxes."""
        return True

    @property
    def is_elementwise(self) -> bool:
        """As the score of both sides."""
        return self.score.is_elementwise

    @property
    def two_sided(self) -> Score:
        """The score of both sides, from which shapes are learned."""
        return self.score

    @property
    def plain(self) -> Score:
        """Constant margin, on the same side."""
        return type(self)(self.score.plain, self.side)

    @property
    def scope(self) -> str:
        """The direction of the bound, in words."""
        if isinstance(self.side, str) and self.side != "both":
            words = {"upper": "above", "lower": "below"}[self.side]
            bound = (
                f"The bound is one-sided: it holds from {words}, and nothing is promised on the other side."
            )
        else:
            bound = f"The bounds are on these sides, by output: {', '.join(self._sides(len(self.side)))}."
        return f"{bound} {self.score.scope}".rstrip()

    def __call__(self, prediction: Prediction, y: Array) -> Array:
        """Return the scores (n,) of targets y (n, m), or (n, m) if they are not joint."""
        below, above = self.score.excesses(prediction, y)
        sides, xp = self._sides(prediction.mean.shape[-1]), namespace(above)
        found = {"upper": above, "lower": below, "both": xp.maximum(below, above)}
        excess = xp.stack([found[side][..., j] for j, side in enumerate(sides) if side != "none"], -1)
        scores = flat(excess)
        if not self.joint:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else xp.amax(scores, -1)

    def band(self, prediction: Prediction, q: float | Array, level: float) -> Band:
        """Return the bounds at threshold q; the other end is infinite."""
        band = self.score.band(prediction, q, level)
        return self._open(band)

    def learn(self, training_data: Observations | None, prediction: Prediction) -> Self:
        """The same with units learned from the training data."""
        return type(self)(self.score.learn(training_data, prediction), self.side)

    def caution(self, prediction: Prediction, y: Array) -> str | None:
        """A warning about the score of both sides."""
        return self.score.caution(prediction, y)

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """The Gaussian bound on the same side before calibration; None without a scale."""
        one = isinstance(self.side, str) and self.side != "both" and exact(level) > Fraction(1, 2)
        band = self.score.before(prediction, 2 * exact(level) - 1 if one else level)
        return None if band is None else replace(self._open(band), level=float(exact(level)))

    def _open(self, band: Band) -> Band:
        """The band, infinite on the sides that have no bound."""
        lower, upper = copy(band.lower), copy(band.upper)
        for j, side in enumerate(self._sides(band.mean.shape[-1])):
            if side in ("upper", "none"):
                lower[..., j] = -np.inf
            if side in ("lower", "none"):
                upper[..., j] = np.inf
        return replace(band, lower=lower, upper=upper, side=self.side)

    def _sides(self, m: int) -> tuple[Side, ...]:
        """The side of each of m outputs."""
        if isinstance(self.side, str):
            return (self.side,) * m
        if len(self.side) != m:
            raise ValueError(f"`side` names {len(self.side)} outputs, and the prediction has {m}.")
        return self.side


def sided(score: Score, side: Side | tuple[Side, ...]) -> Score:
    """The score, or its one-sided version."""
    return score if side == "both" else OneSided(score, side)
