"""Predictions, and the interface of predictors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from guardband.base.arrays import (
    Array,
    Index,
    finite,
    kind_of,
    like,
    limits_of,
    refuse_other_length,
    refuse_other_shape,
    rows,
    to_numpy,
)
from guardband.base.kept import kept
from guardband.values.frames import is_frame, only_numbers
from guardband.values.labeled import Axes, arranged_targets, opened_targets, several
from guardband.values.names import Names
from guardband.values.observations import Observations

MODEL = "The model returned this value. Check the model, or omit that point."


@kept
@dataclass(frozen=True, eq=False)
class Prediction:
    """A prediction at points: the mean and, optionally, the scale of its error.

    Parameters
    ----------
    x
        Points, shape (n, d), or None if they are unknown. Methods that use the points then raise an error.
    mean
        The predicted values, shape (n, m). For whole fields, one row is one field: (N, points, m), or
        (N, *grid, m) if `gb.Fields` names the axes.
    scale
        The expected size of the error, in the units of the mean and with its shape, or None. It should be
        large where the error is likely to be large. Calibration corrects its overall size.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.Prediction(None, [1.0, 2.0], [0.1, 0.2]).mean.shape
    (2, 1)
    """

    x: Array | None
    mean: Array
    scale: Array | None = None

    def __post_init__(self) -> None:
        mean, x, scale = self.mean, self.x, self.scale
        if type(mean) is not np.ndarray:
            mean, axes, _ = opened_targets(mean, "mean")
            vars(self).update(targets=axes)
            scale = None if scale is None else arranged_targets(scale, several(axes), "scale")
        mean = finite(rows(mean, "mean"), "mean", MODEL)
        if x is not None:
            if is_frame(x):
                vars(self).update(columns=tuple(x.columns))
                x = only_numbers(x, "gb.Prediction")
            x = kind_of(mean, rows(x, "x"))
            if len(x) != len(mean):
                refuse_other_length("x", x, "mean", mean)
        if scale is not None:
            scale = finite(like(mean, rows(scale, "scale")), "scale", MODEL)
            refuse_other_shape("scale", scale, "mean", mean)
            if bool((scale < 0).any()):
                row = int(np.argwhere(to_numpy(scale) < 0)[0][0])
                raise ValueError(f"`scale` should not be negative, but row {row} is. Use its absolute value.")
        vars(self).update(x=x, mean=mean, scale=scale)  # the class is frozen

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def parts(self) -> dict[str, Array]:
        """The arrays of the prediction except x, by name: the mean, the scale, and those of a subclass."""
        known = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return {name: values for name, values in known.items() if name != "x" and values is not None}

    @property
    def own_score(self) -> Any:
        """The default score for predictions of this class; None for the general default."""
        return None

    def take(self, rows: Index) -> Self:
        """Select rows.

        Parameters
        ----------
        rows
            A slice, integer indices or booleans.

        Returns
        -------
        Prediction
            The prediction at these rows.
        """
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return type(self)(**{name: None if v is None else v[rows] for name, v in parts.items()})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate predictions.

        Parameters
        ----------
        parts
            The predictions, in order.

        Returns
        -------
        Prediction
            All rows, in numpy arrays.
        """
        names = [part.name for part in fields(cls) if part.init]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        return cls(
            **{
                name: None if column[0] is None else np.concatenate([to_numpy(v) for v in column])
                for name, column in columns.items()
            }
        )

    def __repr__(self) -> str:
        scale = "no scale" if self.scale is None else "with a scale"
        return f"Prediction({len(self)} points, mean {tuple(self.mean.shape)}, {scale})"

    @cached_property
    def remembered(self) -> dict[int, tuple[Any, Any]]:
        """A cache of derived results: (object, result) by the id of the object that computed it."""
        return {}

    @cached_property
    def columns(self) -> tuple[str | int, ...] | None:
        """The names of the columns of x, if x was passed as a DataFrame."""
        return None

    @cached_property
    def targets(self) -> Axes | None:
        """The names of the axes and outputs of the mean, if it was passed with names."""
        return None

    @cached_property
    def outward(self) -> tuple[Array, Array]:
        """The mean rounded down and up by 4 ulp, so that no point is lost to rounding of the band.

        It is cached because a sweep over levels needs it at every level.
        """
        limits = limits_of(self.mean)
        slack = abs(self.mean)
        slack *= 4 * limits.eps
        slack += limits.tiny
        low = self.mean - slack
        slack += self.mean
        return low, slack


class Predictor(ABC):
    """The interface of predictors: `predictor(x)` returns a `Prediction`.

    A predictor must be a fixed function: a point gets the same prediction at every call, alone or in a batch.
    A function that returns a `Prediction` can be used in place of a `Predictor`.

    Attributes
    ----------
    takes_frames
        Whether the predictor takes a DataFrame. Otherwise it receives the numbers of a DataFrame as an array.
    training_data
        The observations used for training, if known. Calibration refuses rows that are among them.
    held_out
        The observations used for validation during training, if known. Calibration refuses these too.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> def predictor(x):
    ...     return gb.Prediction(x, np.sin(x), scale=0.1 + x**2)
    >>> x = np.linspace(0, 1, 50)
    >>> gb.calibrate(predictor, x, np.sin(x) + 0.1 * np.cos(50 * x))([0.5], level=0.9)
    Band(level=0.9, 1 points)
    """

    takes_frames: ClassVar[bool] = False
    training_data: Observations | None = None
    held_out: Observations | None = None

    @property
    def scope(self) -> str:
        """A sentence for the promise if the band covers only some outputs of the model, or ""."""
        return ""

    @property
    def learned_shape(self) -> str:
        """A sentence on the data from which the scale was learned before calibration, or ""."""
        return ""

    def remarks(self, calibrated: Any, prediction: Prediction, level: Any) -> list[str]:
        """Return sentences to print with the coverage of a calibrated band.

        Parameters
        ----------
        calibrated
            The `Calibrated` object around this predictor.
        prediction
            The prediction at the test points.
        level
            The requested coverage.

        Returns
        -------
        list of str
            The sentences; most predictors have none.
        """
        return []

    def caution(self, x: Array) -> str | None:
        """Return a warning about calibration points, such as points outside the domain of a fitted PINN.

        Parameters
        ----------
        x
            Calibration points, shape (n, d).

        Returns
        -------
        str or None
            The warning, from one of the objects in `held`, or None.
        """
        found = (one.caution(x) for one in self.held() if callable(getattr(one, "caution", None)))
        return next((words for words in found if words is not None), None)

    @property
    def field_names(self) -> Names | None:
        """The names of axes and outputs, if one of the objects in `held` has them, such as a fitted PINN."""
        known = (getattr(one, "names", None) for one in self.held())
        return next((names for names in known if isinstance(names, Names)), None)

    def held(self) -> list[Any]:
        """Return the objects that the predictor is composed of.

        Returns
        -------
        list
            The attributes `fitted`, `model`, `net`, `function` and `predictor` and the items of `members`,
            if they exist.
        """
        names = ("fitted", "model", "net", "function", "predictor")
        found = [getattr(self, name, None) for name in names]
        return [one for one in (*found, *getattr(self, "members", ())) if one is not None]

    @abstractmethod
    def __call__(self, x: Array) -> Prediction:
        """Predict at x (n, d)."""

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points.

        Parameters
        ----------
        x_train
            Training points, shape (n, d).

        Returns
        -------
        Prediction
            Leave-one-out predictions if the predictor can compute them, and ordinary ones otherwise.
        """
        return self(x_train)

    @property
    def estimator(self) -> Any:
        """The scikit-learn regressor that predicts the mean, or None."""
        return None
