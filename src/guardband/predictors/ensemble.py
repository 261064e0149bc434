"""Ensemble: several models trained alike from different starts; where they disagree, they are unsure."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from guardband.base import extras
from guardband.base.arrays import Array, like, to_numpy
from guardband.base.kept import kept
from guardband.predictors.models import Model, call_model
from guardband.values import Observations, Prediction, Predictor


@kept
class Ensemble(Predictor):
    """The mean and the standard deviation over models that were trained alike, from different seeds.

    The members are torch modules, functions or results of `fit`, two at least.
    Cost: as many trainings as there are members; per point one evaluation of each.

    >>> import numpy as np
    >>> import guardband as gb
    >>> gb.predictors.Ensemble([np.sin, np.cos])(np.array([[0.0]])).mean
    array([[0.5]])
    """

    def __init__(self, members: Sequence[Model], *, training_data: Observations | None = None) -> None:
        if len(members) < 2:
            raise ValueError(f"An ensemble needs at least two members, got {len(members)}.")
        self.members: tuple[Model, ...] = tuple(members)
        known = [training_data, *(getattr(member, "training_data", None) for member in members)]
        found = (data for data in known if isinstance(data, Observations))
        self.training_data: Observations | None = next(found, None)

    @classmethod
    def train(cls, *args: Any, **options: Any) -> Ensemble:
        """Train an ensemble: the name of 0.2 for `pinn.predictors.train_ensemble`."""
        now = "pinn.predictors.train_ensemble"
        warnings.warn(f"Ensemble.train is now {now}.", DeprecationWarning, stacklevel=2)
        return extras.load(f"guardband.{now.rpartition('.')[0]}", "pinn").train_ensemble(*args, **options)

    def __call__(self, x: Array) -> Prediction:
        """Mean and standard deviation over the members, one at a time: memory does not grow with them."""
        mean = squares = np.zeros(1)
        for i, member in enumerate(self.members):
            output = to_numpy(call_model(member, x)).astype(float)
            change = output - mean
            mean = mean + change / (i + 1)
            squares = squares + change * (output - mean)
        return Prediction(x, like(x, mean), like(x, np.sqrt(squares / (len(self.members) - 1))))

    def __repr__(self) -> str:
        return f"Ensemble({len(self.members)} members)"
