"""Predictions: what a predictor believes, and what a predictor is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from guardband.base.arrays import Array, finite, kind_of, like, limits_of, rows, to_numpy
from guardband.base.kept import kept
from guardband.values.frames import is_frame, only_numbers
from guardband.values.labeled import Axes, arranged_targets, opened_targets, several
from guardband.values.names import Names
from guardband.values.observations import Observations
from guardband.values.parts import same_length, same_shape

MODEL = "It is what the model answered there; look at the model, or leave that point out."


@kept
@dataclass(frozen=True, eq=False)
class Prediction:
    """What a predictor believes at x (n, d): the mean (n, m) and how unsure it is, the scale (n, m).

    The scale is in the units of the mean and says where the error is likely to be large; it need
    not be right, calibration takes care of its size. `scale=None` is a predictor that has none.
    `x=None` is for arrays that came without their points; methods that look at x will ask for it.
    A batch of N whole fields is (N, points, m) throughout, or (N, *grid, m) where `gb.Fields` names the axes:
    one row is one field.

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
                same_length("x", x, "mean", mean)
        if scale is not None:
            scale = finite(like(mean, rows(scale, "scale")), "scale", MODEL)
            same_shape("scale", scale, "mean", mean)
            if bool((scale < 0).any()):
                row = int(np.argwhere(to_numpy(scale) < 0)[0][0])
                raise ValueError(f"`scale` should not be negative, but row {row} is. Use its size.")
        vars(self).update(x=x, mean=mean, scale=scale)  # it is frozen for everybody else

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def parts(self) -> dict[str, Array]:
        """What is believed, by name: the mean, the scale if there is one, and what a subclass adds."""
        known = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return {name: values for name, values in known.items() if name != "x" and values is not None}

    @property
    def own_score(self) -> Any:
        """The score that is made for such predictions, where nobody chooses one; None if none is."""
        return None

    def take(self, rows: Any) -> Self:
        """The same at some rows: a slice, indices or booleans."""
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return type(self)(**{name: None if v is None else v[rows] for name, v in parts.items()})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Predictions one after the other as a single one, in numpy."""
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
        """What was computed of this prediction, by the id of the object that did so, and that object."""
        return {}

    @cached_property
    def columns(self) -> tuple[str | int, ...] | None:
        """The names of the columns of x, if it was given as a frame."""
        return None

    @cached_property
    def targets(self) -> Axes | None:
        """The names of the axes and outputs of the mean, if it was given with any."""
        return None

    @cached_property
    def outward(self) -> tuple[Array, Array]:
        """The mean rounded down and up by 4 ulp: where a band starts, so that rounding loses no point.

        Kept here because a sweep over levels needs it once.
        """
        limits = limits_of(self.mean)
        slack = abs(self.mean)
        slack *= 4 * limits.eps
        slack += limits.tiny
        low = self.mean - slack
        slack += self.mean
        return low, slack


class Predictor(ABC):
    """Anything that says what it believes and how unsure it is: `predictor(x) -> Prediction`.

    It must be a fixed function: the same x gives the same answer, alone or among others. A predictor that
    knows what it was trained on carries it as `training_data`, so that calibration can refuse rows it has
    seen. A function that returns a `Prediction` will do in its place. Of a DataFrame it is given the numbers,
    unless `takes_frames`.

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
    """Readings that its training was watched by, which calibration refuses too."""

    @property
    def scope(self) -> str:
        """A sentence for the promise, where a band around it is not about all that the model answers."""
        return ""

    @property
    def learned_shape(self) -> str:
        """A sentence on what its scale was learned from before calibration, where that is known."""
        return ""

    def remarks(self, calibrated: Any, prediction: Prediction, level: Any) -> list[str]:
        """Sentences that belong beside the coverage of a calibrated band around it; most have none."""
        return []

    def caution(self, x: Array) -> str | None:
        """What the user should know of calibration points x, as what it holds has it; None if all is well.

        A fitted PINN says which of them lie outside of the domain of its equation.
        """
        found = (one.caution(x) for one in self.held() if callable(getattr(one, "caution", None)))
        return next((words for words in found if words is not None), None)

    @property
    def field_names(self) -> Names | None:
        """What axes and outputs are called, where what it holds knows: a fitted PINN, or its network."""
        known = (getattr(one, "names", None) for one in self.held())
        return next((names for names in known if isinstance(names, Names)), None)

    def held(self) -> list[Any]:
        """What it is made of, as far as can be seen: a fitted PINN, a model, a function, its members."""
        words = ("fitted", "model", "net", "function", "predictor")
        found = [getattr(self, word, None) for word in words]
        return [one for one in (*found, *getattr(self, "members", ())) if one is not None]

    @abstractmethod
    def __call__(self, x: Array) -> Prediction:
        """Predict at x (n, d)."""

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points, as if each had been left out where that can be told; else as it is."""
        return self(x_train)

    @property
    def estimator(self) -> Any:
        """The scikit-learn regressor whose answer is the mean, where it is one; else None."""
        return None
