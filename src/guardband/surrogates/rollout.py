"""Rollout: a one-step model, applied repeatedly, as a predictor of trajectories."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from guardband.base.arrays import Array, ArrayLike, like, namespace, rows, to_numpy
from guardband.base.kept import kept
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level
from guardband.predictors.models import Model, call_model
from guardband.surrogates.growth import fitted_growth, powers, sizes
from guardband.surrogates.horizon import horizon
from guardband.values import Observations, Prediction, Predictor
from guardband.values.labeled import field_pair


@kept
@dataclass(frozen=True, eq=False)
class Rollout(Predictor):
    """A predictor of trajectories by a one-step model: from a state (n, *grid, m) to (n, steps, *grid, m).

    Parameters
    ----------
    step_model
        Model that maps a state to the next one, of the same shape.
    steps
        Number of steps, each of which evaluates the model once.
    growth
        Scale of each step, shape (steps,); learned by `shaped`.
    power
        Power of the size of the initial state in the scale; learned by `shaped`.
    training_data
        Trajectories that the model was trained on; calibration refuses them.
    held_out
        Trajectories that the shape was learned from; calibration refuses them too.

    Notes
    -----
    One row is one trajectory and has one score: `score=gb.Simultaneous()` covers a new trajectory at all
    steps and nodes at once. Targets name their axes, with time first: `gb.Fields(y, dims=("t", "x"))`. Errors
    grow from step to step and with the size of the initial state; `rollout.shaped(x, y)` learns both from
    trajectories that are not used for calibration.

    Examples
    --------
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
            raise ValueError(f"`steps` should be a positive integer, got {self.steps!r}.")

    def __call__(self, x: Array) -> Prediction:
        """Return the trajectories that start at x, with the learned shape, if any, as their scale."""
        state = rows(x, "x")
        states = []
        for step in range(1, self.steps + 1):
            new = call_model(self.step_model, state)
            if new.shape != state.shape:
                raise ValueError(
                    f"A step should return a state of the same shape, {tuple(state.shape)}, got "
                    f"{tuple(new.shape)} at step {step}."
                )
            if not bool(namespace(new).isfinite(new).all()):
                row = int(np.argwhere(~np.isfinite(to_numpy(new)))[0][0])
                raise ValueError(
                    f"The rollout of row {row} is no longer finite at step {step}. Use fewer steps, or "
                    "also train the step model on its own predictions."
                )
            states.append(new)
            state = new
        mean = namespace(state).stack(states, 1)
        return Prediction(x, mean, self._scale(x, mean))

    def shaped(self, x: ArrayLike, y: ArrayLike) -> Rollout:
        """Return a copy whose scale depends on the step and on the size of the initial state.

        Parameters
        ----------
        x, y
            Initial states, shape (n, *grid, m), and their trajectories, shape (n, steps, *grid, m).
            Calibration refuses these trajectories.

        Returns
        -------
        Rollout
            The rollout with its scale.

        Notes
        -----
        The largest error at each step is modeled as the growth of that step times a power of the size of the
        initial state. Both are fitted by least squares in logarithms.

        Examples
        --------
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
                f"`y` should have the shape of the predicted trajectories, {tuple(mean.shape)}, got "
                f"{tuple(seen.y.shape)}. Its axes are (n, steps, *grid, m), without the initial state."
            )
        if len(seen) < 2:
            raise ValueError("Learning a shape needs at least two trajectories, got one.")
        misses = abs(to_numpy(seen.y).astype(float) - to_numpy(mean))
        growth, power = fitted_growth(sizes(seen.x), misses.reshape(len(mean), self.steps, -1).max(axis=2))
        return replace(self, growth=growth, power=power, held_out=seen)

    def remarks(self, calibrated: Calibrated, prediction: Prediction, level: Level) -> list[str]:
        """The horizon, if there is one."""
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
