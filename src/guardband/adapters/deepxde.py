"""DeepXDE: a `deepxde.Model` as a predictor."""

from __future__ import annotations

from contextlib import nullcontext

from guardband.base.arrays import Array, to_numpy
from guardband.base.extras import load
from guardband.predictors import MeanOnly
from guardband.predictors.models import Model, evaluating, is_module
from guardband.values import Observations


def from_deepxde(model: Model, *, training_data: Observations | None = None) -> MeanOnly:
    """Return a trained `deepxde.Model` as a predictor without a scale.

    Parameters
    ----------
    model
        Trained model, with any backend of DeepXDE. It computes in DeepXDE's dtype, by default float32.
    training_data
        Observations that the model was trained on; calibration refuses them.

    Returns
    -------
    MeanOnly
        Predictor that calls `model.predict` at points, shape (n, d).

    Notes
    -----
    A DeepONet takes a pair of arrays. Wrap it in a function that splits one array into this pair, and pass
    the function to `gb.predictors.MeanOnly`.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband.adapters import from_deepxde
    >>> model.train(iterations=1000)  # doctest: +SKIP
    >>> calibrated = gb.calibrate(from_deepxde(model), x_cal, y_cal)  # doctest: +SKIP
    """
    deepxde = load("deepxde", package="deepxde")
    if not isinstance(model, deepxde.Model):
        raise TypeError(
            f"`model` should be a deepxde.Model, got {type(model).__name__}. If its network "
            "is a torch module, it needs no adapter: gb.calibrate(net, x, y)."
        )
    if model.opt_name is None:
        raise ValueError(
            "`model` should be compiled and trained, but it is not compiled. Call model.compile(...) and "
            "model.train(...), or model.restore(...), first."
        )

    def predict(x: Array) -> Array:
        net = model.net
        with evaluating(net) if is_module(net) else nullcontext():
            return model.predict(to_numpy(x))

    return MeanOnly(predict, training_data=training_data)
