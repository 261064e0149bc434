"""Chosen: one of several calibrations, picked on the very points that it was calibrated on, and still valid.

Each of K is asked for so much more that all hold together: at 1 - (1 - level)/K, or with confidence
1 - (1 - confidence)/K. Then the one that is picked holds, however it was picked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.base.computed import computed
from guardband.base.kept import kept
from guardband.conformal.base import Groups, Size, Traits
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.values import Band, Names, Observations, Prediction


def shared(level: Level, among: int) -> Fraction:
    """What each of several is asked for, so that all keep a level together.

    >>> shared(0.9, 5)
    Fraction(49, 50)
    """
    return 1 - (1 - exact(level)) / among


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Chosen(Calibrated):
    """One of `among` calibrations that was picked by looking at its calibration points; `gb.choose` makes it.

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
        """What the chosen one believes at x (n, d)."""
        return self.one.predict(x)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """The set of the chosen one, at what it has to be asked for."""
        made = self.one.band(prediction, self.asked(level), groups=groups)
        return replace(made, level=float(exact(level))) if isinstance(made, Band) else made

    def contains_at(
        self, prediction: Prediction, y: ArrayLike, levels: Sequence[Level], *, groups: Groups = None
    ) -> np.ndarray:
        """`contains` of the chosen one, at what it has to be asked for."""
        return self.one.contains_at(prediction, y, [self.asked(level) for level in levels], groups=groups)

    def asked(self, level: Level) -> Level:
        """What the chosen one is asked for, so that the choice keeps a level."""
        return level if self.one.confidence is not None else shared(level, self.among)

    @property
    def promise(self) -> str:
        """That of the chosen one, and what was paid for choosing."""
        if self.confidence is None:
            paid = f"at 1 - (1 - level)/{self.among}, so the level is kept"
        else:
            paid = f"with that confidence, so it is kept with confidence {float(exact(self.confidence)):g}"
        return (
            f"{self.one.promise} Of {self.among} bands this one was chosen by looking at the calibration "
            f"points; each was asked {paid} whichever is chosen."
        )

    def promised(self, level: Level) -> Fraction | None:
        """The level, if that is what the chosen one promises."""
        found = self.one.promised(self.asked(level))
        return None if found is None else 1 - (1 - found) * (1 if self.confidence else self.among)

    def size(self, level: Level) -> Size | None:
        """What the chosen one has, and needs at what it has to be asked for."""
        return self.one.size(self.asked(level))

    def __repr__(self) -> str:
        return f"Chosen(1 of {self.among}, {self.one!r})"

    @computed
    def confidence(self) -> Level | None:
        """The confidence of the choice, where one was asked for."""
        one = self.one.confidence
        return None if one is None else 1 - (1 - exact(one)) * self.among

    @computed
    def prediction(self) -> Any:
        """What the chosen one keeps of its calibration points."""
        return self.one.prediction

    @computed
    def y(self) -> Any:
        """The calibration targets."""
        return self.one.y

    @computed
    def columns(self) -> Any:
        """The columns of the frame it was calibrated on."""
        return self.one.columns

    @property
    def traits(self) -> Traits:
        """Those of the chosen one."""
        return self.one.traits

    @property
    def field_names(self) -> Names | None:
        """What axes and outputs are called."""
        return self.one.field_names

    @property
    def used(self) -> Mapping[str, Observations]:
        """What the chosen one has learned from."""
        return self.one.used

    def fingerprint(self) -> dict[str, np.ndarray]:
        """That of the chosen one."""
        return self.one.fingerprint()
