"""A band for a JAX network: u'' + u = 0 on [0, 6], with u(0) = 0 and u'(0) = 1."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

import guardband as gb
from guardband.adapters import from_jax


def trained() -> Callable[[jax.Array], jax.Array]:
    """A network trained on the equation alone, as a function of x (n, 1)."""
    keys = jax.random.split(jax.random.key(0), 2)
    sizes = [(1, 24), (24, 24), (24, 1)]
    layers = [
        (0.5 * jax.random.normal(keys[i % 2], s), jnp.zeros(s[1]))
        for i, s in enumerate(sizes)
    ]
    start, unravel = ravel_pytree(layers)

    def network(weights: jax.Array, t: jax.Array) -> jax.Array:
        *hidden, (last, offset) = unravel(weights)
        value = jnp.atleast_1d(t)
        for matrix, bias in hidden:
            value = jnp.tanh(value @ matrix + bias)
        return (t + t**2 * (value @ last + offset))[
            0
        ]  # u = 0 and u' = 1 at the start, exactly

    velocity = jax.grad(network, argnums=1)
    acceleration = jax.grad(velocity, argnums=1)
    times = jnp.linspace(0, 6, 100)

    def loss(weights: jax.Array) -> jax.Array:
        def residual(t: jax.Array) -> jax.Array:
            return acceleration(weights, t) + network(weights, t)

        return jnp.mean(jax.vmap(residual)(times) ** 2)

    slope = jax.jit(jax.value_and_grad(loss))
    found = minimize(
        slope, np.asarray(start), jac=True, method="L-BFGS-B", options={"maxiter": 1500}
    )
    weights = jnp.asarray(found.x)
    return jax.jit(lambda x: jax.vmap(lambda t: network(weights, t))(x[:, 0])[:, None])


def truth(x: np.ndarray) -> np.ndarray:
    """The solution."""
    return np.sin(x)


def measured(n: int, seed: int) -> gb.Observations:
    """Readings at n random times, with noise of 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 6, size=(n, 1))
    return gb.Observations(x, truth(x) + 0.05 * rng.normal(size=(n, 1)))


if __name__ == "__main__":
    calibrated = gb.calibrate(from_jax(trained()), *measured(100, seed=1))
    print(gb.evaluate(calibrated, *measured(1000, seed=2)))
