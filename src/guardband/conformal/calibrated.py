"""`Calibrated`: the interface of the objects that `gb.calibrate` returns, predictors with a guarantee."""

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
from guardband.conformal.scores import Side
from guardband.values import Band, Names, Observations, Prediction
from guardband.values.frames import Columns
from guardband.values.grids import FieldGrid
from guardband.values.labeled import Axes, arranged_targets, refuse_unpaired


class Calibrated(ABC):
    """A predictor with a guarantee: `calibrated(x, level)` covers a new y with probability >= level.

    The level is an argument of the call. `promise` states the guarantee and its assumptions, and `laws` gives
    the exact law of coverage if it is known.

    Attributes
    ----------
    prediction
        The prediction at the stored calibration points, if any are stored.
    y
        Calibration targets, shape (n, m).
    groups
        Group label of each calibration point, shape (n,), or None.
    confidence
        Probability over calibration sets with which the coverage is guaranteed, or None.
    columns
        Columns of the frame used for calibration, or None.
    axes
        Names of the axes of the inputs, "x", and of the targets, "y", if calibration data had names.

    Examples
    --------
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

    @property
    def field_names(self) -> Names | None:
        """Names of axes and outputs, if the predictor declares them."""
        return None

    def with_names(self, names: Names) -> Calibrated:
        """Return a copy with names for the columns of arrays.

        Parameters
        ----------
        names
            Names of inputs and outputs.

        Returns
        -------
        Calibrated
            The copy, or the object itself if it already has names or cannot store them.
        """
        return self

    @property
    def grid(self) -> FieldGrid | None:
        """The named axes of whole fields used for calibration; None for points and unnamed fields."""
        return None

    def derived(self, y: Array) -> Array:
        """Return the quantities of the targets that the sets cover, for most methods the targets themselves.

        Parameters
        ----------
        y
            Targets, shape (n, m) or (N, *grid, m).

        Returns
        -------
        Array
            The covered quantities, one row per row of `y`.
        """
        return y

    def remarks(
        self, prediction: Prediction, y: Array, level: Level, groups: np.ndarray | None = None
    ) -> list[str]:
        """Return sentences to report with the measured coverage; for most methods there are none.

        Parameters
        ----------
        prediction
            The prediction at the test points.
        y
            Test targets, shape (n, m).
        level
            Requested coverage, strictly between 0 and 1.
        groups
            Group label of each test point, shape (n,).

        Returns
        -------
        list of str
            The sentences.
        """
        return []

    def __repr__(self) -> str:
        return f"{self.name}(n={self.n})"

    def __call__(self, x: ArrayLike, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """Return the prediction set at x (n, d) for the requested level, a `Band` if it is a box."""
        refuse_unpaired(x=x, groups=groups)
        return self.band(self.predict(x), level, groups=groups)

    @abstractmethod
    def predict(self, x: ArrayLike) -> Prediction:
        """Return the prediction before calibration.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Prediction
            Mean and, if available, scale at x.
        """

    @abstractmethod
    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """Return the set around an existing prediction, so that a sweep over levels evaluates the model once.

        Parameters
        ----------
        prediction
            The prediction at the new points.
        level
            Requested coverage, strictly between 0 and 1.
        groups
            Group label of each new point, shape (n,), if the method needs groups.

        Returns
        -------
        Band or NormBand
            The prediction set of each row.
        """

    @property
    @abstractmethod
    def promise(self) -> str:
        """The guarantee and its assumptions, in words."""

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

    def contains(
        self, x: ArrayLike | Prediction, y: ArrayLike, level: Level = 0.95, *, groups: Groups = None
    ) -> np.ndarray:
        """Return whether each new target lies in the prediction set at its point.

        Parameters
        ----------
        x
            New points, shape (n, d), or the prediction at them.
        y
            Targets, shape (n, m).
        level
            Requested coverage, strictly between 0 and 1.
        groups
            Group label of each point, shape (n,), if the method needs groups.

        Returns
        -------
        np.ndarray
            Booleans, shape (n,), or (n, parts) if outputs are covered separately.
        """
        refuse_unpaired(x=x, y=y, groups=groups)
        prediction = x if isinstance(x, Prediction) else self.predict(x)
        return self.contains_at(prediction, y, [level], groups=groups)[0]

    def contains_at(
        self, prediction: Prediction, y: ArrayLike, levels: Sequence[Level], *, groups: Groups = None
    ) -> np.ndarray:
        """Evaluate `contains` at several levels.

        Parameters
        ----------
        prediction
            The prediction at the new points.
        y
            Targets, shape (n, m).
        levels
            Requested coverages.
        groups
            Group label of each point, shape (n,), if the method needs groups.

        Returns
        -------
        np.ndarray
            Booleans, shape (levels, n), or (levels, n, parts) if outputs are covered separately.
        """
        y = self.targets(y)
        return np.stack([to_numpy(self.band(prediction, at, groups=groups).contains(y)) for at in levels])

    @property
    def target_axes(self) -> Axes | None:
        """Names of the axes and outputs of the targets, if the calibration data or the model have any."""
        if "y" in self.axes:
            return self.axes["y"]
        if self.grid is not None and self.y is not None:
            return Axes.of_grid(self.grid, self.y.shape[-1])
        names = self.field_names
        return None if names is None or len(names.outputs) < 2 else Axes.of_columns(names.outputs)

    def targets(self, y: ArrayLike) -> Array:
        """Arrange targets in the order used at calibration: by name if they have names, otherwise unchanged.

        Parameters
        ----------
        y
            Targets as an array, frame, `gb.Fields` or xarray object.

        Returns
        -------
        Array
            The targets as an array.
        """
        return arranged_targets(y, self.target_axes, "y")

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
        """Return the exact law of the number of covered points among given test points.

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

    def size(self, level: Level) -> Size | None:
        """Return the number of calibration points and the number that a finite set needs.

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

    @property
    def n(self) -> int:
        """The number of calibration points."""
        return 0 if self.y is None else len(self.y)

    @property
    def name(self) -> str:
        """The name of the method for use in sentences."""
        return type(self).__name__

    @property
    def traits(self) -> Traits:
        """Properties that other modules depend on; the attributes of the same names return them too."""
        return Traits()

    joint: bool = computed(lambda self: self.traits.joint)

    @property
    def needs_groups(self) -> bool:
        """Whether the group label of each new point is required."""
        return self.traits.needs_groups

    @property
    def covers_new_groups(self) -> bool:
        """Whether the guarantee applies to groups that do not occur in the calibration set."""
        return self.traits.covers_new_groups

    @property
    def answers_shift(self) -> bool:
        """Whether new points may follow a different distribution of inputs from the calibration points."""
        return self.traits.answers_shift

    @property
    def is_box(self) -> bool:
        """Whether the sets are boxes, one interval per output."""
        return self.traits.is_box

    @property
    def leaves_out(self) -> bool:
        """Whether the same observations serve for training and calibration, as in cross-validation."""
        return self.traits.leaves_out

    @property
    def guarded(self) -> bool | None:
        """Whether overfitting would be detected before a shape is learned; None if no shape is learned."""
        return self.traits.guarded

    @property
    def about(self) -> str:
        """What is covered: a new "measurement", including its noise, or the noise-free "truth"."""
        return self.traits.about

    @property
    def holds_for(self) -> str:
        """Models for which the guarantee holds, in words."""
        return self.traits.holds_for

    @property
    def used(self) -> Mapping[str, Observations]:
        """Observations used for training or learning, by role, such as "training" and "held-out"."""
        return {}

    def one_sided(self, side: Side | tuple[Side, ...]) -> Calibrated | None:
        """Return one-sided bounds, calibrated on the same points.

        Parameters
        ----------
        side
            "upper" or "lower", or one of "upper", "lower", "both" and "none" for each output.

        Returns
        -------
        Calibrated or None
            The bounds; None if the calibration keeps no points, or its sets have no ends of their own.
        """
        return None

    def excesses(self, prediction: Prediction, y: Array) -> tuple[Array, Array]:
        """Return how far targets lie below and above the prediction, in units of the score.

        Parameters
        ----------
        prediction
            The prediction at the points.
        y
            Targets, shape (n, m).

        Returns
        -------
        tuple of Array
            Signed excesses, each of shape (n, m).
        """
        raise TypeError(f"{self.name} has no score with two ends.")

    def shift_weights(self, prediction: Prediction) -> np.ndarray | None:
        """Return the weights of points under a covariate shift; None if there is no shift.

        Parameters
        ----------
        prediction
            The prediction at the points.

        Returns
        -------
        np.ndarray or None
            One weight per point, shape (n,).
        """
        return None

    def constant_width(self) -> Calibrated | None:
        """Return the baseline of constant width, calibrated on the same points with the same guarantee.

        Returns
        -------
        Calibrated or None
            The baseline; None if it cannot be built.
        """
        return None

    def around(self, prediction: Prediction) -> Calibrated | None:
        """Return the same calibration with other predictions of the same targets.

        Parameters
        ----------
        prediction
            Predictions at the calibration points.

        Returns
        -------
        Calibrated or None
            The calibration of these predictions with the same guarantee; None if it cannot be built.
        """
        return None

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """Return the uncalibrated band from the predictor's own scale.

        Parameters
        ----------
        prediction
            The prediction at the new points.
        level
            Nominal coverage, strictly between 0 and 1.

        Returns
        -------
        Band or None
            The band without a guarantee; None if the predictor has no scale.
        """
        return None

    def misses(self, level: Level) -> np.ndarray | None:
        """Return the error at each calibration point relative to the size of its set.

        Parameters
        ----------
        level
            Requested coverage, strictly between 0 and 1.

        Returns
        -------
        np.ndarray or None
            Ratios, shape (n,), above 1 outside the set; None if unknown.
        """
        return None

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return numbers that must not change when the calibration is saved and loaded.

        Returns
        -------
        dict of str to np.ndarray
            Arrays by name.
        """
        return {}

    def as_module(self, level: Level) -> Any:
        """Return the set at a level as a torch module x -> (mean, lower, upper), for `gb.export_onnx`.

        Parameters
        ----------
        level
            Requested coverage, strictly between 0 and 1.

        Returns
        -------
        torch.nn.Module
            The module.
        """
        return import_module("guardband.export.modules").module_of(self, level)
