"""`Chosen`: one of several calibrations, selected on its own calibration points, with a valid guarantee.

Each of K candidates is calibrated at the Bonferroni-adjusted level 1 - (1 - level)/K, or with confidence
1 - (1 - confidence)/K. All K then hold simultaneously, so the selected one holds under any selection rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from guardband.base.arrays import Array, ArrayLike
from guardband.base.computed import computed
from guardband.base.kept import kept
from guardband.conformal.base import Groups, Size, Traits
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.values import Band, Names, Observations, Prediction
from guardband.values.frames import Columns


def bonferroni_level(level: Level, among: int) -> Fraction:
    """The level at which to calibrate each of several candidates so that all cover jointly at `level`.

    Examples
    --------
    >>> bonferroni_level(0.9, 5)
    Fraction(49, 50)
    """
    return 1 - (1 - exact(level)) / among


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Chosen(Calibrated):
    """One of `among` calibrations, selected by its results on the calibration points; created by `gb.choose`.

    Parameters
    ----------
    one
        The selected calibration.
    among
        The number of candidates.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 200)
    >>> y = np.sin(3 * x) + 0.1 * np.cos(50 * x)
    >>> choice = gb.choose(
    ...     {"sine": lambda x: np.sin(3 * x), "zero": np.zeros_like}, calibrate=(x, y)
    ... )
    >>> choice.calibrated
    Chosen(1 of 2, Calibrated(MeanOnly, score=Scaled(), calibrator=Split(), n=200))
    """

    one: Calibrated
    among: int

    def predict(self, x: ArrayLike) -> Prediction:
        """Return the prediction of the selected calibration at x (n, d)."""
        return self.one.predict(x)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """Return the set of the selected calibration at the adjusted level."""
        band = self.one.band(prediction, self.asked(level), groups=groups)
        return replace(band, level=float(exact(level))) if isinstance(band, Band) else band

    def contains_at(
        self, prediction: Prediction, y: ArrayLike, levels: Sequence[Level], *, groups: Groups = None
    ) -> np.ndarray:
        """Evaluate `contains` of the selected calibration at the adjusted levels."""
        return self.one.contains_at(prediction, y, [self.asked(level) for level in levels], groups=groups)

    def asked(self, level: Level) -> Level:
        """Return the level to request from the selected calibration so that coverage is at least `level`.

        Parameters
        ----------
        level
            Requested coverage, strictly between 0 and 1.

        Returns
        -------
        Level
            The adjusted level, or `level` itself if the confidence is adjusted instead.
        """
        return level if self.one.confidence is not None else bonferroni_level(level, self.among)

    @property
    def promise(self) -> str:
        """The guarantee of the selected calibration, and the adjustment for the selection."""
        if self.confidence is None:
            adjusted = f"at level 1 - (1 - level)/{self.among}, so the band reaches the requested level"
        else:
            adjusted = (
                f"with this confidence, so the guarantee has confidence {float(exact(self.confidence)):g}"
            )
        return (
            f"{self.one.promise} Of {self.among} bands this one was chosen by looking at the calibration "
            f"points; each was calibrated {adjusted} whichever is chosen."
        )

    def promised(self, level: Level) -> Fraction | None:
        """Return the level, if the selected calibration guarantees its own level."""
        guaranteed = self.one.promised(self.asked(level))
        return None if guaranteed is None else 1 - (1 - guaranteed) * (1 if self.confidence else self.among)

    def size(self, level: Level) -> Size | None:
        """Return the points of the selected calibration, and the number needed at the adjusted level."""
        return self.one.size(self.asked(level))

    def __repr__(self) -> str:
        return f"Chosen(1 of {self.among}, {self.one!r})"

    @computed
    def confidence(self) -> Level | None:
        """The confidence after the adjustment, if one was requested."""
        one = self.one.confidence
        return None if one is None else 1 - (1 - exact(one)) * self.among

    @computed
    def prediction(self) -> Prediction | None:
        """The prediction at the stored calibration points."""
        return self.one.prediction

    @computed
    def y(self) -> Array | None:
        """The calibration targets."""
        return self.one.y

    @computed
    def columns(self) -> Columns | None:
        """The columns of the frame used for calibration."""
        return self.one.columns

    @property
    def traits(self) -> Traits:
        """The traits of the selected calibration."""
        return self.one.traits

    @property
    def field_names(self) -> Names | None:
        """Names of axes and outputs."""
        return self.one.field_names

    @property
    def used(self) -> Mapping[str, Observations]:
        """The data from which the selected calibration was learned."""
        return self.one.used

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return the fingerprint of the selected calibration."""
        return self.one.fingerprint()
