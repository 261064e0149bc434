"""Interfaces: calibrators turn scores into a threshold, and a threshold bounds the score of a new point.

Properties of a method that other modules depend on are declared as traits with defaults, and each method
overrides them in its own file. No other module checks the class of a calibrator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, TypeAlias, TypeVar, cast

import numpy as np

from guardband.base.arrays import Array, ArrayLike, finite, namespace, refuse_masked, rows, to_numpy
from guardband.conformal.laws import CoverageLaw
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Score
from guardband.values import Observations, Prediction, Predictor

Groups: TypeAlias = ArrayLike
"""One label per row, strings or integers: a sequence, numpy array, tensor or pandas column."""

Pieces: TypeAlias = Sequence[tuple[CoverageLaw, int]]
"""Independent parts of a test set, each with its coverage law and its number of test points."""


FOR_STORES = "does not apply to stored fields, which have one score each and share one threshold. Omit it."
FOR_ARRAYS = "applies only to fields in a store, gb.StoredFields. Omit it."
NO_SCORES = "Stored fields need `scores`, a path for the score of each field. Pass scores='scores.zarr'."


@dataclass(frozen=True)
class Size:
    """The number of calibration points, and the number that a finite band needs.

    Parameters
    ----------
    have
        Number of units available.
    need
        Number of units that a finite band needs at the given level.
    what
        The unit that is counted.

    Examples
    --------
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
    """Properties of a threshold or a calibration that its users depend on.

    Parameters
    ----------
    needs_groups
        Whether the group label of each new point is required.
    covers_new_groups
        Whether the guarantee applies to groups that do not occur in the calibration set.
    answers_shift
        Whether new points may follow a different distribution of inputs from the calibration points.
    joint
        Whether all outputs are covered simultaneously; otherwise each output is covered separately.
    is_box
        Whether the sets are boxes, one interval per output. A box that covers measurements also bounds the
        miscoverage of the noise-free truth.
    leaves_out
        Whether the same observations serve for training and calibration. Each is then compared with a model
        that was trained without it.
    guarded
        Whether overfitting would be detected before a shape is learned from training residuals; None if no
        shape is learned.
    about
        What is covered: a new "measurement", including its noise, or the noise-free "truth".
    is_elementwise
        Whether rows evaluated together have the same bits as rows evaluated one by one.
    holds_for
        Models for which the guarantee holds, in words.

    Examples
    --------
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.traits.joint, calibrated.traits.needs_groups
    (True, False)
    """

    needs_groups: bool = False
    covers_new_groups: bool = False
    answers_shift: bool = False
    joint: bool = True
    is_box: bool = False
    leaves_out: bool = False
    guarded: bool | None = None
    about: str = "measurement"
    is_elementwise: bool = False
    holds_for: str = "any model"


class TraitAttribute:
    """An attribute that returns the trait of the same name; subclasses for version 0.2 override it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name: str = name

    def __get__(self, threshold: Threshold | None, owner: type[Threshold]) -> bool:
        return getattr((owner if threshold is None else threshold).traits, self.name)


class Threshold(ABC):
    """A function q(x, level) that a new score exceeds with probability at most 1 - level.

    The level is an argument of the call, and any level is valid. `traits` declares the properties that other
    modules depend on.

    Attributes
    ----------
    traits
        Declared properties, such as whether new points need group labels.
    needs_groups, covers_new_groups, answers_shift
        The traits of the same names.

    Examples
    --------
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.threshold(calibrated.prediction, 0.9)
    9.0
    >>> calibrated.threshold.laws(0.9, m=100)
    [(CoverageLaw(k=9, n=9), 100)]
    """

    traits: ClassVar[Traits] = Traits()
    needs_groups: ClassVar[bool] = cast("bool", TraitAttribute())
    covers_new_groups: ClassVar[bool] = cast("bool", TraitAttribute())
    answers_shift: ClassVar[bool] = cast("bool", TraitAttribute())

    @abstractmethod
    def __call__(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> float | np.ndarray:
        """Return the threshold, one number or one per row (n,); infinite if no finite threshold is valid."""

    def shift_weights(self, prediction: Prediction) -> np.ndarray | None:
        """Return the weights of points under a covariate shift, up to a constant factor.

        Parameters
        ----------
        prediction
            The prediction at the points.

        Returns
        -------
        np.ndarray or None
            One weight per point, shape (n,); None if points are exchangeable with the calibration points.
        """
        return None

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces | None:
        """Return the exact law of the number of covered points among m new ones, for i.i.d. points.

        Parameters
        ----------
        level
            Requested coverage, strictly between 0 and 1.
        m
            Number of test points.
        groups
            Group label of each test point, shape (m,), if the method needs groups.

        Returns
        -------
        Pieces or None
            Independent parts of the test set with the law of each; None if only a bound is known.
        """
        return None

    def laws_for(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> Pieces | None:
        """Return the exact law of the number of covered points among given ones, for laws that depend on x.

        Parameters
        ----------
        prediction
            The prediction at the test points.
        level
            Requested coverage, strictly between 0 and 1.
        groups
            Group label of each test point, shape (n,), if the method needs groups.

        Returns
        -------
        Pieces or None
            Independent parts of the test set with the law of each; None if only a bound is known.
        """
        return self.laws(level, len(prediction), groups)

    def count(self) -> int | None:
        """Return the number of calibration scores, if it may differ from the number of stored points.

        Returns
        -------
        int or None
            The number of scores; None if each stored calibration point has one.
        """
        return None

    def size(self, level: Level) -> Size | None:
        """Return the number of calibration points and the number that a finite band needs.

        Parameters
        ----------
        level
            Requested coverage, strictly between 0 and 1.

        Returns
        -------
        Size or None
            Available and required number of points; None if unknown.
        """
        return None


def traits_of(threshold: Threshold) -> Traits:
    """The traits of a threshold, including those set as attributes by classes from before version 0.3."""
    names = ("needs_groups", "covers_new_groups", "answers_shift")
    return replace(threshold.traits, **{name: getattr(threshold, name) for name in names})


class Learned(ABC):
    """A calibrator after its training step, ready to turn calibration scores into a threshold.

    A calibrator without a training step is its own `Learned`.

    Attributes
    ----------
    about
        What is covered: a new "measurement", including its noise, or the noise-free "truth".

    Examples
    --------
    >>> import guardband as gb
    >>> gb.Split().learn(None, gb.Scaled())
    Split()
    """

    about: ClassVar[str] = "measurement"

    @property
    def promise(self) -> str:
        """The guarantee and its assumptions, in words."""
        return (
            "If the calibration points and a new point are exchangeable (sampled in the same way, in the "
            "same region and with the same noise), a new measurement lies in the band with probability at "
            "least the level."
        )

    def promised(self, level: Level) -> Fraction | None:
        """Return the guaranteed coverage probability at a level, for most methods the level itself.

        Parameters
        ----------
        level
            Requested coverage, strictly between 0 and 1.

        Returns
        -------
        Fraction or None
            The guaranteed probability; None if no coverage probability is guaranteed.
        """
        return exact(level)

    def confident(self, confidence: float, each: str) -> str:
        """Return the sentence that a confidence adds to the guarantee.

        Parameters
        ----------
        confidence
            Probability over calibration sets.
        each
            Words inserted after "this holds", such as " for each group separately"; may be empty.

        Returns
        -------
        str
            The sentence.
        """
        return (
            f"With confidence {confidence:g} this holds{each} for the calibration set at hand, not only on "
            "average over such sets, if moreover all points are drawn independently of each other from one "
            "distribution."
        )

    @property
    @abstractmethod
    def plain(self) -> Calibrator:
        """The calibrator with the same guarantee and no learned shape, for a baseline of constant width."""

    @property
    def guarded(self) -> bool | None:
        """Whether overfitting would be detected before a shape is learned; None if no shape is learned."""
        return None

    @property
    def used(self) -> Mapping[str, Observations]:
        """The observations used for learning, by role; calibration points must differ from them."""
        return {}

    def at_points(self, x: np.ndarray) -> Learned:
        """Return an equivalent object that is prepared for many calls at the same points.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Learned
            The prepared object; by default `self`, since most methods have nothing to precompute.
        """
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
        """Return the threshold for given calibration scores.

        Parameters
        ----------
        scores
            Calibration scores, shape (n,).
        prediction
            The prediction at the calibration points.
        groups
            Group label of each calibration point, shape (n,).
        confidence
            Probability over calibration sets with which the coverage is guaranteed; None for a guarantee on
            average over calibration sets.

        Returns
        -------
        Threshold
            The threshold as a function of prediction and level.
        """


class Calibrator(Learned):
    """A method that turns calibration scores into a threshold; an immutable value that holds only settings.

    Attributes
    ----------
    whole_groups
        Whether a split into training and calibration sets keeps all rows of a group in one part.

    Examples
    --------
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

    @property
    def plain(self) -> Calibrator:
        """The calibrator itself, since it learns no shape."""
        return self

    def prepared(self, prediction: Prediction, y: Array) -> tuple[Prediction, Array, Calibrator]:
        """Return the calibration data in the form that the method requires, and the calibrator for that form.

        Parameters
        ----------
        prediction
            The prediction at the calibration points.
        y
            Calibration targets, shape (n, m).

        Returns
        -------
        tuple of Prediction, Array and Calibrator
            By default all three unchanged.
        """
        return prediction, y, self

    def learn(self, predictor: Predictor | None, score: Score) -> Learned:
        """Learn from data other than the calibration set; most calibrators have nothing to learn.

        Parameters
        ----------
        predictor
            The predictor, or None for a calibration from arrays.
        score
            The score that the calibration uses.

        Returns
        -------
        Learned
            By default the calibrator itself.
        """
        return self

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> Calibrator:
        """Create a calibrator for the command line, from the data passed to the command.

        Parameters
        ----------
        x
            Calibration points, shape (n, d).
        queries
            Points at which bands will be requested, shape (n, d), or None.
        training_data
            Training data, or None.

        Returns
        -------
        Calibrator
            The calibrator with default settings or with settings estimated from these data.
        """
        if queries is not None:
            raise ValueError(f"--query has no meaning for {cls.__name__}. Omit it.")
        return with_defaults(cls)


T = TypeVar("T")


def with_defaults(cls: type[T]) -> T:
    """An object with default settings; raises an error if a setting has no default."""
    try:
        return cls()
    except TypeError as error:
        raise ValueError(
            f"{cls.__name__} has settings without defaults, which cannot be set on the command "
            "line. Define `for_files` in its class if it is a calibrator, or use it in Python."
        ) from error


def group_labels(groups: Groups, n: int) -> np.ndarray:
    """Group labels (n,) as an array of strings or integers, validated."""
    refuse_masked(groups, "groups")
    if isinstance(groups, np.ndarray) or namespace(groups) is not np:
        array = to_numpy(groups)
    else:  # numpy would silently convert a list of mixed types to strings
        array = np.asarray(groups, dtype=object)
    if array.dtype.kind == "O":
        for kind, dtype in ((str, str), (int | np.integer | np.bool_, np.int64)):
            if all(isinstance(label, kind) for label in array.ravel()):
                array = array.astype(dtype)
    if array.dtype.kind in "iub" and (not array.size or int(array.max()) < 2**63):
        array = array.astype(np.int64)  # one dtype, so that equal numbers are equal labels
    if array.dtype.kind not in "iU":
        raise TypeError(
            f"`groups` should be strings or integers, got dtype {array.dtype}. "
            "A missing label is not a group: name it or omit the row."
        )
    if array.shape != (n,):
        raise ValueError(f"`groups` should hold one label per row, shape ({n},), got shape {array.shape}.")
    return array


def point_array(x: Array) -> np.ndarray:
    """Points (n, d) as a float64 numpy array, validated."""
    if getattr(x, "ndim", 2) > 2:
        raise ValueError(
            f"Methods that use positions need points of shape (n, d), got x of shape {tuple(x.shape)}. For "
            "whole fields, which have no position, use Split(), Grouped() or Clustered()."
        )
    return np.asarray(to_numpy(finite(rows(x, "x"), "x")), dtype=float)


def points_of(prediction: Prediction, name: str) -> np.ndarray:
    """The points of a prediction; raises an error if it has none."""
    if prediction.x is None:
        raise ValueError(
            f"{name} uses the positions of points. Pass x_cal to `calibrate_arrays` and x to `gb.Prediction`."
        )
    return point_array(prediction.x)


def refuse_options(options: Mapping[str, object], why: str) -> None:
    """Raise an error for arguments that would be ignored."""
    for name, value in options.items():
        if value is not None:
            raise TypeError(f"`{name}` {why}")


def no_groups(groups: np.ndarray | None, name: str, why: str) -> None:
    """Raise an error for group labels that the method would ignore."""
    if groups is not None:
        raise ValueError(f"`groups` should not be passed to {name}: {why}")


def no_confidence(confidence: Level | None, name: str) -> None:
    """Raise an error for a confidence if the method has no training-conditional guarantee."""
    if confidence is not None:
        raise ValueError(
            f"`confidence` applies to Split(), Grouped() and Local(), not to {name}, whose coverage given "
            "the calibration set has no exact law. Omit it, or use one of these calibrators."
        )
