"""Calibrated: the interface of what `gb.calibrate` returns, a predictor with a guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from guardband.base.arrays import Array, ArrayLike, to_numpy
from guardband.base.computed import computed
from guardband.conformal.base import Groups, Pieces, Size, Traits
from guardband.conformal.rank import Level, exact
from guardband.values import Band, Names, Observations, Prediction
from guardband.values.frames import Columns
from guardband.values.grids import FieldGrid
from guardband.values.labeled import Axes, arranged_targets, refuse_unpaired


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
    axes: Mapping[str, Axes] = MappingProxyType({})
    """The names of the axes of inputs, "x", and targets, "y", of calibration, if they had any."""

    @property
    def field_names(self) -> Names | None:
        """What axes and outputs are called, where the predictor knows."""
        return None

    def with_names(self, names: Names) -> Calibrated:
        """The same with names for the columns of arrays; itself where names are known or are not kept."""
        return self

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

    def __repr__(self) -> str:
        return f"{self.name}(n={self.n})"

    def __call__(self, x: ArrayLike, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """The set at x (n, d), a `Band` where it is a box: a new y is inside with probability >= `level`."""
        refuse_unpaired(x=x, groups=groups)
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
        refuse_unpaired(x=x, y=y, groups=groups)
        prediction = x if isinstance(x, Prediction) else self.predict(x)
        return self.contains_at(prediction, y, [level], groups=groups)[0]

    def contains_at(
        self, prediction: Prediction, y: ArrayLike, levels: Sequence[Level], *, groups: Groups = None
    ) -> np.ndarray:
        """`contains` at several levels: (levels, n), or (levels, n, parts) where it is not joint."""
        y = self.targets(y)
        return np.stack([to_numpy(self.band(prediction, at, groups=groups).contains(y)) for at in levels])

    @property
    def target_axes(self) -> Axes | None:
        """The names of the axes and outputs of targets, if the calibration or the model has any."""
        if "y" in self.axes:
            return self.axes["y"]
        if self.grid is not None and self.y is not None:
            return Axes.of_grid(self.grid, self.y.shape[-1])
        names = self.field_names
        return None if names is None or len(names.outputs) < 2 else Axes.of_columns(names.outputs)

    def targets(self, y: ArrayLike) -> Array:
        """Targets in the order of calibration: named outputs and axes by their names, arrays as they are."""
        return arranged_targets(y, self.target_axes, "y")

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
    def traits(self) -> Traits:
        """What others must know of it; its attributes of the same names say the same."""
        return Traits()

    joint: bool = computed(lambda self: self.traits.joint)

    @property
    def needs_groups(self) -> bool:
        """Whether a query must come with its group."""
        return self.traits.needs_groups

    @property
    def covers_new_groups(self) -> bool:
        """Whether the promise is about groups not seen before."""
        return self.traits.covers_new_groups

    @property
    def answers_shift(self) -> bool:
        """Whether queries may come from other places than the calibration points."""
        return self.traits.answers_shift

    @property
    def is_box(self) -> bool:
        """Whether its sets are an interval for each output, from which a promise for the truth follows."""
        return self.traits.is_box

    @property
    def leaves_out(self) -> bool:
        """Whether readings fit and calibrate at once, each left out of what it is held against."""
        return self.traits.leaves_out

    @property
    def guarded(self) -> bool | None:
        """Whether a shape learned from an overfitted model would be noticed; None if none is learned."""
        return self.traits.guarded

    @property
    def about(self) -> str:
        """What is covered: a new "measurement", noise included, or the noise-free "truth"."""
        return self.traits.about

    @property
    def holds_for(self) -> str:
        """For which models the promise holds, in words."""
        return self.traits.holds_for

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

    def as_module(self, level: Level) -> Any:
        """The set at a level as a torch module, x -> (mean, lower, upper), as `gb.export_onnx` writes it."""
        return import_module("guardband.export.modules").module_of(self, level)
