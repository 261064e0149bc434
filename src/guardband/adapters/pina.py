"""PINA: a solver of pina-mathlab as a predictor."""

from __future__ import annotations

from guardband.base.arrays import Array, to_torch
from guardband.base.extras import load
from guardband.predictors import MeanOnly
from guardband.predictors.models import Model, evaluating
from guardband.values import Observations


def from_pina(solver: Model, *, training_data: Observations | None = None) -> MeanOnly:
    """Return a trained PINA solver as a predictor without a scale.

    Parameters
    ----------
    solver
        Trained solver. The columns of x, shape (n, d), are `solver.problem.input_variables` in that order:
        space in alphabetical order, then time, then parameters.
    training_data
        Observations that the solver was trained on; calibration refuses them.

    Returns
    -------
    MeanOnly
        Predictor that calls the solver with plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> from guardband.adapters import from_pina
    >>> names = solver.problem.input_variables  # doctest: +SKIP
    >>> x_cal = np.stack([columns[name] for name in names], axis=1)  # doctest: +SKIP
    >>> calibrated = gb.calibrate(from_pina(solver), x_cal, y_cal)  # doctest: +SKIP
    """
    torch = load("torch", "pinn")
    pina, solvers = (load(name, package="pina-mathlab") for name in ("pina", "pina.solver"))
    if not isinstance(solver, solvers.SolverInterface):
        raise TypeError(
            f"`solver` should be a PINA solver, got {type(solver).__name__}. A torch module needs no "
            "adapter: gb.calibrate(model, x, y)."
        )
    if isinstance(solver, solvers.EnsembleSolver):
        raise TypeError(
            f"`solver` should have one model, but {type(solver).__name__} has several. Their disagreement "
            "can be the scale: gb.predictors.Ensemble(list(solver.models))."
        )
    names = list(solver.problem.input_variables or [])  # None if the problem has no labels

    def predict(x: Array) -> Array:
        if solver.use_lt and tuple(x.shape[1:]) != (len(names),):
            raise ValueError(
                f"`x` should have one column for each of {names}, in this order, got shape {tuple(x.shape)}."
            )
        points = to_torch(x).to(next(solver.parameters()))
        with evaluating(solver), torch.no_grad():
            values = solver(pina.LabelTensor(points, names) if solver.use_lt else points)
        return values.as_subclass(torch.Tensor)

    return MeanOnly(predict, training_data=training_data)
