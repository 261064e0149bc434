"""Calibrated: the interface of what `gb.calibrate` returns, a predictor with a guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from torch import nn

from guardband.arrays import Array, ArrayLike, to_numpy
from guardband.conformal.base import Groups, Pieces, Size
from guardband.conformal.rank import Level, exact
from guardband.frames import Columns
from guardband.grids import FieldGrid
from guardband.values import Band, Names, Observations, Prediction


class Calibrated(ABC):
    """A predictor with a guarantee: `calibrated(x, level=0.95)` is a set that holds a new y so often.

    Any level at any time. `promise` says what is promised and under which assumption; `laws` gives the exact
    law of coverage where there is one. What calibration points it keeps, it keeps as `prediction` and `y`.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.contains(gb.Prediction(None, [10.0]), [18.0], level=0.9)
    array([ True])
    """

    prediction: Prediction | None = None
    y: Array | None = None
    groups: np.ndarray | None = None
    confidence: Level | None = None
    columns: Columns | None = None
    joint: bool = True

    @property
    def field_names(self) -> Names | None:
        """What axes and outputs are called, where the predictor knows."""
        return None

    @property
    def grid(self) -> FieldGrid | None:
        """The named axes of the whole fields that were calibrated on; None for points and unnamed ones."""
        return None

    def derived(self, y: Array) -> Array:
        """What of targets the sets are about: all of it, for most."""
        return y

    def remarks(
        self, prediction: Prediction, y: Array, level: Level, groups: np.ndarray | None = None
    ) -> list[str]:
        """Sentences that belong beside the coverage of these targets; most have none."""
        return []

    @property
    def about(self) -> str:
        """What is covered: a new "measurement", noise included, or the noise-free "truth"."""
        return "measurement"

    def __repr__(self) -> str:
        return f"{self.name}(n={self.n})"

    def __call__(self, x: ArrayLike, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """The set at x (n, d), a `Band` where it is a box: a new y is inside with probability >= `level`."""
        return self.band(self.predict(x), level, groups=groups)

    @abstractmethod
    def predict(self, x: ArrayLike) -> Prediction:
        """What is believed at x (n, d), before calibration."""

    @abstractmethod
    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """The set around a prediction already made: a sweep over levels pays the predictor once."""

    @property
    @abstractmethod
    def promise(self) -> str:
        """What is promised, and under which assumption, in words for a person."""

    def promised(self, level: Level) -> Fraction | None:
        """The probability that is promised at a level: the level itself, for most. None if none is."""
        return exact(level)

    def contains(
        self, x: ArrayLike | Prediction, y: ArrayLike, level: Level = 0.95, *, groups: Groups = None
    ) -> np.ndarray:
        """Whether each new y (n, m) lies in the set at x, a prediction or points: (n,) booleans."""
        prediction = x if isinstance(x, Prediction) else self.predict(x)
        return self.contains_at(prediction, y, [level], groups=groups)[0]

    def contains_at(
        self, prediction: Prediction, y: ArrayLike, levels: Sequence[Level], *, groups: Groups = None
    ) -> np.ndarray:
        """`contains` at several levels: (levels, n), or (levels, n, parts) where it is not joint."""
        return np.stack([to_numpy(self.band(prediction, at, groups=groups).contains(y)) for at in levels])

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces | None:
        """The exact law of how many of m new points are covered, if points are independent and alike."""
        return None

    def laws_for(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> Pieces | None:
        """The exact law of how many of these new points are covered."""
        return self.laws(level, len(prediction), groups)

    def size(self, level: Level) -> Size | None:
        """How many points stand behind a set at this level, and how many are needed; None if unknown."""
        return None

    @property
    def n(self) -> int:
        """The number of calibration points."""
        return 0 if self.y is None else len(self.y)

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        return type(self).__name__

    @property
    def needs_groups(self) -> bool:
        """Whether a query must come with its group."""
        return False

    @property
    def covers_new_groups(self) -> bool:
        """Whether the promise is about groups not seen before."""
        return False

    @property
    def answers_shift(self) -> bool:
        """Whether queries may come from other places than the calibration points."""
        return False

    @property
    def guarded(self) -> bool | None:
        """Whether a shape learned from an overfitted model would be noticed; None if none is learned."""
        return None

    @property
    def leaves_out(self) -> bool:
        """Whether readings fit and calibrate at once, each left out of what it is held against."""
        return False

    @property
    def used(self) -> Mapping[str, Observations]:
        """Observations that were learned from, by what they are: "training", "held-out"."""
        return {}

    def constant_width(self) -> Calibrated | None:
        """The rival: constant width, calibrated on the same points with the same promise; None if unknown."""
        return None

    def around(self, prediction: Prediction) -> Calibrated | None:
        """A rival: the same targets around other predictions, with the same promise; None if unknown."""
        return None

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """The band that the predictor's own scale would promise without calibration; None if it has none."""
        return None

    def misses(self, level: Level) -> np.ndarray | None:
        """How far each calibration point missed, as a share of the set's size there; None if unknown."""
        return None

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Numbers that must be the same after saving and loading."""
        return {}

    def as_module(self, level: Level) -> nn.Module:
        """The set at a level as a torch module, x -> (mean, lower, upper), for `gb.export_onnx`."""
        raise TypeError(f"{self.name} cannot be exported: it has no `as_module`, x -> (mean, lower, upper).")
