"""JAX: a function of jax arrays as a predictor."""

from __future__ import annotations

from collections.abc import Callable

from guardband.base.arrays import Array, to_numpy
from guardband.base.extras import load
from guardband.predictors import MeanOnly
from guardband.values import Observations


def from_jax(function: Callable[[Array], Array], *, training_data: Observations | None = None) -> MeanOnly:
    """Return a function of JAX arrays as a predictor without a scale.

    Parameters
    ----------
    function
        Function from points, shape (n, d), to outputs, shape (n, m): `lambda x: net.apply(params, x)` for
        flax, `jax.vmap(net)` for equinox.
    training_data
        Observations that the function was fitted to; calibration refuses them.

    Returns
    -------
    MeanOnly
        Predictor that calls the function.

    Notes
    -----
    JAX computes in float32 unless `jax_enable_x64` is set, and compiles a jitted function again for every
    number of rows. A function of numpy arrays needs no adapter: `gb.calibrate(function, x, y)`.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband.adapters import from_jax
    >>> predictor = from_jax(lambda x: net.apply(params, x))  # doctest: +SKIP
    >>> calibrated = gb.calibrate(predictor, x_cal, y_cal)  # doctest: +SKIP
    """
    jnp = load("jax.numpy", package="jax")
    if not callable(function):
        raise TypeError(
            f"`function` should be callable, got {type(function).__name__}. Bind the parameters first: "
            "lambda x: net.apply(params, x)."
        )
    return MeanOnly(lambda x: function(jnp.asarray(to_numpy(x))), training_data=training_data)
