"""JAX: a function of jax arrays as a predictor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardband.base.arrays import to_numpy
from guardband.base.extras import load
from guardband.predictors import MeanOnly
from guardband.values import Observations


def from_jax(function: Callable[[Any], Any], *, training_data: Observations | None = None) -> MeanOnly:
    """A function of jax arrays, equally unsure everywhere: x (n, d) to outputs (n, m).

    `lambda x: net.apply(params, x)` for flax, `jax.vmap(net)` for equinox. JAX computes in float32 unless
    `jax_enable_x64` is set, and a jitted function is compiled anew for every number of rows. A function of
    numpy arrays needs no adapter: `gb.calibrate(function, x, y)`.

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
