"""Calibrators turn scores into a threshold; a threshold says how large a new score may be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from guardband.arrays import Array, finite, rows, to_numpy
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.rank import Level
from guardband.conformal.scores import Score
from guardband.values import Prediction, Predictor

Groups: TypeAlias = Any
"""One label per row, strings or whole numbers: a sequence, numpy array, tensor or pandas column."""

Pieces: TypeAlias = Sequence[tuple[CoverageLaw, int]]
"""Independent parts of a test set: the law of each, and how many test points it holds."""


class Threshold(ABC):
    """q(x, level): a new score exceeds it with probability at most 1 - level. Any level at call time.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.threshold(calibrated.prediction, 0.9)
    9.0
    >>> calibrated.threshold.laws(0.9, m=100)
    [(CoverageLaw(k=9, n=9), 100)]
    """

    @abstractmethod
    def __call__(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> float | np.ndarray:
        """The threshold, one number or one per row (n,); infinite where no finite one is valid."""

    @abstractmethod
    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces | None:
        """The exact law of how many of m new points are covered; None where only a bound is known."""


class Calibrator(ABC):
    """A way to turn calibration scores into a threshold. A value: it holds settings, never data.

    >>> import guardband as gb
    >>> class Cautious(gb.conformal.Calibrator):
    ...     def threshold(self, scores, prediction, *, groups=None, confidence=None):
    ...         return gb.Split().threshold(scores, prediction, confidence=confidence or "0.9")
    >>> calibrated = gb.calibrate_arrays([0.0] * 99, range(99), calibrator=Cautious())
    >>> float(calibrated.band(gb.Prediction(None, [0.0]), level=0.9).upper.round(6)[0, 0])
    93.0
    """

    @property
    def plain(self) -> Calibrator:
        """The same promise without a shape of its own: what a rival of constant width is calibrated by."""
        return self

    @property
    def promise(self) -> str:
        """What is promised, and under which assumption, in words for a person."""
        return (
            "If the calibration points and a new point are exchangeable (drawn alike, from the same places "
            "with the same noise), a new measurement lies in the band with probability at least the level."
        )

    def prepared(self, predictor: Predictor | None, score: Score) -> Calibrator:
        """The same, with whatever it has to learn beforehand learnt; most have nothing to learn."""
        return self

    @abstractmethod
    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> Threshold:
        """The threshold that these scores (n,), of these predictions, give."""


def labels(groups: Groups, n: int) -> np.ndarray:
    """Group labels (n,) as an array of strings or whole numbers, checked."""
    if isinstance(groups, torch.Tensor | np.ndarray):
        array = to_numpy(groups)
    else:  # a list may mix kinds, which numpy would silently turn into strings
        array = np.asarray(groups, dtype=object)
    if array.dtype.kind == "O":
        for kind, dtype in ((str, str), (int | np.integer | np.bool_, np.int64)):
            if all(isinstance(label, kind) for label in array.ravel()):
                array = array.astype(dtype)
    if array.dtype.kind in "iub" and (not array.size or int(array.max()) < 2**63):
        array = array.astype(np.int64)  # one dtype, so that equal numbers are equal labels
    if array.dtype.kind not in "iU":
        raise TypeError(
            f"`groups` should be strings or whole numbers, got dtype {array.dtype}. "
            "A missing label is not a group: give it a name or leave the row out."
        )
    if array.shape != (n,):
        raise ValueError(f"`groups` should hold one label per row, ({n},), got {array.shape}.")
    return array


def places(x: Array) -> np.ndarray:
    """Points (n, d) as float64 numpy, checked."""
    return np.asarray(to_numpy(finite(rows(x, "x"), "x")), dtype=float)


def places_of(prediction: Prediction, name: str) -> np.ndarray:
    """The points of a prediction, or an error that asks for them."""
    if prediction.x is None:
        raise ValueError(
            f"{name} looks at the points: give x_cal to `calibrate_arrays`, and x to `gb.Prediction`."
        )
    return places(prediction.x)


def no_groups(groups: np.ndarray | None, name: str, why: str) -> None:
    """Refuse group labels that a method would ignore."""
    if groups is not None:
        raise ValueError(f"`groups` should not be given to {name}: {why}")


def no_confidence(confidence: Level | None, name: str) -> None:
    """Refuse a confidence where no training-conditional guarantee is known."""
    if confidence is not None:
        raise ValueError(
            f"`confidence` is known for Split(), Grouped() and Local(), not for {name}: its coverage, given "
            "the calibration set, has no exact law. Leave it out, or use one of those."
        )
