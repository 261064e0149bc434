"""Outputs: a subset of a predictor's outputs, such as the measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array, flat, to_numpy
from guardband.base.computed import computed
from guardband.base.kept import kept
from guardband.values import Names, Observations, Prediction, Predictor


@kept
@dataclass(frozen=True, eq=False)
class Outputs(Predictor):
    """A predictor restricted to some of its outputs; a band around it has no guarantee for the others.

    `gb.calibrate(model, x_cal, y_cal, outputs=("u", "v"))` creates one.

    Parameters
    ----------
    predictor
        Predictor of all outputs.
    columns
        Indices of the outputs that are kept.
    outputs
        Names of all outputs of the predictor.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> both = gb.predictors.MeanOnly(lambda x: np.concatenate([x, x**2], axis=1))
    >>> gb.predictors.Outputs(both, (1,))([2.0]).mean
    array([[4.]])
    """

    predictor: Predictor
    columns: tuple[int, ...]
    outputs: tuple[str, ...] = field(default=(), kw_only=True)
    takes_frames: ClassVar[bool] = computed(lambda self: self.predictor.takes_frames)

    @classmethod
    def named(cls, predictor: Predictor, outputs: str | int | Sequence[str | int], m: int) -> Outputs:
        """Select outputs by name or index.

        Parameters
        ----------
        predictor
            Predictor of all outputs.
        outputs
            Names or indices of the outputs to keep.
        m
            Number of outputs of the predictor.

        Returns
        -------
        Outputs
            The restricted predictor.
        """
        names = predictor.field_names or Names.numbered((), m)
        columns = names.positions(outputs)
        if len({*columns}) != len(columns):
            raise ValueError(f"`outputs` should contain no duplicates, got {outputs!r}.")
        return cls(predictor, columns, outputs=names.outputs)

    def __call__(self, x: Array) -> Prediction:
        """Predict at x (n, d)."""
        return self._of(self.predictor(x))

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points with the predictor's own `at_training`."""
        return self._of(self.predictor.at_training(x_train))

    def _of(self, prediction: Prediction) -> Prediction:
        parts = {part.name: getattr(prediction, part.name) for part in fields(prediction) if part.init}
        chosen = list(self.columns)
        cut = {n: v[..., chosen] for n, v in parts.items() if n != "x" and v is not None}
        return replace(prediction, **cut)

    @property
    def scope(self) -> str:
        """A sentence that names the outputs that a band covers, and those that it does not."""
        chosen = [self.outputs[j] for j in self.columns] if self.outputs else []
        left = [name for name in self.outputs if name not in chosen]
        return f"It is about {_listed(chosen)}; nothing is promised about {_listed(left)}." if left else ""

    @property
    def field_names(self) -> Names | None:
        """The names of axes and outputs."""
        known = self.predictor.field_names
        return known and replace(known, outputs=tuple(known.outputs[j] for j in self.columns))

    @computed
    def training_data(self) -> Observations | None:
        """The training rows in which all of these outputs were measured."""
        known = self.predictor.training_data
        if known is None:
            return None
        y = to_numpy(known.y)[..., list(self.columns)]
        rows = ~np.isnan(flat(y)).any(axis=1)
        return Observations(to_numpy(known.x)[rows], y[rows], known.names) if rows.any() else None


def _listed(words: list[str]) -> str:
    """Words as an enumeration: "u", "u and v", "u, v and p"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
