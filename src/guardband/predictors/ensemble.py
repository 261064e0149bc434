"""Ensemble: the disagreement of several models, trained from different seeds, as a scale."""

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
    """The mean and standard deviation over models that were trained in the same way from different seeds.

    Parameters
    ----------
    members
        At least two models: torch modules, functions or results of `pinn.fit`.
    training_data
        Observations that the members were trained on, by default those of the first member that carries any.

    Notes
    -----
    The cost is one training run per member, and one evaluation of each member per point.

    Examples
    --------
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
        """Train an ensemble; deprecated since 0.3, use `pinn.predictors.train_ensemble`.

        Parameters
        ----------
        *args, **options
            Passed to `pinn.predictors.train_ensemble`.

        Returns
        -------
        Ensemble
            The trained ensemble.
        """
        now = "pinn.predictors.train_ensemble"
        warnings.warn(f"Ensemble.train is now {now}.", DeprecationWarning, stacklevel=2)
        return extras.load(f"guardband.{now.rpartition('.')[0]}", "pinn").train_ensemble(*args, **options)

    def __call__(self, x: Array) -> Prediction:
        """Return mean and standard deviation over the members, with memory independent of their number."""
        mean = squares = np.zeros(1)
        for i, member in enumerate(self.members):
            output = to_numpy(call_model(member, x)).astype(float)
            change = output - mean
            mean = mean + change / (i + 1)
            squares = squares + change * (output - mean)
        return Prediction(x, like(x, mean), like(x, np.sqrt(squares / (len(self.members) - 1))))

    def __repr__(self) -> str:
        return f"Ensemble({len(self.members)} members)"
