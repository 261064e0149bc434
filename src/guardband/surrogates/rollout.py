"""Rollout: a model of one step, applied again and again, as a predictor of whole trajectories."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from guardband.base.arrays import Array, ArrayLike, like, namespace, rows, to_numpy
from guardband.base.kept import kept
from guardband.predictors.models import Model, call_model
from guardband.surrogates.growth import fitted_growth, powers, sizes
from guardband.surrogates.horizon import horizon
from guardband.values import Observations, Prediction, Predictor
from guardband.values.labeled import field_pair


@kept
@dataclass(frozen=True, eq=False)
class Rollout(Predictor):
    """From a state x (n, *grid, m) to the next `steps` states, (n, steps, *grid, m), by a model of one step.

    One row is one trajectory, and has one score: `score=gb.Simultaneous()` holds a new trajectory at all
    steps and nodes at once. Errors grow from step to step, and with the size of the state that they start
    from: `rollout.shaped(x, y)` learns both from other trajectories than those of the calibration. The
    targets name their axes, time first: `gb.Fields(y, dims=("t", "x"))`.
    Cost: as many evaluations of the model as there are steps.

    >>> import numpy as np
    >>> import guardband as gb
    >>> rollout = gb.Rollout(lambda u: 0.9 * u, steps=3)
    >>> rollout(np.ones((2, 5, 1))).mean[0, :, 0, 0].round(3).tolist()
    [0.9, 0.81, 0.729]
    """

    step_model: Model
    steps: int
    growth: np.ndarray | None = None
    power: float = 0.0
    training_data: Observations | None = field(default=None, kw_only=True)
    held_out: Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"`steps` should be a whole number of steps, at least 1, got {self.steps!r}.")

    def __call__(self, x: Array) -> Prediction:
        """The trajectories that start at x, and the shape that was learned, if any, as their scale."""
        state = rows(x, "x")
        found = []
        for step in range(1, self.steps + 1):
            new = call_model(self.step_model, state)
            if new.shape != state.shape:
                raise ValueError(
                    f"A step should give a state of the same shape, {tuple(state.shape)}, got "
                    f"{tuple(new.shape)} at step {step}."
                )
            if not bool(namespace(new).isfinite(new).all()):
                row = int(np.argwhere(~np.isfinite(to_numpy(new)))[0][0])
                raise ValueError(
                    f"The rollout of row {row} is no longer finite at step {step}. Take fewer steps, or "
                    "train the step on its own answers too."
                )
            found.append(new)
            state = new
        mean = namespace(state).stack(found, 1)
        return Prediction(x, mean, self._scale(x, mean))

    def shaped(self, x: ArrayLike, y: ArrayLike) -> Rollout:
        """The same with a shape by step and by size of input, learned from trajectories x, y of their own.

        The largest miss at each step is the growth of that step times a power of the input's size; both are
        the least-squares ones of the logarithms. Calibration refuses these trajectories.

        >>> import numpy as np
        >>> import guardband as gb
        >>> x = np.exp(np.random.default_rng(0).normal(size=(20, 1, 1))) * np.ones((20, 5, 1))
        >>> y = np.stack([0.8 * x, 0.7 * x], axis=1)
        >>> rollout = gb.Rollout(lambda u: 0.9 * u, steps=2).shaped(x, y)
        >>> rollout.growth.round(2), round(rollout.power, 2)
        (array([0.1 , 0.11]), 1.0)
        """
        seen = Observations(*field_pair(x, y))
        mean = replace(self, growth=None)(seen.x).mean
        if seen.y.shape != mean.shape:
            raise ValueError(
                f"`y` should be trajectories like those predicted, {tuple(mean.shape)}, got "
                f"{tuple(seen.y.shape)}: (n, steps, *grid, m), without the state that they start from."
            )
        if len(seen) < 2:
            raise ValueError("A shape is learned from two trajectories or more, got one.")
        misses = abs(to_numpy(seen.y).astype(float) - to_numpy(mean))
        growth, power = fitted_growth(sizes(seen.x), misses.reshape(len(mean), self.steps, -1).max(axis=2))
        return replace(self, growth=growth, power=power, held_out=seen)

    def remarks(self, calibrated: Any, prediction: Prediction, level: Any) -> list[str]:
        """The horizon, where it is known."""
        found = horizon(calibrated, prediction, level)
        return [] if found is None else [str(found)]

    def __repr__(self) -> str:
        shape = "" if self.growth is None else f", shape by step and size^{self.power:.2g}"
        return f"Rollout({self.steps} steps{shape})"

    def _scale(self, x: Array, mean: Array) -> Array | None:
        if self.growth is None:
            return None
        scale = np.multiply.outer(powers(x, self.power), self.growth)
        scale = scale.reshape(*scale.shape, *[1] * (mean.ndim - 2))
        return like(mean, np.broadcast_to(scale, tuple(mean.shape)).copy())
