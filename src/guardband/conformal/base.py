"""Calibrators turn scores into a threshold; a threshold says how large a new score may be.

What other rooms have to know of a method is said here, as traits with defaults; a method says otherwise in
its own file. Nobody asks which class it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from guardband.base.arrays import Array, finite, namespace, refuse_masked, rows, to_numpy
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Score
from guardband.values import Observations, Prediction, Predictor

Groups: TypeAlias = Any
"""One label per row, strings or whole numbers: a sequence, numpy array, tensor or pandas column."""

Pieces: TypeAlias = Sequence[tuple[CoverageLaw, int]]
"""Independent parts of a test set: the law of each, and how many test points it holds."""


FOR_STORES = "is not for stored fields, which have one score each and one threshold for all. Leave it out."
FOR_ARRAYS = "is for fields in a store, gb.StoredFields. Leave it out."
NO_SCORES = "Stored fields need `scores`, a path where the score of each is kept: scores='scores.zarr'."


@dataclass(frozen=True)
class Size:
    """How many calibration points count, how many a finite band needs, and what is counted.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.size(0.95)
    Size(have=9, need=19, what='calibration points')
    """

    have: float
    need: float
    what: str = "calibration points"


@dataclass(frozen=True)
class Traits:
    """What others must know of a threshold, or of a calibration, to use it rightly.

    Nobody asks which class it is; each has `traits`, and says there what differs from these defaults.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.traits.joint, calibrated.traits.needs_groups
    (True, False)
    """

    needs_groups: bool = False
    """Whether a query must come with its group."""
    covers_new_groups: bool = False
    """Whether the promise is about groups not seen before."""
    answers_shift: bool = False
    """Whether queries may come from other places than the calibration points."""
    joint: bool = True
    """Whether all outputs are covered at once; otherwise each by itself."""
    is_box: bool = False
    """Whether sets are an interval for each output, from which a promise for the truth follows."""
    leaves_out: bool = False
    """Whether readings fit and calibrate at once, each left out of what it is held against."""
    guarded: bool | None = None
    """Whether a shape learned from an overfitted model would be noticed; None if none is learned."""
    about: str = "measurement"
    """What is covered: a new "measurement", noise included, or the noise-free "truth"."""
    is_elementwise: bool = False
    """Whether rows computed together have the same bits as one by one."""
    holds_for: str = "any model"
    """For which models the promise holds, in words."""


class Told:
    """An attribute that says what `traits` say; a class or an object may say otherwise, as before 0.3."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name: str = name

    def __get__(self, threshold: Any, owner: type) -> Any:
        return getattr((owner if threshold is None else threshold).traits, self.name)


def told() -> Any:
    """A new `Told`, for a type checker of any type."""
    return Told()


class Threshold(ABC):
    """q(x, level): a new score exceeds it with probability at most 1 - level. Any level at call time.

    `traits` says what others must know of it: whether a query must come with its group, whether the promise
    is about groups not seen before, and whether queries may come from other places.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.threshold(calibrated.prediction, 0.9)
    9.0
    >>> calibrated.threshold.laws(0.9, m=100)
    [(CoverageLaw(k=9, n=9), 100)]
    """

    traits: ClassVar[Traits] = Traits()
    needs_groups: ClassVar[bool] = told()
    covers_new_groups: ClassVar[bool] = told()
    answers_shift: ClassVar[bool] = told()

    @abstractmethod
    def __call__(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> float | np.ndarray:
        """The threshold, one number or one per row (n,); infinite where no finite one is valid."""

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces | None:
        """The exact law of how many of m new points are covered, if points are independent and alike.

        None where only a bound is known.
        """
        return None

    def laws_for(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> Pieces | None:
        """The exact law of how many of these new points are covered; for laws that depend on the places."""
        return self.laws(level, len(prediction), groups)

    def count(self) -> int | None:
        """How many scores it was made of, where that is not the number of calibration points kept."""
        return None

    def size(self, level: Level) -> Size | None:
        """How many points stand behind a band at this level, and how many are needed; None if unknown."""
        return None


def traits_of(threshold: Threshold) -> Traits:
    """The traits of a threshold, the attributes too by which one could say them before 0.3."""
    said = ("needs_groups", "covers_new_groups", "answers_shift")
    return replace(threshold.traits, **{name: getattr(threshold, name) for name in said})


class Learned(ABC):
    """All that a calibrator knows before it sees scores: ready to turn them into a threshold.

    A calibrator that has nothing to learn is its own `Learned`.

    >>> import guardband as gb
    >>> gb.Split().learn(None, gb.Scaled())
    Split()
    """

    about: ClassVar[str] = "measurement"
    """What is covered: a new "measurement", noise included, or the noise-free "truth"."""

    @property
    def promise(self) -> str:
        """What is promised, and under which assumption, in words for a person."""
        return (
            "If the calibration points and a new point are exchangeable (drawn alike, from the same places "
            "with the same noise), a new measurement lies in the band with probability at least the level."
        )

    def promised(self, level: Level) -> Fraction | None:
        """The probability that is promised at a level: the level itself, for most. None if none is."""
        return exact(level)

    def confident(self, confidence: float, each: str) -> str:
        """What a confidence adds to the promise, in words; `each` says of what it holds by itself."""
        return (
            f"With confidence {confidence:g} this holds{each} for the calibration set at hand, not only on "
            "average over such sets, if moreover all points are drawn independently of each other from one "
            "distribution."
        )

    @property
    @abstractmethod
    def plain(self) -> Calibrator:
        """The same promise without a shape of its own: what a rival of constant width is calibrated by."""

    @property
    def guarded(self) -> bool | None:
        """Whether a shape learned from an overfitted model would be noticed; None if none is learned."""
        return None

    @property
    def used(self) -> Mapping[str, Observations]:
        """The observations it has learned from, by what they are; calibration points must be others."""
        return {}

    def at_points(self, x: np.ndarray) -> Learned:
        """The same, prepared for many calls at these points (n, d); most have nothing to prepare."""
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


class Calibrator(Learned):
    """A way to turn calibration scores into a threshold. A value: it holds settings only.

    >>> import guardband as gb
    >>> class Cautious(gb.conformal.Calibrator):
    ...     def threshold(self, scores, prediction, *, groups=None, confidence=None):
    ...         return gb.Split().threshold(
    ...             scores, prediction, confidence=confidence or "0.9"
    ...         )
    >>> calibrated = gb.calibrate_arrays([0.0] * 99, range(99), calibrator=Cautious())
    >>> float(calibrated.band(gb.Prediction(None, [0.0]), level=0.9).upper.round(6)[0, 0])
    93.0
    """

    whole_groups: ClassVar[bool] = True
    """Whether a split between training and calibration keeps the rows of a group on one side."""

    @property
    def plain(self) -> Calibrator:
        """Itself: it has no shape."""
        return self

    def prepared(self, prediction: Prediction, y: Array) -> tuple[Prediction, Array, Calibrator]:
        """Calibration points as it wants them, and itself for those; most take them as they are."""
        return prediction, y, self

    def learn(self, predictor: Predictor | None, score: Score) -> Learned:
        """What it has to learn off the calibration set; most have nothing to learn."""
        return self

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> Calibrator:
        """One for the command line, which knows calibration points, queries and training data at most."""
        if queries is not None:
            raise ValueError(f"--query means nothing to {cls.__name__}; leave it out.")
        return made_of_nothing(cls)


T = TypeVar("T")


def made_of_nothing(cls: type[T]) -> T:
    """An object with its default settings, or an error that says where they would come from."""
    try:
        return cls()
    except TypeError as error:
        raise ValueError(
            f"{cls.__name__} has settings without a default, which a command line cannot give. Write "
            "`for_files` in its class if it is a calibrator, or use it in Python."
        ) from error


def labels(groups: Groups, n: int) -> np.ndarray:
    """Group labels (n,) as an array of strings or whole numbers, checked."""
    refuse_masked(groups, "groups")
    if isinstance(groups, np.ndarray) or namespace(groups) is not np:
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
    if getattr(x, "ndim", 2) > 2:
        raise ValueError(
            f"Methods that look at places take points (n, d), and here x is {tuple(x.shape)}: whole fields "
            "have no place. Use Split(), Grouped() or Clustered()."
        )
    return np.asarray(to_numpy(finite(rows(x, "x"), "x")), dtype=float)


def places_of(prediction: Prediction, name: str) -> np.ndarray:
    """The points of a prediction, or an error that asks for them."""
    if prediction.x is None:
        raise ValueError(
            f"{name} looks at the points: give x_cal to `calibrate_arrays`, and x to `gb.Prediction`."
        )
    return places(prediction.x)


def refuse_options(options: Mapping[str, Any], why: str) -> None:
    """Refuse arguments that would be ignored."""
    for name, value in options.items():
        if value is not None:
            raise TypeError(f"`{name}` {why}")


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
